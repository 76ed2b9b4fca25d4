"""Plays the coding session once, in a clone of this repository, and stores what each tool call really returned.

    python -m scripts.samples.recording

``coding-session.toml`` says what is asked, thought, said and called; ``coding-session.results.json`` is what this
module writes beside it. Only a change of the play needs this: the sample itself is built from the two files.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLAY, RESULTS = HERE / "coding-session.toml", HERE / "coding-session.results.json"
CWD = "/home/dev/context-tui"

NOT_FOUND = "<tool_use_error>String to replace not found in file.\nString: {}</tool_use_error>"


def play() -> dict[str, Any]:
    """The play."""
    return tomllib.loads(PLAY.read_text("utf-8"))


def calls_of(script: dict[str, Any]) -> list[dict[str, Any]]:
    """Every call of the play, in order."""
    return [call for turn in script["turn"] for step in turn.get("step", []) for call in step.get("call", [])]


class Stage:
    """A clone of the repository at the commit where the play begins."""

    def __init__(self, folder: Path, commit: str) -> None:
        self.folder = folder
        self.run(["git", "clone", "-q", str(ROOT), str(folder)], Path.cwd())
        self.run(["git", "checkout", "-q", "-b", "largest-results", commit], folder)

    @staticmethod
    def run(command: list[str], cwd: Path) -> None:
        """A command that must succeed."""
        subprocess.run(command, cwd=cwd, check=True)

    def call(self, call: dict[str, Any]) -> dict[str, Any]:
        """Carry out one call; what the model is told, and whether it is an error."""
        result_text, error = getattr(self, call["tool"].lower())(call)
        return {"told": self.scrub(result_text), "error": error}

    def scrub(self, text: str) -> str:
        """Without places of this machine, and without the times that tests took."""
        text = text.replace(str(self.folder), CWD).replace(str(ROOT), CWD)
        text = re.sub(
            re.escape(tempfile.gettempdir()) + r"/pytest-of-\w+/pytest-\d+", "/tmp/pytest-of-dev/pytest-7", text
        )
        return re.sub(r" in \d+\.\d\ds", " in 0.42s", text)

    def read(self, call: dict[str, Any]) -> tuple[str, bool]:
        """The lines of a file, numbered."""
        path = self.folder / call["file"]
        if not path.exists():
            return f"File does not exist. Current working directory: {CWD}", True
        first = call.get("offset", 1)
        lines = path.read_text("utf-8").splitlines()[first - 1 :][: call.get("limit", 2000)]
        return "\n".join(f"{number:6}\u2192{line}" for number, line in enumerate(lines, first)), False

    def bash(self, call: dict[str, Any]) -> tuple[str, bool]:
        """Standard output and errors of a command."""
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        environment = {
            "PATH": path,
            "HOME": str(self.folder.parent),
            "COLUMNS": "80",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        process = subprocess.run(
            ["bash", "-c", call["command"]],
            cwd=self.folder,
            env=environment | {"GIT_PAGER": "cat", "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        out = process.stdout.rstrip("\n")
        return (f"Exit code {process.returncode}\n{out}" if process.returncode else out), process.returncode != 0

    def grep(self, call: dict[str, Any]) -> tuple[str, bool]:
        """Lines of tracked files that match."""
        flags = "-nE" if call.get("mode", "content") == "content" else "-lE"
        command = ["git", "grep", flags, call["pattern"], "--", call.get("path", ".")]
        matches = subprocess.run(command, cwd=self.folder, capture_output=True, text=True).stdout.rstrip("\n")
        if flags == "-lE":
            return f"Found {len(matches.splitlines())} files\n{matches}", False
        return matches or "No matches found", False

    def edit(self, call: dict[str, Any]) -> tuple[str, bool]:
        """Replace a text that occurs once."""
        path = self.folder / call["file"]
        text = path.read_text("utf-8")
        if text.count(call["old"]) != 1:
            return NOT_FOUND.format(call["old"]), True
        path.write_text(text.replace(call["old"], call["new"]), "utf-8")
        return f"The file {path} has been updated successfully.", False

    def write(self, call: dict[str, Any]) -> tuple[str, bool]:
        """Write a file."""
        path = self.folder / call["file"]
        path.write_text(call["content"], "utf-8")
        return f"File created successfully at: {path}", False


def main() -> int:
    """Play it, and store the results."""
    script = play()
    results = []
    with tempfile.TemporaryDirectory(prefix="play-") as folder:
        stage = Stage(Path(folder) / "context-tui", script["commit"])
        for number, call in enumerate(calls_of(script)):
            result = stage.call(call)
            results.append(result)
            label = str(call.get("command") or call.get("file") or call.get("pattern"))
            error = "error " if result["error"] else ""
            print(f"{number:3} {call['tool']:5} {len(result['told']):6,} {error}{label[:90]}")
    RESULTS.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
