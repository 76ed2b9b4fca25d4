"""Comparison of the context before and after a recorded compaction, and its texts on screen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from context_tui.compaction.recorded_compactions import RecordedCompaction, count_tokens_by_category
from context_tui.lab.aftermath.measure import Aftermath
from context_tui.lab.aftermath.report import format_aftermath
from context_tui.lab.regret.cases import ReusedBlock
from context_tui.session.context import Context
from context_tui.session.facts import Compaction, Facts
from context_tui.session.values import Kind, MessageFlag
from context_tui.summarizer.checks.instruction_survival import CompactionInstructions
from context_tui.text.numbers import format_count, format_percent
from context_tui.tokens.context_size import ContextSize
from context_tui.tokens.estimators import bytes4
from context_tui.tui.compactions.instructions import format_outcomes
from context_tui.tui.jump_points import find_next
from context_tui.tui.rendering.formatting import format_line, format_row_kind, has_unknown_size
from context_tui.tui.terminal.cells import shorten, shorten_at_word
from context_tui.tui.terminal.themes import BAD, BOLD, GOOD, MUTED, PRIMARY, WARN
from context_tui.tui.widgets.gauge import CATEGORY_STYLES
from context_tui.tui.widgets.styled_text import Run, justify_runs, pad_runs, set_background, wrap_parts

KEPT_SIGN, CLEARED_SIGN, LOST_SIGN, SUMMARY_SIGN, INSERTED_SIGN = "=", "-", "S", "▸", "+"
"""Signs of messages: kept, content cleared, lost, summary, inserted."""
SIGN_STYLES = {LOST_SIGN: BAD, CLEARED_SIGN: BAD, SUMMARY_SIGN: PRIMARY, INSERTED_SIGN: GOOD}
KIND_WIDTH, TOKENS_WIDTH, USE_WIDTH = 8, 8, 16


class ComparisonRow(NamedTuple):
    """A message, the sign for what the compaction did to it, and its estimated tokens before and after."""

    message: int
    sign: str
    before: int
    after: int


def _count_tokens(context: Context, message: int) -> int:
    bodies = ((row, context.replacements.get(row)) for row in context.blocks_of(message))
    return sum(body.tokens if body else bytes4(context.facts, row) for row, body in bodies)


@dataclass(eq=False)
class CompactionComparison:
    """One of *count* recorded compactions, numbered from 0, with a cursor on one of its messages.

    ``predicted_size`` is the size predicted for the first request after the compaction; None if it cannot be predicted.
    ``reused_blocks`` are the lost blocks that were used later; None until they are known.
    ``aftermath`` is what the agent did after the compaction; None until it is measured, or if no call follows.
    ``instructions`` are the instructions given before it, with their outcomes; None until they are known.
    """

    compaction: RecordedCompaction
    number: int
    count: int
    predicted_size: ContextSize | None = None
    reused_blocks: Sequence[ReusedBlock] | None = None
    aftermath: Aftermath | None = None
    instructions: CompactionInstructions | None = None
    cursor: int = -1
    """Row under the cursor; by default the row of the summary, or else of the first message lost or cleared."""

    def __post_init__(self) -> None:
        if self.cursor < 0 and self.rows:
            summary = self.compaction.summary_message
            removed = (place for place, row in enumerate(self.rows) if row.sign in (CLEARED_SIGN, LOST_SIGN))
            self.cursor = self.find_row(summary) if summary is not None else next(removed, 0)

    @cached_property
    def rows(self) -> Sequence[ComparisonRow]:
        """One row for each message in the context before or after the compaction, in session order."""
        compaction, facts = self.compaction, self.compaction.session.facts
        before, after = set(compaction.context_before.order), set(compaction.context_after.order)
        cleared = {facts.block_message[row] for row in compaction.removed_blocks}
        rows = []
        for message in sorted(before | after):
            if message not in before:
                sign = SUMMARY_SIGN if facts.flags[message] & MessageFlag.SUMMARY else INSERTED_SIGN
            else:
                sign = LOST_SIGN if message not in after else CLEARED_SIGN if message in cleared else KEPT_SIGN
            tokens_before = _count_tokens(compaction.context_before, message) if message in before else 0
            tokens_after = _count_tokens(compaction.context_after, message) if message in after else 0
            rows.append(ComparisonRow(message, sign, tokens_before, tokens_after))
        return rows

    @property
    def reused_by_message(self) -> Mapping[int, list[ReusedBlock]]:
        """The lost blocks that were used later, keyed by their message."""
        by_message: dict[int, list[ReusedBlock]] = defaultdict(list)
        for block in self.reused_blocks or ():
            by_message[self.compaction.session.facts.block_message[block.row]].append(block)
        return by_message

    @property
    def message(self) -> int:
        """The message under the cursor, or -1 if there are no messages."""
        return self.rows[self.cursor].message if self.rows else -1

    @property
    def use_width(self) -> int:
        """The width in cells of the column that shows later uses, or 0 if nothing was used later."""
        return USE_WIDTH if self.reused_by_message else 0

    def find_row(self, message: int) -> int:
        """Return the row for a message, or for the next message that has one, or else the last row."""
        last = max(len(self.rows) - 1, 0)
        return next((place for place, row in enumerate(self.rows) if row.message >= message), last)

    def compute_first_row(self, height: int) -> int:
        """Return the first row to show so that the cursor is among *height* visible rows."""
        return min(max(self.cursor - height // 2, 0), max(len(self.rows) - height, 0))

    def move_cursor(self, step: int) -> None:
        """Move the cursor by *step* rows, stopping at the first and the last."""
        self.cursor = min(max(self.cursor + step, 0), max(len(self.rows) - 1, 0))

    def move_to_reused(self, step: int) -> bool:
        """Go to the next (+1) or previous (-1) message used later, wrapping around; return False if there is none."""
        messages = self.reused_by_message
        places = [place for place, row in enumerate(self.rows) if row.message in messages]
        place = find_next(places, self.cursor, step)
        if place is not None:
            self.cursor = place
        return place is not None


def format_title(comparison: CompactionComparison) -> str:
    """Format the kind of the compaction and the message before which it was recorded."""
    compaction, event = comparison.compaction, comparison.compaction.event
    trigger = f" ({format_line(event.trigger)})" if isinstance(event, Compaction) and event.trigger else ""
    kind = {
        "full": f"full compaction{trigger}",
        "micro": f"microcompaction{trigger}",
        "silent": "results cleared without a record (inferred from recorded sizes)",
    }[compaction.kind]
    return f"{kind} before #{compaction.message:,}"


def format_header(comparison: CompactionComparison, width: int) -> list[Run]:
    """Format the line at the top of the screen."""
    count = f"{comparison.number + 1} of {comparison.count}"
    left: list[tuple[int, Run]] = [(2, ("Before and after", BOLD)), (1, (format_title(comparison), PRIMARY))]
    return justify_runs(left, [(count, BOLD)], width)


def format_summary(comparison: CompactionComparison, width: int) -> list[list[Run]]:
    """Format the sizes before and after, the message counts, the losses, and how much was used later."""
    compaction = comparison.compaction
    context_before, context_after = compaction.context_before, compaction.context_after
    is_recorded, recorded_after = compaction.believed_is_recorded, compaction.recorded_tokens_after
    before = "unknown" if compaction.believed_tokens_before is None else f"{compaction.believed_tokens_before:,}"
    source = "recorded plus estimate before" if is_recorded else "estimated before"
    after = "not recorded" if recorded_after is None else f"{recorded_after:,} recorded"
    if not len(context_before):
        return wrap_parts(_format_without_before(compaction, after), width)
    if recorded_after is None and not is_recorded:  # an estimate is not comparable with a recorded size
        source = "estimated, as nothing is recorded here"
        after = f"{sum(count_tokens_by_category(context_after).values()):,}"
    if isinstance(compaction.event, Compaction) and compaction.event.pre_tokens:
        source += f"; {compaction.event.pre_tokens:,} by the agent's count"
    tokens = sum(map(compaction.count_block_tokens, compaction.removed_blocks))
    lost_text = f"{format_count(len(compaction.removed_blocks), 'block')}, {tokens:,} est. tokens"
    parts: list[list[Run]] = [
        [("context ", MUTED), (f"{before} → {after}", BOLD), (f" ({source})", MUTED)],
        [("messages ", MUTED), (f"{len(context_before):,} → {len(context_after):,}", BOLD)],
        [("lost ", MUTED), (lost_text, BAD if tokens else BOLD)],
    ]
    if comparison.predicted_size and recorded_after:
        tokens_after, error = comparison.predicted_size.tokens, comparison.predicted_size.tokens / recorded_after - 1
        difference = f" ({format_percent(abs(error))} {'above' if error > 0 else 'below'} the recorded size)"
        parts.insert(1, [("predicted ", MUTED), (f"{tokens_after:,}", BOLD), (difference, MUTED)])
    if isinstance(compaction.event, Compaction) and compaction.event.missing_messages:
        parts.append([(f"{format_count(compaction.event.missing_messages, 'kept record')} not in the file", WARN)])
    lines = [*wrap_parts(parts, width), *wrap_parts([_format_reuse(comparison)], width)]
    if comparison.aftermath is not None:
        text = shorten_at_word(format_aftermath(comparison.aftermath), width - 11)
        lines.append([("afterwards ", MUTED), (text, "")])
    if comparison.instructions is not None and comparison.instructions.traces:
        lines += wrap_parts([format_outcomes(comparison.instructions)], width)
    return lines


def _format_without_before(compaction: RecordedCompaction, after: str) -> list[list[Run]]:
    """Format the summary of a compaction for which the file lacks the context before it."""
    tokens = compaction.event.pre_tokens if isinstance(compaction.event, Compaction) else None
    before = f"{tokens:,} by the agent's count" if tokens else "unknown"
    return [
        [("context ", MUTED), (f"{before} → {after}", BOLD)],
        [("messages ", MUTED), (f"{len(compaction.context_after):,} after", BOLD)],
        [("the context before it is not in the file: what was lost is unknown", WARN)],
    ]


def _format_reuse(comparison: CompactionComparison) -> list[Run]:
    if comparison.reused_blocks is None:
        return [("looking for later uses…", MUTED)]
    if not comparison.compaction.removed_blocks:
        return [("nothing that is in the file was lost", MUTED)]
    if not comparison.reused_blocks:
        return [("none of these was used later, as far as the recording shows", GOOD)]
    copy_count = sum(bool(block.row_copies) for block in comparison.reused_blocks)
    copies = f"; the content of {copy_count:,} is still in the context" if copy_count else ""
    return [(f"{len(comparison.reused_blocks):,} of these blocks used later", WARN), (copies, MUTED)]


def format_categories(comparison: CompactionComparison, width: int) -> list[list[Run]]:
    """Format the estimated tokens in each category before and after the compaction."""
    before = count_tokens_by_category(comparison.compaction.context_before)
    after = count_tokens_by_category(comparison.compaction.context_after)
    max_tokens = max([*before.values(), *after.values(), 1])
    bar_width = max((width - 12 - 2 * TOKENS_WIDTH - 4) // 2, 0)
    heads = f"{'est. tokens':<12}{'before':>{TOKENS_WIDTH}}{'':{bar_width + 1}} {'after':>{TOKENS_WIDTH}}"
    lines: list[list[Run]] = [[(shorten(heads, width), MUTED)]]
    for name in sorted({**before, **after}, key=lambda name: -before.get(name, 0)):
        runs: list[Run] = [(f"{CATEGORY_STYLES[name].name:<12}", "")]
        for tokens, style in ((before.get(name, 0), BAD), (after.get(name, 0), GOOD)):
            bar = "▇" * -(-tokens * bar_width // max_tokens)
            runs += [(f"{tokens:>{TOKENS_WIDTH},} ", ""), (bar.ljust(bar_width), style)]
        lines.append(pad_runs(runs, width))
    return lines


def format_column_heads(width: int, use_width: int) -> list[Run]:
    """Format the column headings; *use_width* is the width of the column that shows later uses, or 0 to omit it."""
    use = f"  {'used later':<{use_width}}" if use_width else " "
    right = f"{'before':>{TOKENS_WIDTH}}{'after':>{TOKENS_WIDTH}}{use}"
    gap = max(width - 20 - len(right), 0)
    unit = "est. tokens" if gap > len("est. tokens") else ""
    return pad_runs([("      # who     what", MUTED), (unit.rjust(gap), MUTED), (right, MUTED)], width)


def describe_message(facts: Facts, message: int, preview: Callable[[int, int], str]) -> tuple[str, str]:
    """Return a message's kind and preview; a message of tool results is previewed by the call of its first result."""
    results = [row for row in facts.blocks_of(message) if facts.kind[row] == Kind.TOOL_RESULT]
    if not results:
        return format_row_kind(facts, message), preview(message, -1)
    suffix = f" and {len(results) - 1:,} more" if len(results) > 1 else ""
    return format_row_kind(facts, message, results[0]), preview(message, results[0]) + suffix


