"""Program services: configuration, saved state, plug-ins, signals."""
