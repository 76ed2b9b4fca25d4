"""The summary requests of defect and of agent-sdk (sections 4 and 7 of the seed systems), in our own words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from context_tui.session.jsontext import utf8_len
from context_tui.summarizer.request import Message, SummaryRequest, json_text

DEFECT_SECTIONS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Key Context",
    "Relevant Files",
)
"""Headings of a full compaction, in order."""

PROGRESS_SECTIONS = ("Done", "In Progress", "Blocked")
"""Headings below ``Progress``."""

SDK_SECTIONS = (
    "Decisions",
    "Facts & Context",
    "Paths & Code References",
    "Tool Outcomes",
    "Commitments",
)
"""Headings of an agent-sdk summary, in order."""

RESULT_BYTES = 500
"""agent-sdk: a tool result longer than this many bytes of compact JSON is cut."""

THINKING_BYTES = 200
"""agent-sdk: thinking longer than this many bytes is left out."""

# No bracketed placeholders anywhere: small models copy them instead of filling them in.
_DEFECT_SYSTEM = """\
You write the notes that take the place of the older part of a conversation between a person and a coding agent. \
The agent will go on with your notes and the newest messages, and with nothing else.

- Summarise only what the conversation holds. Add nothing, guess nothing; what was planned is not what was done.
- If the conversation holds an earlier summary, merge it into yours: what still holds is kept, what is outdated goes.
- Keep every section, even one with nothing in it: write "(none)" there.
- Keep file paths, identifiers, commands and error messages exactly as they stand.
- Write terse bullet points.
- Do not continue the task, answer no question of the conversation, and call no tool.
- Write in the language the person and the agent speak."""

_DEFECT_NEW = "Write the summary of the conversation above."
_DEFECT_UPDATE = """\
An earlier part of this conversation was summarised before. Update that summary with what happened since: keep what \
still holds, change what has changed, move finished work from In Progress to Done, and drop what no longer matters."""

_DEFECT_FORM = """\
Use exactly these headings, in this order, and write nothing before or after them:

{headings}"""

_SDK_SYSTEM = """\
You condense the older part of a conversation between a person and an agent, so that the agent can go on without it. \
Write a structured summary with one section for each of these, in this order:

{headings}

Decisions are what was settled and why; facts and context are what the agent must know; name files, paths, functions \
and other code references exactly; say what each tool call that mattered brought to light or changed; commitments are \
what was promised or is still to be done. Summarise only what is there, leave no section out, and do not continue the \
conversation."""


def defect_request(
    head: list[Message],
    previous_summary: str | None,
    tools: list[dict[str, Any]],
    max_tokens: int = 8192,
) -> SummaryRequest:
    """defect's full compaction (section 4): the head, and one more user message that asks for its summary.

    Args:
        head: the prepared messages (tool results already cut), after pair repair.
        previous_summary: the body of a summary that the head holds, possibly empty; the prompt then asks to update it.
        tools: the session's tool schemas, which keep the head's tool history valid.
        max_tokens: the most the summary may use.
    """
    if previous_summary is None:
        task = _DEFECT_NEW
    else:
        task = f"{_DEFECT_UPDATE}\n\n<previous-summary>\n{previous_summary}\n</previous-summary>"
    prompt = f"{task}\n\n{_DEFECT_FORM.format(headings=_defect_headings())}"
    return SummaryRequest(
        system=_DEFECT_SYSTEM,
        messages=[*head, {"role": "user", "content": [{"type": "text", "text": prompt}]}],
        tools=list(tools),
        max_tokens=max_tokens,
        sections=DEFECT_SECTIONS,
    )


def agent_sdk_request(old_messages: list[Message], max_tokens: int = 4096) -> SummaryRequest:
    """agent-sdk's compaction (section 7): the old messages as one user message of plain text."""
    return SummaryRequest(
        system=_SDK_SYSTEM.format(headings=_lines(f"## {name}" for name in SDK_SECTIONS)),
        messages=[{"role": "user", "content": f"The conversation to condense:\n\n{transcript(old_messages)}"}],
        tools=[],
        max_tokens=max_tokens,
        sections=SDK_SECTIONS,
    )


def transcript(messages: list[Message]) -> str:
    """The messages as agent-sdk hands them to its summarizer: text under each role, everything else abridged."""
    parts = []
    for message in messages:
        role = "Assistant" if message.get("role") == "assistant" else "User"
        parts.append(f"{role}:\n{_lines(_abridged(message.get('content')))}")
    return "\n\n".join(parts)


def _abridged(content: Any) -> Iterator[str]:
    """The lines that stand for one message's content."""
    if isinstance(content, str):
        yield content
        return
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "text", "text": str(text)}:
                yield text
            case {"type": "thinking", "thinking": str(text)} if text and utf8_len(text) <= THINKING_BYTES:
                yield f"({text})"
            case {"type": "tool_use"}:
                yield f"Tool call: {block.get('name', '')} {_compact(block.get('input'))}"
            case {"type": "tool_result"}:
                label = "Tool error" if block.get("is_error") else "Tool result"
                yield f"{label}: {_cut(_compact(block.get('content', '')))}"
            case {"type": "image"}:
                yield "[image]"


def _compact(value: Any) -> str:
    """agent-sdk's compact JSON: object keys are sorted."""
    return json_text(value, sort_keys=True)


def _cut(text: str) -> str:
    """At most ``RESULT_BYTES`` bytes, back to the start of a character, and ``...`` when something is missing."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= RESULT_BYTES:
        return text
    end = RESULT_BYTES
    while data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass") + "..."


def _defect_headings() -> str:
    lines = []
    for section in DEFECT_SECTIONS:
        lines.append(f"## {section}")
        lines += [f"### {name}" for name in PROGRESS_SECTIONS if section == "Progress"]
    return _lines(lines)


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)
