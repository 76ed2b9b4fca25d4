"""The page of figures, ``docs/agents.md``, and the goals that were met before."""

from __future__ import annotations

import re
from collections import Counter
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

FIRINGS_HEAD = """\
The triggers were fitted to no run, and what a preset keeps follows the program's code; only the JSON around a message
(35 tokens of opencode, 85 of Cline) was measured in the scenario `compact`. Last and next request: the tokens of the
requests before and after the compaction, as the server counted them; predicted: the size computed from the context
before the compaction and the messages in the file after it.
"""

MISSING_HEAD = """\
Where a part of the recorded size is not in the file, `inspect` and the inspector name its kinds. The goal *kinds* is
met if they name all the kinds of an agent.
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
        is_driven = bool(figures.requests.count)
        firings = figures.firings
        goals: dict[str, bool | None] = {
            "calls and results": is_driven and figures.requests.is_complete,
            "texts": is_driven and figures.texts.matches >= TEXT_GOAL * figures.texts.count,
            "sizes": is_driven and figures.sizes.is_complete,
            "kinds": is_driven and figures.missing_parts.keys() <= figures.unrecorded_kinds,
            "compactions": None,
            "preset fires": all(firing.earlier == 0 for firing in firings) if firings else None,
            "preset leaves": all(firing.results is not False for firing in firings) if firings else None,
        }
        if figures.compactions.count or figures.compactions_surplus:
            goals["compactions"] = figures.compactions.is_complete and not figures.compactions_surplus
        return goals | {f"resume: {plan}": not difference for plan, difference in self.resumed.items()}


def format_page(results: Sequence[AgentResult]) -> str:
    """Format the page."""
    parts = [HEAD, "## Requests\n", *_format_figures(results), "", *_format_reading_help()]
    parts += ["## Automatic compactions\n", FIRINGS_HEAD, *_format_firings(results), ""]
    parts += ["## Parts that are not in our context\n", MISSING_HEAD, *_format_missing_parts(results), ""]
    parts += ["## Known differences\n", *_format_differences(results), ""]
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
        texts = figures.texts
        kept = Counter(firing.results for firing in figures.firings)
        rows.append(
            [
                result.agent.label,
                result.agent.program.version,
                str(len(result.scenarios)),
                str(figures.requests) + (f", {figures.deleted:,} deleted" if figures.deleted else ""),
                str(figures.calls),
                str(figures.results) + _format_surplus(figures.surplus),
                f"{texts} ({texts.matches / texts.count:.0%})" if texts.count else "–",
                str(figures.sizes),
                str(figures.compactions) + _format_surplus(figures.compactions_surplus),
                _format_earlier(result.agent.preset, figures.earlier_calls),
                f"{kept[True]} of {kept[True] + kept[False]}" if figures.firings else "–",
            ]
        )
    yield from _format_table(columns, rows)


def _format_surplus(count: int) -> str:
    return f", {count:,} too many" if count else ""


def _format_earlier(preset: str, calls: Sequence[int | None]) -> str:
    if not calls:
        return "–"
    others = ", ".join("never" if each is None else f"{each:+}" for each in calls if each != 0)
    return f"{preset}: {calls.count(0)} of {len(calls)}" + (f" ({others})" if others else "")


def _format_reading_help() -> Iterator[str]:
    yield """\
- Requests: those whose calls and results are exactly the ones in our context. Deleted: those of a prompt that was taken
  back, where the agent then deletes it from its files.
- Calls, results, texts: those sent that are in our context, over all requests; the system prompt aside.
- Sizes: recorded sizes that are the usage returned.
- Compactions: those that the requests show and the session has at that call.
- Preset: automatic compactions at which our preset of the agent's policy, told the configured limits, fires at the
  same call.
- Leaves: automatic compactions after which the results that the preset leaves are the ones sent next.
"""


def _format_firings(results: Sequence[AgentResult]) -> Iterator[str]:
    firings = [(result.agent.label, firing) for result in results for firing in result.judgement.firings]
    rows = [
        [
            label,
            firing.scenario,
            _format_tokens(firing.before),
            "never" if firing.earlier is None else f"{-firing.earlier} earlier" if firing.earlier else "same",
            {True: "as sent", False: "others", None: "–"}[firing.results],
            _format_tokens(firing.after_recorded),
            _format_tokens(firing.after_predicted),
        ]
        for label, firing in firings
    ]
    columns = ["agent", "scenario", "last request", "preset fires at call", "results left", "next request", "predicted"]
    yield from _format_table(columns, rows)
    same = sum(firing.earlier == 0 for _, firing in firings)
    yield f"\nOf {len(firings)} automatic compactions, the preset fires at the same call in {same}."
    errors = sorted(
        abs(firing.after_predicted / firing.after_recorded - 1)
        for _, firing in firings
        if firing.after_predicted is not None and firing.after_recorded
    )
    if errors:
        median, high = errors[len(errors) // 2], errors[len(errors) * 9 // 10]
        yield f"The predicted size of the next request is off by {median:.1%} in the median, {high:.1%} in nine of ten."


def _format_tokens(tokens: int | None) -> str:
    return "–" if tokens is None else f"{tokens:,}"


def _format_missing_parts(results: Sequence[AgentResult]) -> Iterator[str]:
    rows = [
        [result.agent.label, kind, f"{count:,}", f"{result.judgement.missing_tokens[kind] / count:,.0f}"]
        for result in results
        for kind, count in result.judgement.missing_parts.most_common()
    ]
    yield from _format_table(["agent", "kind", "times sent", "tokens each time"], rows)


def _format_differences(results: Sequence[AgentResult]) -> Iterator[str]:
    rows = [
        [result.agent.label, goal, reason] for result in results for goal, reason in result.agent.differences.items()
    ]
    yield from _format_table(["agent", "goal", "reason"], rows)


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
