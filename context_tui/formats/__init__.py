"""Session formats: sniff a file, list its sessions, scan it, write it."""
