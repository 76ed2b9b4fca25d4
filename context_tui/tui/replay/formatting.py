"""Lines of the replay screen: the session, the call under the cursor, the firings, and the policy table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import nlargest
from math import ceil
from operator import gt
from pathlib import PurePath
from typing import NamedTuple

from context_tui.lab.price.break_report import format_break
from context_tui.lab.price.pricing import FiringPrice
from context_tui.lab.price.report import VERDICT_TEXTS
from context_tui.lab.replay.result import Firing, format_firing, format_never_fired
from context_tui.lab.study import Study
from context_tui.session.facts import Compaction, Facts
from context_tui.session.values import Kind
from context_tui.text.numbers import (
    format_cost,
    format_count,
    format_percent,
    format_saved_share,
    format_saving,
    format_tokens,
)
from context_tui.text.sanitize import make_visible
from context_tui.tokens.estimators import count_block_tokens, count_message_tokens
from context_tui.tui.comparison import Lane, LaneResult, PolicyComparison
from context_tui.tui.rendering.formatting import format_line
from context_tui.tui.rendering.layout import wrap_text
from context_tui.tui.replay import sawtooth
from context_tui.tui.terminal.cells import choose_form, shorten, shorten_at_word
from context_tui.tui.terminal.themes import BAD, BOLD, GOOD, MUTED, PRIMARY, WARN
from context_tui.tui.timeline.context_events import format_event_labels, is_compaction
from context_tui.tui.widgets.styled_text import Run, format_safe_line, justify_runs, pad_runs, set_background

MAX_REGRET_LINES = 3
"""Maximum number of regret cases shown with a firing; the list of firings has all of them."""
MAX_ITEM_LINES = 5
WIDE_CALL_CELLS = 84
"""Minimum width in cells for unabbreviated labels of a call."""
WIDE_HEADER_CELLS = 150
"""Minimum width in cells for the name of the policy that is back-tested."""
OPTIONAL_COLUMNS = ("peak", "over")
"""Columns that are dropped first, as the charts show their numbers too."""
FULL_NAME_CELLS, MIN_NAME_CELLS = 36, 21
"""Cells for the name of a policy below which numbers are abbreviated, and below which optional columns are dropped."""

Preview = Callable[[int, int], str]
"""Function that returns one safe line about a message, or about a block row of it (-1 for none)."""


# The header


def format_header(comparison: PolicyComparison, progress: float, width: int) -> list[Run]:
    """Format the session and its sizes and, at the right edge, how the replay treats recorded compactions."""
    session, recording = comparison.session, comparison.recording
    window = session.window
    sizes, is_estimated = "", False
    if recording is not None and recording.calls:
        missing = recording.recorded_sizes.count(None)
        sizes = f"{format_count(missing, 'size')} estimated" if missing else "all sizes recorded"
        is_estimated = missing == comparison.call_count
        sizes = "all sizes estimated" if is_estimated else sizes
    name = make_visible(PurePath(session.info.path).name) or session.info.title or "session"
    parts: list[tuple[int, Run]] = [
        (9, (format_safe_line(name, max(12, width // 3)), BOLD)),
        (8, ("replay", PRIMARY)),
        (6, (format_count(comparison.call_count, "call") if recording else "", "")),
        (7 if is_estimated else 3, (sizes, WARN if is_estimated else MUTED)),
        (5, (f"window {window.tokens:,} ({window.source})", MUTED)),
        (4, (format_backtest(comparison, width), MUTED)),
        (8, (f"{format_percent(progress)} of the file read" if progress < 1 else "", WARN)),
    ]
    count = count_compactions(comparison)
    mode = "kept" if comparison.settings.recorded == "keep" else "undone"
    right: list[Run] = [(f"{format_count(count, 'recorded compaction')} ", MUTED), (mode, BOLD)] if count else []
    return justify_runs([part for part in parts if part[1][0]], right, width)


def format_backtest(comparison: PolicyComparison, width: int) -> str:
    """Format the number of recorded full compactions at which the agent's policy fires; "" if none is testable."""
    for backtest in comparison.backtests:
        if testable := [each for each in backtest.results if each.testable and each.kind == "full"]:
            hit_text = f"{sum(each.is_hit for each in testable)} of {len(testable)}"
            return f"{backtest.policy} fires at {hit_text}" if width >= WIDE_HEADER_CELLS else f"back-test {hit_text}"
    return ""


