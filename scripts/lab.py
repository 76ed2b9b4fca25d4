"""The tuning lab over real recordings: how true its numbers are, and what policies would have saved and cost there.

``python scripts/lab.py FOLDER`` prints the page, ``--write`` puts it into ``docs/lab.md`` with its pictures. Figures
only: no text of a recording is in it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from context_tui.errors import Error  # noqa: E402
from context_tui.formats.opening import open_session, sessions_in  # noqa: E402
from context_tui.lab.price.pricing import price_replay  # noqa: E402
from context_tui.lab.replay.backtest import BacktestResult, PolicyBacktest, find_explaining_threshold, run_backtests  # noqa: E402  # noqa: E402
from context_tui.lab.study import Lab, StudySettings  # noqa: E402
from context_tui.policies.parameter_space import build_params  # noqa: E402
from context_tui.policies.registry import POLICIES  # noqa: E402
from scripts.charts import Axis, Series, chart  # noqa: E402

PAGE, PICTURES = ROOT / "docs" / "lab.md", ROOT / "docs" / "lab"
LEAST_CALLS = 10
"""Calls from which on there is something to replay."""
LEAST_DRAWN = -0.5
"""The least share of the cost that a policy saves for it to be in the picture: others would leave no room in it."""

COMPARED = (
    *("none", "defect", "koda", "agent-sdk", "claude-code-auto", "claude-code-micro", "anthropic-clear-tool-uses"),
    *("codex", "opencode-prune", "gemini-masking", "langchain-clear", "openhands-masking", "swe-agent-last-n"),
)
"""Policies that are replayed at their defaults."""
SWEPT = {
    "keep_recent_turns": (1, 2, 3, 5),
    "min_clear_tokens": (256, 512, 1_024, 4_096),
    "microcompact_ratio": (0.3, 0.45, 0.6, 0.75),
}
"""Settings of defect-microcompact that are replayed against each other."""
UNDONE = StudySettings(recorded="ignore")
"""Each policy in place of what the recorded agent did itself."""


class Named(NamedTuple):
    """A session in the lab, under the name that the page gives it."""

    name: str
    lab: Lab


@dataclass(frozen=True)
class Sums:
    """A policy over all sessions: tokens without it and with it, and what it dropped.

    The costs are of the ``priced`` sessions, those whose models have prices in USD. ``cost_anywhere`` is the cost if
    changed prompts were read from the cache up to their first change.
    """

    name: str
    firings: int
    without: int
    sent: int
    overflows: int
    priced: int
    cost_without: float
    cost: float
    cost_anywhere: float
    dropped: int
    used: int
    tokens_dropped: int
    tokens_used: int

    @property
    def saved(self) -> float:
        """The share of all tokens that were not sent."""
        return 1 - self.sent / self.without if self.without else 0.0

    @property
    def cheaper(self) -> float:
        """The share of the cost that was saved."""
        return self._cheaper(self.cost)

    @property
    def cheaper_anywhere(self) -> float:
        """The same where changed prompts are read up to their first change."""
        return self._cheaper(self.cost_anywhere)

    def _cheaper(self, cost: float) -> float:
        return 1 - cost / self.cost_without if self.cost_without else 0.0

    @property
    def regret(self) -> float:
        """The share of the dropped tokens that were used later."""
        return self.tokens_used / self.tokens_dropped if self.tokens_dropped else 0.0


def sessions(folder: Path) -> Iterator[Named]:
    """Every session below *folder* whose calls recorded their sizes, by name of the file."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        try:
            infos = sessions_in(path)
            for info in infos:
                lab = Lab(open_session(f"{path}#{info.id}" if info.id else path))
                if len(lab.recording.calls) >= LEAST_CALLS and any(lab.recording.recorded_sizes):
                    name = path.relative_to(folder).as_posix()
                    yield Named(f"{name}#{info.id}" if info.id else name, lab)
        except Error:
            continue


