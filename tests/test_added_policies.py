"""Policies of other packages: the worked example of the documentation, and packages that are broken in every way."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any, cast

import pytest

import context_tui as ct
from context_tui.app import plugins
from context_tui.compaction.plan import VerdictCode
from context_tui.policies.registry import POLICIES, GuardedPolicy
from context_tui.tui.timeline.marks import RowMarker

BUILT_IN, GROUP = POLICIES.built_in, POLICIES.group
FORMAT_GROUP = "context_tui.formats"
ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "policy"
SAMPLE = ROOT / "sample_sessions" / "coding-session.jsonl"


def installed(site: Path, package: str, module: str, source: str, names: dict[str, str], group: str = GROUP) -> None:
    """A package as an installer leaves it: its module, and what it declares."""
    site.joinpath(f"{module}.py").write_text(source)
    information = site / f"{package.replace('-', '_')}-0.1.dist-info"
    information.mkdir(parents=True)
    information.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    entries = "".join(f"{name} = {where}\n" for name, where in names.items())
    information.joinpath("entry_points.txt").write_text(f"[{group}]\n{entries}")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the example in it, as its own pyproject declares it."""
    folder = tmp_path / "site"
    folder.mkdir()
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    source = (EXAMPLE / "sliding_window.py").read_text()
    installed(folder, project["name"], "sliding_window", source, project["entry-points"][GROUP])
    return folder


def run(site: Path, *arguments: str | Path) -> tuple[int, str, str]:
    """The program in a process of its own, with a folder of packages."""
    done = subprocess.run(
        [sys.executable, "-m", "context_tui", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])},
    )
    return done.returncode, done.stdout, done.stderr


