"""What is measured in a process of its own: ``python -m benchmarks.work decode|open|journey PATH``.

Prints a line when all imports are done, waits for one, works, and prints how much processor time that took: both run
on one thread, and the neighbours on this machine are not what is measured.
"""

from __future__ import annotations

import json
import mmap
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.shapes import Chain

SMALL = Path(__file__).parents[1] / "sample_sessions" / "coding-session.jsonl"


def decode(path: Path) -> None:
    """Decode every line and keep nothing: the least that reading a session can cost."""
    decoder = msgspec.json.Decoder()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view = memoryview(data)
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            decoder.decode(view[start:end])
            start = end + 1
        view.release()


def open_session(path: Path) -> object:
    """Open it as the program does; the result is kept, as its memory counts."""
    import context_tui

    return context_tui.open_session(path)


def journey(path: Path) -> object:
    """Open a session, plan, replay a policy that fires at every call, and export it to its own format."""
    import context_tui as ct
    from context_tui.export.files import export, list_writable_formats
    from context_tui.lab.replay.walk import replay

    session = ct.open_session(path)
    plan = ct.plan(session, "openhands-masking", force=True)
    firings = replay(session, "openhands-masking")
    format_name = session.info.format if session.info.format in list_writable_formats() else "agent-sdk"
    with tempfile.TemporaryDirectory(prefix="context-tui-memory-") as folder:
        export(ct.apply(session, plan), Path(folder, "out"), format_name, force=True)
    return session, plan, firings


def empty(path: Path) -> Path:
    """Write a session of three messages."""
    chain = Chain()
    chain.typed()
    chain.step(0)
    return chain.write(path)


def main() -> None:
    """Do one piece of work when told to."""
    task, path = sys.argv[1], Path(sys.argv[2])
    works: dict[str, Callable[[Path], object]] = {"decode": decode, "open": open_session, "journey": journey}
    work = works[task]
    if task == "journey":
        with tempfile.TemporaryDirectory(prefix="context-tui-memory-") as folder:
            work(empty(Path(folder, "s.jsonl")))
    else:
        work(SMALL)  # what it imports is there, and Python has seen the code
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.process_time()
    result = work(path)
    seconds = time.process_time() - start
    time.sleep(0.1)  # to be looked at
    print(json.dumps({"seconds": seconds, "kept": result is not None}))


if __name__ == "__main__":
    main()
