"""What all replays of a comparison are made with, as settings below those of the policy: ``--recorded``, ``--delay``,
``--summary-tokens``, ``--shares-prefix`` and ``--cache`` of the command line. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from context_tui.lab.replay.recording import Recording
from context_tui.lab.study import StudySettings
from context_tui.policies.parameters import Parameter
from context_tui.policies.scales import build_scale

COMMON_OWNER = "every replay here"
"""The heading of these settings; no policy can have such a name."""
MAX_DELAY_CALLS, MAX_SUMMARY_TOKENS = 1_000, 100_000_000
"""The longest delay, and the largest summary, that can be set here."""
USUAL_DELAY_CALLS, USUAL_SUMMARY_TOKENS = 20, 20_000
"""What the sliders reach to, where nothing larger is set."""

_DEFAULT_SETTINGS = StudySettings()
_RECORDED, _DELAY, _SUMMARY_TOKENS, _SHARES_PREFIX, _CACHE_ANYWHERE = (
    f"{COMMON_OWNER}.{name}" for name in ("keep_recorded", "delay", "summary_tokens", "shares_prefix", "cache_anywhere")
)
_SETTINGS_FIELDS = {_DELAY: "delay", _SUMMARY_TOKENS: "summary_tokens", _SHARES_PREFIX: "shares_prefix"}


def build_common_controls(settings: StudySettings, recording: Recording | None, *, has_compactions: bool) -> list[Parameter]:
    """What can be set.

    Args:
        recording: what all replays share; None until it is known.
        compacted: whether the recording holds compactions that can be undone.
    """
    derived = recording.summary_tokens if recording else None
    largest = max(USUAL_SUMMARY_TOKENS, derived or 0, settings.summary_tokens or 0)
    recorded = Parameter(_RECORDED, "switch", "whether recorded compactions happen, or are undone", "", True)
    return [
        *([recorded] if has_compactions else []),
        Parameter(
            _DELAY,
            "number",
            "calls made while a summary is written in the background",
            "calls",
            _DEFAULT_SETTINGS.delay,
            0,
            MAX_DELAY_CALLS,
            scale=build_scale(0, MAX_DELAY_CALLS, _DEFAULT_SETTINGS.delay, max(USUAL_DELAY_CALLS, settings.delay), "calls"),
        ),
        Parameter(
            _SUMMARY_TOKENS,
            "number",
            "size of a summary by bytes/4; not set: the median of the recorded ones, else 2,000",
            "tokens",
            None,
            1,
            MAX_SUMMARY_TOKENS,
            optional=True,
            scale=build_scale(1, MAX_SUMMARY_TOKENS, derived, largest, "tokens"),
            implied_value=derived,
        ),
        Parameter(_SHARES_PREFIX, "switch", "a summarizer reads the calls' own beginning from the prompt cache", "", False),
        Parameter(
            _CACHE_ANYWHERE,
            "switch",
            "of a changed prompt all before the change is read from the cache",
            "",
            False,
        ),
    ]


def get_common_values(settings: StudySettings) -> dict[str, Any]:
    """By name, what is set."""
    switches = {_RECORDED: settings.recorded == "keep", _CACHE_ANYWHERE: settings.reuse == "anywhere"}
    return {**switches, **{name: getattr(settings, key) for name, key in _SETTINGS_FIELDS.items()}}


def replace_common_value(settings: StudySettings, name: str, value: Any) -> StudySettings | None:
    """The same with another value; None where *name* is none of these settings."""
    if name == _RECORDED:
        return replace(settings, recorded="keep" if value else "ignore")
    if name == _CACHE_ANYWHERE:
        return replace(settings, reuse="anywhere" if value else "breakpoints")
    return replace(settings, **{_SETTINGS_FIELDS[name]: value}) if name in _SETTINGS_FIELDS else None
