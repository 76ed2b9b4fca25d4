"""From records to messages, the same for every format: merging, the leading system prompt, problems."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import wraps
from operator import is_
from typing import Any, ParamSpec

from context_tui.formats.kit.values import block_of, recorded_tokens, text_in, usage_or_note
from context_tui.session.facts import Compaction, Facts, Problem, Usage
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.session.validation import truncate_name
from context_tui.session.values import Kind, MessageFlag, RecordKind, Role, Spans

P = ParamSpec("P")


@dataclass(frozen=True)
class Compacted:
    """A compaction that a record tells of: a full one, whose summary it is, or a micro one, beside the conversation.

    ``keeps`` is how many messages right before a full one stay in the context, behind its summary. Where that is not
    all, ``context`` tells it whole, in prompt order: the keys of earlier records, and the numbers of the messages that
    the record itself holds (0: what it says first). Or ``since`` is the first record that stays, of those that it
    hangs below, by its key or its number in the file from 0; earlier summaries do not. ``summarises`` is False where
    nothing stands for what went: the message is one like others; beside the conversation it is so anyway, and the
    context holds what was said before. ``clears`` are what a micro one cleared: the ids of calls, whose results are
    meant, and the keys of records, whose blocks are, or with a number one of them. ``tokens_before`` and ``saved`` are
    tokens as recorded.
    """

    trigger: str | None = None
    tokens_before: int | None = None
    keeps: int = 0
    context: tuple[str | int, ...] | None = None
    since: str | int | None = None
    summarises: bool = True
    clears: tuple[str | tuple[str, int], ...] = ()
    saved: int | None = None


@dataclass(frozen=True)
class Part:
    """What one record says: blocks of a message, or with no ``role`` something beside the conversation.

    ``results`` are answers of tools: those since the last assistant message are one user message, as long as they are
    of one ``group``. Parts with the same ``message_id`` are one message. ``injected`` says that the runtime put it in,
    ``injects`` which of its blocks where that is not all of it; ``model`` and ``window`` (of which ``whole_window``
    is the model's, where its agent uses a part) are what is in use from here on, and ``notes`` what could not be
    understood in a record whose rest could. ``then`` are more messages that the record holds, each of them whole; one
    without a ``role`` is left out, and those behind it keep their numbers.
    ``usage`` and ``reasoning`` (the tokens that its runtime takes hidden reasoning to be) beside the conversation are
    those of the newest message of the assistant; ``system`` is the prompt, and
    ``tools`` are the schemas, Anthropic-shaped, that requests have from here on (None: as before). ``cleared`` is a
    micro compaction right before what the record says, and ``anew`` says that the context begins anew behind it.

    Records of a tree say their own ``key`` and the one that they hang ``below`` (None: the record before). ``rewinds``
    is the key of a record that is left with all that hangs below it; where that is not in the context, nothing is
    left, or with ``or_start`` everything. A record that ``replaces`` takes the place of the one before it with its key;
    where more has been said since, it stands behind that. A record beside the conversation that tells a whole context
    holds it in ``then``: those with the key and the ``version`` of what was said before are that, and the ones without
    a key belong to the one before.
    """

    role: Role | None = None
    blocks: list[dict[str, Any]] = field(default_factory=list)
    results: bool = False
    flags: int = 0
    time: int = -1
    usage: Usage | None = None
    reasoning: int = 0
    group: Hashable = None
    notes: tuple[str, ...] = ()
    message_id: str = ""
    injected: bool = False
    injects: frozenset[int] = frozenset()
    model: str = ""
    window: int = 0
    whole_window: int | None = None
    compacted: Compacted | None = None
    key: str = ""
    below: str | None = None
    rewinds: str = ""
    or_start: bool = False
    replaces: bool = False
    version: Hashable = None
    then: tuple[Part, ...] = ()
    system: str | None = None
    tools: list[dict[str, Any]] | None = None
    cleared: Compacted | None = None
    anew: bool = False

    def message(self, number: int) -> Part:
        """What the record says in message *number* of those that it holds."""
        return self.then[number - 1] if number else self


def checking(understand: Callable[P, Part]) -> Callable[P, Part]:
    """How a format understands a record, with blocks that are what they have to be, and sizes that may have been.

    A scan and what reads its text again are given this same one, so that they cannot differ.
    """

    @wraps(understand)
    def checked(*args: P.args, **more: P.kwargs) -> Part:
        part = understand(*args, **more)
        return _checked(replace(part, then=tuple(map(_checked, part.then))) if part.then else part)

    return checked


def _checked(part: Part) -> Part:
    usage, notes = usage_or_note(_bounded, part.usage) if part.usage else (None, ())
    blocks = [*map(block_of, part.blocks)]
    if not notes and all(map(is_, blocks, part.blocks)):
        return part
    return replace(part, blocks=blocks, usage=usage, notes=(*part.notes, *notes))


def _bounded(usage: Usage | None) -> Usage | None:
    """Usage that may have been.

    Raises:
        ValueError: one of its sizes may not.
    """
    for name in ("fresh", "cache_read", "cache_write_5m", "cache_write_1h", "output") if usage else ():
        recorded_tokens(getattr(usage, name), name)
    return usage


class MessageBuilder:
    """Facts of messages that are put together from parts; ``system`` and ``tools`` are what requests begin with."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.system = ""
        self.tools: list[dict[str, Any]] = []
        self._changed: list[int] = []
        self._results = -1
        self._group: Hashable = None
        self._by_id: dict[str, int] = {}
        self._requests: dict[int, Usage] = {}  # of messages that more may be said of
        self._spoken = -1  # the newest message of the assistant
        self._node: dict[str, int] = {}  # key of a record to the message that it is part of or hangs below
        self._beside: set[str] = set()  # keys of those that are part of none
        self._parent: list[int] = []
        self._leaf = -1  # the message that the next record hangs below
        self._version: dict[str, Hashable] = {}
        self._more: dict[int, list[int]] = {}  # messages of one record with a key, by the first of them
        self.happened: dict[tuple[str, int], int] = {}  # a microcompaction or a clear to the message that it is behind
        self._replaced: set[int] = set()
        self._summaries: set[int] = set()
        self._turns = 0  # how often the chain was left, or something in it replaced

    def add(self, part: Part, place: int, length: int, where: str) -> int:
        """Take what the record at *place* says; returns the (first) message it went to, -1 for none of them."""
        facts = self.facts
        facts.model = truncate_name(part.model) or facts.model
        if part.window:
            facts.window, facts.model_window = part.window, part.whole_window
        if part.tools is not None:
            self.tools, facts.tools_bytes = part.tools, len(compact_json(part.tools)) if part.tools else 0
        if part.system is not None:
            self.system, facts.system_bytes = part.system, utf8_len(part.system)
        if part.rewinds:
            self._rewind(part.rewinds, or_start=part.or_start)
        if part.replaces:
            self._replace(part.key)
        if part.cleared:
            self._cleared(part.cleared)
        beside = part.role is None or self._begins_with_system(part)
        message = -1 if beside else self._say(part)
        kind = RecordKind.METADATA if beside else RecordKind.MESSAGE
        if beside and part.role is not None:
            self.say_system(text_in(part.blocks))
        row = facts.add_record(place, length, kind, message)
        self._note(part, row, where)
        if part.key and message >= 0:
            self._name(part, message)
        said = {0: message} if message >= 0 else {}
        self._take_more(part, row, said, where)
        if part.key and message < 0:
            self._go_on_below(self._parent_of(part))
            self._node[part.key] = self._leaf
            self._beside.add(part.key)
        if part.reasoning and self._spoken >= 0:
            facts.reasoning[self._spoken] = facts.reasoning.get(self._spoken, 0) + part.reasoning
        if part.usage and beside and self._spoken >= 0:
            self._use(part, part.usage, self._spoken)
            self._changed.append(self._spoken)
        if part.anew:
            self.happened["clear", len(facts)] = self._leaf
            facts.begin_epoch(len(facts), "clear")
        if part.compacted and beside and part.compacted.context is None:
            self._cleared(part.compacted)
        elif part.compacted and said:
            self._summarised(part.compacted, said)
        elif part.compacted and len(facts):
            # What was said last may have gone too.
            self._summarised(part.compacted, {0: len(facts) - 1})
            facts.epochs[-1] = replace(facts.epochs[-1], start=len(facts))
        return message

    def _take_more(self, part: Part, row: int, said: dict[int, int], where: str) -> None:
        """Take the further messages of a record but those that are known, and add them to what it *said*, by number."""
        owner = said.get(0, -1) if part.key else -1
        path = self._path() if part.role is None and part.then else ()
        known = False
        for number, each in enumerate(part.then, 1):
            if each.key:
                known = self._node.get(each.key, -1) in path and self._version.get(each.key) == each.version
            if known:
                continue
            self._note(each, row, where)
            if each.role is None:
                continue
            said[number] = message = self._say(each, anew=True)
            self.facts.share_record(message, row, number)
            if each.key:
                owner = message
                self._name(each, message)
            elif owner >= 0:
                self._more.setdefault(owner, []).append(message)
        if said:
            self.facts.record_kind[row] = RecordKind.MESSAGE

    def _begins_with_system(self, part: Part) -> bool:
        """Whether a part is the system prompt that a session begins with."""
        return part.role == Role.SYSTEM and not len(self.facts) and not part.flags & MessageFlag.SUMMARY

    def _say(self, part: Part, *, anew: bool = False) -> int:
        """Take a message, or (unless it begins *anew*) more of one; returns it."""
        facts, parent = self.facts, self._parent_of(part)
        assert part.role is not None
        message = -1 if anew else self._open(part, parent)
        if message >= 0:
            self._changed.append(message)
            if part.below is not None:
                self._go_on_below(message)
            if part.time >= 0 and part.role == Role.ASSISTANT:
                facts.end_time[message] = part.time
        else:
            summary = MessageFlag.SUMMARY if part.compacted and part.compacted.summarises else 0
            message = facts.add_message(part.role, part.flags | summary, part.time)
            self._go_on_below(parent)
            self._parent.append(parent)
            self._leaf = message
            if part.message_id:
                self._by_id[part.message_id] = message
            if part.results:
                self._results, self._group = message, part.group
            elif part.role == Role.ASSISTANT:
                self._results = -1
        summary = part.flags & MessageFlag.SUMMARY  # which says already that nobody typed it
        injected = (part.injected or part.role == Role.SYSTEM) and not summary
        for number, block in enumerate(part.blocks):
            facts.add_block(message, block, injected=injected or number in part.injects)
        if part.role == Role.ASSISTANT:
            self._spoken = message
        if part.usage:
            self._use(part, part.usage, message)
        return message

    def _open(self, part: Part, parent: int) -> int:
        """The message that a part is more of; -1 where it begins one."""
        known, results = self._by_id.get(part.message_id, -1), self._results
        if known >= 0 or not part.results or results < 0 or self._group != part.group:
            return known
        return results if part.below is None or parent in (results, self._parent[results]) else -1

    def _use(self, part: Part, usage: Usage, message: int) -> None:
        """Take the usage of the request that *message* answers."""
        if known := self._requests.get(message):
            self.facts.revise_request(known, usage)
            return
        self.facts.add_request(message, usage, part.time)
        if part.message_id or part.role is None:
            self._requests[message] = usage

    # -- branches

    def _parent_of(self, part: Part) -> int:
        """The message that a record hangs below, of several the last; below nothing known it goes on as before."""
        if part.below is None:
            return self._leaf
        above = self._node.get(part.below, -1 if not part.below else self._leaf)
        return self._more[above][-1] if above in self._more else above

    def _go_on_below(self, message: int) -> None:
        """What comes next hangs below *message*."""
        self._turns += message != self._leaf
        self._leaf = message

    def _name(self, part: Part, message: int) -> None:
        """A record with this key is part of *message*."""
        self._node[part.key] = message
        self._beside.discard(part.key)
        if part.version is not None:
            self._version[part.key] = part.version

    def _rewind(self, key: str, *, or_start: bool) -> None:
        """Leave a record with all that hangs below it: what comes next hangs below the message before it."""
        message = self._node.get(key, -1)
        if or_start and (message if key in self._node else len(self._parent)) not in (-1, *self._path(message)):
            self._go_on_below(-1)
        elif key in self._node:
            self._go_on_below(message if key in self._beside else self._parent[message])
        self._results = -1

    def _path(self, since: int = 0) -> set[int]:
        """The messages that what comes next hangs below, none before *since*."""
        path, at = set[int](), self._leaf
        while at >= max(since, 0):
            path.add(at)
            at = self._parent[at]
        return path

    def _replace(self, key: str) -> None:
        """Forget what a record said; where nothing was said since, what comes next hangs where it did."""
        first = self._node.get(key, -1)
        if first < 0 or key in self._beside or first in self._replaced:
            return
        held = {first, *self._more.get(first, ())}
        self._replaced |= held
        self._turns += 1
        if self._leaf in held:
            self._leaf, self._results = self._parent[first], -1

    @property
    def turns(self) -> int:
        """How often a branch was left or a record replaced: messages that were there no longer count since."""
        return self._turns

    @property
    def replaced(self) -> set[int]:
        """Messages in whose place there are others."""
        return self._replaced

    def left(self) -> list[set[int]]:
        """The messages of each branch that was left, in the order of the file; where one forks, a later one begins."""
        if not self._turns:
            return []
        path = self._path()
        found: list[set[int]] = []
        tips: dict[int, set[int]] = {}
        for message, parent in enumerate(self._parent):
            if message in path or message in self._replaced:
                continue
            branch = tips.pop(parent, None)
            if branch is None:
                found.append(branch := set())
            branch.add(message)
            tips[message] = branch
        return found

    def parent(self, message: int) -> int:
        """The message that another one hangs below, -1 for none."""
        return self._parent[message]

    # -- compactions

    def _cleared(self, what: Compacted) -> None:
        """Take a micro compaction, before the next message."""
        facts, rows = self.facts, set[int]()
        self.happened["micro", len(facts.compactions)] = self._leaf
        for each in what.clears:
            key, number = each if isinstance(each, tuple) else (each, -1)
            if number < 0 and (call := facts.call_row(key)) >= 0:
                rows.add(facts.call_result[call])
            elif (message := self._node.get(key, -1)) >= 0:
                blocks = [*facts.blocks_of(message)]
                rows.update(blocks if number < 0 else blocks[number : number + 1])
        cleared = frozenset(row for row in rows if row >= 0 and facts.kind[row] in (Kind.TEXT, Kind.TOOL_RESULT))
        facts.add_compaction(
            Compaction(
                len(facts), "micro", what.trigger, what.tokens_before, cleared_blocks=cleared, saved_tokens=what.saved
            )
        )

    def _summarised(self, what: Compacted, said: dict[int, int]) -> None:
        """Take a full compaction with its summary, the first message of those that its record *said*, by number."""
        summary = next(iter(said.values()))
        if what.since is not None:
            prefix = Spans.from_numbers([summary, *self._kept_since(what.since, summary)])
        elif what.context is None:
            prefix = Spans(range(summary, summary + 1), range(max(summary - what.keeps, 0), summary))
        else:
            own = (message for each in what.context for message in self._told(each, said))
            prefix = Spans.from_numbers(dict.fromkeys(message for message in own if 0 <= message < len(self.facts)))
        self._summaries.add(summary)
        self.facts.add_compaction(Compaction(summary, "full", what.trigger, what.tokens_before, prefix))

    def _told(self, each: str | int, said: dict[int, int]) -> tuple[int, ...]:
        """The messages that an entry of a context means, by the key of their record, or by number in this one."""
        if isinstance(each, int):
            return (said.get(each, -1),)
        first = self._node.get(each, -1)
        return (first, *self._more.get(first, ()))

    def _kept_since(self, since: str | int, summary: int) -> list[int]:
        """The messages that a summary hangs below, from a record on, without earlier summaries, in order."""
        if isinstance(since, str):
            first = self._node.get(since, -1)
        else:
            held = self.facts.record_message
            first = next((held[row] for row in range(max(since, 0), len(held)) if held[row] >= 0), -1)
        above = first if since in self._beside else self._parent[first] if first >= 0 else len(self._parent)
        found: list[int] = []
        at = self._parent[summary]
        while at > above:  # what a message hangs below stands before it
            found.append(at)
            at = self._parent[at]
        if at != above or (since not in self._beside and found[-1:] != [first]):
            return []  # it is on another branch, or not in the file
        return [message for message in reversed(found) if message not in self._summaries]

    def first_changed(self, before: int) -> int | None:
        """The lowest message below *before* that was added to since this was last asked."""
        changed, self._changed = min(self._changed, default=before), []
        return changed if changed < before else None

    def add_problem(self, place: int, length: int, where: str, what: str) -> None:
        """Take a record that cannot be read or understood."""
        row = self.facts.add_record(place, length, RecordKind.PROBLEM)
        self.facts.problems.append(Problem(where, what, row))

    def say_window(self, value: Any) -> None:
        """Take the context window that a request names."""
        try:
            self.facts.window = recorded_tokens(value, "context_window") or None
        except ValueError as error:
            self.facts.problems.append(Problem("request", str(error)))

    def say_system(self, text: str) -> None:
        """Add to the session's system prompt."""
        self.system = f"{self.system}\n\n{text}" if self.system and text else self.system or text
        self.facts.system_bytes = utf8_len(self.system)

    def _note(self, part: Part, row: int, where: str) -> None:
        self.facts.problems.extend(Problem(where, note, row) for note in part.notes)
