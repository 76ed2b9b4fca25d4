"""What is loaded when: the command line starts fast, and the model needs no screen, network or terminal.

The import contracts read the source; these tests look at what a fresh process really loaded.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import context_tui

HEAVY = frozenset({"textual", "rich", "httpx", "pydantic", "msgspec", "platformdirs"})
PURE = ("session", "tokens", "compaction", "policies", "lab")


def loaded_by(code: str) -> set[str]:
    """The top-level names of the modules that a fresh interpreter has loaded after ``code``."""
    # atexit, as the code may end the process; stderr, as it may print.
    watch = "import atexit, sys; atexit.register(lambda: print('\\n@', *sys.modules, file=sys.stderr))\n"
    done = subprocess.run(
        [sys.executable, "-c", watch + code], capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.rpartition("\n@")[2].split()}


def submodules(layer: str) -> list[str]:
    """Every module of one layer, by its full name."""
    package = f"context_tui.{layer}"
    found = pkgutil.walk_packages([str(Path(context_tui.__file__).with_name(layer))], f"{package}.")
    return [package, *(module.name for module in found)]


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_answers_without_loading_anything_heavy(option: str) -> None:
    run = f"sys.argv = ['context-tui', {option!r}]; runpy.run_module('context_tui', run_name='__main__')"
    assert loaded_by(f"import runpy, sys; {run}") & HEAVY == set()


def test_importing_the_package_is_light() -> None:
    assert loaded_by("import context_tui; context_tui.__version__") & HEAVY == set()


@pytest.mark.parametrize("layer", PURE)
def test_the_model_needs_no_screen_and_no_network(layer: str) -> None:
    code = "".join(f"import {name}\n" for name in submodules(layer))
    assert loaded_by(code) & {"textual", "rich", "httpx"} == set()


def test_reading_a_session_needs_no_screen_and_no_network() -> None:
    sample = next(Path(context_tui.__file__).parents[1].joinpath("sample_sessions").glob("*.jsonl"))
    code = f"import context_tui as ct; ct.plan(ct.open_session({str(sample)!r}), 'defect-microcompact')"
    assert loaded_by(code) & {"textual", "rich", "httpx"} == set()


def test_what_renders_messages_is_loaded_once_one_is_read() -> None:
    code = "import context_tui.tui.inspector.screen"
    assert loaded_by(code) & {"markdown_it", "pygments"} == set()


def test_what_is_on_screen_is_known_without_the_application() -> None:
    code = "import context_tui.tui.controller, sys; print([n for n in sys.modules if n.startswith('textual.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "textual.app" not in run.stdout and "textual.widget" not in run.stdout


def test_the_picker_needs_no_policies_and_no_inspector() -> None:
    code = "import context_tui.cli.browse, context_tui.tui.app, context_tui.tui.picker.screen"
    assert "pydantic" not in loaded_by(code)


@pytest.mark.parametrize("command", ["inspect", "plan", "replay", "sweep", "cache", "aftermath"])
def test_commands_load_numpy_late(command: str) -> None:
    """It takes as long to load as the rest of a command."""
    assert "numpy" not in loaded_by(f"import context_tui.cli.{command}")
