"""The tuning lab: replays of policies along recorded sessions, with what they save, cost and lose."""
