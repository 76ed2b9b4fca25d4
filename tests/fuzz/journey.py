"""Everything that the program does with a file, from the list of its sessions to what is exported: results or errors
of our own, whatever stands in it."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import context_tui as ct
from context_tui.cli import compare as comparing
from context_tui.cli import inspect as inspecting
from context_tui.cli import plan as planning
from context_tui.cli import replay as replaying
from context_tui.cli.apply import build_report as apply_report
from context_tui.compaction.apply import apply
from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import Plan
from context_tui.export.files import export, list_writable_formats, suggest_path
from context_tui.export.report import LIMITS, Report, build_session_sections, list_own_policies
from context_tui.export.report_page import format_html, format_markdown
from context_tui.formats.base import scan
from context_tui.formats.claude_code.reader import ClaudeCodeScanner
from context_tui.lab.aftermath.measure import measure_aftermaths
from context_tui.lab.aftermath.report import (
    SessionAftermath,
    build_aftermath_report,
    estimate_extra_calls,
    group_aftermaths,
)
from context_tui.lab.replay.backtest import run_backtests
from context_tui.lab.study import Lab, StudySettings
from context_tui.lab.sweep.grids import build_grid
from context_tui.lab.sweep.recommendation import (
    build_recommendation_report,
    format_recommendation,
    recommend_setting,
)
from context_tui.lab.sweep.results import build_sweep_report
from context_tui.lab.sweep.session_sweep import SessionSweep, SweepOptions, sweep_settings
from context_tui.library.discovery import build_entries, find_title
from context_tui.policies.base import Params
from context_tui.policies.parameter_space import build_params
from context_tui.policies.planning import build_plan
from context_tui.policies.registry import POLICIES, PRESETS, list_policy_names
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.policies.trigger_points import find_firing_runs, find_first_firing
from context_tui.session.session import Session
from context_tui.summarizer.checks.instruction_survival import (
    check_instructions,
    follow_instructions,
    restore_instructions,
)
from context_tui.summarizer.comparison import compare_summarizers, parse_contender
from context_tui.summarizer.extract import build_extract
from context_tui.summarizer.plan_summary import prepare_summary
from context_tui.summarizer.secrets import mask_text
from context_tui.tokens.estimators import count_context_tokens
from context_tui.tokens.measures import TokenMeasure
from context_tui.tui.analysis import compute_runtime_sizes
from context_tui.tui.jump_points import find_jump_points, find_peak
from context_tui.tui.reader.document import DocumentSource, build_document, describe_request
from context_tui.tui.rendering.formatting import MessageReader
from context_tui.tui.search import find_matches
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import Location, TimelineRows
from context_tui.tui.timeline.turns import TurnSummaries
from tests.formats.histories import columns
from tests.fuzz.validity import invalid

P = ParamSpec("P")
T = TypeVar("T")
EAGER: dict[str, dict[str, Any]] = {
    "defect-microcompact": {"keep_recent_turns": 1, "min_clear_tokens": 0},
    "defect-compact": {"threshold": 1},
    "koda-microcompact": {"keep_recent": 0, "min_tokens": 0},
    "agent-sdk-prune": {"max_chars": 1, "preserve_tail": 0},
    "agent-sdk-compact": {"min_keep": 1},
    "manual": {},
    "chain": {"options": {"defect-microcompact": {"keep_recent_turns": 1}, "defect-compact": {"threshold": 1}}},
}
"""Parameters with which each policy does as much as it can."""
CURVES: dict[str, tuple[str, list[int]]] = {
    "defect-microcompact": ("keep_recent_turns", [1, 3]),
    "defect-compact": ("threshold", [1, 9_000]),
    "koda-microcompact": ("keep_recent", [0, 2]),
    "agent-sdk-prune": ("max_chars", [1, 700, 4_000]),
    "agent-sdk-compact": ("min_keep", [1, 4]),
}


class Broken(AssertionError):
    """Something that was read is not valid, or was said in a way that is none of ours."""


def attempt(do: Callable[P, T], *args: P.args, **more: P.kwargs) -> T | None:
    """What comes of it; None for an error of our own, which has to be short."""
    try:
        return do(*args, **more)
    except ct.Error as error:
        said = str(error)
        if not said or len(said) > 2_000:
            raise Broken(f"an error says {said[:200]!r}") from error
        return None


def travel(path: Path, seed: int) -> int:
    """Do everything with the file at *path*; returns how many sessions could be read.

    What takes long is done for some seeds only: every kind of it comes up often among a thousand.
    """
    dice = random.Random(f"journey {seed}")
    infos = attempt(ct.sessions_in, path) or []
    build_entries(infos)
    read = 0
    for info in infos[:2]:
        find_title(info)
        session = attempt(ct.open_session, f"{path}#{info.id}" if info.id else path)
        if session is None:
            continue
        read += 1
        if info.format == "koda":  # of a damaged database a row that was listed may not be found again
            attempt(_examine, session, dice, path.parent)
        else:
            _examine(session, dice, path.parent)
        if session.facts.prompts and session.info.format == "claude-code" and not info.id:
            requests = attempt(ct.open_session, f"{path}#requests")
            if requests is not None:
                _examine(requests, random.Random(f"requests {seed}"), path.parent)
    if dice.random() < 0.1:
        _among_others(path)
    return read


def _examine(session: Session, dice: random.Random, folder: Path) -> None:
    check(session)
    if session.info.format == "claude-code" and dice.random() < 0.3:
        _same_both_ways(session)
    look(session, dice)
    compact(session, dice, folder)
    tune(session, random.Random(f"tuning {dice.random()}"))
    weigh(session, random.Random(f"weighing {dice.random()}"))


def check(session: Session) -> None:
    """Raise Broken where a session is not valid."""
    if wrong := [*invalid(session)]:
        raise Broken("; ".join(wrong[:5]))


def _same_both_ways(session: Session) -> None:
    """The fast path through a Claude Code file gives what the thorough one does."""
    scanner = ClaudeCodeScanner(Path(session.info.path), session.info)
    scanner._fast_path = lambda scanner: lambda data, start: (start, 0)
    if columns(scan(scanner).facts) != columns(session.facts):
        raise Broken("the fast path gives other facts than the thorough one")


def _among_others(path: Path) -> None:
    """A folder with a bad file in it lists the good ones."""
    good = path.with_name("good.json")
    good.write_text('[{"role": "user", "content": "Hello."}]')
    try:
        if str(good) not in {info.path for info in ct.sessions_in(path.parent)}:
            raise Broken("a bad file hides a good one")
    finally:
        good.unlink()


def look(session: Session, dice: random.Random) -> None:
    """Everything that is shown of a session."""
    at = dice.choice([None, dice.randrange(len(session) + 1)])
    report = inspecting.build_report(session, at, timeline=True)
    json.dumps(report, allow_nan=False)
    if dice.random() < 0.1:
        with contextlib.redirect_stdout(io.StringIO()):
            inspecting.print_report(session, report)
        for measure in (TokenMeasure.CALIBRATED, TokenMeasure.EXACT):
            if ruled := attempt(inspecting.build_report, session, at, timeline=True, measure=measure):
                json.dumps(ruled, allow_nan=False)
    run = attempt(ct.replay.replay, session, "none")
    sizes = [usage.context for usage in session.facts.requests]
    if run and sizes and (len(run.calls), report["requests"]) != (len(sizes), len(sizes)):
        raise Broken("a replay and the report count other calls than are recorded")
    if run and all(sizes) and sizes and list(run.sizes) != sizes:
        raise Broken("a replay without a policy is not the recording")
    session.to_messages(at)
    rows, reader = TimelineRows(), MessageReader(session)
    rows.grow(session)
    marker, facts = RowMarker(session.context_at(at), None), session.facts
    turns = [TurnSummaries(rows, marker).get_summary(turn) for turn in range(len(rows.heads))]
    if [message for turn in turns for message in turn.messages] != [*range(len(session))]:
        raise Broken("turns do not hold every message once")
    for turn in turns:
        turn.format_summary()
    for row in {0, *(problem.raw for problem in facts.problems)}:
        if 0 <= row < len(facts.record_kind):
            session.content.raw(row)
    for message in range(len(session)) if dice.random() < 0.5 else ():
        blocks = session.content.blocks(message)
        for block in (-1, *facts.blocks_of(message)):
            location = Location(message, block)
            reader.format_preview(message, block)
            describe_request(session, location)
            for _ in build_document(DocumentSource(session, location, blocks, marker.find_mark(message, block))):
                pass
    if dice.random() < 0.2:
        for _ in find_matches(session, "a"):
            pass
        compute_runtime_sizes(session)
        find_peak(session)
    suggest_path(session, session.info.format)


def compact(session: Session, dice: random.Random, folder: Path) -> None:
    """Every policy's plan with what is said of it, carried out; and one of what they leave in one of the formats."""
    at = dice.choice([None, None, dice.randrange(len(session) + 1)])
    made: list[tuple[Plan | None, Session]] = [(None, session)]
    for name in (*list_policy_names(), dice.choice(PRESETS)):
        policy = POLICIES[name]
        params = build_params(policy, EAGER.get(name, {}) if dice.random() < 0.8 else {})
        plan = attempt(build_plan, session, policy, params, at=at, force=True)
        if plan is None:
            continue
        json.dumps(planning.build_report(plan, compute_next_request(plan)), allow_nan=False)
        if dice.random() < 0.1:
            _along(session, plan)
        summary = "What happened."
        if plan.needs_summary and dice.random() < 0.1:
            prepared = prepare_summary(plan, mask_secrets=dice.random() < 0.2)
            summary = build_extract(prepared.conversation, prepared.previous) or summary
            restored = restore_instructions(prepared.instructions, summary)
            assert check_instructions(prepared.instructions, restored).ok or not prepared.instructions
        after = attempt(apply, session, plan, summary)
        if after is not None and plan.has_changes:
            made.append((plan, after))
    plan, after = dice.choice(made)
    if plan is not None and dice.random() < 0.2:
        look(after, dice)
    if dice.random() < 0.6:
        _export(session, plan, after, dice.choice(list_writable_formats()), folder, dice)


