"""The README and the pages in docs/ say what the program says, and their commands work."""

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
from context_tui.tui.widgets.bindings import check_keymap

ROOT = Path(__file__).parents[1]

try:
    from scripts.readme import PAGES, build_part, list_parts, run
except ModuleNotFoundError:  # an archive without the scripts
    pytest.skip("scripts/ is not here", allow_module_level=True)

TEXTS = {str(page.relative_to(ROOT)): page.read_text("utf-8") for page in PAGES}
PARTS = [(page, part) for page, text in TEXTS.items() for part in list_parts(text)]
CHECKED = ("README.md", "docs/configuration.md", "docs/json.md")
"""Pages whose commands, code and configuration are run."""


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, without those that are generated."""
    text = "\n".join(TEXTS[page] for page in CHECKED)
    written = re.sub(r"<!-- run: .*?<!-- end -->", "", text, flags=re.DOTALL)
    return re.findall(rf"```{language}\n(.*?)```", written, re.DOTALL)


def commands() -> list[str]:
    """Every command line of these pages that runs the program itself."""
    lines = [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("context-tui")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the samples in it, to run commands in."""
    (tmp_path / "sample_sessions").symlink_to(ROOT / "sample_sessions")
    return tmp_path


@pytest.mark.parametrize(("page", "part"), PARTS)
def test_the_generated_parts_are_up_to_date(page: str, part: str) -> None:
    if "--help" in part and sys.version_info >= (3, 13):
        pytest.skip("argparse lists options differently from 3.13 on")
    assert f"<!-- {part} -->\n{build_part(part)}\n<!-- end -->" in TEXTS[page], "run scripts/readme.py --write"


def test_there_is_something_generated() -> None:
    assert {"keys", "policies", "formats"} < {part for _, part in PARTS}
    assert len(PARTS) >= 6 and len(commands()) >= 8


@pytest.mark.parametrize("command", [line for line in commands() if "--summarizer" not in line])
def test_a_command_works(command: str, folder: Path) -> None:
    done = run(command, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if out := re.search(r"-o (\S+)", command):
        assert (folder / out[1]).stat().st_size > 1_000


@pytest.mark.slow
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
    kept, written = blocks("toml")
    path = tmp_path / "config.toml"
    path.write_text(kept)
    config = read_config(path)
    assert config.theme in ("context-light", "context-dark") and not check_keymap(config.keys)[1]
    for saved in config.settings.values():
        build_params(POLICIES[saved.policy], parse_assignments(saved.params))
    path.write_text(written)
    expected = tomllib.loads(written)["summarizer"]["openai"]
    endpoint = resolve_endpoint("openai", environ={"CONTEXT_TUI_CONFIG": str(path)})
    assert (endpoint.base_url, endpoint.model) == (expected["base_url"], expected["model"])


@pytest.mark.parametrize("page", TEXTS)
def test_what_it_links_to_is_there(page: str) -> None:
    text = TEXTS[page]
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        assert "://" in target or ((ROOT / page).parent / target).exists(), target
    titles = [re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in headings(text)]
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        assert anchor in titles, anchor


def headings(text: str) -> list[str]:
    """The headings of a page."""
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_the_readme_is_short() -> None:
    assert len(TEXTS["README.md"].splitlines()) < 350


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
