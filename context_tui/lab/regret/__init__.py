"""What a policy dropped and the recorded run used later; and what it could have dropped without that."""