def format_legend(signs: Collection[str], width: int) -> list[Run]:
    """Format a legend in *width* cells for the bars, the shade and those *signs* of the charts that occur."""
    labels = {
        "█": ("under the policy", "policy"),
        sawtooth.SHADE: ("without it", "without"),
        sawtooth.TRACE: ("as recorded", "recorded"),
        sawtooth.FIRING_SIGN: ("it fires", "fires"),
        sawtooth.COMPACTION_SIGN: ("recorded compaction", "compacted"),
        sawtooth.CLEARING_SIGN: ("recorded clearing or drop", "cleared"),
        sawtooth.OVERFLOW_SIGN: ("over the window", "over"),
        sawtooth.BREAK_SIGN: ("cache paid again", "cache"),
    }
    visible_signs = [sign for sign in labels if sign in ("█", sawtooth.SHADE) or sign in signs]
    styles = {"█": sawtooth.BLOCK_STYLE}
    styles |= {sawtooth.FIRING_SIGN: f"{BOLD} {WARN}", sawtooth.OVERFLOW_SIGN: f"{BOLD} {BAD}"}
    forms = [[(sign, labels[sign][form]) for sign in visible_signs] for form in (0, 1)]
    entries = next((form for form in forms if sum(len(name) + 4 for _, name in form) + 6 <= width), forms[-1])
    runs: list[Run] = [("tokens ", MUTED)]
    for sign, name in entries:
        runs += [(sign, styles.get(sign, MUTED)), (f" {name}  ", MUTED)]
    return pad_runs(runs, width)


def format_lane_title(lane: Lane, selected: bool, width: int) -> list[Run]:
    """Format the title of a policy's chart, which is shown if there are several charts."""
    result = lane.result
    status = lane.error or "…"
    if result and not lane.error:
        firings = format_count(len(result.replay.firings), "firing")
        status = f"{firings}   peak {result.totals.peak:,}   {_format_lane_share(result)}"
    label = shorten(format_safe_line(lane.label), max(width - len(status) - 5, 16))
    label_run: Run = (f"{'▸ ' if selected else '  '}{label}", BOLD if selected else "")
    return justify_runs([(2, label_run)], [(status, BAD if lane.error else MUTED)], width)


# The call under the cursor


def format_call_line(comparison: PolicyComparison, width: int) -> list[Run]:
    """Format the call under the cursor with the message that it produced and the context sizes; empty without calls."""
    recording, replay, call = comparison.recording, comparison.replay, comparison.call
    if recording is None or not recording.calls:
        return []
    size, message = recording.recorded_sizes[call], recording.calls[call].message
    recorded = f"recorded {size:,}" if size else f"estimated {recording.sizes[call]:,}"
    parts: list[tuple[int, Run]] = [
        (9, (f"call {call + 1:,} of {comparison.call_count:,}, #{message:,}", BOLD)),
        (7, (recorded, "" if size else WARN)),
    ]
    if replay is not None:
        policy_size, baseline = replay.sizes[call], replay.baseline[call]
        if comparison.settings.recorded == "ignore" and baseline != size:
            parts.append((5, (f"without a policy {baseline:,}", "")))
        label = "under the policy" if width >= WIDE_CALL_CELLS else "policy"
        parts.append((8, (f"{label} {policy_size:,}", f"{BOLD} {PRIMARY}")))
        saved = baseline - policy_size
        share = f" ({format_percent(abs(saved) / baseline)})" if baseline and saved else ""
        difference = f"{abs(saved):,} {'fewer' if saved > 0 else 'more'}{share}" if saved else "the same"
        parts.append((6, (difference, GOOD if saved > 0 else MUTED)))
        if policy_size > replay.windows[call]:
            parts.append((8, (f"over the window of {replay.windows[call]:,}", f"{BOLD} {BAD}")))
    return justify_runs(parts, [], width)


