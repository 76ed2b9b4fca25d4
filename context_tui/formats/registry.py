"""The formats there are, in the order in which they are asked; equal claims go to the earlier one."""

from __future__ import annotations

from context_tui.errors import Error
from context_tui.formats.base import Format
from context_tui.plugins import Plugins

REQUIRED = ("name", "about", "writable", "suffixes", "sniff", "sessions", "scanner")


def _trouble(made: object) -> str:
    missing = [name for name in REQUIRED if not hasattr(made, name)]
    return f"it lacks {', '.join(missing)}" if missing else ""


FORMATS: Plugins[Format] = Plugins(
    "context_tui.formats",
    {
        "claude-code": "context_tui.formats.claude_code:ClaudeCodeFormat",
        "koda": "context_tui.formats.koda:KodaFormat",
        "anthropic": "context_tui.formats.anthropic:AnthropicFormat",
        "openai": "context_tui.formats.openai:OpenAIFormat",
    },
    _trouble,
)


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        Error: there is none.
    """
    if name not in FORMATS:
        raise Error(f"unknown format {name!r}; available: {', '.join(FORMATS)}")
    return FORMATS[name]