def measured(labs: Sequence[Named], policy: str, label: str, **given: Any) -> Sums:
    """A policy with these parameters over all sessions, with recorded compactions undone."""
    chosen = POLICIES[policy]
    params = build_params(chosen, given)
    found = [each.lab.run_study(chosen, params, UNDONE) for each in labs]
    priced = [(named, each) for named, each in zip(labs, found, strict=True) if each.price.rate_table.unit == "USD"]
    return Sums(
        label,
        sum(len(each.replay.firings) for each in found),
        sum(sum(each.replay.baseline) for each in found),
        sum(each.replay.totals.sent for each in found),
        sum(each.replay.totals.overflows for each in found),
        len(priced),
        sum(each.price.baseline_cost for _, each in priced),
        sum(each.price.cost for _, each in priced),
        sum(
            price_replay(each.replay, recorded=named.lab.recorded_calls, reuse="anywhere").cost
            for named, each in priced
        ),
        sum(each.regret.dropped for each in found),
        sum(each.regret.used_later for each in found),
        sum(each.regret.tokens_dropped for each in found),
        sum(each.regret.tokens_used_later for each in found),
    )


def frontier(sums: Sequence[Sums]) -> list[Sums]:
    """Those that no other beats in both money and regret, by what they save."""
    ordered = sorted(sums, key=lambda each: (-each.cheaper, each.tokens_used))
    found: list[Sums] = []
    for each in ordered:
        if not found or each.tokens_used < found[-1].tokens_used:
            found.append(each)
    return found


# The page


def page(labs: Sequence[Named]) -> tuple[str, dict[str, str]]:
    """The page as Markdown, and its pictures by file name."""
    policies = [measured(labs, name, name) for name in COMPARED if name in POLICIES]
    settings = [
        measured(labs, "defect-microcompact", _setting(values), **dict(zip(SWEPT, values, strict=True)))
        for values in product(*SWEPT.values())
    ]
    parts = [
        _HEAD.format(files=len(labs), calls=sum(len(each.lab.recording.calls) for each in labs)),
        *_calibration(labs),
        *_backtest(labs),
        *_prices(labs),
        *_policies(policies),
        *_settings(settings),
    ]
    pictures = {
        "calibration.svg": _calibration_chart(labs),
        "policies.svg": _policies_chart(policies),
        "settings.svg": _settings_chart(settings),
    }
    return "\n".join(parts) + "\n", pictures


def _setting(values: Sequence[Any]) -> str:
    turns, tokens, ratio = values
    return f"{turns} turns, {tokens:,} tokens, {ratio:.0%}"


_HEAD = """\
# The tuning lab over real recordings

{files} recorded sessions with {calls:,} calls to a model, by `make lab`. Figures only; no text of a session is in it.

A replay shows what a policy would have dropped, and whether the recorded run used it later. It does not show what an
agent with that context would have done: it would have gone other ways, and fetched again what it missed.
"""


def _errors(labs: Sequence[Named]) -> list[tuple[str, Any]]:
    """The calibrations that have been tested, by session and model."""
    return [(each.name, found) for each in labs for found in each.lab.recording.calibrations if found.error]


