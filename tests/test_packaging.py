"""The wheel holds everything, and what it installs runs away from the checkout. Nothing is downloaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import context_tui

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command that must succeed; return its standard output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd, env=environment
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a release would be."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the wheel in it, and the dependencies of this one behind it."""
    home = tmp_path_factory.mktemp("env")
    run(sys.executable, "-m", "venv", "--without-pip", home)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", wheel)
    # Path files in a folder named by a path file are not read, so an editable install over there stays out of sight.
    [site] = home.glob("lib/python*/site-packages")
    site.joinpath("borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def test_the_wheel_holds_what_the_program_needs(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "context_tui/py.typed" in names
    assert any(name.startswith("context_tui/tui/") and name.endswith(".tcss") for name in names)
    samples = {path.name for path in (ROOT / "sample_sessions").iterdir() if path.is_file()}
    assert samples
    assert samples <= {Path(name).name for name in names if name.startswith("context_tui/_samples/")}
    assert not [name for name in names if name.split("/")[0] in ("tests", "benchmarks", "sample_sessions")]


def test_the_installed_command_is_the_wheel(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import context_tui; print(context_tui.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert context_tui.__version__ in run(installed / "context-tui", "--version", cwd=tmp_path)


def test_it_inspects_every_shipped_sample(installed: Path, tmp_path: Path) -> None:
    samples = sorted(installed.parent.glob("lib/python*/site-packages/context_tui/_samples/*.jsonl"))
    assert samples
    for sample in samples:
        report = json.loads(run(installed / "context-tui", "inspect", sample, "--json", cwd=tmp_path))
        assert report["schema"] == "context-tui.inspect/1"
        assert report["messages"] > 0


def test_the_demo_reports_where_there_is_no_terminal(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "context-tui", "demo", cwd=tmp_path).strip()
