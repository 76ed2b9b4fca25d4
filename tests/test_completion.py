"""Completion in shells, help of a command, and the nearest command for a word that is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from context_tui.cli import COMMANDS, main
from context_tui.policies.registry import POLICIES

ROOT = Path(__file__).parents[1]


def complete(line: str) -> list[str]:
    """Return what a shell offers for the word at the end of a line."""
    variables = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n"}
    code = "import os, sys; os.dup2(1, 8); os.dup2(2, 9); from context_tui.cli import main; sys.exit(main([]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **variables, "_ARC_DEBUG": ""},
        check=False,
    )
    return [word.strip() for word in done.stdout.split("\n") if word]


@pytest.mark.slow
def test_commands_options_policies_and_files_are_completed() -> None:
    assert complete("context-tui ins") == ["inspect"]
    assert set(COMMANDS) <= set(complete("context-tui "))
    assert complete("context-tui plan --ig") == ["--ignore-trigger"]
    assert complete("context-tui plan -P claude") == [name for name in POLICIES if name.startswith("claude")]
    assert complete("context-tui sweep sample_sessions/coding-s") == ["sample_sessions/coding-session.jsonl"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "context-tui" in capsys.readouterr().out


def test_bash_takes_its_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out + "\ncomplete -p context-tui\n")
    done = subprocess.run(["bash", "--norc", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "-F _python_argcomplete context-tui" in done.stdout, done.stderr


def test_a_word_near_a_command_is_answered_by_that_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspekt"]) == 2
    assert "did you mean `context-tui inspect`?" in capsys.readouterr().err
    assert main(["nothing-like-it"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "plan"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: context-tui plan")
    assert main(["help"]) == 0 and "commands:" in capsys.readouterr().out
    assert main(["help", "plna"]) == 2
    assert "plna is no command; did you mean `context-tui plan`?" in capsys.readouterr().err
