"""Regret: content that a policy dropped and the recorded run needed later, and how much could be dropped without it."""
