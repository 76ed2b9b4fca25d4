"""Sessions on this machine: their discovery, overviews, a cache for these, and following them as they grow."""
