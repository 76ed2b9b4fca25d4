"""Pages of the documentation that are written by hand: their code runs, and their tables name what there is."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

import context_tui as ct
from context_tui.compaction.plan import Plan, VerdictCode
from context_tui.formats.base import Format, SessionFile, scan
from context_tui.formats.kit import message_builder
from context_tui.formats.registry import FORMATS, GuardedFormat
from context_tui.policies.base import param
from context_tui.policies.registry import PRESETS, GuardedPolicy
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.session.facts import Usage
from context_tui.session.session import Session, SessionInfo
from context_tui.summarizer.plan_summary import prepare_summary

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
    space, _ = run_blocks(POLICIES_PAGE)
    policy = GuardedPolicy(space["LargestFirst"]())
    session = ct.open_session(SAMPLE)
    context = session.context_at()
    state = build_runtime_state(context, session.window, len(session))
    plan = policy.plan(context, policy.Params(larger_than=1_000), state)
    assert plan.changes and plan.inserts and {edit.source for edit in plan.edits} == {"largest-first"}
    assert plan.tokens_after < plan.tokens_before
    assert policy.plan(context, policy.Params(larger_than=100_000), state).reason == "no result is that large"


def test_the_formats_of_the_page_parse() -> None:
    notes, *_, usage = run_blocks(FORMATS_PAGE)
    assert notes["NoteFormat"].name == "notes"
    record = usage["parse_reply"]({"text": "x", "tokens": {"in": 2_000, "cached": 1_500, "out": 30, "reasoning": 10}})
    assert record.usage == Usage(500, 1_500, 0, 0, 40) and record.notes == ()
    assert usage["parse_reply"]({"text": "x", "tokens": {"in": -1}}).notes


def open_added(form: Format, path: Path, session_id: str = "") -> Session:
    [info] = [each for each in form.list_sessions(path) if each.id == session_id]
    return scan(form.make_scanner(path, info))


def test_the_folders_of_the_page_are_read_and_written(tmp_path: Path) -> None:
    _, heron, writer, *_ = run_blocks(FORMATS_PAGE)
    folder = tmp_path / ".heron" / "one"
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text('{"model": "heron-1", "window": 64000, "system": "You write code."}')
    calls = [{"id": "c1", "tool": "peek", "input": {"target": "a.py"}}, {"id": "c2", "tool": "send", "input": {}}]
    events: list[dict[str, Any]] = [
        {"event": "start"},
        {"event": "title", "text": "Two files"},
        {"event": "say", "id": "1", "by": "user", "text": "Look."},
        {"event": "say", "id": "2", "by": "assistant", "text": "I look.", "calls": calls},
        {"event": "result", "id": "3", "call": "c1", "text": "x = 1"},
        {"event": "say", "id": "4", "by": "user", "text": "And?"},
        {"event": "compact", "text": "So far: x is 1.", "keep": "4"},
        {"event": "remind", "text": "Be brief."},
    ]
    for name in ("events", "agent-c2"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    form = GuardedFormat(heron["HeronFormat"]())
    [found] = form.find_sessions({"HOME": str(tmp_path)}, tmp_path)
    assert found == (folder / "events.jsonl", "one", False) and not form.is_standalone(folder / "agent-c2.jsonl")
    session = open_added(cast(Format, form), found.path)
    facts = session.facts
    assert not facts.problems and (facts.model, facts.window) == ("heron-1", 64_000) and facts.paths == ["a.py"]
    texts = [message["content"][0]["text"] for message in session.to_messages()]
    assert texts == ["So far: x is 1.", "And?", "Be brief."]
    assert session.content.system() == "You write code."
    call = next(row for row in range(len(facts.kind)) if facts.call_id(row) == "c2")
    agent = form.subagent_of(session, call)
    assert agent and agent.id == "agent-c2" and agent.parent == str(found.path)

    out = tmp_path / "two" / "events.jsonl"
    out.parent.mkdir()
    (out.parent / "meta.json").write_bytes((folder / "meta.json").read_bytes())
    losses = writer["write"](session, out)
    assert losses.lines == ["the system prompt is left out; Heron adds its own"]
    written = open_added(cast(Format, form), out)
    assert [message["content"][0]["text"] for message in written.to_messages()] == texts
    flags = [written.facts.flags[message] for message in written.context_at().order]
    assert flags == [facts.flags[message] for message in session.context_at().order]


def test_the_database_of_the_page_is_read(tmp_path: Path) -> None:
    space = run_blocks(FORMATS_PAGE)[3]
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE stork_sessions (name, title)")
        for name in ("main", 'a "b"'):
            table = '"{}"'.format(name.replace('"', '""'))
            database.execute("INSERT INTO stork_sessions VALUES (?, 'Title')", (name,))
            database.execute(f"CREATE TABLE {table} (role, body)")
            rows = [(role, f'[{{"type": "text", "text": "{role} of {name[0]}"}}]') for role in ("user", "assistant")]
            database.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
    form = cast(Format, GuardedFormat(space["StorkFormat"]()))
    claim = form.sniff(path.read_bytes(), path)
    assert claim and claim.strength == 95
    assert [(each.id, each.title) for each in form.list_sessions(path)] == [('a "b"', "Title"), ("main", "Title")]
    session = open_added(form, path, "main")
    assert [message["role"] for message in session.to_messages()] == ["user", "assistant"]
    assert session.facts.model == "stork-1" and not session.facts.problems


def test_the_summary_of_the_page_is_prepared_and_written() -> None:
    _, summary = run_blocks(POLICIES_PAGE)
    session = ct.open_session(SAMPLE)
    made = ct.plan(session, "manual", cut=20)
    plan = summary["summarise_until"](20, "manual", made.params, made.context, made.trigger)
    prepared = prepare_summary(plan)
    assert "Summarise this work" in str(prepared.request) and plan.needs_summary
    after = ct.apply(session, plan, summary="All done.").to_messages()
    assert after[0] == {"role": "user", "content": [{"type": "text", "text": "What happened so far:\nAll done."}]}
    assert "Update the earlier summary" in str(summary["build_request"]([], "before"))


def test_the_fields_of_a_listed_session_are_listed() -> None:
    table = FORMATS_PAGE.partition("Methods get a `Path`")[2].partition("\n\n`find_sessions`")[0]
    names = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    assert names and {*names} == {each.name for each in dataclasses.fields(SessionInfo)}
    [fields] = re.findall(r"`SessionFile\((.*?)\)`", FORMATS_PAGE)
    assert fields.split(", ") == [*SessionFile._fields]


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
    cases = message_builder.RecordCase.__subclasses__()
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
