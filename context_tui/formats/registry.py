"""The formats there are, in the order in which they are asked; equal claims go to the earlier one."""

from __future__ import annotations

from typing import Any, cast

from context_tui.app.plugins import Plugins
from context_tui.errors import Error
from context_tui.formats.base import Format
from context_tui.formats.guarded import GuardedFormat


def _find_defect(name: str, loaded: Any) -> str:
    """What keeps a loaded object from being the format of this name; empty when nothing does."""
    if Format not in type(loaded).__mro__:
        return "it does not derive from formats.base.Format"
    missing = [each for each in ("name", "about") if not hasattr(loaded, each)]
    if missing:
        return f"it lacks {', '.join(missing)}"
    if not all(isinstance(text, str) for text in (loaded.name, loaded.about)):
        return "its name or about is not a text"
    if not (isinstance(loaded.suffixes, tuple) and loaded.suffixes and all(map(_is_suffix, loaded.suffixes))):
        return "its suffixes are not a tuple of texts like '.jsonl'"
    return f"it calls itself {loaded.name!r}" if loaded.name != name else ""


def _is_suffix(text: object) -> bool:
    return isinstance(text, str) and text.startswith(".") and "/" not in text


FORMATS: Plugins[Format] = Plugins(
    "format",
    "context_tui.formats",
    {
        "claude-code": "context_tui.formats.claude_code:ClaudeCodeFormat",
        "koda": "context_tui.formats.koda:KodaFormat",
        "anthropic": "context_tui.formats.anthropic:AnthropicFormat",
        "openai": "context_tui.formats.openai:OpenAIFormat",
        "openai-responses": "context_tui.formats.responses:ResponsesFormat",
        "codex": "context_tui.formats.codex:CodexFormat",
        "gemini-cli": "context_tui.formats.gemini_cli:GeminiCliFormat",
        "copilot-cli": "context_tui.formats.copilot_cli:CopilotCliFormat",
        "pi": "context_tui.formats.pi:PiFormat",
        "opencode": "context_tui.formats.opencode:OpencodeFormat",
        "crush": "context_tui.formats.crush:CrushFormat",
        "goose": "context_tui.formats.goose:GooseFormat",
        "cline": "context_tui.formats.cline:ClineFormat",
        "cline-sdk": "context_tui.formats.cline.sdk:ClineSdkFormat",
        "openhands": "context_tui.formats.openhands:OpenHandsFormat",
        "swe-agent": "context_tui.formats.swe_agent:SweAgentFormat",
        "mini-swe-agent": "context_tui.formats.mini_swe_agent:MiniSweAgentFormat",
        "agent-sdk": "context_tui.formats.agent_sdk:AgentSdkFormat",
        "defect": "context_tui.formats.defect:DefectFormat",
        "aider": "context_tui.formats.aider:AiderFormat",
        "langchain": "context_tui.formats.langchain:LangChainFormat",
    },
    _find_defect,
    lambda form: cast(Format, GuardedFormat(form)),
)


def get_format(name: str) -> Format:
    """The format of this name.

    Raises:
        Error: there is none.
    """
    if name not in FORMATS:
        raise Error(f"unknown format {name!r}; available: {', '.join(FORMATS)}")
    return FORMATS[name]