def _along(session: Session, plan: Plan) -> None:
    """What a policy does along the whole session, and over the values of a parameter."""
    policy, context, params = POLICIES[plan.policy], plan.context, plan.params
    assert isinstance(params, Params)
    if policy.phases:
        find_jump_points(session, policy.name, [run[0].at for run in find_firing_runs(session, policy, params)])
        find_first_firing(session, policy, params)
    if policy.name in CURVES:
        state = build_runtime_state(context, session.window_at(context.at), len(session), None, True)
        policy.curve(context, params, state, *CURVES[policy.name])


def tune(session: Session, dice: random.Random) -> None:
    """Replays with prices and regret, a sweep, and a comparison of summaries."""
    if dice.random() < 0.4:
        lab = Lab(session)
        settings = StudySettings(
            recorded=dice.choice(["keep", "ignore"]),
            summary_tokens=dice.choice([None, 0, 900]),
            delay=dice.choice([0, 1, 2]),
            shares_prefix=dice.random() < 0.3,
            reuse=dice.choice(["breakpoints", "anywhere"]),
        )
        names = dice.sample([*list_policy_names(), *PRESETS], 3)
        policies = [(POLICIES[name], build_params(POLICIES[name], EAGER.get(name, {}))) for name in names]
        studies = [study for each in policies if (study := attempt(lab.run_study, *each, settings))]
        if studies:
            backtests = run_backtests(lab.recording)
            for followed in follow_instructions(session):
                assert all(trace.placed.message < len(session) for trace in followed.traces)
            measure_aftermaths(session)
            json.dumps(replaying.build_report(lab, studies, backtests), allow_nan=False)
            if dice.random() < 0.2:
                with contextlib.redirect_stdout(io.StringIO()):
                    replaying.print_report(lab, studies, backtests)
        for replay in [study.replay for study in studies]:
            if any(size < 0 for size in replay.sizes):
                raise Broken("a replay has sizes below nothing")
    if dice.random() < 0.1:
        name = dice.choice([*CURVES])
        key, values = CURVES[name]
        grids = {name: {key: values}, dice.choice(PRESETS): {}}
        if result := attempt(ct.sweep.sweep, [session], grids, how=SweepOptions(quick=dice.random() < 0.3)):
            json.dumps(build_sweep_report(result), allow_nan=False)
    if dice.random() < 0.1:
        policy = POLICIES[dice.choice(["defect-compact", "agent-sdk-compact", "claude-code-auto", "manual"])]
        params = build_params(policy, EAGER.get(policy.name, {}))
        comparison = attempt(
            compare_summarizers,
            session,
            lambda source, point: build_plan(source, policy, params, at=point, force=True),
            [parse_contender("extract"), parse_contender("extract,bytes=400")],
            rounds=dice.choice([1, 2, 3]),
            mask_secrets=dice.random() < 0.3,
        )
        if comparison:
            json.dumps(comparing.build_report(session, comparison), allow_nan=False)


