"""What every test stands on: an environment with nothing of the machine in it, and the optional recordings."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Before Textual is imported: these change what is drawn, and with it every snapshot.
for name in list(os.environ):
    kept = name == "TEXTUAL_SNAPSHOT_TEMPDIR"  # the snapshot plugin hands it to its workers
    if not kept and (name in ("NO_COLOR", "FORCE_COLOR") or name.startswith(("TEXTUAL_", "CONTEXT_TUI_"))):
        del os.environ[name]
os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}  # with few colours everything looks different
# No test may reach an account, whatever it does wrong.
for name in list(os.environ):
    if name.endswith(("_API_KEY", "_AUTH_TOKEN")) or name.startswith(("ANTHROPIC_", "OPENAI_", "CLAUDE_")):
        del os.environ[name]

# Nor the settings, sessions or clock of whoever runs the tests.
_home = tempfile.mkdtemp(prefix="context-tui-tests-")
for name in ("CONFIG", "DATA", "STATE", "CACHE"):
    os.environ[f"XDG_{name}_HOME"] = str(Path(_home, name.lower()))
os.environ["CONTEXT_TUI_CONFIG"] = str(Path(_home, "config.toml"))
os.environ["CONTEXT_TUI_STATE"] = ""  # what one test chose is not where another one begins
os.environ["CONTEXT_TUI_CACHE"] = ""  # nor what one test read what another one gets
os.environ["TZ"] = "UTC"

# Nor the formats and policies of packages that are installed beside it.
_all_entry_points: Any = importlib.metadata.entry_points


def _list_other_entry_points(**selection: Any) -> Any:
    return () if str(selection.get("group", "")).startswith("context_tui.") else _all_entry_points(**selection)


vars(importlib.metadata)["entry_points"] = _list_other_entry_points

# Whoever runs the tests in the background may ignore signals, and processes that tests start would do so too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A loaded machine is slow now and then; that is not a failure.
settings.register_profile("context-tui", deadline=None)
settings.load_profile("context-tui")


@pytest.fixture(autouse=True)
def _forget_policies() -> Iterator[None]:
    """A policy that a command of one test registered is not on the screens of the next."""
    from context_tui.policies.registry import POLICIES

    registered = POLICIES._extensions[0]
    known = dict(registered)
    yield
    if registered != known:
        registered.clear()
        registered.update(known)


def pytest_unconfigure() -> None:
    """Take the temporary home away again."""
    import shutil

    shutil.rmtree(_home, ignore_errors=True)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recordings and vectors that may lie beside the checkout."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("no ../shared folder beside the checkout")
    return folder
