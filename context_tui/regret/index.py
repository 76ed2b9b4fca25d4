"""The index of a session: where what each block holds is used later. Made once, and asked by every replay.

A *use* belongs to the newest block that held what is used; the blocks that held it too are its *copies*. So a use is
lost only where the holder and all copies are gone, and keeping every holder until its last use loses none.

- *re-fetch*: a call gets again what a block holds: the same call with the same result, or a read of the same file of
  which at least half the lines stood in the block. Where the agent changed the file in between, it reads what is new:
  these are told apart, and are no use. Commands that do more than read, and those that ask how things stand (``git
  status``, a test run), are made again for another reason, and fetch nothing.
- *edit*: an edit's old text, by each of its lines; or what a file is rewritten with and held before.
- *reference*: something rare in a message of the assistant: a line, a path, a long number or hash, or names in code
  (see :mod:`context_tui.regret.needles`). Rare is what at most :data:`RARE` blocks held before; what stands in the
  system prompt or in a tool's description is never lost. Of names, a message has to use two of a block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from context_tui.regret.calls import Doing, doing, same_file
from context_tui.regret.needles import (
    excerpt,
    is_name,
    is_number,
    lines_in,
    path_key,
    paths_in,
    says_much,
    text_of,
    tokens_in,
)
from context_tui.replay.history import History
from context_tui.replay.recording import Recording
from context_tui.replay.result import Recorded
from context_tui.session.facts import BlockFlag, Kind, MessageFlag, Role
from context_tui.session.jsontext import compact_text
from context_tui.session.session import Session

Tier = Literal["re-fetch", "edit", "reference"]

TIERS: tuple[Tier, ...] = ("re-fetch", "edit", "reference")
"""The tiers, the highest first: of a block with uses of several, that of the highest counts."""
RARE = 3
"""Blocks that at most held something before it is used, for it to say which block it is from."""
LEAST_OLD = 12
"""Characters from which on a line of an edit's old text says something."""
LOOK_BACK = 20
"""Fetches of the same, newest first, that are looked at for what is fetched again."""
SAME, PARTLY = 0.95, 0.5
"""Shares of a result's lines that stood in an earlier one: of the same call, and of a read of the same file."""
LEAST_FETCHED = 40
"""Characters of a result from which on fetching it again says something."""


class Use(NamedTuple):
    """A later use of what a block holds.

    ``message`` is the assistant's message that uses it and ``block`` the row of the block there; ``needle`` is what is
    looked for, ``evidence`` the line or call that shows it there, and ``copies`` are the rows of other blocks before
    that held it too.
    """

    tier: Tier
    message: int
    block: int
    needle: str
    evidence: str
    copies: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Uses:
    """The uses of a session by the row of the block that is used, those of higher tiers first, then the earlier ones.

    ``rows`` is how many blocks the session has; those of replays' summaries stand behind them.
    ``stale`` maps rows to the messages that fetched again what the block held and the agent had changed since.
    ``lost`` maps rows to the message before which the recording itself lost their content, with its compactions kept
    or ignored; what is never there at all is lost before message 0. ``memo`` keeps what others computed of it.
    """

    session: Session
    rows: int
    by_row: Mapping[int, Sequence[Use]]
    stale: Mapping[int, Sequence[int]]
    lost: Mapping[Recorded, Mapping[int, int]]
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    def last(self, row: int) -> int:
        """The last message that uses what the block with this row holds; -1 where none does."""
        return max((use.message for use in self.by_row.get(row, ())), default=-1)


class _Fetched(NamedTuple):
    """What a block got or wrote: its row, its message, the call, and its lines."""

    row: int
    message: int
    doing: Doing
    lines: Mapping[str, None]


@dataclass
class _Held:
    """Where what assistants wrote stands: rows of blocks, in order, by name, number, path or line."""

    rows: dict[str, list[int]] = field(default_factory=dict)

    def add(self, row: int, found: Iterable[str]) -> None:
        for each in found:
            self.rows.setdefault(each, []).append(row)


