"""``context-tui sweep``: replay many settings along many sessions and find the Pareto front."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from context_tui.app.config import read_tables
from context_tui.batch import workers
from context_tui.batch.row_files import SweepFileError, SweepJournal, require_pyarrow, write_csv, write_parquet
from context_tui.batch.workers import SweepSource, SweepTask
from context_tui.cli.options import CommandParser, build_study_settings, list_policies, resolve_policy
from context_tui.cli.output import print_lines, print_notice, print_table, write_json
from context_tui.errors import Error, ExitCode, PlanError, UnreadableSession
from context_tui.lab.price.report import format_cache_reuse
from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT, find_changed_params
from context_tui.lab.study import COMMAND_HANDLING_TEXTS, HANDLING_TEXTS
from context_tui.lab.sweep.gate import (
    Gate,
    build_gate_report,
    check_limits,
    find_missing_evidence,
    list_worse_sessions,
    parse_gate,
)
from context_tui.lab.sweep.grids import SweepSetting, build_grid, build_setting, merge_grids
from context_tui.lab.sweep.results import Sweep, Totals, UnreadSession, build_sweep_report
from context_tui.lab.sweep.rows import SavingUnit, SweepRow
from context_tui.lab.sweep.session_sweep import SweepOptions
from context_tui.policies.parameter_space import build_params
from context_tui.policies.parameters import format_assignments
from context_tui.text.numbers import format_cost, format_count, format_saving

if TYPE_CHECKING:
    from distributed import Client

    from context_tui.lab.aftermath.report import ExtraCalls
    from context_tui.lab.sweep.recommendation import RankedAt
    from context_tui.policies.command.policy import PolicyCommand

MAX_ROWS_SHOWN = 30
MAX_DEFAULTS_SHOWN = 4
"""Maximum number of swept parameters for which a row of defaults shows the values."""
MAX_REPORTED = 5
"""Maximum number of sessions reported individually: unreadable ones, and those that exceed a limit of the gate."""
DASK_REMEDY = "--scheduler needs Dask; install it by `pip install 'context-tui[dask]'`, or leave the option out"


def run(arguments: Sequence[str]) -> int:
    """Sweep the settings over the sessions, print the result, and return the exit code."""
    options = _parse_options(arguments)
    if options.screen and not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise PlanError("--screen needs a terminal; leave it out for the table, or give --json")
    policies = list_policies(options)
    gate = _read_gate(options.gate) if options.gate else None
    settings = _build_settings(policies, gate, options.current)
    sweep_options = SweepOptions(**vars(build_study_settings(options)), window=options.window, quick=options.quick)
    sources, unread, other_files = workers.find_sources(options.sessions)
    _check_outputs(options, sources)
    if not sources:
        report_unread(unread)
        raise UnreadableSession("there is no session to sweep; `context-tui formats` lists the readable formats")
    journal = None
    if path := options.output:
        journal = SweepJournal(path, sweep_options, sources, resume=options.resume, force=options.force)
    sweep = run_sweep(
        sources,
        settings,
        sweep_options,
        by=options.by,
        journal=journal,
        policy_files=options.policy_file,
        jobs=options.jobs,
        scheduler=options.scheduler,
    )
    sweep = replace(sweep, unread=[*unread, *sweep.unread], other_files=other_files)
    report_unread(sweep.unread)
    if not sweep.rows:
        raise UnreadableSession("none of the sessions could be swept")
    if journal is not None:
        journal.write_sorted_rows(sweep.sorted_rows)
    if options.csv:
        write_csv(options.csv, sweep.sorted_rows)
    if options.parquet:
        write_parquet(options.parquet, sweep.sorted_rows)
    if options.screen:
        code = _open_screen(sweep, sources, options, arguments)
        return code or (_check_gate(gate, sweep, sweep_options) if gate else ExitCode.DONE)
    is_ranked = options.by == "money" and sweep.has_prices
    extra_calls, ranking = _rank_by_cost(sweep, sources) if is_ranked else (None, ())
    if options.json:
        calls_report = extra_calls._asdict() if extra_calls else None
        ranking_report = {"extra_calls": calls_report, "ranking": [each._asdict() for each in ranking]}
        gate_report = {"gate": build_gate_report(gate, sweep)} if gate else {}
        write_json(build_sweep_report(sweep) | {"cache": sweep_options.reuse} | ranking_report | gate_report)
    else:
        print_report(sweep)
        print_lines(f"recorded compactions {COMMAND_HANDLING_TEXTS[sweep_options.recorded]}")
        _print_ranking(sweep, extra_calls, ranking)
        if not sweep_options.quick:
            automatic = "; with automatic caching, up to the first change" if sweep_options.reuse != "anywhere" else ""
            print_lines(f"{format_cache_reuse(sweep_options.reuse)}{automatic}")
    return _check_gate(gate, sweep, sweep_options) if gate else ExitCode.DONE


def _rank_by_cost(sweep: Sweep, sources: Sequence[SweepSource]) -> tuple[ExtraCalls | None, Sequence[RankedAt]]:
    """Return the extra calls after recorded compactions, or None, and the best settings without and with such calls."""
    from context_tui.lab.sweep.recommendation import rank_settings  # loads numpy, which most commands do not need

    extra_calls = workers.measure_extra_calls(sources)
    return extra_calls, rank_settings(sweep, extra_calls.rates if extra_calls else ())


def _print_ranking(sweep: Sweep, extra_calls: ExtraCalls | None, ranking: Sequence[RankedAt]) -> None:
    if extra_calls is not None:
        print_lines(f"extra calls after recorded compactions: {extra_calls.sentence}")
    if ranking:
        print_lines("settings by cost, compared with the current one:")
    for each in ranking:
        print_lines(f"  {each.format(format_setting(sweep, each.setting), sweep.cost_unit)}")


def _parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser("sweep")
    options = parser.parse(arguments)
    if not options.policies and not options.policy_file and not options.gate:
        parser.error("no policy is named; give one with -P")
    if options.resume and not options.output:
        parser.error("--resume needs the file to continue; name it with -o")
    if options.screen and options.json:
        parser.error("--screen and --json exclude each other; give one of them")
    if options.resume and options.force:
        parser.error("--resume continues a file and --force replaces it; give one of them")
    return options


# Settings


def _build_settings(
    policies: Sequence[tuple[str, Sequence[str]]], gate: Gate | None, current: str | None = None
) -> list[SweepSetting]:
    """Build the settings of all grids, *current* first; a grid starts with its policy's defaults or saved settings."""
    grids = [[_parse_setting(current)]] if current else []
    grids += [[_parse_setting(gate.old_setting), _parse_setting(gate.new_setting)]] if gate else []
    for name, texts in policies:
        policy, saved_values = resolve_policy(name)
        start_setting = build_setting(policy, build_params(policy, saved_values))
        grids += [[start_setting], build_grid(policy, format_assignments(resolve_policy(name, texts)[1]))]
    return merge_grids(grids)