def format_rows(
    comparison: CompactionComparison, preview: Callable[[int, int], str], width: int, height: int
) -> list[list[Run]]:
    """Format up to *height* rows around the cursor; *preview* formats a message or one of its blocks."""
    facts, use_width = comparison.compaction.session.facts, comparison.use_width
    reused_by_message = comparison.reused_by_message
    first = comparison.compute_first_row(height)
    lines = []
    for number, row in enumerate(comparison.rows[first : first + height], first):
        style = SIGN_STYLES.get(row.sign, MUTED)
        text_style = MUTED if row.sign == KEPT_SIGN else ""
        reused = next(iter(reused_by_message.get(row.message, ())), None)
        use = f"{reused.use.tier} #{reused.use.message:,}" if reused else ""
        kind, text = describe_message(facts, row.message, preview)
        label = f"{row.message:>6,} {kind:<{KIND_WIDTH}}"
        after = "?" if row.sign == SUMMARY_SIGN and has_unknown_size(facts, row.message) else f"{row.after:,}"
        sizes = f"{row.before:>{TOKENS_WIDTH},}{after:>{TOKENS_WIDTH}}"
        room = width - 2 - len(label) - len(sizes) - (use_width + 3 if use_width else 2)
        runs: list[Run] = [
            (f"{row.sign} ", style),
            (label, text_style),
            *pad_runs([(shorten(text, room), text_style)], max(room, 0)),
            (f" {sizes}  " if use_width else f" {sizes} ", ""),
            (shorten(use, use_width).ljust(use_width), WARN if reused and not reused.row_copies else MUTED),
        ]
        runs = pad_runs(runs, width)
        lines.append(set_background(runs) if number == comparison.cursor else runs)
    return lines