def count_compactions(comparison: PolicyComparison) -> int:
    """Return the number of recorded compactions: full, micro, and those inferred without a record."""
    return sum(is_compaction(event) for each in comparison.context_events.values() for event in each)


def format_never_fires(comparison: PolicyComparison) -> str:
    """Explain why the selected policy never fires, for example because recorded compactions prevent it."""
    lane, replay = comparison.selected_lane, comparison.replay
    later_events = (event for call, events in comparison.context_events.items() if call for event in events)
    is_preceded = comparison.settings.recorded == "keep" and any(map(is_compaction, later_events))
    remedy = ", where recorded compactions come first: i undoes them" if is_preceded else ""
    # The policy may act at the end of the recording, where no call follows.
    plan = lane.view.plan
    fires_at_end = plan is not None and lane.view.at is None and plan.trigger.fires and plan.has_changes
    end_text = "; it would fire after the last call" if fires_at_end else ""
    return f"{lane.policy} {format_never_fired(replay)}{remedy}{end_text}"


def format_nearest_firings(comparison: PolicyComparison, width: int) -> list[list[Run]]:
    """Format the last firing up to the cursor and the next one after it, or the reason why the policy never fires."""
    replay, recording, call = comparison.replay, comparison.recording, comparison.call
    if replay is None or recording is None:
        return []
    calls = comparison.firing_calls
    if not calls:
        return [[(line, MUTED)] for line in wrap_text(format_never_fires(comparison), width)]
    messages = {firing.call: firing.message for firing in replay.firings}
    index = bisect_right(calls, call)
    last_text, next_text = "has not fired yet", "does not fire again"
    if index:
        last = calls[index - 1]
        last_text = f"last fired before #{messages[last]:,}, {format_count(call - last, 'call')} ago"
    if index < len(calls):
        next_text = f"fires next before #{messages[calls[index]]:,}, in {format_count(calls[index] - call, 'call')}"
    return [[(shorten_at_word(f"{last_text}   {next_text}", width), MUTED)]]


def format_event_lines(comparison: PolicyComparison, width: int) -> Iterator[list[Run]]:
    """Yield lines about the recorded events at the call under the cursor, such as compactions and cache breaks."""
    if (found := comparison.cache_breaks.get(comparison.call)) and comparison.lab:
        unit = comparison.lab.cache_history.rate_table.unit
        text = shorten_at_word(f"cache: {format_break(found, unit)}", width - 2)
        yield [(f"{sawtooth.BREAK_SIGN} ", BOLD), (text, MUTED)]
        evidence = format_safe_line(f"{found.source}: {found.evidence}")
        yield [("  why ", MUTED), (shorten_at_word(evidence, width - 6), "")]
    facts, is_undone = comparison.session.facts, comparison.settings.recorded == "ignore"
    for event in comparison.context_events.get(comparison.call, ()):
        sign = sawtooth.COMPACTION_SIGN if event.begins_context else sawtooth.CLEARING_SIGN
        text = choose_form(format_event_labels(facts, event), width - 12)
        yield [(f"{sign} ", BOLD), (shorten(f"{text}{' (undone)' if is_undone else ''}", width - 2), MUTED)]
        if isinstance(event.fact, Compaction):
            for backtest in comparison.backtests:
                for each in backtest.results:
                    if (each.message, each.kind) == (event.fact.message, event.fact.kind):
                        text = shorten_at_word(f"{backtest.policy}: {each.why}", width - 12)
                        yield [("  back-test ", MUTED), (text, "")]


