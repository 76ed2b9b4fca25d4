"""Pages of the documentation that are written by hand: their code runs, and their tables name what there is."""

from __future__ import annotations

import dataclasses
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

import context_tui as ct
from context_tui.compaction.plan import Plan, VerdictCode
from context_tui.formats.base import Format
from context_tui.formats.kit import message_builder
from context_tui.formats.registry import FORMATS
from context_tui.policies.base import param
from context_tui.policies.registry import PRESETS, GuardedPolicy
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.session.facts import Usage

ROOT = Path(__file__).parents[1]
POLICIES_PAGE, FORMATS_PAGE = ((ROOT / "docs" / name).read_text("utf-8") for name in ("policies.md", "formats.md"))
SAMPLE = ROOT / "sample_sessions" / "coding-session.jsonl"


def run_blocks(page: str) -> list[dict[str, Any]]:
    """Run each block of Python on a page; each needs nothing but its own imports."""
    spaces: list[dict[str, Any]] = []
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        spaces.append({"__name__": "example"})
        exec(compile(code, "example", "exec"), spaces[-1])
    return spaces


def test_the_policy_of_the_page_plans() -> None:
    [space] = run_blocks(POLICIES_PAGE)
    policy = GuardedPolicy(space["LargestFirst"]())
    session = ct.open_session(SAMPLE)
    context = session.context_at()
    state = build_runtime_state(context, session.window, len(session))
    plan = policy.plan(context, policy.Params(larger_than=1_000), state)
    assert plan.changes and plan.inserts and {edit.source for edit in plan.edits} == {"largest-first"}
    assert plan.tokens_after < plan.tokens_before
    assert policy.plan(context, policy.Params(larger_than=100_000), state).reason == "no result is that large"


def test_the_formats_of_the_page_parse() -> None:
    notes, usage = run_blocks(FORMATS_PAGE)
    assert notes["NoteFormat"].name == "notes"
    record = usage["parse_reply"]({"text": "x", "tokens": {"in": 2_000, "cached": 1_500, "out": 30, "reasoning": 10}})
    assert record.usage == Usage(500, 1_500, 0, 0, 40) and record.notes == ()
    assert usage["parse_reply"]({"text": "x", "tokens": {"in": -1}}).notes


@pytest.mark.parametrize("page", [POLICIES_PAGE, FORMATS_PAGE])
def test_the_names_of_a_page_are_where_it_says(page: str) -> None:
    named = [*re.findall(r"`context_tui\.([\w.]+)\.(\w+)`", page)]
    named += [(f"formats.kit.{module}", name) for module, name in re.findall(r"`kit\.(\w+)\.(\w+)[`(]", page)]
    for module, names in re.findall(r"`kit\.(\w+)`\s\(((?:`\w+(?:\(\w+\))?`(?:,\s)?)+)\)", page):
        named += [(f"formats.kit.{module}", name) for name in re.findall(r"`(\w+)", names)]
    assert named
    for module, name in named:
        assert hasattr(import_module(f"context_tui.{module}"), name), f"{module} has no {name}"


def test_the_tables_list_every_field() -> None:
    page = FORMATS_PAGE.replace("\\|", "¦")
    rows = dict(re.findall(r"^\| `(\w+(?:Record|Message))` \|(?: (.*?))? \| ", page, re.MULTILINE))
    cases = get_args(message_builder.RecordCase)
    assert {*rows} == {case.__name__ for case in cases}
    for case in cases:
        fields = [f"`{each.name}: {each.type}`" for each in dataclasses.fields(case) if not each.kw_only]
        assert rows[case.__name__] == ", ".join(fields).replace("|", "¦"), case.__name__
    table = FORMATS_PAGE.partition("## Usage")[2].partition("```")[0]
    assert re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))) == [
        *Usage.__struct_fields__
    ]


def test_the_arguments_and_the_codes_of_a_policy_are_listed() -> None:
    codes = re.findall(r"`([A-Z_]+)`", "".join(re.findall(r"^\| (`[A-Z].*?) \|", POLICIES_PAGE, re.MULTILINE)))
    assert sorted(codes) == sorted(VerdictCode.__members__)
    for function, call in ((param, r"`param\((.*?)\)`"), (Plan, r"`Plan\((.*?), …\)`")):
        [arguments] = re.findall(call, POLICIES_PAGE)
        names = [name.removesuffix("=…") for name in arguments.split(", ")]
        assert names == [*inspect.signature(function).parameters][: len(names)], arguments


class Environment(dict[str, str]):
    """Variables that note which of them are asked for."""

    def __init__(self, home: Path) -> None:
        super().__init__(HOME=str(home))
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


def test_the_folders_that_are_searched_are_listed(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "session-formats.md").read_text("utf-8")
    table = page.partition("## Where sessions are found")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| .* \|(.*) \|$", table, re.MULTILINE))
    searching = {name: form for name, form in FORMATS.items() if type(form).find_sessions is not Format.find_sessions}
    assert {*rows} == {*searching}
    for name, form in searching.items():
        environ = Environment(tmp_path)
        assert not [*form.find_sessions(environ, tmp_path)]
        assert environ.asked - {"HOME", "APPDATA", "LOCALAPPDATA"} == {*re.findall(r"\w+", rows[name])}, name


def test_every_preset_is_named_beside_the_built_in_policies() -> None:
    page = (ROOT / "docs" / "built-in-policies.md").read_text("utf-8")
    assert not [name for name in PRESETS if f"`{name}`" not in page]
