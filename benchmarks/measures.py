"""Every budget as one small function: what was measured, and what it may be.

Budgets are ratios to something measured in the same run wherever that is possible, so that they hold on slow machines.
"""

from __future__ import annotations

import gc
import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bare import TITLE
from benchmarks.generate import generate
from benchmarks.pty import DOWN, PAGE_DOWN, Terminal
from benchmarks.text import Text

PYTHON = sys.executable
COMMAND = str(Path(PYTHON).with_name("context-tui"))
WORK = Path(__file__).parents[1] / ".bench"
SAMPLES = Path(__file__).parents[1] / "sample_sessions"
MEDIUM_BYTES = 20_000_000
LARGE_BYTES = 500_000_000
MB = 1e6


@dataclass(frozen=True)
class Row:
    """One line of the table: ``value`` has to stay at or below ``budget``.

    ``bare`` is what an application with nothing but a list took by turns with it, in the same unit. Where no more than
    the budget is left above that, what is over the budget is the machine's.
    """

    name: str
    value: float
    budget: float
    unit: str
    detail: str = ""
    bare: float = 0.0

    @property
    def verdict(self) -> str:
        """ok, noisy (over by no more than the machine accounts for), or over."""
        if self.value <= self.budget:
            return "ok"
        return "noisy" if self.value - self.bare <= self.budget else "over"


def session(size: int) -> Path:
    """A session of about ``size`` bytes, made at most once."""
    WORK.mkdir(exist_ok=True)
    path = WORK / f"session-{size}.jsonl"
    if not path.exists():
        part = path.with_suffix(".part")
        generate(part, size=size)
        part.rename(path)
    return path


def best_of(count: int, action: Callable[[], float]) -> float:
    """The smallest of ``count`` measurements: what is left is the work, not the neighbours."""
    return min(action() for _ in range(count))


def run_time(*argv: str) -> float:
    """Seconds that a command takes from start to end."""
    start = time.perf_counter()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def p95(times: list[float]) -> float:
    """The time that nineteen of twenty stay below."""
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


def startup() -> list[Row]:
    """Answers that need no session, against an interpreter that does nothing."""
    nothing = best_of(20, lambda: run_time(PYTHON, "-c", "pass"))
    rows = []
    for option in ("--version", "--help"):
        seconds = best_of(20, lambda option=option: run_time(COMMAND, option))  # type: ignore[misc]
        detail = f"{seconds * 1000:.0f} ms, python {nothing * 1000:.0f} ms"
        rows.append(Row(f"context-tui {option}", seconds / nothing, 4, "× python", detail))
    return rows


@dataclass(frozen=True)
class Work:
    """What a child process did: its processor time, and the most anonymous memory it was seen to add."""

    seconds: float
    anonymous: int