def format_firing_lines(
    comparison: PolicyComparison, firing: Firing, width: int, preview: Preview
) -> Iterator[list[Run]]:
    """Yield lines about a firing, in order of importance: sizes, reason, price, later uses, largest items."""
    replay = comparison.replay
    count = len(replay.firings) if replay else 0
    number = replay.firings.index(firing) + 1 if replay else 0
    parts: list[tuple[int, Run]] = [
        (9, (f"{sawtooth.FIRING_SIGN} firing {number} of {count} before #{firing.message:,}", f"{BOLD} {WARN}")),
        (8, (f"{firing.before:,} → {firing.after:,}", BOLD)),
        (7, (format_firing(firing), "")),
    ]
    result = comparison.selected_lane.result
    study = result.study if result else None
    if study is not None:
        parts.append((5, (f"rewrites {_find_firing_price(study, firing).rewritten:,}", MUTED)))
    yield justify_runs(parts, [], width)
    reason = firing.reason
    if replay and firing.policy != replay.policy:
        reason = f"{firing.policy}: {reason}"
    if firing.decided != firing.message:
        reason += f"; started in the background before #{firing.decided:,}"
    if f"{firing.believed:,}" not in reason:
        reason += f"; size in its runtime {firing.believed:,}"
    yield [("  why ", MUTED), (shorten_at_word(format_safe_line(reason), width - 6), "")]
    if study is not None:
        yield from _format_price_lines(study, firing, width)
    for number, item in enumerate(find_largest_items(firing)):
        text = preview(item.message, item.row) if item.message < len(comparison.session) else "an earlier summary"
        head = "  largest " if not number else "          "
        message = f"#{item.message:,} "
        text = shorten(f"{item.outcome} {format_line(text)}", max(width - len(head) - len(message) - 12, 8))
        yield [(head, MUTED), (f"{item.tokens:>7,}  ", ""), (message, MUTED), (text, "")]


def _find_firing_price(study: Study, firing: Firing) -> FiringPrice:
    return study.price.firings[study.replay.firings.index(firing)]


def _format_price_lines(study: Study, firing: Firing, width: int) -> Iterator[list[Run]]:
    cost, all_cases = _find_firing_price(study, firing), map(study.regret.cases.__getitem__, study.find_cases(firing))
    cases = [case for case in all_cases if case.is_needed]
    price = format_saving(-cost.cost, study.price.rate_table.unit, with_unit=True)
    parts: list[tuple[int, Run]] = [
        (9, ("  price", MUTED)),
        (8, (price, GOOD if cost.cost < 0 else WARN)),
        (6, (_format_verdict(cost), "")),
        (7, (f"{len(cases):,} needed later", WARN if cases else MUTED)),
    ]
    yield justify_runs(parts, [], width)
    rewritten = f"{cost.rewritten:,} rewritten after the change"
    rewritten = "none rewritten: the cache had expired" if cost.cold else rewritten
    yield [("  cache ", MUTED), (shorten(f"{cost.cleared:,} tokens cleared in each call, {rewritten}", width - 8), "")]
    for case in cases[:MAX_REGRET_LINES]:
        text = f"#{case.message:,} needed at #{case.later:,} ({case.tier}): {format_line(case.evidence)}"
        yield [("  needed later ", WARN), (shorten(text, width - 15), "")]
    if len(cases) > MAX_REGRET_LINES:
        yield [(f"  … {len(cases) - MAX_REGRET_LINES:,} more; u shows them", MUTED)]


def _format_verdict(cost: FiringPrice) -> str:
    if cost.verdict == "pays":
        remaining = f"{format_count(cost.calls_left, 'call')} remaining"
        return f"breaks even after {ceil(cost.break_even):,} of {remaining}" if cost.break_even else "pays at once"
    if cost.verdict == "does not pay" and cost.break_even:
        return f"not worth it: breaks even after {ceil(cost.break_even):,} calls, {cost.calls_left:,} remain"
    return VERDICT_TEXTS[cost.verdict]


class FiringItem(NamedTuple):
    """A block or message that a firing removed: its tokens (``bytes/4``), message, block (or -1) and outcome."""

    tokens: int
    message: int
    row: int
    outcome: str


ACTION_OUTCOMES = {"clear": "cleared", "truncate": "truncated", "drop": "dropped"}


