"""Analyze tool calls: what they fetch, the files they read, and what they edit."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from context_tui.lab.regret.tools import (
    COMMAND_LINE_ARGUMENTS,
    DIFF_ARGUMENTS,
    FILE_CONTENT_ARGUMENTS,
    PATH_ARGUMENTS,
    PATH_LIST_ARGUMENTS,
    REPLACED_TEXT_ARGUMENTS,
    classify_tool,
)
from context_tui.session.blocks import parse_read_range
from context_tui.session.jsontext import compact_text

MAX_COMMAND_LENGTH = 2_000
"""Characters of a command that is looked into; a longer one is a script."""

_READ_COMMANDS = frozenset(
    "cat head tail sed nl less more bat grep egrep fgrep rg ls find tree wc file stat jq".split()
)
_FILTER_COMMANDS = frozenset("cd pwd echo sort uniq cut tr awk column true".split())
_GIT_READ_COMMANDS = frozenset("show log blame grep ls-files ls-tree cat-file".split())
"""Of git, what shows what is committed; its status and diff are asked again to see what has changed."""
_FILE_PRINTERS = frozenset("cat head tail nl less more bat".split())
_PATTERN_COMMANDS = frozenset("grep egrep fgrep rg sed jq".split())
_SEPARATORS = frozenset(("&&", "||", ";", "|", "&", "\n"))
_REDIRECTIONS = re.compile(r"[0-9]?>+\s*/dev/null|[0-9]?>&[0-9]|&>\s*/dev/null")
_UNSAFE_SHELL_SYNTAX = re.compile(r"[`<>]|\$[({]|-exec\b|-delete\b|\bxargs\b")
_SED_SUBSTITUTION = re.compile(r"s([/|#,@!])((?:(?!\1)[^\\\n]){12,300})\1")
"""A sed command's old text, where nothing in it is escaped."""
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,500})$", re.MULTILINE)
_SEARCH_BLOCK = re.compile(r"(?:<{5,9}|-{5,9}) ?SEARCH[^\n]*\n(?::start_line:[^\n]*\n)?(?:-{5,9}\n)?")
_SEARCH_END = re.compile(r"\n={5,9}[^\n]*\n")


class CallEffect(NamedTuple):
    """Effect of a tool call.

    ``fetch_key`` is the same for two calls that fetch the same; empty where the call fetches nothing, or checks for
    changes. ``read_paths`` are the files whose content it gets, ``changed_paths`` those that it changes, and
    ``replaced_texts`` the texts that it replaces there. ``written_text`` is the whole content that it writes to a file.
    """

    fetch_key: str = ""
    read_paths: tuple[str, ...] = ()
    changed_paths: tuple[str, ...] = ()
    replaced_texts: tuple[str, ...] = ()
    written_text: str = ""


def analyze_call(tool: str, arguments: object) -> CallEffect:
    """Analyse the effects of a call of *tool* with these arguments."""
    inputs: Mapping[str, Any] = arguments if isinstance(arguments, dict) else {"input": arguments}
    if isinstance(inputs.get("args"), dict):
        inputs = inputs["args"]
    verb = classify_tool(tool, inputs)
    if verb == "run" and (command := get_command_line(inputs)):
        return _analyze_command(command, powershell="powershell" in tool.lower())
    patch = next((text for text in inputs.values() if isinstance(text, str) and "*** Begin Patch" in text[:2_000]), "")
    if patch:
        return _analyze_patch(patch)
    parts = [inputs, *_iter_file_parts(inputs)]
    paths = tuple(dict.fromkeys(path for part in parts if (path := _get_path(part))))
    if verb == "read" and paths:
        targets = " ".join(f"{_get_path(part)} {_get_read_range(part)}".rstrip() for part in parts if _get_path(part))
        return CallEffect(f"read {targets}", paths)
    if verb == "edit":
        return _analyze_edit(inputs, paths)
    if verb == "search":
        return CallEffect(f"{tool} {compact_text(dict(inputs))}", paths if "grep" in tool.lower() else ())
    return CallEffect()


def _get_path(arguments: Mapping[str, Any]) -> str:
    paths = (value for key in PATH_ARGUMENTS if isinstance(value := arguments.get(key), str) and value.strip())
    return next(paths, "").replace("\\", "/")


