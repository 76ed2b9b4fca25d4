"""Text and numbers: safe to draw, short to read; and private files."""
