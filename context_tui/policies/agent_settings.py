"""Settings that make an agent compact as a policy with given parameters would.

As of November 2026, from the documentation and source of each agent, and from reports of users. A note marks a key that
is known not to work as documented. Parameters that are constants in the agent's source have no key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any

from pydantic import BaseModel

from context_tui.session.window import Window

CLAUDE_CODE_REPLY_TOKENS, CLAUDE_CODE_RESERVED_TOKENS = 20_000, 33_000
"""Tokens of the window that Claude Code reserves for the reply, and in total."""


@dataclass(frozen=True)
class AgentSetting:
    """A setting to write in an agent's configuration: its file or environment, its key, its value, and a note."""

    file: str
    key: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class AgentSettings:
    """The settings that make an agent compact as a policy does, and the parameters that the agent hard-codes."""

    settings: Sequence[AgentSetting]
    constant_params: Sequence[str] = ()


UNKNOWN_SETTINGS_TEXT = "no agent configuration is known for this policy"


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
    if agent_settings.constant_params:
        lines.append(f"hard-coded in the agent; not configurable: {', '.join(agent_settings.constant_params)}")
    return lines


ParamValues = Mapping[str, Any]
_BETA_HEADER_NOTE = "send it with the header anthropic-beta: {}"
_SHELL_ENVIRONMENT = "the shell's environment"


def build_agent_settings(policy: str, params: BaseModel, window: Window) -> AgentSettings | None:
    """Return the settings that make the agent compact with these parameters, or None if the policy has none."""
    build = _SETTINGS_BUILDERS.get(policy)
    return build(params.model_dump(mode="json"), window) if build else None


def _build_claude_code_auto(values: ParamValues, window: Window) -> AgentSettings:
    threshold = window.tokens - values["trigger_reserve"]
    share = 100 * threshold // max(window.tokens - CLAUDE_CODE_REPLY_TOKENS, 1)
    lowers = "it can only lower the threshold (anthropics/claude-code#31806)"
    ignored = "versions 2.1.79 to 2.1.220 were reported to ignore it (#36381, #57567, #82761): back-test it"
    env = "the env block of settings.json was reported not to set it (#63186)"
    newer = f"from 2.1.311 on; the assumed size of the window, of which {CLAUDE_CODE_RESERVED_TOKENS:,} are kept free"
    return AgentSettings(
        (
            AgentSetting(
                _SHELL_ENVIRONMENT, "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", str(share), f"{lowers}; {ignored}; {env}"
            ),
            AgentSetting(
                "~/.claude/settings.json", "autoCompactWindow", str(threshold + CLAUDE_CODE_RESERVED_TOKENS), newer
            ),
        ),
        ("summary_max_tokens",),
    )


def _build_anthropic_clear(values: ParamValues, window: Window) -> AgentSettings:
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
    note = _BETA_HEADER_NOTE.format("context-management-2025-06-27")
    return AgentSettings((AgentSetting("the request", "context_management.edits", dumps([edit]), note),))


def _build_anthropic_compact(values: ParamValues, window: Window) -> AgentSettings:
    trigger = {"type": "input_tokens", "value": values["trigger_tokens"]}
    edit = dumps([{"type": "compact_20260112", "trigger": trigger}])
    note = f"{_BETA_HEADER_NOTE.format('compact-2026-01-12')}; less than 50,000 is reported to be refused"
    return AgentSettings((AgentSetting("the request", "context_management.edits", edit, note),))


def _build_codex(values: ParamValues, window: Window) -> AgentSettings:
    limit = min(int(window.model_tokens * values["trigger_share"]), values["trigger_at_most"])
    note = "newer versions take at most 90 % of the window; in older ones the value took the place of these"
    setting = AgentSetting("~/.codex/config.toml", "model_auto_compact_token_limit", str(limit), note)
    return AgentSettings((setting,), ("keep_user_tokens",))