def index_of(session: Session | Recording) -> Uses:
    """The index of a session. Reads the text of every message once."""
    recording = Recording(session) if isinstance(session, Session) else session
    found, stale = _Indexing(recording.session).uses()
    order = {tier: number for number, tier in enumerate(TIERS)}
    by_row = {row: sorted(uses, key=lambda use: (order[use.tier], use.message)) for row, uses in found.items()}
    lost: dict[Recorded, Mapping[int, int]] = {"keep": _lost(recording, "keep"), "ignore": _lost(recording, "ignore")}
    rows = len(recording.session.facts.kind)
    return Uses(recording.session, rows, by_row, stale, lost)


def _lost(recording: Recording, recorded: Recorded) -> dict[int, int]:
    history = History(recording, recorded)
    for event in recording.events:
        history.take(event)
    unsent = (message for message, sent in enumerate(recording.sent) if not sent)
    never = chain(unsent, recording.undone if recorded == "ignore" else ())
    facts = recording.session.facts
    return history.recorded_gone | {row: 0 for message in never for row in facts.blocks_of(message)}


class _Indexing:
    """One pass over the assistant's messages for what may be used, and one over the others for where it stands."""

    def __init__(self, session: Session) -> None:
        self.session, self.facts = session, session.facts
        self.owner = session.facts.block_message
        self.found: dict[int, list[Use]] = defaultdict(list)
        self.stale: dict[int, list[int]] = defaultdict(list)
        self.does: dict[int, Doing] = {}
        self.texts: dict[int, str] = {}
        self.tokens, self.paths, self.lines = _Held(), _Held(), _Held()
        self.old: dict[int, list[str]] = {}
        self.rewritten: dict[int, list[str]] = {}

    def uses(self) -> tuple[dict[int, list[Use]], dict[int, list[int]]]:
        flags, role = self.facts.flags, self.facts.role
        sent = [message for message in range(len(self.session)) if not flags[message] & MessageFlag.NOT_SENT]
        written = MessageFlag.SUMMARY | MessageFlag.SYNTHETIC
        spoken = {message for message in sent if role[message] == Role.ASSISTANT and not flags[message] & written}
        for message in sorted(spoken):
            self._read_said(message)
        fetches = _Fetches(self.found, self.stale)
        for message in sent:
            if message in spoken:
                self._note_written(message, fetches)
            else:
                self._read_given(message, fetches)
        self._forget_always_known()
        self._find_edits()
        self._find_references()
        return self.found, self.stale

    def _rows(self, message: int) -> Iterable[tuple[int, dict[str, object]]]:
        return zip(self.facts.blocks_of(message), self.session.content.blocks(message), strict=False)

    def _read_said(self, message: int) -> None:
        """Take what a message of the assistant says for what may be used, and as a place where it stands."""
        for row, block in self._rows(message):
            text = self.texts[row] = text_of(block)
            if self.facts.kind[row] == Kind.TOOL_USE:
                does = doing(self.facts.tool_name(row), block.get("input"))
                if does != Doing():
                    self.does[row] = does
                if does.old:
                    self.old[row] = lines_in("\n".join(does.old), LEAST_OLD)
                    self.lines.add(row, self.old[row])
                if does.whole:
                    self.rewritten[row] = [line for line in lines_in(does.whole) if says_much(line)]
            self.tokens.add(row, (each for each in tokens_in(text) if is_name(each) or is_number(each)))
            self.paths.add(row, paths_in(text))
            self.lines.add(row, dict.fromkeys(lines_in(text)))

    def _note_written(self, message: int, fetches: _Fetches) -> None:
        """Take what a call writes to a file for a copy of it."""
        for row in self.facts.blocks_of(message):
            does = self.does.get(row)
            if does and does.whole:
                fetches.wrote(_Fetched(row, message, does, dict.fromkeys(lines_in(does.whole, 4))))

    def _read_given(self, message: int, fetches: _Fetches) -> None:
        """Find what may be used in a message that no assistant wrote, and what its results have fetched."""
        facts = self.facts
        for row, block in self._rows(message):
            text = text_of(block)
            if text:
                self.tokens.add(row, tokens_in(text) & self.tokens.rows.keys())
                self.paths.add(row, paths_in(text) & self.paths.rows.keys())
                found = lines_in(text, LEAST_OLD)
                self.lines.add(row, self.lines.rows.keys() & found)
            call = facts.call[row]
            made = facts.call_use[call] if facts.kind[row] == Kind.TOOL_RESULT and call >= 0 else -1
            does = self.does.get(made)
            if does is None or facts.block_flags[row] & BlockFlag.ERROR:
                continue
            if does.changes:
                fetches.changed(does, self.owner[made])
            elif does.key:
                lines = dict.fromkeys(lines_in(text, 4))
                fetches.fetched(_Fetched(row, message, does, lines), self.owner[made], made)

    def _forget_always_known(self) -> None:
        """What stands in the system prompt or in a tool's description is in every context."""
        content = self.session.content
        text = "\n".join([content.system(), *map(compact_text, content.tools())])
        for held, found in ((self.tokens, tokens_in(text)), (self.paths, paths_in(text)), (self.lines, lines_in(text))):
            for each in found:
                held.rows.pop(each, None)

    def _newest(self, rows: Sequence[int]) -> int:
        """The newest of some blocks; a recorded summary only where it is the only one, as it may be undone."""
        flags = self.facts.flags
        return next((r for r in reversed(rows) if not flags[self.owner[r]] & MessageFlag.SUMMARY), rows[-1])

    def _holders(self, held: _Held, needle: str, message: int) -> list[int]:
        """The blocks before a message that hold something, newest last; none where it is not rare."""
        rows = held.rows.get(needle, ())
        found: list[int] = []
        for row in rows:
            if self.owner[row] < message and (not found or found[-1] != row):
                found.append(row)
                if len(found) > RARE:
                    return []
        return found

    def _find_edits(self) -> None:
        for held in (self.tokens, self.paths, self.lines):
            for rows in held.rows.values():
                rows.sort(key=lambda row: (self.owner[row], row))
        for row, lines in self.old.items():
            self._find_edit(row, lines, same_only=False)
        for row, lines in self.rewritten.items():
            self._find_edit(row, lines, same_only=True)

    def _find_edit(self, row: int, lines: Sequence[str], *, same_only: bool) -> None:
        message, files = self.owner[row], self.does[row].changes
        best: dict[tuple[int, tuple[int, ...]], str] = {}
        for line in lines:
            holders = self._holders(self.lines, line, message)
            same = [holder for holder in holders if self._is_about(holder, files)]
            if not holders or (not same and (same_only or not says_much(line))):
                continue
            holder = self._newest(same or holders)
            key = holder, tuple(each for each in holders if each != holder)
            if len(line) > len(best.get(key, "")):
                best[key] = line
        for (holder, copies), line in best.items():
            evidence = f"{self.facts.tool_name(row)} {files[0] if files else ''}: {line[:200]}"
            self.found[holder].append(Use("edit", message, row, line, evidence, copies))

    def _is_about(self, row: int, files: Sequence[str]) -> bool:
        """Whether a block is of a call that read or changed one of some files."""
        call = self.facts.call[row]
        does = self.does.get(self.facts.call_use[call]) if call >= 0 else None
        known = (*does.reads, *does.changes) if does else ()
        return any(same_file(one, other) for one in known for other in files)

    def _find_references(self) -> None:
        said: dict[tuple[int, int, tuple[int, ...]], list[tuple[str, int]]] = defaultdict(list)
        names: dict[tuple[int, int, tuple[int, ...]], list[tuple[str, int]]] = defaultdict(list)
        for held in (self.lines, self.paths, self.tokens):
            for needle in held.rows:
                if held is self.lines and not says_much(needle):
                    continue
                into = names if held is self.tokens and not is_number(needle) else said
                self._find_reference(held, needle, into)
        for key, found in names.items():
            if len(found) > 1 or key in said:
                said[key] += found
        for (holder, message, copies), found in said.items():
            needle, row = max(found, key=lambda each: len(each[0]))
            self.found[holder].append(Use("reference", message, row, needle, excerpt(self.texts[row], needle), copies))

    def _find_reference(
        self, held: _Held, needle: str, into: dict[tuple[int, int, tuple[int, ...]], list[tuple[str, int]]]
    ) -> None:
        """Every message of the assistant that uses something while it is rare."""
        before: list[int] = []
        now: list[int] = []
        at = -1
        for row in held.rows[needle]:
            message = self.owner[row]
            if message != at:
                before += now
                now, at, used = [], message, False
                if len(before) > RARE:
                    return
            now.append(row)
            if before and not used and row in self.texts:
                used = True
                holder = self._newest(before)
                into[holder, message, tuple(each for each in before if each != holder)].append((needle, row))


