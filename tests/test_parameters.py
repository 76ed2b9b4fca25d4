"""The space of parameters: what each is, the values of a range, and that nothing of it needs Textual."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import context_tui as ct
from context_tui.policies.base import Params, Policy, param
from context_tui.policies.parameter_space import build_params, list_parameters, list_parameters_in_context
from context_tui.policies.parameters import MAX_RANGE_VALUES, Parameter, parse_values
from context_tui.policies.registry import POLICIES, find_policy
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.policies.scales import format_number
from context_tui.session.memory import from_messages

ALL = {f"{name} {each.name}": each for name, policy in POLICIES.items() for each in list_parameters(policy)}
NUMBERS = sorted(name for name, each in ALL.items() if each.kind == "number")


def parameter(name: str) -> Parameter:
    return ALL[name]


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("defect-microcompact keep_recent_turns", "1..8", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("defect-microcompact keep_recent_turns", "1..8:2", [1, 3, 5, 7, 8]),
        ("defect-microcompact keep_recent_turns", "9,3,3,1..2", [9, 3, 1, 2]),
        ("defect-microcompact min_clear_tokens", "256..2k", [256, 384, 512, 768, 1_024, 1_536, 2_000]),
        ("defect-microcompact min_clear_tokens", "500..2000:500", [500, 1_000, 1_500, 2_000]),
        ("agent-sdk-prune max_chars", "1k..6k", [1_000, 1_500, 2_000, 3_000, 4_000, 5_000, 6_000]),
        ("koda-microcompact gap_seconds", "1..30", [1, 2, 5, 10, 15, 20, 30]),
        ("defect-microcompact microcompact_ratio", "0.5..0.7", [0.5, 0.55, 0.6, 0.65, 0.7]),
        ("defect-microcompact microcompact_ratio", "50%..0.9:0.2", [0.5, 0.7, 0.9]),
        ("agent-sdk-prune threshold_pct", "60..80:10", [60, 70, 80]),
        ("defect-compact threshold", "none,100k", [None, 100_000]),
        ("defect-compact assistant_boundary", "on,off", [True, False]),
        ("koda-microcompact compactable_tools", "Read,Bash", [("Read", "Bash")]),
    ],
)
def test_a_range_names_its_values(name: str, text: str, values: list[object]) -> None:
    assert parse_values(parameter(name), text) == values


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("defect-microcompact keep_recent_turns", "0..3", "at least 1"),
        ("defect-microcompact keep_recent_turns", "8..1", "the range is empty"),
        ("defect-microcompact keep_recent_turns", "1..x", "'x' is not a number"),
        ("defect-microcompact keep_recent_turns", "1..8:0", "at least 1"),
        ("defect-microcompact microcompact_ratio", "0.1..0.2:0", "more than 0"),
        (
            "defect-microcompact min_clear_tokens",
            "0..1m:1",
            f"1,000,001 values, at most {MAX_RANGE_VALUES:,} are allowed",
        ),
        ("defect-compact threshold", "none..5", "'none' is not a number"),
        ("manual cut", "1000000001", "1,000,000,000"),
        ("defect-compact assistant_boundary", "maybe", "'maybe' is not true or false"),
    ],
)
def test_what_is_wrong_with_a_range_is_said(name: str, text: str, words: str) -> None:
    with pytest.raises(ct.PlanError, match=words) as error:
        parse_values(parameter(name), text)
    assert str(error.value).startswith(f"{parameter(name).name}={text}: ")


@given(st.sampled_from(NUMBERS), st.data())
def test_every_value_of_a_range_is_allowed_and_both_ends_belong_to_it(name: str, data: st.DataObject) -> None:
    each = parameter(name)
    low, high = each.low or 0, each.high if each.high is not None else 1_000_000
    values = st.integers(int(low * 100), int(high * 100)).map(lambda n: n / 100) if each.ratio else None
    ends = st.integers(int(low), int(high)) if values is None else values
    first, last = sorted((data.draw(ends), data.draw(ends)))
    step = "" if each.unit in ("tokens", "bytes", "seconds") else f":{max(1, (int(last) - int(first)) // 50)}"
    start, stop = (format_number(end).replace(",", "") for end in (first, last))
    found = parse_values(each, f"{start}..{stop}{'' if each.ratio else step}")
    assert (found[0], found[-1]) == (first, last) and found == sorted(set(found))
    policy = find_policy(name.partition(" ")[0])
    assert all(getattr(build_params(policy, {each.name: value}), each.name) == value for value in found)


def test_those_of_the_policies_that_run_in_it_are_named_after_them() -> None:
    chain = find_policy("chain")
    params = build_params(chain, {"policies": "koda-microcompact,nonsense,koda-microcompact"})
    names = [each.name for each in list_parameters(chain, params)]
    assert names[:2] == ["policies", "options"] and names[2:] == [
        f"koda-microcompact.{each.name}" for each in list_parameters(find_policy("koda-microcompact"))
    ]
    assert {each.owner for each in list_parameters(chain, params)} == {"", "koda-microcompact"}


def test_it_needs_no_textual_and_a_built_in_policy_no_other() -> None:
    code = """\
import sys
from context_tui.policies.registry import POLICIES
assert "koda-microcompact" in POLICIES and not [m for m in sys.modules if m.startswith("context_tui.policies.koda")]
POLICIES["koda-microcompact"]
from context_tui.policies import parameters, scales
loaded = [m for m in sys.modules if m.split(".")[0] in ("textual", "rich", "httpx") or m.startswith("context_tui.tui")]
builtin = "context_tui.policies.builtin."
loaded += [m for m in sys.modules if m.startswith((builtin + "defect", builtin + "agent_sdk"))]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


class Renamed(Params):
    """Parameters whose units say nothing of what they are."""

    listed: tuple[str, ...] = param((), "tools to leave alone", "names", refers_to="tools")
    marked: tuple[str, ...] = param((), "blocks to leave alone", "tools", refers_to="marks")
    free: tuple[str, ...] = param((), "words to look for", "words")
    first: int = param(0, "the first message to keep", "", 0, refers_to="message")
    count: int = param(0, "how many messages to keep", "message", 0, 500)


def test_what_a_parameter_is_does_not_hang_on_the_word_for_its_unit() -> None:
    nothing = {"implied_value": lambda *given: None, "slider_max": lambda *given: None}
    policy = cast(
        Policy,
        SimpleNamespace(name="renamed", Params=Renamed, nested_field="", nested_policies=lambda params: (), **nothing),
    )
    assert [each.kind for each in list_parameters(policy)] == ["list", "marks", "list", "number", "number"]
    session = from_messages(
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x" * 99}]},
        ]
    )
    context = session.context_at()
    state = build_runtime_state(context, session.window_at(context.at), len(session), None, False)
    found = {each.name: each for each in list_parameters_in_context(policy, Renamed(), context, state)}
    assert [entry.name for entry in found["listed"].entries] == ["Read"] and found["free"].entries == ()
    assert found["first"].scale and found["first"].scale.high == 3
    assert found["count"].scale and found["count"].scale.high == 500
