"""Format the lines of the replay screen: the session, the call under the cursor, firings, the policy table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import ceil
from pathlib import PurePath
from typing import NamedTuple

from context_tui.lab.price.pricing import FiringPrice, ReplayPrice
from context_tui.lab.price.report import VERDICT_TEXTS, format_cost
from context_tui.lab.replay.result import Firing, format_firing, format_never_fired
from context_tui.lab.study import Study
from context_tui.session.facts import Compaction, Facts
from context_tui.session.values import Kind
from context_tui.text.numbers import format_percent, format_tokens
from context_tui.text.sanitize import make_visible
from context_tui.tokens.estimators import count_block_tokens, count_message_tokens
from context_tui.tui.comparison import Comparison, Lane, LaneResult
from context_tui.tui.rendering.formatting import format_difference, format_line, pluralize
from context_tui.tui.rendering.layout import wrap_text
from context_tui.tui.replay.sawtooth import (
    BLOCK_STYLE,
    CLEARING_SIGN,
    COMPACTION_SIGN,
    FIRING_SIGN,
    OVERFLOW_SIGN,
    SHADE,
    TRACE,
)
from context_tui.tui.terminal.cells import choose_form, shorten, shorten_at_word
from context_tui.tui.timeline.context_events import format_event_labels, is_compaction
from context_tui.tui.widgets.styled_text import (
    BAD,
    BOLD,
    GOOD,
    MUTED,
    PRIMARY,
    WARN,
    Run,
    format_safe_line,
    justify_runs,
    pad_runs,
    set_background,
)

MAX_REGRET_LINES = 3
"""How many of a firing's regrets are told beside it; the list of firings has all."""
MAX_ITEM_LINES = 5
"""How many of the largest items of a firing are told."""
WIDE_CALL_CELLS = 72
"""Cells from which on there is room for whole words about a call."""
WIDE_HEADER_CELLS = 150
"""Cells from which on the top names the policy that is held against the recorded compactions."""
OPTIONAL_COLUMNS = ("peak", "over")
"""The numbers that give way to the names of policies; the charts show them too."""
FULL_NAME_CELLS, MIN_NAME_CELLS = 36, 21
"""Cells for the name of a policy, with its settings and without, before which numbers are told in short or left out."""

Preview = Callable[[int, int], str]
"""One safe line about a message, or about a block row of it (-1: none)."""


# The top


