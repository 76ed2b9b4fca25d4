"""A setting as the configuration of the agent that it belongs to: which file, which key, which value.

What each agent reads is as of November 2026, from its documentation, its source or reports of its users; where a key is
known not to do what it says, the note tells. Parameters that are constants in the agent's source have no key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any

from pydantic import BaseModel

from context_tui.session.window import Window

ASSUMED_REPLY = 32_000
"""Tokens of a reply that opencode reserves for the largest models, in whose place nothing can be set."""
CLAUDE_CODE_REPLY, CLAUDE_CODE_RESERVE = 20_000, 33_000
"""Tokens of the window that Claude Code keeps for the reply, and with what it keeps besides before it compacts."""


@dataclass(frozen=True)
class Setting:
    """One setting of an agent: the ``file`` (or environment) that it stands in, the ``key``, the ``value`` as it is
    written there, and a ``note`` on what is known of it; empty where that is nothing.
    """

    file: str
    key: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Native:
    """The settings of an agent for a policy, and the parameters that cannot be set there."""

    settings: Sequence[Setting]
    fixed: Sequence[str] = ()


def as_text(own: Native) -> str:
    """The settings to be copied: keys and values below the file that they belong to, with all else as comments."""
    lines, file = list[str](), ""
    for each in own.settings:
        if each.file != file:
            file = each.file
            lines.append(f"# {file}")
        lines.append(f"{each.key} = {each.value}")
        if each.note:
            lines.append(f"#   note: {each.note}")
    if own.fixed:
        lines.append(f"#   no setting of the agent: {', '.join(own.fixed)}")
    return "\n".join(lines)


Values = Mapping[str, Any]
_BETA = "send it with the header anthropic-beta: {}"
_SHELL = "the shell's environment"


def native(policy: str, params: BaseModel, window: Window) -> Native | None:
    """What an agent is to be told so that it compacts by these parameters; None where nothing is known of its settings.

    Args:
        policy: the policy's name.
        window: the context window, for settings that are shares of it or tokens.
    """
    made = _AGENTS.get(policy)
    return made(params.model_dump(mode="json"), window) if made else None


def _claude_code_auto(values: Values, window: Window) -> Native:
    threshold = window.tokens - values["trigger_reserve"]
    share = 100 * threshold // max(window.tokens - CLAUDE_CODE_REPLY, 1)
    lowers = "it can only lower the threshold (anthropics/claude-code#31806)"
    ignored = "versions 2.1.79 to 2.1.220 were reported to ignore it (#36381, #57567, #82761): back-test it"
    env = "the env block of settings.json was reported not to set it (#63186)"
    newer = (
        f"from 2.1.311 on; the size that it takes the window to have, of which {CLAUDE_CODE_RESERVE:,} are kept free"
    )
    return Native(
        (
            Setting(_SHELL, "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", str(share), f"{lowers}; {ignored}; {env}"),
            Setting("~/.claude/settings.json", "autoCompactWindow", str(threshold + CLAUDE_CODE_RESERVE), newer),
        ),
        ("summary_max_tokens",),
    )


def _anthropic_clear(values: Values, window: Window) -> Native:
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
    note = _BETA.format("context-management-2025-06-27")
    return Native((Setting("the request", "context_management.edits", dumps([edit]), note),))


def _anthropic_compact(values: Values, window: Window) -> Native:
    trigger = {"type": "input_tokens", "value": values["trigger_tokens"]}
    edit = dumps([{"type": "compact_20260112", "trigger": trigger}])
    note = f"{_BETA.format('compact-2026-01-12')}; less than 50,000 is reported to be refused"
    return Native((Setting("the request", "context_management.edits", edit, note),))


def _codex(values: Values, window: Window) -> Native:
    limit = min(int(window.model_tokens * values["trigger_share"]), values["trigger_at_most"])
    note = "newer versions take at most 90 % of the window; in older ones the value took the place of these"
    setting = Setting("~/.codex/config.toml", "model_auto_compact_token_limit", str(limit), note)
    return Native((setting,), ("keep_user_tokens",))


def _opencode_prune(values: Values, window: Window) -> Native:
    note = "off in the newest versions until it is set"
    setting = Setting("opencode.json", "compaction.prune", "true", note)
    return Native((setting,), ("keep_turns", "keep_result_tokens", "except_tools", "clear_more_than"))


def _opencode_compact(values: Values, window: Window) -> Native:
    reserved = max(values["trigger_reserve"] - ASSUMED_REPLY, 0)
    note = f"what is kept besides the model's largest reply, {ASSUMED_REPLY:,} tokens here"
    return Native(
        (
            Setting("opencode.json", "compaction.reserved", str(reserved), note),
            Setting("opencode.json", "compaction.preserve_recent_tokens", str(values["keep_at_most"])),
        ),
        ("keep_share_of_trigger", "keep_at_least", "summary_max_tokens"),
    )


def _gemini(values: Values, window: Window) -> Native:
    key, share = "model.compressionThreshold", f"{values['trigger_share']:g}"
    note = "chatCompression.contextPercentageThreshold in older versions"
    return Native(
        (Setting("~/.gemini/settings.json", key, share, note),), ("keep_share_of_context", "keep_result_tokens")
    )


def _langchain_clear(values: Values, window: Window) -> Native:
    arguments = {
        "trigger": values["trigger_tokens"],
        "keep": values["keep_results"],
        "clear_at_least": values["until"],
        "clear_tool_inputs": values["clear_inputs"],
        "exclude_tools": tuple(values["except_tools"]),
    }
    call = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    note = "clear_at_least stops there; at Anthropic's API it is a condition"
    return Native((Setting("ContextEditingMiddleware", "edits", f"[ClearToolUsesEdit({call})]", note),))


def _langchain_summarize(values: Values, window: Window) -> Native:
    keep = Setting("SummarizationMiddleware", "keep", repr(("messages", values["keep_messages"])))
    trigger = values["trigger_tokens"]
    if not trigger:
        return Native((keep,), ("trigger_tokens",))
    note = "the summarizer reads the last 4,000 tokens of the head unless trim_tokens_to_summarize is set"
    return Native((Setting("SummarizationMiddleware", "trigger", repr(("tokens", trigger)), note), keep))


def _openhands(values: Values, window: Window) -> Native:
    made = "LLMSummarizingCondenser"
    return Native(
        (
            Setting(made, "max_size", str(values["trigger_messages"]), "it counts events; these are messages"),
            Setting(made, "keep_first", str(values["keep_first"])),
        ),
        ("keep_messages", "progress"),
    )


def _openhands_masking(values: Values, window: Window) -> Native:
    file, note = "config.toml, [condenser]", "of the older condensers; it counts events"
    return Native(
        (
            Setting(file, "type", '"observation_masking"', note),
            Setting(file, "attention_window", str(values["keep_messages"])),
        )
    )


def _swe_agent(values: Values, window: Window) -> Native:
    entry = {"type": "last_n_observations", "n": values["keep_results"], "polling": values["keep_every"]}
    note = "polling above 1 keeps the beginning of the prompt for some calls, for the prompt cache"
    return Native((Setting("the agent's YAML", "agent.history_processors", dumps([entry]), note),))


def _roo_condense(values: Values, window: Window) -> Native:
    percent = str(round(100 * values["trigger_share"]))
    setting = Setting(
        "Roo's settings, Context", "autoCondenseContextPercent", percent, "5 to 100, for each profile too"
    )
    return Native((setting,), ("trigger_share_2", "trigger_reserve"))


def _goose(values: Values, window: Window) -> Native:
    note = "0 or less, and 1 or more, turn it off"
    setting = Setting(_SHELL, "GOOSE_AUTO_COMPACT_THRESHOLD", f"{values['trigger_share']:g}", note)
    return Native((setting,), ("keep_user_messages",))


def _pi(values: Values, window: Window) -> Native:
    file = "~/.pi/agent/settings.json"
    return Native(
        (
            Setting(file, "compaction.reserveTokens", str(values["trigger_reserve"])),
            Setting(file, "compaction.keepRecentTokens", str(values["keep_tokens"])),
        )
    )


def _aider(values: Values, window: Window) -> Native:
    limit = min(
        max(int(window.tokens * values["trigger_share"]), values["trigger_at_least"]), values["trigger_at_most"]
    )
    setting = Setting("the command line", "--max-chat-history-tokens", str(limit))
    return Native((setting,), ("keep_share_of_trigger",))


def _defect(values: Values, window: Window) -> Native:
    keys = ("microcompact_ratio", "compact_soft_ratio", "compact_ratio")
    found = [Setting("defect's configuration, [turn]", key, f"{values[key]:g}") for key in keys if key in values]
    if values.get("threshold") is not None:
        note = "in place of compact_ratio only"
        key = "compact_threshold_tokens"
        found.append(Setting("defect's configuration, [turn]", key, str(values["threshold"]), note))
    fixed = ("keep_recent_turns", "min_clear_tokens", "assistant_boundary")
    return Native(found, [name for name in fixed if name in values])


def _agent_sdk(values: Values, window: Window) -> Native:
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
    return Native([Setting("[compaction]", key, value, notes.get(key, "")) for key, value in keys.items()])


def _constants(values: Values, window: Window) -> Native:
    return Native((), tuple(values))


_AGENTS: dict[str, Callable[[Values, Window], Native]] = {
    "claude-code-auto": _claude_code_auto,
    "claude-code-micro": _constants,
    "claude-code-micro-by-size": _constants,
    "anthropic-clear-tool-uses": _anthropic_clear,
    "anthropic-compact": _anthropic_compact,
    "codex": _codex,
    "opencode-prune": _opencode_prune,
    "opencode-compact": _opencode_compact,
    "gemini-compress": _gemini,
    "langchain-clear": _langchain_clear,
    "langchain-summarize": _langchain_summarize,
    "openhands-condenser": _openhands,
    "openhands-masking": _openhands_masking,
    "swe-agent-last-n": _swe_agent,
    "roo-condense": _roo_condense,
    "goose": _goose,
    "pi": _pi,
    "aider": _aider,
    "defect": _defect,
    "defect-microcompact": _defect,
    "defect-compact": _defect,
    "agent-sdk": _agent_sdk,
    "agent-sdk-prune": _agent_sdk,
    "agent-sdk-compact": _agent_sdk,
    "koda": _constants,
    "koda-microcompact": _constants,
}
