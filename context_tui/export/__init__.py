"""Sessions written to new files, to their own file, or as a page to read."""
