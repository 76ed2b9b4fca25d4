"""What a replay tells in words, on the command line and on screen."""

from __future__ import annotations

from typing import Any

from context_tui.lab.replay.result import Firing, NearestMiss, Replay
from context_tui.policies.base import Params
from context_tui.policies.parameters import format_assignments

REPLAY_LIMITS_TEXT = (
    "A replay shows what would have been dropped, and whether the recorded run used it later; it does not show what an",
    "agent with that context would have done. Re-fetches are a lower bound: the recorded agent still had the content.",
)


def format_replay_label(made: Replay) -> str:
    """A policy with the parameters that are not its defaults."""
    return format_policy_label(made.policy, made.params)


def format_policy_label(policy: str, params: Params) -> str:
    """The same of a policy that was not replayed yet."""
    return " ".join([policy, *format_assignments(find_changed_params(params))])


def find_changed_params(params: Params) -> dict[str, Any]:
    """The parameters that are not the defaults, JSON-ready."""
    values, defaults = params.model_dump(mode="json"), type(params)().model_dump(mode="json")
    return {name: value for name, value in values.items() if value != defaults.get(name)}


def format_never_fired(missed: NearestMiss | None) -> str:
    """That a policy fires nowhere, and why."""
    if missed is None:
        return "never fires; its runtime never looks"
    nearest = "" if missed.message is None else f" nearest before #{missed.message:,}:"
    return f"never fires;{nearest} {missed.reason}"


def format_firing(firing: Firing, with_policy: bool = False) -> str:
    """What a firing did, in words, and by which policy where that is asked for."""
    parts = [
        (firing.cleared, "cleared"),
        (firing.truncated, "truncated"),
        (firing.dropped, "dropped"),
        (firing.summarised, "summarised"),
    ]
    words = ", ".join(f"{count:,} {done}" for count, done in parts if count)
    return f"{words} ({firing.policy})" if with_policy else words