def _parse_setting(text: str) -> SweepSetting:
    try:
        name, *texts = shlex.split(text) or [""]
    except ValueError:
        raise PlanError(f"{text}: a quote is not closed") from None
    policy, values = resolve_policy(name, texts)
    return build_setting(policy, build_params(policy, values))


def _read_gate(path: Path) -> Gate:
    tables = read_tables(path)
    if not tables:
        raise PlanError(f"{path}: the file defines no gate; see docs/sweep.md")
    try:
        gate = parse_gate(tables)
        old, new = _parse_setting(gate.old_setting).name, _parse_setting(gate.new_setting).name
        return gate._replace(old_setting=old, new_setting=new)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def _check_outputs(options: argparse.Namespace, sources: Sequence[SweepSource]) -> None:
    input_paths = {os.path.realpath(source.info.path) for source in sources}
    for path in (options.output, options.csv, options.parquet):
        if path is None:
            continue
        if os.path.realpath(path) in input_paths or path.is_dir():
            raise PlanError(f"{path} is one of the sessions, or a folder; give the name of a new file")
        if path != options.output and path.exists() and not options.force and not options.resume:
            raise SweepFileError(f"{path} exists; give another name, or --force to replace it")
    if options.parquet:
        require_pyarrow()


# Execution


def run_sweep(
    sources: Sequence[SweepSource],
    settings: Sequence[SweepSetting],
    sweep_options: SweepOptions,
    *,
    by: SavingUnit,
    journal: SweepJournal | None = None,
    policy_files: Sequence[Path | PolicyCommand] = (),
    jobs: int | None = None,
    scheduler: str | None = None,
    purpose: str = "",
) -> Sweep:
    """Replay settings without rows in the journal, and return all results; the first setting is the current one.

    On an interrupt, the journal holds the finished rows. Progress messages begin with *purpose*.
    """
    known_rows = journal.rows if journal is not None else {}
    rows, unread, tasks = list[SweepRow](), list[UnreadSession](), list[SweepTask]()
    for source in sources:
        keys = [(source.name, each.name) for each in settings]
        missing_numbers = [number for number, key in enumerate(keys) if key not in known_rows]
        rows += [known_rows[key] for key in keys if key in known_rows]
        if missing_numbers:
            tasks.append(SweepTask(source, missing_numbers))
    if journal is not None and rows:
        valid = f"{format_count(len(rows), 'row')} of {journal.path} still valid"
        print_notice(f"{valid}; {format_count(len(tasks), 'session')} to do")
    work = workers.SweepWork.from_settings(settings, sweep_options, policy_files)
    progress = SweepProgress(len(tasks), len(settings), purpose)
    try:
        with _run_tasks(tasks, work, jobs, scheduler) as results, progress:
            for result in results:
                if result.failure_reason:
                    unread.append(UnreadSession(result.source.name, result.failure_reason))
                if journal is not None:
                    journal.append_rows(result.source, result.rows)
                rows += result.rows
                progress.step()
    except KeyboardInterrupt:
        if journal is not None:
            journal.close()
            count = f"{progress.done:,} of {format_count(len(tasks), 'session')}"
            print_notice(f"{count} done and saved; continue with -o {journal.path} --resume")
        raise
    order = {each.name: number for number, each in enumerate(settings)}
    rows.sort(key=lambda row: (row.session, order[row.setting]))  # makes sums of costs independent of the order of work
    return Sweep(settings, rows, unread, settings[0].name, by)


