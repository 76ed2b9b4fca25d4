"""`context-tui sweep`: many settings along many sessions, and which of them nothing beats."""

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
from context_tui.batch.processes import Done, Place, Task, Work, on_cluster, on_processes, places
from context_tui.batch.row_files import Journal, SweepFileError, can_write_parquet, write_csv, write_parquet
from context_tui.cli.browse import add_looks
from context_tui.cli.options import (
    add_policy_file,
    add_replay,
    file_named,
    named,
    one_of,
    parse,
    parser,
    policy_and_params,
    take_policy_files,
)
from context_tui.cli.output import counted, say, table, talk, write_json
from context_tui.cli.replay import ItsParam, NextPolicy
from context_tui.errors import Error, ExitCode, PlanError, UnreadableSession
from context_tui.lab.price.words import after_a_change
from context_tui.lab.replay.words import LIMITS
from context_tui.lab.sweep.frontier import Standing
from context_tui.lab.sweep.gate import Gate, behind, cases, gate_of
from context_tui.lab.sweep.measure import How
from context_tui.lab.sweep.results import Sweep, Unread, Whole, sweep_report
from context_tui.lab.sweep.rows import Row
from context_tui.lab.sweep.settings import Setting, grid, setting, together
from context_tui.policies.parameters import assignments, params_for
from context_tui.text.sanitize import sanitize_line

if TYPE_CHECKING:
    from distributed import Client

SHOWN = 30
"""Settings, and projects, that the text lists; JSON has all."""
TOLD = 5
"""Sessions that could not be read, or are behind a limit that is not kept, that are told one by one."""
NO_DASK = "--scheduler needs Dask; install it by `pip install 'context-tui[dask]'`, or leave the option out"


def run(arguments: Sequence[str]) -> int:
    """Sweep settings over sessions."""
    given = _parsed(arguments)
    if given.screen and not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise PlanError("--screen needs a terminal; leave it out for the table, or give --json")
    policies, files = given.policies or [], take_policy_files(given.policy_file)
    gate = _gate(given.gate) if given.gate else None
    named_too = [*policies, *((name, []) for name in files if name not in dict(policies))]
    settings = _settings(named_too, gate, given.current)
    how = How(
        given.recorded,
        given.summary_tokens,
        given.delay,
        given.window,
        given.shares_prefix,
        given.quick,
        given.cache,
    )
    found, unread = places(given.sessions)
    _check_outputs(given, found)
    if not found:
        _tell(unread)
        raise UnreadableSession("there is no session to sweep; `context-tui formats` lists those that can be read")
    journal = Journal(given.output, how, found, resume=given.resume, force=given.force) if given.output else None
    made = _swept(found, settings, how, journal, given)
    made = replace(made, unread=[*unread, *made.unread])
    _tell(made.unread)
    if not made.rows:
        raise UnreadableSession("none of the sessions could be swept")
    if journal is not None:
        journal.finish(made.told)
    if given.csv:
        write_csv(given.csv, made.told)
    if given.parquet:
        write_parquet(given.parquet, made.told)
    if given.screen:
        code = _on_screen(made, found, given, arguments)
        return code or (_judge(gate, made) if gate else ExitCode.DONE)
    if given.json:
        write_json(sweep_report(made) | {"cache": how.reuse})
    else:
        show(made)
        if not how.quick:
            say(f"Where caches do not fill themselves, {after_a_change(how.reuse)}.")
    return _judge(gate, made) if gate else ExitCode.DONE


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser("sweep", "Run many settings along many sessions, and show which of them nothing beats.")
    add = options.add_argument
    add("sessions", nargs="+", type=named, metavar="SESSION", help="files, PATH#ID, and folders with all in them")
    add(
        "-P",
        "--policy",
        dest="policies",
        action=NextPolicy,
        type=named,
        metavar="POLICY",
        help="a policy; there may be several",
    )
    add(
        "-p",
        "--param",
        dest="policies",
        action=ItsParam,
        metavar="KEY=VALUES",
        help="values of a parameter of the -P before it: 1..8, 1..8:2 with a step, 256,512,1024, or one",
    )
    add_replay(options)
    add("--quick", action="store_true", help="sizes only: neither prices nor what was used later")
    add("--current", type=named, metavar="SETTING", help='what others are held against, as "POLICY KEY=VALUE"')
    add("--by", type=one_of("measure", ("tokens", "money")), default="tokens", help="what saving is counted in")
    add("-o", "--output", type=file_named, metavar="FILE", help="keep the rows here as they are made, one on a line")
    add("--resume", action="store_true", help="go on with the rows of -o that still hold")
    add("--force", action="store_true", help="replace files that exist")
    add("--csv", type=file_named, metavar="FILE", help="write the rows as CSV")
    add("--parquet", type=file_named, metavar="FILE", help="write the rows as Parquet (needs pyarrow)")
    add("--json", action="store_true", help="print one JSON document")
    add("--screen", action="store_true", help="show the settings and their sessions on a screen")
    add("--jobs", type=_count, metavar="N", help="processes (default: one for each core)")
    add("--scheduler", type=named, metavar="ADDRESS", help="work on the Dask cluster there, such as tcp://host:8786")
    add("--gate", type=file_named, metavar="FILE", help="exit 1 where a change of settings does more than FILE allows")
    add_policy_file(options)
    add_looks(options)
    given = parse(options, arguments)
    if not given.policies and not given.policy_file and not given.gate:
        options.error("no policy is named; give one with -P")
    if given.resume and not given.output:
        options.error("--resume needs the file to go on with; name it with -o")
    if given.screen and given.json:
        options.error("--screen shows what --json prints; give one of them")
    if given.resume and given.force:
        options.error("--resume goes on with a file and --force replaces it; give one of them")
    return given


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes; give 1 or more")
    return int(text)


