"""The inspector: the timeline of one session with its panes."""
