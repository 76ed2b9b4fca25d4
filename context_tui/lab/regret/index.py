"""Index of a session: the later uses of each block's content. Built once, and shared by all replays.

A *use* belongs to one block that held the needle: the block from which most of the message's needles can come, and the
newest of several. Other blocks that held it are its *copies*. So a use is lost only if the block and all copies are
removed, and keeping every such block until its last use loses none.

- *re-fetch*: a call fetches again what a block holds: the same call with the same result, or a read of the same file of
  which at least half the lines were in the block. If the agent changed the file in between, it reads something new:
  such calls are counted separately, and are no use. Commands that do more than read, and those that check a state
  (``git status``, a test run), are repeated for another reason, and fetch nothing.
- *edit*: the old text of an edit, by line; or the content that a rewritten file keeps.
- *reference*: something rare in a message of the assistant: a long line, a path, a long number or hash, or two shorter
  lines and names in code (:mod:`~.needles`). Rare is what at most :data:`MAX_HOLDERS` blocks held before; what is in
  the system prompt or in a tool's description is never lost. A line, phrase or command that the assistant wrote first
  is no reference: it may repeat it without looking.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice, takewhile
from typing import Any, Literal, NamedTuple

from context_tui.lab.regret.fetches import Fetch, FetchLog
from context_tui.lab.regret.needles import (
    cut_excerpt,
    extract_block_text,
    find_lines,
    find_paths,
    find_tokens,
    is_distinctive_line,
    is_name,
    is_number,
    locate_needles,
)
from context_tui.lab.regret.tool_calls import CallEffect, analyze_call, is_same_file
from context_tui.lab.replay.history import History
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import CompactionHandling
from context_tui.session.jsontext import compact_text
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Kind, MessageFlag, Role

UseTier = Literal["re-fetch", "edit", "reference"]

TIERS: tuple[UseTier, ...] = ("re-fetch", "edit", "reference")
"""Tiers, the highest first; a block counts in the highest tier of its uses."""
MAX_HOLDERS = 3
"""Maximum number of blocks that held something before it is used for the use to be attributed."""
MIN_EDIT_LINE_LENGTH = 16
"""Minimum length in characters for a line of an edit's old text to be attributed."""
LONG_LINE_LENGTH = 40
"""Length in characters from which on a line identifies its source; shorter ones may be common phrases."""
MAX_NEEDLES = 3
"""Needles recorded for each use of a block: of a truncated block, one may remain and another be lost."""
MIN_USE_WEIGHT = 2
"""Minimum weight of the needles of a use: a long line, a path or a number weighs 2, anything else 1."""


class BlockUse(NamedTuple):
    """Later use of the content of a block.

    ``message`` is the assistant's message that uses it and ``block`` the row of the block there; ``needle`` is the text
    searched for, ``evidence`` the line or call that shows it, and ``copies`` the rows of other earlier blocks that
    held it too.
    """

    tier: UseTier
    message: int
    block: int
    needle: str
    evidence: str
    copies: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class UseIndex:
    """Uses of a session by the row of the used block, by falling tier, then by message.

    ``block_count`` is the number of blocks of the session; summaries of replays follow after them. ``stale_refetches``
    maps rows to the messages that fetched the content again after the agent had changed it. ``removed_by_recording``
    maps rows to the message before which the recording itself lost their content, with its compactions kept or ignored;
    0 for content that never was in the context. ``memo`` caches derived results.
    """

    session: Session
    block_count: int
    by_row: Mapping[int, Sequence[BlockUse]]
    stale_refetches: Mapping[int, Sequence[int]]
    removed_by_recording: Mapping[CompactionHandling, Mapping[int, int]]
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    def find_last_use(self, row: int) -> int:
        """Return the last message that uses the content of the block with this row; -1 without one."""
        return max((use.message for use in self.by_row.get(row, ())), default=-1)


class _Mention(NamedTuple):
    """Needle used by an assistant's block, with the earlier blocks that held it and those it may come from."""

    needle: str
    row: int
    holders: tuple[int, ...]
    sources: tuple[int, ...]
    weight: int = 0


