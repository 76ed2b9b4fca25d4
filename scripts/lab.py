"""Measure the tuning lab on real recordings: the accuracy of its numbers, and what policies would have saved and cost.

``python scripts/lab.py FOLDER`` prints the page, ``--write`` writes ``docs/lab.md`` and its pictures. The page
contains figures only, and no text of a recording.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from context_tui.errors import Error  # noqa: E402
from context_tui.formats.opening import open_session, sessions_in  # noqa: E402
from context_tui.lab.aftermath.measure import measure_aftermaths  # noqa: E402
from context_tui.lab.aftermath.report import SessionAftermath, estimate_extra_calls, group_aftermaths  # noqa: E402
from context_tui.lab.price.break_report import (  # noqa: E402
    SessionBreaks,
    compare_causes,
    format_costs,
    get_cause,
    group_cases,
    list_cases,
)
from context_tui.lab.price.breaks import find_cache_breaks  # noqa: E402
from context_tui.lab.price.pricing import price_replay  # noqa: E402
from context_tui.lab.replay.backtest import (  # noqa: E402
    BacktestResult,
    PolicyBacktest,
    backtest_policy,
    find_explaining_threshold,
    run_backtests,
)
from context_tui.lab.replay.recording import Recording  # noqa: E402
from context_tui.lab.study import Lab, StudySettings  # noqa: E402
from context_tui.policies.parameter_space import build_params  # noqa: E402
from context_tui.policies.registry import POLICIES  # noqa: E402
from context_tui.summarizer.checks.instruction_survival import (  # noqa: E402
    CompactionInstructions,
    InstructionSource,
    Outcome,
    follow_instructions,
)
from context_tui.text.numbers import format_cost, format_count, format_saved_share  # noqa: E402
from scripts.charts import Axis, Series, chart  # noqa: E402
from scripts.pages import build_page_parser, print_or_write_page  # noqa: E402

PAGE, PICTURES = ROOT / "docs" / "lab.md", ROOT / "docs" / "lab"
MIN_CALLS = 10
"""Minimum number of calls of a session for a replay."""
MIN_SAVING_DRAWN = -0.5
"""Minimum share of the cost saved by a policy in the picture: lower ones would leave no room for the others."""

COMPARED = (
    *("none", "defect", "koda", "agent-sdk", "claude-code-auto", "claude-code-micro", "anthropic-clear-tool-uses"),
    *("codex", "opencode-prune", "gemini-masking", "langchain-clear", "openhands-masking", "swe-agent-last-n"),
)
"""Policies to replay with their defaults."""
SWEPT = {
    "keep_recent_turns": (1, 2, 3, 5),
    "min_clear_tokens": (256, 512, 1_024, 4_096),
    "microcompact_ratio": (0.3, 0.45, 0.6, 0.75),
}
"""Settings of defect-microcompact to compare."""
UNDO_RECORDED = StudySettings(recorded="ignore")
"""Settings that undo the recorded compactions."""


class Named(NamedTuple):
    """Session in the lab, and its name on the page."""

    name: str
    lab: Lab


@dataclass(frozen=True)
class Totals:
    """Totals of a policy over all sessions: tokens without it and with it, and the content that it dropped.

    The costs are those of the ``priced`` sessions, whose models have prices in USD. ``cost_anywhere`` is the cost if
    changed prompts are read from the cache up to their first change.
    """

    name: str
    firings: int
    without: int
    tokens_sent: int
    overflows: int
    priced: int
    cost_without: float
    cost: float
    cost_anywhere: float
    dropped: int
    used_later: int
    tokens_dropped: int
    tokens_used_later: int

    @property
    def saved(self) -> float:
        """Share of all tokens that were not sent."""
        return 1 - self.tokens_sent / self.without if self.without else 0.0

    @property
    def cheaper(self) -> float:
        """Share of the cost that was saved."""
        return self._cheaper(self.cost)

    @property
    def cheaper_anywhere(self) -> float:
        """Share of the cost that was saved if changed prompts are read up to their first change."""
        return self._cheaper(self.cost_anywhere)

    def _cheaper(self, cost: float) -> float:
        return 1 - cost / self.cost_without if self.cost_without else 0.0

    @property
    def regret(self) -> float:
        """Share of the dropped tokens that were needed later."""
        return self.tokens_used_later / self.tokens_dropped if self.tokens_dropped else 0.0


def find_sessions(folder: Path) -> Iterator[Named]:
    """Yield the sessions below *folder* whose calls recorded their sizes, by file name."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        try:
            infos = sessions_in(path)
            for info in infos:
                lab = Lab(open_session(f"{path}#{info.id}" if info.id else path))
                if len(lab.recording.calls) >= MIN_CALLS and any(lab.recording.recorded_sizes):
                    name = path.relative_to(folder).as_posix()
                    yield Named(f"{name}#{info.id}" if info.id else name, lab)
        except Error:
            continue