def find_largest_items(firing: Firing, count: int = MAX_ITEM_LINES) -> list[FiringItem]:
    """Return up to *count* items that a firing removed, largest first."""
    plan = firing.plan
    facts, order = plan.context.facts, plan.context.order
    items = [
        FiringItem(count_block_tokens(plan.context, row), facts.block_message[row], row, ACTION_OUTCOMES[change.action])
        for row, change in plan.changes.items()
    ]
    summarised = {position for span in plan.summarised_ranges or () for position in span}
    for span in plan.dropped_ranges:
        for position in span:
            outcome = "summarised" if position in summarised else "dropped"
            items.append(FiringItem(count_message_tokens(facts, order[position]), order[position], -1, outcome))
    return [_resolve_largest_result(facts, item) for item in nlargest(count, items)]


def _resolve_largest_result(facts: Facts, item: FiringItem) -> FiringItem:
    if item.row >= 0:
        return item
    rows = facts.blocks_of(item.message)
    largest_row = max(rows, key=lambda row: facts.size[row], default=-1)
    is_result = largest_row >= 0 and facts.kind[largest_row] == Kind.TOOL_RESULT
    return item._replace(row=largest_row) if is_result else item


# The table


class PolicyColumn(NamedTuple):
    """A column of the policy table: its heading, and functions that format a policy's value and the baseline's."""

    head: str
    format_policy: Callable[[LaneResult, bool], str]
    format_baseline: Callable[[LaneResult, bool], str]


def _format_token_count(number: int, full: bool) -> str:
    return f"{number:,}" if full else format_tokens(number)


def _format_lane_share(result: LaneResult, full: bool = True) -> str:
    return format_saved_share(result.totals.saved, result.baseline_tokens, brief=not full)


def _format_cost(result: LaneResult, full: bool) -> str:
    if result.study is None:
        return "…"
    price = result.study.price
    share = format_saved_share(price.baseline_cost - price.cost, price.baseline_cost, "costs", brief=not full)
    return f"{format_cost(price.cost, price.rate_table.unit, brief=True)} ({share})" if full else share


def _format_baseline_cost(result: LaneResult, full: bool) -> str:
    if result.study is None or not full:
        return "–"
    price = result.study.price
    return format_cost(price.baseline_cost, price.rate_table.unit, brief=True)


def _format_regrets(result: LaneResult, full: bool) -> str:
    if result.study is None:
        return "…"
    regret = result.study.regret
    return f"{regret.used_later:,} of {regret.dropped:,}" if full else f"{regret.used_later:,}"


POLICY_COLUMNS = (
    PolicyColumn("firings", lambda result, full: f"{len(result.replay.firings):,}", lambda result, full: "–"),
    PolicyColumn(
        "peak",
        lambda result, full: _format_token_count(result.totals.peak, full),
        lambda result, full: _format_token_count(max(result.replay.baseline, default=0), full),
    ),
    PolicyColumn(
        "sent",
        lambda result, full: _format_token_count(result.totals.sent, full),
        lambda result, full: _format_token_count(result.baseline_tokens, full),
    ),
    PolicyColumn("tokens", _format_lane_share, lambda result, full: "–"),
    PolicyColumn("cost", _format_cost, _format_baseline_cost),
    PolicyColumn("needed", _format_regrets, lambda result, full: "–"),
    PolicyColumn(
        "over",
        lambda result, full: f"{result.totals.overflows:,}",
        lambda result, full: f"{sum(map(gt, result.replay.baseline, result.replay.windows)):,}",
    ),
)
"""Columns of the policy table; ``over`` is the number of calls over the window."""
BASELINE_NAMES = {"keep": "as recorded", "ignore": "recorded compactions undone"}
SHORT_BASELINE_NAMES = {"keep": "as recorded", "ignore": "compactions undone"}