@dataclass
class _NeedleRows:
    """Rows of blocks in which assistants wrote a name, number, path or line, in order."""

    rows: dict[str, list[int]] = field(default_factory=dict)

    def add(self, row: int, needles: Iterable[str]) -> None:
        for each in needles:
            self.rows.setdefault(each, []).append(row)

    def sort_rows(self, owner: Sequence[int]) -> None:
        """Sort the rows by message, without duplicates."""
        for needle, rows in self.rows.items():
            self.rows[needle] = sorted(set(rows), key=lambda row: (owner[row], row))


def build_use_index(session: Session | Recording, checkpoint: Callable[[], object] = lambda: None) -> UseIndex:
    """Build the index of a session.

    Reads the text of every message once; *checkpoint* is called at each, and may raise to stop.
    """
    recording = Recording(session) if isinstance(session, Session) else session
    unsorted_uses, stale = _UseIndexer(recording.session, checkpoint).find_uses()
    order = {tier: number for number, tier in enumerate(TIERS)}
    by_row = {row: sorted(uses, key=lambda use: (order[use.tier], use.message)) for row, uses in unsorted_uses.items()}
    removals: dict[CompactionHandling, Mapping[int, int]] = {
        "keep": _find_recorded_removals(recording, "keep"),
        "ignore": _find_recorded_removals(recording, "ignore"),
    }
    rows = len(recording.session.facts.kind)
    return UseIndex(recording.session, rows, by_row, stale, removals)


def _find_recorded_removals(recording: Recording, recorded: CompactionHandling) -> dict[int, int]:
    history = History(recording, recorded)
    for event in recording.events:
        history.update(event)
    unsent = (message for message, is_sent in enumerate(recording.is_sent) if not is_sent)
    never = chain(unsent, recording.undoable_messages if recorded == "ignore" else ())
    facts = recording.session.facts
    return history.removed_by_recording | {row: 0 for message in never for row in facts.blocks_of(message)}


