"""Regret: content that a policy dropped and the recorded run needed later, and a bound without regret."""
