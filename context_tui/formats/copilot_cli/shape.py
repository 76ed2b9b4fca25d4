"""What the events of GitHub Copilot CLI mean.

Which events there are is from the schema that its SDK publishes. An event that none of the rules here is for tells
nothing of the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from context_tui.formats.kit.arguments import input_of
from context_tui.formats.kit.message_builder import Compacted, Part
from context_tui.formats.kit.usage import usage_from
from context_tui.formats.kit.values import as_id, epoch_ms, recorded_tokens, usage_or_note
from context_tui.session.facts import Usage
from context_tui.session.values import Role

Block = dict[str, Any]
Data = dict[str, Any]
HIDDEN_SUMMARY: Block = {"type": "hidden_summary"}
"""What stands in the place of a summary that is not in the file."""


def owner_of(record: Data) -> str:
    """The sub-agent that an event is of: its own id, before that the call that started it; empty for the main one."""
    data = record.get("data")
    return as_id(record.get("agentId")) or as_id(data.get("parentToolCallId") if isinstance(data, dict) else None)


class CopilotShape:
    """The events of the main agent, or of one sub-agent."""

    def __init__(self, agent: str = "") -> None:
        self._agent = agent

    def part(self, record: Data) -> Part:
        """What an event says; those of another agent say nothing.

        Raises:
            ValueError: it is none.
        """
        kind, data = record.get("type"), record.get("data")
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise ValueError("not an event: it has no type or no data")
        understand = EVENTS.get(kind)
        if understand is None or owner_of(record) != self._agent:
            return Part(key=as_id(record.get("id")))
        return understand(data, as_id(record.get("id")), epoch_ms(record.get("timestamp")))


def _started(data: Data, key: str, time: int) -> Part:
    return Part(key=key, model=as_id(data.get("selectedModel")))


def _model(data: Data, key: str, time: int) -> Part:
    return Part(key=key, model=as_id(data.get("newModel")))


def _system(data: Data, key: str, time: int) -> Part:
    """The system prompt, which is recorded anew for every turn."""
    return Part(key=key, system=as_id(data.get("content")))


def _user(data: Data, key: str, time: int) -> Part:
    """What was typed, and what the program put around it for the model."""
    typed, sent = as_id(data.get("content")), as_id(data.get("transformedContent"))
    texts, injected = [typed], set[int]()
    if sent and sent != typed:
        before, found, behind = sent.partition(typed) if typed else ("", "", sent)
        texts, injected = ([sent], set()) if typed and not found else ([before, typed, behind], {0, 2})
    kept = [(number in injected, text) for number, text in enumerate(texts) if text]
    blocks: list[Block] = [{"type": "text", "text": text} for _, text in kept]
    attached = data.get("attachments")
    blocks += [_image(each) for each in (attached if isinstance(attached, list) else ()) if _is_image(each)]
    source = data.get("source")
    other = bool(data.get("isAutopilotContinuation")) or (isinstance(source, str) and source not in ("", "user"))
    numbers = frozenset(number for number, (put_in, _) in enumerate(kept) if put_in)
    return Part(Role.USER, blocks, time=time, key=key, injected=other, injects=numbers)


def _is_image(attached: Any) -> bool:
    return isinstance(attached, dict) and as_id(attached.get("mimeType")).startswith("image/") and "data" in attached


def _image(attached: Data) -> Block:
    source = {"type": "base64", "media_type": as_id(attached.get("mimeType")), "data": as_id(attached.get("data"))}
    return {"type": "image", "source": source}


def _notification(data: Data, key: str, time: int) -> Part:
    text = {"type": "text", "text": as_id(data.get("content"))}
    return Part(Role.USER, [text], time=time, key=key, injected=True)


def _assistant(data: Data, key: str, time: int) -> Part:
    """A reply. Only its output is counted where it stands, which tells nothing of the context: it is left out."""
    blocks: list[Block] = []
    thought, hidden = as_id(data.get("reasoningText")), as_id(data.get("reasoningOpaque"))
    if thought or hidden:
        blocks.append({"type": "thinking", "thinking": thought, "signature": hidden})
    if text := as_id(data.get("content")):
        blocks.append({"type": "text", "text": text})
    requests = data.get("toolRequests")
    notes: list[str] = []
    for call in requests if isinstance(requests, list) else ():
        if isinstance(call, dict):
            given = input_of(call.get("arguments"))
            own = as_id(call.get("toolCallId"))
            blocks.append({"type": "tool_use", "id": own, "name": as_id(call.get("name")), "input": given})
        else:
            notes.append("a tool request that is not an object")
    return Part(
        Role.ASSISTANT,
        blocks,
        time=time,
        notes=tuple(notes),
        message_id=as_id(data.get("messageId")),
        model=as_id(data.get("model")),
        key=key,
    )


def _result(data: Data, key: str, time: int) -> Part:
    """What a tool gave to the model, or its error; what is shown to the user is not sent."""
    given, error = data.get("result"), data.get("error")
    body = as_id(given.get("content")) if isinstance(given, dict) else as_id(given)
    if not body and error is not None:
        body = as_id(error.get("message") if isinstance(error, dict) else error)
    if data.get("isUserRequested"):
        return Part(Role.USER, [{"type": "text", "text": body}], time=time, key=key, injected=True)
    result: Block = {"type": "tool_result", "tool_use_id": as_id(data.get("toolCallId")), "content": body}
    if data.get("success") is False:
        result["is_error"] = True
    return Part(Role.USER, [result], results=True, time=time, key=key)


def _used(data: Data, key: str, time: int) -> Part:
    """A request's own usage, which is only in logs of other programs."""
    usage, notes = usage_or_note(_whole_usage, data)
    return Part(key=key, usage=usage, notes=notes)


