"""Read the files beside a task's conversation, which record usage, deletions and rewrites."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from context_tui.formats.kit.heads import read_json
from context_tui.formats.kit.usage import make_cached_usage, parse_token_count
from context_tui.formats.kit.values import as_list, as_object, list_objects, parse_time_ms
from context_tui.session.facts import Usage
from context_tui.session.jsontext import loads

UI_MESSAGES_FILE, REWRITES_FILE, METADATA_FILE = "ui_messages.json", "context_history.json", "task_metadata.json"
CONVERSATION_FILES = ("api_conversation_history.json", "claude_messages.json")


class RecordedRequest(NamedTuple):
    """A recorded request: its time in ms, the index of the newest message before it (-2: unknown), and its usage."""

    time: int
    after: int
    usage: Usage


class Deletion(NamedTuple):
    """A deletion: from message ``start`` on, requests omit the messages from the third one to ``last``."""

    start: int
    last: int


class Rewrite(NamedTuple):
    """A rewrite: from message ``start`` on (-1: unknown), ``block`` of message ``element`` is sent as ``text``."""

    start: int
    element: int
    block: int
    text: str


@dataclass
class RelatedFacts:
    """The facts found in a conversation's related files. Files that cannot be read add none."""

    requests: list[RecordedRequest] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)
    tokens_before_summary: dict[str, int] = field(default_factory=dict)  # summary to tokens before it
    model: str = ""
    input_includes_cache: bool = False  # whether input tokens include cached ones


def list_related_files(path: Path) -> tuple[Path, ...]:
    """Return the files that may describe a conversation, existing or not, or () for an exported conversation."""
    names = (UI_MESSAGES_FILE, REWRITES_FILE, METADATA_FILE) if path.name in CONVERSATION_FILES else ()
    return tuple(path.with_name(name) for name in names)


def read_related_files(path: Path) -> RelatedFacts:
    """Return the facts from the files beside the conversation at *path*."""
    facts, paths = RelatedFacts(), list_related_files(path)
    if not paths:
        return facts
    messages, rewrites, metadata = map(read_json, paths)
    ui_messages = list_objects(messages)
    _update_requests(ui_messages, facts)
    _update_deletions(ui_messages, facts)
    for each in ui_messages:
        condensed = as_object(each.get("contextCondense"))
        if isinstance(summary := condensed.get("summary"), str):
            size = condensed.get("prevContextTokens")
            facts.tokens_before_summary[summary] = size if type(size) is int and size > 0 else 0
    _update_rewrites(rewrites, ui_messages, facts)
    for each in list_objects(as_object(metadata).get("model_usage")):
        if isinstance(name := each.get("model_id"), str):
            facts.model = name
    return facts


def _update_requests(ui_messages: list[dict[str, Any]], facts: RelatedFacts) -> None:
    """Add the requests that have usage, and record whether their input tokens include cached tokens.

    Cline's never do. Roo Code's do if the provider is marked as OpenAI-compatible, and always in newer versions.
    """
    requests: list[tuple[int, int, tuple[int, ...]]] = []
    protocols = set[str]()
    for message in ui_messages:
        if message.get("say") != "api_req_started" or not isinstance(text := message.get("text"), str):
            continue
        try:
            request = loads(text)
            if not isinstance(request, dict) or "tokensIn" not in request:
                continue
            names = ("tokensIn", "cacheReads", "cacheWrites", "tokensOut")
            sizes = tuple(parse_token_count(request, name) for name in names)
        except ValueError:
            continue
        protocols.add(str(request.get("apiProtocol", "")))
        after = message.get("conversationHistoryIndex")
        requests.append((parse_time_ms(message.get("ts")), after if type(after) is int else -2, sizes))
    cached = any(read or written for _, _, (_, read, written, _) in requests)
    covers_cache = all(fresh >= read + written for _, _, (fresh, read, written, _) in requests)
    facts.input_includes_cache = cached and covers_cache and protocols != {""}
    for time, after, (fresh, read, written, output) in requests:
        usage = Usage(fresh, read, written, 0, output)
        if facts.input_includes_cache:
            usage = make_cached_usage(fresh, read, written, output)
        facts.requests.append(RecordedRequest(time, after, usage))


def _update_deletions(ui_messages: list[dict[str, Any]], facts: RelatedFacts) -> None:
    newest_end = 1
    for message in ui_messages:
        deleted_range, start = (message.get("conversationHistoryDeletedRange"), message.get("conversationHistoryIndex"))
        match deleted_range:
            case [_, end] if type(start) is int and type(end) is int and end > newest_end:
                facts.deletions.append(Deletion(start, end))
                newest_end = end


def _update_rewrites(rewrites: Any, ui_messages: list[dict[str, Any]], facts: RelatedFacts) -> None:
    """Add the rewritten blocks. A rewrite made during one request takes effect with the next request.

    An entry is ``[element, [kind, [[block, [[time, "text", [text], …], …]], …]]]``; a block's last change counts.
    """
    times = [parse_time_ms(each.get("ts")) for each in ui_messages]
    places = [each.get("conversationHistoryIndex") for each in ui_messages]
    for entry in as_list(rewrites):
        match entry:
            case [int(element), [_, list(blocks)]]:
                for each in blocks:
                    match each:
                        case [int(block), [*_, [time, "text", [str(text), *_], *_]]]:
                            number = bisect_right(times, parse_time_ms(time)) - 1
                            place = places[number] if 0 <= number < len(places) else None
                            start = place + 3 if type(place) is int else -1
                            facts.rewrites.append(Rewrite(start, element, block, text))
