"""Codex rollouts as messages: the model's view is made of items alone; events tell usage, windows and rollbacks."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

from context_tui.formats.codex.items import compaction_part, key_of, keys_in, replacement_in, said
from context_tui.formats.codex.records import BESIDE, Line, line_of, members, meta_of
from context_tui.formats.kit.items import Replies
from context_tui.formats.kit.message_builder import Part
from context_tui.formats.kit.usage import openai_usage
from context_tui.formats.kit.values import as_id, recorded_tokens, text_in, usage_or_note
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.session.values import MessageFlag, Role

Record = dict[str, Any]

COPYING_MS = 2_000
"""Longest time after its first line in which a fork has written the history that it begins with. Lines of that are
stamped anew or keep their older times; no reply of a model comes so soon."""
USED_PERCENT = 95
"""Of a model's window, what Codex uses and tells, unless a catalog of models says otherwise."""
ENVELOPE = 650
"""Bytes around the reasoning that stands encrypted."""
ESTIMATED = 1.3
"""Tokens that Codex takes reasoning to be, by its encrypted bytes, for a recorded one: 51,185 for 39,296 in 112 replies
of two rollouts that have both."""
KEPT_BYTES = 80_000
"""Bytes of the newest typed messages that a compaction without a history of its own keeps (20,000 tokens of 4)."""


