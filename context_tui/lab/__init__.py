"""The tuning lab: replays of policies along recorded sessions, with their savings, costs and losses."""
