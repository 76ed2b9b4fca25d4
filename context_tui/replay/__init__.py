"""A policy along a recording: what it would have done at each call, and what the context would have been."""
