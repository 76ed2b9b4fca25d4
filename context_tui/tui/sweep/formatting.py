"""Format the lines of the sweep screen: the header, the progress, and the setting under the cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from context_tui.lab.sweep.results import Totals
from context_tui.lab.sweep.settings import SweepSetting
from context_tui.policies.agent_settings import AgentSettings, build_agent_settings, format_agent_settings
from context_tui.policies.parameter_space import find_changed_values
from context_tui.policies.registry import POLICIES
from context_tui.text.sanitize import make_visible
from context_tui.tui.rendering.formatting import pluralize
from context_tui.tui.sweep.board import GRID_ORDER, SweepBoard, compute_extra_cost, format_value, get_regret_tokens
from context_tui.tui.sweep.table import (
    BEATEN_SIGN,
    BEST_SIGN,
    CURRENT_SIGN,
    CURSOR_SIGN,
    format_amount,
    format_extra_cost,
    format_money,
    format_setting_values,
    format_share,
)
from context_tui.tui.terminal.cells import choose_form, shorten, shorten_at_word
from context_tui.tui.widgets.styled_text import (
    BAD,
    BOLD,
    GOOD,
    MUTED,
    PRIMARY,
    WARN,
    Run,
    clip_runs,
    count_cells,
    format_safe_line,
    justify_runs,
)

WIDE_CELLS = 100
"""Cells from which on there is room for whole sentences."""
SAVING_UNIT_NAMES = {"tokens": "in tokens", "money": "in money"}


def format_saving(board: SweepBoard, amount_: float, *, full: bool = True) -> str:
    """Format the savings in tokens or money."""
    return (
        format_amount(amount_, full) if board.saving_unit == "tokens" else format_money(amount_, board.sweep.cost_unit)
    )


def format_header(board: SweepBoard, width: int) -> list[Run]:
    """Format what is swept, and at the right edge the unit of savings and the order of the list."""
    known = board.row_cache
    if known is not None:
        info = known.session.info
        name, calls = make_visible(PurePath(info.path).name) or info.title or "session", ""
        row = next(iter(known.rows.values()), None)
        calls = pluralize(row.calls, "call") if row else ""
    else:
        name, calls = pluralize(len(board.sweep.rows_by_session), "session"), ""
    policies = list(dict.fromkeys(each.policy.name for each in board.settings))
    what = policies[0] if len(policies) == 1 else f"{policies[0]} and {len(policies) - 1} more"
    parts: list[tuple[int, Run]] = [
        (9, (format_safe_line(name, max(12, width // 3)), BOLD)),
        (8, ("sweep", PRIMARY)),
        (6, (what, "")),
        (5, (calls, "")),
        (4, (f"window {board.window.tokens:,}" if known else "", MUTED)),
    ]
    order_name = "needed later" if board.order == "used later" else board.order
    order = f"{'largest' if board.is_largest_first else 'smallest'} {order_name} first"
    order = order if board.order != GRID_ORDER else "as given, reversed" if board.is_reversed else "as given"
    right: list[Run] = [
        (f"{SAVING_UNIT_NAMES[board.saving_unit]}   " if width >= WIDE_CELLS else "", BOLD),
        (order, MUTED),
    ]
    if board.only_best:
        right.insert(0, ("Pareto front only   ", WARN))
    return justify_runs([part for part in parts if part[1][0]], right, width)


def format_status(board: SweepBoard, grid_error: str, is_measuring: bool, width: int) -> list[Run]:
    """Format the line below the grid: its error, the progress of the sweep, or its result."""
    if grid_error or board.error:
        return [(shorten_at_word(format_safe_line(grid_error or board.error), width), BAD)]
    count = pluralize(len(board.settings), "setting")
    if board.missing_settings:
        how = "esc stops" if is_measuring else "stopped; r continues"
        return [(shorten_at_word(f"{board.done_count:,} of {count} measured, {how}", width), WARN)]
    standing, best = board.dominance, board.findings.best
    beaten = f"{len(best):,} on the Pareto front" if width >= WIDE_CELLS else f"{len(best):,} on front"
    head = f"{count}, {beaten}" if len(board.settings) > 1 else count
    better, now = standing.best, standing.points.get(board.sweep.current)
    if better and now and better != board.sweep.current and standing.points[better].saved > now.saved:
        more, name = standing.points[better].saved - now.saved, format_safe_line(board.format_label(better))
        values, saving = format_setting_values(board, better), format_saving(board, more)
        short_saving = format_saving(board, more, full=False)
        forms = [
            f"{name} saves {saving} more than the current one without losing more",
            f"{values} saves {saving} more without losing more",
            f"{values}: saves {short_saving} more without losing more",
            f"{values}: saves {short_saving} more, loses no more",
        ]
        found = choose_form(forms, width - len(head) - 2)
        return justify_runs([(9, (head, "")), (8, (found, GOOD))], [], width)
    told = "none saves more than the current one without losing more" if len(board.settings) > 1 else ""
    return justify_runs([(9, (head, "")), (7, (told, MUTED))], [], width)


def format_legend(board: SweepBoard, width: int) -> list[Run]:
    """Format the legend of the plot."""
    what = "cost saved" if board.saving_unit == "money" else "tokens saved"
    regret = "needed later" if board.findings.has_regrets else "dropped"
    signs = [
        (BEST_SIGN, f"{BOLD} {GOOD}"),
        (CURRENT_SIGN, f"{BOLD} {WARN}"),
        (BEATEN_SIGN, MUTED),
        (CURSOR_SIGN, f"{BOLD} {PRIMARY}"),
    ]
    axes = f"{what} ↑  {regret} →  "
    names = [("Pareto front", "current", "dominated", "here"), ("best", "current", "worse", "here")]
    forms = [(axes, names[0]), (axes, names[1]), (f"saved ↑ {regret} →  ", names[1]), ("", names[1])]
    room = [len(text) + sum(len(name) + 4 for name in each) - 2 for text, each in forms]
    text, words_ = next((form for form, cells in zip(forms, room, strict=True) if cells <= width), forms[-1])
    runs: list[Run] = [(text, MUTED)]
    for (sign, style), name in zip(signs, words_, strict=True):
        runs += [(sign, style), (f" {name}  ", MUTED)]
    runs[-1] = runs[-1][0].rstrip(), runs[-1][1]
    return clip_runs(runs, width)


# The setting under the cursor


def format_setting(board: SweepBoard, width: int) -> Iterator[list[Run]]:
    """Yield the setting under the cursor, the more important first: what beats it, against the current one, how it is
    set.
    """
    name = board.cursor
    whole, setting = board.get_totals(name), board.settings_by_name.get(name)
    if setting is None:
        return
    yield _format_title(board, name, whole, width)
    if whole is not None:
        yield _format_totals(board, whole, width)
    yield _format_changes(board, setting, width)
    for text in format_native_lines(board, setting):
        yield [("  ", ""), (shorten_at_word(format_safe_line(text), width - 2), MUTED)]


def _format_title(board: SweepBoard, name: str, whole: Totals | None, width: int) -> list[Run]:
    signs = f"{CURRENT_SIGN if name == board.sweep.current else ''}{BEST_SIGN if name in board.findings.best else ''} "
    told, style = _format_rank(board, name, whole)
    label, short_label = (
        signs.lstrip() + format_safe_line(board.format_label(name)),
        signs.lstrip() + format_setting_values(board, name),
    )
    label = label if len(label) + len(told[0]) + 2 <= width else short_label
    parts: list[tuple[int, Run]] = [(9, (shorten(label, max(width - len(told[0]) - 2, 12)), BOLD))]
    parts += [(8 - at, (each, style)) for at, each in enumerate(told)]
    return justify_runs(parts, [], width)


def _format_rank(board: SweepBoard, name: str, whole: Totals | None) -> tuple[list[str], str]:
    """Format what dominates a setting, in parts of which the first matters most, and their style."""
    beaten = board.dominance.dominated_by.get(name)
    if whole is None:
        return ["not measured yet"], MUTED
    if beaten:
        points = board.dominance.points
        more, less = points[beaten].saved - points[name].saved, points[name].regret - points[beaten].regret
        gains = [f"saves {format_saving(board, more)} more"] if more else []
        gains += [f"loses {less:,.0f} less"] if less else []
        return [
            f"dominated by {shorten(format_setting_values(board, beaten), 40)}",
            f"which {' and '.join(gains)}",
        ], WARN
    if name in board.findings.best:
        return ["on the Pareto front"], GOOD
    if name in board.dominance.points:
        return ["equal to a setting on the Pareto front"], GOOD
    return ["no price"], MUTED


def _format_totals(board: SweepBoard, whole: Totals, width: int) -> list[Run]:
    """Format the numbers of a setting, and before them, where both fit, the differences from the current setting."""
    now, points, unit, digits = (
        board.get_totals(board.sweep.current),
        board.dominance.points,
        board.sweep.cost_unit,
        board.findings.cost_digits,
    )
    used, of = "needed later" if board.findings.has_regrets else "dropped", "" if unit == "USD" else f" in {unit}"
    told = [
        f"saves {format_amount(whole.saved)} ({format_share(whole.saved, whole.without) or 'none'})",
        f"{get_regret_tokens(whole):,} {used}",
    ]
    told += [f"{format_extra_cost(compute_extra_cost(whole), unit, digits)}{of}"] if whole.cost else []
    parts: list[tuple[int, Run]] = [(8, (f"  {', '.join(told)}", ""))]
    if now is not None and now is not whole:
        told = [
            f"{_format_signed(whole.saved - now.saved)} saved",
            f"{_format_signed(get_regret_tokens(whole) - get_regret_tokens(now))} {used}",
        ]
        if whole.cost and now.cost:
            told.append(format_extra_cost(compute_extra_cost(whole) - compute_extra_cost(now), unit, digits))
        told.append(f"{_format_signed(whole.firings - now.firings)} firings")
        here, there = points.get(whole.setting), points.get(now.setting)
        better, worse = here and there and here.dominates(there), here and there and there.dominates(here)
        style = GOOD if better else BAD if worse else ""
        parts.append((9, ("compared with the current one: " + ", ".join(told), style)))
    return (
        justify_runs(parts, [], width)
        if count_cells([run for _, run in parts]) + 2 <= width
        else _format_last_part(parts, width)
    )


def _format_last_part(parts: Sequence[tuple[int, Run]], width: int) -> list[Run]:
    text, style = parts[-1][1]
    return [(shorten_at_word(f"  {text.strip()}", width), style)]


def _format_changes(board: SweepBoard, setting: SweepSetting, width: int) -> list[Run]:
    """Format the differences from the current settings."""
    current = board.current_setting
    if setting.policy.name != current.policy.name:
        return [("  ", ""), (f"{setting.policy.name} in place of {current.policy.name}", "")]
    changed = compute_changes(current, setting)
    if not changed:
        return [("  ", ""), ("the current setting", MUTED)]
    forms = [
        ",  ".join(f"{name} {format_value(before)} → {format_value(after)}" for name, before, after in changed),
        ", ".join(f"{name} → {format_value(after)}" for name, _, after in changed),
    ]
    found = choose_form(forms, width - 2)
    return [("  ", ""), (shorten_at_word(format_safe_line(found), width - 2), PRIMARY)]


def _format_signed(number: float) -> str:
    return f"{'+' if number > 0 else ''}{format_amount(number)}"


def compute_changes(old: SweepSetting, new: SweepSetting) -> list[tuple[str, object, object]]:
    """Return the parameters in which two settings of a policy differ, with both values; ``POLICY.KEY`` for nested
    policies.
    """
    before, after = _collect_set_values(old), _collect_set_values(new)
    own, found = new.policy.name, []
    for policy, name in dict.fromkeys([*after, *before]):
        default = POLICIES[policy].Params.model_fields[name].get_default()
        was, now = before.get((policy, name), default), after.get((policy, name), default)
        if was != now:
            found.append((name if policy == own else f"{policy}.{name}", was, now))
    return found


def _collect_set_values(setting: SweepSetting) -> dict[tuple[str, str], object]:
    """Collect the values that are not defaults, by policy and name."""
    each = find_changed_values(setting.policy, setting.params)
    return {(policy, name): value_ for policy, values in each.items() for name, value_ in values.items()}


# The agent's own configuration


def get_native(board: SweepBoard, setting: SweepSetting) -> AgentSettings | None:
    """Return a setting as its agent's own configuration; None where that is unknown."""
    return build_agent_settings(setting.policy.name, setting.params, board.window)


def format_native_lines(board: SweepBoard, setting: SweepSetting) -> list[str]:
    """Format the agent's own configuration as lines: file, key, value and note; and what cannot be set."""
    found = get_native(board, setting)
    if found is None:
        return ["no agent configuration is known for this policy"]
    lines = []
    for each in found.settings:
        lines.append(f"{each.file}: {each.key} = {each.value}" + (f"  ({each.note})" if each.note else ""))
    if found.constant_params:
        lines.append(f"hard-coded in the agent; not configurable: {', '.join(found.constant_params)}")
    return lines


def format_native_text(board: SweepBoard, setting: SweepSetting) -> str:
    """Return the same to be copied; empty where nothing can be set."""
    found = get_native(board, setting)
    return format_agent_settings(found) if found and found.settings else ""


def find_best_by_project(board: SweepBoard) -> list[tuple[str, str, str]]:
    """Find for each project the setting that saves most without losing more than the current one, and how much."""
    found = []
    for name, each in board.sweep.dominance_by_project.items():
        if each.best is not None:
            found.append(
                (
                    format_safe_line(name),
                    format_safe_line(board.format_label(each.best)),
                    format_saving(board, each.points[each.best].saved),
                )
            )
    return found