def weigh(session: Session, dice: random.Random) -> None:
    """Many settings at once, the recommendation that comes of a sweep, and the reports for other people."""
    if dice.random() < 0.1:
        _sweep_at_once(session, dice)
    if dice.random() < 0.1:
        name = dice.choice([*CURVES])
        key, values = CURVES[name]
        if result := attempt(ct.sweep.sweep, [session], {name: {key: values}}, by="money"):
            recommendation = recommend_setting(result, dice.choice([(), (0.5, 2.0)]))
            format_recommendation(recommendation)
            json.dumps(build_recommendation_report(recommendation, []), allow_nan=False)
    if dice.random() < 0.1:
        lab = Lab(session)
        policies = [
            *list_own_policies(session),
            (POLICIES["openhands-masking"], build_params(POLICIES["openhands-masking"], {})),
        ]
        studies = [study for each in policies if (study := attempt(lab.run_study, *each, StudySettings()))]
        sections = build_session_sections(lab, studies, with_text=dice.random() < 0.5)
        report = Report("A session", [*sections, LIMITS]).mask(lambda text: mask_text(text)[0])
        for page in (format_html(report), format_markdown(report)):
            page.encode()
            if "\x1b" in page or "\0" in page:
                raise Broken("a report holds control characters")
    if dice.random() < 0.2:
        rows = [SessionAftermath("s", session.info.format, found) for found in measure_aftermaths(session)]
        json.dumps([build_aftermath_report(row) for row in rows], allow_nan=False)
        group_aftermaths(rows, lambda row: row.aftermath.kind)
        estimate_extra_calls(rows)


