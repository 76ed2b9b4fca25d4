"""Measures of regret: content that a policy dropped although the recorded run needed it later."""