def _calibration(labs: Sequence[Named]) -> list[str]:
    tested = _errors(labs)
    untested = sum(not each.error for named in labs for each in named.lab.recording.calibrations)
    ours, plain = ([_of(each, which) for _, each in tested] for which in ("error", "error_bytes4"))
    scaled = [scale.all for named in labs for scale in named.lab.recording.scales.values()]
    lines = [
        "## Calibration: how far sizes that are computed are from recorded ones",
        "",
        "Tokens per byte by kind of content, fitted on the first half of a model's requests; its error on the second",
        "half, which it was not fitted on, as a share of the recorded size.",
        "",
        "![Errors of calibrated sizes and of bytes / 4, session by session](lab/calibration.svg)",
        "",
        "| token measure | median of the sessions' medians | their 95th percentile |",
        "|---|--:|--:|",
        f"| calibrated | {median(ours):.1%} | {_p95(ours):.1%} |",
        f"| bytes / 4 | {median(plain):.1%} | {_p95(plain):.1%} |",
        "",
        f"{len(tested)} models of sessions were tested; {untested} have too few requests to be.",
        f"Of {len(scaled)}, the recorded prompts are smaller than what they hold by the factors: along a run these are",
        f"taken at {min(scaled, default=1):.0%} to {max(scaled, default=1):.0%}, and no more goes than was recorded.",
        "",
        "| session | requests | median error | 95 % | bytes / 4: median | 95 % | not usable, because |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for name, each in tested:
        errors = (each.error.median, each.error.p95, each.error_bytes4.median, each.error_bytes4.p95)
        told = " | ".join(f"{error:.1%}" for error in errors)
        lines.append(f"| {name} | {each.requests} | {told} | {each.reason} |")
    return [*lines, ""]


def _of(calibration: Any, which: str) -> float:
    return float(getattr(calibration, which).median)


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[min(int(0.95 * len(values)), len(values) - 1)]


def _calibration_chart(labs: Sequence[Named]) -> str:
    tested = _errors(labs)
    shares = {
        "calibrated": sorted(_of(each, "error") for _, each in tested),
        "bytes / 4": sorted(_of(each, "error_bytes4") for _, each in tested),
    }
    series = [
        Series(name, [(at / max(len(values) - 1, 1), value) for at, value in enumerate(values)], line=True)
        for name, values in shares.items()
    ]
    high = max((value for values in shares.values() for value in values), default=0.1)
    x = Axis("sessions, the best first", 0.0, 1.0, percent=True)
    return chart(
        "Median error of computed sizes", x, Axis("share of the recorded size", 0.0, high, percent=True), series
    )


def _backtest(labs: Sequence[Named]) -> list[str]:
    lines = [
        "## Back-test: the agent's own policy against the compactions that are recorded",
        "",
        "Off by: calls by which the policy fires earlier, as it was in the version that the file names; *fitted* is",
        "with the threshold that explains most of the session's compactions, which then lies within the interval.",
        "",
        "| session | message | kind | tokens then | off by | fitted | threshold | why |",
        "|---|--:|---|--:|--:|--:|---|---|",
    ]
    hits = fits = testable = 0
    every: dict[str, list[BacktestResult]] = {}
    for named in labs:
        for back in run_backtests(named.lab.recording):
            if back.results[0].kind == "full":
                session = named.lab.session
                whole = f"{session.info.format} with a window of {session.window.model_tokens:,}"
                every.setdefault(whole, []).extend(back.results)
            for each, fitted in zip(back.results, back.fitted_results or back.results, strict=True):
                testable += each.testable
                hits += each.is_hit
                fits += fitted.is_hit
                recorded = f"{each.recorded:,}" if each.recorded is not None else "unknown"
                off = _off(each.off_by, testable=each.testable), _off(fitted.off_by, testable=fitted.testable)
                span = _span(back)
                lines.append(
                    f"| {named.name} | {each.message} | {each.kind} | {recorded} | {off[0]} | {off[1]} | {span} "
                    f"| {each.why} |"
                )
    told = [
        f"{hits} of {testable} testable compactions came within one call of where the policy fires by its own",
        f"threshold, and {fits} of where it does by the fitted one, which always explains the only one of a session.",
        "Codex counts the encrypted reasoning of ended turns once more; where a file leaves that out, 1.3 tokens for a",
        "recorded one stand in its place: what it comes to in files that have both.",
    ]
    for name, tested in every.items():
        if (best := find_explaining_threshold(tested)) is not None:
            told.append(
                f"One threshold for all sessions of {name}, above {best.above:,} up to {best.most:,}, explains "
                f"{best.explains} of {best.of}."
            )
    return [*lines, "", *told, ""]


def _off(by: int | None, *, testable: bool) -> str:
    return "not testable" if not testable else "–" if by is None else str(by)


def _span(back: PolicyBacktest) -> str:
    best = back.threshold
    return f"{best.above:,} to {best.most:,}" if best else ""


def _prices(labs: Sequence[Named]) -> list[str]:
    models = [(each.name, each.lab.price_model) for each in labs]
    read = [(name, model) for name, model in models if model.read_recorded]
    recorded = sum(model.read_recorded for _, model in read)
    predicted = sum(model.read_predicted for _, model in read)
    lines = [
        "## Price: the model of the prompt cache against what was recorded",
        "",
        "Tokens that the unchanged calls read from the cache. Call by call: the sum of how far each call is off.",
        "",
        "| session | recorded | predicted | off | call by call | calls not explained |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, model in read:
        lines.append(
            f"| {name} | {model.read_recorded:,} | {model.read_predicted:,} | {model.error:.2%} | {model.off:.2%} "
            f"| {len(model.unexplained)} |"
        )
    off = abs(predicted - recorded) / recorded if recorded else 0.0
    return [*lines, "", f"In all {recorded:,} recorded and {predicted:,} predicted: {off:.2%} off.", ""]


_SUMS = (
    "| policy | firings | tokens sent | saved | calls over the window | cost | saved | saved, read up to the change "
    "| blocks dropped | used later | tokens dropped | used later |"
)


def _policies(policies: Sequence[Sums]) -> list[str]:
    priced = policies[0].priced if policies else 0
    return [
        "## Policies at their defaults, in place of what the recorded agents did",
        "",
        "Recorded compactions are undone; without a policy contexts then grow past their windows. Costs are of prompts",
        f"and summaries at cache prices, in USD, of the {priced} sessions whose models have a price. *Used later* is",
        "the regret: content that went and that the recorded run fetched again, edited or referred to.",
        "",
        "Where caches do not fill themselves, a call whose prompt a policy changed is priced as recorded calls did",
        "after a change: it reads up to the end of an earlier call before the change, else the system prompt, and",
        "writes the rest again. That is dear for policies that change a little at every call. *Read up to the change*",
        "is what a harness pays that sets a breakpoint of the cache before what it clears.",
        "",
        *_beyond(policies),
        "![Money saved against regret, by policy](lab/policies.svg)",
        "",
        _SUMS,
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(_sums_row(each) for each in policies),
        "",
    ]


def _settings(settings: Sequence[Sums]) -> list[str]:
    best = frontier(settings)
    default = next((each for each in settings if each.name == _setting((3, 512, 0.6))), None)
    lines = [
        f"## {len(settings)} settings of defect-microcompact",
        "",
        "Turns that are kept, tokens that a result must have to be cleared, and share of the window at which it acts.",
        "Listed are the settings that no other beats in both money and regret, and the default.",
        "",
        "![Money saved against regret, by setting](lab/settings.svg)",
        "",
        _SUMS,
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(_sums_row(each) for each in best),
    ]
    if default is not None:
        lines.append(_sums_row(default, "default: "))
    return [*lines, ""]


def _sums_row(sums: Sums, before: str = "") -> str:
    cells = (
        before + sums.name,
        f"{sums.firings:,}",
        f"{sums.sent:,}",
        f"{sums.saved:.1%}",
        f"{sums.overflows:,}",
        f"{sums.cost:,.2f}",
        f"{sums.cheaper:.1%}",
        f"{sums.cheaper_anywhere:.1%}",
        f"{sums.dropped:,}",
        f"{sums.used:,}",
        f"{sums.tokens_dropped:,}",
        f"{sums.tokens_used:,} ({sums.regret:.0%})",
    )
    return f"| {' | '.join(cells)} |"


def _money_and_regret(title: str, series: Sequence[Series]) -> str:
    points = [point for each in series for point in each.points]
    low, high = min((x for x, _ in points), default=0.0), max((x for x, _ in points), default=0.1)
    x = Axis("share of the cost that is saved", min(low, 0.0), high * 1.05, percent=True)
    most = max((y for _, y in points), default=1.0) * 1.1 or 1.0
    return chart(title, x, Axis("dropped tokens that were used later", 0.0, most), series)


def _beyond(policies: Sequence[Sums]) -> list[str]:
    """The policies that are not in the picture."""
    names = [each.name for each in policies if each.cheaper < LEAST_DRAWN]
    return (
        [f"Not in the picture, as they cost over {1 - LEAST_DRAWN:.1f} times as much: {', '.join(names)}.", ""]
        if names
        else []
    )


def _policies_chart(policies: Sequence[Sums]) -> str:
    shown = [each for each in policies if each.firings and each.cheaper >= LEAST_DRAWN]
    return _money_and_regret("Policies", [Series(each.name, [(each.cheaper, each.tokens_used)]) for each in shown])


def _settings_chart(settings: Sequence[Sums]) -> str:
    every = Series("a setting", [(each.cheaper, each.tokens_used) for each in settings])
    best = Series("beaten by none", sorted((each.cheaper, each.tokens_used) for each in frontier(settings)), line=True)
    return _money_and_regret("Settings of defect-microcompact", [every, best])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of recordings")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)} and its pictures")
    given = parser.parse_args()
    text, pictures = page(list(sessions(given.folder)))
    if not given.write:
        print(text)
        return 0
    PAGE.write_text(text, encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for name, drawn in pictures.items():
        (PICTURES / name).write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