def measure_policy(labs: Sequence[Named], policy: str, label: str, **params: Any) -> Totals:
    """Run a policy with these parameters over all sessions, with recorded compactions undone."""
    policy_object = POLICIES[policy]
    values = build_params(policy_object, params)
    studies = [each.lab.run_study(policy_object, values, UNDO_RECORDED) for each in labs]
    pairs = zip(labs, studies, strict=True)
    priced_studies = [(session_lab, each) for session_lab, each in pairs if each.price.rate_table.unit == "USD"]
    return Totals(
        label,
        sum(len(each.replay.firings) for each in studies),
        sum(sum(each.replay.baseline) for each in studies),
        sum(each.replay.totals.sent for each in studies),
        sum(each.replay.totals.overflows for each in studies),
        len(priced_studies),
        sum(each.price.baseline_cost for _, each in priced_studies),
        sum(each.price.cost for _, each in priced_studies),
        sum(
            price_replay(each.replay, recorded=session_lab.lab.recorded_calls, reuse="anywhere").cost
            for session_lab, each in priced_studies
        ),
        sum(each.regret.dropped for each in studies),
        sum(each.regret.used_later for each in studies),
        sum(each.regret.tokens_dropped for each in studies),
        sum(each.regret.tokens_used_later for each in studies),
    )


def find_frontier(totals: Sequence[Totals]) -> list[Totals]:
    """Return the Pareto front of money and regret, the largest saving first."""
    ordered = sorted(totals, key=lambda each: (-each.cheaper, each.tokens_used_later))
    frontier: list[Totals] = []
    for each in ordered:
        if not frontier or each.tokens_used_later < frontier[-1].tokens_used_later:
            frontier.append(each)
    return frontier


# The page


def build_page(labs: Sequence[Named]) -> tuple[str, dict[str, str]]:
    """Build the page as Markdown, and its pictures by file name."""
    policies = [measure_policy(labs, name, name) for name in COMPARED if name in POLICIES]
    settings = [
        measure_policy(labs, "defect-microcompact", _format_setting(values), **dict(zip(SWEPT, values, strict=True)))
        for values in product(*SWEPT.values())
    ]
    parts = [
        _HEAD.format(files=len(labs), calls=sum(len(each.lab.recording.calls) for each in labs)),
        *_format_calibration(labs),
        *_format_backtest(labs),
        *_format_prices(labs),
        *_format_cache_breaks(labs),
        *_format_aftermaths(labs),
        *_format_instructions(labs),
        *_format_policies(policies),
        *_format_settings(settings),
    ]
    pictures = {
        "calibration.svg": _draw_calibration(labs),
        "policies.svg": _draw_policies(policies),
        "settings.svg": _draw_settings(settings),
    }
    return "\n".join(parts) + "\n", pictures


