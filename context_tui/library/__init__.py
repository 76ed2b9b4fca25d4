"""Sessions on this machine: discovery, overviews, cache, and following."""
