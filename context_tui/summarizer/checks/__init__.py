"""Checks on a summary: which facts from the history survive in it, and whether it is complete."""