def report(site: Path, *arguments: str | Path) -> dict[str, Any]:
    """What the program says as JSON; it says nothing else."""
    code, out, err = run(site, *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.slow
def test_the_example_is_listed_planned_and_applied(site: Path, tmp_path: Path) -> None:
    listed = report(site, "policies")
    assert [each["name"] for each in listed["policies"]] == [*BUILT_IN, "sliding-window"] and listed["broken"] == []
    [described] = report(site, "policies", "sliding-window")["policies"]
    assert [each["name"] for each in described["params"]] == ["keep_turns", "share"]

    window = ("-P", "sliding-window", "-p", "keep_turns=2")
    made = report(site, "plan", SAMPLE, *window)
    [insert] = made["inserts"]
    dropped = [edit for edit in made["edits"] if edit["action"] == "drop"]
    assert made["changed"] and insert["text"].startswith(f"[{len(dropped)} earlier") and dropped
    codes = {each["code"] for each in made["verdicts"]}
    assert codes == {"protected", "recent_turn", "dropped_range"} and made["boundary"] == dropped[-1]["message"] + 1

    out = tmp_path / "out.jsonl"
    done = report(site, "apply", SAMPLE, *window, "-o", out)
    assert done["tokens"]["after"] == made["tokens"]["after"] and done["check"]["introduced"] == []
    texts = [block.get("text") for message in ct.open_session(out).to_messages() for block in message["content"]]
    assert insert["text"] in texts

    chain = ("-P", "chain", "-p", "policies=defect-microcompact,sliding-window", "-p", "sliding-window.keep_turns=2")
    assert report(site, "plan", SAMPLE, *chain)["tokens"]["after"] < made["tokens"]["after"]
    code, _, err = run(site, "plan", SAMPLE, "-P", "sliding-window", "-p", "keep_turns=0")
    assert (code, err) == (2, "context-tui: sliding-window: keep_turns='0': must be 1 to 1,000\n")


BROKEN = {
    "raises": ("print('hello'); raise RuntimeError('no luck')", "RuntimeError: no luck"),
    "leaves": ("raise SystemExit(3)", "SystemExit: 3"),
    "lacks": ("x = 1", "AttributeError: module 'lacks' has no attribute 'Policy'"),
    "bare": (
        "class Policy: name = 'bare'",
        "it lacks about, phases, Params, trigger, plan; derive from policies.base.BasePolicy",
    ),
    "alone": (
        "from sliding_window import SlidingWindow as Example\nclass Policy:\n    name, about = 'alone', 'x'\n"
        "    phases, Params, trigger, plan = Example.phases, Example.Params, Example.trigger, Example.plan",
        "it lacks the defaults of optional members; derive from policies.base.BasePolicy",
    ),
    "partial": (
        "from sliding_window import SlidingWindow as Example\nfrom context_tui.policies.base import BasePolicy\n"
        "class Policy(BasePolicy): name, about, phases, Params = 'partial', 'x', Example.phases, Example.Params",
        "it lacks trigger, plan",
    ),
    **{
        name: (
            "from sliding_window import SlidingWindow, SlidingWindowParams, param\n"
            f"class Own(SlidingWindowParams): {parameter}\nclass Policy(SlidingWindow): name, Params = {name!r}, Own",
            why,
        )
        for name, parameter, why in (
            ("texts", "kind: str = param('x', 'x', '')", "its parameter kind is str, {}"),
            ("lists", "tools: list[str] = param(['a'], 'x', 'tools')", "its parameter tools is list, {}"),
            ("beyond", "share: float = param(1.5, 'x', '', 0, 1)", "beyond: share=1.5: must be 0 to 1"),
        )
        for why in (why.format("not a number, true or false, or tuple[str, ...]"),)
    },
    "older": (
        "from sliding_window import SlidingWindow\nclass Policy(SlidingWindow):\n"
        "    name = 'older'\n    waits_for = 1\n    def derived(self, *args): return None",
        "it is written for an older context-tui: rename derived to implied_value, rename waits_for to replan_on",
    ),
    "flat": (
        "from context_tui.policies.base import BasePolicy\n"
        "class Policy(BasePolicy): name, trigger_only = 'flat', {'share'}",
        "it is written for an older context-tui: rename trigger_only to flat_curves",
    ),
    "never": (
        "from sliding_window import SlidingWindow\nclass Policy(SlidingWindow): name, phases = 'never', {'on_call'}",
        "its phases are {'on_call'}, not a frozenset of before_call, after_tools, user_turn",
    ),
    "manual": ("class Policy: pass", "a built-in one has the same name"),
    "other": (
        "from sliding_window import SlidingWindow as Policy",
        "it calls itself 'sliding-window'; rename it or its entry point 'other'",
    ),
}


@pytest.mark.slow
def test_what_is_broken_is_told_in_a_line_and_nothing_else_suffers(site: Path) -> None:
    for name, (source, _) in BROKEN.items():
        installed(site, f"package-{name}", name, source, {name: f"{name}:Policy"})
    installed(site, "second", "second", "", {"sliding-window": "sliding_window:SlidingWindow"})
    code, out, err = run(site, "policies", "--json")
    lines = [line for line in err.splitlines() if line != "hello"]
    assert code == 0 and len(lines) == len(BROKEN) + 1
    for name, (_, why) in BROKEN.items():
        assert f"policy {name} of package package-{name} is not used: {why}" in lines
    assert "policy sliding-window of package second is not used: another package has the same name" in lines
    listed = json.loads(out)
    assert [each["name"] for each in listed["policies"]] == [*BUILT_IN, "sliding-window"]
    assert {each["name"] for each in listed["broken"]} == {*BROKEN, "sliding-window"}

    # Who asks for a built-in policy hears nothing of the others, and gets the built-in one.
    assert report(site, "plan", SAMPLE, "-P", "manual", "-p", "cut=2")["edits"]
    code, _, err = run(site, "plan", SAMPLE, "-P", "raises")
    assert code == 2 and "unknown policy 'raises'" in err.splitlines()[-1]


def test_one_that_sleeps_or_raises_anything_costs_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = "from context_tui.policies.registry import POLICIES\nPOLICIES['chain']\nclass Policy: pass"
    sources = {
        "asleep": ("import time\ntime.sleep(9)", "it is not loaded after 1 seconds"),
        "base": ("class Stop(BaseException): pass\nraise Stop('all')", "Stop: all"),
        "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        "looks_up": (lookup, ""),
        "talks": ("raise ValueError('x' * 100_000)", f"ValueError: {'x' * 986} … {'x' * 998}"),
    }
    for name, (source, _) in sources.items():
        installed(tmp_path, name, name, source, {name: f"{name}:Policy"}, "added.policies")
    monkeypatch.setattr(plugins, "LOADING_SECONDS", 1.0)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(POLICIES, "_instances", {})  # nothing has been looked up
    registry: plugins.Plugins[Any] = plugins.Plugins("policy", "added.policies", {}, lambda name, policy: "")
    assert {each.name: each.reason for each in registry.broken} == {
        name: reason for name, (_, reason) in sources.items() if reason
    }
    assert [*registry] == ["looks_up"]


class Stop(BaseException):
    """Neither an Exception nor an exit."""


def test_members_may_raise_anything() -> None:
    def hint(*args: object) -> str:
        raise Stop("all")

    guard = plugins.Guard(SimpleNamespace(name="x", hint=hint), "policy", {"hint": plugins.QuietMember(str, "none")})
    assert guard.hint() == "none"
    with pytest.raises(ct.PlanError, match="policy x failed: Stop: all"):
        guard.call(ct.PlanError, "", hint)


@pytest.mark.slow
def test_a_policy_that_fails_while_it_works_fails_in_a_line(site: Path) -> None:
    for name, change in (
        ("plans", "def plan(self, context, params, state): return 1 // 0"),
        ("nothing", "def plan(self, context, params, state): return None"),
        ("judges", "def trigger(self, state, params): return True"),
        ("fires", "def trigger(self, state, params): raise KeyError('x')"),
        (
            "reaches",
            "def plan(self, context, params, state): return replace(made(self), dropped_ranges=(range(9999),))",
        ),
        ("quiet", "runtime = 'quiet'; believed_size = hint = implied_value = slider_max = lambda self, *args: 1 // 0"),
        (
            "talks",
            "def plan(self, context, params, state): return replace(made(self), keep_reason=lambda p, b: 1 // 0)",
        ),
        ("mumbles", "def plan(self, context, params, state): return replace(made(self), keep_reason=lambda p, b: 7)"),
        ("exits", "def plan(self, context, params, state): raise SystemExit(9)"),
        ("shouts", "def plan(self, context, params, state): raise ValueError('x' * 9_000)"),
        ("saves", "def plan(self, context, params, state): return replace(made(self), tokens_saved='x')"),
        ("reports", "def plan(self, context, params, state): return replace(made(self), report={'a': object()})"),
        ("changes", "def plan(self, context, params, state): return replace(made(self), changes={1: 7})"),
        (
            "digs",
            "def plan(self, context, params, state): return replace(made(self), changes={-1: build_removal('digs')})",
        ),
        ("poses", "def plan(self, context, params, state): return replace(made(self), policy='manual')"),
        ("pairs", "def plan(self, context, params, state): return replace(made(self), dropped_ranges=((0, 4),))"),
        (
            "speaks",
            "def plan(self, context, params, state): return replace(made(self), inserts=(Insert('usr', 0, 'x'),))",
        ),
    ):
        source = f"""\
            from dataclasses import replace
            from context_tui.compaction.changes import build_removal
            from context_tui.compaction.plan import Insert, Plan
            from sliding_window import SlidingWindow

            class Policy(SlidingWindow):
                name = {name!r}
                {change.replace("made(self)", "super().plan(context, params, state)")}
            """
        installed(site, f"package-{name}", name, dedent(source), {name: f"{name}:Policy"})
    said = {
        "plans": "policy plans failed: ZeroDivisionError: integer division or modulo by zero (plans.py:8)",
        "nothing": "policy nothing failed: its plan is NoneType, not a Plan",
        "judges": "policy judges failed: its trigger is bool, not a Trigger",
        "fires": "policy fires failed: KeyError: 'x' (fires.py:8)",
        "reaches": "reaches: its plan reaches outside the context of 168 messages",
        "exits": "policy exits failed: SystemExit: 9 (exits.py:8)",
        "shouts": f"policy shouts failed: ValueError: {'x' * 187}… (shouts.py:8)",
        "saves": "policy saves failed: what its plan saved is no number",
        "reports": "policy reports failed: the report of its plan is not numbers by name",
        "changes": "policy changes failed: its plan changes block row 1 to int, not to a Change",
        "digs": "policy digs failed: its plan changes -1, which is no block row of the session",
        "talks": "policy talks failed: ZeroDivisionError: integer division or modulo by zero (talks.py:8)",
        "mumbles": "policy mumbles failed: its reason is int, not a KeepReason",
        "poses": "policy poses failed: its plan is of another policy or context",
        "pairs": "policy pairs failed: AttributeError: 'tuple' object has no attribute 'start' (pairs.py:8)",
        "speaks": "policy speaks failed: its plan inserts a message of role 'usr', not user or assistant",
    }
    for name, words in said.items():
        assert run(site, "plan", SAMPLE, "-P", name)[::2] == (2, f"context-tui: {words}\n")
    assert "quiet" not in json.dumps(report(site, "inspect", SAMPLE, "--messages")), "what it believes is left out"
    assert run(site, "plan", SAMPLE, "-P", "talks", "--json")[::2] == (2, f"context-tui: {said['talks']}\n")


def test_what_it_says_of_itself_is_of_its_type_or_left_out() -> None:
    odd = SimpleNamespace(
        name="odd",
        curve=lambda *args: ["x"],
        implied_value=lambda *args: "x",
        slider_max=lambda *args: "x",
        believed_size=lambda *args: "x",
        hint=lambda *args: 7,
    )
    guarded, none = GuardedPolicy(cast(Any, odd)), cast(Any, None)
    assert guarded.implied_value("n", none, none, none) is None and guarded.believed_size(none) is None
    assert guarded.slider_max("n", none, none) is None
    assert guarded.hint(none) == ""
    with pytest.raises(ct.PlanError, match="policy odd failed: its curve is not a number for each value"):
        guarded.curve(none, none, none, "n", [1])


def test_a_plan_of_another_package_is_checked_before_it_is_used() -> None:
    session = ct.open_session(SAMPLE)
    plan = ct.plan(session, "defect-microcompact", force=True)
    [row, *_] = plan.changes
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"policy": "other"}, "its plan is of another policy or context"),
        ({"context": session.context_at(4)}, "its plan is of another policy or context"),
        ({"tokens_saved": "x"}, "what its plan saved is no number"),
        ({"report": {"cleared": "x"}}, "the report of its plan is not numbers by name"),
        ({"report": {7: 8}}, "the report of its plan is not numbers by name"),
        ({"changes": {row: "x"}}, f"its plan changes block row {row} to str, not to a Change"),
        ({"changes": {10**9: plan.changes[row]}}, "its plan changes 1000000000, which is no block row of the session"),
        ({"changes": {"x": plan.changes[row]}}, "its plan changes 'x', which is no block row of the session"),
    ]
    for change, message in [*wrong, ({}, ""), ({"report": None}, ""), ({"report": {"cleared": 1}}, "")]:
        policy = SimpleNamespace(name="defect-microcompact", plan=lambda *args, change=change: replace(plan, **change))
        guarded, none = GuardedPolicy(cast(Any, policy)), cast(Any, None)
        if message:
            with pytest.raises(ct.PlanError, match=message):
                guarded.plan(plan.context, none, none)
        else:
            assert guarded.plan(plan.context, none, none).changes == plan.changes


