"""Settings that make an agent compact as a policy with given parameters would, from ``agent_settings.toml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from json import dumps
from typing import Any, NamedTuple

from pydantic import BaseModel

from context_tui.session.window import Window
from context_tui.text.files import read_toml

CLAUDE_CODE_REPLY_TOKENS, CLAUDE_CODE_RESERVED_TOKENS = 20_000, 33_000
"""Tokens of the window that Claude Code reserves for the reply, and in total."""


class AgentSetting(NamedTuple):
    """A setting to write in an agent's configuration: its file or environment, its key, its value, and a note."""

    file: str
    key: str
    value: str
    note: str = ""


class AgentSettings(NamedTuple):
    """The settings that make an agent compact as a policy does, and the parameters that the agent hard-codes."""

    settings: Sequence[AgentSetting]
    constant_params: Sequence[str] = ()


UNKNOWN_SETTINGS_TEXT = "no agent configuration is known for this policy"
NO_SETTING_TEXT = "the agent has no setting for these values"


def format_agent_settings(agent_settings: AgentSettings | None) -> str:
    """Format the settings for copying as ``key = value`` lines, with file names and notes as comments."""
    if agent_settings is None:
        return f"# {UNKNOWN_SETTINGS_TEXT}"
    lines, file = list[str](), ""
    for setting in agent_settings.settings:
        if setting.file != file:
            file = setting.file
            lines.append(f"# {file}")
        lines.append(f"{setting.key} = {setting.value}")
        if setting.note:
            lines.append(f"#   note: {setting.note}")
    if not lines:
        lines.append(f"#   {NO_SETTING_TEXT}")
    if agent_settings.constant_params:
        lines.append(f"#   no setting of the agent: {', '.join(agent_settings.constant_params)}")
    return "\n".join(lines)


def format_setting_lines(agent_settings: AgentSettings | None) -> list[str]:
    """Format the settings for reading, one per line, followed by the parameters that the agent hard-codes."""
    if agent_settings is None:
        return [UNKNOWN_SETTINGS_TEXT]
    lines = []
    for setting in agent_settings.settings:
        note = f"  ({setting.note})" if setting.note else ""
        lines.append(f"{setting.file}: {setting.key} = {setting.value}{note}")
    lines = lines or [NO_SETTING_TEXT]
    if agent_settings.constant_params:
        lines.append(f"hard-coded in the agent; not configurable: {', '.join(agent_settings.constant_params)}")
    return lines


def build_agent_settings(policy: str, params: BaseModel, window: Window) -> AgentSettings | None:
    """Return the settings that make the agent compact with these parameters, or None if the policy has none.

    Settings that cannot reach a value are left out.
    """
    agent = next((agent for agent in _load_agents() if policy in agent["policies"]), None)
    if agent is None:
        return None
    values = params.model_dump(mode="json")
    unset = [name for name in agent.get("constant_unless_set", ()) if not values[name]]
    known = {name: value for name, value in values.items() if value is not None and name not in unset}
    known |= _compute_values(policy, values, window)
    settings: dict[str, AgentSetting] = {}  # by key; if two parameters set the same key, the last one counts
    for setting in agent.get("settings", ()):
        with suppress(KeyError):  # a parameter that is missing or not set
            name, low, high = setting.get("reaches", ("", 0, 0))
            members = {**setting, "value": setting["value"].format_map(known)}
            if low <= known.get(name, 0) <= high:
                settings[setting["key"]] = AgentSetting(*(members.get(each, "") for each in AgentSetting._fields))
    constants = agent.get("constant_params", ()) if "settings" in agent else values
    return AgentSettings(tuple(settings.values()), [*(name for name in constants if name in values), *unset])


@cache
def _load_agents() -> list[dict[str, Any]]:
    agents: list[dict[str, Any]] = read_toml("context_tui.policies", "agent_settings.toml")["agents"]
    return agents


def _compute_values(policy: str, values: Mapping[str, Any], window: Window) -> dict[str, Any]:
    match policy:
        case "claude-code-auto":
            threshold = window.tokens - values["trigger_reserve"]
            share = 100 * threshold // max(window.tokens - CLAUDE_CODE_REPLY_TOKENS, 1)
            return {"share": share, "window": threshold + CLAUDE_CODE_RESERVED_TOKENS}
        case "codex":
            return {"limit": min(int(window.model_tokens * values["trigger_share"]), values["trigger_at_most"])}
        case "aider":
            limit = max(int(window.tokens * values["trigger_share"]), values["trigger_at_least"])
            return {"limit": min(limit, values["trigger_at_most"])}
        case "roo-condense":
            return {"percent": round(100 * values["trigger_share"])}
        case "langchain-clear":
            return {"excluded": tuple(values["except_tools"])}
        case "anthropic-clear-tool-uses":
            return {"edits": dumps([_build_anthropic_edit(values)])}
    return {}


def _build_anthropic_edit(values: Mapping[str, Any]) -> dict[str, Any]:
    edit: dict[str, Any] = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": values["trigger_tokens"]},
        "keep": {"type": "tool_uses", "value": values["keep_results"]},
        "clear_tool_inputs": values["clear_inputs"],
    }
    if values["clear_at_least"]:
        edit["clear_at_least"] = {"type": "input_tokens", "value": values["clear_at_least"]}
    if values["except_tools"]:
        edit["exclude_tools"] = values["except_tools"]
    return edit
