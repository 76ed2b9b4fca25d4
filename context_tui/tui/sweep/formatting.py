"""Lines of the sweep screen: the header, the progress, and the setting under the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from context_tui.lab.sweep.grids import SweepSetting
from context_tui.lab.sweep.results import Sweep, Totals
from context_tui.policies.agent_settings import format_setting_lines
from context_tui.policies.parameter_space import find_changed_values
from context_tui.policies.registry import POLICIES
from context_tui.policies.versions import list_version_params
from context_tui.text.numbers import format_cost, format_count, format_saving
from context_tui.text.sanitize import make_visible
from context_tui.tui.sweep import table
from context_tui.tui.sweep.board import GRID_ORDER, SweepBoard, format_value
from context_tui.tui.terminal.cells import choose_form, shorten, shorten_at_word
from context_tui.tui.terminal.themes import BAD, BOLD, GOOD, MUTED, PRIMARY, WARN
from context_tui.tui.widgets.styled_text import Run, clip_runs, count_cells, format_safe_line, justify_runs

WIDE_CELLS = 100
"""Minimum width in cells for whole sentences."""


def format_board_saving(board: SweepBoard, saved: float, *, brief: bool = False) -> str:
    """Format savings in the board's unit, as in ``saves 1,234 tokens`` or ``costs $2.67 more``."""
    return format_saving(saved, board.sweep.point_unit, brief=brief, with_unit=not brief)


