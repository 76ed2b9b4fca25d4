"""Build messages from parsed records: merging, branches, compactions, problems, and reading their blocks again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import wraps
from operator import is_
from typing import Any, ParamSpec

from context_tui.formats.kit.values import extract_text, parse_block, parse_tokens, parse_usage_or_note
from context_tui.session.facts import Compaction, Facts, Problem, Usage
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.session.validation import truncate_name
from context_tui.session.values import Kind, MessageFlag, RecordKind, Role, Spans

P = ParamSpec("P")


@dataclass(frozen=True)
class CompactionRecord:
    """A compaction that a record tells of: a full one, whose summary it is, or a micro one, beside the conversation.

    ``kept_messages`` is how many messages right before a full one stay in the context, behind its summary. Where that is not
    all, ``context`` tells it whole, in prompt order: the keys of earlier records, and the numbers of the messages that
    the record itself holds (0: what it says first). Or ``kept_since`` is the first record that stays, of those that it
    hangs below, by its key or its number in the file from 0; earlier summaries do not. ``has_summary`` is False where
    nothing stands for what went: the message is one like others; beside the conversation it is so anyway, and the
    context holds what was said before. ``cleared_keys`` are what a micro one cleared: the ids of calls, whose results are
    meant, and the keys of records, whose blocks are, or with a number one of them. ``tokens_before`` and ``saved_tokens`` are
    tokens as recorded.
    """

    trigger: str | None = None
    tokens_before: int | None = None
    kept_messages: int = 0
    context: tuple[str | int, ...] | None = None
    kept_since: str | int | None = None
    has_summary: bool = True
    cleared_keys: tuple[str | tuple[str, int], ...] = ()
    saved_tokens: int | None = None


@dataclass(frozen=True)
class MessagePart:
    """What one record says: blocks of a message, or with no ``role`` something beside the conversation.

    ``results`` are answers of tools: those since the last assistant message are one user message, as long as they are
    of one ``result_group``. Parts with the same ``message_id`` are one message. ``is_injected`` says that the runtime put it in,
    ``injected_blocks`` which of its blocks where that is not all of it; ``model`` and ``window`` (of which ``whole_window``
    is the model's, where its agent uses a part) are what is in use from here on, and ``notes`` what could not be
    understood in a record whose rest could. ``further_parts`` are more messages that the record holds, each of them whole; one
    without a ``role`` is left out, and those behind it keep their numbers.
    ``usage`` and ``reasoning`` (the tokens that its runtime takes hidden reasoning to be) beside the conversation are
    those of the newest message of the assistant; ``system`` is the prompt, and
    ``tools`` are the schemas, Anthropic-shaped, that requests have from here on (None: as before). ``microcompaction`` is a
    micro compaction right before what the record says, and ``starts_message`` says that the context begins anew behind it.

    Records of a tree say their own ``key`` and the one that they hang ``parent_key`` (None: the record before). ``rewound_key``
    is the key of a record that is left with all that hangs below it; where that is not in the context, nothing is
    left, or with ``rewinds_to_start`` everything. A record that ``replaces_previous`` takes the place of the one before it with its key;
    where more has been said since, it stands behind that. A record beside the conversation that tells a whole context
    holds it in ``further_parts``: those with the key and the ``version`` of what was said before are that, and the ones without
    a key belong to the one before.
    """

    role: Role | None = None
    blocks: list[dict[str, Any]] = field(default_factory=list)
    has_results: bool = False
    flags: int = 0
    time: int = -1
    usage: Usage | None = None
    reasoning: int = 0
    result_group: Hashable = None
    notes: tuple[str, ...] = ()
    message_id: str = ""
    is_injected: bool = False
    injected_blocks: frozenset[int] = frozenset()
    model: str = ""
    window: int = 0
    model_window: int | None = None
    compaction: CompactionRecord | None = None
    key: str = ""
    parent_key: str | None = None
    rewound_key: str = ""
    rewinds_to_start: bool = False
    replaces_previous: bool = False
    version: Hashable = None
    further_parts: tuple[MessagePart, ...] = ()
    system: str | None = None
    tools: list[dict[str, Any]] | None = None
    microcompaction: CompactionRecord | None = None
    resets_context: bool = False

    def get_message(self, number: int) -> MessagePart:
        """What the record says in message *number* of those that it holds."""
        return self.further_parts[number - 1] if number else self


def validate_parts(parse: Callable[P, MessagePart]) -> Callable[P, MessagePart]:
    """How a format understands a record, with blocks that are what they have to be, and sizes that may have been.

    A scan and what reads its text again are given this same one, so that they cannot differ.
    """

    @wraps(parse)
    def checked(*args: P.args, **more: P.kwargs) -> MessagePart:
        part = parse(*args, **more)
        return _validate_part(
            replace(part, further_parts=tuple(map(_validate_part, part.further_parts))) if part.further_parts else part
        )

    return checked


def _validate_part(part: MessagePart) -> MessagePart:
    usage, notes = parse_usage_or_note(_validate_usage, part.usage) if part.usage else (None, ())
    blocks = [*map(parse_block, part.blocks)]
    if not notes and all(map(is_, blocks, part.blocks)):
        return part
    return replace(part, blocks=blocks, usage=usage, notes=(*part.notes, *notes))


def _validate_usage(usage: Usage | None) -> Usage | None:
    """Usage that may have been.

    Raises:
        ValueError: one of its sizes may not.
    """
    for name in ("fresh", "cache_read", "cache_write_5m", "cache_write_1h", "output") if usage else ():
        parse_tokens(getattr(usage, name), name)
    return usage


class MessageBuilder:
    """Facts of messages that are put together from parts; ``system`` and ``tools`` are what requests begin with."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.system = ""
        self.tools: list[dict[str, Any]] = []
        self._changed: list[int] = []
        self._results_message = -1
        self._result_group: Hashable = None
        self._messages_by_id: dict[str, int] = {}
        self._usage_by_message: dict[int, Usage] = {}  # of messages that more may be said of
        self._last_assistant = -1  # the newest message of the assistant
        self._message_by_key: dict[str, int] = {}  # key of a record to the message that it is part of or hangs below
        self._out_of_band_keys: set[str] = set()  # keys of those that are part of none
        self._parents: list[int] = []
        self._current = -1  # the message that the next record hangs below
        self._version_by_key: dict[str, Hashable] = {}
        self._further_messages: dict[int, list[int]] = {}  # messages of one record with a key, by the first of them
        self.event_positions: dict[
            tuple[str, int], int
        ] = {}  # a microcompaction or a clear to the message that it is behind
        self._replaced: set[int] = set()
        self._summary_messages: set[int] = set()
        self._revision = 0  # how often the chain was left, or something in it replaced

    def add(self, part: MessagePart, place: int, length: int, location: str) -> int:
        """Take what the record at *place* says; returns the (first) message it went to, -1 for none of them."""
        facts = self.facts
        facts.model = truncate_name(part.model) or facts.model
        if part.window:
            facts.window, facts.model_window = part.window, part.model_window
        if part.tools is not None:
            self.tools, facts.tools_bytes = part.tools, len(compact_json(part.tools)) if part.tools else 0
        if part.system is not None:
            self.system, facts.system_bytes = part.system, utf8_len(part.system)
        if part.rewound_key:
            self._rewind(part.rewound_key, or_start=part.rewinds_to_start)
        if part.replaces_previous:
            self._replace_record(part.key)
        if part.microcompaction:
            self._add_microcompaction(part.microcompaction)
        beside = part.role is None or self._begins_with_system(part)
        message = -1 if beside else self._add_message(part)
        kind = RecordKind.METADATA if beside else RecordKind.MESSAGE
        if beside and part.role is not None:
            self.append_system(extract_text(part.blocks))
        row = facts.add_record(place, length, kind, message)
        self._add_notes(part, row, location)
        if part.key and message >= 0:
            self._assign_key(part, message)
        said = {0: message} if message >= 0 else {}
        self._add_further_parts(part, row, said, location)
        if part.key and message < 0:
            self._move_to(self._find_parent_of_part(part))
            self._message_by_key[part.key] = self._current
            self._out_of_band_keys.add(part.key)
        if part.reasoning and self._last_assistant >= 0:
            facts.reasoning[self._last_assistant] = facts.reasoning.get(self._last_assistant, 0) + part.reasoning
        if part.usage and beside and self._last_assistant >= 0:
            self._add_usage(part, part.usage, self._last_assistant)
            self._changed.append(self._last_assistant)
        if part.resets_context:
            self.event_positions["clear", len(facts)] = self._current
            facts.begin_epoch(len(facts), "clear")
        if part.compaction and beside and part.compaction.context is None:
            self._add_microcompaction(part.compaction)
        elif part.compaction and said:
            self._add_full_compaction(part.compaction, said)
        elif part.compaction and len(facts):
            # What was said last may have gone too.
            self._add_full_compaction(part.compaction, {0: len(facts) - 1})
            facts.epochs[-1] = replace(facts.epochs[-1], start=len(facts))
        return message

    def _add_further_parts(self, part: MessagePart, row: int, messages: dict[int, int], where: str) -> None:
        """Take the further messages of a record but those that are known, and add them to what it *said*, by number."""
        owner = messages.get(0, -1) if part.key else -1
        path = self._find_current_path() if part.role is None and part.further_parts else ()
        known = False
        for number, each in enumerate(part.further_parts, 1):
            if each.key:
                known = (
                    self._message_by_key.get(each.key, -1) in path
                    and self._version_by_key.get(each.key) == each.version
                )
            if known:
                continue
            self._add_notes(each, row, where)
            if each.role is None:
                continue
            messages[number] = message = self._add_message(each, starts_message=True)
            self.facts.share_record(message, row, number)
            if each.key:
                owner = message
                self._assign_key(each, message)
            elif owner >= 0:
                self._further_messages.setdefault(owner, []).append(message)
        if messages:
            self.facts.record_kind[row] = RecordKind.MESSAGE

    def _begins_with_system(self, part: MessagePart) -> bool:
        """Whether a part is the system prompt that a session begins with."""
        return part.role == Role.SYSTEM and not len(self.facts) and not part.flags & MessageFlag.SUMMARY

    def _add_message(self, part: MessagePart, *, starts_message: bool = False) -> int:
        """Take a message, or (unless it begins *anew*) more of one; returns it."""
        facts, parent = self.facts, self._find_parent_of_part(part)
        assert part.role is not None
        message = -1 if starts_message else self._find_open_message(part, parent)
        if message >= 0:
            self._changed.append(message)
            if part.parent_key is not None:
                self._move_to(message)
            if part.time >= 0 and part.role == Role.ASSISTANT:
                facts.end_time[message] = part.time
        else:
            summary = MessageFlag.SUMMARY if part.compaction and part.compaction.has_summary else 0
            message = facts.add_message(part.role, part.flags | summary, part.time)
            self._move_to(parent)
            self._parents.append(parent)
            self._current = message
            if part.message_id:
                self._messages_by_id[part.message_id] = message
            if part.has_results:
                self._results_message, self._result_group = message, part.result_group
            elif part.role == Role.ASSISTANT:
                self._results_message = -1
        summary = part.flags & MessageFlag.SUMMARY  # which says already that nobody typed it
        injected = (part.is_injected or part.role == Role.SYSTEM) and not summary
        for number, block in enumerate(part.blocks):
            facts.add_block(message, block, injected=injected or number in part.injected_blocks)
        if part.role == Role.ASSISTANT:
            self._last_assistant = message
        if part.usage:
            self._add_usage(part, part.usage, message)
        return message

    def _find_open_message(self, part: MessagePart, parent: int) -> int:
        """The message that a part is more of; -1 where it begins one."""
        known, results = self._messages_by_id.get(part.message_id, -1), self._results_message
        if known >= 0 or not part.has_results or results < 0 or self._result_group != part.result_group:
            return known
        return results if part.parent_key is None or parent in (results, self._parents[results]) else -1

    def _add_usage(self, part: MessagePart, usage: Usage, message: int) -> None:
        """Take the usage of the request that *message* answers."""
        if known := self._usage_by_message.get(message):
            self.facts.revise_request(known, usage)
            return
        self.facts.add_request(message, usage, part.time)
        if part.message_id or part.role is None:
            self._usage_by_message[message] = usage

    # -- branches

    def _find_parent_of_part(self, part: MessagePart) -> int:
        """The message that a record hangs below, of several the last; below nothing known it goes on as before."""
        if part.parent_key is None:
            return self._current
        above = self._message_by_key.get(part.parent_key, -1 if not part.parent_key else self._current)
        return self._further_messages[above][-1] if above in self._further_messages else above

    def _move_to(self, message: int) -> None:
        """What comes next hangs below *message*."""
        self._revision += message != self._current
        self._current = message

    def _assign_key(self, part: MessagePart, message: int) -> None:
        """A record with this key is part of *message*."""
        self._message_by_key[part.key] = message
        self._out_of_band_keys.discard(part.key)
        if part.version is not None:
            self._version_by_key[part.key] = part.version

    def _rewind(self, key: str, *, or_start: bool) -> None:
        """Leave a record with all that hangs below it: what comes next hangs below the message before it."""
        message = self._message_by_key.get(key, -1)
        if or_start and (message if key in self._message_by_key else len(self._parents)) not in (
            -1,
            *self._find_current_path(message),
        ):
            self._move_to(-1)
        elif key in self._message_by_key:
            self._move_to(message if key in self._out_of_band_keys else self._parents[message])
        self._results_message = -1

    def _find_current_path(self, since: int = 0) -> set[int]:
        """The messages that what comes next hangs below, none before *since*."""
        path, at = set[int](), self._current
        while at >= max(since, 0):
            path.add(at)
            at = self._parents[at]
        return path

    def _replace_record(self, key: str) -> None:
        """Forget what a record said; where nothing was said since, what comes next hangs where it did."""
        first = self._message_by_key.get(key, -1)
        if first < 0 or key in self._out_of_band_keys or first in self._replaced:
            return
        held = {first, *self._further_messages.get(first, ())}
        self._replaced |= held
        self._revision += 1
        if self._current in held:
            self._current, self._results_message = self._parents[first], -1

    @property
    def revision(self) -> int:
        """How often a branch was left or a record replaced: messages that were there no longer count since."""
        return self._revision

    @property
    def replaced(self) -> set[int]:
        """Messages in whose place there are others."""
        return self._replaced

    def find_abandoned_branches(self) -> list[set[int]]:
        """The messages of each branch that was left, in the order of the file; where one forks, a later one begins."""
        if not self._revision:
            return []
        path = self._find_current_path()
        found: list[set[int]] = []
        tips: dict[int, set[int]] = {}
        for message, parent in enumerate(self._parents):
            if message in path or message in self._replaced:
                continue
            branch = tips.pop(parent, None)
            if branch is None:
                found.append(branch := set())
            branch.add(message)
            tips[message] = branch
        return found

    def find_parent(self, message: int) -> int:
        """The message that another one hangs below, -1 for none."""
        return self._parents[message]

    # -- compactions

    def _add_microcompaction(self, what: CompactionRecord) -> None:
        """Take a micro compaction, before the next message."""
        facts, rows = self.facts, set[int]()
        self.event_positions["micro", len(facts.compactions)] = self._current
        for each in what.cleared_keys:
            key, number = each if isinstance(each, tuple) else (each, -1)
            if number < 0 and (call := facts.call_row(key)) >= 0:
                rows.add(facts.call_result[call])
            elif (message := self._message_by_key.get(key, -1)) >= 0:
                blocks = [*facts.blocks_of(message)]
                rows.update(blocks if number < 0 else blocks[number : number + 1])
        cleared = frozenset(row for row in rows if row >= 0 and facts.kind[row] in (Kind.TEXT, Kind.TOOL_RESULT))
        facts.add_compaction(
            Compaction(
                len(facts),
                "micro",
                what.trigger,
                what.tokens_before,
                cleared_blocks=cleared,
                saved_tokens=what.saved_tokens,
            )
        )

    def _add_full_compaction(self, what: CompactionRecord, messages: dict[int, int]) -> None:
        """Take a full compaction with its summary, the first message of those that its record *said*, by number."""
        summary = next(iter(messages.values()))
        if what.kept_since is not None:
            prefix = Spans.from_numbers([summary, *self._find_kept_since(what.kept_since, summary)])
        elif what.context is None:
            prefix = Spans(range(summary, summary + 1), range(max(summary - what.kept_messages, 0), summary))
        else:
            own = (message for each in what.context for message in self._find_context_messages(each, messages))
            prefix = Spans.from_numbers(dict.fromkeys(message for message in own if 0 <= message < len(self.facts)))
        self._summary_messages.add(summary)
        self.facts.add_compaction(Compaction(summary, "full", what.trigger, what.tokens_before, prefix))

    def _find_context_messages(self, each: str | int, messages: dict[int, int]) -> tuple[int, ...]:
        """The messages that an entry of a context means, by the key of their record, or by number in this one."""
        if isinstance(each, int):
            return (messages.get(each, -1),)
        first = self._message_by_key.get(each, -1)
        return (first, *self._further_messages.get(first, ()))

    def _find_kept_since(self, since: str | int, summary: int) -> list[int]:
        """The messages that a summary hangs below, from a record on, without earlier summaries, in order."""
        if isinstance(since, str):
            first = self._message_by_key.get(since, -1)
        else:
            held = self.facts.record_message
            first = next((held[row] for row in range(max(since, 0), len(held)) if held[row] >= 0), -1)
        above = first if since in self._out_of_band_keys else self._parents[first] if first >= 0 else len(self._parents)
        found: list[int] = []
        at = self._parents[summary]
        while at > above:  # what a message hangs below stands before it
            found.append(at)
            at = self._parents[at]
        if at != above or (since not in self._out_of_band_keys and found[-1:] != [first]):
            return []  # it is on another branch, or not in the file
        return [message for message in reversed(found) if message not in self._summary_messages]

    def pop_first_changed(self, before: int) -> int | None:
        """The lowest message below *before* that was added to since this was last asked."""
        changed, self._changed = min(self._changed, default=before), []
        return changed if changed < before else None

    def add_problem(self, place: int, length: int, where: str, what: str) -> None:
        """Take a record that cannot be read or understood."""
        row = self.facts.add_record(place, length, RecordKind.PROBLEM)
        self.facts.problems.append(Problem(where, what, row))

    def set_window(self, value: Any) -> None:
        """Take the context window that a request names."""
        try:
            self.facts.window = parse_tokens(value, "context_window") or None
        except ValueError as error:
            self.facts.problems.append(Problem("request", str(error)))

    def append_system(self, text: str) -> None:
        """Add to the session's system prompt."""
        self.system = f"{self.system}\n\n{text}" if self.system and text else self.system or text
        self.facts.system_bytes = utf8_len(self.system)

    def _add_notes(self, part: MessagePart, row: int, where: str) -> None:
        self.facts.problems.extend(Problem(where, note, row) for note in part.notes)


class BlockReader:
    """The text of messages from the records that they were put together from.

    What the newest record says is kept where it holds several messages: these are asked for one after the other.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._newest = (-1, MessagePart())

    def read_blocks(self, message: int, read: Callable[[int], MessagePart]) -> list[dict[str, Any]]:
        """Blocks of a message, from every record that it was put together from.

        Args:
            message: its number.
            read: what a record says, by its row.
        """
        facts = self._facts
        parts = ((self._parse_record(row, read), row) for row in facts.records_of(message))
        return [
            dict(block)
            for part, row in parts
            for block in part.get_message(facts.ordinal_in_record(message, row)).blocks
        ]

    def _parse_record(self, row: int, read: Callable[[int], MessagePart]) -> MessagePart:
        if self._newest[0] == row:
            return self._newest[1]
        part = read(row)
        if part.further_parts:
            self._newest = row, part
        return part
