"""Rows of the timeline with their marks, filters, turns and context events, independent of widgets."""