@contextmanager
def _run_tasks(
    tasks: Sequence[SweepTask], work: workers.SweepWork, jobs: int | None, scheduler: str | None
) -> Iterator[Iterator[workers.TaskResult]]:
    if not scheduler:
        with closing(workers.run_on_processes(tasks, work, jobs)) as results:
            yield results
        return
    with _connect_cluster(scheduler) as client, closing(workers.run_on_cluster(client, tasks, work)) as results:
        yield results


def _connect_cluster(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError:
        raise PlanError(DASK_REMEDY) from None
    try:
        return Client(address, timeout=10)
    except (OSError, ValueError) as error:
        reason = f"no Dask scheduler responds ({type(error).__name__})"
        raise Error(f"{address}: {reason}; check the address") from None


class SweepProgress:
    """Progress messages on stderr: one line that is updated on a terminal, or a few lines elsewhere."""

    def __init__(self, sessions: int, settings: int, purpose: str = "") -> None:
        self.done, self._total, self._settings, self._purpose = 0, sessions, settings, purpose
        self._is_live, self._started, self._reported_tenths = sys.stderr.isatty(), time.monotonic(), 0

    def __enter__(self) -> SweepProgress:
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self) -> None:
        """Count another finished session, and show the progress: on a terminal at once, else at each tenth."""
        self.done += 1
        self._draw()

    def _draw(self) -> None:
        sessions, settings = format_count(self._total, "session"), format_count(self._settings, "setting")
        text = f"{self._purpose}{self.done:,} of {sessions} done, with {settings} each"
        if self._is_live:
            remaining_s = (time.monotonic() - self._started) / self.done * (self._total - self.done) if self.done else 0
            text += f", about {remaining_s:,.0f} s remaining" if remaining_s >= 1 else ""
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        elif self._total and self.done * 10 // self._total > self._reported_tenths:
            self._reported_tenths = self.done * 10 // self._total
            print_notice(text)


