"""Regret cases of a policy: their selection, their two sides, the texts about them, and the regret bound."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from context_tui.lab.regret.cases import RegretCase
from context_tui.lab.regret.tool_calls import get_command_line
from context_tui.lab.regret.tools import ARGUMENTS
from context_tui.lab.replay.result import NEVER_REMOVED, Firing
from context_tui.lab.study import Study
from context_tui.session.values import Kind
from context_tui.text.numbers import format_count, format_percent
from context_tui.tokens.estimators import bytes4
from context_tui.tui.rendering.formatting import format_line
from context_tui.tui.search import find_text, get_searchable_text
from context_tui.tui.terminal.cells import choose_form, shorten, shorten_at_word
from context_tui.tui.terminal.themes import BOLD, MUTED, PRIMARY, WARN
from context_tui.tui.timeline.rows import Location
from context_tui.tui.widgets.styled_text import Run, count_cells, format_safe_line, pad_runs, set_background

TIER_TEXTS = {
    "re-fetch": "fetched again; a lower bound, as the recorded agent still had the content",
    "edit": "its text was edited, and the policy's context had no other copy",
    "reference": "often a coincidence, so that it does not count as needed",
}
MIN_NEEDLE_LENGTH = 4
"""Minimum number of characters of an argument that is highlighted in a call."""


class CaseSide(NamedTuple):
    """One side of a regret case: its location, block, planning point for the inspector, and tokens (``bytes/4``)."""

    location: Location
    row: int
    point: int
    tokens: int


@dataclass(frozen=True)
class CaseSelection:
    """The numbers of the selected regret cases of a study; ``firing_numbers`` maps every case to its firing."""

    study: Study
    case_numbers: Sequence[int]
    firing_numbers: Mapping[int, int]

    def __len__(self) -> int:
        return len(self.case_numbers)

    @property
    def cases(self) -> list[RegretCase]:
        """The selected cases, needed ones first, in the order of their firings."""
        return [self.study.regret.cases[number] for number in self.case_numbers]

    def get_firing(self, index: int) -> tuple[int, Firing]:
        """Return the number of the firing that dropped the block in case *index*, and the firing."""
        number = self.firing_numbers[self.case_numbers[index]]
        return number, self.study.replay.firings[number]


def select_cases(study: Study, call: int | None = None) -> CaseSelection:
    """Select the regret cases for the firings at *call*, or for all firings if *call* is None."""
    by_firing, firings = study.group_cases_by_firing(), study.replay.firings
    firing_numbers = {case: number for number, cases in enumerate(by_firing) for case in cases}
    cases = [case for case, number in firing_numbers.items() if call is None or firings[number].call == call]
    cases.sort(key=lambda case: not study.regret.cases[case].is_needed)
    return CaseSelection(study, cases, firing_numbers)


# The two sides


def find_side(selection: CaseSelection, index: int, name: str) -> CaseSide:
    """Return one side of a case: ``dropped`` for the block that was dropped, or ``used`` for its later use."""
    case, facts = selection.cases[index], selection.study.replay.session.facts
    if name == "used":
        row, point = list(facts.blocks_of(case.later))[case.later_block], case.later
    else:
        row, point = case.row, selection.get_firing(index)[1].decided
    # A result has its own row in the timeline, any other block that of its message.
    location = Location(facts.block_message[row], row if facts.kind[row] == Kind.TOOL_RESULT else -1)
    return CaseSide(location, row, point, bytes4(facts, row))


def choose_needle(case: RegretCase, block: Mapping[str, Any], name: str) -> str:
    """Return the needed text if the block contains it or, for a call that fetches again, its argument; else ""."""
    if name == "used" and case.tier == "re-fetch":
        return _find_fetch_argument(block)
    text = get_searchable_text(dict(block))
    forms = (case.needle, json.dumps(case.needle, ensure_ascii=False)[1:-1])
    return case.needle if any(find_text(text, form) >= 0 for form in forms) else ""


def _find_fetch_argument(block: Mapping[str, Any]) -> str:
    """Return the first line of a call's command or path, else of its longest argument; "" if the line is too short."""
    arguments = block.get("input")
    if not isinstance(arguments, Mapping):
        return ""
    command = get_command_line(arguments).strip()
    texts = [value for value in arguments.values() if isinstance(value, str)]
    path = next((text for key in ARGUMENTS["path"] if isinstance(text := arguments.get(key), str) and text), "")
    is_shell = " " in command or not path  # a single word may be the operation of an editor on a file
    argument = (command if is_shell else path) or max(texts, key=len, default="")
    first = argument.strip().partition("\n")[0]
    return first if len(first) >= MIN_NEEDLE_LENGTH else ""


# Formatting


def format_summary(selection: CaseSelection, width: int) -> list[Run]:
    """Format how many of the dropped blocks, and of their tokens, were needed later, and how many only named again."""
    regret = selection.study.regret
    share = f" ({format_percent(regret.tokens_used_later / regret.tokens_dropped)})" if regret.tokens_dropped else ""
    blocks = f"{regret.used_later:,} of {format_count(regret.dropped, 'dropped block')} needed later"
    tokens = f"{regret.tokens_used_later:,} of {regret.tokens_dropped:,} tokens{share}"
    named = f"; {regret.by_tier['reference']:,} only named again"
    forms = (f"{blocks}   {tokens}, by bytes/4{named}", f"{blocks}, {tokens}{named}", f"{blocks}, {tokens}")
    return [(shorten_at_word(choose_form(forms, width), width), BOLD)]


