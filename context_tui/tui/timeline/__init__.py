"""The rows of a timeline, with their marks, filters, turns and context events; no widgets."""
