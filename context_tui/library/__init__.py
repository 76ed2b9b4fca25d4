"""Sessions on this machine: finding them, summing them up, caching what was read, and following their growth."""