def report_unread(unread: Sequence[UnreadSession]) -> None:
    """Print the first sessions that could not be read, each with the reason, and the number of further ones."""
    for each in unread[:MAX_REPORTED]:
        print_notice(f"{each.session}: {each.why}")
    if len(unread) > MAX_REPORTED:
        print_notice(f"{len(unread) - MAX_REPORTED:,} more could not be read; --json lists them")


def _check_gate(gate: Gate, sweep: Sweep, sweep_options: SweepOptions) -> int:
    print_notice(f"gate: recorded compactions {COMMAND_HANDLING_TEXTS[sweep_options.recorded]}")
    checks = check_limits(gate, sweep)
    if (coverage := sweep.format_coverage()) and {"cost", "min_break_even"} & {check.limit for check in checks}:
        print_notice(f"gate: {coverage}")
    violations = [check for check in checks if not check.kept]
    for violation in violations:
        print_notice(f"gate: {violation}")
        worse_sessions = [] if violation.session else list_worse_sessions(violation, gate, sweep)
        for each in worse_sessions[:MAX_REPORTED]:
            print_notice(f"gate:   {each}")
        if len(worse_sessions) > MAX_REPORTED:
            print_notice(f"gate:   {len(worse_sessions) - MAX_REPORTED:,} more")
    missing = find_missing_evidence(gate, sweep)
    for sentence in missing:
        print_notice(f"gate: too little evidence: {sentence}")
    verdict = "too little evidence to pass" if missing else "all limits are met"
    verdict = f"{format_count(len(violations), 'limit')} exceeded" if violations else verdict
    print_notice(f"gate: {gate.old_setting} to {gate.new_setting}: {verdict}")
    return ExitCode.FAILED if violations else ExitCode.NO_EVIDENCE if missing else ExitCode.DONE


# On screen


def _open_screen(
    sweep: Sweep, sources: Sequence[SweepSource], options: argparse.Namespace, arguments: Sequence[str]
) -> int:
    from context_tui.app.config import read_config
    from context_tui.tui.app import ContextTuiApp, SweepToOpen, run
    from context_tui.tui.options import InspectorOptions

    command = shlex.join(["context-tui", "sweep", *(each for each in arguments if each != "--screen")])
    infos = {source.name: source.info for source in sources}
    shown = InspectorOptions(window=options.window, ascii=options.ascii)
    opened = SweepToOpen(sweep, infos, command, HANDLING_TEXTS[options.recorded])
    app = ContextTuiApp([], shown, theme=options.theme, config=read_config(), sweep=opened)
    return run(app, mouse=not options.no_mouse)


# Text


def print_report(sweep: Sweep) -> None:
    """Print a sweep as text: a table of numbered settings, the best setting of each project, and remarks."""
    counts = format_count(len(sweep.settings), "setting"), format_count(len(sweep.rows_by_session), "session")
    unread = f"{format_count(len(sweep.unread), 'session')} could not be read" if sweep.unread else ""
    other = f"; {format_count(sweep.other_files, 'other file')} in their folders" if sweep.other_files else ""
    print_lines(f"{counts[0]} over {counts[1]}; {unread or 'all sessions were read'}{other}")
    order, points = sweep.dominance.frontier, sweep.dominance.points
    dominated = sorted((name for name in points if name not in sweep.best), key=lambda name: -points[name].saved)
    leading_names = [sweep.current, *([sweep.dominance.best] if sweep.dominance.best else [])]
    names = [name for name in dict.fromkeys([*leading_names, *order, *dominated]) if name in points]
    numbers = {name: number for number, name in enumerate(names, 1)}
    cost_heads = [f"change in cost ({sweep.cost_unit})", "to fetch again", "extra calls per 1,000"]
    cost_heads = cost_heads if sweep.has_prices else []
    regret_head = f"tokens {sweep.regret_name}"
    heads = ["", "#", "setting", "change in tokens", regret_head, "firings", "fires in", "peak", "calls over window"]
    print_table(
        "settings over all sessions, compared with no policy (* on the Pareto front, > current; sizes in tokens)",
        [*heads, *cost_heads, "largest session", "rank"],
        [_build_setting_row(sweep, sweep.totals[name], numbers) for name in names],
        MAX_ROWS_SHOWN,
    )
    if sweep.has_prices:
        print_lines(f"{sweep.format_coverage() or 'costs of all sessions'}, at cache prices")
    print_lines(*_format_standing(sweep))
    if sum(each.best is not None for each in sweep.dominance_by_project.values()) > 1:
        title = f"best in each project: saves most, with no more {sweep.regret_name} than with the current setting"
        rows = [
            (project, format_setting(sweep, each.best), _format_saved(sweep, each.points[each.best].saved))
            for project, each in sweep.dominance_by_project.items()
            if each.best is not None
        ]
        print_table(title, ("project", "setting", "compared with no policy"), rows, MAX_ROWS_SHOWN)
    print_lines(*REPLAY_LIMITS_TEXT)


