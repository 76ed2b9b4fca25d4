"""The sessions on this machine: found, summarised, cached and followed."""
