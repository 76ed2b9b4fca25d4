"""Export of sessions to new files, to their own file, or as a Markdown page."""