class CodexShape:
    """One pass over a rollout."""

    def __init__(self) -> None:
        self._replies = Replies()
        self._users: list[_User] = []
        self._keys: dict[str, str] = {}  # of an item, by that of its id
        self._seen: set[str] = set()  # ids of sessions whose history is here, this one's first
        self._began = -1
        self._newest: tuple[Record, Line] = ({}, Line("", None))
        self._usage = _UsageOrder()
        self._reasoning = 0  # of the newest reply, by what stands encrypted for it

    # -- what a record says

    def part(self, record: Record) -> Part:
        """What a record says, wherever it stands."""
        line = self._line_of(record)
        payload = members(line.payload)
        match line.kind:
            case "response_item":
                return said(line.payload)
            case "compacted":
                return replace(compaction_part(payload), time=line.time)
            case "session_meta":
                text = members(payload.get("base_instructions")).get("text")
                blocks = [{"type": "text", "text": text}] if isinstance(text, str) else []
                return Part(Role.SYSTEM if blocks else None, blocks, tools=_tools(payload.get("dynamic_tools")))
            case "turn_context":
                return Part(model=as_id(payload.get("model"))[:200])
            case "event_msg":
                return replace(_event(payload), time=line.time)
        if line.kind in BESIDE:
            return Part()
        raise ValueError(f"unknown type of record {line.kind[:40]!r}" if line.kind else "not a record of a rollout")

    # -- what it says in its place

    def placed(self, record: Record, part: Part) -> Part:
        """What a record says behind those before it."""
        line = self._line_of(record)
        payload = members(line.payload)
        if self._began < 0:
            self._began = line.time
        match line.kind:
            case "session_meta":
                return self._told(payload, part)
            case "response_item":
                return self._named(payload, self._reasoned(payload, self._spoken(part, line.time)))
            case "compacted":
                self._replies.end()
                self._usage.compacted()
                return self._replaced(payload, part)
            case "event_msg" if payload.get("type") == "token_count":
                return self._counted(payload, part, line.time)
            case "event_msg" if payload.get("type") == "thread_rolled_back":
                return replace(part, rewinds=self._rolled_back(payload.get("num_turns")))
        return part

    def _told(self, payload: Record, part: Part) -> Part:
        """The system prompt of this session; one that is told again, or is of a session it was forked from, is none."""
        first = not self._seen
        self._seen.add(meta_of(payload).id)
        return part if first else Part()

    def _line_of(self, record: Record) -> Line:
        """What a record is; of one that is asked for again right away this is known."""
        if record is not self._newest[0]:
            self._newest = record, line_of(record)
        return self._newest[1]

    def _spoken(self, part: Part, time: int) -> Part:
        response = self._replies.id_of(part)
        if part.role == Role.ASSISTANT:
            return replace(part, time=time, message_id=response, usage=self._usage.of_reply())
        if part.role == Role.USER and not part.results:
            self._usage.asked()
            return replace(part, time=time, key=self._key(part))
        return replace(part, time=time)

    def _reasoned(self, item: Record, part: Part) -> Part:
        """A part with what Codex takes its encrypted reasoning to be."""
        tokens = reasoning_tokens(item)
        self._reasoning += tokens
        return replace(part, reasoning=tokens) if tokens else part

    def _named(self, item: Record, part: Part) -> Part:
        """A part of an item with an id of its own, which a later compaction may keep it by."""
        if own := key_of(item):
            part = part if part.key or part.role is None else replace(part, key=own)
            self._keys[own] = part.key
        return part

    def _key(self, part: Part) -> str:
        """The key of a new message of a user, by which what comes later tells that it is still there."""
        key = f"user {len(self._users)}"
        summary = bool(part.flags & MessageFlag.SUMMARY)
        self._users.append(_User(part, key, typed=not (part.injected or summary), summary=summary))
        return key

    def _replaced(self, payload: Record, part: Part) -> Part:
        """A compaction, with the context that it leaves: earlier messages where they are the same, else its own."""
        if part.compacted is None:
            return part
        if replacement_in(payload) is None:
            return replace(part, compacted=replace(part.compacted, context=(*self._kept(), 0)))
        told, keys = part.compacted.context or (), keys_in(payload)
        messages, notes, context = [part, *part.then], list(part.notes), list[str | int]()
        here = self._known_users({each: messages[each] for each in told if isinstance(each, int) and each})
        for each in told:
            if isinstance(each, str):
                if each not in self._keys:
                    notes.append("a compaction that keeps an earlier item which is not in this file")
                context.append(self._keys.get(each, ""))
                continue
            if each in here:
                key, messages[each] = here[each], Part()
            else:
                own = messages[each]
                new = each and own.role == Role.USER and not own.results
                key = self._key(own) if new else next(iter(keys[each]), "")
                messages[each] = replace(own, key=key)
            context.append(here.get(each, each))
            self._keys |= dict.fromkeys(keys[each], key)
        compacted = replace(part.compacted, context=tuple(context))
        return replace(messages[0], compacted=compacted, then=tuple(messages[1:]), notes=tuple(notes))

    def _known_users(self, messages: dict[int, Part]) -> dict[int, str]:
        """Which messages of a new history are here already, each with the key of the newest that is the same."""
        known: dict[bytes, list[str]] = {}
        for user in self._users:
            known.setdefault(user.signature, []).append(user.key)
        found: dict[int, str] = {}
        for number, part in reversed(messages.items()):
            if part.role == Role.USER and not part.results and (same := known.get(_signature(part))):
                found[number] = same.pop()
        return found

    def _kept(self) -> list[str]:
        """What a compaction that only tells its summary leaves: what the session began with, and what was typed.

        That is the newest that fit; of the one before these Codex keeps a part, which the file does not hold.
        """
        at = next((n for n, user in enumerate(self._users) if user.typed), len(self._users))
        kept, room = list[str](), KEPT_BYTES
        for user in reversed([user for user in self._users[at:] if user.typed]):
            room -= user.size
            if room < 0:
                break
            kept.append(user.key)
        return [*(user.key for user in self._users[:at] if not user.summary), *reversed(kept)]

    def _rolled_back(self, turns: Any) -> str:
        """The key of the first of the last *turns* typed messages, which are left with all behind them."""
        typed = [at for at, user in enumerate(self._users) if user.typed]
        if type(turns) is not int or turns <= 0 or not typed:
            return ""
        at = typed[max(len(typed) - turns, 0)]
        key = self._users[at].key
        del self._users[at:]
        self._replies.end()
        return key

    def _counted(self, payload: Record, part: Part, time: int) -> Part:
        """Usage at the reply that it is of: not what is told again, made up, or was used before the fork."""
        info = members(payload.get("info"))
        if not self._usage.is_new(info):
            return replace(part, usage=None)
        self._replies.end()
        copied = len(self._seen) > 1 and time <= self._began + COPYING_MS
        now = self._usage.counted(None if copied else part.usage)
        encrypted, self._reasoning = self._reasoning, 0
        return replace(part, usage=now, reasoning=_left_out(info, now) if now and not encrypted else 0)


