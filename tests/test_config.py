"""The configuration file: what it may say, what is saved in it, and that nothing else in it changes."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from context_tui.app.config import (
    Config,
    ConfigError,
    SavedSettings,
    read_config,
    save_settings,
    save_theme,
    validate_name,
)
from context_tui.cli import main
from context_tui.policies.parameter_space import build_params, find_changed_values
from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import POLICIES
from context_tui.text import files

WRITTEN = """\
# my settings
theme = "context-light"  # bright room

[summarizer.anthropic]
model = "m"

[keys]
apply = "A"

[settings.frugal]
policy = "defect-microcompact"
params = ["keep_recent_turns=1"]  # one is enough
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "folder" / "config.toml"
    monkeypatch.setenv("CONTEXT_TUI_CONFIG", str(path))
    return path


@pytest.fixture
def written(path: Path) -> Path:
    path.parent.mkdir()
    path.write_text(WRITTEN)
    return path


def test_it_says_what_stands_in_it(written: Path) -> None:
    frugal = SavedSettings("defect-microcompact", ("keep_recent_turns=1",))
    assert read_config() == Config("context-light", {"apply": "A"}, {"frugal": frugal})


def test_no_file_is_no_settings(path: Path) -> None:
    assert read_config() == Config()


def test_a_file_that_cannot_be_read_is_not_called_wrong(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_config()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("theme = 1", "theme must be a name"),
        ("keys = 1", "keys must be a table"),
        ("[keys]\napply = 1", "keys.apply must be keys"),
        ("[settings]\na = 1", "settings.a must be a table"),
        ("[settings.a]", "settings.a names no policy"),
        ('[settings.a]\npolicy = "x"\nparams = "k=v"', "settings.a.params must be a list"),
        ("x", "is not valid TOML"),
    ],
)
def test_what_is_wrong_is_told_in_a_line_and_not_written_over(path: Path, text: str, wrong: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    for act in (read_config, lambda: save_theme("x"), lambda: save_settings("a", SavedSettings("chain", ()))):
        with pytest.raises(ConfigError, match=wrong) as error:
            act()
        assert "\n" not in str(error.value)
    assert path.read_text() == text


def test_saving_changes_nothing_else(written: Path) -> None:
    assert save_settings("wide", SavedSettings("chain", ("koda-microcompact.keep_recent=9",))) == written
    save_settings("frugal", SavedSettings("defect-microcompact", ("keep_recent_turns=2",)))
    save_theme("dracula")
    text = written.read_text()
    assert text.startswith('# my settings\ntheme = "dracula"  # bright room\n\n[summarizer.anthropic]\nmodel = "m"\n')
    assert '[keys]\napply = "A"\n' in text and "keep_recent_turns=1" not in text
    config = read_config()
    assert config.theme == "dracula" and config.settings["wide"].params == ("koda-microcompact.keep_recent=9",)
    assert config.settings["frugal"].params == ("keep_recent_turns=2",)
    assert not [each for each in written.parent.iterdir() if each != written], "nothing is left beside it"


def test_a_file_is_made_where_there_is_none(path: Path) -> None:
    save_theme("context-light")
    save_settings("one", SavedSettings("manual", ("clear=2:0,4:1",)))
    assert read_config() == Config("context-light", {}, {"one": SavedSettings("manual", ("clear=2:0,4:1",))})


def test_a_folder_that_cannot_be_written_is_named_without_our_temporary_file(path: Path) -> None:
    path.parent.write_text("not a folder")
    with pytest.raises(ConfigError) as error:
        save_theme("x")
    assert str(path) in str(error.value) and ".tmp" not in str(error.value)


def test_two_that_save_at_once_lose_nothing(path: Path) -> None:
    def save(first: int) -> None:
        for number in range(first, first + 10):
            save_settings(f"s{number}", SavedSettings("chain", ()))

    threads = [Thread(target=save, args=(first,)) for first in (0, 10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(read_config().settings) == {f"s{number}" for number in range(40)}
    assert [each.name for each in path.parent.iterdir()] == [path.name], "nothing is left beside it"


def test_a_folder_that_stays_locked_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.05)
    with files.lock_folder(path.parent), pytest.raises(ConfigError, match="another program has locked it"):
        save_theme("x")


def test_a_link_is_followed(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(written)
    monkeypatch.setenv("CONTEXT_TUI_CONFIG", str(link))
    save_theme("dracula")
    assert link.is_symlink() and read_config().theme == "dracula" == read_config(written).theme


@pytest.mark.parametrize("name", ["", "a b", "chain", "-x", "x" * 41, "é"])
def test_names_that_cannot_be_given_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        validate_name(name, list(POLICIES))
    assert validate_name(" frugal-2 ", list(POLICIES)) == "frugal-2"


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("defect-microcompact", {"keep_recent_turns": 1, "microcompact_ratio": 0.07}),
    ("koda-microcompact", {"compactable_tools": ("Read, all", "Bash ")}),
    ("manual", {"clear": ((2, 0), (4, 1)), "cut": 8}),
    ("chain", {"options": {"koda-microcompact": {"keep_recent": 9}}, "policies": ("koda-microcompact",)}),
]


@pytest.mark.parametrize(("policy", "values"), SETTINGS, ids=[name for name, _ in SETTINGS])
def test_saved_settings_come_back_as_they_were(path: Path, policy: str, values: dict[str, Any]) -> None:
    chosen = POLICIES[policy]
    before = build_params(chosen, values)
    save_settings("mine", SavedSettings(policy, tuple(format_assignments(values))))
    texts = dict(each.split("=", 1) for each in read_config().settings["mine"].params)
    found = find_changed_values(chosen, build_params(chosen, texts))
    assert found == find_changed_values(chosen, before)
    nested = values.get("options", {})
    assert found == {policy: {k: v for k, v in values.items() if k != "options"}, **nested}


def test_the_command_line_takes_them_by_name(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = "sample_sessions/coding-session.jsonl"

    def planned(*given: str) -> dict[str, Any]:
        assert main(["plan", session, "--json", *given]) == 0
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    frugal = planned("-P", "frugal")
    assert frugal["policy"] == "defect-microcompact" and frugal["params"]["keep_recent_turns"] == 1
    assert frugal == planned("-P", "defect-microcompact", "-p", "keep_recent_turns=1")
    assert planned("-P", "frugal", "-p", "keep_recent_turns=2")["params"]["keep_recent_turns"] == 2
    assert main(["plan", session, "-P", "frugl"]) != 0
    assert "unknown policy 'frugl'" in capsys.readouterr().err
    assert main(["policies", "--json"]) == 0
    (saved,) = json.loads(capsys.readouterr().out)["saved"]
    assert saved == {"name": "frugal", "policy": "defect-microcompact", "params": ["keep_recent_turns=1"]}
    assert main(["policies"]) == 0 and "frugal" in capsys.readouterr().out