# What is asked for


def _settings(
    policies: Sequence[tuple[str, Sequence[str]]], gate: Gate | None, current: str | None = None
) -> list[Setting]:
    """The settings of all grids, the *current* one first.

    What a policy has without values to sweep comes before these: its defaults, or as saved.
    """
    grids = [[_named(current)]] if current else []
    grids += [[_named(gate.old), _named(gate.new)]] if gate else []
    for name, texts in policies:
        policy, saved = policy_and_params(name)
        _, values = policy_and_params(name, texts)
        grids += [[setting(policy, params_for(policy, saved))], grid(policy, assignments(values))]
    return together(grids)


def _named(text: str) -> Setting:
    """The setting of ``POLICY KEY=VALUE …``."""
    try:
        name, *texts = shlex.split(text) or [""]
    except ValueError:
        raise PlanError(f"{text}: a quote is not closed") from None
    policy, values = policy_and_params(name, texts)
    return setting(policy, params_for(policy, values))


def _gate(path: Path) -> Gate:
    tables = read_tables(path)
    if not tables:
        raise PlanError(f"{path}: there is no gate in it; see docs/sweep.md")
    try:
        gate = gate_of(tables)
        return replace(gate, old=_named(gate.old).name, new=_named(gate.new).name)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def _check_outputs(given: argparse.Namespace, found: Sequence[Place]) -> None:
    """Nothing that is read is written over, nor anything else that is not meant to be."""
    read = {os.path.realpath(place.info.path) for place in found}
    for path in (given.output, given.csv, given.parquet):
        if path is None:
            continue
        if os.path.realpath(path) in read or path.is_dir():
            raise PlanError(f"{path} is one of the sessions, or a folder; give the name of a new file")
        if path != given.output and path.exists() and not given.force and not given.resume:
            raise SweepFileError(f"{path} exists; give another name, or --force to replace it")
    if given.parquet:
        can_write_parquet()


# The work