def _iter_file_parts(arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in (*PATH_LIST_ARGUMENTS, *PATH_ARGUMENTS):
        if isinstance(several := arguments.get(key), list):
            for each in several:
                yield each if isinstance(each, dict) else {"path": each}


def _get_read_range(arguments: Mapping[str, Any]) -> object:
    """Return the part of a file that is asked for; empty for all of it."""
    return (
        parse_read_range(dict(arguments))
        or arguments.get("view_range")
        or arguments.get("line_ranges")
        or arguments.get("line_number")
        or ""
    )


def get_command_line(arguments: Mapping[str, Any]) -> str:
    """Return the command line of a shell's arguments; of several commands, all."""
    command = next((value for key in COMMAND_LINE_ARGUMENTS if (value := arguments.get(key))), "")
    if isinstance(command, list):
        words = [str(word) for word in command]
        if arguments.get("commands") is command:
            return "\n".join(words)
        is_script = len(words) > 2 and words[-2].lower() in ("-c", "-lc", "-ic", "-command", "/c")
        if is_script and words[-2].lower() in ("-command", "/c"):
            return f"{words[0]} {words[-2]} {words[-1]}"
        return words[-1] if is_script else " ".join(words)
    return command if isinstance(command, str) else ""


def _analyze_edit(arguments: Mapping[str, Any], paths: tuple[str, ...]) -> CallEffect:
    edits = arguments.get("edits")
    parts = [arguments, *(each for each in edits if isinstance(each, dict))] if isinstance(edits, list) else [arguments]
    old = tuple(
        text for part in parts for key in REPLACED_TEXT_ARGUMENTS if isinstance(text := part.get(key), str) and text
    )
    diffs = (text for part in parts for key in DIFF_ARGUMENTS if isinstance(text := part.get(key), str))
    old += tuple(text for diff in diffs for text in _iter_search_texts(diff))
    content = next((value for key in FILE_CONTENT_ARGUMENTS if (value := arguments.get(key))), "")
    return CallEffect(
        changed_paths=paths, replaced_texts=old, written_text=content if isinstance(content, str) and not old else ""
    )


def _iter_search_texts(diff: str) -> Iterator[str]:
    for part in _SEARCH_BLOCK.split(diff)[1:]:
        end = _SEARCH_END.search(part)
        if end:
            yield part[: end.start()]


def _analyze_patch(patch: str) -> CallEffect:
    lines = [line[1:] for line in patch.splitlines() if line[:1] in ("-", " ")]
    return CallEffect(
        changed_paths=tuple(path.strip() for path in _PATCHED_FILE.findall(patch)), replaced_texts=("\n".join(lines),)
    )


def _analyze_command(command: str, *, powershell: bool) -> CallEffect:
    if "*** Begin Patch" in command[:2_000]:
        return _analyze_patch(command)
    if len(command) > MAX_COMMAND_LENGTH:
        return CallEffect()
    script = extract_powershell_script(command) or (command if powershell else "")
    if script:
        files = find_powershell_reads(script)
        return CallEffect() if files is None else CallEffect(f"$ {' '.join(script.split())}", tuple(files))
    plain = _REDIRECTIONS.sub(" ", command)
    pieces = _split_commands(plain, _SEPARATORS.__contains__)
    changes = tuple(path for piece in pieces if _edits_in_place(piece) for path in _find_command_files(piece))
    if changes:
        old = tuple(match[1] for match in _SED_SUBSTITUTION.findall(command))
        return CallEffect(changed_paths=changes, replaced_texts=old)
    if not pieces or _UNSAFE_SHELL_SYNTAX.search(plain) or not all(_is_read_only(piece) for piece in pieces):
        return CallEffect()
    at, reads = "", []
    for piece in pieces:
        if piece[0] == "cd" and len(piece) > 1:
            at = posixpath.join(at, piece[1])
        elif piece[0] in _FILE_PRINTERS or piece[0] in _PATTERN_COMMANDS:
            reads += [posixpath.normpath(posixpath.join(at, path)) for path in _find_command_files(piece)]
    return CallEffect(f"$ {' '.join(plain.split())}", tuple(reads))


def _split_commands(command: str, is_separator: Callable[[str], bool]) -> list[list[str]]:
    """Return the words of each command of a line; empty if its quotes do not match."""
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars="|&;")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        return []
    return [list(group) for separates, group in groupby(words, key=is_separator) if not separates]


def _is_read_only(words: list[str]) -> bool:
    first = words[0]
    if first == "git":
        return next((word in _GIT_READ_COMMANDS for word in words[1:] if not word.startswith("-")), False)
    return (first in _READ_COMMANDS and not _edits_in_place(words)) or first in _FILTER_COMMANDS


