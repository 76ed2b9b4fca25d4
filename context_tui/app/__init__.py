"""Services for the whole program: configuration, saved state, plug-ins and signals."""
