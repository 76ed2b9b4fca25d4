"""The inspector: a Textual application over the model. Only the command line imports it, inside a function."""
