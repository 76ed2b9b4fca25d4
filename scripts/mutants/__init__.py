"""A mutation run: break lines of the pure layers on purpose, and see whether a test notices."""
