"""Services for the program as a whole: configuration, saved state, plug-ins and signals."""
