"""Cost of a session's calls at prompt-cache prices, with and without a policy."""