class _Fetches:
    """What was fetched so far, by what and of which file, and what of it is fetched again."""

    def __init__(self, found: dict[int, list[Use]], stale: dict[int, list[int]]) -> None:
        self.found, self.stale = found, stale
        self.by_key: dict[str, list[_Fetched]] = defaultdict(list)
        self.by_name: dict[str, list[_Fetched]] = defaultdict(list)
        self.edits: dict[str, list[tuple[int, str]]] = defaultdict(list)

    def wrote(self, written: _Fetched) -> None:
        """A call wrote a file."""
        for path in written.doing.changes:
            self.by_name[_name(path)].append(written)

    def changed(self, does: Doing, message: int) -> None:
        """A call that changed files has succeeded."""
        for path in does.changes:
            self.edits[_name(path)].append((message, path))

    def fetched(self, new: _Fetched, asked: int, call: int) -> None:
        """A result has come; ``asked`` is the message of its call, ``call`` the row of that."""
        if sum(map(len, new.lines)) >= LEAST_FETCHED:
            holders = self._holders(new)
            if holders:
                newest, *older = [holder.row for holder in holders]
                if self._changed_since(holders[0], new, asked):
                    self.stale[newest].append(asked)
                else:
                    again = [line for line in new.lines if line in holders[0].lines]
                    line = again[len(again) // 2]
                    self.found[newest].append(Use("re-fetch", asked, call, line, new.doing.key[:200], tuple(older)))
            self.by_key[new.doing.key].append(new)
            for path in new.doing.reads:
                self.by_name[_name(path)].append(new)

    def _holders(self, new: _Fetched) -> list[_Fetched]:
        """The earlier fetches that had what the new one got, newest first."""
        found = {}
        for each in self.by_key[new.doing.key][-LOOK_BACK:]:
            if each.message < new.message and _share(new, each) >= SAME:
                found[each.row] = each
        for path in new.doing.reads:
            for each in self.by_name[_name(path)][-LOOK_BACK:]:
                known = (*each.doing.reads, *each.doing.changes)
                other = each.message < new.message and each.doing.key != new.doing.key
                if other and any(same_file(path, one) for one in known) and _share(new, each) >= PARTLY:
                    found[each.row] = each
        return sorted(found.values(), key=lambda each: -each.row)

    def _changed_since(self, held: _Fetched, new: _Fetched, asked: int) -> bool:
        """Whether a file that is read anew was changed by the agent since."""
        return any(
            held.message < message <= asked and same_file(path, changed)
            for path in new.doing.reads
            for message, changed in self.edits[_name(path)]
        )


def _share(new: _Fetched, earlier: _Fetched) -> float:
    """The share of the lines of one result that stood in an earlier one."""
    return sum(line in earlier.lines for line in new.lines) / len(new.lines)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
