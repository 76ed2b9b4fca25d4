"""Pane that shows a whole message as a document."""
