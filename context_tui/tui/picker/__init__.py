"""Picker of sessions."""
