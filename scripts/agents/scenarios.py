"""Scenarios: what the user asks for, and what the scripted model does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scripts.agents.scripted_model import PROMPT_MARK, SUBTASK_MARK, Action, Step

InvocationKind = Literal["start", "resume", "compact", "clear", "rewind"]
"""Start a session, resume it with a prompt, compact it by hand; and with a prompt from an empty context, or from the
context before the newest prompt.
"""


@dataclass(frozen=True)
class Invocation:
    """One run of the program: how it is called, the prompt, and the steps of the model."""

    kind: InvocationKind
    steps: tuple[Step, ...] = ()
    prompt: str = ""


@dataclass(frozen=True)
class Scenario:
    """Runs of the program in one session.

    ``window_share`` is the context window as a share of the agent's small one; None where nothing is to be compacted.
    """

    name: str
    about: str
    invocations: tuple[Invocation, ...]
    window_share: float | None = None


def _command(text: str) -> Step:
    return (Action("command", text),)


def _start(*steps: Step, kind: InvocationKind = "start") -> Invocation:
    return Invocation(kind, steps, f"{PROMPT_MARK} print the numbers one after the other, please.")


def _count_up(calls: int, lines: int) -> tuple[Step, ...]:
    return tuple(_command(f"seq {number * lines + 1} {(number + 1) * lines}") for number in range(calls))


def _split(steps: tuple[Step, ...], turns: int) -> tuple[Invocation, ...]:
    """Spread steps over prompts."""
    size = -(-len(steps) // turns) or 1
    parts = [steps[start : start + size] for start in range(0, len(steps), size)]
    return tuple(_start(*part, kind="resume" if number else "start") for number, part in enumerate(parts))


def _mix(calls: int, lines: int, file: str) -> Iterator[Step]:
    """Yield steps whose results have many sizes: one to three calls each, and a file now and then."""
    draw, line = random.Random(calls), 1
    while calls > 0:
        step: list[Action] = []
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            count = int(lines * draw.choice((0.02, 0.2, 0.6, 1, 1.6)))
            step.append(Action("command", f"seq {line} {line + count}"))
            line += count
        if draw.random() < 0.2:
            step.append(Action("read", file))
        calls -= 1
        yield tuple(step)


def build_scenarios(calls_to_compact: int, lines: int, turns: int = 1, file: str = "numbers.txt") -> Iterator[Scenario]:
    """Yield the scenarios.

    Args:
        calls_to_compact: calls of the scenario that compacts.
        lines: lines that each of these calls prints.
        turns: prompts that these calls are spread over.
        file: path of a file of the project to read.
    """
    yield Scenario("plain", "calls one after the other", (_start(*_count_up(3, 40), (Action("read", file),)),))
    pair = (Action("command", "seq 1 30"), Action("command", "seq 31 60"))
    triple = (*pair, Action("read", file))
    yield Scenario("parallel", "several calls in a reply", (_start(pair, _command("seq 1 5"), triple),))
    yield Scenario("error", "a call that fails", (_start(_command("echo no >&2; exit 3"), _command("seq 1 9")),))
    yield Scenario("long", "a result that is too long", (_start(_command("seq 1 40000"), _command("seq 1 9")),))
    subtask = (Action("delegate", f"{SUBTASK_MARK} print the numbers from 1 to 20."),)
    yield Scenario("subagent", "a sub-agent", (_start(_command("seq 1 9"), subtask, _command("sleep 2; seq 10 19")),))
    yield Scenario("compact", "two compactions", _split(_count_up(calls_to_compact, lines), turns), window_share=1)
    mixed = tuple(_mix(calls_to_compact, lines, file))
    yield Scenario("mixed", "compactions of results of many sizes", _split(mixed, turns), window_share=1.2)
    more = _start(*_count_up(2, 80), kind="resume")
    yield Scenario("resume", "a resumed session", (_start(*_count_up(3, 500)), more))
    twice = (_start(*_count_up(3, 500)), _start(*_count_up(3, 500), kind="resume"))
    yield Scenario("manual", "a compaction by hand", (*twice, Invocation("compact"), more))
    yield Scenario("clear", "an empty context", (twice[0], _start(*_count_up(2, 80), kind="clear")))
    rewind = _start(*_count_up(2, 90), kind="rewind")
    yield Scenario("rewind", "a prompt taken back", (twice[0], more, rewind))
