"""``context-tui tune``: recommend settings for each agent's own policy, based on the agent's sessions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from context_tui.batch.workers import SweepSource, analyze_sources, find_sources, measure_extra_calls
from context_tui.cli.options import CommandParser, build_study_settings, list_policies, resolve_policy
from context_tui.cli.output import print_lines, print_notice, print_table, write_json
from context_tui.cli.sweep import format_setting, report_unread, run_sweep
from context_tui.errors import ExitCode, UnreadableSession
from context_tui.formats.base import scan
from context_tui.formats.opening import make_scanner
from context_tui.lab.aftermath.report import ExtraCalls
from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT
from context_tui.lab.study import COMMAND_HANDLING_TEXTS
from context_tui.lab.sweep.grids import SweepSetting, build_grid, build_setting, merge_grids, propose_grid
from context_tui.lab.sweep.recommendation import (
    Recommendation,
    build_recommendation_report,
    format_recommendation,
    list_configurable_parameters,
    recommend_setting,
)
from context_tui.lab.sweep.results import Sweep, UnreadSession
from context_tui.lab.sweep.rows import build_row_report
from context_tui.lab.sweep.session_sweep import SweepOptions
from context_tui.policies.agent_settings import build_agent_settings, format_setting_lines
from context_tui.policies.base import Params, Policy
from context_tui.policies.command.policy import PolicyCommand
from context_tui.policies.parameter_space import build_params, list_parameters_in_context
from context_tui.policies.registry import POLICIES
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.policies.versions import list_own_policies
from context_tui.session.session import Session
from context_tui.session.window import Window
from context_tui.text.numbers import format_count, format_saving

MAX_SETTINGS_SHOWN = 30


class Tuning(NamedTuple):
    """The sweep of one policy over one agent's sessions, the recommended setting, and the context window.

    ``windows`` and ``left_out`` count the sessions by the size of their window: the included ones, and those for which
    the setting would have another effect. ``extra_calls`` are the calls that the agent needed after recorded
    compactions; None if they cannot be measured.
    """

    agent: str
    sweep: Sweep
    recommendation: Recommendation
    window: Window
    windows: Mapping[int, int]
    left_out: Mapping[int, int]
    extra_calls: ExtraCalls | None = None


def run(arguments: Sequence[str]) -> int:
    """Recommend settings for the policies of the agents that recorded the sessions, and return the exit code."""
    options = CommandParser("tune").parse(arguments)
    sweep_options = SweepOptions(**vars(build_study_settings(options)), window=options.window)
    policies = list_policies(options)
    tunings, reasons, unread = collect_tunings(
        options.sessions, sweep_options, policies, policy_files=options.policy_file, jobs=options.jobs
    )
    if options.json:
        reports = [
            build_recommendation_report(each.recommendation, format_agent_configuration(each))
            | {
                "agent": each.agent,
                "windows": [
                    {"tokens": size, "sessions": count, "included": is_included}
                    for is_included, counts in ((True, each.windows), (False, each.left_out))
                    for size, count in counts.items()
                ],
                "extra_calls": each.extra_calls._asdict() if each.extra_calls else None,
                "rows": [build_row_report(row) for row in each.sweep.sorted_rows],
            }
            for each in tunings
        ]
        first = reports[0] if reports else {"recommendation": None, "evidence": None, "rows": []}
        failures = [row._asdict() for row in [*unread, *(row for each in tunings for row in each.sweep.unread)]]
        document = {"schema": "context-tui.tune/1", **first, "others": reports[1:]}
        write_json(document | {"notes": reasons, "unread": failures})
    else:
        for tuning in tunings:
            _print_tuning(tuning)
        for reason in reasons:
            print_notice(reason)
        handling = f"recorded compactions {COMMAND_HANDLING_TEXTS[sweep_options.recorded]}"
        print_lines(*((handling, *REPLAY_LIMITS_TEXT) if tunings else ()))
    is_answered = any(each.recommendation.verdict in ("recommended", "no better") for each in tunings)
    return ExitCode.DONE if is_answered else ExitCode.NO_EVIDENCE


def collect_tunings(
    specs: Sequence[str],
    sweep_options: SweepOptions,
    policies: Sequence[tuple[str, Sequence[str]]] = (),
    *,
    policy_files: Sequence[Path | PolicyCommand] = (),
    jobs: int | None = None,
) -> tuple[list[Tuning], list[str], list[UnreadSession]]:
    """Tune *policies* with their grids, or by default the agents' own policies, over the sessions that *specs* name.

    Returns:
        The tunings, the reasons why tunings are missing, and the sessions that could not be read.

    Raises:
        UnreadableSession: there is no session.
    """
    sources, unread, _ = find_sources(specs)
    report_unread(unread)
    if not sources:
        raise UnreadableSession("there is no session to learn from; `context-tui formats` lists the readable formats")
    tunings, reasons = list[Tuning](), list[str]()
    for agent, policy, grid, agent_sources in _group_sources(sources, policies, reasons):
        run_settings = partial(run_sweep, by="money", policy_files=policy_files, jobs=jobs)
        tuning = _tune(agent, policy, grid, agent_sources, sweep_options, run_settings)
        if isinstance(tuning, str):
            reasons.append(tuning)
        else:
            tunings.append(tuning)
    return tunings, reasons, unread


def _group_sources(
    sources: Sequence[SweepSource], policies: Sequence[tuple[str, Sequence[str]]], reasons: list[str]
) -> list[tuple[str, Policy, Sequence[str], list[SweepSource]]]:
    """Return (agent, policy, grid, sessions) for each agent's own policy or, if there are any, each of *policies*."""
    if policies:
        return [("", resolve_policy(name)[0], texts, list(sources)) for name, texts in policies]
    groups, unknown = defaultdict[str, list[SweepSource]](list), Counter[str]()
    for source in sources:
        own_policy = list_own_policies(source.info.format).get("full", "")
        if own_policy in POLICIES:
            groups[own_policy].append(source)
        else:
            unknown[source.info.format] += 1
    for agent, count in unknown.items():
        sessions = format_count(count, "session")
        reasons.append(f"{agent}: no policy of its own is known ({sessions}); name one with -P")
    return [(group[0].info.format, POLICIES[name], (), group) for name, group in groups.items()]


