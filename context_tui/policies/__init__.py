"""One file per system: its parameters, its trigger, its pure plan."""