def _swept(
    found: Sequence[Place], settings: Sequence[Setting], how: How, journal: Journal | None, given: argparse.Namespace
) -> Sweep:
    """All rows, those that were there already too. On an interrupt, what is done is kept and told."""
    known = journal.rows if journal is not None else {}
    rows, unread, tasks = list[Row](), list[Unread](), list[Task]()
    for place in found:
        left = [number for number, each in enumerate(settings) if (place.name, each.name) not in known]
        rows += [known[place.name, each.name] for each in settings if (place.name, each.name) in known]
        if left:
            tasks.append(Task(place, left))
    if rows:
        talk(f"{counted(len(rows), 'row')} of {given.output} still hold; {counted(len(tasks), 'session')} to do")
    work = Work.of(settings, how, given.policy_file)
    progress = Progress(len(tasks), len(settings))
    try:
        with _doing(tasks, work, given) as doing, progress:
            for done in doing:
                if done.why:
                    unread.append(Unread(done.place.name, done.why))
                if journal is not None:
                    journal.add(done.place, done.rows)
                rows += done.rows
                progress.step()
    except KeyboardInterrupt:
        if journal is not None:
            journal.close()
            kept = f"{progress.done:,} of {counted(len(tasks), 'session')} done and kept"
            talk(f"{kept}; go on by -o {journal.path} --resume")
        raise
    order = {each.name: number for number, each in enumerate(settings)}
    rows.sort(key=lambda row: (row.session, order[row.setting]))  # sums of costs are the same in any order of work
    return Sweep(settings, rows, unread, settings[0].name, given.by)


@contextmanager
def _doing(tasks: Sequence[Task], work: Work, given: argparse.Namespace) -> Iterator[Iterator[Done]]:
    if not given.scheduler:
        with closing(on_processes(tasks, work, given.jobs)) as doing:
            yield doing
        return
    with _cluster(given.scheduler) as client, closing(on_cluster(client, tasks, work)) as doing:
        yield doing


def _cluster(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError:
        raise PlanError(NO_DASK) from None
    try:
        return Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise Unreachable(
            f"{address}: no Dask scheduler answers there ({type(error).__name__}); check the address"
        ) from None


class Unreachable(Error):
    """A scheduler that does not answer."""


class Progress:
    """How far it is, on stderr: one line that changes on a terminal, a few lines elsewhere."""

    def __init__(self, sessions: int, settings: int) -> None:
        self.done, self._of, self._settings = 0, sessions, settings
        self._live, self._begun, self._told = sys.stderr.isatty(), time.monotonic(), 0

    def __enter__(self) -> Progress:
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self) -> None:
        """One session more."""
        self.done += 1
        self._show()

    def _show(self) -> None:
        words = f"{self.done:,} of {counted(self._of, 'session')}, {counted(self._settings, 'setting')} each"
        if self._live:
            left = (time.monotonic() - self._begun) / self.done * (self._of - self.done) if self.done else 0
            sys.stderr.write(f"\r\x1b[K{words}" + (f", about {left:,.0f} s left" if left >= 1 else ""))
            sys.stderr.flush()
        elif self._of and self.done * 10 // self._of > self._told:
            self._told = self.done * 10 // self._of
            talk(words)


def _tell(unread: Sequence[Unread]) -> None:
    for each in unread[:TOLD]:
        talk(f"{each.session}: {each.why}")
    if len(unread) > TOLD:
        talk(f"{len(unread) - TOLD:,} more could not be read; --json lists them")


def _judge(gate: Gate, made: Sweep) -> int:
    found = cases(gate, made)
    for case in found:
        talk(f"gate: {case}")
        worse = [] if case.session else behind(case, gate, made)
        for each in worse[:TOLD]:
            talk(f"gate:   {each}")
        if len(worse) > TOLD:
            talk(f"gate:   {len(worse) - TOLD:,} more")
    words = f"{counted(len(found), 'limit')} not kept" if found else "every limit is kept"
    talk(f"gate: {gate.old} to {gate.new}: {words}")
    return ExitCode.FAILED if found else ExitCode.DONE


# On screen


