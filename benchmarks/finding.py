"""Finding sessions: a home folder with those of six agents, listed, painted, scrolled through and filtered.

`python -m benchmarks.finding FOLDER` makes such a home folder, to look at.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.bare import TITLE
from benchmarks.measures import COMMAND, PYTHON, InTurns, Row, bare, best_of, p95, paint
from benchmarks.pty import COMPILED, DOWN, PAGE_DOWN, PAGE_UP, Terminal

SESSIONS = 10_000
HEADING, FIRST, ALL = "Open a session", "claude-code", f"{SESSIONS // 1000},0"
"""What is on the screen once the picker is there, once it shows sessions, and once all of them are counted."""
HELD = 1 / 30
"""Seconds between two keys while one is held."""
HOLLOW = 500_000
"""Bytes of a file on average: 5 GB in all, most of which is a hole at its end that takes no room on the disk."""


def _claude_code(home: Path, rng: Random, number: int) -> Path:
    folder, name = home / f".claude/projects/-home-dev-project-{number % 97}", _uuid(rng)
    if number % 4 == 0:  # a sub-agent, which is listed below it
        side = {"isSidechain": True, "agentId": name[:8], "sessionId": name}
        _lines(folder / f"agent-{name[:8]}.jsonl", number, ({**each, **side} for each in _claude_records(number)))
    return _lines(folder / f"{name}.jsonl", number, ({**each, "sessionId": name} for each in _claude_records(number)))


def _claude_records(number: int) -> Iterator[dict[str, Any]]:
    for turn in range(6):
        ask = {"role": "user", "content": f"Task {number}.{turn}: " + "look at the build. " * 20}
        yield {
            "type": "user",
            "uuid": f"u{turn}",
            "parentUuid": f"a{turn - 1}" if turn else None,
            "message": ask,
        }
        usage = {"input_tokens": 10, "cache_read_input_tokens": 900 * (turn + 1) + number, "output_tokens": 50}
        content = [{"type": "text", "text": "Done. " * 40}]
        reply = {"id": f"m{turn}", "role": "assistant", "model": "claude-opus-4-5", "content": content, "usage": usage}
        yield {"type": "assistant", "uuid": f"a{turn}", "parentUuid": f"u{turn}", "message": reply}


def _codex(home: Path, rng: Random, number: int) -> Path:
    name, day = _uuid(rng), f"{number % 12 + 1:02}/{number % 28 + 1:02}"
    stamp = "2026-01-01T00:00:00.000Z"
    meta = {"id": name, "timestamp": stamp, "cwd": f"/home/dev/project-{number % 97}", "originator": "cli"}
    records = [{"timestamp": stamp, "type": "session_meta", "payload": meta}]
    for role, kind in (("user", "input_text"), ("assistant", "output_text")) * 4:
        content = [{"type": kind, "text": f"Task {number}: " + "look at the build. " * 20}]
        item = {"type": "message", "role": role, "content": content}
        records.append({"timestamp": stamp, "type": "response_item", "payload": item})
    folder = home / f".codex/sessions/2026/{day}"
    return _lines(folder / f"rollout-2026-01-01T00-00-00-{name}.jsonl", number, iter(records))


def _cline(home: Path, rng: Random, number: int) -> Path:
    folder = home / f".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/{1_700_000_000_000 + number}"
    return _document(folder / "api_conversation_history.json", _messages(number))


def _roo(home: Path, rng: Random, number: int) -> Path:
    folder = home / f".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/{_uuid(rng)}"
    return _document(folder / "api_conversation_history.json", _messages(number))


def _messages(number: int) -> list[dict[str, Any]]:
    ask = f"<task>\nTask {number}\n</task>" + "look at the build. " * 20
    turn = [
        ("user", [ask, "<environment_details>\n# Current Mode\n</environment_details>"]),
        ("assistant", ["Done. " * 40]),
    ]
    return [
        {"role": role, "content": [{"type": "text", "text": each} for each in content]} for role, content in turn * 4
    ]


def _openhands(home: Path, rng: Random, number: int) -> Path:
    event = {"id": 0, "source": "user", "action": "message", "args": {"content": f"Task {number}"}, "message": "Task"}
    return _document(home / f".openhands/sessions/{_uuid(rng)}/events/0.json", event)


def _swe_agent(home: Path, rng: Random, number: int) -> Path:
    history = [{"role": "user", "content": f"Task {number}", "agent": "main", "message_type": "observation"}]
    run = {"environment": "main", "trajectory": [], "history": history, "info": {}}
    return _document(home / f"trajectories/me/run-{number % 97}/task-{number}/task-{number}.traj", run)


def _uuid(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _lines(path: Path, number: int, records: Iterator[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
        if number % 50 == 0:  # few, and large: what is too large is not read
            file.truncate(HOLLOW * 50)
    return path


def _document(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


AGENTS = ((_claude_code, 40), (_codex, 30), (_cline, 10), (_roo, 5), (_openhands, 5), (_swe_agent, 10))
"""Who has how many of a hundred sessions."""


def make_home(home: Path, count: int) -> int:
    """Fill a home folder with sessions of all agents, each at a time of its own; returns how many bytes they have."""
    rng, now, size = Random(0), time.time(), 0
    makers = [make for make, share in AGENTS for _ in range(share)]
    for number in range(count):
        path = makers[number * 37 % 100](home, rng, number)
        os.utime(path, (now - 60 * number, now - 60 * number))
        size += path.stat().st_size
    return size


@contextmanager
def home_with(count: int) -> Iterator[tuple[Path, dict[str, str], int]]:
    """A temporary home folder with sessions, what says that it is the home, and the bytes in it."""
    home = Path(tempfile.mkdtemp(prefix="context-tui-home-"))
    try:
        size = make_home(home, count)
        environ = {
            "HOME": str(home),
            "SWE_AGENT_TRAJECTORY_DIR": str(home / "trajectories"),
            "CONTEXT_TUI_CACHE": str(home / "cache.db"),
        }
        yield home, environ, size
    finally:
        shutil.rmtree(home, ignore_errors=True)


def looked_at(home: Path) -> float:
    """Seconds to find all files below a folder and ask for their sizes, with nothing kept of it."""
    start = time.perf_counter()
    for folder, _, names in os.walk(home):
        for name in names:
            os.stat(os.path.join(folder, name))
    return time.perf_counter() - start


def listed(environ: dict[str, str]) -> float:
    """Seconds of the processor that the command takes to list all sessions by their names, times and sizes."""
    argv, before = [COMMAND, "sessions", "--brief", "--limit", "0"], resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(argv, env=os.environ | COMPILED | environ, capture_output=True, check=True, text=True)
    after, lines = resource.getrusage(resource.RUSAGE_CHILDREN), len(result.stdout.splitlines())
    assert lines > SESSIONS, f"{lines} lines for {SESSIONS} sessions"
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def appearing(environ: dict[str, str]) -> dict[str, InTurns]:
    """Seconds from the start until the picker is there, shows sessions, and shows all; against a bare list."""
    times_by_text = {text: InTurns([], []) for text in (HEADING, FIRST, ALL)}
    for _ in range(5):
        nothing = paint([PYTHON, "-m", "benchmarks.bare"], TITLE)
        with Terminal([COMMAND], env=environ) as terminal:
            for text, times in times_by_text.items():
                times.inspector.append(terminal.wait_for(text))
                times.bare.append(nothing)
    return times_by_text


def held(terminal: Terminal, other: Terminal, count: int) -> InTurns:
    """The time to the first output of each of *count* pages, at the pace of a key that is held; by turns."""
    times = InTurns([], [])
    for number in range(count):
        to_and_fro = PAGE_UP if number % 2 else PAGE_DOWN  # the other list is short
        for each, key, durations in ((terminal, PAGE_DOWN, times.inspector), (other, to_and_fro, times.bare)):
            start = time.perf_counter()
            durations.append(each.key(key))
            while (remaining := HELD - (time.perf_counter() - start)) > 0:
                each.read(remaining)
    return times


def typed(terminal: Terminal, other: Terminal) -> InTurns:
    """The time to the first output of each character of a filter."""
    terminal.key("/")
    times = InTurns([], [])
    for character in ("task 12" + "\x7f" * 7) * 3:
        terminal.settle(0.05, timeout=0.3)
        times.inspector.append(terminal.key(character))
        other.settle(0.05, timeout=0.3)
        times.bare.append(other.key(DOWN))
    return times


def finding() -> list[Row]:
    """Ten thousand sessions of six agents: listed, shown in the picker, scrolled through and filtered."""
    with home_with(SESSIONS) as (home, environ, size):
        walked, seconds = best_of(3, lambda: looked_at(home)), best_of(3, lambda: listed(environ))
        times_by_text = appearing(environ)
        with bare() as other, Terminal([COMMAND], env=environ) as terminal:
            other.wait_for(TITLE)
            terminal.wait_for(FIRST)
            at_once = held(terminal, other, 40)
            terminal.wait_for(ALL)
            terminal.settle(0.5, timeout=5)
            later = held(terminal, other, 100)
            filtered = typed(terminal, other)
    detail = f"{SESSIONS:,} files of {size / 1e9:.1f} GB, {seconds / walked:.1f} × walk and stat: {walked:.2f} s"
    return [
        Row("list 10,000 sessions, processor", seconds, 1, "s", detail),
        _since_start("first paint, 10,000 sessions", times_by_text[HEADING], 0.5, 2),
        _since_start("first sessions of 10,000", times_by_text[FIRST], 0.5, 3),
        _since_start("all of 10,000 sessions", times_by_text[ALL], 1.5, 6),
        at_once.row("page down held, at once, p95", 50, p95),
        later.row("page down held p95, picker", 50, p95),
        filtered.row("filter key to paint p95, picker", 50, p95),
    ]


def _since_start(name: str, times: InTurns, seconds: float, ratio: float) -> Row:
    """The ratio to a bare list; where that alone takes long, the seconds are the machine's."""
    value = min(times.inspector) / min(times.bare)
    return Row(name, value, ratio, "× bare", f"{min(times.inspector):.2f} s, on a quiet machine {seconds} s at most")


if __name__ == "__main__":
    print(make_home(Path(sys.argv[1]), SESSIONS))