def _tune(
    agent: str,
    policy: Policy,
    grid: Sequence[str],
    sources: Sequence[SweepSource],
    sweep_options: SweepOptions,
    run_settings: Callable[..., Sweep],
) -> Tuning | str:
    default_params, groups = build_params(policy, {}), _group_by_window(sources, sweep_options.window)
    native = [build_agent_settings(policy.name, default_params, Window(size, "given")) for size in groups]
    windows, left_out = {size: len(group) for size, group in groups.items()}, dict[int, int]()
    if any(each != native[0] for each in native):
        (size, sources), *_ = groups.items()
        left_out, windows = windows, {size: windows.pop(size)}
    session = _open_largest(sources)
    if session is None:
        return f"{policy.name}: none of {format_count(len(sources), 'session')} can be read"
    session = session.with_window(sweep_options.window)
    names = {parameter.name for parameter in list_configurable_parameters(policy, session.window)}
    if not names and not grid:
        return f"{policy.name}: no agent setting is known for it; name it with -P, and values with -p KEY=VALUES"
    settings = [build_setting(policy, default_params)]
    settings += build_grid(policy, grid or _propose_values(policy, default_params, names, session))
    sweep = run_settings(sources, merge_grids([settings]), sweep_options)
    if not grid and sweep.rows:  # the best value may be the last one that was proposed
        best = recommend_setting(sweep).setting
        more_settings = build_grid(policy, _propose_values(policy, best.params, names, session))
        if new_settings := [each for each in more_settings if each.name not in sweep.totals]:
            center = best.name.partition(" ")[2] or "the defaults"
            more = run_settings(sources, new_settings, sweep_options, purpose=f"refining around {center}: ")
            settings = merge_grids([sweep.settings, new_settings])
            sweep = replace(sweep, settings=settings, rows=[*sweep.rows, *more.rows])
    report_unread(sweep.unread)
    if not sweep.rows:
        return f"{policy.name}: none of {format_count(len(sources), 'session')} could be replayed"
    extra_calls = measure_extra_calls(sources)
    rates = extra_calls.rates if extra_calls else ()
    return Tuning(agent, sweep, recommend_setting(sweep, rates), session.window, windows, left_out, extra_calls)


