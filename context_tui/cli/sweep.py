"""`context-tui sweep`: replay many settings over many sessions and find the Pareto front."""

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
from context_tui.batch.row_files import SweepFileError, SweepJournal, require_pyarrow, write_csv, write_parquet
from context_tui.batch.workers import (
    SweepSource,
    SweepTask,
    SweepWork,
    TaskResult,
    find_sources,
    run_on_cluster,
    run_on_processes,
)
from context_tui.cli.browse import add_appearance_options
from context_tui.cli.options import (
    add_policy_file_option,
    add_replay_options,
    build_choice_type,
    build_parser,
    load_policy_files,
    parse_arguments,
    parse_name,
    parse_output_path,
    resolve_policy,
)
from context_tui.cli.output import format_count, print_line, print_notice, print_table, write_json
from context_tui.cli.replay import ParameterAction, PolicyAction
from context_tui.errors import Error, ExitCode, PlanError, UnreadableSession
from context_tui.lab.price.report import format_cache_reuse
from context_tui.lab.replay.result import REPLAY_LIMITS_TEXT
from context_tui.lab.sweep.frontier import Dominance
from context_tui.lab.sweep.gate import Gate, find_violations, find_worse_sessions, parse_gate
from context_tui.lab.sweep.results import Sweep, Totals, UnreadSession, build_sweep_report
from context_tui.lab.sweep.rows import SweepRow
from context_tui.lab.sweep.session_sweep import SweepOptions
from context_tui.lab.sweep.settings import SweepSetting, build_grid, build_setting, merge_grids
from context_tui.policies.parameter_space import build_params
from context_tui.policies.parameters import format_assignments
from context_tui.text.sanitize import sanitize_line

if TYPE_CHECKING:
    from distributed import Client

MAX_ROWS_SHOWN = 30
"""Maximum number of settings, and of projects, in the text; JSON lists all."""
MAX_REPORTED = 5
"""Maximum number of sessions reported individually: unreadable ones, and those that exceed a limit of the gate."""
DASK_REMEDY = "--scheduler needs Dask; install it by `pip install 'context-tui[dask]'`, or leave the option out"


def run(arguments: Sequence[str]) -> int:
    """Sweep settings over sessions."""
    given = _parse_options(arguments)
    if given.screen and not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise PlanError("--screen needs a terminal; leave it out for the table, or give --json")
    policies, files = given.policies or [], load_policy_files(given.policy_file)
    gate = _read_gate(given.gate) if given.gate else None
    named_too = [*policies, *((name, []) for name in files if name not in dict(policies))]
    settings = _build_settings(named_too, gate, given.current)
    how = SweepOptions(
        given.recorded,
        given.summary_tokens,
        given.delay,
        given.shares_prefix,
        given.cache,
        given.window,
        given.quick,
    )
    found, unread = find_sources(given.sessions)
    _check_outputs(given, found)
    if not found:
        _report_unread(unread)
        raise UnreadableSession("there is no session to sweep; `context-tui formats` lists the readable formats")
    journal = SweepJournal(given.output, how, found, resume=given.resume, force=given.force) if given.output else None
    made = _run_sweep(found, settings, how, journal, given)
    made = replace(made, unread=[*unread, *made.unread])
    _report_unread(made.unread)
    if not made.rows:
        raise UnreadableSession("none of the sessions could be swept")
    if journal is not None:
        journal.write_sorted_rows(made.sorted_rows)
    if given.csv:
        write_csv(given.csv, made.sorted_rows)
    if given.parquet:
        write_parquet(given.parquet, made.sorted_rows)
    if given.screen:
        code = _open_screen(made, found, given, arguments)
        return code or (_check_gate(gate, made) if gate else ExitCode.DONE)
    if given.json:
        write_json(build_sweep_report(made) | {"cache": how.reuse})
    else:
        print_report(made)
        if not how.quick:
            print_line(f"Without automatic caching, {format_cache_reuse(how.reuse)}.")
    return _check_gate(gate, made) if gate else ExitCode.DONE


