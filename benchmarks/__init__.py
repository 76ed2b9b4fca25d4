"""Sessions of any size, and the measures behind every budget. Not part of the package."""
