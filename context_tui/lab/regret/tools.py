"""Tables of the tools that agents provide: what each tool does, by name, and what its arguments mean.

Names and arguments are from recorded calls and from the tool descriptions of the agents: Claude Code, Codex, opencode,
Gemini CLI, Cline, Roo Code, pi, Copilot CLI, OpenHands, SWE-agent, Goose, Crush, koda. A tool that is not listed is
classified by the words in its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

ToolVerb = Literal["run", "read", "search", "edit", "by command", ""]
"""Kind of a tool: it runs a command line, reads a file, searches, changes a file, does one of these by its argument
``command``, or does something else.
"""

_RUN_TOOLS = (
    "shell shell_command local_shell_call container.exec exec_command unified_exec bash powershell run_shell_command"
    " execute_command run_commands execute_bash terminal"
)
_READ_TOOLS = "read view read_file read_many_files read_files read_multiple_files open"
_SEARCH_TOOLS = (
    "grep glob ls search_file_content list_directory search_files list_files list_code_definition_names find_file"
)
_EDIT_TOOLS = (
    "apply_patch edit multiedit write create write_file replace write_to_file replace_in_file apply_diff"
    " search_and_replace insert_content editor"
)
_COMMAND_TOOLS = "str_replace_editor str_replace_based_edit_tool file_editor text_editor"
_OTHER_TOOLS = (
    "write_stdin update_plan todowrite todoread bashoutput read_bash stop_bash save_memory update_todo_list"
    " use_mcp_tool access_mcp_resource attempt_completion ask_followup_question"
)

TOOL_VERBS: dict[str, ToolVerb] = {
    **dict.fromkeys(_RUN_TOOLS.split(), "run"),
    **dict.fromkeys(_READ_TOOLS.split(), "read"),
    **dict.fromkeys(_SEARCH_TOOLS.split(), "search"),
    **dict.fromkeys(_EDIT_TOOLS.split(), "edit"),
    **dict.fromkeys(_COMMAND_TOOLS.split(), "by command"),
    **dict.fromkeys(_OTHER_TOOLS.split(), ""),
}
"""Kinds by the name of a tool, in lower case and without a server or extension prefix."""

COMMAND_VERBS: dict[str, ToolVerb] = {
    "view": "read",
    "create": "edit",
    "write": "edit",
    "str_replace": "edit",
    "edit_file": "edit",
    "insert": "edit",
    "undo_edit": "edit",
}
"""Kinds by the argument ``command``, for a tool that does several things."""

PATH_ARGUMENTS = (
    *("file_path", "path", "notebook_path", "filePath", "filepath", "filename", "file", "target_file", "absolute_path"),
    *("relative_path", "url"),
)
PATH_LIST_ARGUMENTS = ("paths", "files", "file_paths")
"""Arguments with a list of paths, or of objects with one of :data:`PATH_ARGUMENTS` and a range of lines."""
COMMAND_LINE_ARGUMENTS = ("command", "cmd", "script", "commands")
REPLACED_TEXT_ARGUMENTS = ("old_string", "old_str", "oldString", "oldText", "old_text", "old_content", "search")
"""Arguments with a text that an edit replaces."""
INSERTED_TEXT_ARGUMENTS = ("new_string", "new_str", "newString", "newText", "new_text", "new_content", "replace")
"""Arguments with a text that an edit puts in place of another."""
DIFF_ARGUMENTS = ("diff", "patch")
"""Arguments with search-and-replace blocks, or a unified diff."""
FILE_CONTENT_ARGUMENTS = ("content", "file_text")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_RUN_WORDS = frozenset("bash shell exec command terminal run execute powershell".split())
_READ_WORDS = frozenset("read view open cat notebookread".split())
_EDIT_WORDS = frozenset(
    "write edit multiedit patch create insert replace update notebookedit delete move apply".split()
)
_SEARCH_WORDS = frozenset("get list ls glob grep search find fetch query show describe lookup".split())
_POLL_WORDS = frozenset("task tasks todo todos output status wait poll process console logs screenshot".split())
"""Words in names of tools that are called repeatedly to check a state."""


def classify_tool(tool: str, arguments: Mapping[str, Any]) -> ToolVerb:
    """Return what a call to *tool* with these arguments does, such as read, edit, search or run."""
    verb = TOOL_VERBS.get(tool.lower(), TOOL_VERBS.get(tool.lower().rpartition("__")[2]))
    if verb is None:
        verb = _classify_by_name(tool[:100], arguments)
    return COMMAND_VERBS.get(str(arguments.get("command")), "") if verb == "by command" else verb


def _classify_by_name(tool: str, arguments: Mapping[str, Any]) -> ToolVerb:
    words = {word.lower() for word in _WORD.findall(tool)} | {tool.lower()}
    if words & _RUN_WORDS and any(arguments.get(key) for key in COMMAND_LINE_ARGUMENTS):
        return "run"
    if str(arguments.get("command")) in COMMAND_VERBS:
        return "by command"
    if words & _READ_WORDS:
        return "read"
    if words & _EDIT_WORDS:
        return "edit"
    return "search" if words & _SEARCH_WORDS and not words & _POLL_WORDS else ""