def _on_screen(made: Sweep, found: Sequence[Place], given: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Show the sweep until it is left; returns the exit code of that."""
    from context_tui.app.config import read_config
    from context_tui.tui.app import Swept
    from context_tui.tui.app import run as shown

    command = shlex.join(["context-tui", "sweep", *(each for each in arguments if each != "--screen")])
    infos = {place.name: place.info for place in found}
    return shown(
        [],
        swept=Swept(made, infos, command),
        window=given.window,
        ascii=given.ascii,
        theme=given.theme,
        config=read_config(),
        mouse=not given.no_mouse,
    )


# Text


def show(made: Sweep) -> None:
    """A sweep as text; settings have numbers here."""
    what = counted(len(made.settings), "setting"), counted(len(made.by_session), "session")
    say(f"{what[0]} along {what[1]}; {len(made.unread):,} could not be read")
    order, points = made.standing.frontier, made.standing.points
    others = sorted((name for name in points if name not in order), key=lambda name: -points[name].saved)
    first = [made.current, *([made.standing.best] if made.standing.best else [])]
    listed = [name for name in dict.fromkeys([*first, *order, *others]) if name in points]
    numbers = {name: number for number, name in enumerate(listed, 1)}
    used = all(each.lost.tokens_used_later is not None for each in made.whole.values())
    priced = all(each.cost is not None for each in made.whole.values())
    share = max(each.priced for each in made.whole.values())
    money = [f"cost, {made.unit}"] if priced else []
    heads = [
        "",
        "#",
        "setting",
        "saved",
        "of all",
        "used later" if used else "dropped",
        "firings",
        "peak",
        "over window",
    ]
    table(
        "settings over all sessions, in tokens (* nothing beats it, > the current one)",
        [*heads, *money, "beaten by #"],
        [_line(made, made.whole[name], numbers, used, priced) for name in listed[:SHOWN]],
    )
    if len(listed) > SHOWN:
        say(f"  {len(listed) - SHOWN:,} more; --json lists all")
    if priced:
        say(f"cost: against no policy, at cache prices; of the {counted(share, 'session')} priced in {made.unit}")
    for line in _stands(made):
        say(line)
    best = [(name, each) for name, each in made.projects.items() if each.best is not None]
    if len(best) > 1:
        table(
            "best in each project: what saves most at no more regret than the current one",
            ("project", "setting", "saved"),
            [(name, label(made, each.best or ""), _saved(made, each)) for name, each in best[:SHOWN]],
        )
        if len(best) > SHOWN:
            say(f"  {len(best) - SHOWN:,} more; --json lists all")
    for line in LIMITS:
        say(line)


def label(made: Sweep, name: str) -> str:
    """A setting in a few words: without its policy, where there is only one."""
    policies = {each.policy.name for each in made.settings}
    if len(policies) > 1:
        return name
    return name.partition(" ")[2] or "defaults"


def _saved(made: Sweep, each: Standing) -> str:
    saved = each.points[each.best or ""].saved
    return f"{saved:,.0f}" if made.by == "tokens" else f"{saved:,.2f}"


def _line(made: Sweep, each: Whole, numbers: Mapping[str, int], used: bool, priced: bool) -> list[object]:
    name, standing = each.setting, made.standing
    mark = (">" if name == made.current else "") + ("*" if name in standing.frontier else "")
    regret = each.lost.tokens_used_later if used else each.lost.tokens_dropped
    share = f"{each.saved / each.without:.1%}" if each.without else ""
    extra = each.cost.cost - each.cost.without if each.cost else 0.0
    cost = [f"{extra:+,.2f}" if abs(extra) >= 1 else f"{extra:+.4f}"] if priced else []
    beaten = numbers.get(standing.dominated_by.get(name, ""), "")
    sizes = [each.saved, share, regret, each.firings, each.peak, each.overflows]
    return [mark, numbers[name], label(made, name), *sizes, *cost, beaten]


def _stands(made: Sweep) -> list[str]:
    """Where the current setting stands, and what is best."""
    standing, current = made.standing, made.current
    by = standing.dominated_by.get(current)
    lines = [f"current: {label(made, current)}: {f'beaten by {label(made, by)}' if by else 'nothing beats it'}"]
    if standing.best and standing.best != current:
        more = standing.points[standing.best].saved - standing.points[current].saved
        saves = f"{more:,.0f} tokens" if made.by == "tokens" else f"{more:,.2f} {made.unit}"
        lines.append(f"best:    {label(made, standing.best)}: saves {saves} more at no more regret")
    return [sanitize_line(line) for line in lines]