def _parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    options = build_parser("sweep", "Replay many settings over many sessions, and show which are on the Pareto front.")
    add = options.add_argument
    add("sessions", nargs="+", type=parse_name, metavar="SESSION", help="files, PATH#ID, or folders of sessions")
    add(
        "-P",
        "--policy",
        dest="policies",
        action=PolicyAction,
        type=parse_name,
        metavar="POLICY",
        help="a policy; may be repeated",
    )
    add(
        "-p",
        "--param",
        dest="policies",
        action=ParameterAction,
        metavar="KEY=VALUES",
        help="values of a parameter of the preceding -P: 1..8, 1..8:2 (with a step), 256,512,1024, or one value",
    )
    add_replay_options(options)
    add("--quick", action="store_true", help="compute sizes only, without prices and regret")
    add(
        "--current",
        type=parse_name,
        metavar="SETTING",
        help='the setting to compare the others with, as "POLICY KEY=VALUE"',
    )
    add(
        "--by",
        type=build_choice_type("measure", ("tokens", "money")),
        default="tokens",
        help="unit of savings: tokens or money",
    )
    add(
        "-o",
        "--output",
        type=parse_output_path,
        metavar="FILE",
        help="write each row to FILE as it is computed, one per line",
    )
    add("--resume", action="store_true", help="continue, reusing the rows of -o that are still valid")
    add("--force", action="store_true", help="replace existing files")
    add("--csv", type=parse_output_path, metavar="FILE", help="write the rows as CSV")
    add("--parquet", type=parse_output_path, metavar="FILE", help="write the rows as Parquet (needs pyarrow)")
    add("--json", action="store_true", help="print one JSON document")
    add("--screen", action="store_true", help="show the settings and their sessions interactively")
    add("--jobs", type=_parse_count, metavar="N", help="number of processes (default: one per core)")
    add(
        "--scheduler",
        type=parse_name,
        metavar="ADDRESS",
        help="run on the Dask cluster at ADDRESS, such as tcp://host:8786",
    )
    add(
        "--gate",
        type=parse_output_path,
        metavar="FILE",
        help="exit 1 if a change of settings exceeds the limits in FILE",
    )
    add_policy_file_option(options)
    add_appearance_options(options)
    given = parse_arguments(options, arguments)
    if not given.policies and not given.policy_file and not given.gate:
        options.error("no policy is named; give one with -P")
    if given.resume and not given.output:
        options.error("--resume needs the file to continue; name it with -o")
    if given.screen and given.json:
        options.error("--screen shows what --json prints; give one of them")
    if given.resume and given.force:
        options.error("--resume continues a file and --force replaces it; give one of them")
    return given


def _parse_count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes; give 1 or more")
    return int(text)


# Settings


def _build_settings(
    policies: Sequence[tuple[str, Sequence[str]]], gate: Gate | None, current: str | None = None
) -> list[SweepSetting]:
    """Build the settings of all grids, the *current* one first.

    Each policy starts with its defaults, or saved settings, followed by its grid.
    """
    grids = [[_parse_setting(current)]] if current else []
    grids += [[_parse_setting(gate.old_setting), _parse_setting(gate.new_setting)]] if gate else []
    for name, texts in policies:
        policy, saved = resolve_policy(name)
        _, values = resolve_policy(name, texts)
        grids += [[build_setting(policy, build_params(policy, saved))], build_grid(policy, format_assignments(values))]
    return merge_grids(grids)


def _parse_setting(text: str) -> SweepSetting:
    """Parse a setting of the form ``POLICY KEY=VALUE …``."""
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
        return replace(
            gate, old_setting=_parse_setting(gate.old_setting).name, new_setting=_parse_setting(gate.new_setting).name
        )
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def _check_outputs(given: argparse.Namespace, found: Sequence[SweepSource]) -> None:
    """Refuse outputs that would overwrite input or anything else by accident."""
    read = {os.path.realpath(place.info.path) for place in found}
    for path in (given.output, given.csv, given.parquet):
        if path is None:
            continue
        if os.path.realpath(path) in read or path.is_dir():
            raise PlanError(f"{path} is one of the sessions, or a folder; give the name of a new file")
        if path != given.output and path.exists() and not given.force and not given.resume:
            raise SweepFileError(f"{path} exists; give another name, or --force to replace it")
    if given.parquet:
        require_pyarrow()


# Execution


