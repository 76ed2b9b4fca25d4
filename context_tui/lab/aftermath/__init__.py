"""Measurement of what an agent did after each recorded compaction, compared with similar points of the session."""
