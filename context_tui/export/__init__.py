"""Export of sessions to a new file, to their own file, or to a Markdown page."""
