"""What a recording cost at cache prices, and what it costs with a policy: read, written and sent anew, call by call."""