def format_policy_table(comparison: PolicyComparison, width: int, height: int) -> list[list[Run]]:
    """Format the policy table in *height* lines: headings, the policies around the selected one, and the baseline."""
    lanes, recorded_mode = comparison.lanes, comparison.settings.recorded
    result = next((lane.result for lane in (comparison.selected_lane, *lanes) if lane.result), None)
    cells = _build_table_cells(POLICY_COLUMNS, lanes, result, True)
    if width - sum(cells.widths) < FULL_NAME_CELLS:
        cells = _build_table_cells(POLICY_COLUMNS, lanes, result, False)
    if width - sum(cells.widths) < MIN_NAME_CELLS:
        columns = [each for each in POLICY_COLUMNS if each.head not in OPTIONAL_COLUMNS]
        cells = _build_table_cells(columns, lanes, result, False)
    name_width = max(width - sum(cells.widths), 12)
    lines = [pad_runs([("  policy".ljust(name_width), MUTED), *cells.align(cells.heads, MUTED)], width)]
    first, room = compute_first_visible(len(lanes), comparison.selected_number, height), height - 2
    for number, lane in enumerate(lanes[first : first + max(room, 0)], first):
        is_selected = number == comparison.selected_number
        style = BOLD if is_selected else ""
        runs: list[Run] = [("▸ " if is_selected else "  ", f"{BOLD} {PRIMARY}")]
        if lane.error:
            runs.append((shorten_at_word(format_safe_line(lane.error), width - 2), BAD))
        else:
            runs.append((shorten(format_safe_line(lane.label), name_width - 3).ljust(name_width - 2), style))
            runs += cells.align(cells.rows[number], style) if lane.result else [("…", MUTED)]
        runs = pad_runs(runs, width)
        lines.append(set_background(runs) if is_selected else runs)
    baseline = BASELINE_NAMES[recorded_mode]
    baseline = baseline if len(baseline) + 2 < name_width else SHORT_BASELINE_NAMES[recorded_mode]
    baseline += f", {len(lanes) - room} more ↑↓" if len(lanes) > room else ""
    name = shorten(f"  {baseline}", name_width - 1).ljust(name_width)
    lines.append(pad_runs([(name, MUTED), *cells.align(cells.baseline, MUTED)], width))
    return lines[:height]


class _TableCells(NamedTuple):
    """Texts of the headings, of a row for each policy and of the baseline, and the widths of the columns in cells."""

    heads: list[str]
    rows: list[list[str]]
    baseline: list[str]
    widths: list[int]

    def align(self, texts: Sequence[str], style: str) -> list[Run]:
        """Align the texts of a row at the right edges of their columns."""
        return [(text.rjust(width), style) for text, width in zip(texts, self.widths, strict=True)]


def _build_table_cells(
    columns: Sequence[PolicyColumn], lanes: Sequence[Lane], result: LaneResult | None, full: bool
) -> _TableCells:
    """Build the cells of the table; the baseline is taken from *result*, which may be that of any policy."""
    heads = [column.head for column in columns]
    rows = [[column.format_policy(lane.result, full) if lane.result else "" for column in columns] for lane in lanes]
    baseline = [column.format_baseline(result, full) if result else "" for column in columns]
    widths = [max(map(len, each)) + 2 for each in zip(heads, baseline, *rows, strict=True)]
    return _TableCells(heads, rows, baseline, widths)


def compute_first_visible(count: int, selected: int, height: int) -> int:
    """Return the number of the first policy to list so that the selected one is visible in *height* lines."""
    room = max(height - 2, 1)
    return max(min(selected, count - 1) - room + 1, 0)


# Without a chart


def explain_missing_chart(comparison: PolicyComparison) -> tuple[str, str]:
    """Return why no chart is drawn and what the user can do, or two empty strings if one is drawn."""
    if comparison.recording is None:
        return "Preparing the recording…", ""
    if not comparison.call_count:
        return "This session has no model calls: there is nothing to replay", "esc goes back"
    lane = comparison.selected_lane
    if lane.error:
        return lane.error, "a digit chooses another policy, a adds one"
    return ("", "") if lane.result else (f"Replaying {lane.policy}…", "")
