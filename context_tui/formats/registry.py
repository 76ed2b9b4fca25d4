"""The formats there are, in the order in which they are asked; equal claims go to the earlier one."""

from __future__ import annotations

from typing import Any

from context_tui.errors import Error
from context_tui.formats.base import Format
from context_tui.plugins import Plugins


def _wrong_with(name: str, form: Any) -> str:
    """What keeps a loaded object from being the format of this name; empty when nothing does."""
    if Format not in type(form).__mro__:
        return "it does not derive from formats.base.Format"
    missing = [each for each in ("name", "about") if not hasattr(form, each)]
    if missing:
        return f"it lacks {', '.join(missing)}"
    return f"it calls itself {form.name!r}" if form.name != name else ""


FORMATS: Plugins[Format] = Plugins(
    "format",
    "context_tui.formats",
    {
        "claude-code": "context_tui.formats.claude_code:ClaudeCodeFormat",
        "koda": "context_tui.formats.koda:KodaFormat",
        "anthropic": "context_tui.formats.anthropic:AnthropicFormat",
        "openai": "context_tui.formats.openai:OpenAIFormat",
    },
    _wrong_with,
)


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        Error: there is none.
    """
    if name not in FORMATS:
        raise Error(f"unknown format {name!r}; available: {', '.join(FORMATS)}")
    return FORMATS[name]
