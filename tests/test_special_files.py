"""Pipes, devices and files of any size in place of what a person writes: an error of one line, at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from context_tui.text.files import MAX_SETTINGS_BYTES

SAMPLE = Path(__file__).parents[1] / "sample_sessions" / "coding-session.jsonl"


def make_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_SETTINGS_BYTES + 1)


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.slow
@pytest.mark.parametrize("make", [os.mkfifo, link_to_device, make_large])
@pytest.mark.parametrize(
    "name", ["config.toml", "state.json", "policies/mine.toml", "file.toml", "gate.toml", "prompt"]
)
def test_settings_are_small_regular_files(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    make(path)
    command = {
        "config.toml": ["plan", SAMPLE, "-P", "frugal"],
        "policies/mine.toml": ["plan", SAMPLE, "-P", "mine"],
        "file.toml": ["plan", SAMPLE, "--policy-file", path],
        "gate.toml": ["sweep", SAMPLE, "--gate", path],
        "prompt": ["compare", SAMPLE, "-P", "defect-compact", "--prompt", path],
    }.get(name)
    program = [sys.executable, "-m", "context_tui", *(command or [])]
    if not command:
        program = [
            sys.executable,
            "-c",
            "import sys; from context_tui.app.state import *; read_state(find_state_path())",
        ]
    done = subprocess.run(
        list(map(str, program)),
        env={
            **os.environ,
            "CONTEXT_TUI_CONFIG": str(tmp_path / "config.toml"),
            "CONTEXT_TUI_STATE": str(tmp_path / "state.json"),
        },
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    if name == "state.json":
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode in (1, 2) and str(path) in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) <= 2, done.stderr


def test_a_null_device_is_an_empty_configuration() -> None:
    from context_tui.app.config import Config, read_config

    assert read_config(Path(os.devnull)) == Config()
