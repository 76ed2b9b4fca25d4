"""Regret: content that a policy dropped and the recorded run needed later, and the amount to drop without regret."""