def watched(task: str, path: Path) -> Work:
    """Run ``benchmarks.work`` in a process of its own and watch its memory from here."""
    argv = [PYTHON, "-m", "benchmarks.work", task, str(path)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert child.stdin and child.stdout
    child.stdout.readline()  # it has imported what it needs
    before = peak = anonymous_memory(child.pid)
    child.stdin.write(b"go\n")
    child.stdin.flush()
    while child.poll() is None:
        peak = max(peak, anonymous_memory(child.pid))
        time.sleep(0.003)
    result = json.loads(child.stdout.read())
    return Work(result["seconds"], peak - before)


def anonymous_memory(pid: int) -> int:
    """Bytes of memory of a process that no file backs; nothing once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon")), 0)


def scan() -> list[Row]:
    """Opening a large session, against decoding each of its lines and keeping nothing."""
    path = session(LARGE_BYTES)
    size = path.stat().st_size
    results = [(watched("decode", path), watched("open", path)) for _ in range(5)]  # in turns: a machine has its moods
    decode, opened = (min(works, key=lambda work: work.seconds) for works in zip(*results, strict=True))
    times = f"{opened.seconds:.2f} s, decode {decode.seconds:.2f} s"
    memory = f"{opened.anonymous / MB:.0f} MB, decode {decode.anonymous / MB:.0f} MB"
    return [
        Row("open 500 MB: time", opened.seconds / decode.seconds, 2, "× decode", times),
        Row("open 500 MB: memory", opened.anonymous / size, 0.2, "× file", memory),
    ]


def paint(argv: list[str], text: str) -> float:
    """Seconds from start until a program in a terminal shows ``text``."""
    with Terminal(argv) as terminal:
        return terminal.wait_for(text)


@dataclass
class InTurns:
    """Seconds that something takes here and in an application with nothing but a list, measured by turns.

    What the machine does meanwhile slows both, so that the ratio is the cost, and the spread of the other the noise.
    """

    inspector: list[float]
    bare: list[float]

    def row(self, name: str, budget: float, statistic: Callable[[list[float]], float]) -> Row:
        """The row of a figure, in milliseconds."""
        return Row(
            name, statistic(self.inspector) * 1000, budget, "ms", self.detail(statistic), statistic(self.bare) * 1000
        )

    def detail(self, statistic: Callable[[list[float]], float]) -> str:
        """The ratio, and what the bare application took: its own figure, and between what half of its times were."""
        low, _, high = (each * 1000 for each in statistics.quantiles(self.bare, n=4, method="inclusive"))
        bare, ratio = statistic(self.bare), statistic(self.inspector) / statistic(self.bare)
        return f"{ratio:.1f} × a bare list: {bare * 1000:.0f} ms, half of its times {low:.0f} to {high:.0f}"


def bare() -> Terminal:
    """An application with nothing but a list."""
    return Terminal([PYTHON, "-m", "benchmarks.bare"])


def first_paint() -> list[Row]:
    """The inspector on a small session, against the smallest application there is."""
    small, times = session(100_000), InTurns([], [])
    for _ in range(7):
        times.bare.append(paint([PYTHON, "-m", "benchmarks.bare"], TITLE))
        times.inspector.append(paint([COMMAND, str(small)], small.name))
    fastest = min(times.inspector)
    return [
        Row(
            "first paint, small session",
            fastest / min(times.bare),
            2,
            "× bare",
            f"{fastest * 1000:.0f} ms: {times.detail(min)}",
        )
    ]


def loading() -> list[Row]:
    """The inspector on a large session: from the first paint to the first rows, and to the plan for all of it."""
    path = session(LARGE_BYTES)
    decode = min(watched("decode", path).seconds for _ in range(3))
    runs = []
    for _ in range(3):
        with Terminal([COMMAND, str(path)]) as terminal:
            painted = terminal.wait_for(path.name)
            rows = terminal.wait_for("asst") - painted  # a message of the model in the timeline
            runs.append((rows, terminal.wait_for("trigger_reserve") - painted))  # the settings of a plan, at the end
    first, every = (min(times) for times in zip(*runs, strict=True))
    medium, answers = session(MEDIUM_BYTES), []
    for _ in range(5):
        with Terminal([COMMAND, str(medium)]) as terminal:
            painted = terminal.wait_for(medium.name)
            answers.append(terminal.wait_for("Summarising") - painted)
    detail = f"{every:.2f} s, decode {decode:.2f} s"
    return [
        Row("first answer of 20 MB", min(answers), 0.2, "s", "from the first paint to what can go"),
        Row("first rows of 500 MB", first, 0.6, "s"),
        Row("all rows of 500 MB", every / decode, 6, "× decode", detail),
    ]


def keys(terminal: Terminal, other: Terminal, count: int) -> InTurns:
    """The time to the first output of each of ``count`` keys, at a person's pace; in turns with another program."""
    times = InTurns([], [])
    for number in range(count):
        key = PAGE_DOWN if number % 10 == 9 else DOWN
        times.inspector.append(terminal.key(key))
        terminal.settle(0.03)
        times.bare.append(other.key(key))
        other.settle(0.03)
    return times


def key_to_paint() -> list[Row]:
    """Moving through a session of 100,000 messages, while it loads and after."""
    path = session(LARGE_BYTES)
    with bare() as other, Terminal([COMMAND, str(path)]) as terminal:
        other.wait_for(TITLE)
        terminal.wait_for(path.name)
        loading = keys(terminal, other, 40)  # most of the time that it loads
        terminal.settle(1.0)
        idle = keys(terminal, other, 100)
    return [
        loading.row("key to paint p95, loading", 50, p95),
        idle.row("key to paint p95, idle", 16, p95),
    ]


def ended(argv: list[str], text: str, quiet: float) -> float:
    """Seconds from the key that ends a program until it has ended."""
    with Terminal(argv) as terminal:
        terminal.wait_for(text)
        terminal.settle(quiet) if quiet else None
        return terminal.quit("q")


def quitting() -> list[Row]:
    """Ending the inspector, at rest and in the middle of loading."""
    rows = []
    for name, path, quiet in (("at rest", session(100_000), 0.5), ("loading", session(LARGE_BYTES), 0.0)):
        times = InTurns([], [])
        for _ in range(5):
            times.bare.append(ended([PYTHON, "-m", "benchmarks.bare"], TITLE, quiet))
            times.inspector.append(ended([COMMAND, str(path)], path.name, quiet))
        rows.append(times.row(f"quit, {name}", 300, statistics.median))
    return rows


def messages(count: int) -> list[dict[str, Any]]:
    """A conversation of ``count`` messages in one context: prompts, calls with results, answers."""
    rng = random.Random(0)
    text = Text.make(rng, 5_000)
    records: list[dict[str, Any]] = []
    for number in range(count // 4):
        call, tool_input = f"call-{number}", {"file_path": f"src/module_{number % 200}.py"}
        result = {"type": "tool_result", "tool_use_id": call, "content": text.cut(rng, rng.randrange(40, 12_000))}
        records += [
            {"role": "user", "content": text.cut(rng, 80)},
            {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "Read", "input": tool_input}]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": text.cut(rng, 300)},
        ]
    return records


def parameters() -> list[Row]:
    """Moving a parameter of each policy over 100,000 messages: the totals and a screen of verdicts, and the curve."""
    import context_tui as ct
    from context_tui.policies.registry import POLICIES, list_policy_names
    from context_tui.policies.runtime_state import build_runtime_state

    opened = ct.from_messages(messages(100_000))
    context = opened.context_at()
    state = build_runtime_state(context, opened.window, len(opened), None, True)
    gc.freeze()  # the messages are at hand here only because they were never in a file
    change, curve = Row("", 0, 0, ""), Row("", 0, 0, "")
    for name in list_policy_names():
        policy = POLICIES[name]
        start = time.process_time()
        policy.plan(context, policy.Params(), state)
        first = (time.process_time() - start) * 1000
        for key, values in settings_of(policy, len(opened)).items():
            times = []
            for value in values:
                start = time.process_time()
                plan = ct.plan(opened, name, force=True, **{key: value})
                verdicts = [plan.find_verdict(message) for message in range(50_000, 50_040)]
                counts = (plan.tokens_before, plan.tokens_after, len(plan.changes), plan.messages_dropped)
                times.append(time.process_time() - start)
                assert len(verdicts) == 40 and min(counts) >= 0
            detail = f"the slowest: {name} {key}; the first time ever {first:.0f} ms"
            change = max(change, Row("parameter change p95", p95(times) * 1000, 16, "ms", detail), key=by_value)
            if name == "chain":  # a curve is over a number, and it has none of its own
                continue
            start = time.process_time()
            policy.curve(context, policy.Params(), state, key, values)
            seconds = time.process_time() - start
            detail = f"the slowest: {name} {key}"
            curve = max(curve, Row("curve of 60 values", seconds * 1000, 150, "ms", detail), key=by_value)
    gc.unfreeze()
    return [change, curve]


def along() -> list[Row]:
    """Dragging a threshold on the replay screen over 1,000 requests: the replay, and all panes drawn in 160 x 50."""
    import context_tui as ct
    from context_tui.lab.replay.recording import Recording
    from context_tui.session.facts import Usage
    from context_tui.session.values import Role
    from context_tui.tui.comparison import PolicyComparison, run_replay
    from context_tui.tui.replay import formatting
    from context_tui.tui.replay.charts import draw_charts
    from context_tui.tui.view import View

    opened, size = ct.from_messages(messages(2_000)), 10_000
    for message in range(len(opened)):
        if opened.facts.role[message] == Role.ASSISTANT:
            opened.facts.add_request(message, Usage(fresh=10, cache_read=size, output=20))
        size += sum(opened.facts.size[block] for block in opened.facts.blocks_of(message)) // 4
    opened = opened.with_window(200_000)
    slowest = Row("", 0, 0, "")
    for name, key in (("defect-microcompact", "microcompact_ratio"), ("defect-compact", "compact_ratio")):
        comparison = PolicyComparison(View(opened, policy=name))
        comparison.recording = Recording(opened)
        assert comparison.call_count == 1_000
        times, fired = [], set()
        for value in range(95, 55, -1):
            start = time.process_time()
            comparison.set_param(name, key, value / 100)
            task = comparison.choose_replay_task()
            assert task is not None
            replay = run_replay(comparison.recording, task)
            comparison.update(task, replay)
            draw_charts(comparison, 0, 158, 30)
            formatting.format_call_line(comparison, 158)
            formatting.format_policy_table(comparison, 96, 6)
            times.append(time.process_time() - start)
            fired.add(len(replay.replay.firings))
        detail = f"the slowest: {name}, {min(fired)} to {max(fired)} firings"
        slowest = max(
            slowest, Row("threshold along 1,000 requests p95", p95(times) * 1000, 50, "ms", detail), key=by_value
        )
    return [slowest]


def settings_of(policy: Any, length: int) -> dict[str, list[Any]]:
    """Sixty settings of each number that a policy has, around its default."""
    if policy.name == "chain":
        micro = [{"defect-microcompact": {"min_clear_tokens": 20 * step}} for step in range(1, 61)]
        return {"options": micro}
    if policy.name == "manual":
        return {"cut": [length * step // 60 for step in range(1, 61)]}
    values: dict[str, list[Any]] = {}
    for key, default in policy.Params().model_dump().items():
        if key == "threshold":
            default = 100_000
        highest = next((limit.le for limit in policy.Params.model_fields[key].metadata if hasattr(limit, "le")), None)
        if isinstance(default, float):
            values[key] = [step / 60 for step in range(1, 61)]
        elif isinstance(default, int) and not isinstance(default, bool):
            values[key] = [max(1, min(highest or 2 * default, default * step // 30)) for step in range(1, 61)]
    return values


def masking() -> list[Row]:
    """Looking for secrets in text that invites the search to start over at every character, against plain words.

    And in recorded text, against one pattern that is looked for in it: all shapes may cost a few of those.
    """
    from context_tui.summarizer.secrets import find_secrets

    def seconds(text: str) -> float:
        start = time.process_time()
        find_secrets(text)
        return time.process_time() - start

    prose = Text.make(random.Random(0), 40_000).plain[: int(MB)]
    plain = best_of(3, lambda: seconds(prose))
    rows = []
    for name, piece in (
        ("=", "="),
        ("identifiers", "api_key"),
        ("token=", "token="),
        ("base64", "eyJhbGciOiJIUzI1NiJ9"),
    ):
        text = (piece * len(prose))[: len(prose)]
        worst = best_of(3, lambda text=text: seconds(text))  # type: ignore[misc]
        detail = f"{worst * 1000:.0f} ms a MB, prose {plain * 1000:.0f} ms"
        rows.append(Row(f"masking, runs of {name}", worst / plain, 12, "× prose", detail))
    texts = recorded_texts()
    masked = best_of(5, lambda: sum(map(seconds, texts)))
    words = best_of(5, lambda: searching(re.compile(r"\w+"), texts))
    size = sum(map(len, texts)) / MB
    detail = f"{masked / size * 1000:.0f} ms a MB of records and their texts, words {words / size * 1000:.0f} ms"
    return [*rows, Row("masking, sample sessions", masked / words, 7, "× words", detail)]


def searching(pattern: re.Pattern[str], texts: list[str]) -> float:
    """Seconds for all matches of one pattern."""
    start = time.process_time()
    for text in texts:
        pattern.findall(text)
    return time.process_time() - start


def recorded_texts() -> list[str]:
    """The lines of the sample sessions, and the strings in them."""

    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | dict):
            for each in value.values() if isinstance(value, dict) else value:
                yield from strings(each)

    lines = [
        line for path in sorted(SAMPLES.glob("*.jsonl")) for line in path.read_text("utf-8", "replace").splitlines()
    ]
    texts = list(lines)
    for line in lines:
        with suppress(ValueError):
            texts += strings(json.loads(line))
    return texts


def by_value(row: Row) -> float:
    """What the slowest is found by."""
    return row.value


MEASURES: dict[str, Callable[[], list[Row]]] = {
    "startup": startup,
    "scan": scan,
    "paint": first_paint,
    "loading": loading,
    "keys": key_to_paint,
    "parameters": parameters,
    "along": along,
    "masking": masking,
    "quit": quitting,
}
