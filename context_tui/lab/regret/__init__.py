"""Regret: content that a policy dropped and the recorded run needed later, and the bound of dropping without it."""