def _edits_in_place(words: list[str]) -> bool:
    return words[0] == "sed" and any(word.startswith(("-i", "--in-place")) for word in words[1:])


def _find_command_files(words: list[str]) -> list[str]:
    """Return the files that a reader is given: its words that are neither options, nor numbers, nor a pattern."""
    operands, skip, scripts = [], False, 0
    for word in words[1:]:
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            scripts += word in ("-e", "-f", "--regexp", "--expression")
            skip = word in ("-e", "-f", "-n", "-c", "-A", "-B", "-C", "-m", "-g", "-t") and words[0] != "sed"
            if words[0] in _PATTERN_COMMANDS and word == "-n":
                skip = False
        else:
            operands.append(word)
    pattern = words[0] in _PATTERN_COMMANDS and not scripts
    return [word for word in operands[1 if pattern else 0 :] if not word.isdigit() and "*" not in word]


def is_same_file(one: str, other: str) -> bool:
    """Return whether two paths can be the same file, seen from different folders."""
    one, other = one.removeprefix("./"), other.removeprefix("./")
    return one == other or one.endswith("/" + other) or other.endswith("/" + one)


_READ_CMDLETS = frozenset("get-content gc cat type select-string sls".split())
_LIST_CMDLETS = frozenset("get-childitem gci dir ls test-path get-item gi resolve-path get-location pwd".split())
_FILTER_CMDLETS = frozenset(
    (
        "select-object select sort-object sort measure-object measure format-table ft format-list fl out-string"
        " get-unique write-output echo set-location cd sl"
    ).split()
)
_CMDLET = re.compile(r"\b(?:get-content|select-string|get-childitem|set-location)\b", re.IGNORECASE)
_POWERSHELL_INVOCATION = re.compile(
    r"^\s*\"?(?:[\w:\\/. ]*[\\/])?(?:powershell|pwsh|cmd)(?:\.exe)?\"?"
    r"(?:\s+(?!-c\b|-command\b)-\w+(?:\s+(?!-)\w+)?)*\s+(?:-c|-command|/c)\s+(.*)$",
    re.IGNORECASE | re.DOTALL,
)
_PATTERN_CMDLETS = frozenset(("select-string", "sls"))
_CMDLET_FLAGS = frozenset(
    "-raw -recurse -force -name -file -directory -simplematch -casesensitive -allmatches -quiet -list".split()
)
_UNSAFE_POWERSHELL_SYNTAX = re.compile(r"[`<>{}@]|\$\(|-wait\b", re.IGNORECASE)


def extract_powershell_script(command: str) -> str:
    """Return the script that a command line passes to PowerShell or cmd; itself where it is PowerShell; else empty."""
    started = _POWERSHELL_INVOCATION.match(command)
    if started:
        script = started[1].strip()
        return script[1:-1] if len(script) > 1 and script[0] == script[-1] and script[0] in "\"'" else script
    return command if _CMDLET.search(command) else ""


def find_powershell_reads(script: str) -> list[str] | None:
    """Return the files that a script prints, and nothing else that it does; None where it may do more than read."""
    if _UNSAFE_POWERSHELL_SYNTAX.search(script):
        return None
    pieces = _split_commands(script.replace("\\", "/"), lambda word: set(word) <= set("|&;"))
    if not pieces or not all(piece[0].lower() in _READ_CMDLETS | _LIST_CMDLETS | _FILTER_CMDLETS for piece in pieces):
        return None
    at, paths = "", list[str]()
    for piece in pieces:
        name, files = piece[0].lower(), _find_cmdlet_files(piece)
        if name in ("set-location", "cd", "sl") and files:
            at = files[0].rstrip("/") + "/"
        elif name in _READ_CMDLETS:
            relative = (file.removeprefix("./") for file in files)
            paths += [file if file[1:2] == ":" or file[:1] == "/" else at + file for file in relative]
    return paths


def _find_cmdlet_files(words: list[str]) -> list[str]:
    """Return the files passed to a cmdlet: by ``-Path``, or as words without an option, except a pattern."""
    paths, operands, option, has_pattern = [], [], "", words[0].lower() in _PATTERN_CMDLETS
    for word in words[1:]:
        if option:
            paths += word.split(",") if option in ("-path", "-literalpath") else []
            has_pattern = has_pattern and option != "-pattern"
            option = ""
        elif word.startswith("-") and len(word) > 1:
            option = "" if word.lower() in _CMDLET_FLAGS else word.lower()
        else:
            operands += word.split(",")
    return paths + [file for file in operands[1 if has_pattern else 0 :] if file and "*" not in file]