def _format_setting(values: Sequence[Any]) -> str:
    turns, tokens, ratio = values
    return f"{format_count(turns, 'turn')}, {tokens:,} tokens, {ratio:.0%}"


_HEAD = """\
# The tuning lab over real recordings

{files} recorded sessions with {calls:,} model calls. `make lab` computes this page; it contains no session text.

A replay shows what a policy would have dropped and whether the recorded run needed it later. It cannot show what an
agent with that context would have done: it would have made other decisions and fetched missing content again.
"""


def _list_tested_calibrations(labs: Sequence[Named]) -> list[tuple[str, Any]]:
    """Return the tested calibrations with the names of their sessions."""
    return [
        (each.name, calibration)
        for each in labs
        for calibration in each.lab.recording.table.calibrations
        if calibration.error
    ]


def _format_calibration(labs: Sequence[Named]) -> list[str]:
    tested = _list_tested_calibrations(labs)
    untested = sum(not each.error for session_lab in labs for each in session_lab.lab.recording.table.calibrations)
    calibrated, plain = (
        [_get_median(each, attribute) for _, each in tested] for attribute in ("error", "error_bytes4")
    )
    lines = [
        "## Calibration: computed sizes compared with recorded ones",
        "",
        "The tokens per byte of each kind of content are fitted on the first half of a model's requests. The error is",
        "measured on the second half, as a share of the recorded size.",
        "",
        "![Errors of calibrated sizes and of bytes / 4, session by session](lab/calibration.svg)",
        "",
        "| token measure | median of the sessions' medians | their 95th percentile |",
        "|---|--:|--:|",
        f"| calibrated | {median(calibrated):.1%} | {_compute_p95(calibrated):.1%} |",
        f"| bytes / 4 | {median(plain):.1%} | {_compute_p95(plain):.1%} |",
        "",
        f"{len(tested)} models of sessions were tested; {untested} have too few requests for a test.",
        "",
        "| session | requests | median error | 95 % | bytes / 4: median | 95 % | why it is not used |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for name, each in tested:
        errors = (each.error.median, each.error.p95, each.error_bytes4.median, each.error_bytes4.p95)
        errors_text = " | ".join(f"{error:.1%}" for error in errors)
        lines.append(f"| {name} | {each.requests} | {errors_text} | {each.reason} |")
    return [*lines, ""]


def _get_median(calibration: Any, attribute: str) -> float:
    return float(getattr(calibration, attribute).median)


def _compute_p95(values: Sequence[float]) -> float:
    return sorted(values)[min(int(0.95 * len(values)), len(values) - 1)]


def _draw_calibration(labs: Sequence[Named]) -> str:
    tested = _list_tested_calibrations(labs)
    shares = {
        "calibrated": sorted(_get_median(each, "error") for _, each in tested),
        "bytes / 4": sorted(_get_median(each, "error_bytes4") for _, each in tested),
    }
    series = [
        Series(name, [(at / max(len(values) - 1, 1), value) for at, value in enumerate(values)], line=True)
        for name, values in shares.items()
    ]
    high = max((value for values in shares.values() for value in values), default=0.1)
    x = Axis("sessions, best first", 0.0, 1.0, percent=True)
    return chart(
        "Median error of computed sizes", x, Axis("share of the recorded size", 0.0, high, percent=True), series
    )


def _format_backtest(labs: Sequence[Named]) -> list[str]:
    lines = [
        "## Back-test: each agent's own policy against its recorded compactions",
        "",
        "*Off by* is how many calls after the recorded compaction the policy fires, with the settings of the agent",
        "version named in the file; it is negative if the policy fires earlier. *Fitted* is the same with the",
        "threshold that explains most of the session's compactions; *threshold* is the range in which that threshold",
        "lies.",
        "",
        "*Next request* is the recorded size of the first request after a full compaction, and the error of its",
        "prediction from the context before it and the messages in the file after it.",
        "",
        "| session | message | kind | tokens before | off by (calls) | fitted (calls) | threshold (tokens) | why "
        "| next request (tokens) | predicted |",
        "|---|--:|---|--:|--:|--:|---|---|--:|--:|",
    ]
    hits = fits = testable = 0
    errors: list[float] = []
    every: dict[str, list[tuple[Recording, PolicyBacktest]]] = {}
    for session_lab in labs:
        for backtest in run_backtests(session_lab.lab.recording):
            if backtest.results[0].kind == "full":
                session = session_lab.lab.session
                agent = f"{session.info.format} with a window of {session.window.model_tokens:,}"
                every.setdefault(agent, []).append((session_lab.lab.recording, backtest))
            for each, fitted in zip(backtest.results, backtest.fitted_results or backtest.results, strict=True):
                testable += each.testable
                hits += each.is_hit
                fits += fitted.is_hit
                recorded = f"{each.recorded:,}" if each.recorded is not None else "unknown"
                off_by = _format_calls_off(each.off_by) if each.testable else "not testable"
                fitted_off_by = _format_calls_off(fitted.off_by) if fitted.testable else ""
                lines.append(
                    f"| {session_lab.name} | {each.message} | {each.kind} | {recorded} | {off_by} | {fitted_off_by} "
                    f"| {_format_range(backtest)} | {each.why} | {_format_after(each)} |"
                )
                if each.after_recorded and each.after_predicted:
                    errors.append(abs(each.after_predicted / each.after_recorded - 1))
    sentences = [
        f"{hits} of {testable} testable compactions are within one call of a firing of the policy with its own",
        f"threshold, and {fits} with the fitted one. A fitted threshold always explains a session's only compaction.",
        "",
        f"The next request after {len(errors)} full compactions is predicted with a median error of",
        f"{median(errors):.1%}; {sum(error <= 0.15 for error in errors)} predictions are within 15%, and the largest",
        f"error is {max(errors):.1%}.",
        "",
        "Codex counts the encrypted reasoning of ended turns again. If a file does not record this count, 1.3 tokens",
        "are added for each recorded reasoning token, which is the ratio in files that record both.",
        "",
    ]
    sentences += [*_format_unfitted(every.values()), ""]
    for name, backtests in every.items():
        if (best := find_explaining_threshold(_chain_results(backtests))) is not None:
            sentences.append(
                f"- {name}: a single threshold, above {best.above:,} and up to {best.most:,}, explains "
                f"{best.explains} of {best.of} full compactions."
            )
    return [*lines, "", *sentences, ""]


def _format_unfitted(groups: Collection[Sequence[tuple[Recording, PolicyBacktest]]]) -> list[str]:
    results = [
        result
        for _, backtest in chain.from_iterable(groups)
        if not _has_derived_threshold(backtest)
        for result in backtest.results
    ]
    tried, hit = sum(each.testable for each in results), sum(each.is_hit for each in results)
    derived = [[each for each in group if _has_derived_threshold(each[1])] for group in groups]
    tried_by_others, hit_by_others, _ = _leave_one_file_out(derived)
    tried_blind, hit_blind, alone = _leave_one_file_out(groups)
    return [
        "**On files that nothing was fitted to.** Codex (90% of the window) and Claude Code from 2.1.21 on (the window",
        "less 33,000) have the thresholds that their developers publish; nothing was fitted to files there, and",
        f"{hit} of {tried} full compactions are within one call. The threshold of earlier versions of Claude Code was",
        "derived from these files, so the numbers above flatter it. With one file left out at a time, the threshold of",
        f"the others fires within one call of {hit_by_others} of {tried_by_others} compactions in that file. Together,",
        f"these are {hit + hit_by_others} of {tried + tried_by_others}. If nothing had been published, the threshold",
        "that explains most full compactions of an agent's other files with that window, in any version, would hit",
        f"{hit_blind} of {tried_blind}; for {alone} more there is no other file. No threshold was fitted to runs of",
        "the agents' own programs either: [`agents.md`](agents.md) says at which call each preset fires there, and how",
        "large the next request is.",
    ]


def _has_derived_threshold(backtest: PolicyBacktest) -> bool:
    """Return whether the threshold of the agent's version was derived from recordings, instead of being published."""
    return any(each.startswith("trigger_reserve=") for each in backtest.former_settings)


def _leave_one_file_out(every: Iterable[Sequence[tuple[Recording, PolicyBacktest]]]) -> tuple[int, int, int]:
    """Count the compactions that the threshold of an agent's other files is tried on, hits, and cannot be tried on."""
    tried = hit = alone = 0
    for backtests in every:
        for recording, backtest in backtests:
            count = sum(each.testable for each in backtest.results)
            best = find_explaining_threshold(_chain_results(each for each in backtests if each[0] is not recording))
            if best is None:
                alone += count
                continue
            tried += count
            policy = POLICIES[backtest.policy]
            hit += sum(each.is_hit for each in backtest_policy(recording, policy, backtest.cases, best.most))
    return tried, hit, alone


def _chain_results(backtests: Iterable[tuple[Recording, PolicyBacktest]]) -> list[BacktestResult]:
    return [result for _, backtest in backtests for result in backtest.results]


def _format_calls_off(off_by: int | None) -> str:
    return "–" if off_by is None else str(off_by)


def _format_after(result: BacktestResult) -> str:
    if result.after_recorded is None or result.after_predicted is None:
        return " | "
    return f"{result.after_recorded:,} | {result.after_predicted / result.after_recorded - 1:+.1%}"


def _format_range(backtest: PolicyBacktest) -> str:
    threshold = backtest.threshold
    return f"{threshold.above:,} to {threshold.most:,}" if threshold else ""


def _format_prices(labs: Sequence[Named]) -> list[str]:
    models = [(each.name, each.lab.price_model) for each in labs]
    read = [(name, model) for name, model in models if model.read_recorded]
    recorded = sum(model.read_recorded for _, model in read)
    predicted = sum(model.read_predicted for _, model in read)
    lines = [
        "## Prices: the model of the prompt cache compared with recorded cache reads",
        "",
        "Tokens that the recorded calls read from the cache. *Off, by calls* adds up the absolute errors of the calls.",
        "",
        "| session | recorded tokens | predicted tokens | off in total | off, by calls | calls not explained |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, model in read:
        lines.append(
            f"| {name} | {model.read_recorded:,} | {model.read_predicted:,} | {model.error:.2%} | {model.off:.2%} "
            f"| {len(model.unexplained)} |"
        )
    off = abs(predicted - recorded) / recorded if recorded else 0.0
    return [*lines, "", f"In total, {recorded:,} tokens were recorded and {predicted:,} predicted: {off:.2%} off.", ""]


def _format_cache_breaks(labs: Sequence[Named]) -> list[str]:
    sessions = [SessionBreaks(each.name, each.lab.session.info.format, "", each.lab.cache_history) for each in labs]
    groups = group_cases(list_cases(sessions), get_cause)
    pairs = [(each.lab.cache_history, find_cache_breaks(each.lab.session, use_reasons=False)) for each in labs]
    lines = [
        "## Cache breaks: why tokens that were in the prompt cache were paid again",
        "",
        "[`docs/cache.md`](cache.md) has the rules; `context-tui cache FOLDER --check` prints both tables.",
        "",
        "| cause | breaks | tokens paid again | cost above that of reading them |",
        "|---|--:|--:|--:|",
    ]
    lines += [f"| {each.name} | {each.breaks:,} | {each.tokens:,} | {format_costs(each.costs)} |" for each in groups]
    comparisons = compare_causes(pairs)
    total = sum(each.breaks for each in comparisons)
    right = sum(each.breaks for each in comparisons if each.recorded == each.inferred)
    if total:
        text = f"Of {total} causes that the provider recorded, {right} are inferred when its reasons are hidden:"
        lines += ["", text, "", "| recorded | inferred | breaks |", "|---|---|--:|"]
        lines += [f"| {each.recorded} | {each.inferred or 'no break'} | {each.breaks} |" for each in comparisons]
    return [*lines, ""]


def _format_instructions(labs: Sequence[Named]) -> list[str]:
    """Format what became of instructions by agent and source, with the sum over all recorded full compactions."""
    groups: dict[tuple[str, InstructionSource], list[CompactionInstructions]] = {}
    for each in labs:
        for compaction in follow_instructions(each.lab.session):
            for source in {trace.placed.source for trace in compaction.traces}:
                groups.setdefault((each.lab.session.info.format, source), []).append(compaction)
    if not groups:
        return []
    lines = [
        "## Instructions: what became of them",
        "",
        "[`docs/instructions.md`](instructions.md) has the rules. Sums over the recorded full compactions, in each of",
        "which an instruction counts once.",
        "",
        f"| agent | from | compactions | {' | '.join(outcome.value for outcome in Outcome)} | contradicted |",
        f"|---|---|--:|{'--:|' * len(Outcome)}--:|",
    ]
    for (agent, source), compactions in sorted(groups.items()):
        counts = [sum(each.count(outcome, source) for each in compactions) for outcome in Outcome]
        contradicted = sum(trace.placed.source is source for each in compactions for trace in each.contradictions)
        cells = " | ".join(map(str, [*counts, contradicted]))
        lines.append(f"| {agent} | {source.value} | {len(compactions)} | {cells} |")
    return [*lines, ""]


def _format_aftermaths(labs: Sequence[Named]) -> list[str]:
    rows = [
        SessionAftermath(each.name, each.lab.session.info.format, found)
        for each in labs
        for found in measure_aftermaths(each.lab.session)
    ]
    if not (overall := estimate_extra_calls(rows)):
        return []
    lines = [
        "## Aftermath: what followed recorded compactions",
        "",
        "[`docs/aftermath.md`](aftermath.md) defines the words. Means after the compactions (at matched points).",
        "",
        "| agent | compactions | calls to edit | read again | run again | failed again | corrections | extra calls |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for group in group_aftermaths(rows, lambda row: row.agent):
        matched = group.matched or (None,) * 6
        pairs = [(value, matched[n]) for n, value in enumerate(group.after) if n != 1]
        cells = " | ".join(
            " ".join(("?" if a is None else f"{a:.1f}", "" if b is None else f"({b:.1f})")).strip() for a, b in pairs
        )
        estimate = estimate_extra_calls([row for row in rows if row.agent == group.name])
        lines.append(
            f"| {group.name} | {group.compactions} | {cells} | {estimate.sentence if estimate else 'unknown'} |"
        )
    return [*lines, "", f"All together: {overall.sentence}.", ""]


_TOTALS_HEAD = (
    "| policy | firings | tokens sent | tokens compared with no policy | calls over the window | cost "
    "| cost compared with no policy | the same, read up to the change | blocks dropped | blocks needed later "
    "| tokens dropped | tokens needed later |"
)


def _format_policies(policies: Sequence[Totals]) -> list[str]:
    priced = policies[0].priced if policies else 0
    return [
        "## Policies at their defaults, in place of the recorded compactions",
        "",
        "[`docs/langchain.md`](langchain.md) holds LangChain's own middleware against the presets of it.",
        "Recorded compactions are undone: without a policy, contexts grow past their windows. Costs are those of",
        f"prompts and summaries at cache prices, for the {priced} sessions whose models have a price in USD. *Needed",
        "later* is the regret: dropped content that the recorded run fetched again or edited.",
        "",
        "Without automatic caching, a call whose prompt a policy changed is priced like recorded calls after a change:",
        "it reads the cache up to the end of the last call before the change, or if there is none, the system prompt,",
        "and writes the rest again. This is expensive for policies that change a little at every call. *Read up to the",
        "change* is the cost for a harness that sets a cache breakpoint before the content that it clears.",
        "",
        *_format_omissions(policies),
        "![Money saved against regret, by policy](lab/policies.svg)",
        "",
        _TOTALS_HEAD,
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(_format_totals(each) for each in policies),
        "",
    ]


def _format_settings(settings: Sequence[Totals]) -> list[str]:
    best = find_frontier(settings)
    default = next((each for each in settings if each.name == _format_setting((3, 512, 0.6))), None)
    lines = [
        f"## {len(settings)} settings of defect-microcompact",
        "",
        "A setting consists of the number of turns kept, the size above which a result is cleared, and the share of",
        "the window at which the policy fires. The table has the Pareto front of money and regret, and the default.",
        "",
        "![Money saved against regret, by setting](lab/settings.svg)",
        "",
        _TOTALS_HEAD,
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(_format_totals(each) for each in best),
    ]
    if default is not None:
        lines.append(_format_totals(default, "default: "))
    return [*lines, ""]


def _format_totals(totals: Totals, before: str = "") -> str:
    cells = (
        before + totals.name,
        f"{totals.firings:,}",
        f"{totals.tokens_sent:,}",
        format_saved_share(totals.saved, 1, digits=1),
        f"{totals.overflows:,}",
        format_cost(totals.cost, "USD"),
        format_saved_share(totals.cheaper, 1, "costs", digits=1),
        format_saved_share(totals.cheaper_anywhere, 1, "costs", digits=1),
        f"{totals.dropped:,}",
        f"{totals.used_later:,}",
        f"{totals.tokens_dropped:,}",
        f"{totals.tokens_used_later:,} ({totals.regret:.0%})",
    )
    return f"| {' | '.join(cells)} |"


def _draw_money_and_regret(title: str, series: Sequence[Series]) -> str:
    points = [point for each in series for point in each.points]
    low, high = min((x for x, _ in points), default=0.0), max((x for x, _ in points), default=0.1)
    x = Axis("share of the cost saved", min(low, 0.0), high * 1.05, percent=True)
    most = max((y for _, y in points), default=1.0) * 1.1 or 1.0
    return chart(title, x, Axis("dropped tokens that were needed later", 0.0, most), series)


def _format_omissions(policies: Sequence[Totals]) -> list[str]:
    """List the policies that are not in the picture."""
    names = [each.name for each in policies if each.cheaper < MIN_SAVING_DRAWN]
    return (
        [
            f"Left out of the picture: policies that cost over {1 - MIN_SAVING_DRAWN:.1f} times as much "
            f"({', '.join(names)}).",
            "",
        ]
        if names
        else []
    )


def _draw_policies(policies: Sequence[Totals]) -> str:
    selection = [each for each in policies if each.firings and each.cheaper >= MIN_SAVING_DRAWN]
    return _draw_money_and_regret(
        "Policies", [Series(each.name, [(each.cheaper, each.tokens_used_later)]) for each in selection]
    )


def _draw_settings(settings: Sequence[Totals]) -> str:
    every = Series("a setting", [(each.cheaper, each.tokens_used_later) for each in settings])
    best = Series(
        "on the Pareto front",
        sorted((each.cheaper, each.tokens_used_later) for each in find_frontier(settings)),
        line=True,
    )
    return _draw_money_and_regret("Settings of defect-microcompact", [every, best])


def main() -> int:
    options = build_page_parser(__doc__, PAGE, " and its pictures").parse_args()
    text, pictures = build_page(list(find_sessions(options.folder)))
    print_or_write_page(PAGE, text, options.write)
    if options.write:
        PICTURES.mkdir(exist_ok=True)
        for name, picture in pictures.items():
            (PICTURES / name).write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
