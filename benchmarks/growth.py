"""What grows how: the time for one session of an awkward shape of size 10 n, against ten sessions of size n.

    python -m benchmarks.growth             every shape, a few minutes
    python -m benchmarks.growth koda pairs  those with one of these words in their name
    python -m benchmarks.growth memory      the memory of a whole journey through files, against their sizes

Ten times the input may take at most thirteen times as long: linear, or a little more. Exits with 1 where it does not.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import context_tui as ct
from benchmarks.memory import journeys
from benchmarks.shapes import Chain, Record, call, database, encode, result, stamp
from context_tui.cli.inspect import build_report, print_report
from context_tui.compaction.tool_pairing import (
    assign_unique_ids,
    find_unpaired,
    repair,
    repair_minimally,
    repair_orphans,
)
from context_tui.export.files import export, list_writable_formats
from context_tui.formats.opening import detect_format, make_scanner, open_session, sessions_in
from context_tui.lab.replay.walk import replay
from context_tui.lab.study import Lab
from context_tui.library.discovery import build_entries, find_recorded_sessions, find_title
from context_tui.policies.registry import POLICIES, find_policy, list_policy_names
from context_tui.policies.trigger_points import find_firing_runs
from context_tui.session.markers import KODA_SUMMARY
from context_tui.session.session import Session
from context_tui.summarizer.secrets import find_secrets
from context_tui.tokens.breakdown import FileRead, count_wasted

FACTOR, BUDGET = 10, 13
PATIENCE_S = 60
"""Seconds of processor time after which one measurement is given up."""

Work = Callable[[], object]
Fresh = Callable[[], Work]
"""Makes ready, which is not measured, and returns what is: nothing that is kept from one time helps the next."""


@dataclass(frozen=True)
class Shape:
    """A row: its name, the smaller size, and how to make a session of a size in an empty folder."""

    name: str
    size: int
    make: Callable[[int, Path], Fresh]


class TooLong(BaseException):
    """A measurement took longer than anybody would wait."""


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Give up after a while."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def seconds(all_fresh: Sequence[Fresh]) -> float:
    """The processor time of some pieces of work, whose results are kept until the last one is done.

    It is that of the thread: that of the process comes in steps of 4 ms while a timer is set.
    """
    works = [fresh() for fresh in all_fresh]
    gc.collect()
    gc.disable()  # its passes come in steps of many objects, which a ratio would take for growth
    start = time.thread_time()
    results = [work() for work in works]
    duration = time.thread_time() - start
    del results
    gc.enable()
    return duration


def measure(shape: Shape) -> tuple[float, float]:
    """The seconds that a session of the shape's size takes, and one of ten times that.

    The former is a tenth of what ten such sessions take: as many objects, which fit into the same caches. The two are
    measured in turns, and each counts by its best run.
    """
    with tempfile.TemporaryDirectory(prefix="context-tui-growth-") as name:
        folders = [Path(name, str(number)) for number in range(FACTOR + 1)]
        for folder in folders:
            folder.mkdir()
        ten_small = [shape.make(shape.size, folder) for folder in folders[1:]]
        large = [shape.make(shape.size * FACTOR, folders[0])]
        small_s = large_s = float("inf")
        spent, runs = 0.0, 0
        while runs < 2 or (spent < 0.5 and runs < 10):
            with patience():
                small_s, large_s = min(small_s, seconds(ten_small)), min(large_s, seconds(large))
            spent, runs = spent + small_s + large_s, runs + 1
    return small_s / FACTOR, large_s


def row(shape: Shape) -> tuple[str, bool]:
    """A line of the table, and whether its budget holds."""
    label = f"{shape.name:<58}{shape.size:>7,}{shape.size * FACTOR:>9,}"
    try:
        small, large = measure(shape)
        if large > BUDGET * small:  # a neighbour can make a ratio worse, but hardly twice
            small, large = min((small, large), measure(shape), key=lambda both: both[1] / both[0])
    except TooLong:
        return f"{label}   given up after {PATIENCE_S} s", False
    except Exception as error:  # one that fails says so, and the others still run
        return f"{label}   failed: {type(error).__name__}: {error}"[:160], False
    ratio = large / small
    good = ratio <= BUDGET
    return f"{label}{small * 1000:>10,.1f}{large * 1000:>11,.1f} ms{ratio:>8.1f}  {'ok' if good else 'over'}", good


def numbered_row(number: int) -> tuple[str, bool]:
    """The line of a shape by its number, as functions cannot be sent to another process."""
    return row(next(islice(shapes(), number, None)))


# -- what is done with a session


def same(work: Callable[..., object], *arguments: Any) -> Fresh:
    """Work that needs nothing made ready."""
    return lambda: lambda: work(*arguments)


def inspect(path: Path) -> Fresh:
    """Opening a session, and the report of it with its timeline, as text too."""

    def work() -> object:
        session = open_session(path)
        with contextlib.redirect_stdout(io.StringIO()):
            print_report(session, report := build_report(session, timeline=True))
        return report

    return same(work)


def steps(path: Path, *functions: Callable[[Session], object]) -> Fresh:
    """Something done with a session that was just opened."""

    def fresh() -> Work:
        session = open_session(path)
        return lambda: [each(session) for each in functions]

    return fresh


def opened(path: Path) -> Fresh:
    """Reading a session in steps of no time at all, as the inspector does, with a view at the end."""

    def work() -> Session:
        scanner = make_scanner(sessions_in(path)[0])
        while not scanner.advance(0.001).end:
            pass
        return scanner.session()

    return same(work)


def trying(name: str, **params: Any) -> Callable[[Session], object]:
    """A plan of a policy with all that can be asked of it, and what is left when it is carried out."""

    def work(session: Session) -> object:
        plan = ct.plan(session, name, force=True, **params)
        list(plan.iterate_verdicts()), plan.edits, plan.tokens_after, plan.messages_to_summarise, plan.previous_summary
        return ct.apply(session, plan, summary="what was done" if plan.needs_summary else None)

    return work


EVERY_CALL: dict[str, dict[str, Any]] = {
    "openhands-masking": {},
    "swe-agent-last-n": {},
    "anthropic-clear-tool-uses": {"trigger_tokens": 1_000},
    "langchain-clear": {"trigger_tokens": 1_000, "until": 900},
    "gemini-masking": {"keep_result_tokens": 5_000, "clear_at_least": 400},
    "opencode-prune": {"keep_result_tokens": 5_000, "clear_more_than": 100},
    "defect-microcompact": {"min_clear_tokens": 100, "microcompact_ratio": 0.01},
}
"""Policies that fire at every call, or every turn, with parameters that make them."""


def replaying(name: str) -> Callable[[Session], object]:
    """A policy that fires all along a session."""
    return lambda session: replay(session, name, **EVERY_CALL[name])


def studying(name: str) -> Callable[[Session], object]:
    """A replay with its price and its regret."""
    policy = find_policy(name)

    def work(session: Session) -> object:
        study = Lab(session).run_study(policy, policy.Params(**EVERY_CALL[name]))
        return study, study.group_cases_by_firing()

    return work


def exported(path: Path, format_name: str, policy: str = "") -> Fresh:
    """Writing a session in a format, compacted where a policy is named."""

    def fresh() -> Work:
        session = open_session(path)
        if policy:
            plan = ct.plan(session, policy, force=True)
            session = ct.apply(session, plan, summary="what was done" if plan.needs_summary else None)
        out = path.with_name(f"out-{format_name}")
        return lambda: export(session, out, format_name, force=True)

    return fresh


# -- shapes


ALMOST_SECRETS = (
    "eyJ-",
    "eyJ",
    "sk-",
    "sk-ant-",
    "A",
    "password",
    "password=",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "://",
    "a://b:",
    "a+",
    "Bearer ",
    "token : ",
    "key_",
    '\\"',
    "gh",
    "xoxb-",
    " ",
    "-",
    ".",
    "\\",
    "\x1b[1;1",
    "\x1b[0mword ",
    "password ",
    "password is ",
    "ENV PASSWORD ",
    "api key ",
    'define("PASSWORD", ',
    "name: PASSWORD\n  value: ",
    "kind: Secret\n",
    "kind: Secret data:\n  a: b3Blb\n",
    "openssl a ",
    "zip -r a ",
    "7z a ",
    "machine a.b login ",
    "twine a ",
    "http a ",
    "echo -n a ",
    "echo a:b | ",
    "a -U b%",
    "htpasswd -b a ",
    "net use \\\\a ",
    "mot de passe a ",
    "credentials: a/",
    "mnemonic: legal ",
    'add_argument("--password", a ',
    "perm:a.",
    "with password aA1",
    " M1",
    "a-us1",
    "ACL SETUSER a ",
    "ssh-keygen a ",
    "login a, pw ",
    "reset-password/a",
    "cmdkey a ",
    "http -A ",
    "mc alias set a b c ",
    'mysql", "a", ',
    '"kty" "d":"a',
    '"value": "a',
    'assword:" { send "a',
    "auth=('a', ",
    "echo a | b ",
)
"""Texts that begin a secret and never end it: a search that starts anew at each of them takes quadratic time."""


def almost_secret(piece: str) -> Callable[[int, Path], Fresh]:
    """A text of n characters that repeats a beginning of a secret, searched for secrets."""
    return lambda n, at: same(find_secrets, piece * (n // len(piece)))


def folder(n: int, at: Path) -> Fresh:
    for number in range(n):
        chain = Chain(f"s{number}")
        chain.typed(f"prompt {number}")
        chain.reply()
        chain.write(at / f"s{number}.jsonl")
    return same(sessions_in, at)


def choose_beside(n: int, at: Path) -> Fresh:
    folder(n, at)
    return same(sessions_in, at / "s0.jsonl")


def agents_beside(n: int, at: Path) -> Fresh:
    for number in range(n):
        chain = Chain(f"s{number}")
        chain.typed()
        chain.write(at / f"s{number}.jsonl")
        for agent in range(5):
            side = Chain(f"s{number}", f"a{number}-{agent}")
            side.typed()
            side.write(at / f"agent-a{number}-{agent}.jsonl")
    return same(sessions_in, at)


def agents_below(n: int, at: Path) -> Fresh:
    for number in range(n):
        folder = at / f"s{number}" / "subagents"
        folder.mkdir(parents=True)
        chain = Chain(f"s{number}")
        chain.typed()
        chain.write(at / f"s{number}.jsonl")
        for agent in range(5):
            side = Chain(f"s{number}", f"a{number}-{agent}")
            side.typed()
            side.write(folder / f"agent-a{number}-{agent}.jsonl")
    return same(sessions_in, at)


def agents_inside(n: int, at: Path) -> Fresh:
    chain = Chain()
    chain.typed()
    for number in range(n):
        side = Chain("s", f"a{number}")
        side.typed()
        chain.records += side.records
    return same(sessions_in, chain.write(at / "s.jsonl"))


def discovered(n: int, at: Path) -> Fresh:
    project = at / "projects" / "-p"
    project.mkdir(parents=True)
    folder(n, project)

    def work() -> object:
        sessions = find_recorded_sessions({"CLAUDE_CONFIG_DIR": str(at)}, at)
        return [find_title(entry.info) for entry in sessions], build_entries(entry.info for entry in sessions)

    return same(work)


def stepping(n: int, at: Path, every: Callable[[Chain, int], object], **given: Any) -> Path:
    """A session of n steps with something after each."""
    chain = Chain()
    chain.typed()
    for number in range(n):
        chain.step(number, **given)
        every(chain, number)
    chain.reply()
    return chain.write(at / "s.jsonl")


def full(n: int, at: Path) -> Path:
    return stepping(n, at, lambda chain, _: chain.compaction())


def micro(n: int, at: Path) -> Path:
    return stepping(n, at, lambda chain, number: chain.cleared(f"t{number}"))


def segments(n: int, at: Path) -> Path:
    return stepping(
        n, at, lambda chain, _: chain.compaction(preservedSegment={"headUuid": "u0", "tailUuid": chain.parent}), size=50
    )


def kept_messages(n: int, at: Path) -> Path:
    return stepping(n, at, lambda chain, _: chain.compaction(preservedMessages={"uuids": [chain.parent, "u0"]}))


def clears(n: int, at: Path) -> Path:
    def every(chain: Chain, number: int) -> None:
        chain.clear()
        chain.typed()

    return stepping(n, at, every)


def models(n: int, at: Path) -> Path:
    chain = Chain()
    chain.typed()
    for number in range(n):
        chain.step(number, model=f"claude-{number}")
    return chain.write(at / "s.jsonl")


def two_models(n: int, at: Path) -> Path:
    chain = Chain()
    chain.typed()
    for number in range(n):
        chain.step(number, model=("claude-sonnet-4-5", "claude-haiku-4-5")[number % 2])
    return chain.write(at / "s.jsonl")


def never_cached(n: int, at: Path) -> Path:
    """Prompts that are always sent in full, although a cache could have held them."""
    chain = Chain()
    chain.typed()
    chain.cache_key = "input_tokens"
    for number in range(n):
        chain.step(number)
    return chain.write(at / "s.jsonl")


def one_id(n: int, at: Path) -> Path:
    """Every call has the same id."""
    chain = Chain()
    chain.typed()
    for _ in range(n):
        chain.reply(call("same"))
        chain.results("same", size=200)
    return chain.write(at / "s.jsonl")


def junk_blocks(n: int, at: Path) -> Path:
    """A message of n blocks that are none."""
    chain = Chain()
    chain.typed()
    chain.reply()
    chain.add("user", message={"role": "user", "content": [{}] * n})
    chain.reply()
    return chain.write(at / "s.jsonl")


def tools(n: int, at: Path) -> Path:
    chain = Chain()
    chain.typed()
    for number in range(n):
        chain.reply({**call(f"t{number}"), "name": f"tool-{number}"})
        chain.results(f"t{number}")
    return chain.write(at / "s.jsonl")


def reads(n: int, at: Path, apart: bool) -> Path:
    chain = Chain()
    chain.typed()
    for number in range(n):
        tool_input = {"offset": 1 + number * (20 if apart else 5), "limit": 10}
        chain.reply(call(f"t{number}", "/a.py", **tool_input))
        chain.results(f"t{number}")
    return chain.write(at / "s.jsonl")


def drops(n: int, at: Path, steps: int = 5, size: int = 4_000, more: int = 900, fall: int = 3_500) -> Path:
    """The context falls at each step behind some of *size*, which grow by *more* than that tells."""
    chain = Chain()
    chain.typed()
    for number in range(n * steps):
        if (number + 1) % steps:
            chain.step(number, size=size)
            chain.context += more
        else:
            chain.step(number, fall=fall, size=size)
    return chain.write(at / "s.jsonl")


def large_drops(n: int, at: Path) -> Path:
    return drops(n, at, steps=10, size=16_000, more=4_600, fall=41_000)


def every_drops(n: int, at: Path) -> Path:
    chain = Chain()
    chain.context = 10**8
    chain.typed()
    for number in range(n):
        chain.step(number, fall=5_000)
    return chain.write(at / "s.jsonl")


def lines_of_one(n: int, at: Path) -> Path:
    """One message of the model with n calls, a line each, and their results, a line each, in the other order."""
    chain = Chain()
    chain.typed()
    for number in range(n):
        chain.reply(call(f"t{number}"), id="one")
    for number in reversed(range(n)):
        chain.results(f"t{number}", size=4_000)
    chain.reply()
    return chain.write(at / "s.jsonl")


def blocks_of_one(n: int, at: Path) -> Path:
    """The same on two lines."""
    chain = Chain()
    chain.typed()
    chain.reply(*(call(f"t{number}") for number in range(n)))
    chain.results(*(f"t{number}" for number in reversed(range(n))), size=800)
    chain.reply()
    chain.typed()
    chain.reply()
    chain.typed()
    chain.reply()
    chain.typed()
    chain.reply()
    return chain.write(at / "s.jsonl")


def cleared_in_one(n: int, at: Path) -> Path:
    """A microcompaction for each of n results that stand in one message."""
    chain = Chain()
    chain.typed()
    chain.reply(*(call(f"t{number}") for number in range(n)))
    chain.results(*(f"t{number}" for number in range(n)))
    for number in range(n):
        chain.cleared(f"t{number}")
    chain.reply()
    return chain.write(at / "s.jsonl")


def rewinds(n: int, at: Path) -> Path:
    """Every turn was gone back on once."""
    chain = Chain()
    chain.typed()
    for _ in range(n):
        fork = chain.reply()
        chain.typed("one way")
        chain.reply()
        chain.parent = fork
        chain.typed("the other way")
    chain.reply()
    return chain.write(at / "s.jsonl")


def long_branch(n: int, at: Path) -> Path:
    """One branch that was left holds everything."""
    chain = Chain()
    chain.typed()
    fork = chain.reply()
    chain.typed("one way")
    for number in range(n):
        chain.step(number)
    chain.parent = fork
    chain.typed("the other way")
    chain.reply()
    return chain.write(at / "s.jsonl")


def fan(n: int, at: Path) -> Path:
    """Everything that was typed hangs below one reply."""
    chain = Chain()
    chain.typed()
    fork = chain.reply()
    for _ in range(n):
        chain.parent = fork
        chain.typed("again")
        chain.reply()
    return chain.write(at / "s.jsonl")


def cycle(n: int, at: Path) -> Path:
    """Parents that come later in the file, up to one that hangs below the last."""
    chain = Chain()
    for number in range(n):
        chain.typed(parent=f"u{(number + 1) % n}")
        chain.reply()
    return chain.write(at / "s.jsonl")


def copies(n: int, at: Path) -> Path:
    """Every record is there twice."""
    chain = Chain()
    chain.typed()
    for number in range(n):
        chain.step(number)
    chain.records *= 2
    return chain.write(at / "s.jsonl")


def clears_and_branches(n: int, at: Path) -> Path:
    chain = Chain()
    chain.typed()
    for _ in range(n):
        fork = chain.reply()
        chain.typed("one way")
        chain.reply()
        chain.parent = fork
        chain.typed("the other way")
        chain.clear()
        chain.typed()
    chain.reply()
    return chain.write(at / "s.jsonl")


def segments_and_branches(n: int, at: Path) -> Path:
    chain = Chain()
    chain.typed()
    for _ in range(n):
        fork = chain.reply()
        chain.typed("one way")
        chain.parent = fork
        tail = chain.typed("the other way")
        chain.compaction(preservedSegment={"headUuid": "u0", "tailUuid": tail})
    chain.reply()
    return chain.write(at / "s.jsonl")


def one_line(n: int, at: Path) -> Path:
    chain = Chain()
    chain.typed()
    for number in range(n // 2):
        chain.step(number)
    return chain.write(at / "s.jsonl", between=b" ")


def not_json(n: int, at: Path) -> Path:
    chain = Chain()
    chain.typed()
    path = chain.write(at / "s.jsonl")
    path.write_bytes(path.read_bytes() + b"not json at all\n" * n)
    return path


def unanswered(n: int, at: Path) -> Path:
    """Requests without results, and results without requests."""
    chain = Chain()
    chain.typed()
    for number in range(n):
        chain.reply(call(f"t{number}"))
        chain.typed()
        chain.results(f"other-{number}")
    return chain.write(at / "s.jsonl")


def plain(n: int, at: Path) -> Path:
    """Turns of a few steps."""
    chain = Chain()
    for number in range(n):
        if number % 8 == 0:
            chain.typed()
        chain.step(number)
    chain.reply()
    return chain.write(at / "s.jsonl")


def messages(n: int) -> list[Record]:
    records: list[Record] = []
    for number in range(n // 4):
        records += [
            {"role": "user", "content": f"prompt {number}"},
            {"role": "assistant", "content": [call(f"t{number}", f"/{number % 50}.py")]},
            {"role": "user", "content": [result(f"t{number}", "x" * 3_000)]},
            {"role": "assistant", "content": "done"},
        ]
    return records


def runs(n: int, at: Path) -> Path:
    path = at / "runs.json"
    path.write_bytes(encode([{"messages": messages(8)} for _ in range(n)]))
    return path


def koda_summaries(n: int, at: Path) -> Path:
    rows: list[tuple[Any, ...]] = []
    for number in range(n):
        calls = encode([{"id": f"c{number}", "function_name": "bash", "arguments": "{}"}]).decode()
        later = stamp(number + 1) if number + 1 < n else None
        rows += [
            ("k", "user", "go on", None, None, stamp(number), None),
            ("k", "assistant", "so", calls, None, stamp(number), 900),
            ("k", "tool", "fine", None, f"c{number}", stamp(number), None),
            ("k", "user", "kept", None, None, later, None),
            ("k", "system", f"{KODA_SUMMARY}\n\nall", None, None, later, None),
            ("k", "assistant", "I go on", None, None, later, None),
        ]
    return database(at / "koda.db", rows)


def koda_sessions(n: int, at: Path) -> Path:
    rows = [(f"k{n}", role, "go on", None, None, None, None) for n in range(n) for role in ("user", "assistant")]
    return database(at / "koda.db", rows)


def koda_plain(n: int, at: Path) -> Path:
    return database(at / "koda.db", [("k", "user", "x" * 200, None, None, None, None) for _ in range(n)])


def every_koda_session(n: int, at: Path) -> Fresh:
    path = koda_sessions(n, at)
    form = detect_format(path)

    def work() -> object:
        return [form.make_scanner(path, info).session() for info in form.list_sessions(path)]

    return same(work)


def reads_apart(n: int, at: Path) -> Fresh:
    file_reads = [FileRead(100, 1 + 20 * ((number * 7919) % n), 10, True) for number in range(n)]
    return same(count_wasted, file_reads)


def paired(
    function: Callable[[list[Record]], object], make_records: Callable[[int], list[Record]]
) -> Callable[[int, Path], Fresh]:
    return lambda n, at: same(function, make_records(n))


def alike(n: int) -> list[Record]:
    """Every call has the same id."""
    return [
        {"role": role, "content": [block]}
        for _ in range(n)
        for role, block in (("assistant", call("same")), ("user", result("same")))
    ]


def alike_in_one(n: int) -> list[Record]:
    """All in one message."""
    return [
        {"role": "assistant", "content": [call("same")] * n},
        {"role": "user", "content": [result("same") for _ in range(n)]},
    ]


def numbered_before(n: int) -> list[Record]:
    """Ids that those of repeated calls would get are taken."""
    duration = [call(f"same-{number}") for number in range(2, n)]
    return [{"role": "assistant", "content": [*[call("same")] * n, *duration]}]


def backwards(n: int) -> list[Record]:
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call(f"t{number}") for number in range(n)]},
        {"role": "user", "content": [result(f"t{number}") for number in reversed(range(n))]},
    ]


def neighbours(n: int) -> list[Record]:
    """Messages of one role behind each other, with the results last."""
    return [
        {"role": "user", "content": "go"},
        *({"role": "assistant", "content": [call(f"t{number}")]} for number in range(n)),
        *({"role": "user", "content": [{"type": "text", "text": "a word"}]} for number in range(n)),
        *({"role": "user", "content": [result(f"t{number}")]} for number in reversed(range(n))),
    ]


def orphans(n: int) -> list[Record]:
    return [
        {"role": "user", "content": [result(f"x{number}") for number in range(n)]},
        {"role": "assistant", "content": [call(f"t{number}") for number in range(n)]},
        {"role": "user", "content": [result(f"y{number}") for number in range(n)]},
    ]


def orphans_apart(n: int) -> list[Record]:
    records: list[Record] = []
    for number in range(n):
        records.append({"role": "assistant", "content": [call(f"t{number}")]})
        records.append({"role": "user", "content": [result(f"x{number}")]})
    return records


def only_orphans(records: list[Record]) -> object:
    return repair_orphans(records, find_unpaired(records))


Making = Callable[[int, Path], Path]


def on(work: Callable[..., Fresh], making: Making, *given: Any) -> Callable[[int, Path], Fresh]:
    """Some work on a session of a shape."""
    return lambda n, at: work(making(n, at), *given)


def document(n: int, at: Path) -> Path:
    path = at / "request.json"
    path.write_bytes(encode({"messages": messages(n)}))
    return path


def inside(
    function: Callable[[list[Record]], object], make_records: Callable[[int], list[Record]]
) -> Callable[[int, Path], Fresh]:
    """Something done with a session of messages."""

    def make(n: int, at: Path) -> Fresh:
        records = make_records(n)
        return lambda: lambda: function(records)

    return make


def marked(n: int, at: Path) -> Fresh:
    """Clearing each of n results of one message by hand."""
    path = blocks_of_one(n, at)
    return steps(path, trying("manual", clear=tuple((2, number) for number in range(n))))


def every_trigger(session: Session) -> object:
    return [
        find_firing_runs(session, policy, policy.Params()) for policy in map(POLICIES.__getitem__, list_policy_names())
    ]


OF_PARTS = ("opencode-prune", "gemini-masking", "codex", "opencode-compact", "letta")
"""Policies that are data, one for each kind of what their parts do."""


def shapes() -> Iterator[Shape]:
    """Every row."""
    yield Shape("list a folder", 400, folder)
    yield Shape("list one session among others", 400, choose_beside)
    yield Shape("list sessions with 5 agents each beside them", 100, agents_beside)
    yield Shape("list sessions with 5 agents each below them", 100, agents_below)
    yield Shape("list agents inside a file", 1_600, agents_inside)
    yield Shape("list what is on this machine, with titles", 400, discovered)
    for name, size, making in SESSIONS:
        yield Shape(f"inspect: {name}", size, on(inspect, making))
    for name, size, making in SESSIONS:
        if name in TRIGGERED:
            yield Shape(f"where triggers fire: {name}", size, on(steps, making, every_trigger))
    for name, size, making in SESSIONS:
        if name in STUDIED:
            small = min(size, 1_000)
            yield Shape(f"price and regret: {name}", small, on(steps, making, studying("openhands-masking")))
    for name, size, making in (("one id for every call", 5_000, one_id), ("junk blocks", 4_000, junk_blocks)):
        yield Shape(f"plan and apply: {name}", size, on(steps, making, trying("defect-microcompact")))
        yield Shape(f"export to claude-code: {name}", size // 5, on(exported, making, "claude-code"))
    yield Shape("read in steps: many records on one line", 1_600, on(opened, one_line))
    yield Shape("read in steps: koda rows", 1_600, on(opened, koda_plain))
    yield Shape("read in steps: turns of a few steps", 1_600, on(opened, plain))
    yield Shape("read in steps: runs in a document", 400, on(opened, runs))
    yield Shape("list koda sessions", 400, on(lambda path: same(sessions_in, path), koda_sessions))
    yield Shape("open every koda session", 100, every_koda_session)
    yield Shape("reads of one path, apart", 400, reads_apart)
    for name, pairs in PAIRS.items():
        for function in (assign_unique_ids, find_unpaired, repair, repair_minimally, only_orphans):
            yield Shape(f"pairs: {function.__name__}, {name}", 800, paired(function, pairs))
    for piece in ALMOST_SECRETS:
        yield Shape(f"find secrets in {piece!r} …", 20_000, almost_secret(piece))
    for policy in (*list_policy_names(), *OF_PARTS):
        if policy != "manual":
            yield Shape(f"plan and apply: {policy}", 200, on(steps, plain, trying(policy)))
            yield Shape(f"plan and apply: {policy}, one message", 400, on(steps, blocks_of_one, trying(policy)))
    yield Shape("plan and apply: manual, n marks", 400, marked)
    for policy in EVERY_CALL:
        yield Shape(f"replay: {policy}", 200, on(steps, plain, replaying(policy)))
    for format_name in list_writable_formats():
        yield Shape(f"export to {format_name}: turns of a few steps", 200, on(exported, plain, format_name))
        yield Shape(
            f"export to {format_name}: microcompacted", 200, on(exported, plain, format_name, "defect-microcompact")
        )
        yield Shape(
            f"export to {format_name}: a line for each result",
            200,
            on(exported, lines_of_one, format_name, "agent-sdk-prune"),
        )
        yield Shape(f"export to {format_name}: nothing answered", 200, on(exported, unanswered, format_name))
        yield Shape(f"export to {format_name}: a document", 800, on(exported, document, format_name))


SESSIONS: tuple[tuple[str, int, Making], ...] = (
    ("turns of a few steps", 200, plain),
    ("full compactions", 200, full),
    ("microcompactions", 200, micro),
    ("preserved segments", 200, segments),
    ("preserved messages", 200, kept_messages),
    ("/clear", 200, clears),
    ("a model for each request", 200, models),
    ("two models in turns", 200, two_models),
    ("never cached", 200, never_cached),
    ("one id for every call", 5_000, one_id),
    ("junk blocks", 4_000, junk_blocks),
    ("a tool for each call", 200, tools),
    ("reads apart", 200, lambda n, at: reads(n, at, True)),
    ("reads that overlap", 200, lambda n, at: reads(n, at, False)),
    ("drops", 200, drops),
    ("large drops", 200, large_drops),
    ("some large drops", 20, large_drops),  # few enough that each is explained
    ("nothing but drops", 200, every_drops),
    ("a line for each block", 200, lines_of_one),
    ("blocks in one message", 800, blocks_of_one),
    ("microcompactions in one message", 200, cleared_in_one),
    ("rewinds", 200, rewinds),
    ("one long branch that was left", 200, long_branch),
    ("many ways below one reply", 200, fan),
    ("parents in a cycle", 800, cycle),
    ("copies", 200, copies),
    ("rewinds and /clear", 200, clears_and_branches),
    ("rewinds and preserved segments", 200, segments_and_branches),
    ("records on one line", 800, one_line),
    ("lines that are no JSON", 800, not_json),
    ("nothing answered", 200, unanswered),
    ("koda summaries", 200, koda_summaries),
    ("koda rows", 800, koda_plain),
    ("a document", 800, document),
)
STUDIED = (
    *("full compactions", "a model for each request", "never cached", "one id for every call"),
    *("rewinds", "turns of a few steps", "microcompactions", "/clear"),
)
TRIGGERED = (
    *("full compactions", "microcompactions", "preserved segments", "/clear", "a model for each request"),
    *("large drops", "koda summaries", "microcompactions in one message", "turns of a few steps"),
)
PAIRS: dict[str, Callable[[int], list[Record]]] = {
    "all ids the same": alike,
    "all ids the same, in one message": alike_in_one,
    "ids that are taken": numbered_before,
    "results in reverse order": backwards,
    "neighbours of one role": neighbours,
    "orphans": orphans,
    "orphans apart": orphans_apart,
}


def table(names: Sequence[str] = ()) -> bool:
    """Print the rows, or those with one of some words in their name; whether all are within the budget."""
    print(f"{'':<58}{'n':>7}{'10 n':>9}{'n':>10}{'10 n':>11}{'ratio':>11}  budget {BUDGET}")
    good = True
    numbers = [n for n, shape in enumerate(shapes()) if not names or any(word in shape.name for word in names)]
    # Each row has a process of its own: memory that others left in pieces makes the larger of two sizes slower.
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for line, ok in pool.imap(numbered_row, numbers):
            print(line, flush=True)
            good = good and ok
    if not names or "memory" in names:
        for line, ok in journeys({name: making for name, _, making in SESSIONS}):
            print(line, flush=True)
            good = good and ok
    return good


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description="What grows how.")
    parser.add_argument("word", nargs="*", help="only rows with one of these in their name")
    return 0 if table(parser.parse_args().word) else 1


if __name__ == "__main__":
    raise SystemExit(main())
