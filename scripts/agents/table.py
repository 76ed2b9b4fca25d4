"""The page of figures, ``docs/agents.md``, and the goals that were met before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scripts.agents.agent import Agent
from scripts.agents.back import PLANS, can_write
from scripts.agents.judge import Judgement
from scripts.agents.programs import ROOT

PAGE = ROOT / "docs" / "agents.md"
TEXT_GOAL = 0.97
"""Share of the texts sent that are to be in our context."""
HEAD = """\
# Real agents as judges

`make agents` installs the agents' own programs, drives each against a scripted model on this machine, and compares
every request that it sends with the context that its session file gives here. The model's server speaks the API of
each agent, logs the exact requests, and returns usage counted by a real tokenizer, with the provider's prompt cache.
Figures only: nothing that an agent sends or writes is part of this project.
"""


@dataclass
class AgentResult:
    """What was measured of an agent.

    Attributes:
        judgement: figures of all scenarios.
        scenarios: those that were driven.
        failures: scenarios that were not driven or read, with the reason.
        resumed: by plan, what differs in the first request after an export; empty text if nothing.
    """

    agent: Agent
    judgement: Judgement = field(default_factory=Judgement)
    scenarios: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    resumed: dict[str, str] = field(default_factory=dict)

    @property
    def goals(self) -> Mapping[str, bool | None]:
        """Whether each goal is met; None for goals that the agent does not have."""
        figures = self.judgement
        is_driven = bool(figures.requests)
        fired = figures.fired
        goals: dict[str, bool | None] = {
            "calls and results": figures.requests_equal == figures.requests if is_driven else False,
            "texts": figures.texts_held >= TEXT_GOAL * figures.texts if is_driven else False,
            "sizes": figures.usages_equal == figures.usages if is_driven else False,
            "compactions": _is_met(figures.compactions, figures.compactions_equal, figures.compactions_surplus),
            "preset fires": all(each == 0 for each in fired) if fired else None,
            "preset leaves": figures.left == figures.left_equal if figures.left else None,
        }
        return goals | {f"resume: {plan}": not difference for plan, difference in self.resumed.items()}


def _is_met(count: int, equal: int, surplus: int) -> bool | None:
    return count == equal and not surplus if count or surplus else None


def format_page(results: Sequence[AgentResult]) -> str:
    """Format the page."""
    parts = [HEAD, "## Requests\n", *_format_figures(results), "", *_format_reading_help()]
    parts += ["## Texts that are not in the session files\n", *_format_missing_texts(results), ""]
    parts += ["## Exports, resumed by the agents\n", *_format_resumed(results), ""]
    parts += ["## Not driven\n", *_format_failures(results), ""]
    parts += ["## Goals\n", *_format_goals(results)]
    return "\n".join(parts) + "\n"


def _format_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _format_row(columns)
    yield _format_row(["---"] * len(columns))
    yield from (_format_row(row) for row in rows)


def _format_figures(results: Sequence[AgentResult]) -> Iterator[str]:
    columns = "agent, version, scenarios, requests, calls, results, texts, sizes, compactions, preset, leaves".split(
        ", "
    )
    rows = []
    for result in results:
        figures = result.judgement
        texts = f"{figures.texts_held:,} of {figures.texts:,}"
        rows.append(
            [
                result.agent.label,
                result.agent.program.version,
                str(len(result.scenarios)),
                f"{figures.requests_equal:,} of {figures.requests:,}",
                f"{figures.calls_held:,} of {figures.calls:,}",
                f"{figures.results_held:,} of {figures.results:,}" + _format_surplus(figures.surplus),
                f"{texts} ({figures.texts_held / figures.texts:.0%})" if figures.texts else "–",
                f"{figures.usages_equal:,} of {figures.usages:,}",
                f"{figures.compactions_equal} of {figures.compactions}" + _format_surplus(figures.compactions_surplus),
                _format_fired(result.agent.preset, figures.fired),
                f"{figures.left_equal} of {figures.left}" if figures.left else "–",
            ]
        )
    yield from _format_table(columns, rows)


def _format_surplus(count: int) -> str:
    return f", {count:,} too many" if count else ""


def _format_fired(preset: str, fired: Sequence[int | None]) -> str:
    if not fired:
        return "–"
    exact = sum(each == 0 for each in fired)
    others = ", ".join("never" if each is None else f"{each:+}" for each in fired if each != 0)
    return f"{preset}: {exact} of {len(fired)}" + (f" ({others})" if others else "")


def _format_reading_help() -> Iterator[str]:
    yield """\
- Requests: those whose calls and results are exactly the ones in our context.
- Calls, results, texts: those sent that are in our context, over all requests; the system prompt aside.
- Sizes: recorded sizes that are the usage returned.
- Compactions: those that the requests show and the session has at that call.
- Preset: compactions at which our preset of the agent's policy, told the configured limits, fires at the same call.
- Leaves: compactions after which the results that the preset leaves are the ones sent next.
"""


def _format_missing_texts(results: Sequence[AgentResult]) -> Iterator[str]:
    rows = [
        [result.agent.label, kind, f"{count:,}", f"{result.judgement.missing_tokens[kind]:,}"]
        for result in results
        for kind, count in result.judgement.missing_texts.most_common()
    ]
    yield from _format_table(["agent", "kind", "times sent", "tokens"], rows)


def _format_resumed(results: Sequence[AgentResult]) -> Iterator[str]:
    rows = [
        [result.agent.label, *(result.resumed[plan] or "as planned" for plan in PLANS if plan in result.resumed)]
        for result in results
        if can_write(result.agent) and result.resumed
    ]
    yield from _format_table(["agent", *PLANS], rows)


def _format_failures(results: Sequence[AgentResult]) -> Iterator[str]:
    rows = [
        [result.agent.label, name, reason]
        for result in results
        for name, reason in {**result.agent.unsupported, **result.failures}.items()
    ]
    yield from _format_table(["agent", "scenario", "reason"], rows)


def _format_goals(results: Sequence[AgentResult]) -> Iterator[str]:
    rows = [
        [result.agent.label, goal, "met" if is_met else "missed"]
        for result in results
        for goal, is_met in result.goals.items()
        if is_met is not None
    ]
    yield from _format_table(["agent", "goal", "state"], rows)


def parse_goals(page: str) -> dict[tuple[str, str], bool]:
    """Return the goals of a page by agent and goal, and whether each is met."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (met|missed) \|$", page, re.MULTILINE)
    return {(agent, goal): state == "met" for agent, goal, state in rows}


def find_lost_goals(before: str, after: str) -> list[str]:
    """Return the goals that the page before says are met and the page after says are missed."""
    states = parse_goals(after)
    lost = (key for key, is_met in parse_goals(before).items() if is_met and states.get(key) is False)
    return [f"{agent}: {goal}" for agent, goal in lost]