def format_header(comparison: Comparison, progress: float, width: int) -> list[Run]:
    """Format what is replayed, and at the right edge the treatment of recorded compactions."""
    session, recording = comparison.session, comparison.recording
    window = session.window
    sizes = ""
    if recording is not None and recording.calls:
        missing = recording.recorded_sizes.count(None)
        sizes = "all sizes estimated" if missing == comparison.call_count else ""
        sizes = sizes or (f"{pluralize(missing, 'size')} estimated" if missing else "all sizes recorded")
    name = make_visible(PurePath(session.info.path).name) or session.info.title or "session"
    parts: list[tuple[int, Run]] = [
        (9, (format_safe_line(name, max(12, width // 3)), BOLD)),
        (8, ("replay", PRIMARY)),
        (6, (pluralize(comparison.call_count, "call") if recording else "", "")),
        (7 if comparison.is_estimated else 3, (sizes, WARN if comparison.is_estimated else MUTED)),
        (5, (f"window {window.tokens:,} ({window.source})", MUTED)),
        (4, (format_backtest(comparison, width), MUTED)),
        (8, (f"{format_percent(progress)} of the file read" if progress < 1 else "", WARN)),
    ]
    count = count_compactions(comparison)
    kept = "kept" if comparison.recorded_mode == "keep" else "undone"
    right: list[Run] = [(f"{pluralize(count, 'recorded compaction')} ", MUTED), (kept, BOLD)] if count else []
    return justify_runs([part for part in parts if part[1][0]], right, width)


def format_backtest(comparison: Comparison, width: int) -> str:
    """Format how many recorded full compactions the agent's own policy fires at; empty where none can be tested."""
    for back in comparison.backtests:
        testable = [each for each in back.results if each.testable and each.kind == "full"]
        if testable:
            hits = f"{sum(each.is_hit for each in testable)} of {len(testable)}"
            return f"{back.policy} fires at {hits}" if width >= WIDE_HEADER_CELLS else f"back-test {hits}"
    return ""


def format_legend(signs: Sequence[str], has_trace: bool, width: int) -> list[Run]:
    """Format the legend, in several widths."""
    words = {
        "█": ("under the policy", "policy"),
        SHADE: ("without it", "without"),
        **({TRACE: ("as recorded", "recorded")} if has_trace else {}),
        FIRING_SIGN: ("it fires", "fires"),
        COMPACTION_SIGN: ("recorded compaction", "compacted"),
        CLEARING_SIGN: ("recorded clearing or drop", "cleared"),
        OVERFLOW_SIGN: ("over the window", "over"),
    }
    there = [sign for sign in words if sign in ("█", SHADE, TRACE) or sign in signs]
    styles = {"█": BLOCK_STYLE, FIRING_SIGN: f"{BOLD} {WARN}", OVERFLOW_SIGN: f"{BOLD} {BAD}"}
    forms = [[(sign, words[sign][form]) for sign in there] for form in (0, 1)]
    found = next((form for form in forms if sum(len(name) + 4 for _, name in form) + 6 <= width), forms[-1])
    runs: list[Run] = [("tokens ", MUTED)]
    for sign, name in found:
        runs += [(sign, styles.get(sign, MUTED)), (f" {name}  ", MUTED)]
    return pad_runs(runs, width)


def format_lane_title(lane: Lane, selected: bool, width: int) -> list[Run]:
    """Return the line above one of several charts."""
    made = lane.result
    told = lane.error or "…"
    if made and not lane.error:
        firings = pluralize(len(made.replay.firings), "firing")
        told = f"{firings}   peak {made.totals.peak:,}   {format_saved_share(made)} saved"
    right: list[Run] = [(told, BAD if lane.error else MUTED)]
    mark: Run = ("▸ " if selected else "  ", f"{BOLD} {PRIMARY}")
    room = max(width - len(told) - 5, 16)
    return justify_runs(
        [(2, (mark[0] + shorten(format_safe_line(lane.label), room), BOLD if selected else ""))], right, width
    )


# The call under the cursor


def format_call_line(comparison: Comparison, width: int) -> list[Run]:
    """Return the call under the cursor: its message, and its sizes."""
    recording, made, call = comparison.recording, comparison.replay, comparison.call
    if recording is None or not recording.calls:
        return []
    size, at = recording.recorded_sizes[call], recording.calls[call].message
    told = f"recorded {size:,}" if size else f"estimated {recording.sizes[call]:,}"
    parts: list[tuple[int, Run]] = [
        (9, (f"call {call + 1:,} of {comparison.call_count:,}, #{at:,}", BOLD)),
        (7, (told, "" if size else WARN)),
    ]
    if made is not None:
        under, without = made.sizes[call], made.baseline[call]
        if comparison.recorded_mode == "ignore" and without != size:
            parts.append((5, (f"without a policy {without:,}", "")))
        words = "under the policy" if width >= WIDE_CALL_CELLS else "policy"
        parts.append((8, (f"{words} {under:,}", f"{BOLD} {PRIMARY}")))
        less = without - under
        share = f" ({format_percent(abs(less) / without)})" if without and less else ""
        parts.append((6, (f"{format_difference(-less)}{share}" if less else "the same", GOOD if less > 0 else MUTED)))
        if under > made.windows[call]:
            parts.append((8, (f"over the window of {made.windows[call]:,}", f"{BOLD} {BAD}")))
    return justify_runs(parts, [], width)


def count_compactions(comparison: Comparison) -> int:
    """Count the recorded compactions: full, micro and unlogged."""
    return sum(is_compaction(event) for each in comparison.context_events.values() for event in each)


def format_never_fires(comparison: Comparison) -> str:
    """Explain why a policy never fires; perhaps because recorded compactions came first, except one at the start of the
    file.
    """
    within = (each for call, each in comparison.context_events.items() if call)
    first = comparison.recorded_mode == "keep" and any(is_compaction(event) for each in within for event in each)
    missed = comparison.replay.nearest_miss if comparison.replay else None
    why = ", where recorded compactions come first: r undoes them" if first else ""
    behind = "; it would fire after the last call" if _fires_after_last_call(comparison.selected_lane) else ""
    return f"{comparison.selected_lane.policy} {format_never_fired(missed)}{why}{behind}"


def _fires_after_last_call(lane: Lane) -> bool:
    """Return whether a policy would act at the end of the recording, where no call follows."""
    plan = lane.view.plan
    return plan is not None and lane.view.at is None and plan.trigger.fires and plan.has_changes


def format_nearest_firings(comparison: Comparison, width: int) -> list[list[Run]]:
    """Format where the policy fires, seen from a call at which it does not; where it never fires, why."""
    made, recording, call = comparison.replay, comparison.recording, comparison.call
    if made is None or recording is None:
        return []
    found = comparison.firing_calls
    if not found:
        return [[(words, MUTED)] for words in wrap_text(format_never_fires(comparison), width)]
    place = bisect_right(found, call)
    before, after = found[place - 1] if place else None, found[place] if place < len(found) else None
    messages = {firing.call: firing.message for firing in made.firings}
    words = [
        f"last fired before #{messages[before]:,}, {pluralize(call - before, 'call')} ago"
        if before is not None
        else "has not fired yet",
        f"fires next before #{messages[after]:,}, in {pluralize(after - call, 'call')}"
        if after is not None
        else "does not fire again",
    ]
    return [[(shorten_at_word("   ".join(words), width), MUTED)]]


def format_event_lines(comparison: Comparison, width: int) -> Iterator[list[Run]]:
    """Yield the recorded events of the context before the call under the cursor."""
    facts, undone = comparison.session.facts, comparison.recorded_mode == "ignore"
    for event in comparison.context_events.get(comparison.call, ()):
        sign = COMPACTION_SIGN if event.begins_context else CLEARING_SIGN
        forms = format_event_labels(facts, event)
        text = choose_form(forms, width - 12)
        yield [(f"{sign} ", BOLD), (shorten(f"{text}{' (undone)' if undone else ''}", width - 2), MUTED)]
        if isinstance(event.fact, Compaction):
            here = event.fact.message, event.fact.kind
            tested = ((back.policy, each) for back in comparison.backtests for each in back.results)
            for policy, each in tested:
                if (each.message, each.kind) == here:
                    yield [("  back-test ", MUTED), (shorten_at_word(f"{policy}: {each.why}", width - 12), "")]


def format_firing_lines(comparison: Comparison, firing: Firing, width: int, preview: Preview) -> Iterator[list[Run]]:
    """Yield a firing, the more important first: sizes, why, what it cost, what of it was used later, and what it
    took.
    """
    replay = comparison.replay
    count = len(replay.firings) if replay else 0
    number = replay.firings.index(firing) + 1 if replay else 0
    parts: list[tuple[int, Run]] = [
        (9, (f"{FIRING_SIGN} firing {number} of {count} before #{firing.message:,}", f"{BOLD} {WARN}")),
        (8, (f"{firing.before:,} → {firing.after:,}", BOLD)),
        (7, (format_firing(firing), "")),
    ]
    study = made.study if (made := comparison.selected_lane.result) else None
    if study is not None:
        parts.append((5, (f"rewrites {_find_firing_price(study, firing).rewritten:,}", MUTED)))
    yield justify_runs(parts, [], width)
    why = firing.reason
    if replay and firing.policy != replay.policy:
        why = f"{firing.policy}: {why}"
    if firing.decided != firing.message:
        why += f"; started in the background before #{firing.decided:,}"
    if firing.believed is not None and f"{firing.believed:,}" not in why:
        why += f"; size in its runtime {firing.believed:,}"
    yield [("  why ", MUTED), (shorten_at_word(format_safe_line(why), width - 6), "")]
    if study is not None:
        yield from _format_price_lines(study, firing, width)
    for number, item in enumerate(find_largest_items(firing)):
        text = preview(item.message, item.row) if item.message < len(comparison.session) else "an earlier summary"
        head = "  largest " if not number else "          "
        tokens = f"{item.tokens:,}"
        where = f"#{item.message:,} "
        room = width - len(head) - len(where) - 12
        yield [
            (head, MUTED),
            (f"{tokens:>7}  ", ""),
            (where, MUTED),
            (shorten(f"{item.outcome} {format_line(text)}", max(room, 8)), ""),
        ]


def _find_firing_price(study: Study, firing: Firing) -> FiringPrice:
    """Return the price of a firing."""
    return next(price for each, price in zip(study.replay.firings, study.price.firings, strict=True) if each is firing)


def _format_price_lines(study: Study, firing: Firing, width: int) -> Iterator[list[Run]]:
    """Yield the cost of a firing, and the removed content that was needed later."""
    cost, cases = _find_firing_price(study, firing), [study.regret.cases[each] for each in study.find_cases(firing)]
    less = cost.cost < 0
    words = f"saves {format_cost(-cost.cost, study.price)}" if less else f"costs {format_cost(cost.cost, study.price)}"
    parts: list[tuple[int, Run]] = [
        (9, ("  price", MUTED)),
        (8, (words, GOOD if less else WARN)),
        (6, (_format_verdict(cost), "")),
        (7, (f"{len(cases):,} needed later", WARN if cases else MUTED)),
    ]
    yield justify_runs(parts, [], width)
    written = f"{cost.rewritten:,} rewritten after the change"
    if cost.cold:
        written = "none rewritten: the cache had expired"
    yield [("  cache ", MUTED), (shorten(f"{cost.cleared:,} tokens cleared in each call, {written}", width - 8), "")]
    for case in cases[:MAX_REGRET_LINES]:
        text = f"#{case.message:,} needed at #{case.later:,} ({case.tier}): {format_line(case.evidence)}"
        yield [("  needed later ", WARN), (shorten(text, width - 15), "")]
    if len(cases) > MAX_REGRET_LINES:
        yield [(f"  … {len(cases) - MAX_REGRET_LINES:,} more; u shows them", MUTED)]


def _format_verdict(cost: FiringPrice) -> str:
    """Format the verdict on a firing, with the calls to break even and the remaining calls."""
    if cost.verdict == "pays":
        left = pluralize(cost.calls_left, "call")
        return f"breaks even after {ceil(cost.break_even):,} of {left} remaining" if cost.break_even else "pays at once"
    if cost.verdict == "does not pay" and cost.break_even:
        return f"not worth it: breaks even after {ceil(cost.break_even):,} calls, {cost.calls_left:,} remain"
    return VERDICT_TEXTS[cost.verdict]


class FiringItem(NamedTuple):
    """Content that a firing removed: its estimated tokens (``bytes/4``), location and action."""

    tokens: int
    message: int
    row: int
    outcome: str


ACTION_OUTCOMES = {"clear": "cleared", "truncate": "truncated", "drop": "dropped"}


def find_largest_items(firing: Firing, count: int = MAX_ITEM_LINES) -> list[FiringItem]:
    """Return the largest of what a firing took, the largest first."""
    plan = firing.plan
    facts, order = plan.context.facts, plan.context.order
    found = [
        FiringItem(count_block_tokens(plan.context, row), facts.block_message[row], row, ACTION_OUTCOMES[change.action])
        for row, change in plan.changes.items()
    ]
    asked = {position for span in plan.summarised_ranges or () for position in span}
    for span in plan.dropped_ranges:
        for position in span:
            done = "summarised" if position in asked else "dropped"
            found.append(FiringItem(count_message_tokens(facts, order[position]), order[position], -1, done))
    return [_resolve_largest_result(facts, item) for item in nlargest(count, found)]


def _resolve_largest_result(facts: Facts, item: FiringItem) -> FiringItem:
    """Resolve an item to the largest result of its message, where that is all it holds."""
    if item.row >= 0:
        return item
    rows = facts.blocks_of(item.message)
    largest_row = max(rows, key=lambda row: facts.size[row], default=-1)
    is_result = largest_row >= 0 and facts.kind[largest_row] == Kind.TOOL_RESULT
    return item._replace(row=largest_row) if is_result else item


# The table


@dataclass(frozen=True)
class PolicyColumn:
    """Column of the table of policies: its head, and its text for a policy and for none, in full and in short."""

    head: str
    format_policy: Callable[[LaneResult, bool], str]
    format_baseline: Callable[[LaneResult, bool], str]


def _format_token_count(number: int, full: bool) -> str:
    return f"{number:,}" if full else format_tokens(number)


def format_saved_share(result: LaneResult) -> str:
    """Format the share of all tokens that is not sent."""
    share = result.totals.saved / result.baseline_tokens if result.baseline_tokens else 0.0
    return format_percent(share) if share >= 0 else f"−{format_percent(-share)}"


def _count_overflows(sizes: Sequence[int], windows: Sequence[int]) -> str:
    return f"{sum(size > window for size, window in zip(sizes, windows, strict=True)):,}"


def _format_cost(result: LaneResult, full: bool) -> str:
    """Format the savings on prompts and summaries against no policy, in full with the cost itself."""
    if result.study is None:
        return "…"
    priced = result.study.price
    less = 1 - priced.cost / priced.baseline_cost if priced.baseline_cost else 0.0
    share = f"saves {format_percent(less)}" if less > 0 else f"{format_percent(-less)} more" if less < 0 else "the same"
    return f"{_format_money(priced.cost, priced)} ({share})" if full else share


def _format_money(cost: float, priced: ReplayPrice) -> str:
    return f"${cost:,.2f}" if priced.rate_table.unit == "USD" else format_tokens(round(cost))


def _format_baseline_cost(result: LaneResult, full: bool) -> str:
    return _format_money(result.study.price.baseline_cost, result.study.price) if result.study and full else "–"


def _format_regrets(result: LaneResult, full: bool) -> str:
    """Format how many of the dropped blocks were needed later."""
    if result.study is None:
        return "…"
    found = result.study.regret
    return f"{found.used_later:,} of {found.dropped:,}" if full else f"{found.used_later:,}"


POLICY_COLUMNS = (
    PolicyColumn("firings", lambda made, full: f"{len(made.replay.firings):,}", lambda made, full: "–"),
    PolicyColumn(
        "peak",
        lambda made, full: _format_token_count(made.totals.peak, full),
        lambda made, full: _format_token_count(max(made.replay.baseline, default=0), full),
    ),
    PolicyColumn(
        "sent",
        lambda made, full: _format_token_count(made.totals.sent, full),
        lambda made, full: _format_token_count(made.baseline_tokens, full),
    ),
    PolicyColumn("saved", lambda made, full: format_saved_share(made), lambda made, full: "–"),
    PolicyColumn("cost", _format_cost, _format_baseline_cost),
    PolicyColumn("needed", _format_regrets, lambda made, full: "–"),
    PolicyColumn(
        "over",
        lambda made, full: f"{made.totals.overflows:,}",
        lambda made, full: _count_overflows(made.replay.baseline, made.replay.windows),
    ),
)
"""The numbers of the table, in order; the last is how many calls are over the window."""
BASELINE_NAMES = {"keep": "as recorded", "ignore": "recorded compactions undone"}
SHORT_BASELINE_NAMES = {"keep": "as recorded", "ignore": "compactions undone"}


def format_policy_table(comparison: Comparison, width: int, height: int) -> list[list[Run]]:
    """Return the policies with their numbers in *height* lines: a head, as many as fit with the selected one among
    them, and at the end the recording without any.
    """
    lanes = comparison.lanes
    known = next((lane.result for lane in (comparison.selected_lane, *lanes) if lane.result), None)
    numbers = _build_table_cells(POLICY_COLUMNS, lanes, known, True)
    if width - sum(numbers.widths) < FULL_NAME_CELLS:
        numbers = _build_table_cells(POLICY_COLUMNS, lanes, known, False)
    if width - sum(numbers.widths) < MIN_NAME_CELLS:
        numbers = _build_table_cells(
            [each for each in POLICY_COLUMNS if each.head not in OPTIONAL_COLUMNS], lanes, known, False
        )
    heads, cells, last, widths = numbers
    name = max(width - sum(widths), 12)
    lines = [pad_runs([("  policy".ljust(name), MUTED), *_align_cells(heads, widths, MUTED)], width)]
    first, room = compute_first_visible(len(lanes), comparison.selected_number, height), height - 2
    for number in range(first, min(first + room, len(lanes))):
        lane, here = lanes[number], number == comparison.selected_number
        style = BOLD if here else ""
        runs: list[Run] = [("▸ " if here else "  ", f"{BOLD} {PRIMARY}")]
        if lane.error:
            runs.append((shorten_at_word(format_safe_line(lane.error), width - 2), BAD))
        else:
            runs.append((shorten(format_safe_line(lane.label), name - 3).ljust(name - 2), style))
            runs += _align_cells(cells[number], widths, style) if lane.result else [("…", MUTED)]
        line_ = pad_runs(runs, width)
        lines.append(set_background(line_) if here else line_)
    more = len(lanes) - room
    words = BASELINE_NAMES[comparison.recorded_mode]
    words = words if len(words) + 2 < name else SHORT_BASELINE_NAMES[comparison.recorded_mode]
    words += f", {more} more ↑↓" if more > 0 else ""
    lines.append(
        pad_runs([(shorten(f"  {words}", name - 1).ljust(name), MUTED), *_align_cells(last, widths, MUTED)], width)
    )
    return lines[:height]


class _TableCells(NamedTuple):
    """The heads of some columns, the numbers of all policies and those without any, and how wide the columns are."""

    heads: list[str]
    cells: list[list[str]]
    baseline: list[str]
    widths: list[int]


def _build_table_cells(
    columns: Sequence[PolicyColumn], lanes: Sequence[Lane], known: LaneResult | None, full: bool
) -> _TableCells:
    heads = [column.head for column in columns]
    cells = [[column.format_policy(lane.result, full) if lane.result else "" for column in columns] for lane in lanes]
    last = [column.format_baseline(known, full) if known else "" for column in columns]
    return _TableCells(heads, cells, last, [max(map(len, each)) + 2 for each in zip(heads, last, *cells, strict=True)])


def compute_first_visible(count: int, selected: int, height: int) -> int:
    """Return the first policy that a table of *height* lines shows, so that the selected one is visible."""
    room = max(height - 2, 1)
    return max(min(selected, count - 1) - room + 1, 0)


def _align_cells(texts: Sequence[str], widths: Sequence[int], style: str) -> list[Run]:
    return [(text.rjust(width), style) for text, width in zip(texts, widths, strict=True)]


# What there is instead


def explain_missing_chart(comparison: Comparison) -> tuple[str, str]:
    """Why there is no chart, and what to do about it, in words; empty where there is one."""
    if comparison.recording is None:
        return "Preparing the recording…", ""
    if not comparison.call_count:
        return "This session has no model calls: there is nothing to replay", "esc goes back"
    lane = comparison.selected_lane
    if lane.error:
        return lane.error, "a digit chooses another policy, a adds one"
    return ("", "") if lane.result else (f"Replaying {lane.policy}…", "")
