"""Parts of TOML policies: pydantic models, and functions that apply them to a context."""
