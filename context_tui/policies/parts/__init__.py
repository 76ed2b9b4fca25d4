"""Parts of policies written in TOML: pydantic models, and the functions that apply them to a context."""
