"""Scripts that make what the repository ships: the sample sessions and the pictures."""