def _build_opencode_prune(values: ParamValues, window: Window) -> AgentSettings:
    note = "off in the newest versions until it is set"
    setting = AgentSetting("opencode.json", "compaction.prune", "true", note)
    return AgentSettings((setting,), ("keep_turns", "keep_result_tokens", "except_tools", "clear_more_than"))


def _build_opencode_compact(values: ParamValues, window: Window) -> AgentSettings:
    reserved = str(values["trigger_reserve"])
    reply = "the most that is reserved for the reply: less where the model's limit.output is less"
    note = "in place of that where the model has a limit.input, which this is taken from"
    return AgentSettings(
        (
            AgentSetting(_SHELL_ENVIRONMENT, "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX", reserved, reply),
            AgentSetting("opencode.json", "compaction.reserved", reserved, note),
            AgentSetting("opencode.json", "compaction.preserve_recent_tokens", str(values["keep_at_most"])),
        ),
        ("keep_share_of_trigger", "keep_at_least", "summary_max_tokens"),
    )


def _build_gemini(values: ParamValues, window: Window) -> AgentSettings:
    key, share = "model.compressionThreshold", f"{values['trigger_share']:g}"
    note = "chatCompression.contextPercentageThreshold in older versions"
    return AgentSettings(
        (AgentSetting("~/.gemini/settings.json", key, share, note),), ("keep_share_of_context", "keep_result_tokens")
    )


def _build_langchain_clear(values: ParamValues, window: Window) -> AgentSettings:
    arguments = {
        "trigger": values["trigger_tokens"],
        "keep": values["keep_results"],
        "clear_at_least": values["until"],
        "clear_tool_inputs": values["clear_inputs"],
        "exclude_tools": tuple(values["except_tools"]),
    }
    call = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    note = "clear_at_least stops there; at Anthropic's API it is a condition"
    return AgentSettings((AgentSetting("ContextEditingMiddleware", "edits", f"[ClearToolUsesEdit({call})]", note),))


def _build_langchain_summarize(values: ParamValues, window: Window) -> AgentSettings:
    keep = AgentSetting("SummarizationMiddleware", "keep", repr(("messages", values["keep_messages"])))
    trigger = values["trigger_tokens"]
    if not trigger:
        return AgentSettings((keep,), ("trigger_tokens",))
    note = "the summarizer reads the last 4,000 tokens of the head unless trim_tokens_to_summarize is set"
    return AgentSettings((AgentSetting("SummarizationMiddleware", "trigger", repr(("tokens", trigger)), note), keep))


def _build_openhands(values: ParamValues, window: Window) -> AgentSettings:
    section = "LLMSummarizingCondenser"
    return AgentSettings(
        (
            AgentSetting(section, "max_size", str(values["trigger_messages"]), "it counts events; these are messages"),
            AgentSetting(section, "keep_first", str(values["keep_first"])),
        ),
        ("keep_messages", "progress"),
    )


def _build_openhands_masking(values: ParamValues, window: Window) -> AgentSettings:
    file, note = "config.toml, [condenser]", "of the older condensers; it counts events"
    return AgentSettings(
        (
            AgentSetting(file, "type", '"observation_masking"', note),
            AgentSetting(file, "attention_window", str(values["keep_messages"])),
        )
    )


def _build_swe_agent(values: ParamValues, window: Window) -> AgentSettings:
    entry = {"type": "last_n_observations", "n": values["keep_results"], "polling": values["keep_every"]}
    note = "polling above 1 keeps the beginning of the prompt for some calls, for the prompt cache"
    return AgentSettings((AgentSetting("the agent's YAML", "agent.history_processors", dumps([entry]), note),))


def _build_roo_condense(values: ParamValues, window: Window) -> AgentSettings:
    percent = str(round(100 * values["trigger_share"]))
    setting = AgentSetting(
        "Roo's settings, Context", "autoCondenseContextPercent", percent, "5 to 100, for each profile too"
    )
    return AgentSettings((setting,), ("trigger_share_2", "trigger_reserve"))


