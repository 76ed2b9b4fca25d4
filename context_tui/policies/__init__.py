"""Compaction policies, their parameters and triggers, and the plans that they compute without side effects."""