def format_header(board: SweepBoard, width: int) -> list[Run]:
    """Format the session and the policies and, at the right edge, the saving unit and the sort order."""
    cache, calls = board.row_cache, ""
    if cache is not None:
        info = cache.session.info
        name = make_visible(PurePath(info.path).name) or info.title or "session"
        row = next(iter(cache.rows.values()), None)
        calls = format_count(row.calls, "call") if row else ""
    else:
        name = format_count(len(board.sweep.rows_by_session), "session")
    policies = list(dict.fromkeys(each.policy.name for each in board.sweep.settings))
    policy_names = policies[0] if len(policies) == 1 else f"{policies[0]} and {len(policies) - 1} more"
    parts: list[tuple[int, Run]] = [
        (9, (format_safe_line(name, max(12, width // 3)), BOLD)),
        (8, ("sweep", PRIMARY)),
        (6, (policy_names, "")),
        (7, (f"recorded compactions {board.handling.partition(':')[0]}" if board.handling else "", BOLD)),
        (5, (calls, "")),
        (4, (f"window {cache.session.window.tokens:,}" if cache else "", MUTED)),
    ]
    order = f"{'largest' if board.is_largest_first else 'smallest'} {board.order} first"
    order = order if board.order != GRID_ORDER else "as given, reversed" if board.is_reversed else "as given"
    unit = f"in {board.saving_unit}   " if width >= WIDE_CELLS else ""
    right: list[Run] = [(unit, BOLD), (order, MUTED)]
    if board.only_best:
        right.insert(0, ("Pareto front only   ", WARN))
    return justify_runs([part for part in parts if part[1][0]], right, width)


def format_status(board: SweepBoard, grid_error: str, is_measuring: bool, width: int) -> list[Run]:
    """Format the line below the grid: an error in the grid, the sweep's progress, or its result."""
    if grid_error or board.error:
        return [(shorten_at_word(format_safe_line(grid_error or board.error), width), BAD)]
    count = format_count(len(board.sweep.settings), "setting")
    if board.missing_settings:
        remedy = "esc stops" if is_measuring else "stopped; r continues"
        return [(shorten_at_word(f"{len(board.totals):,} of {count} measured, {remedy}", width), WARN)]
    dominance, has_several = board.sweep.dominance, len(board.sweep.settings) > 1
    regret_name = board.sweep.regret_name
    front_text = f"{len(board.sweep.best):,} on {'the Pareto front' if width >= WIDE_CELLS else 'front'}"
    head = f"{count}, {front_text}" if has_several else count
    best, current = dominance.best, dominance.points.get(board.sweep.current)
    if best and current and best != board.sweep.current and dominance.points[best].saved > current.saved:
        gain, name = dominance.points[best].saved - current.saved, format_safe_line(board.format_label(best))
        values, saving = table.format_setting_values(board, best), format_board_saving(board, gain)
        short_saving = format_board_saving(board, gain, brief=True)
        forms = [
            f"{name} {saving} more than the current one, with no more {regret_name}",
            f"{values}: {saving} more, with no more {regret_name}",
            f"{values}: {short_saving} more, no more {regret_name}",
            f"{values}: {short_saving} more",
            f"best setting: {short_saving} more",
        ]
        return justify_runs([(9, (head, "")), (8, (choose_form(forms, width - len(head) - 2), GOOD))], [], width)
    verdict = f"none saves more than the current one with no more {regret_name}" if has_several else ""
    return justify_runs([(9, (head, "")), (7, (verdict, MUTED))], [], width)


def format_legend(board: SweepBoard, width: int) -> list[Run]:
    """Format a legend for the signs in the plot, in *width* cells."""
    saving = "cost saved" if board.saving_unit == "money" else "tokens saved"
    regret = "extra calls per 1,000" if board.shows_break_even else board.sweep.regret_name
    best_sign = f"{table.BEST_SIGN}{table.KNEE_SIGN}" if board.sweep.knee else table.BEST_SIGN
    signs = [
        (best_sign, f"{BOLD} {GOOD}"),
        (table.CURRENT_SIGN, f"{BOLD} {WARN}"),
        (table.BEATEN_SIGN, MUTED),
        (table.CURSOR_SIGN, f"{BOLD} {PRIMARY}"),
    ]
    axes = f"{saving} ↑  {regret} →  "
    front_text = ", its knee" if board.sweep.knee else ""
    names = [(f"Pareto front{front_text}", "current", "dominated", "here"), ("best", "current", "dominated", "here")]
    short_axes = f"saved ↑ {regret} →  "
    short_names = (names[1], names[1][:2], ())
    forms = [*((axes, each) for each in names), *((short_axes, each) for each in short_names)]
    room = [len(text) + sum(len(name) + 4 for name in each) - 2 for text, each in forms]
    text, labels = next((form for form, cells in zip(forms, room, strict=True) if cells <= width), forms[-1])
    runs: list[Run] = [(text, MUTED)]
    for (sign, style), name in zip(signs, labels, strict=False):
        runs += [(sign, style), (f" {name}  ", MUTED)]
    runs[-1] = runs[-1][0].rstrip(), runs[-1][1]
    return clip_runs(runs, width)


# The setting under the cursor


def format_setting(board: SweepBoard, width: int) -> Iterator[list[Run]]:
    """Yield lines about the setting under the cursor, most important first: rank, numbers, changes, configuration."""
    name = board.cursor
    totals, setting = board.totals.get(name), board.settings_by_name.get(name)
    if setting is None:
        return
    yield _format_title(board, name, totals, width)
    if totals is not None:
        yield _format_totals(board, totals, width)
        if board.sweep.has_prices and (coverage := board.sweep.format_coverage()):
            yield [(shorten_at_word(f"  {coverage}", width), MUTED)]
    yield _format_changes(board, setting, width)
    for text in format_native_lines(board, setting):
        yield [("  ", ""), (shorten_at_word(format_safe_line(text), width - 2), MUTED)]


def format_native_lines(board: SweepBoard, setting: SweepSetting) -> list[str]:
    """Return the lines of the agent's own configuration for a setting, with headings if the context window matters."""
    return [line for head, form in board.list_native(setting) for line in (head, *format_setting_lines(form)) if line]


def _format_title(board: SweepBoard, name: str, totals: Totals | None, width: int) -> list[Run]:
    current, best = name == board.sweep.current, name in board.sweep.best
    signs = f"{table.CURRENT_SIGN if current else ''}{table.BEST_SIGN if best else ''} ".lstrip()
    ranks, style = _format_rank(board, name, totals)
    if totals and totals.extra_cost < 0 < totals.break_even_calls:
        ranks.append(f"pays up to {table.format_calls(totals.break_even_calls)} extra calls per 1,000 removed tokens")
    room = width - len(ranks[0]) - 2
    label = signs + format_safe_line(board.format_label(name))
    label = label if len(label) <= room else signs + table.format_setting_values(board, name)
    parts: list[tuple[int, Run]] = [(9, (shorten(label, max(room, 12)), BOLD))]
    parts += [(8 - index, (text, style)) for index, text in enumerate(ranks)]
    return justify_runs(parts, [], width)


def _format_rank(board: SweepBoard, name: str, totals: Totals | None) -> tuple[list[str], str]:
    points, dominator = board.sweep.dominance.points, board.sweep.dominance.dominated_by.get(name)
    if totals is None:
        return ["not measured yet"], MUTED
    if not totals.firings:
        return ["never fires"], MUTED
    if dominator:
        saved, regret = points[dominator].saved - points[name].saved, points[name].regret - points[dominator].regret
        saving = f"{format_board_saving(board, saved)} more" if saved else ""
        fewer = f"{regret:,.0f} fewer {board.sweep.regret_name}" if regret else ""
        gains = f"{saving}, with {fewer}" if saving and fewer else saving or f"has {fewer}"
        label = shorten(table.format_setting_values(board, dominator), 70)
        return [f"dominated by {label}", f"which {gains}"], WARN
    if name in board.sweep.best:
        knee = ["at its knee: more savings cost more regret from here on"] if name == board.sweep.knee else []
        return ["on the Pareto front", *knee], GOOD
    return (["equal to a setting on the Pareto front"], GOOD) if name in points else (["no price"], MUTED)


def _format_totals(board: SweepBoard, totals: Totals, width: int) -> list[Run]:
    """Format the totals of a setting and the differences from the current one, or only the latter if short of room."""
    current, points = board.totals.get(board.sweep.current), board.sweep.dominance.points
    regret_name = board.sweep.regret_name
    saving = format_saving(totals.saved, "tokens", total=totals.without, with_unit=True)
    numbers = [saving, f"{totals.regret_tokens:,} {regret_name}"]
    if totals.cost:
        numbers.append(_format_cost_change(board, totals.extra_cost))
        if totals.cost.refetch:
            numbers.append(f"{format_cost(totals.cost.refetch, board.sweep.cost_unit)} to fetch again")
    if not board.is_live and totals.firings:
        share = "" if totals.share_of_largest is None else f", {totals.share_of_largest:.0%} of the saving in one"
        numbers.append(f"fires in {totals.fired_in:,} of {format_count(totals.sessions, 'session')}{share}")
    parts: list[tuple[int, Run]] = [(8, (f"  {', '.join(numbers)}", ""))]
    if current is not None and current is not totals:
        regret = totals.regret_tokens - current.regret_tokens
        firings = totals.firings - current.firings
        differences = [
            format_saving(totals.saved - current.saved, "tokens", with_unit=True),
            *([f"{_format_difference(regret)} {regret_name}"] if regret else []),
        ]
        if totals.cost and current.cost:
            differences.append(_format_cost_change(board, totals.extra_cost - current.extra_cost))
        if firings:
            differences.append(f"{_format_difference(firings)} {'firing' if abs(firings) == 1 else 'firings'}")
        point, current_point = points.get(totals.setting), points.get(current.setting)
        style = ""
        if point and current_point:
            style = GOOD if point.dominates(current_point) else BAD if current_point.dominates(point) else ""
        parts.append((9, ("compared with the current one: " + ", ".join(differences), style)))
    if count_cells([run for _, run in parts]) + 2 <= width:
        return justify_runs(parts, [], width)
    text, style = parts[-1][1]
    return [(shorten_at_word(f"  {text.strip()}", width), style)]


def _format_changes(board: SweepBoard, setting: SweepSetting, width: int) -> list[Run]:
    current = board.current_setting
    if setting.policy.name != current.policy.name:
        return [("  ", ""), (f"{setting.policy.name} in place of {current.policy.name}", "")]
    changed = compute_changes(board.sweep, current, setting)
    if not changed:
        return [("  ", ""), ("the current setting", MUTED)]
    forms = [
        ",  ".join(f"{name} {format_value(before)} → {format_value(after)}" for name, before, after in changed),
        ", ".join(f"{name} → {format_value(after)}" for name, _, after in changed),
    ]
    text = choose_form(forms, width - 2)
    return [("  ", ""), (shorten_at_word(format_safe_line(text), width - 2), PRIMARY)]


def _format_cost_change(board: SweepBoard, extra: float) -> str:
    return format_saving(-extra, board.sweep.cost_unit, digits=board.sweep.cost_digits, with_unit=True)


def _format_difference(number: int) -> str:
    return f"{abs(number):,} {'more' if number > 0 else 'fewer'}"


def compute_changes(sweep: Sweep, old: SweepSetting, new: SweepSetting) -> list[tuple[str, object, object]]:
    """Return (name, old, new) for each parameter that differs; those of nested policies are named ``POLICY.KEY``."""
    old_values, new_values = _collect_changed_values(sweep, old), _collect_changed_values(sweep, new)
    changes = []
    for policy, name in dict.fromkeys([*new_values, *old_values]):
        default = POLICIES[policy].Params.model_fields[name].get_default()
        before, after = (values.get((policy, name), default) for values in (old_values, new_values))
        if before != after:
            changes.append((name if policy == new.policy.name else f"{policy}.{name}", before, after))
    return changes


def _collect_changed_values(sweep: Sweep, setting: SweepSetting) -> dict[tuple[str, str], object]:
    by_policy, tested = find_changed_values(setting.policy, setting.params), sweep.find_param_values(setting)
    values = {(policy, name): value for policy, values in by_policy.items() for name, value in values.items()}
    return values | {(setting.policy.name, name): tested[name] for name in list_version_params(setting.policy.name)}