def _build_goose(values: ParamValues, window: Window) -> AgentSettings:
    note = "0 or less, and 1 or more, turn it off"
    setting = AgentSetting(_SHELL_ENVIRONMENT, "GOOSE_AUTO_COMPACT_THRESHOLD", f"{values['trigger_share']:g}", note)
    return AgentSettings((setting,), ("keep_user_messages",))


def _build_pi(values: ParamValues, window: Window) -> AgentSettings:
    file = "~/.pi/agent/settings.json"
    return AgentSettings(
        (
            AgentSetting(file, "compaction.reserveTokens", str(values["trigger_reserve"])),
            AgentSetting(file, "compaction.keepRecentTokens", str(values["keep_tokens"])),
        )
    )


def _build_aider(values: ParamValues, window: Window) -> AgentSettings:
    limit = min(
        max(int(window.tokens * values["trigger_share"]), values["trigger_at_least"]), values["trigger_at_most"]
    )
    setting = AgentSetting("the command line", "--max-chat-history-tokens", str(limit))
    return AgentSettings((setting,), ("keep_share_of_trigger",))


def _build_defect(values: ParamValues, window: Window) -> AgentSettings:
    keys = ("microcompact_ratio", "compact_soft_ratio", "compact_ratio")
    settings = [
        AgentSetting("defect's configuration, [turn]", key, f"{values[key]:g}") for key in keys if key in values
    ]
    if values.get("threshold") is not None:
        note = "in place of compact_ratio only"
        key = "compact_threshold_tokens"
        settings.append(AgentSetting("defect's configuration, [turn]", key, str(values["threshold"]), note))
    fixed = ("keep_recent_turns", "min_clear_tokens", "assistant_boundary")
    return AgentSettings(settings, [name for name in fixed if name in values])


def _build_agent_sdk(values: ParamValues, window: Window) -> AgentSettings:
    names = {
        "context_budget": "context_budget",
        "threshold_pct": "prune_threshold_pct",
        "max_chars": "prune_tool_result_max_chars",
        "preserve_tail": "min_keep_messages",
        "min_keep": "min_keep_messages",
        "summary_max_tokens": "summary_max_tokens",
    }
    blind = "compared with uncached input tokens, which with a warm cache at Anthropic are few: then it never acts"
    keys = {names[name]: str(value) for name, value in values.items() if name in names}
    notes = {"context_budget": blind}
    return AgentSettings([AgentSetting("[compaction]", key, value, notes.get(key, "")) for key, value in keys.items()])


def _build_constants(values: ParamValues, window: Window) -> AgentSettings:
    return AgentSettings((), tuple(values))


_SETTINGS_BUILDERS: dict[str, Callable[[ParamValues, Window], AgentSettings]] = {
    "claude-code-auto": _build_claude_code_auto,
    "claude-code-micro": _build_constants,
    "claude-code-micro-by-size": _build_constants,
    "anthropic-clear-tool-uses": _build_anthropic_clear,
    "anthropic-compact": _build_anthropic_compact,
    "codex": _build_codex,
    "opencode-prune": _build_opencode_prune,
    "opencode-compact": _build_opencode_compact,
    "gemini-compress": _build_gemini,
    "langchain-clear": _build_langchain_clear,
    "langchain-summarize": _build_langchain_summarize,
    "openhands-condenser": _build_openhands,
    "openhands-masking": _build_openhands_masking,
    "swe-agent-last-n": _build_swe_agent,
    "roo-condense": _build_roo_condense,
    "goose": _build_goose,
    "pi": _build_pi,
    "aider": _build_aider,
    "defect": _build_defect,
    "defect-microcompact": _build_defect,
    "defect-compact": _build_defect,
    "agent-sdk": _build_agent_sdk,
    "agent-sdk-prune": _build_agent_sdk,
    "agent-sdk-compact": _build_agent_sdk,
    "koda": _build_constants,
    "koda-microcompact": _build_constants,
}