def _group_by_window(sources: Sequence[SweepSource], window: int | None) -> dict[int, list[SweepSource]]:
    """Return the sessions by the size of the model's window, the most common size first and with the unread ones."""
    if window:
        return {window: [*sources]}
    analyses, _ = analyze_sources(sources, lambda session: session.window.model_tokens)
    sizes = {each.name: each.value for each in analyses}
    counts = Counter(sizes.values()).most_common() or [(0, 0)]
    return {size: [each for each in sources if sizes.get(each.name, counts[0][0]) == size] for size, _ in counts}


def _open_largest(sources: Sequence[SweepSource]) -> Session | None:
    """Return the largest readable session, whose context decides the range of values, or None if none is readable."""
    for source in sorted(sources, key=lambda source: -source.file_size):
        try:
            return scan(make_scanner(source.info))
        except Exception:  # reported by the sweep
            continue
    return None


def _propose_values(policy: Policy, params: Params, names: Container[str], session: Session) -> list[str]:
    context = session.context_at(len(session))
    state = build_runtime_state(context, session.window, len(session))
    parameters = [each for each in list_parameters_in_context(policy, params, context, state) if each.name in names]
    return propose_grid(policy, params, parameters).split()


def format_agent_configuration(tuning: Tuning) -> list[str]:
    """Return the lines of the agent's own configuration for the recommended setting."""
    setting = tuning.recommendation.setting
    return format_setting_lines(build_agent_settings(setting.policy.name, setting.params, tuning.window))


def format_windows(tuning: Tuning) -> str:
    """Format the context windows of the sessions, those that are left out and the reason."""
    included, left_out = (
        " and ".join(f"{size:,} tokens ({format_count(count, 'session')})" for size, count in counts.items())
        for counts in (tuning.windows, tuning.left_out)
    )
    text = f"Context window: {included}."
    reason = "a setting means another threshold there; name their files to tune for them"
    return f"{text} Left out: {left_out}, as {reason}." if left_out else text


def _print_tuning(tuning: Tuning) -> None:
    recommendation, sweep = tuning.recommendation, tuning.sweep
    sessions = format_count(len(sweep.rows_by_session), "session")
    agent = f"{tuning.agent}: " if tuning.agent else ""
    policy = recommendation.setting.policy.name
    print_lines(f"{agent}{policy}, {format_count(len(sweep.settings), 'setting')} over {sessions}")
    print_lines(*(f"  {sentence}" for sentence in (*format_recommendation(recommendation), format_windows(tuning))))
    if tuning.extra_calls is not None:
        print_lines(f"  Extra calls after recorded compactions: {tuning.extra_calls.sentence}")
    if recommendation.verdict in ("recommended", "too little evidence", "depends on extra calls"):
        print_lines("  To set it:", *(f"    {line}" for line in format_agent_configuration(tuning)))
    if recommendation.verdict not in ("never fires", "no price"):
        _print_settings(sweep)
    print_lines("")


def _print_settings(sweep: Sweep) -> None:
    current = sweep.totals[sweep.current]
    values = {each.name: sweep.find_param_values(each) for each in sweep.settings if each.name in sweep.totals}

    def build_row(setting: SweepSetting) -> list[object]:
        totals = sweep.totals[setting.name]
        saving = "no price"
        if setting.name == sweep.current:  # the values of the version that recorded, or today's
            saving = "today" if values[setting.name] == setting.param_values else "as recorded"
        elif totals.cost and current.cost:
            saving = format_saving(current.cost.total - totals.cost.total, sweep.cost_unit)
        name = format_setting(sweep, setting.name).removesuffix(" (default)")
        return [name, saving, totals.regret_tokens, totals.firings, totals.fired_in, totals.peak]

    heads = ("setting", f"change ({sweep.cost_unit})", "needed later", "firings", "in", "peak")
    own = values[sweep.current]
    settings = [each for each in sweep.settings if each.name == sweep.current or values.get(each.name, own) != own]
    settings.sort(key=lambda each: [value for value in values[each.name].values() if isinstance(value, int | float)])
    print_table("", heads, [build_row(setting) for setting in settings], MAX_SETTINGS_SHOWN)
