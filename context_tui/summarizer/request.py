"""What a summarizer is asked, before any wire format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
"""``{"role": "user" | "assistant", "content": text or list of Anthropic-shaped blocks}``."""


@dataclass(frozen=True)
class SummaryRequest:
    """One request for a summary.

    Attributes:
        system: the system prompt, or nothing.
        messages: the history, and last the user message that asks for the summary.
        tools: Anthropic-shaped schemas (``name``, ``description``, ``input_schema``) of the session's tools. They are
            declared so that the tool history is valid; the model may call none of them.
        max_tokens: the most the reply may use.
        sections: headings that a complete reply holds, in order; empty when none are asked for.
    """

    system: str | None
    messages: list[Message]
    tools: list[dict[str, Any]]
    max_tokens: int
    sections: tuple[str, ...] = ()
