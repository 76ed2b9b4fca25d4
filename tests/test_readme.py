"""The README says what the program says, and its commands work."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from context_tui.app.config import read_config
from context_tui.policies.parameter_space import build_params
from context_tui.policies.parameters import parse_assignments
from context_tui.policies.registry import POLICIES
from context_tui.summarizer.settings import resolve_endpoint
from context_tui.tui.inspector.keys import format_unknown_keys

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text("utf-8")

try:
    from scripts.readme import made, parts, run
except ModuleNotFoundError:  # an archive without the scripts
    pytest.skip("scripts/ is not here", allow_module_level=True)


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, without those that are generated."""
    written = re.sub(r"<!-- run: .*?<!-- end -->", "", TEXT, flags=re.DOTALL)
    return re.findall(rf"```{language}\n(.*?)```", written, re.DOTALL)


def commands() -> list[str]:
    """Every command line of the README that runs the program itself."""
    lines = [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("context-tui")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the samples in it, to run commands in."""
    (tmp_path / "sample_sessions").symlink_to(ROOT / "sample_sessions")
    return tmp_path


@pytest.mark.parametrize("what", parts(TEXT))
def test_the_generated_parts_are_up_to_date(what: str) -> None:
    if "--help" in what and sys.version_info >= (3, 13):
        pytest.skip("argparse lists options differently from 3.13 on")
    assert f"<!-- {what} -->\n{made(what)}\n<!-- end -->" in TEXT, "run scripts/readme.py --write"


def test_there_is_something_generated() -> None:
    assert {"keys", "policies", "formats"} < set(parts(TEXT))
    assert len(parts(TEXT)) >= 6 and len(commands()) >= 8


@pytest.mark.parametrize("command", [line for line in commands() if "--summarizer" not in line])
def test_a_command_works(command: str, folder: Path) -> None:
    done = run(command, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if out := re.search(r"-o (\S+)", command):
        assert (folder / out[1]).stat().st_size > 1_000


@pytest.mark.parametrize("command", [line for line in commands() if "--summarizer" in line])
def test_a_command_that_needs_a_server_says_what_is_missing(command: str, folder: Path) -> None:
    done = run(command, folder)
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) <= 6 and "Traceback" not in done.stderr
    assert not (folder / "s.jsonl").exists()


def test_the_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    [code] = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert "would" not in capsys.readouterr().err


def test_the_configuration_is_understood(tmp_path: Path) -> None:
    written, kept = blocks("toml")
    path = tmp_path / "config.toml"
    path.write_text(kept)
    config = read_config(path)
    assert config.theme in ("context-light", "context-dark") and not format_unknown_keys(config.keys)
    for saved in config.settings.values():
        build_params(POLICIES[saved.policy], parse_assignments(saved.params))
    path.write_text(written)
    expected = tomllib.loads(written)["summarizer"]["openai"]
    endpoint = resolve_endpoint("openai", environ={}, config=path)
    assert (endpoint.base_url, endpoint.model) == (expected["base_url"], expected["model"])


def test_what_it_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXT):
        assert (ROOT / target).exists(), target
    for anchor in re.findall(r"\]\(#([^)]+)\)", TEXT):
        titles = [re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in headings()]
        assert anchor in titles, anchor


def headings() -> list[str]:
    """The README's headings."""
    return re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)


def test_its_make_targets_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_changelog_has_this_version() -> None:
    import context_tui

    assert re.search(rf"^## (?:\[?{re.escape(context_tui.__version__)}\]?|\[?Unreleased)", changelog(), re.MULTILINE)


def changelog() -> str:
    """The changelog."""
    return (ROOT / "CHANGELOG.md").read_text("utf-8")