def _whole_usage(data: Any) -> Usage | None:
    return usage_from(
        data,
        "inputTokens",
        cache_read="cacheReadTokens",
        cache_write="cacheWriteTokens",
        output=("outputTokens",),
        includes_cache=True,
    )


def _ended(data: Data, key: str, time: int) -> Part:
    """The size of the context when the session ended, with its newest reply."""
    size = _tokens(data, "currentTokens")
    return Part(key=key, usage=Usage(size) if size else None)


def _sizes(data: Data, key: str, time: int) -> Part:
    return Part(key=key, window=_tokens(data, "tokenLimit"))


def _compacted(data: Data, key: str, time: int) -> Part:
    """A compaction that succeeded; what it kept behind its summary is not recorded."""
    if not data.get("success"):
        return Part(key=key)
    summary = data.get("summaryContent")
    block = {"type": "text", "text": summary} if isinstance(summary, str) and summary else HIDDEN_SUMMARY
    trigger = as_id(data.get("trigger")) or ("manual" if data.get("customInstructions") else None)
    kept = _tokens(data, "preCompactionMessagesLength") - _tokens(data, "messagesRemoved")
    return Part(
        Role.USER,
        [block],
        time=time,
        key=key,
        compacted=Compacted(trigger, _tokens(data, "preCompactionTokens") or None),
        notes=(f"a compaction that kept {kept:,} messages, without saying which",) if kept > 0 else (),
    )


def _truncated(data: Data, key: str, time: int) -> Part:
    """The oldest messages were left out, without saying which."""
    before, gone = (
        _tokens(data, name) or None for name in ("preTruncationTokensInMessages", "tokensRemovedDuringTruncation")
    )
    told = Compacted("truncation", before, saved=gone) if gone else None
    return Part(key=key, compacted=told, window=_tokens(data, "tokenLimit"))


def _rewound(data: Data, key: str, time: int) -> Part:
    return Part(rewinds=as_id(data.get("upToEventId")))


def _cleared(data: Data, key: str, time: int) -> Part:
    return Part(key=key, anew=True)


def _tokens(data: Data, name: str) -> int:
    try:
        return recorded_tokens(data.get(name), name)
    except ValueError:
        return 0


EVENTS: dict[str, Callable[[Data, str, int], Part]] = {
    "session.start": _started,
    "session.resume": _started,
    "session.model_change": _model,
    "session.usage_info": _sizes,
    "session.shutdown": _ended,
    "session.compaction_complete": _compacted,
    "session.truncation": _truncated,
    "session.snapshot_rewind": _rewound,
    "session.context_cleared": _cleared,
    "system.message": _system,
    "system.notification": _notification,
    "user.message": _user,
    "assistant.message": _assistant,
    "assistant.usage": _used,
    "tool.execution_complete": _result,
}
