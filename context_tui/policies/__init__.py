"""Compaction policies: parameters, triggers and pure plans."""
