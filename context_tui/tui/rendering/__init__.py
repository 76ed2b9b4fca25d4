"""Session text as lines: formatting, wrapping, Markdown and syntax highlighting."""
