"""Index of the later uses of each block's content in a session, built once and shared by all replays.

A *use* is an assistant message with a text (*needle*) that earlier blocks contain. It belongs to one of these blocks:
the one that contains most of the message's needles, or the newest of several. The other blocks are *copies*. A use is
lost only if the block and all copies were removed.

- *re-fetch*: a call fetches the content of a block again. A read of a file shows lines of it that the block showed: a
  read, a diff, the agent's own edit or a text of the user (:mod:`~.fetches`). Any other call that only reads has the
  result of an earlier one. If the agent had changed these lines in between, the call is counted separately and is no
  use. Commands that do more than read, and commands that check a state (``git status``, a test run), fetch nothing.
- *edit*: the old text of an edit, by line; or three lines that a rewritten file or a copy under another name repeats.
- *reference*: a long line, a file, a long number, a hash, a long name or the id of an issue in an assistant's message
  (:mod:`~.needles`). A line that the assistant said first is no reference, unless it is in a call.

The lines of a re-fetch and of an edit are found in other forms, too, such as with escapes. Neither the system prompt, a
tool's description nor the name of the working folder contains a needle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, groupby, islice, takewhile
from typing import Any, Literal, NamedTuple

from context_tui.lab.regret.fetches import MIN_STORED_LENGTH, Fetch, FetchLog
from context_tui.lab.regret.needles import (
    MIN_CERTAIN_LENGTH,
    PhraseFinder,
    cut_excerpt,
    extract_block_text,
    find_lines,
    find_paths,
    find_tokens,
    is_distinctive_line,
    is_distinctive_token,
)
from context_tui.lab.regret.tool_calls import CallEffect, analyze_call, mentions_file
from context_tui.lab.regret.tools import TOOL_VERBS
from context_tui.lab.replay.history import ReplayHistory
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import NEVER_REMOVED, CompactionHandling
from context_tui.session.jsontext import compact_text
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Checkpoint, Kind, MessageFlag, Role

UseTier = Literal["re-fetch", "edit", "reference"]

TIERS: tuple[UseTier, ...] = ("re-fetch", "edit", "reference")
"""Tiers, the highest first; a block counts in the highest tier of its uses."""
MAX_HOLDERS = 3
"""Maximum number of earlier blocks with a short line of an edit, unless its other lines have more."""
MAX_CERTAIN_HOLDERS = 50
"""The same maximum for a longer line; also the number of newest blocks that are searched for the source of a needle."""
MIN_EDIT_LINE_LENGTH = 8
"""Minimum length in characters for a line of an edit's old text to be attributed."""
MAX_NEEDLES = 3
"""Maximum number of needles stored per use of a block; truncation may keep one and remove another."""
MIN_REWRITTEN_LINES = 3
"""Minimum number of an earlier block's lines that remain in a file that is rewritten."""
MIN_COPIED_SHARE, MIN_COPIED_LINES = 0.5, 5
"""Minimum share and number of lines that a new file has in common with earlier blocks to count as their copy."""
MIN_USE_WEIGHT = 6
"""Minimum weight of the lost needles of a use; most needles have all of it, a line of a read a part."""


class EarlierRows(Sequence[int]):
    """View of the first rows of a long list, which all uses of a needle share."""

    def __init__(self, rows: Sequence[int], length: int) -> None:
        self.rows, self.length = rows, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: Any) -> Any:
        return self.rows[: self.length][place] if isinstance(place, slice) else self.rows[range(self.length)[place]]


class BlockUse(NamedTuple):
    """A later use of a block's content by the assistant.

    Attributes:
        message, block: the assistant's message, and the row of its block.
        needle: the text that both blocks contain.
        evidence: the line or call that shows the use.
        copies: rows of other earlier blocks that contain the needle.
        weight: weight of the needle; the uses in a message are lost if lost needles weigh :data:`MIN_USE_WEIGHT`.
        is_other: true if only other blocks contain the needle, which the same call fetches again.
    """

    tier: UseTier
    message: int
    block: int
    needle: str
    evidence: str
    copies: Sequence[int] = ()
    weight: int = MIN_USE_WEIGHT
    is_other: bool = False