class _User:
    """A message of a user: its key and what it is told by when it comes again."""

    def __init__(self, part: Part, key: str, *, typed: bool, summary: bool) -> None:
        self.key, self.typed, self.summary = key, typed, summary
        self.signature, self.size = _signature(part), sum(utf8_len(text_in([block])) for block in part.blocks)


class _UsageOrder:
    """Tells which reply a count is of. Up to 0.5x a count comes before the items of its reply, later behind them.

    Which it is shows at the first count after a user message: whether any item of a reply stands between them.
    """

    def __init__(self) -> None:
        self._known: Any = None  # the totals of the newest count
        self._ahead = False
        self._waiting: Usage | None = None  # of the reply that comes next
        self._fresh = True  # no count since the newest user message
        self._items = False  # an item of a reply since the newest user message or count

    def asked(self) -> None:
        """A user message has come."""
        self._fresh, self._items = True, False

    def compacted(self) -> None:
        """The context begins anew: what was counted for making the summary is of no reply."""
        self._waiting, self._items = None, False

    def of_reply(self) -> Usage | None:
        """What is known to have been used for the reply of which an item has come."""
        self._items = True
        usage, self._waiting = self._waiting, None
        return usage

    def is_new(self, info: Record) -> bool:
        """Whether a count is one of a reply: not the same as before, and not an estimate after a compaction."""
        totals, last = info.get("total_token_usage"), members(info.get("last_token_usage"))
        if not last or (totals, last) == self._known:
            return False
        if not any(last.get(name) for name in ("input_tokens", "output_tokens")):
            return False
        self._known = (totals, last)
        return True

    def counted(self, usage: Usage | None) -> Usage | None:
        """Take a new count; returns it where it is of the newest reply, not of the next one."""
        if self._fresh:
            self._ahead, self._fresh = not self._items, False
        came, self._items = self._items, False
        if self._ahead:
            self._waiting = usage
            return None
        return usage if came else None


def reasoning_tokens(item: Record) -> int:
    """What Codex takes the encrypted reasoning of an item to be: four bytes a token of what is left when decoded.

    Source: codex-rs/core, estimate_reasoning_length.
    """
    text = item.get("encrypted_content") if item.get("type") == "reasoning" else None
    return -(-max(len(text) * 3 // 4 - ENVELOPE, 0) // 4) if isinstance(text, str) else 0


def _left_out(info: Record, usage: Usage) -> int:
    """The same of a reply whose encrypted reasoning was left out by who published the file, by its recorded tokens."""
    told = members(info.get("last_token_usage")).get("reasoning_output_tokens")
    return round(told * ESTIMATED) if type(told) is int and 0 < told <= usage.output else 0


def _signature(part: Part) -> bytes:
    """What tells a message from others, however long it is."""
    return blake2b(compact_json(part.blocks), digest_size=16).digest()


def _event(payload: Record) -> Part:
    """What an event says beside what it shows: how much was used, and the window."""
    if payload.get("type") == "task_started":
        return _windowed(payload.get("model_context_window"))
    if payload.get("type") != "token_count":
        return Part()
    info = members(payload.get("info"))
    part = _windowed(info.get("model_context_window"))
    usage, notes = usage_or_note(openai_usage, info.get("last_token_usage"))
    return replace(part, usage=usage, notes=(*part.notes, *notes))


def _windowed(value: Any) -> Part:
    """The window that Codex uses, and the model's: since 0.5x the former is 95 % of that (openai/codex#8763).

    Which version it is shows in the number: models have windows of whole thousands, or of whole times 1,024.
    """
    try:
        window = recorded_tokens(value, "model_context_window")
        whole = -(-window * 100 // USED_PERCENT)
        part_of = whole if whole * USED_PERCENT // 100 == window and 0 in (whole % 1_000, whole % 1_024) else None
        return Part(window=window, whole_window=part_of or None)
    except ValueError as error:
        return Part(notes=(str(error),))


def _tools(value: Any) -> list[dict[str, Any]] | None:
    """The tools that a client gave the session, Anthropic-shaped; Codex's own are never told."""
    tools = [tool for tool in value if isinstance(tool, dict)] if isinstance(value, list) else []
    return [
        {
            "name": as_id(tool.get("name")),
            "description": as_id(tool.get("description")),
            "input_schema": members(tool.get("inputSchema") or tool.get("input_schema")),
        }
        for tool in tools
    ] or None
