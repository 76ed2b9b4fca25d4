"""Tables of the tools that agents provide: what each tool does, by name, and what its arguments mean.

Names and arguments are from recorded calls and from the tool descriptions of the agents: Claude Code, Codex, opencode,
Gemini CLI, Cline, Roo Code, pi, Copilot CLI, OpenHands, SWE-agent, Goose, Crush, koda. A tool that is not listed is
classified by the words in its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from context_tui.text.files import read_toml

ToolVerb = Literal["run", "read", "search", "edit", "by command", ""]
"""Kind of a tool: it runs a command line, reads a file, searches, changes a file, does one of these by its argument
``command``, or does something else.
"""

_TABLES = read_toml("context_tui.lab.regret", "tools.toml")

TOOL_VERBS: dict[str, ToolVerb] = {name: verb for verb, names in _TABLES["tools"].items() for name in names}
"""Kinds by the name of a tool, in lower case and without a server or extension prefix."""

COMMAND_VERBS: dict[str, ToolVerb] = _TABLES["verbs"]
"""Kinds by the argument ``command``, for a tool that does several things."""

ARGUMENTS: dict[str, tuple[str, ...]] = {kind: tuple(names) for kind, names in _TABLES["arguments"].items()}
"""Names of arguments, by what these contain; ``tools.toml`` explains each kind."""

COMMANDS = {kind: frozenset[str](names) for kind, names in _TABLES["commands"].items()}
"""Commands of a shell, by what they do; ``git_reads`` are the commands of git that show committed content."""
CMDLETS = {kind: frozenset[str](names) for kind, names in _TABLES["cmdlets"].items()}
"""Cmdlets of PowerShell, by what they do, and their ``flags``, which take no value."""
VALUE_OPTIONS: dict[str, list[str]] = _TABLES["value_options"]
"""Options that the next word belongs to, by command."""

_WORDS = {kind: frozenset[str](words) for kind, words in _TABLES["words"].items()}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def classify_tool(tool: str, arguments: Mapping[str, Any]) -> ToolVerb:
    """Return what a call to *tool* with these arguments does, such as read, edit, search or run."""
    verb = TOOL_VERBS.get(tool.lower(), TOOL_VERBS.get(tool.lower().rpartition("__")[2]))
    if verb is None:
        verb = _classify_by_name(tool[:100], arguments)
    return COMMAND_VERBS.get(str(arguments.get("command")), "") if verb == "by command" else verb


def _classify_by_name(tool: str, arguments: Mapping[str, Any]) -> ToolVerb:
    words = {word.lower() for word in _WORD.findall(tool)} | {tool.lower()}
    if words & _WORDS["run"] and any(arguments.get(key) for key in ARGUMENTS["command_line"]):
        return "run"
    if str(arguments.get("command")) in COMMAND_VERBS:
        return "by command"
    if words & _WORDS["read"]:
        return "read"
    if words & _WORDS["edit"]:
        return "edit"
    return "search" if words & _WORDS["search"] and not words & _WORDS["poll"] else ""
