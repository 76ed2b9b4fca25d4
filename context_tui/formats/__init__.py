"""One module per on-disk format: sniff it, list its sessions, scan it, write it."""