def test_a_reason_that_fails_is_an_error_of_the_plan_and_a_reason_on_screen() -> None:
    plan = ct.plan(ct.open_session(SAMPLE), "manual", cut=2)
    failing = replace(plan, keep_reason=lambda position, block: cast(Any, VerdictCode).TOO_SMALL)
    policy = SimpleNamespace(name="manual", plan=lambda *args: failing)
    guarded = GuardedPolicy(cast(Any, policy)).plan(plan.context, cast(Any, None), cast(Any, None))
    with pytest.raises(ct.PlanError, match=r"^policy manual failed: AttributeError: .*TOO_SMALL'?$"):
        list(guarded.iterate_verdicts())
    mark = RowMarker(guarded.context, guarded).find_mark(100)
    assert mark.verdict == "kept" and re.match("policy manual failed: AttributeError: .*TOO_SMALL'?$", mark.reason)


OWN = """
from context_tui.policies.base import param
from sliding_window import SlidingWindow, SlidingWindowParams


class OwnParams(SlidingWindowParams):
    tools: tuple[str, ...] = param(("Read",), "tools", "tools", refers_to="tools")


class Own(SlidingWindow):
    name, runtime, Params = "own", "lumen", OwnParams


class Clears(Own):
    name, kind = "clears", "micro"
"""