def format_regret_bound(selection: CaseSelection, call: int, width: int) -> list[Run]:
    """Format how many tokens (``bytes/4``) could have been dropped at a call without loss, and how many were."""
    study = selection.study
    if not 0 <= call < len(study.bound.everything.droppable):
        return []
    bound, replay = study.bound.everything, study.replay
    message = replay.calls[call].message
    regretted = sum(
        case.tokens
        for case in study.regret.cases
        if case.is_needed and case.dropped <= message < replay.removed_by_recording.get(case.row, NEVER_REMOVED)
    )
    removable, dropped = bound.droppable[call], bound.dropped[call]
    forms = (
        f"at #{message:,}, {removable:,} tokens were removable without loss; "
        f"this policy had dropped {dropped:,}, {regretted:,} of them needed later",
        f"at #{message:,}, {removable:,} removable without loss; dropped {dropped:,}, {regretted:,} needed later",
        f"{removable:,} removable without loss; dropped {dropped:,}, {regretted:,} needed later",
        f"{removable:,} removable; dropped {dropped:,}, {regretted:,} needed",
    )
    return [(choose_form(forms, width), MUTED)]


def format_case_table(selection: CaseSelection, selected: int, width: int, height: int) -> list[list[Run]]:
    """Format the table of cases in *height* lines: the column headings, and the cases around the *selected* one."""
    cases = selection.cases
    numbers = ((f"#{each.message:,}", f"{each.tokens:,}", f"#{each.dropped:,}", f"#{each.later:,}") for each in cases)
    tiers = (case.tier if case.is_needed else "named again" for case in cases)
    rows = [(tier, *cells) for tier, cells in zip(tiers, numbers, strict=True)]
    heads = ("tier", "block", "tokens", "dropped at", "used at")
    sizes = [max(len(row[each]) for row in (heads, *rows)) for each in range(len(heads))]
    lines = [[(f"  {heads[0].ljust(sizes[0])}{_align_right(heads, sizes)}  evidence", MUTED)]]
    first = compute_first_row(len(cases), selected, height)
    for number in range(first, min(first + max(height - 1, 0), len(cases))):
        row, is_selected = rows[number], number == selected
        runs: list[Run] = [
            ("▸ " if is_selected else "  ", f"{BOLD} {PRIMARY}"),
            (row[0].ljust(sizes[0]), WARN),
            (_align_right(row, sizes), BOLD if is_selected else ""),
        ]
        evidence = shorten(format_line(cases[number].evidence), max(width - count_cells(runs) - 2, 4))
        runs = pad_runs([*runs, (f"  {evidence}", BOLD if is_selected else MUTED)], width)
        lines.append(set_background(runs) if is_selected else runs)
    return lines


def _align_right(texts: Sequence[str], sizes: Sequence[int]) -> str:
    return "".join(f"  {text.rjust(size)}" for text, size in zip(texts[1:], sizes[1:], strict=True))


def compute_first_row(count: int, selected: int, height: int) -> int:
    """Return the index of the first case to list so that the selected one is visible below the headings."""
    return max(min(selected - (height - 1) // 2, count - (height - 1)), 0)


def format_evidence(selection: CaseSelection, index: int, width: int) -> list[list[Run]]:
    """Format two lines about a case: its size, delay and kind of use, and then the evidence."""
    case, (_, firing) = selection.cases[index], selection.get_firing(index)
    study = selection.study
    calls = [call.message for call in study.replay.calls]
    delay = sum(firing.message <= message <= case.later for message in calls) - 1
    time = "at once" if delay <= 0 else f"{format_count(delay, 'call')} later"
    need = f"{case.tier}: {case.tokens:,} tokens by bytes/4, {'needed' if case.is_needed else 'named again'} {time}"
    forms = (f"{need}; {TIER_TEXTS[case.tier]}", f"{need}; {TIER_TEXTS[case.tier].partition(',')[0]}", need)
    return [
        [(shorten_at_word(choose_form(forms, width), width), WARN)],
        [("evidence ", MUTED), (shorten(format_safe_line(format_line(case.evidence)), max(width - 9, 4)), BOLD)],
    ]


def format_side_title(selection: CaseSelection, index: int, name: str, preview: str) -> str:
    """Format the title for one side of a case; the most important part comes first, because the end may be cut."""
    side, case = find_side(selection, index, name), selection.cases[index]
    use = "needed later" if case.is_needed else "named again"
    event = use if name == "used" else f"dropped at #{case.dropped:,}"
    return f"{event}: #{side.location.message:,}, est. {format_count(side.tokens, 'token')}: {format_line(preview)}"


def explain_no_cases(selection: CaseSelection) -> str:
    """Explain why there is no regret case to show."""
    regret = selection.study.regret
    if not regret.dropped:
        return "The policy drops nothing in this recording, so nothing was needed later"
    dropped = f"{format_count(regret.dropped, 'block')}, {regret.tokens_dropped:,} tokens"
    return f"Nothing that the policy dropped was needed later ({dropped})"
