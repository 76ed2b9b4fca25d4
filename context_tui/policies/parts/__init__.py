"""The parts that a policy written as TOML is made of: each a small pydantic model, and what it means for a context."""
