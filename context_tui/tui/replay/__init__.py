"""Replay of policies along the recording: the context size at each call, the firings, and what they removed."""
