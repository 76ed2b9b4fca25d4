"""A setting as the configuration of its agent: keys and values that the agent reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from context_tui.cli import main
from context_tui.policies.agent_settings import build_agent_settings, format_setting_lines
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES
from context_tui.session.window import Window


def told(name: str, window: int = 200_000, **given: Any) -> dict[str, str]:
    """Values by key."""
    found = build_agent_settings(name, build_params(POLICIES[name], given), Window(window, "given"))
    assert found is not None
    return {each.key: each.value for each in found.settings}


@pytest.mark.parametrize(
    ("name", "given", "key", "value"),
    [
        ("claude-code-auto", {}, "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "92"),  # 167,000 of 180,000
        ("claude-code-auto", {"trigger_reserve": 110_000}, "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "50"),
        ("claude-code-auto", {"trigger_reserve": 100_000}, "autoCompactWindow", "133000"),
        ("codex", {}, "model_auto_compact_token_limit", "180000"),
        ("codex", {"trigger_at_most": 120_000}, "model_auto_compact_token_limit", "120000"),
        ("opencode-prune", {}, "compaction.prune", "true"),
        ("opencode-compact", {}, "compaction.reserved", "32000"),
        ("gemini-compress", {"trigger_share": 0.4}, "model.compressionThreshold", "0.4"),
        ("goose", {"trigger_share": 0.7}, "GOOSE_AUTO_COMPACT_THRESHOLD", "0.7"),
        ("pi", {"keep_tokens": 9_000}, "compaction.keepRecentTokens", "9000"),
        ("aider", {}, "--max-chat-history-tokens", "8192"),
        ("defect", {"microcompact_ratio": 0.5}, "microcompact_ratio", "0.5"),
        ("defect-compact", {"threshold": 90_000}, "compact_threshold_tokens", "90000"),
        ("agent-sdk", {"threshold_pct": 60}, "prune_threshold_pct", "60"),
    ],
)
def test_the_value_is_what_the_agent_reads(name: str, given: dict[str, Any], key: str, value: str) -> None:
    assert told(name, **given)[key] == value


def test_only_codex_takes_shares_of_the_whole_window_where_a_part_is_used() -> None:
    window = Window(258_400, "file", full_tokens=272_000)
    for name, value in (("codex", "244800"), ("claude-code-auto", "94")):  # 90 % of the whole; 225,400 of 238,400
        found = build_agent_settings(name, POLICIES[name].Params(), window)
        assert found is not None and found.settings[0].value == value


@pytest.mark.parametrize(
    ("name", "given", "keys"),
    [
        ("claude-code-auto", {"trigger_reserve": 33_000}, {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "autoCompactWindow"}),
        ("claude-code-auto", {"trigger_reserve": 32_999}, set()),
        ("claude-code-idle", {"trigger_tokens": 99_999}, set()),
        ("anthropic-compact", {"trigger_tokens": 50_000}, {"context_management.edits"}),
        ("anthropic-compact", {"trigger_tokens": 49_999}, set()),
        ("roo-condense", {"trigger_share": 0.04}, set()),
    ],
)
def test_a_key_that_cannot_reach_the_value_is_left_out(name: str, given: dict[str, Any], keys: set[str]) -> None:
    assert told(name, **given).keys() == keys
    params = build_params(POLICIES[name], given)
    lines = format_setting_lines(build_agent_settings(name, params, Window(65_536, "file")))
    assert (lines[0] == "the agent has no setting for these values") == (not keys)


def test_what_goes_into_a_request_is_json() -> None:
    (edit,) = json.loads(told("anthropic-clear-tool-uses", clear_at_least=9_000)["context_management.edits"])
    assert edit == {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 100_000},
        "keep": {"type": "tool_uses", "value": 3},
        "clear_at_least": {"type": "input_tokens", "value": 9_000},
        "clear_tool_inputs": False,
    }
    (processor,) = json.loads(told("swe-agent-last-n", keep_every=5)["agent.history_processors"])
    assert processor == {"type": "last_n_observations", "n": 5, "polling": 5}


def test_every_policy_can_be_asked_and_names_only_its_own_parameters() -> None:
    for name, policy in POLICIES.items():
        params = policy.Params()
        found = build_agent_settings(name, params, Window(200_000, "given"))
        if found is not None:
            assert set(found.constant_params) <= set(type(params).model_fields), name
            assert found.settings or found.constant_params, name
    assert build_agent_settings("none", POLICIES["none"].Params(), Window(200_000, "given")) is None


def test_the_command_line_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies", "goose", "-p", "trigger_share=0.6"]) == 0
    out = capsys.readouterr().out
    assert "GOOSE_AUTO_COMPACT_THRESHOLD" in out and "0.6" in out and "hard-coded in the agent" in out
    assert main(["policies", "koda-microcompact", "--json"]) == 0
    (policy,) = json.loads(capsys.readouterr().out)["policies"]
    assert policy["native"]["settings"] == [] and "gap_seconds" in policy["native"]["fixed"]
    assert main(["policies", "claude-code-auto", "-p", "trigger_reserve=30000", "--window", "65536"]) == 0
    assert "the agent has no setting for these values" in capsys.readouterr().out
    assert main(["policies", "-p", "a=1"]) == 2
    assert "name the policy" in capsys.readouterr().err
