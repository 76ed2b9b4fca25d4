"""Comparison of the context before and after a recorded compaction, as rows and lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from context_tui.compaction.recorded_compactions import RecordedCompaction, count_tokens_by_category
from context_tui.lab.regret.cases import ReusedBlock
from context_tui.session.facts import Compaction, Facts
from context_tui.session.values import Kind, MessageFlag
from context_tui.tokens.estimators import bytes4
from context_tui.tui.rendering.formatting import format_line, format_row_kind, has_unknown_size, pluralize
from context_tui.tui.terminal.cells import shorten
from context_tui.tui.widgets.styled_text import (
    BAD,
    BOLD,
    GOOD,
    MUTED,
    PRIMARY,
    WARN,
    Run,
    justify_runs,
    pad_runs,
    set_background,
    wrap_parts,
)

KEPT_SIGN, CLEARED_SIGN, LOST_SIGN, SUMMARY_SIGN, INSERTED_SIGN = "=", "-", "S", "▸", "+"
"""Signs of messages: kept, content cleared, lost, summary, inserted."""
SIGN_LABELS = (
    (KEPT_SIGN, "kept"),
    (CLEARED_SIGN, "content cleared"),
    (LOST_SIGN, "lost"),
    (SUMMARY_SIGN, "summary"),
    (INSERTED_SIGN, "inserted"),
)
KIND_WIDTH, TOKENS_WIDTH, USE_WIDTH = 8, 8, 16
"""Cells of the columns."""


class ComparisonRow(NamedTuple):
    """Message with its sign, estimated tokens before and after, and later uses."""

    message: int
    sign: str
    before: int
    after: int
    reused_blocks: tuple[ReusedBlock, ...]


@dataclass(eq=False)
class CompactionComparison:
    """Recorded compaction with the message under the cursor.

    ``number`` and ``count`` are its place in the recording; ``reused_blocks`` are the lost blocks that were used later,
    complete once ``is_reuse_known``.
    """

    compaction: RecordedCompaction
    number: int
    count: int
    reused_blocks: Sequence[ReusedBlock] = ()
    is_reuse_known: bool = False
    cursor: int = field(default=-1)
    """Row under the cursor."""

    def __post_init__(self) -> None:
        if self.cursor < 0 and self.rows:
            summary = self.compaction.summary_message
            first = next((at for at, row in enumerate(self.rows) if row.sign in (CLEARED_SIGN, LOST_SIGN)), 0)
            self.cursor = self.find_row(summary) if summary is not None else first

    @cached_property
    def rows(self) -> Sequence[ComparisonRow]:
        """Messages before and after, each once, in the order of the session."""
        found, facts = self.compaction, self.compaction.session.facts
        before, after = set(found.context_before.order), set(found.context_after.order)
        lost = Counter(facts.block_message[row] for row in found.removed_blocks)
        rows = []
        for message in sorted(before | after):
            sizes = [0, 0]
            for side, (there, context) in enumerate(((before, found.context_before), (after, found.context_after))):
                if message in there:
                    bodies = ((row, context.replacements.get(row)) for row in context.blocks_of(message))
                    sizes[side] = sum(body.tokens if body else bytes4(facts, row) for row, body in bodies)
            if message not in before:
                sign = SUMMARY_SIGN if facts.flags[message] & MessageFlag.SUMMARY else INSERTED_SIGN
            else:
                sign = LOST_SIGN if message not in after else CLEARED_SIGN if lost[message] else KEPT_SIGN
            rows.append(ComparisonRow(message, sign, sizes[0], sizes[1], ()))
        return rows

    @cached_property
    def reused_by_message(self) -> Mapping[int, list[ReusedBlock]]:
        """Later uses, by lost message."""
        made: dict[int, list[ReusedBlock]] = defaultdict(list)
        for each in self.reused_blocks:
            made[self.compaction.session.facts.block_message[each.row]].append(each)
        return made

    @property
    def message(self) -> int:
        """Message under the cursor; -1 for none."""
        return self.rows[self.cursor].message if self.rows else -1

    def set_reused_blocks(self, reused_blocks: Sequence[ReusedBlock]) -> None:
        """Set the lost blocks that were used later."""
        self.reused_blocks, self.is_reuse_known = reused_blocks, True
        self.__dict__.pop("reused_by_message", None)

    def find_row(self, message: int) -> int:
        """Return the row of a message, or of the first one after it."""
        return next((at for at, row in enumerate(self.rows) if row.message >= message), max(len(self.rows) - 1, 0))

    def move_cursor(self, step: int) -> None:
        """Move the cursor by so many rows."""
        self.cursor = min(max(self.cursor + step, 0), max(len(self.rows) - 1, 0))

    def move_to_reused(self, step: int) -> bool:
        """Go to the next (+1) or previous (-1) message used later, wrapping around; return False if there is none."""
        places = [at for at, row in enumerate(self.rows) if row.message in self.reused_by_message]
        ahead = [at for at in places if (at > self.cursor if step > 0 else at < self.cursor)]
        if not places:
            return False
        self.cursor = (ahead or places)[0 if step > 0 else -1]
        return True


def format_title(comparison: CompactionComparison) -> str:
    """Format kind and place of the compaction in one line."""
    found, what = comparison.compaction, comparison.compaction.event
    how = f" ({format_line(what.trigger)})" if isinstance(what, Compaction) and what.trigger else ""
    kind = {
        "full": f"full compaction{how}",
        "micro": f"microcompaction{how}",
        "silent": "results cleared without a record (inferred from recorded sizes)",
    }[found.kind]
    return f"{kind} before #{found.message:,}"


def format_header(comparison: CompactionComparison, width: int) -> list[Run]:
    """Format the first line of the screen."""
    count = f"{comparison.number + 1} of {comparison.count}"
    return justify_runs(
        [(2, ("Before and after", BOLD)), (1, (format_title(comparison), PRIMARY))], [(count, BOLD)], width
    )


def format_summary(comparison: CompactionComparison, width: int) -> list[list[Run]]:
    """Format sizes, messages, losses and later uses."""
    found = comparison.compaction
    before = "unknown" if found.believed_tokens_before is None else f"{found.believed_tokens_before:,}"
    how = "recorded plus estimate before" if found.believed_is_recorded else "estimated before"
    after = "not recorded" if found.recorded_tokens_after is None else f"{found.recorded_tokens_after:,} recorded"
    if not len(found.context_before):
        return wrap_parts(_format_without_before(found, after), width)
    if (
        found.recorded_tokens_after is None and not found.believed_is_recorded
    ):  # with a recorded part it would be another measure
        how, after = (
            "estimated, as nothing is recorded here",
            f"{sum(count_tokens_by_category(found.context_after).values()):,}",
        )
    tokens = sum(map(found.count_block_tokens, found.removed_blocks))
    parts: list[list[Run]] = [
        [("context ", MUTED), (f"{before} → {after}", BOLD), (f" ({how})", MUTED)],
        [("messages ", MUTED), (f"{len(found.context_before):,} → {len(found.context_after):,}", BOLD)],
        [
            ("lost ", MUTED),
            (f"{pluralize(len(found.removed_blocks), 'block')}, {tokens:,} est. tokens", BAD if tokens else BOLD),
        ],
    ]
    if isinstance(found.event, Compaction) and found.event.missing_messages:
        parts.append([(f"{pluralize(found.event.missing_messages, 'kept record')} not in the file", WARN)])
    return [*wrap_parts(parts, width), *wrap_parts([_format_reuse(comparison)], width)]


def _format_without_before(compaction: RecordedCompaction, after: str) -> list[list[Run]]:
    """Format a compaction at the start of a file, whose context before is not recorded."""
    told = compaction.event.pre_tokens if isinstance(compaction.event, Compaction) else None
    before = f"{told:,} by the file" if told else "unknown"
    return [
        [("context ", MUTED), (f"{before} → {after}", BOLD)],
        [("messages ", MUTED), (f"{len(compaction.context_after):,} after", BOLD)],
        [("the context before it is not in the file: what was lost is unknown", WARN)],
    ]


def _format_reuse(comparison: CompactionComparison) -> list[Run]:
    if not comparison.is_reuse_known:
        return [("looking for later uses…", MUTED)]
    if not comparison.compaction.removed_blocks:
        return [("nothing that is in the file was lost", MUTED)]
    if not comparison.reused_blocks:
        return [("none of it was used later, as far as the recording shows", GOOD)]
    gone = sum(not each.row_copies for each in comparison.reused_blocks)
    told = len(comparison.reused_blocks) - gone
    still = f"; {told:,} still in the context" if told else ""
    return [(f"{pluralize(len(comparison.reused_blocks), 'block')} of it used later", WARN), (still, MUTED)]


def format_categories(comparison: CompactionComparison, width: int) -> list[list[Run]]:
    """Format estimated tokens by category, before and after."""
    before, after = (
        count_tokens_by_category(comparison.compaction.context_before),
        count_tokens_by_category(comparison.compaction.context_after),
    )
    names = [name for name in {**before, **after}]
    most = max([*before.values(), *after.values(), 1])
    bars = max((width - 12 - 2 * TOKENS_WIDTH - 4) // 2, 0)
    heads = f"{'est. tokens':<12}{'before':>{TOKENS_WIDTH}}{'':{bars + 1}} {'after':>{TOKENS_WIDTH}}"
    lines: list[list[Run]] = [[(shorten(heads, width), MUTED)]]
    for name in sorted(names, key=lambda each: -before.get(each, 0)):
        runs: list[Run] = [(f"{name.replace('_', ' '):<12}", "")]
        for each, style in ((before.get(name, 0), BAD), (after.get(name, 0), GOOD)):
            runs += [(f"{each:>{TOKENS_WIDTH},} ", ""), (("▇" * -(-each * bars // most)).ljust(bars), style)]
        lines.append(pad_runs(runs, width))
    return lines


def format_column_heads(width: int) -> list[Run]:
    """Format the column headings."""
    right = f"{'before':>{TOKENS_WIDTH}}{'after':>{TOKENS_WIDTH}}  {'used later':<{USE_WIDTH}}"
    return pad_runs(
        [("      # who     what", MUTED), (" " * max(width - 20 - len(right), 0), ""), (right, MUTED)], width
    )


def describe_message(facts: Facts, message: int, preview: Callable[[int, int], str]) -> tuple[str, str]:
    """Return the kind and the text of a message; a message of results is described by its calls."""
    results = [row for row in facts.blocks_of(message) if facts.kind[row] == Kind.TOOL_RESULT]
    if not results:
        return format_row_kind(facts, message), preview(message, -1)
    more = f" and {len(results) - 1:,} more" if len(results) > 1 else ""
    return format_row_kind(facts, message, results[0]), preview(message, results[0]) + more


def format_rows(
    comparison: CompactionComparison, preview: Callable[[int, int], str], width: int, height: int
) -> list[list[Run]]:
    """Format the visible rows around the cursor; *preview* returns the first words of a message (-1) or block row."""
    facts = comparison.compaction.session.facts
    top = min(max(comparison.cursor - height // 2, 0), max(len(comparison.rows) - height, 0))
    lines = []
    for at, row in enumerate(comparison.rows[top : top + height], top):
        style = {LOST_SIGN: BAD, CLEARED_SIGN: BAD, SUMMARY_SIGN: PRIMARY, INSERTED_SIGN: GOOD}.get(row.sign, MUTED)
        back = comparison.reused_by_message.get(row.message, [])
        used = f"{back[0].use.tier} #{back[0].use.message:,}" if back else ""
        who, about = describe_message(facts, row.message, preview)
        left = f"{row.message:>6,} {who:<{KIND_WIDTH}}"
        after = "?" if row.sign == SUMMARY_SIGN and has_unknown_size(facts, row.message) else f"{row.after:,}"
        sizes = f"{row.before:>{TOKENS_WIDTH},}{after:>{TOKENS_WIDTH}}"
        room = width - 2 - len(left) - len(sizes) - USE_WIDTH - 3
        runs: list[Run] = [
            (f"{row.sign} ", style),
            (left, "" if row.sign != KEPT_SIGN else MUTED),
            *pad_runs([(shorten(about, room), "" if row.sign != KEPT_SIGN else MUTED)], max(room, 0)),
            (f" {sizes}  ", ""),
            (shorten(used, USE_WIDTH).ljust(USE_WIDTH), WARN if back and not back[0].row_copies else MUTED),
        ]
        line_ = pad_runs(runs, width)
        lines.append(set_background(line_) if at == comparison.cursor else line_)
    return lines
