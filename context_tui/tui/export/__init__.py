"""Export screen."""
