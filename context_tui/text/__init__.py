"""Text helpers that need no other module: sanitizing, number formatting, and private files."""
