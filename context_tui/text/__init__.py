"""Text helpers without dependencies: sanitizing, number formatting, private files."""
