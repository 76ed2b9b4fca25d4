"""The export screen."""
