"""Sweep of many settings along the recording: a table, a plot with the Pareto front, and a key to adopt a setting."""