class _UseIndexer:
    """One pass over the assistant's messages for uses, and one over the other messages for their sources."""

    def __init__(self, session: Session, checkpoint: Callable[[], object]) -> None:
        self.session, self.facts, self.checkpoint = session, session.facts, checkpoint
        self.owner = session.facts.block_message
        self.uses_by_row: dict[int, list[BlockUse]] = defaultdict(list)
        self.effects: dict[int, CallEffect] = {}
        self.texts: dict[int, str] = {}
        self.tokens, self.paths, self.lines = _NeedleRows(), _NeedleRows(), _NeedleRows()
        self.edited_lines: dict[int, list[str]] = {}
        self.replaced_needles: dict[int, set[str]] = defaultdict(set)  # by message, texts that its edits replace
        self.rewritten_lines: dict[int, list[str]] = {}

    def find_uses(self) -> tuple[Mapping[int, list[BlockUse]], Mapping[int, list[int]]]:
        flags, role = self.facts.flags, self.facts.role
        sent_messages = [message for message in range(len(self.session)) if not flags[message] & MessageFlag.NOT_SENT]
        not_by_model = MessageFlag.SUMMARY | MessageFlag.SYNTHETIC
        replies = {
            message
            for message in sent_messages
            if role[message] == Role.ASSISTANT and not flags[message] & not_by_model
        }
        for message in sorted(replies):
            self._read_assistant_message(message)
        fetches = FetchLog()
        for message in sent_messages:
            if message in replies:
                self._index_written(message, fetches)
            else:
                self._read_input_message(message, fetches)
        self._remove_prompt_needles()
        for needle_rows in (self.tokens, self.paths, self.lines):
            needle_rows.sort_rows(self.owner)
        for row, lines in self.edited_lines.items():
            self._find_edit_uses(row, lines, same_only=False)
        for row, lines in self.rewritten_lines.items():
            self._find_edit_uses(row, lines, same_only=True)
        self._find_reference_uses()
        for refetch in fetches.refetches:
            evidence = refetch.effect.fetch_key[:200]
            self.uses_by_row[refetch.earlier_row].append(
                BlockUse("re-fetch", refetch.message, refetch.block, refetch.line, evidence, refetch.copies)
            )
        return self.uses_by_row, fetches.stale

    def _read_blocks(self, message: int) -> Iterable[tuple[int, dict[str, object]]]:
        self.checkpoint()
        return zip(self.facts.blocks_of(message), self.session.content.blocks(message), strict=False)

    def _read_assistant_message(self, message: int) -> None:
        """Read an assistant message: the content that it may use, and its text."""
        for row, block in self._read_blocks(message):
            text = self.texts[row] = extract_block_text(block)
            if self.facts.kind[row] == Kind.TOOL_USE:
                effect = analyze_call(self.facts.tool_name(row), block.get("input"))
                if effect != CallEffect():
                    self.effects[row] = effect
                if effect.replaced_texts:
                    self.edited_lines[row] = find_lines("\n".join(effect.replaced_texts), MIN_EDIT_LINE_LENGTH)
                    self.lines.add(row, self.edited_lines[row])
                    old = "\n".join(effect.replaced_texts)
                    self.replaced_needles[message] |= {*self.edited_lines[row], *find_tokens(old), *find_paths(old)}
                if effect.written_text:
                    self.rewritten_lines[row] = [
                        line for line in find_lines(effect.written_text) if is_distinctive_line(line)
                    ]
            self.tokens.add(row, (each for each in find_tokens(text) if is_name(each) or is_number(each)))
            self.paths.add(row, find_paths(text))
            self.lines.add(row, find_lines(text))

    def _index_written(self, message: int, fetches: FetchLog) -> None:
        """Index what the assistant writes: places for later edits, and copies of what it writes to files."""
        for row in self.facts.blocks_of(message):
            self.lines.add(row, self.lines.rows.keys() & find_lines(self.texts.get(row, ""), MIN_EDIT_LINE_LENGTH))
            effect = self.effects.get(row)
            if effect and effect.written_text:
                fetches.add_write(Fetch(row, message, effect, dict.fromkeys(find_lines(effect.written_text, 4))))

    def _read_input_message(self, message: int, fetches: FetchLog) -> None:
        """Read a message that no assistant wrote: what it holds, and what its results have fetched."""
        facts = self.facts
        for row, block in self._read_blocks(message):
            text = extract_block_text(block)
            if text:
                self.tokens.add(row, find_tokens(text) & self.tokens.rows.keys())
                self.paths.add(row, find_paths(text) & self.paths.rows.keys())
                text_lines = find_lines(text, MIN_EDIT_LINE_LENGTH)
                self.lines.add(row, self.lines.rows.keys() & text_lines)
            call_row = facts.tool_use_of(row) if facts.kind[row] == Kind.TOOL_RESULT else -1
            effect = self.effects.get(call_row)
            if effect is None or facts.block_flags[row] & BlockFlag.ERROR:
                continue
            if effect.changed_paths:
                fetches.add_edit(effect, self.owner[call_row])
            elif effect.fetch_key:
                lines = dict.fromkeys(find_lines(text, 4))
                fetches.add_fetch(Fetch(row, message, effect, lines), self.owner[call_row], call_row)

    def _remove_prompt_needles(self) -> None:
        """Remove the needles of the system prompt and of tool descriptions, which every context has."""
        content = self.session.content
        text = "\n".join([content.system(), *map(compact_text, content.tools())])
        for needle_rows, needles in (
            (self.tokens, find_tokens(text)),
            (self.paths, find_paths(text)),
            (self.lines, find_lines(text)),
        ):
            for each in needles:
                needle_rows.rows.pop(each, None)

    def _find_edit_uses(self, row: int, lines: Iterable[str], *, same_only: bool) -> None:
        message, files = self.owner[row], self.effects[row].changed_paths
        all_mentions: list[_Mention] = []
        for line in dict.fromkeys(lines):
            holders = self._find_holders(self.lines.rows.get(line, ()), message)
            same = tuple(holder for holder in holders if self._is_about(holder, files))
            if holders and (same or (not same_only and is_distinctive_line(line))):
                all_mentions.append(_Mention(line, row, holders, same or holders))
        for holder, copies, mentions in self._group_by_source(all_mentions):
            for mention in mentions[:MAX_NEEDLES]:
                evidence = f"{self.facts.tool_name(row)} {files[0] if files else ''}: {mention.needle[:200]}"
                self.uses_by_row[holder].append(BlockUse("edit", message, row, mention.needle, evidence, copies))

    def _is_about(self, row: int, files: Sequence[str]) -> bool:
        """Return whether a block belongs to a call that read or changed one of these files."""
        call_row = row if self.facts.kind[row] == Kind.TOOL_USE else self.facts.tool_use_of(row)
        effect = self.effects.get(call_row)
        paths = (*effect.read_paths, *effect.changed_paths) if effect else ()
        return any(is_same_file(one, other) for one in paths for other in files)

    def _find_reference_uses(self) -> None:
        by_message: dict[int, list[_Mention]] = defaultdict(list)
        for needle_rows, weight in ((self.lines, _weigh_line), (self.paths, _weigh_path), (self.tokens, _weigh_token)):
            for needle, rows in needle_rows.rows.items():
                weighs = weight(needle)
                if weighs and not (needle_rows is self.lines and self._is_own_text(rows[0])):
                    for mention in self._find_mentions(needle, rows, weighs):
                        by_message[self.owner[mention.row]].append(mention)
        for message, message_mentions in by_message.items():
            sources = [
                each
                for each in self._group_by_source(message_mentions)
                if sum(mention.weight for mention in each[2]) >= MIN_USE_WEIGHT
            ]
            needles: dict[int, set[str]] = defaultdict(set)
            for mention in chain.from_iterable(mentions for _, _, mentions in sources):
                needles[mention.row].add(mention.needle)
            places = {row: locate_needles(self.texts[row], each) for row, each in needles.items()}
            for holder, copies, mentions in sources:
                for needle, row, *_ in mentions[:MAX_NEEDLES]:
                    evidence = cut_excerpt(self.texts[row], needle, places[row][needle])
                    self.uses_by_row[holder].append(BlockUse("reference", message, row, needle, evidence, copies))

    def _is_own_text(self, row: int) -> bool:
        """Return whether the assistant said the text itself before the first block, and wrote it to no file."""
        return row in self.texts and not (self.effects.get(row) or CallEffect()).changed_paths

    def _find_mentions(self, needle: str, rows: Sequence[int], weight: int) -> Iterator[_Mention]:
        """Return one mention per assistant message that uses something while it is rare."""
        before: list[int] = []
        for message, message_rows in groupby(rows, key=self.owner.__getitem__):
            current = list(message_rows)
            if before:
                reply_row = next((row for row in current if row in self.texts), None)
                if reply_row is not None and needle not in self.replaced_needles.get(message, ()):
                    yield _Mention(needle, reply_row, tuple(before), tuple(before), weight)
            before += current
            if len(before) > MAX_HOLDERS:
                return

    def _find_holders(self, rows: Sequence[int], message: int) -> tuple[int, ...]:
        """Return the blocks before a message that hold something, newest last; none where it is not rare."""
        holders = tuple(takewhile(lambda row: self.owner[row] < message, islice(rows, MAX_HOLDERS + 1)))
        return holders if len(holders) <= MAX_HOLDERS else ()

    def _group_by_source(
        self, all_mentions: Sequence[_Mention]
    ) -> Iterator[tuple[int, tuple[int, ...], list[_Mention]]]:
        """Group the mentions of one use by source block: holder, copies and mentions, the most significant first.

        A mention comes from the block that most of the others can come from; of several, from the newest. A recorded
        summary comes last, as it may be undone.
        """
        facts, owner = self.facts, self.owner
        shares = Counter(row for mention in all_mentions for row in mention.sources)
        groups: dict[tuple[int, tuple[int, ...]], list[_Mention]] = defaultdict(list)

        def fitness(row: int) -> tuple[bool, int, int, int]:
            return not facts.flags[owner[row]] & MessageFlag.SUMMARY, shares[row], owner[row], row

        for mention in all_mentions:
            holder = max(mention.sources, key=fitness)
            groups[holder, tuple(row for row in mention.holders if row != holder)].append(mention)
        for (holder, copies), mentions in groups.items():
            yield holder, copies, sorted(mentions, key=lambda mention: (-mention.weight, -len(mention.needle)))


def _weigh_line(line: str) -> int:
    return 0 if not is_distinctive_line(line) else MIN_USE_WEIGHT if len(line) >= LONG_LINE_LENGTH else 1


def _weigh_path(path: str) -> int:
    return MIN_USE_WEIGHT


def _weigh_token(token: str) -> int:
    return MIN_USE_WEIGHT if is_number(token) else 1
