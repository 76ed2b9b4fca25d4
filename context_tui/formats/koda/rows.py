"""koda's rows: which columns there are, and what a row says."""

from __future__ import annotations

from typing import Any, NamedTuple

from context_tui.formats.kit.arguments import input_of
from context_tui.formats.kit.databases import text
from context_tui.formats.kit.message_builder import Part
from context_tui.formats.kit.values import epoch_ms, recorded_tokens, usage_or_note
from context_tui.session.facts import Usage
from context_tui.session.jsontext import is_nested_deeper, loads
from context_tui.session.markers import KODA_SUMMARY
from context_tui.session.values import MessageFlag, Role

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "tool": Role.USER}


class Row(NamedTuple):
    """A row of ``messages``; older schemas lack most columns, which are then NULL."""

    id: Any
    role: Any
    content: Any
    tool_calls: Any
    tool_call_id: Any
    prompt_tokens: Any
    completion_tokens: Any
    cache_read_tokens: Any
    cache_creation_tokens: Any
    thinking_content: Any
    compacted_at: Any
    completed_at: Any
    created_at: Any

    @property
    def size(self) -> int:
        """Bytes of its texts, as the database counts them."""
        return sum(len(_bytes(value)) for value in self.texts)

    @property
    def texts(self) -> list[Any]:
        """Its texts."""
        return [value for value in (self.content, self.tool_calls) if value is not None]


def column_list(columns: frozenset[str]) -> str:
    """The columns of :class:`Row` for a SELECT from a table that may lack some."""
    return ", ".join(name if name in columns else f"NULL AS {name}" for name in Row._fields)


def part_of(row: Row, *, has_completion: bool) -> Part:
    """What a row says. A role that koda does not know is a user's to it.

    ``has_completion`` says that the schema marks replies as complete; those that are not are never sent.
    """
    role = ROLES.get(text(row.role), Role.USER)
    content = None if row.content is None else text(row.content)
    time = epoch_ms(text(row.created_at))
    archived = None if row.compacted_at is None else text(row.compacted_at)
    if text(row.role) == "tool":
        call_id = f"row-{row.id}" if row.tool_call_id is None else text(row.tool_call_id)
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content or ""}
        return Part(role, [block], results=True, time=time, group=archived)
    blocks = [] if content is None else [{"type": "text", "text": content}]
    if role == Role.SYSTEM:
        flags = MessageFlag.SUMMARY if (content or "").startswith(KODA_SUMMARY) else 0
        return Part(role, blocks, flags=flags, time=time, group=archived)
    if role == Role.USER:
        return Part(role, blocks, time=time, group=archived)
    calls, notes = _calls(row)
    thinking = [{"type": "thinking", "thinking": text(row.thinking_content)}] if row.thinking_content else []
    flags = MessageFlag.NOT_SENT if has_completion and row.completed_at is None else 0
    spoken = blocks if content or not (calls or thinking) else []
    usage, unread = usage_or_note(_usage, row)
    made, notes = [*thinking, *spoken, *calls], (*notes, *unread)
    return Part(role, made, flags=flags, time=time, usage=usage, group=archived, notes=notes)


def _calls(row: Row) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The calls of an assistant row; a list that cannot be read is ignored, as koda does."""
    if not row.tool_calls:
        return [], ()
    try:
        calls = loads(text(row.tool_calls))
    except ValueError:
        calls = None
    if not isinstance(calls, list) or is_nested_deeper(calls):
        return [], ("its list of tool calls cannot be read",)
    return [
        {
            "type": "tool_use",
            "id": call["id"] if isinstance(call.get("id"), str) else f"row-{row.id}-call-{number}",
            "name": _name(call),
            "input": input_of(call.get("arguments")),
        }
        for number, call in enumerate(calls)
        if isinstance(call, dict)
    ], ()


def _name(call: dict[str, Any]) -> str:
    return next((call[key] for key in ("function_name", "name") if isinstance(call.get(key), str)), "")


def _usage(row: Row) -> Usage | None:
    """Recorded usage, as the provider reported it to koda.

    Anthropic's prompt tokens leave cached ones out, the others' include them, and the row does not say whose they are:
    tokens written to a cache, or more read from it than there were prompt tokens, are Anthropic's.

    Raises:
        ValueError: a size is none; the message names it.
    """
    if row.prompt_tokens is None:
        return None
    names = ("prompt_tokens", "cache_read_tokens", "cache_creation_tokens", "completion_tokens")
    prompt, read, written, output = (recorded_tokens(_number(getattr(row, name)), name) for name in names)
    fresh = prompt if written or read > prompt else prompt - read
    return Usage(fresh, read, written, 0, output)


def _number(value: Any) -> Any:
    """A column's number; text that a column without a type holds is told as text."""
    return text(value) if isinstance(value, bytes) else value


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