def _run_sweep(
    found: Sequence[SweepSource],
    settings: Sequence[SweepSetting],
    options: SweepOptions,
    journal: SweepJournal | None,
    given: argparse.Namespace,
) -> Sweep:
    """Run the sweep, adding rows that exist already. On an interrupt, finished rows are saved and reported."""
    known = journal.rows if journal is not None else {}
    rows, unread, tasks = list[SweepRow](), list[UnreadSession](), list[SweepTask]()
    for place in found:
        left = [number for number, each in enumerate(settings) if (place.name, each.name) not in known]
        rows += [known[place.name, each.name] for each in settings if (place.name, each.name) in known]
        if left:
            tasks.append(SweepTask(place, left))
    if rows:
        print_notice(
            f"{format_count(len(rows), 'row')} of {given.output} still valid; "
            f"{format_count(len(tasks), 'session')} to do"
        )
    work = SweepWork.from_settings(settings, options, given.policy_file)
    progress = SweepProgress(len(tasks), len(settings))
    try:
        with _run_tasks(tasks, work, given) as doing, progress:
            for done in doing:
                if done.failure_reason:
                    unread.append(UnreadSession(done.source.name, done.failure_reason))
                if journal is not None:
                    journal.append_rows(done.source, done.rows)
                rows += done.rows
                progress.step()
    except KeyboardInterrupt:
        if journal is not None:
            journal.close()
            kept = f"{progress.done:,} of {format_count(len(tasks), 'session')} done and saved"
            print_notice(f"{kept}; continue with -o {journal.path} --resume")
        raise
    order = {each.name: number for number, each in enumerate(settings)}
    rows.sort(key=lambda row: (row.session, order[row.setting]))  # sums of costs are the same in any order of work
    return Sweep(settings, rows, unread, settings[0].name, given.by)


@contextmanager
def _run_tasks(
    tasks: Sequence[SweepTask], work: SweepWork, given: argparse.Namespace
) -> Iterator[Iterator[TaskResult]]:
    if not given.scheduler:
        with closing(run_on_processes(tasks, work, given.jobs)) as doing:
            yield doing
        return
    with _connect_cluster(given.scheduler) as client, closing(run_on_cluster(client, tasks, work)) as doing:
        yield doing


def _connect_cluster(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError:
        raise PlanError(DASK_REMEDY) from None
    try:
        return Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise SchedulerUnreachable(
            f"{address}: no Dask scheduler responds ({type(error).__name__}); check the address"
        ) from None


class SchedulerUnreachable(Error):
    """Raised when a scheduler does not respond."""


class SweepProgress:
    """Progress on stderr: one line that changes on a terminal, a few lines elsewhere."""

    def __init__(self, sessions: int, settings: int) -> None:
        self.done, self._total, self._settings = 0, sessions, settings
        self._live, self._started, self._reported_tenths = sys.stderr.isatty(), time.monotonic(), 0

    def __enter__(self) -> SweepProgress:
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self) -> None:
        """Count one more session."""
        self.done += 1
        self._draw()

    def _draw(self) -> None:
        words = (
            f"{self.done:,} of {format_count(self._total, 'session')}, {format_count(self._settings, 'setting')} each"
        )
        if self._live:
            left = (time.monotonic() - self._started) / self.done * (self._total - self.done) if self.done else 0
            sys.stderr.write(f"\r\x1b[K{words}" + (f", about {left:,.0f} s remaining" if left >= 1 else ""))
            sys.stderr.flush()
        elif self._total and self.done * 10 // self._total > self._reported_tenths:
            self._reported_tenths = self.done * 10 // self._total
            print_notice(words)


def _report_unread(unread: Sequence[UnreadSession]) -> None:
    for each in unread[:MAX_REPORTED]:
        print_notice(f"{each.session}: {each.why}")
    if len(unread) > MAX_REPORTED:
        print_notice(f"{len(unread) - MAX_REPORTED:,} more could not be read; --json lists them")


def _check_gate(gate: Gate, made: Sweep) -> int:
    found = find_violations(gate, made)
    for case in found:
        print_notice(f"gate: {case}")
        worse = [] if case.session else find_worse_sessions(case, gate, made)
        for each in worse[:MAX_REPORTED]:
            print_notice(f"gate:   {each}")
        if len(worse) > MAX_REPORTED:
            print_notice(f"gate:   {len(worse) - MAX_REPORTED:,} more")
    words = f"{format_count(len(found), 'limit')} exceeded" if found else "all limits are met"
    print_notice(f"gate: {gate.old_setting} to {gate.new_setting}: {words}")
    return ExitCode.FAILED if found else ExitCode.DONE


# On screen


