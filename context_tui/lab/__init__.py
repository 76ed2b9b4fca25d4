"""The tuning lab: policies replayed along recordings, with their prices and losses."""
