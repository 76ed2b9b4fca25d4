"""Rows of the timeline with their marks, filters, turns and context events, without widgets."""
