"""Cost of a recording at cache prices, with and without a policy: tokens read, written and sent, call by call."""