@pytest.mark.slow
def test_the_policies_of_a_runtime_are_those_of_its_format(site: Path, tmp_path: Path) -> None:
    installed(site, "own", "own", OWN, {"own": "own:Own", "clears": "own:Clears"})
    example = ROOT / "docs" / "examples" / "format" / "lumen_format.py"
    installed(site, "lumen", "lumen_format", example.read_text(), {"lumen": "lumen_format:LumenFormat"}, FORMAT_GROUP)
    log = tmp_path / "a.lumen"
    turns = ({"kind": kind, "text": f"{number} " * 900} for number in range(9) for kind in ("user", "reply"))
    records = ({"kind": "start", "model": "lumen-2", "window": 64_000}, *turns)
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    effects = report(site, "inspect", log)["answer"]["effects"]
    assert sorted((each["policy"], each["kind"]) for each in effects) == [("clears", "micro"), ("own", "full")]
    assert run(site, "report", log, "-o", tmp_path / "r.md")[0] == 0
    page = (tmp_path / "r.md").read_text()
    assert "clears" in page and "defect-microcompact" not in page


def test_a_list_of_names_is_one_word_on_the_command_line(site: Path) -> None:
    installed(site, "own", "own", OWN, {"own": "own:Own"})
    made = report(site, "plan", SAMPLE, "-P", "own", "-p", "tools=Read,Bash")
    assert made["params"]["tools"] == ["Read", "Bash"]
