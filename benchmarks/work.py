"""What is measured in a process of its own: ``python -m benchmarks.work decode|open PATH``.

Prints a line when all imports are done, waits for one, works, and prints how much processor time that took: both run
on one thread, and the neighbours on this machine are not what is measured.
"""

from __future__ import annotations

import json
import mmap
import sys
import time
from pathlib import Path

import msgspec

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


def main() -> None:
    """Do one piece of work when told to."""
    task, path = sys.argv[1], Path(sys.argv[2])
    work = {"decode": decode, "open": open_session}[task]
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
