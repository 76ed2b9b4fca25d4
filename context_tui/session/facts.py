"""Facts of a session in columns that only grow: records, messages, blocks, requests and epochs."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from context_tui.session.blocks import BodySize, get_bracket_start, measure_body, parse_read_range
from context_tui.session.columns import make_block_appender, make_message_appender, make_record_appender
from context_tui.session.jsontext import compact_json, loads, utf8_len
from context_tui.session.markers import is_summary_start
from context_tui.session.problems import ProblemList
from context_tui.session.values import NO_MESSAGES, BlockFlag, Explanation, Kind, MessageFlag, Role, Spans
from context_tui.text.sanitize import truncate_name

if TYPE_CHECKING:
    from context_tui.session.token_factors import SizeBasis

# Bound once, because access to an enum member is slow.
_TEXT, _THINKING, _TOOL_USE, _TOOL_RESULT = (
    int(kind) for kind in (Kind.TEXT, Kind.THINKING, Kind.TOOL_USE, Kind.TOOL_RESULT)
)
_USER, _ASSISTANT = int(Role.USER), int(Role.ASSISTANT)

_INDEX_LOCK = Lock()
"""Lock for ``DropSearch.index_requests``, because several threads use a session while it is read."""

READ_TOOLS = frozenset({"Read", "read", "read_file", "ReadFile", "view"})
READ_PATH_KEYS = ("file_path", "path", "filePath", "absolute_path")


class Usage(msgspec.Struct, gc=False):
    """The recorded tokens of one request. ``output_trusted`` is False if the output count is only a placeholder."""

    fresh: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    output_trusted: bool = True

    def update(self, other: Usage) -> None:
        """Replace the counts with those of a later line about the same request. A trusted output stays trusted."""
        self.fresh, self.cache_read, self.output = other.fresh, other.cache_read, other.output
        self.cache_write_5m, self.cache_write_1h = other.cache_write_5m, other.cache_write_1h
        self.output_trusted = self.output_trusted or other.output_trusted

    @property
    def context(self) -> int:
        """Tokens in the prompt: fresh, read from the cache, and written to it."""
        return self.fresh + self.cache_read + self.cache_write_5m + self.cache_write_1h


class BlockSize(NamedTuple):
    """The sizes of a block, each as in the column of :class:`Facts` with the same name."""

    size: int
    text_bytes: int
    json_bytes: int
    boundary_shifts: int
    wide_bytes: int


class PromptPart(NamedTuple):
    """A part of the system prompt, or a tool schema as compact JSON: its name, its size in UTF-8 bytes, and its text.

    A part with a ``cache_breakpoint`` ends a prefix that the provider is asked to cache.
    """

    name: str
    size: int
    text: str
    cache_breakpoint: bool = False


class Prompt(NamedTuple):
    """The system prompt and the tool schemas that requests contain, starting at message ``message``."""

    message: int = 0
    system: tuple[PromptPart, ...] = ()
    tools: tuple[PromptPart, ...] = ()


@dataclass(slots=True)
class Compaction:
    """A compaction that the session's file records.

    Attributes:
        message: the summary of a full compaction, or the message after a microcompaction.
        kind, trigger: full or micro, and the recorded cause.
        pre_tokens: recorded size of the context before the compaction, in tokens, or None.
        prefix: messages that a full compaction left in the context, in prompt order.
        cleared_blocks: rows of the results (or texts) that a microcompaction cleared.
        saved_tokens: recorded saving of a microcompaction, in tokens, or None.
        missing_messages: number of kept messages that are not in the file.
        version: the agent's version, or () if unknown.
        summary_tokens: the agent's own estimate of a summary whose text is not in the file, in tokens, or None.
    """

    message: int
    kind: str
    trigger: str | None = None
    pre_tokens: int | None = None
    prefix: Spans = NO_MESSAGES
    cleared_blocks: frozenset[int] = frozenset()
    saved_tokens: int | None = None
    missing_messages: int = 0
    version: tuple[int, ...] = ()
    summary_tokens: int | None = None

    @property
    def is_rewrite(self) -> bool:
        """Whether this is a microcompaction that cleared content, so that sizes recorded before it no longer apply."""
        return self.kind == "micro" and bool(self.cleared_blocks or self.saved_tokens)


@dataclass(slots=True, frozen=True)
class Epoch:
    """A span of messages during which the context only grows.

    Attributes:
        message: its first message, which is a compaction's summary or the first message after a clear.
        cause: start, compaction or clear.
        prefix: messages with which the context begins, in prompt order.
        start: first message appended after the prefix.
    """

    message: int
    cause: str
    prefix: Spans = NO_MESSAGES
    start: int = 0


@dataclass(slots=True, frozen=True)
class Drop:
    """A fall of the recorded context size from one request to the next, within an epoch.

    Attributes:
        message: reply to the second request.
        tokens, removed_tokens: size of the fall, and that size plus the tokens appended between the requests.
        explained_by: the cause, which may be a recorded compaction that took effect there, or None if none fits.
        cleared_blocks: rows of the results that were cleared, as inferred.
    """

    message: int
    tokens: int
    removed_tokens: int
    explained_by: Explanation | None = None
    cleared_blocks: tuple[int, ...] = ()


@dataclass(slots=True)
class DropSearch:
    """The extent of the search for drops, and the state of the data on which its results depend."""

    requests: int = 0
    message: int = -1
    causes: int = 0
    size_revisions: int = 0
    blocks: int = 0
    paths: int = 0
    compactions: int = 0
    proven: set[int] = field(default_factory=set)  # messages of drops that later records explain
    factors: dict[int, Any] = field(default_factory=dict)  # by request: the fitted factors
    intervals: dict[int, Any] = field(default_factory=dict)  # by request: the interval before it
    rows_by_model: dict[int, array[int]] = field(default_factory=dict)  # requests with the model of the previous one
    indexed_requests: int = 0  # number of requests in `rows_by_model`

    def index_requests(self, facts: Facts) -> None:
        """Add the new requests to ``rows_by_model``."""
        models = facts.request_model
        with _INDEX_LOCK:
            for row in range(max(self.indexed_requests, 1), len(models)):
                if models[row] == models[row - 1]:
                    self.rows_by_model.setdefault(models[row], array("i")).append(row)
            self.indexed_requests = len(models)

    def is_current(self, facts: Facts) -> bool:
        """Return whether the data on which the results depend is unchanged."""
        if self.requests > len(facts.requests) or self.size_revisions != facts.size_revisions:
            return False
        is_same_message = not self.requests or facts.request_message[self.requests - 1] == self.message
        return is_same_message and self.causes == self._count_causes(facts)

    def update(self, facts: Facts) -> None:
        """Record that all requests so far have been searched."""
        self.requests = len(facts.requests)
        self.message = facts.request_message[-1] if facts.requests else -1
        self.causes, self.size_revisions = self._count_causes(facts), facts.size_revisions
        self.blocks, self.paths, self.compactions = len(facts.kind), len(facts.paths), len(facts.compactions)

    def has_new_evidence(self, facts: Facts) -> bool:
        """Return whether a compaction or a repeated read, which may explain a drop, was recorded since the search."""
        if self.compactions < len(facts.compactions):
            return True
        return any(0 <= path < self.paths for path in facts.path[self.blocks :])

    def _count_causes(self, facts: Facts) -> int:
        epochs = bisect_right(facts.epochs, self.message, key=lambda epoch: epoch.message)
        return epochs + bisect_right(facts.compactions, self.message, key=lambda compaction: compaction.message)


@dataclass(slots=True)
class PeakSearch:
    """The largest recorded context of each model, keyed by model row, among the requests searched so far."""

    recorded: dict[int, int] = field(default_factory=dict)
    requests: int = 0
    last_usage: Usage | None = None
    size_revisions: int = 0

    def is_current(self, facts: Facts) -> bool:
        """Return whether the requests searched so far are unchanged."""
        if self.requests > len(facts.requests) or self.size_revisions != facts.size_revisions:
            return False
        return not self.requests or facts.requests[self.requests - 1] is self.last_usage

    def update(self, facts: Facts) -> None:
        """Search the requests added since the last call."""
        for usage, row in zip(facts.requests[self.requests :], facts.request_model[self.requests :], strict=True):
            self.recorded[row] = max(self.recorded.get(row, 0), usage.context)
        self.requests, self.size_revisions = len(facts.requests), facts.size_revisions
        self.last_usage = facts.requests[-1] if facts.requests else None


class Branch(NamedTuple):
    """A branch that a rewind abandoned: its id (which follows ``PATH#``), and its numbers of messages and requests.

    ``message`` is the first message of the session that follows the branch in the file.
    A log of requests also has branches where a summary was requested: the request itself, or the newest messages that
    it left out.
    """

    id: str
    messages: int
    requests: int
    is_at_summary: bool = False
    message: int = 0


class Facts:
    """Columns of facts: lengths in UTF-8 bytes, times in epoch milliseconds (-1: unknown), links as rows (-1: none)."""

    def __init__(self) -> None:
        # Small numbers are stored as "I": appending to arrays of "B" and "H" takes three times as long. A block has at
        # most 4 GB, as it is read as one value; the records of a file may be longer in a defective one.
        self.record_place = array("Q")  # byte offset, row id or element number, as the format defines it
        self.record_length = array("Q")
        self.record_kind = array("I")
        self.record_message = array("i")
        self.record_next = array("i")

        self.role = array("I")
        self.flags = array("I")
        self.time = array("q")
        self.end_time = array("q")  # time of the last record of an assistant message, of the first one of others
        self.first_block = array("i")
        self.last_block = array("i")
        self.first_record = array("i")
        self.last_record = array("i")

        self.block_message = array("I")
        self.block_next = array("i")
        self.kind = array("I")
        self.block_flags = array("I")
        self.size = array("I")  # bytes that the bytes/4 estimator counts
        self.text_bytes = array("I")  # bytes of text, without images
        self.json_bytes = array("I")  # tool_result: bytes of its content as compact JSON
        self.boundary_shifts = array("I")  # tool_result: see `blocks.compute_boundary_shifts`
        self.wide_bytes: dict[int, int] = {}  # tool_result: bytes of its text beyond one per UTF-16 unit
        self.image_rows = array("i")  # images, and tool_results that contain images
        self.tool = array("i")  # call and result: row of `tools`
        self.call = array("i")  # call and result: row of `calls`
        self.path = array("i")  # call that reads a file: row of `paths`

        self.read_tools, self.path_keys = READ_TOOLS, READ_PATH_KEYS
        self.tools: list[str] = []
        self.calls: list[str] = []
        self.paths: list[str] = []
        self.read_range: dict[int, tuple[int, int]] = {}  # by call or result: first line and number of lines (0: all)
        self.bracket_starts: dict[int, str] = {}  # start of texts and results that begin with a bracket
        self.call_use = array("i")  # by call: its newest tool_use
        self.call_result = array("i")  # by call: its newest tool_result
        self.repeated_calls: dict[int, list[int]] = {}  # by call with several tool_uses: all of them
        self.repeated_results: dict[int, list[int]] = {}  # by call with several tool_results: all of them
        self._tool_ids: dict[str, int] = {}
        self._call_ids: dict[str, int] = {}
        self._path_ids: dict[str, int] = {}

        self.request_message = array("I")
        self.request_time = array("q")
        self.request_model = array("i")  # row of `models`
        self.requests: list[Usage] = []
        self.size_revisions = 0  # number of changes of recorded request sizes by later lines
        self.cache_misses: dict[int, str] = {}  # by reply: the provider's reason for a cache miss
        self.models: list[str] = []
        self._model_ids: dict[str, int] = {}
        self.problems = ProblemList()
        self.compactions: list[Compaction] = []
        self.rewrites: list[int] = []  # messages before which a microcompaction cleared something
        self.epochs: list[Epoch] = [Epoch(0, "start")]
        self.reasoning: dict[int, int] = {}  # by reply: tokens of its hidden reasoning, as its runtime counts them
        self.branches: list[Branch] = []
        self.drops: list[Drop] = []
        self.drop_search = DropSearch()
        self.peak_search = PeakSearch()
        self.shared_record: dict[int, int] = {}  # by message: a record shared with the previous message
        self.shared_records: set[int] = set()
        self.shared_ordinal: dict[int, int] = {}  # by message: its position in the shared record, if not the second
        self.model: str | None = None  # model of the newest reply
        self.window: int | None = None
        self.model_window: int | None = None  # window of the model, if its agent uses only a part
        self.system_bytes = 0
        self.tools_bytes = 0
        self.prompts: list[Prompt] = []  # one for each change; the newest has these bytes
        self.has_side_requests = False  # whether requests of other conversations may stand among those of this one
        self.agent = ""  # if several agents share the format, the name of this one where its policies differ
        self.agent_version: tuple[int, ...] = ()  # of one of the last records
        self.holds_requests = False  # whether the file contains whole requests
        self.system_records = 0  # number of records among the messages that hold the system prompt
        self.size_basis: SizeBasis | None = None  # of a compacted copy, until a request follows
        self._origin = object()  # the same in all copies
        self.input_includes_cache = False  # whether the provider reports cached tokens as input tokens

        self._append_record, self._append_message = make_record_appender(self), make_message_appender(self)
        self._append_block = make_block_appender(self)

    def __len__(self) -> int:
        return len(self.role)

    def copy(self) -> Facts:
        """Return a copy to which more facts can be added without changing this one."""
        facts = Facts()
        for name, value in vars(self).items():
            if isinstance(value, array):
                getattr(facts, name).extend(value)  # the appenders refer to the new columns
            elif not name.startswith("_append"):
                setattr(facts, name, value.copy() if isinstance(value, dict) else value)
        for name in ("repeated_calls", "repeated_results"):
            setattr(facts, name, {call: rows.copy() for call, rows in getattr(self, name).items()})
        return facts

    def has_origin_of(self, other: Facts) -> bool:
        """Return whether the facts are a copy of *other*, or both are copies of the same facts."""
        return self._origin is other._origin

    def add_message(self, role: Role, flags: int = 0, time: int = -1) -> int:
        """Append a message, and return its number."""
        return self._append_message(role, flags, time)

    def add_record(self, place: int, length: int, kind: int, message: int = -1) -> int:
        """Append a record, which may be part of *message*, and return its row."""
        return self._append_record(place, length, kind, message)

    def remove_last_record(self) -> None:
        """Remove the last record, which must not belong to a message."""
        for column in (self.record_place, self.record_length, self.record_kind, self.record_message, self.record_next):
            column.pop()

    def add_request(self, message: int, usage: Usage, time: int = -1) -> int:
        """Insert a request to the current ``model`` with the reply *message*, sorted by reply, and return its row."""
        self.size_basis = None
        model = self._model_ids.get(self.model or "", -1)
        if model < 0 and self.model:
            model = self._intern(self.model, self.models, self._model_ids)
        row = bisect_right(self.request_message, message)
        self.request_message.insert(row, message)
        self.request_time.insert(row, time)
        self.request_model.insert(row, model)
        self.requests.insert(row, usage)
        return row

    def set_size_basis(self, basis: SizeBasis | None) -> None:
        """Set the size with all blocks so far, and the model if unknown; ignored if None, or if a size is recorded."""
        if basis and not self.requests:
            self.size_basis, self.model = replace(basis, blocks=len(self.kind)), self.model or basis.model or None

    def add_compaction(self, compaction: Compaction) -> None:
        """Append a compaction, which must not precede earlier ones. A full compaction begins an epoch."""
        self.compactions.append(compaction)
        if compaction.is_rewrite:
            self.rewrites.append(compaction.message)
        if compaction.kind == "full":
            self.begin_epoch(compaction.message, "compaction", compaction.prefix)

    def revise_request(self, recorded: Usage, usage: Usage) -> None:
        """Replace a request's recorded usage with a later one. If the size changes, drops are searched again."""
        size = recorded.context
        recorded.update(usage)
        self.size_revisions += recorded.context != size

    def begin_epoch(self, message: int, cause: str, prefix: Spans = NO_MESSAGES) -> None:
        """Begin a new context at *message* that starts with the messages in *prefix*.

        It replaces an epoch that begins at the same message. A clear at message 0 is ignored.
        """
        if not message and cause != "compaction":
            return
        start = max(prefix.end, message)
        if self.epochs[-1].message == message:
            self.epochs.pop()
        self.epochs.append(Epoch(message, cause, prefix, start))

    def add_block(self, message: int, block: dict[str, Any], *, injected: bool = False) -> int:
        """Measure a block, append it to *message*, and return its row."""
        name = block.get("type")
        flags = BlockFlag.INJECTED if injected else 0
        if name == "tool_result":
            call_id, body = _to_call_id(block.get("tool_use_id")), measure_body(block.get("content"))
            return self.add_result(message, call_id, bool(block.get("is_error")), body, flags)
        if name == "text":
            text = block.get("text")
            return self.add_text(message, text if isinstance(text, str) else "", flags)
        if name == "tool_use":
            name, call_id = str(block.get("name") or ""), _to_call_id(block.get("id"))
            return self.add_call(message, call_id, name, block.get("input"), flags)
        if name == "thinking":
            thinking, signature = str(block.get("thinking") or ""), str(block.get("signature") or "")
            return self.add_thinking(message, thinking, signature, flags)
        kind = {"redacted_thinking": Kind.THINKING, "image": Kind.IMAGE}.get(str(name), Kind.OTHER)
        if self.role[message] == _USER:
            self._mark_turn_start(message, flags)
        if kind == Kind.IMAGE:
            self.image_rows.append(len(self.kind))
        return self._append_block(message, kind, flags | BlockFlag.UNKNOWN_SIZE, 0, 0, 0, 0, -1, -1, -1)

    def add_text(self, message: int, body: str, flags: int = 0) -> int:
        """Append a text block to *message*, and return its row."""
        size = len(body) if body.isascii() else utf8_len(body)
        if body.startswith("[") or not message:
            self._mark_summary(message, body)
        if self.role[message] == _USER:
            self._mark_turn_start(message, flags)
        row = self._append_block(message, _TEXT, flags, size, size, 0, 0, -1, -1, -1)
        if body.startswith("["):
            self.bracket_starts[row] = get_bracket_start(body)
        return row

    def add_thinking(self, message: int, thinking: str, signature: str, flags: int = 0) -> int:
        """Append a thinking block (with "" for hidden thinking) to *message*, and return its row."""
        text = utf8_len(thinking)
        if not text:
            flags |= BlockFlag.UNKNOWN_SIZE
        if self.role[message] == _USER:
            self._mark_turn_start(message, flags)
        return self._append_block(message, _THINKING, flags, text + utf8_len(signature), text, 0, 0, -1, -1, -1)

    def add_call(self, message: int, call_id: str, name: str, arguments: Any, flags: int = 0) -> int:
        """Append a tool call to *message*, and return its row."""
        text = len(compact_json(arguments if arguments is not None else {}))
        call, tool, path = self._intern_call(call_id), self._tool_ids.get(name, -1), -1
        if tool < 0:
            tool = self._tool_ids[name] = self._intern(truncate_name(name), self.tools, self._tool_ids)
        if name in self.read_tools and isinstance(arguments, dict):
            target = next(filter(None, map(arguments.get, self.path_keys)), None)
            if isinstance(target, str):
                path = self._intern(target, self.paths, self._path_ids)
        if self.role[message] == _USER:
            self._mark_turn_start(message, flags)
        size = text + (len(name) if name.isascii() else utf8_len(name))
        earlier = self.call_use[call]
        self.call_use[call] = row = self._append_block(message, _TOOL_USE, flags, size, text, 0, 0, tool, call, path)
        if earlier >= 0:
            self.repeated_calls.setdefault(call, [earlier]).append(row)
        if path >= 0 and len(arguments) > 1 and (read_range := parse_read_range(arguments)) is not None:
            self.read_range[row] = read_range
        return row

    def _mark_turn_start(self, message: int, flags: int) -> None:
        """Mark the start of a turn, unless the block is injected or its message is a summary."""
        if not flags & BlockFlag.INJECTED and not self.flags[message] & MessageFlag.SUMMARY:
            self.flags[message] |= MessageFlag.TURN_START

    def add_result(self, message: int, call_id: str, is_error: bool, body: BodySize, flags: int = 0) -> int:
        """Append a tool result with a measured body to *message*, and return its row."""
        call = self._call_ids.get(call_id, -1)
        if call < 0:
            call = self._intern_call(call_id)
        call_row = self.call_use[call]
        tool = self.tool[call_row] if call_row >= 0 else -1
        size, text, json_size, shifts, body_flags, start, wide = body
        flags |= body_flags | BlockFlag.ERROR if is_error else body_flags
        earlier, sizes = self.call_result[call], (size, text, json_size, shifts)
        self.call_result[call] = row = self._append_block(message, _TOOL_RESULT, flags, *sizes, tool, call, -1)
        if flags & BlockFlag.HAS_IMAGE:
            self.image_rows.append(row)
        if wide:
            self.wide_bytes[row] = wide
        if earlier >= 0:
            self.repeated_results.setdefault(call, [earlier]).append(row)
        if start:
            self.bracket_starts[row] = start
        return row

    def _mark_summary(self, message: int, body: str) -> None:
        """Mark *message* as a summary if *body*, the text to be appended to it, begins like one."""
        by_assistant, is_first = self.role[message] == _ASSISTANT, self.first_block[message] < 0
        if is_summary_start(body, by_assistant=by_assistant, first_block=is_first, first_message=not message):
            self.flags[message] |= MessageFlag.SUMMARY

    def starts_with(self, block: int, text: str) -> bool:
        """Return whether a text or result begins with *text* (a bracket and up to ``START_LENGTH`` characters)."""
        return self.bracket_starts.get(block, "").startswith(text)

    def copy_block(self, message: int, source: Facts, row: int) -> int:
        """Append a copy of block *row* of *source* to *message*, and return its new row."""
        size, text, json_size, shifts, wide = source.get_block_size(row)
        flags, start = source.block_flags[row], source.bracket_starts.get(row, "")
        return self._append_copy(message, source, row, (size, text, json_size, shifts, flags, start, wide))

    def copy_block_with_text(self, message: int, source: Facts, row: int, body: str) -> int:
        """Append a copy of block *row* of *source*, with the text *body*, to *message*, and return its new row."""
        kind, flags = source.kind[row], source.block_flags[row] & BlockFlag.INJECTED
        if kind == _TOOL_RESULT:
            size, text, json_size, shifts, body_flags, start, wide = measure_body(body)
            flags |= body_flags | source.block_flags[row] & BlockFlag.ERROR
            return self._append_copy(message, source, row, (size, text, json_size, shifts, flags, start, wide))
        if kind == _TOOL_USE:
            return self.add_call(message, source.call_id(row), source.tool_name(row), loads(body), flags)
        if kind == _THINKING:
            return self.add_thinking(message, body, "", flags)
        return self.add_text(message, body, flags)

    def _append_copy(self, message: int, source: Facts, row: int, body: BodySize) -> int:
        size, text, json_size, shifts, flags, start, wide = body
        tool = call = path = -1
        kind = source.kind[row]
        if source.call[row] >= 0:
            call = self._intern_call(source.calls[source.call[row]])
            newest_rows, repeated_rows = self.call_result, self.repeated_results
            if kind == _TOOL_USE:
                newest_rows, repeated_rows = self.call_use, self.repeated_calls
            if newest_rows[call] >= 0:
                repeated_rows.setdefault(call, [newest_rows[call]]).append(len(self.kind))
            newest_rows[call] = len(self.kind)
        if source.tool[row] >= 0:
            tool = self._intern(source.tools[source.tool[row]], self.tools, self._tool_ids)
        if source.path[row] >= 0:
            path = self._intern(source.paths[source.path[row]], self.paths, self._path_ids)
        new_row = self._append_block(message, kind, flags, size, text, json_size, shifts, tool, call, path)
        if kind == Kind.IMAGE or flags & BlockFlag.HAS_IMAGE:
            self.image_rows.append(new_row)
        if row in source.read_range:
            self.read_range[new_row] = source.read_range[row]
        if start:
            self.bracket_starts[new_row] = start
        if wide:
            self.wide_bytes[new_row] = wide
        return new_row

    @property
    def rewound_branches(self) -> list[Branch]:
        """The branches that a rewind abandoned, without those where a summary was requested."""
        return [branch for branch in self.branches if not branch.is_at_summary]

    def get_block_size(self, row: int) -> BlockSize:
        """Return the five sizes of a block."""
        sizes = self.size[row], self.text_bytes[row], self.json_bytes[row], self.boundary_shifts[row]
        return BlockSize(*sizes, self.wide_bytes.get(row, 0))

    def set_block_size(self, row: int, size: BlockSize) -> None:
        """Set the sizes of a block of which only the beginning has been measured."""
        self.size[row], self.text_bytes[row], self.json_bytes[row], self.boundary_shifts[row], wide = size
        if wide:
            self.wide_bytes[row] = wide

    def blocks_of(self, message: int) -> Iterator[int]:
        """Iterate over the rows of a message's blocks, in order."""
        row = self.first_block[message]
        while row >= 0:
            yield row
            row = self.block_next[row]

    def ordinal(self, block: int) -> int:
        """Return a block's position in its message, from 0."""
        return next(at for at, row in enumerate(self.blocks_of(self.block_message[block])) if row == block)

    def share_record(self, message: int, row: int, ordinal: int = 1) -> None:
        """Note that *message* is stored at position *ordinal* of record *row*, which belongs to another message."""
        self.shared_record[message] = row
        self.shared_records.add(row)
        if ordinal != 1:
            self.shared_ordinal[message] = ordinal

    def find_ordinal_in_record(self, message: int, row: int) -> int:
        """Return the position of *message* among the messages in the record *row*, from 0."""
        return self.shared_ordinal.get(message, 1) if self.shared_record.get(message) == row else 0

    def iterate_records(self, message: int) -> Iterator[int]:
        """Iterate over the rows of the records that store a message, in order."""
        if message in self.shared_record:
            yield self.shared_record[message]
        row = self.first_record[message]
        while row >= 0:
            yield row
            row = self.record_next[row]

    def tool_name(self, block: int) -> str:
        """Return the name of the tool that a call or result is for, or "" if the call is not in the file."""
        row = self.tool[block]
        return self.tools[row] if row >= 0 else ""

    def call_id(self, block: int) -> str:
        """Return the id of a call, or of the call that a result answers, or "" for any other block."""
        row = self.call[block]
        return self.calls[row] if row >= 0 else ""

    def _intern(self, value: str, values: list[str], ids: dict[str, int]) -> int:
        row = ids.get(value)
        if row is None:
            row = ids[value] = len(values)
            values.append(value)
        return row

    def _intern_call(self, call_id: str) -> int:
        row = self._call_ids.get(call_id)
        if row is None:
            row = self._call_ids[call_id] = len(self.calls)
            self.calls.append(call_id)
            self.call_use.append(-1)
            self.call_result.append(-1)
        return row

    def find_tool_use(self, block: int) -> int:
        """Return the row of the call that a result answers (the last one before it with its id), or -1 if unknown."""
        call = self.call[block]
        newest = self.call_use[call] if call >= 0 else -1
        if newest < block or call not in self.repeated_calls:
            return newest
        rows = self.repeated_calls[call]
        return rows[max(bisect_left(rows, block) - 1, 0)]

    def find_tool_result(self, block: int) -> int:
        """Return the row of a call's newest result before another call uses the same id, or -1 if there is none."""
        call = self.call[block]
        newest = self.call_result[call] if call >= 0 else -1
        if newest < 0 or call not in self.repeated_calls:
            return newest
        call_rows, results = self.repeated_calls[call], self.repeated_results.get(call, [newest])
        next_call = bisect_right(call_rows, block)
        end = bisect_left(results, call_rows[next_call]) if next_call < len(call_rows) else len(results)
        return results[end - 1] if end and results[end - 1] > block else -1

    def find_call_row(self, call_id: str) -> int:
        """Return the row of *call_id* in ``calls``, or -1 if it is unknown."""
        return self._call_ids.get(call_id, -1)


def is_turn_start(facts: Facts, row: int) -> bool:
    """Return whether a block of a user message starts a turn: it is neither a tool result nor injected."""
    return facts.kind[row] != _TOOL_RESULT and not facts.block_flags[row] & BlockFlag.INJECTED


def is_reply(facts: Facts, message: int) -> bool:
    """Return whether *message* is the reply to a request with recorded usage."""
    row = bisect_left(facts.request_message, message)
    return row < len(facts.request_message) and facts.request_message[row] == message


def _to_call_id(value: object) -> str:
    return value if isinstance(value, str) else str(value or "")


def epoch_at(facts: Facts, at: int) -> Epoch:
    """Return the epoch to which the context before message *at* belongs."""
    row = bisect_left(facts.epochs, at, key=lambda epoch: epoch.message) - 1
    while row >= 0 and facts.epochs[row].start > at:
        row -= 1
    return facts.epochs[row] if row >= 0 else Epoch(0, "start")


def order_at(facts: Facts, at: int) -> tuple[Epoch, Sequence[int]]:
    """Return the epoch before message *at*, and the numbers of the messages in its context, in prompt order."""
    epoch = epoch_at(facts, at)
    order: Sequence[int] = range(epoch.start, at)
    if epoch.prefix:
        order = [*epoch.prefix, *order]
    flags, unsent = facts.flags, MessageFlag.NOT_SENT
    if any(flags[message] & unsent for message in order):
        order = [message for message in order if not flags[message] & unsent]
    return epoch, order


def spans_at(facts: Facts, at: int) -> Spans:
    """Return the messages of the context before message *at* in prompt order, stored compactly as ranges."""
    spans, order = recorded_spans_at(facts, at), order_at(facts, at)[1]
    return spans if len(spans) == len(order) else Spans.from_numbers(order)


def recorded_spans_at(facts: Facts, at: int) -> Spans:
    """Return the messages of the context before message *at* in prompt order, including those never sent."""
    epoch = epoch_at(facts, at)
    return Spans(*epoch.prefix.ranges, range(epoch.start, at))


def find_prompt_row(facts: Facts, at: int) -> int:
    """Return the row in ``prompts`` of the last request before message *at*, or 0 if there is no such request."""
    return max(bisect_right(facts.prompts, at, key=lambda prompt: prompt.message) - 1, 0)


def prompt_at(facts: Facts, at: int) -> Prompt:
    """Return the system prompt and tools of the last request before message *at*, or an empty prompt if unknown."""
    return facts.prompts[find_prompt_row(facts, at)] if facts.prompts else Prompt()


def find_last_rewrite(facts: Facts, at: int) -> int:
    """Return the last message up to *at* before which a recorded microcompaction cleared content, or 0 if none did."""
    row = bisect_right(facts.rewrites, at) - 1
    return facts.rewrites[row] if row >= 0 else 0
