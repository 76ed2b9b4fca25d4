"""The formats there are, in the order in which they are asked; equal claims go to the earlier one."""

from __future__ import annotations

from context_tui.errors import Error
from context_tui.formats.anthropic import AnthropicFormat
from context_tui.formats.base import Format
from context_tui.formats.claude_code import ClaudeCodeFormat
from context_tui.formats.koda import KodaFormat
from context_tui.formats.openai import OpenAIFormat

FORMATS: dict[str, Format] = {
    each.name: each for each in (ClaudeCodeFormat(), KodaFormat(), AnthropicFormat(), OpenAIFormat())
}


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        Error: there is none.
    """
    if name not in FORMATS:
        raise Error(f"no format {name!r}: there are {', '.join(FORMATS)}")
    return FORMATS[name]
