"""What the sweep screen says: what is swept, how far it is, and the setting under the cursor. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from context_tui.lab.sweep.results import Totals
from context_tui.lab.sweep.settings import SweepSetting
from context_tui.policies.native import AgentSettings, build_agent_settings, format_agent_settings
from context_tui.policies.parameters import find_changed_values
from context_tui.policies.registry import POLICIES
from context_tui.text.sanitize import make_visible
from context_tui.tui.screens.sweep.board import GRID, Board, extra_cost, regret_of, value_text
from context_tui.tui.screens.sweep.table import (
    BEATEN,
    BEST,
    CURRENT,
    HERE,
    amount,
    money,
    share,
    values_of,
)
from context_tui.tui.text import pluralize
from context_tui.tui.widgets.draw import (
    BAD,
    BOLD,
    GOOD,
    HUE,
    MUTED,
    WARN,
    Run,
    cells,
    clip,
    safe,
    short,
    short_words,
    spread,
)

ROOMY = 100
"""Cells from which on there is room for whole sentences."""
MEASURES = {"tokens": "in tokens", "money": "in money"}


def saved_of(board: Board, amount_: float, *, full: bool = True) -> str:
    """What is saved, in what it is counted in."""
    return amount(amount_, full) if board.by == "tokens" else money(amount_, board.made.cost_unit)


def header(board: Board, width: int) -> list[Run]:
    """What is swept, and at the right edge what saving is counted in and how it is listed."""
    known = board.known
    if known is not None:
        info = known.session.info
        name, calls = make_visible(PurePath(info.path).name) or info.title or "session", ""
        row = next(iter(known.rows.values()), None)
        calls = pluralize(row.calls, "call") if row else ""
    else:
        name, calls = pluralize(len(board.made.rows_by_session), "session"), ""
    policies = list(dict.fromkeys(each.policy.name for each in board.settings))
    what = policies[0] if len(policies) == 1 else f"{policies[0]} and {len(policies) - 1} more"
    parts: list[tuple[int, Run]] = [
        (9, (safe(name, max(12, width // 3)), BOLD)),
        (8, ("sweep", HUE)),
        (6, (what, "")),
        (5, (calls, "")),
        (4, (f"window {board.window.tokens:,}" if known else "", MUTED)),
    ]
    order = f"{'largest' if board.largest_first else 'smallest'} {board.order} first"
    order = order if board.order != GRID else "as given, reversed" if board.reverse else "as given"
    right: list[Run] = [(f"{MEASURES[board.by]}   " if width >= ROOMY else "", BOLD), (order, MUTED)]
    if board.only_best:
        right.insert(0, ("what nothing beats   ", WARN))
    return spread([part for part in parts if part[1][0]], right, width)


def status(board: Board, wrong: str, running: bool, width: int) -> list[Run]:
    """One line below the grid: what is wrong with it, how far the sweep is, or what came out of it."""
    if wrong or board.trouble:
        return [(short_words(safe(wrong or board.trouble), width), BAD)]
    count = pluralize(len(board.settings), "setting")
    if board.missing:
        how = "esc stops" if running else "stopped; r goes on"
        return [(short_words(f"{board.done:,} of {count} measured, {how}", width), WARN)]
    standing, best = board.standing, board.of.best
    beaten = f"{len(best):,} of them beaten by none" if width >= ROOMY else f"{len(best):,} unbeaten"
    head = f"{count}, {beaten}" if len(board.settings) > 1 else count
    better, now = standing.best, standing.points.get(board.made.current)
    if better and now and better != board.made.current and standing.points[better].saved > now.saved:
        more, name = standing.points[better].saved - now.saved, safe(board.label(better))
        forms = [
            f"{name} saves {saved_of(board, more)} more than the current one at no more regret",
            f"{values_of(board, better)} saves {saved_of(board, more)} more at no more regret",
            f"{values_of(board, better)}: {saved_of(board, more, full=False)} more at no more regret",
            f"{values_of(board, better)}: +{saved_of(board, more, full=False)}, no more regret",
        ]
        found = next((each for each in forms if len(head) + 2 + len(each) <= width), forms[-1])
        return spread([(9, (head, "")), (8, (found, GOOD))], [], width)
    told = "none saves more than the current one at no more regret" if len(board.settings) > 1 else ""
    return spread([(9, (head, "")), (7, (told, MUTED))], [], width)


def legend(board: Board, width: int) -> list[Run]:
    """What the plot shows."""
    what = "cost saved" if board.by == "money" else "tokens saved"
    regret = "used later" if board.of.used else "dropped"
    signs = [(BEST, f"{BOLD} {GOOD}"), (CURRENT, f"{BOLD} {WARN}"), (BEATEN, MUTED), (HERE, f"{BOLD} {HUE}")]
    axes = f"{what} ↑  {regret} →  "
    names = [("nothing beats it", "current", "beaten", "here"), ("best", "current", "beaten", "here")]
    forms = [(axes, names[0]), (axes, names[1]), (f"saved ↑ {regret} →  ", names[1]), ("", names[1])]
    room = [len(text) + sum(len(name) + 4 for name in each) - 2 for text, each in forms]
    text, words_ = next((form for form, cells in zip(forms, room, strict=True) if cells <= width), forms[-1])
    runs: list[Run] = [(text, MUTED)]
    for (sign, style), name in zip(signs, words_, strict=True):
        runs += [(sign, style), (f" {name}  ", MUTED)]
    runs[-1] = runs[-1][0].rstrip(), runs[-1][1]
    return clip(runs, width)


# The setting under the cursor


def words(board: Board, width: int) -> Iterator[list[Run]]:
    """The setting under the cursor, the more important first: what beats it, against the current one, how it is set."""
    name = board.cursor
    whole, setting = board.whole(name), board.named.get(name)
    if setting is None:
        return
    yield _title(board, name, whole, width)
    if whole is not None:
        yield _against(board, whole, width)
    yield _differs(board, setting, width)
    for text in native_lines(board, setting):
        yield [("  ", ""), (short_words(safe(text), width - 2), MUTED)]


def _title(board: Board, name: str, whole: Totals | None, width: int) -> list[Run]:
    signs = f"{CURRENT if name == board.made.current else ''}{BEST if name in board.of.best else ''} "
    told, style = _rank(board, name, whole)
    label, short_label = signs.lstrip() + safe(board.label(name)), signs.lstrip() + values_of(board, name)
    label = label if len(label) + len(told[0]) + 2 <= width else short_label
    parts: list[tuple[int, Run]] = [(9, (short(label, max(width - len(told[0]) - 2, 12)), BOLD))]
    parts += [(8 - at, (each, style)) for at, each in enumerate(told)]
    return spread(parts, [], width)


def _rank(board: Board, name: str, whole: Totals | None) -> tuple[list[str], str]:
    """What beats a setting and by what, in parts of which the first matters most; and the style of that."""
    beaten = board.standing.dominated_by.get(name)
    if whole is None:
        return ["not measured yet"], MUTED
    if beaten:
        points = board.standing.points
        more, less = points[beaten].saved - points[name].saved, points[name].regret - points[beaten].regret
        gains = [f"saves {saved_of(board, more)} more"] if more else []
        gains += [f"has {less:,.0f} less used later"] if less else []
        return [f"beaten by {short(values_of(board, beaten), 40)}", f"which {' and '.join(gains)}"], WARN
    if name in board.of.best:
        return ["nothing beats it"], GOOD
    if name in board.standing.points:
        return ["as good as another that nothing beats"], GOOD
    return ["it has no price"], MUTED


def _against(board: Board, whole: Totals, width: int) -> list[Run]:
    """Its numbers, and before these, where there is no room for both, those against the current setting."""
    now, points, unit, digits = (
        board.whole(board.made.current),
        board.standing.points,
        board.made.cost_unit,
        board.of.digits,
    )
    used, of = "used later" if board.of.used else "dropped", "" if unit == "USD" else f" in {unit}"
    told = [
        f"saves {amount(whole.saved)} ({share(whole.saved, whole.without) or 'none'})",
        f"{regret_of(whole):,} {used}",
    ]
    told += [f"{money(extra_cost(whole), unit, signed=True, digits=digits)} cost{of}"] if whole.cost else []
    parts: list[tuple[int, Run]] = [(8, (f"  {', '.join(told)}", ""))]
    if now is not None and now is not whole:
        told = [f"{_signed(whole.saved - now.saved)} saved", f"{_signed(regret_of(whole) - regret_of(now))} {used}"]
        if whole.cost and now.cost:
            told.append(f"{money(extra_cost(whole) - extra_cost(now), unit, signed=True, digits=digits)} cost")
        told.append(f"{_signed(whole.firings - now.firings)} firings")
        here, there = points.get(whole.setting), points.get(now.setting)
        better, worse = here and there and here.dominates(there), here and there and there.dominates(here)
        style = GOOD if better else BAD if worse else ""
        parts.append((9, ("against the current one " + ", ".join(told), style)))
    return spread(parts, [], width) if cells([run for _, run in parts]) + 2 <= width else _last(parts, width)


def _last(parts: Sequence[tuple[int, Run]], width: int) -> list[Run]:
    text, style = parts[-1][1]
    return [(short_words(f"  {text.strip()}", width), style)]


def _differs(board: Board, setting: SweepSetting, width: int) -> list[Run]:
    """What is set otherwise than now."""
    current = board.current
    if setting.policy.name != current.policy.name:
        return [("  ", ""), (f"{setting.policy.name} in place of {current.policy.name}", "")]
    changed = changes(current, setting)
    if not changed:
        return [("  ", ""), ("the current setting", MUTED)]
    forms = [
        ",  ".join(f"{name} {value_text(before)} → {value_text(after)}" for name, before, after in changed),
        ", ".join(f"{name} → {value_text(after)}" for name, _, after in changed),
    ]
    found = next((form for form in forms if len(form) + 2 <= width), forms[-1])
    return [("  ", ""), (short_words(safe(found), width - 2), HUE)]


def _signed(number: float) -> str:
    return f"+{number:,.0f}" if number > 0 else f"−{-number:,.0f}" if number < 0 else "0"


def changes(old: SweepSetting, new: SweepSetting) -> list[tuple[str, object, object]]:
    """The parameters that two settings of a policy do not share, with both values; ``POLICY.KEY`` those of others."""
    before, after = _set(old), _set(new)
    own, found = new.policy.name, []
    for policy, name in dict.fromkeys([*after, *before]):
        default = POLICIES[policy].Params.model_fields[name].get_default()
        was, now = before.get((policy, name), default), after.get((policy, name), default)
        if was != now:
            found.append((name if policy == own else f"{policy}.{name}", was, now))
    return found


def _set(setting: SweepSetting) -> dict[tuple[str, str], object]:
    """What is not the default, by policy and name."""
    each = find_changed_values(setting.policy, setting.params)
    return {(policy, name): value_ for policy, values in each.items() for name, value_ in values.items()}


# The agent's own configuration


def native_of(board: Board, setting: SweepSetting) -> AgentSettings | None:
    """A setting as its agent is told it; None where nothing is known of that."""
    return build_agent_settings(setting.policy.name, setting.params, board.window)


def native_lines(board: Board, setting: SweepSetting) -> list[str]:
    """The same as lines: file, key, value and what is known of it; what cannot be set."""
    found = native_of(board, setting)
    if found is None:
        return ["no configuration of an agent is known for this policy"]
    lines = []
    for each in found.settings:
        lines.append(f"{each.file}: {each.key} = {each.value}" + (f"  ({each.note})" if each.note else ""))
    if found.constant_params:
        lines.append(f"constants in the agent, which nothing sets: {', '.join(found.constant_params)}")
    return lines


def native_text(board: Board, setting: SweepSetting) -> str:
    """The same to be copied; empty where nothing can be set."""
    found = native_of(board, setting)
    return format_agent_settings(found) if found and found.settings else ""


def best_in_projects(board: Board) -> list[tuple[str, str, str]]:
    """Of each project its name, the setting that saves most at no more regret than the current one, and how much."""
    found = []
    for name, each in board.made.dominance_by_project.items():
        if each.best is not None:
            found.append((safe(name), safe(board.label(each.best)), saved_of(board, each.points[each.best].saved)))
    return found
