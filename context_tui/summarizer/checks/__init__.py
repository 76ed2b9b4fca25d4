"""Checks of a summary: which facts survive in it, and whether it is complete."""