def _open_screen(made: Sweep, found: Sequence[SweepSource], given: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Show the sweep on screen and return its exit code."""
    from context_tui.app.config import read_config
    from context_tui.tui.app import SweepToOpen
    from context_tui.tui.app import run as shown

    command = shlex.join(["context-tui", "sweep", *(each for each in arguments if each != "--screen")])
    infos = {place.name: place.info for place in found}
    return shown(
        [],
        sweep=SweepToOpen(made, infos, command),
        window=given.window,
        ascii=given.ascii,
        theme=given.theme,
        config=read_config(),
        mouse=not given.no_mouse,
    )


# Text


def print_report(made: Sweep) -> None:
    """Print the sweep as text, with numbered settings."""
    what = format_count(len(made.settings), "setting"), format_count(len(made.rows_by_session), "session")
    print_line(f"{what[0]} over {what[1]}; {len(made.unread):,} could not be read")
    order, points = made.dominance.frontier, made.dominance.points
    others = sorted((name for name in points if name not in order), key=lambda name: -points[name].saved)
    first = [made.current, *([made.dominance.best] if made.dominance.best else [])]
    listed = [name for name in dict.fromkeys([*first, *order, *others]) if name in points]
    numbers = {name: number for number, name in enumerate(listed, 1)}
    used = all(each.drops.tokens_used_later is not None for each in made.totals.values())
    priced = all(each.cost is not None for each in made.totals.values())
    share = max(each.priced_sessions for each in made.totals.values())
    money = [f"cost, {made.cost_unit}"] if priced else []
    heads = [
        "",
        "#",
        "setting",
        "saved",
        "share",
        "needed later" if used else "dropped",
        "firings",
        "peak",
        "over window",
    ]
    print_table(
        "settings over all sessions, in tokens (* on the Pareto front, > current)",
        [*heads, *money, "dominated by #"],
        [_build_setting_row(made, made.totals[name], numbers, used, priced) for name in listed[:MAX_ROWS_SHOWN]],
    )
    if len(listed) > MAX_ROWS_SHOWN:
        print_line(f"  {len(listed) - MAX_ROWS_SHOWN:,} more; --json lists all")
    if priced:
        print_line(
            f"cost: compared with no policy, at cache prices, for the {format_count(share, 'session')} priced in"
            f" {made.cost_unit}"
        )
    for line in _format_standing(made):
        print_line(line)
    best = [(name, each) for name, each in made.dominance_by_project.items() if each.best is not None]
    if len(best) > 1:
        print_table(
            "best in each project: saves most without losing more than the current setting",
            ("project", "setting", "saved"),
            [
                (name, format_setting(made, each.best or ""), _format_saved(made, each))
                for name, each in best[:MAX_ROWS_SHOWN]
            ],
        )
        if len(best) > MAX_ROWS_SHOWN:
            print_line(f"  {len(best) - MAX_ROWS_SHOWN:,} more; --json lists all")
    for line in REPLAY_LIMITS_TEXT:
        print_line(line)


def format_setting(made: Sweep, name: str) -> str:
    """Format a setting, without its policy where all settings share it."""
    policies = {each.policy.name for each in made.settings}
    if len(policies) > 1:
        return name
    return name.partition(" ")[2] or "defaults"


def _format_saved(made: Sweep, each: Dominance) -> str:
    saved = each.points[each.best or ""].saved
    return f"{saved:,.0f}" if made.saving_unit == "tokens" else f"{saved:,.2f}"


def _format_extra_cost(extra: float) -> str:
    """Format a cost compared with no policy: ``saves 2.67`` or ``costs 2.67 more``."""
    text = f"{abs(extra):,.2f}" if abs(extra) >= 1 else f"{abs(extra):.4f}"
    return f"saves {text}" if extra < 0 else f"costs {text} more" if extra > 0 else "the same"


def _build_setting_row(
    made: Sweep, totals: Totals, numbers: Mapping[str, int], has_regret: bool, has_price: bool
) -> list[object]:
    name, standing = totals.setting, made.dominance
    mark = (">" if name == made.current else "") + ("*" if name in standing.frontier else "")
    regret = totals.drops.tokens_used_later if has_regret else totals.drops.tokens_dropped
    share = f"{totals.saved / totals.without:.1%}" if totals.without else ""
    extra = totals.cost.cost - totals.cost.without if totals.cost else 0.0
    cost = [_format_extra_cost(extra)] if has_price else []
    beaten = numbers.get(standing.dominated_by.get(name, ""), "")
    sizes = [totals.saved, share, regret, totals.firings, totals.peak, totals.overflows]
    return [mark, numbers[name], format_setting(made, name), *sizes, *cost, beaten]


def _format_standing(made: Sweep) -> list[str]:
    """Format the rank of the current setting, and the best ones."""
    standing, current = made.dominance, made.current
    by = standing.dominated_by.get(current)
    rank = f"dominated by {format_setting(made, by)}" if by else "on the Pareto front"
    lines = [f"current: {format_setting(made, current)}: {rank}"]
    if standing.best and standing.best != current:
        more = standing.points[standing.best].saved - standing.points[current].saved
        saves = f"{more:,.0f} tokens" if made.saving_unit == "tokens" else f"{more:,.2f} {made.cost_unit}"
        lines.append(f"best:    {format_setting(made, standing.best)}: saves {saves} more without losing more")
    return [sanitize_line(line) for line in lines]