@dataclass(frozen=True, eq=False)
class UseIndex:
    """The later uses of every block in a session.

    Attributes:
        block_count: number of blocks in the session. Summaries that a replay inserts get row numbers after these.
        by_row: uses keyed by the row of the used block, from the highest tier to the lowest, then by message.
        stale_refetches: keyed by row, the messages that fetched the content again after the agent had changed it.
        removed_by_recording: keyed by handling of compactions, then row: the message before which the recording removed
            the content; 0 if the content never was in the context.
        memo: cached results of other modules.
    """

    session: Session
    block_count: int
    by_row: Mapping[int, Sequence[BlockUse]]
    stale_refetches: Mapping[int, Sequence[int]]
    removed_by_recording: Mapping[CompactionHandling, Mapping[int, int]]
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    def find_last_use(self, row: int) -> int:
        """Return the last message that uses a block's content, or -1 if none does."""
        return max((use.message for use in self.by_row.get(row, ())), default=-1)


class _Mention(NamedTuple):
    """A needle in an assistant's block, with the earlier blocks that contain it and those that may be its source."""

    needle: str
    row: int
    holders: Sequence[int]
    sources: tuple[int, ...]


@dataclass
class _NeedleRows:
    """Rows of the blocks that contain each needle, keyed by needle."""

    rows: dict[str, list[int]] = field(default_factory=dict)

    def add(self, row: int, needles: Iterable[str]) -> None:
        for needle in needles:
            self.rows.setdefault(needle, []).append(row)

    def sort_rows(self, owner: Sequence[int]) -> None:
        for needle, rows in self.rows.items():
            self.rows[needle] = sorted(set(rows), key=lambda row: (owner[row], row))


def build_use_index(session: Session | Recording, checkpoint: Checkpoint = lambda: None) -> UseIndex:
    """Build the index of a session by reading the text of every message; *checkpoint* may raise to stop."""
    recording = Recording(session) if isinstance(session, Session) else session
    handlings: tuple[CompactionHandling, ...] = "keep", "ignore"
    removals = {handling: _find_recorded_removals(recording, handling) for handling in handlings}
    unsorted_uses, stale = _UseIndexer(recording.session, removals["keep"], checkpoint).find_uses()
    order = {tier: number for number, tier in enumerate(TIERS)}
    by_row = {row: sorted(uses, key=lambda use: (order[use.tier], use.message)) for row, uses in unsorted_uses.items()}
    return UseIndex(recording.session, len(recording.session.facts.kind), by_row, stale, removals)


def _find_recorded_removals(recording: Recording, recorded: CompactionHandling) -> dict[int, int]:
    history = ReplayHistory(recording, recorded)
    for event in recording.events:
        history.update(event)
    unsent = (message for message, is_sent in enumerate(recording.is_sent) if not is_sent)
    absent = chain(unsent, recording.undoable_messages if recorded == "ignore" else ())
    unsent_rows = (row for message in absent for row in recording.session.facts.blocks_of(message))
    return {**history.removed_by_recording, **dict.fromkeys(unsent_rows, 0)}


