"""Parts of TOML policies: each a small pydantic model, and its meaning for a context."""