def _sweep_at_once(session: Session, dice: random.Random) -> None:
    """Clearing rules that are computed together give the rows that replays of each give."""
    options = SweepOptions(
        quick=True, recorded=dice.choice(["keep", "ignore"]), window=dice.choice([None, None, 900, 20_000])
    )
    policy = POLICIES["defect-microcompact"]
    grid = ["keep_recent_turns=1,2,4", "min_clear_tokens=0,9,100", "microcompact_ratio=0.01,0.3,0.9"]
    settings = build_grid(policy, grid)
    one = SessionSweep(session, "s", options)
    rows = attempt(lambda: [*sweep_settings(one, settings)])
    if rows and dice.random() < 0.5:
        for setting, row in dice.sample([*zip(settings, rows, strict=True)], 5):
            if one.replay_setting(setting) != row:
                raise Broken(f"{setting.name} has another row among many: {row}")


def _export(session: Session, plan: Plan | None, after: Session, to: str, folder: Path, dice: random.Random) -> None:
    out = folder / "out"
    out.unlink(missing_ok=True)
    result = attempt(export, after, out, to)
    if result is None:
        if out.exists():
            raise Broken("an export failed, and left a file")
        return
    if plan is not None:
        tokens = count_context_tokens(after.context_at())
        json.dumps(apply_report(session, plan, compute_next_request(plan), tokens, None, result), allow_nan=False)
    again = ct.open_session(out)
    check(again)
    again.to_messages()
    if dice.random() < 0.1:
        tune(again, dice)