class _UseIndexer:
    """Search for uses: a pass over the assistant's messages for needles, and one over the others for sources."""

    def __init__(self, session: Session, removals: Mapping[int, int], checkpoint: Checkpoint) -> None:
        self.session, self.facts, self.removals, self.checkpoint = session, session.facts, removals, checkpoint
        self.owner = session.facts.block_message
        self.uses_by_row: dict[int, list[BlockUse]] = defaultdict(list)
        self.effects: dict[int, CallEffect] = {}
        self.mentions = cache(self._mentions)
        self.texts: dict[int, str] = {}
        self.tokens, self.paths, self.lines = (_NeedleRows() for _ in range(3))
        self.edited_lines: dict[int, list[str]] = {}

    def find_uses(self) -> tuple[Mapping[int, list[BlockUse]], Mapping[int, list[int]]]:
        flags, role = self.facts.flags, self.facts.role
        sent_messages = [message for message in range(len(self.session)) if not flags[message] & MessageFlag.NOT_SENT]
        by_model = (message for message in sent_messages if role[message] == Role.ASSISTANT)
        replies = {each for each in by_model if not flags[each] & (MessageFlag.SUMMARY | MessageFlag.SYNTHETIC)}
        for message in sorted(replies):
            self._read_assistant_message(message)
        fetches = FetchLog(self.mentions)
        for message in sent_messages:
            self._log_fetches(message, fetches, is_reply=message in replies)
        refetched_lines = [line for each in fetches.refetches for line in chain(each.lines, each.other_lines)]
        self.lines.rows |= {line: [] for line in refetched_lines}
        phrases = PhraseFinder(chain(chain.from_iterable(self.edited_lines.values()), refetched_lines))
        for message in sent_messages:
            self._index_sources(message, phrases, is_reply=message in replies)
        self._remove_prompt_needles()
        for needle_rows in (self.tokens, self.paths, self.lines):
            needle_rows.sort_rows(self.owner)
        for row, lines in self.edited_lines.items():
            self._find_edit_uses(row, lines)
        self._find_reference_uses()
        for refetch in fetches.refetches:
            evidence = (refetch.effect.fetch_key or " ".join(self.texts[refetch.block].split()))[:200]
            weight = MIN_USE_WEIGHT // refetch.min_lines
            for at, line in enumerate(chain(refetch.lines, refetch.other_lines)):
                if rows := self.lines.rows.get(line):
                    copies = EarlierRows(rows, bisect_left(rows, refetch.message, key=self.owner.__getitem__))
                    is_other = at >= len(refetch.lines)
                    use = BlockUse("re-fetch", refetch.message, refetch.block, line, evidence, copies, weight, is_other)
                    self.uses_by_row[refetch.earlier_row].append(use)
        return self.uses_by_row, fetches.stale

    def _mentions(self, row: int, path: str) -> bool:
        block = self.session.content.blocks(self.owner[row])[self.facts.ordinal(row)]
        texts = self.texts.get(self.facts.find_tool_use(row), ""), extract_block_text(block)
        return any(mentions_file(text, path) for text in texts)

    def _read_blocks(self, message: int) -> Iterable[tuple[int, dict[str, object]]]:
        self.checkpoint()
        return zip(self.facts.blocks_of(message), self.session.content.blocks(message), strict=False)

    def _read_assistant_message(self, message: int) -> None:
        for row, block in self._read_blocks(message):
            text = self.texts[row] = extract_block_text(block)
            if self.facts.kind[row] == Kind.TOOL_USE:
                effect = self.effects[row] = analyze_call(self.facts.tool_name(row), block.get("input"))
                replaced = "\n".join(effect.replaced_texts).replace("\\n", "\n")
                written = filter(is_distinctive_line, find_lines(effect.written_text))
                self.edited_lines[row] = [*dict.fromkeys(find_lines(replaced, MIN_EDIT_LINE_LENGTH) or written)]
                self.lines.add(row, self.edited_lines[row])
            self.tokens.add(row, filter(is_distinctive_token, find_tokens(text)))
            self.paths.add(row, find_paths(text))
            self.lines.add(row, find_lines(text.replace("`", "\n")))

    def _log_fetches(self, message: int, fetches: FetchLog, *, is_reply: bool) -> None:
        """Log what the calls of a reply write to files, or what the results and texts in another message show."""
        facts = self.facts
        if is_reply:
            for row in facts.blocks_of(message):
                effect = self.effects.get(row)
                if effect and (text := effect.written_text or effect.inserted_text):
                    fetches.add_file_lines(Fetch.parse(row, message, effect, text))
            return
        for row, block in self._read_blocks(message):
            is_result = facts.kind[row] == Kind.TOOL_RESULT
            call_row = facts.find_tool_use(row) if is_result else -1
            if is_result and call_row not in self.texts:
                continue
            is_error = facts.block_flags[row] & BlockFlag.ERROR
            effect = CallEffect() if is_error else self.effects.get(call_row, CallEffect())
            if effect.changed_paths:
                fetches.add_edit(effect, self.owner[call_row])
                continue
            fetch = Fetch.parse(row, message, effect, extract_block_text(block))
            if effect.fetch_key:
                fetches.add_fetch(fetch, self.owner[call_row], call_row)
            else:
                fetches.add_source(fetch)

    def _index_sources(self, message: int, phrases: PhraseFinder, *, is_reply: bool) -> None:
        """Index the blocks of a message by the needles in them; in a reply, only by lines."""
        blocks = {} if is_reply else dict(self._read_blocks(message))
        for row in self.facts.blocks_of(message):
            text = self.texts.get(row, "") if is_reply else extract_block_text(blocks.get(row, {}))
            self.lines.add(row, (self.lines.rows.keys() & find_lines(text, MIN_STORED_LENGTH)) | phrases.find(text))
            if not is_reply:
                self.tokens.add(row, find_tokens(text) & self.tokens.rows.keys())
                self.paths.add(row, find_paths(text) & self.paths.rows.keys())

    def _remove_prompt_needles(self) -> None:
        """Remove the needles of the system prompt and of tool descriptions, which every context has."""
        content = self.session.content
        text = "\n".join([content.system(), self.session.info.cwd, *map(compact_text, content.tools()), *TOOL_VERBS])
        for needle_rows, find in ((self.tokens, find_tokens), (self.paths, find_paths), (self.lines, find_lines)):
            for needle in find(text):
                needle_rows.rows.pop(needle, None)

    def _find_edit_uses(self, row: int, lines: Sequence[str]) -> None:
        """Find the uses of lines that an edit replaces, or that remain in a text that it writes."""
        message, effect = self.owner[row], self.effects[row]
        is_rewritten = not effect.replaced_texts
        known = sum(next(self._iter_earlier_rows(line, message), None) is not None for line in lines)
        same_file_only = is_rewritten and known < max(MIN_COPIED_SHARE * len(lines), MIN_COPIED_LINES)
        found = [self._find_edited_line(row, line, MAX_HOLDERS, same_file_only=same_file_only) for line in lines]
        is_anchor = len(lines) == 1 and lines[0] in effect.inserted_text
        if not (is_rewritten or is_anchor or any(found)):
            found = [self._find_edited_line(row, line, MAX_CERTAIN_HOLDERS, same_file_only=True) for line in lines]
        for holder, copies, mentions in self._group_by_source([*filter(None, found)]):
            if is_rewritten and len(mentions) < MIN_REWRITTEN_LINES:
                continue
            for mention in mentions[:MAX_NEEDLES]:
                evidence = f"{self.facts.tool_name(row)} {''.join(effect.changed_paths[:1])}: {mention.needle[:200]}"
                self.uses_by_row[holder].append(BlockUse("edit", message, row, mention.needle, evidence, copies))

    def _iter_earlier_rows(self, line: str, message: int) -> Iterator[int]:
        return takewhile(lambda row: self.owner[row] < message, self.lines.rows.get(line, ()))

    def _find_edited_line(self, row: int, line: str, max_holders: int, *, same_file_only: bool) -> _Mention | None:
        """Return a line of an edit with the earlier blocks that hold it, or None if too many or in other files."""
        message, files = self.owner[row], self.effects[row].changed_paths
        limit = MAX_CERTAIN_HOLDERS if is_distinctive_line(line) else max_holders
        holders = tuple(islice(self._iter_earlier_rows(line, message), limit + 1))
        if not 0 < len(holders) <= limit:
            return None
        present = [holder for holder in holders if self.removals.get(holder, NEVER_REMOVED) > message]
        same_file = [holder for holder in present if not files or self._concerns(holder, files)]
        same_file = same_file or [each for each in present if any(self.mentions(each, file) for file in files)]
        if same_file or (not same_file_only and is_distinctive_line(line)):
            return _Mention(line, row, holders, tuple(same_file) or holders)
        return None

    def _concerns(self, row: int, files: Sequence[str]) -> bool:
        call_row = row if self.facts.kind[row] == Kind.TOOL_USE else self.facts.find_tool_use(row)
        effect = self.effects.get(call_row)
        return effect is not None and effect.concerns(files)

    def _find_reference_uses(self) -> None:
        by_message: dict[int, list[_Mention]] = defaultdict(list)
        for needle_rows in (self.lines, self.paths, self.tokens):
            is_line = needle_rows is self.lines
            for needle, rows in needle_rows.rows.items():
                is_short = is_line and not (len(needle) >= MIN_CERTAIN_LENGTH and is_distinctive_line(needle))
                is_own_phrase = is_line and rows[0] in self.texts and self.facts.kind[rows[0]] != Kind.TOOL_USE
                if not (is_own_phrase or is_short):
                    for mention in self._find_mentions(needle, rows):
                        by_message[self.owner[mention.row]].append(mention)
        for message, message_mentions in by_message.items():
            for holder, copies, mentions in self._group_by_source(message_mentions):
                for needle, row, *_ in mentions[:MAX_NEEDLES]:
                    evidence = cut_excerpt(self.texts[row], needle)
                    self.uses_by_row[holder].append(BlockUse("reference", message, row, needle, evidence, copies))

    def _find_mentions(self, needle: str, rows: Sequence[int]) -> Iterator[_Mention]:
        """Yield a mention for each assistant message with a needle that earlier blocks contain."""
        count = 0
        for _, message_rows in groupby(rows, key=self.owner.__getitem__):
            current = list(message_rows)
            if count:
                reply_row = next((row for row in current if row in self.texts), None)
                if reply_row is not None and not any(needle in self.edited_lines.get(row, ()) for row in current):
                    sources = tuple(rows[max(count - MAX_CERTAIN_HOLDERS, 0) : count])
                    holders = sources if len(sources) == count else EarlierRows(rows, count)
                    yield _Mention(needle, reply_row, holders, sources)
            count += len(current)

    def _group_by_source(self, all_mentions: Sequence[_Mention]) -> Iterator[tuple[int, Sequence[int], list[_Mention]]]:
        """Yield each source block, its copies, and the mentions with this source, the most significant first.

        The source of a mention is the block that may be the source of most others, or the newest of several such
        blocks; a recorded summary only if there is no other, because its compaction may be ignored.
        """
        facts, owner = self.facts, self.owner
        shares = Counter(row for mention in all_mentions for row in mention.sources)
        groups: dict[tuple[int, Sequence[int]], list[_Mention]] = defaultdict(list)
        message = owner[all_mentions[0].row] if all_mentions else 0

        def rank_source(row: int) -> tuple[bool, bool, int, int, int]:
            is_present = self.removals.get(row, NEVER_REMOVED) > message
            return not facts.flags[owner[row]] & MessageFlag.SUMMARY, is_present, shares[row], owner[row], row

        for mention in all_mentions:
            holder = max(mention.sources, key=rank_source)
            is_shared = isinstance(mention.holders, EarlierRows)
            copies = mention.holders if is_shared else tuple(row for row in mention.holders if row != holder)
            groups[holder, copies].append(mention)
        for (holder, copies), mentions in groups.items():
            yield holder, copies, sorted(mentions, key=lambda mention: -len(mention.needle))
