"""The sample sessions, one module for each, and what they are written with."""
