"""Extract of a history by rules, without a model: deterministic, limited in size, and free of invention.

Every line under a heading quotes the recording (white space collapsed, ``…`` where truncated), or counts omissions.
A conclusion of the agent is included only if the agent stated it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from context_tui.session.jsontext import utf8_len
from context_tui.session.markers import is_summary_start, strip_summary_marker
from context_tui.summarizer.request import Message, format_json, list_message_blocks
from context_tui.summarizer.tool_calls import AnsweredCall, FailedCall, find_answered_calls

EXTRACT_LABEL = "[Extract: quotations from the conversation, picked by rules; not a model's summary.]"
"""First line of every extract."""

MAX_EXTRACT_BYTES = 16_000
"""Default size limit of an extract: about 4,000 tokens, half the limit of a model's summary."""

_MESSAGE_CHARS, _NOTE_CHARS, _ERROR_CHARS, _COMMAND_CHARS, _PATH_CHARS = (1_200, 600, 400, 200, 300)  # per quotation
_MAX_ERRORS, _MAX_NOTES, _MAX_COMMANDS = 5, 3, 12  # the most recent ones


class _Section(NamedTuple):
    """Quotations, oldest first, under a heading and a subheading; ``share`` is their share of the remaining space."""

    heading: str
    subheading: str
    items: list[str]
    share: float


def build_extract(
    messages: list[Message], previous_summary: str | None = None, max_bytes: int = MAX_EXTRACT_BYTES
) -> str:
    """Build an extract of a history: the label, then quotations under the applicable headings of a model's summary.

    Apart from the label, the extract is never larger than the text of the history.

    Args:
        messages: the history, without text injected by the runtime.
        previous_summary: text of an earlier summary; by default the one at the start of the history.
        max_bytes: maximum size of the result in UTF-8 bytes.
    """
    user_texts, notes, recorded_summary = _split_conversation(messages)
    calls = list(find_answered_calls(messages))
    earlier_summary = previous_summary if previous_summary is not None else recorded_summary
    answered_calls = [call for call in calls if isinstance(call, AnsweredCall)]
    changed = _deduplicate_latest(path for call in answered_calls for path in call.changed)
    read = _deduplicate_latest(path for call in answered_calls for path in call.read if path not in changed)
    commands = _deduplicate_latest(call.command for call in answered_calls)
    errors = [f"{call.tool}: {call.text}" if call.tool else call.text for call in calls if isinstance(call, FailedCall)]
    sections = [
        _Section("Goal", "", _format_bullets(user_texts[:1], 2 * _MESSAGE_CHARS), 0.2),
        _Section("Key Context", "Earlier summary", _quote_summary(earlier_summary), 0.25),
        _Section("Key Context", "User messages", _format_bullets(user_texts[1:], _MESSAGE_CHARS), 0.5),
        _Section("Key Context", "Last notes of the assistant", _format_bullets(notes[-_MAX_NOTES:], _NOTE_CHARS), 0.3),
        _Section("Key Context", "Last errors", _format_bullets(errors[-_MAX_ERRORS:], _ERROR_CHARS), 0.3),
        _Section("Key Context", "Commands run", _format_bullets(commands[-_MAX_COMMANDS:], _COMMAND_CHARS), 0.3),
        _Section("Relevant Files", "Changed", _format_bullets(changed, _PATH_CHARS), 0.6),
        _Section("Relevant Files", "Read", _format_bullets(read, _PATH_CHARS), 1.0),
    ]
    return _fit_sections(sections, min(max_bytes, _count_history_bytes(messages, previous_summary)))


def _split_conversation(messages: list[Message]) -> tuple[list[str], list[str], str]:
    user_texts: list[str] = []
    notes: list[str] = []
    summary = ""
    for number, message in enumerate(messages):
        by_assistant = message.get("role") == "assistant"
        for ordinal, block in enumerate(list_message_blocks(message)):
            text = block.get("text")
            if block.get("type") != "text" or not isinstance(text, str) or not text.strip():
                continue
            position = {"first_block": not ordinal, "first_message": not number}
            if text.startswith(EXTRACT_LABEL) or is_summary_start(text, by_assistant=by_assistant, **position):
                summary = strip_summary_marker(text)
            elif by_assistant:
                notes.append(text)
            elif not text.lstrip().startswith("<system-reminder>"):
                user_texts.append(text)
    return user_texts, notes, summary


def _deduplicate_latest(values: Iterable[str]) -> list[str]:
    distinct: dict[str, None] = {}
    for value in values:
        distinct.pop(value, None)
        distinct[value] = None
    return [value for value in distinct if value.strip()]


def _format_bullets(texts: list[str], length: int) -> list[str]:
    return [f"- {_truncate(line, length)}" for text in texts if (line := " ".join(text[: 4 * length].split()))]


def _quote_summary(text: str) -> list[str]:
    """Quote an earlier summary line by line, without its label, to set its headings apart from those of the extract."""
    lines = (line.strip() for line in text.splitlines())
    return [f"> {line}" for line in lines if line and line != EXTRACT_LABEL]


def _truncate(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _count_history_bytes(messages: list[Message], previous_summary: str | None) -> int:
    total = utf8_len(previous_summary or "")
    for message in messages:
        for block in list_message_blocks(message):
            for key in ("text", "thinking", "content", "input"):
                value = block.get(key, "")
                total += utf8_len(value) if isinstance(value, str) else utf8_len(format_json(value))
    return total


def _fit_sections(sections: list[_Section], max_bytes: int) -> str:
    """Join as much of the sections as fits in *max_bytes*, preferring the newest quotations of each section."""
    parts = [EXTRACT_LABEL]
    max_bytes -= utf8_len(EXTRACT_LABEL)
    heading = ""
    for section in sections:
        heading_line = "" if section.heading == heading else f"## {section.heading}\n"
        title = heading_line + (f"### {section.subheading}\n" if section.subheading else "")
        items = _choose_items(section.items, int(max_bytes * section.share) - utf8_len(title) - 2)
        if not items:
            continue
        parts.append(title + "\n".join(items))
        max_bytes -= utf8_len(parts[-1]) + 2
        heading = section.heading
    return "\n\n".join(parts)


def _choose_items(items: list[str], max_bytes: int) -> list[str]:
    max_bytes -= 40  # reserved for the line that counts the omissions
    selection: list[str] = []
    for item in reversed(items):
        size = utf8_len(item) + 1
        if size > max_bytes:
            if not selection and max_bytes > 40:
                selection.append(item.encode("utf-8", "replace")[: max_bytes - 4].decode("utf-8", "ignore") + "…")
            break
        selection.append(item)
        max_bytes -= size
    if selection and len(selection) < len(items):
        selection.append(f"({len(items) - len(selection)} earlier left out)")
    return selection[::-1]
