"""Rebuild the sample sessions from what is stored here; the same bytes each time, and nothing is run for it.

With a folder as its argument they are written there, else to ``sample_sessions/``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SAMPLES = {
    "coding-session.jsonl": "coding",
    "agent-sdk-request.json": "agent_sdk",
    "broken-on-purpose.jsonl": "broken",
    "compacted-session.jsonl": "compacted",
    "images-and-languages.jsonl": "languages",
    "koda.db": "koda",
    "openai-chat.json": "openai_chat",
}
"""Files, and the module of ``scripts.samples`` whose ``build`` makes each."""


def build(folder: Path) -> list[Path]:
    """Write every sample into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, module in SAMPLES.items():
        make: Callable[[], bytes] = import_module(f"scripts.samples.{module}").build
        path = folder / name
        path.write_bytes(make())
        written.append(path)
    return written


def main(arguments: list[str]) -> int:
    """The command line."""
    for path in build(Path(arguments[0]) if arguments else ROOT / "sample_sessions"):
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