def format_setting(sweep: Sweep, name: str) -> str:
    """Format a setting without the policy if all settings share it; the defaults are shown as their swept values."""
    if len({each.policy.name for each in sweep.settings}) > 1:
        return name
    if assignments := name.partition(" ")[2]:
        return assignments
    swept_names = dict.fromkeys(key for each in sweep.settings for key in find_changed_params(each.params))
    setting = next(each for each in sweep.settings if each.name == name)
    values = sweep.find_param_values(setting)
    defaults = format_assignments({key: values[key] for key in swept_names})
    return f"{' '.join(defaults)} (default)" if 0 < len(defaults) <= MAX_DEFAULTS_SHOWN else "defaults"


def _format_saved(sweep: Sweep, saved: float) -> str:
    return format_saving(saved, sweep.point_unit, with_unit=True)


def _build_setting_row(sweep: Sweep, totals: Totals, numbers: Mapping[str, int]) -> list[object]:
    name = totals.setting
    signs = (">" if name == sweep.current else "") + ("*" if name in sweep.best else "")
    tokens = format_saving(totals.saved, "tokens", total=totals.without)
    cost = list[str]()
    if sweep.has_prices and totals.cost:
        refetch = format_cost(totals.cost.refetch, sweep.cost_unit)
        calls = totals.cost.break_even_calls
        cost = [format_saving(-totals.extra_cost, sweep.cost_unit), refetch, "" if calls is None else f"{calls:.2g}"]
    sizes = [tokens, totals.regret_tokens, totals.firings, totals.fired_in, totals.peak, totals.overflows]
    share = "" if totals.share_of_largest is None else f"{totals.share_of_largest:.0%} of savings"
    rank = _format_rank(sweep, name, numbers)
    return [signs, numbers[name], format_setting(sweep, name), *sizes, *cost, share, rank]


def _format_rank(sweep: Sweep, name: str, numbers: Mapping[str, int]) -> str:
    dominance, points = sweep.dominance, sweep.dominance.points
    if name in sweep.idle:
        return "never fires"
    if dominator := dominance.dominated_by.get(name):
        return f"dominated by #{numbers[dominator]}"
    if name in sweep.best:
        return "front, at its knee" if name == sweep.knee else "front"
    equal = next((each for each in dominance.frontier if points[each] == points[name]), None)
    return f"same as #{numbers[equal]}" if equal else ""


def _format_standing(sweep: Sweep) -> list[str]:
    dominance, current = sweep.dominance, sweep.current
    dominating = dominance.dominated_by.get(current)
    rank = f"dominated by {format_setting(sweep, dominating)}" if dominating else "on the Pareto front"
    rank = "it never fires" if current in sweep.idle else rank
    lines = [f"current setting ({format_setting(sweep, current)}): {rank}"]
    if dominance.best and dominance.best != current:
        added = _format_saved(sweep, dominance.points[dominance.best].saved - dominance.points[current].saved)
        best = format_setting(sweep, dominance.best)
        lines.append(f"best setting ({best}): {added} more, with no more {sweep.regret_name}")
    return lines
