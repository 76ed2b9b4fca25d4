"""Cost of a recording at cache prices, and its cost with a policy: tokens read, written and sent, call by call."""
