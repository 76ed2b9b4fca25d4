"""What a tool call does, told from its name and arguments: what it fetches, which files it reads, what it edits.

Only what is safe to tell: a call of an unknown tool, or a command with substitutions in it, fetches and reads nothing.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from context_tui.lab.regret.powershell import files_read, script_of
from context_tui.lab.regret.tools import COMMAND_LINES, DIFFS, OLD, PATHS, SEVERAL, WHOLE, verb_of
from context_tui.session.blocks import parse_read_range
from context_tui.session.jsontext import compact_text

LONGEST_COMMAND = 2_000
"""Characters of a command that is looked into; a longer one is a script."""

_READERS = frozenset("cat head tail sed nl less more bat grep egrep fgrep rg ls find tree wc file stat jq".split())
_FILTERS = frozenset("cd pwd echo sort uniq cut tr awk column true".split())
_GIT = frozenset("show log blame grep ls-files ls-tree cat-file".split())
"""Of git, what shows what is committed; its status and diff are asked again to see what has changed."""
_WHOLE = frozenset("cat head tail nl less more bat".split())
_PATTERN_FIRST = frozenset("grep egrep fgrep rg sed jq".split())
_SEPARATORS = frozenset(("&&", "||", ";", "|", "&", "\n"))
_REDIRECTIONS = re.compile(r"[0-9]?>+\s*/dev/null|[0-9]?>&[0-9]|&>\s*/dev/null")
_UNSAFE = re.compile(r"[`<>]|\$[({]|-exec\b|-delete\b|\bxargs\b")
_SUBSTITUTION = re.compile(r"s([/|#,@!])((?:(?!\1)[^\\\n]){12,300})\1")
"""A sed command's old text, where nothing in it is escaped."""
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,500})$", re.MULTILINE)
_SEARCH_BLOCK = re.compile(r"(?:<{5,9}|-{5,9}) ?SEARCH[^\n]*\n(?::start_line:[^\n]*\n)?(?:-{5,9}\n)?")
_SEARCH_END = re.compile(r"\n={5,9}[^\n]*\n")


class Doing(NamedTuple):
    """What a call does.

    ``key`` is the same for two calls that fetch the same; empty where the call fetches nothing, or is made again to see
    what has changed. ``reads`` are the files of which it gets the content, ``changes`` those that it changes, and
    ``old`` are the texts that it replaces there. ``whole`` says that it writes a file anew.
    """

    key: str = ""
    reads: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    old: tuple[str, ...] = ()
    whole: str = ""


def doing(tool: str, arguments: object) -> Doing:
    """What a call of *tool* with these arguments does."""
    given: Mapping[str, Any] = arguments if isinstance(arguments, dict) else {"input": arguments}
    if isinstance(given.get("args"), dict):
        given = given["args"]
    verb = verb_of(tool, given)
    if verb == "run" and (command := command_of(given)):
        return _of_command(command, powershell="powershell" in tool.lower())
    patch = next((text for text in given.values() if isinstance(text, str) and "*** Begin Patch" in text[:2_000]), "")
    if patch:
        return _of_patch(patch)
    parts = [given, *_parts_of(given)]
    paths = tuple(dict.fromkeys(path for part in parts if (path := _path(part))))
    if verb == "read" and paths:
        asked = " ".join(f"{_path(part)} {_part(part)}".rstrip() for part in parts if _path(part))
        return Doing(f"read {asked}", paths)
    if verb == "edit":
        return _of_edit(given, paths)
    if verb == "search":
        return Doing(f"{tool} {compact_text(dict(given))}", paths if "grep" in tool.lower() else ())
    return Doing()


def _path(given: Mapping[str, Any]) -> str:
    """The file that arguments name; empty where they name none."""
    named = (value for key in PATHS if isinstance(value := given.get(key), str) and value.strip())
    return next(named, "").replace("\\", "/")


def _parts_of(given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Each of several files that arguments name, with what is asked of it."""
    for key in (*SEVERAL, *PATHS):
        if isinstance(several := given.get(key), list):
            for each in several:
                yield each if isinstance(each, dict) else {"path": each}


def _part(given: Mapping[str, Any]) -> object:
    """The part of a file that is asked for; empty for all of it."""
    return (
        parse_read_range(dict(given))
        or given.get("view_range")
        or given.get("line_ranges")
        or given.get("line_number")
        or ""
    )


def command_of(arguments: Mapping[str, Any]) -> str:
    """The command line of a shell's arguments; of a list, what its shell is given, else its words; of several, all."""
    command = next((value for key in COMMAND_LINES if (value := arguments.get(key))), "")
    if isinstance(command, list):
        words = [str(word) for word in command]
        if arguments.get("commands") is command:
            return "\n".join(words)
        given = len(words) > 2 and words[-2].lower() in ("-c", "-lc", "-ic", "-command", "/c")
        if given and words[-2].lower() in ("-command", "/c"):
            return f"{words[0]} {words[-2]} {words[-1]}"
        return words[-1] if given else " ".join(words)
    return command if isinstance(command, str) else ""


def _of_edit(given: Mapping[str, Any], paths: tuple[str, ...]) -> Doing:
    edits = given.get("edits")
    parts = [given, *(each for each in edits if isinstance(each, dict))] if isinstance(edits, list) else [given]
    old = tuple(text for part in parts for key in OLD if isinstance(text := part.get(key), str) and text)
    diffs = (text for part in parts for key in DIFFS if isinstance(text := part.get(key), str))
    old += tuple(text for diff in diffs for text in _searched(diff))
    whole = next((value for key in WHOLE if (value := given.get(key))), "")
    return Doing(changes=paths, old=old, whole=whole if isinstance(whole, str) and not old else "")


def _searched(diff: str) -> Iterator[str]:
    """The texts between the marks of search-and-replace blocks."""
    for part in _SEARCH_BLOCK.split(diff)[1:]:
        end = _SEARCH_END.search(part)
        if end:
            yield part[: end.start()]


def _of_patch(patch: str) -> Doing:
    lines = [line[1:] for line in patch.splitlines() if line[:1] in ("-", " ")]
    return Doing(changes=tuple(path.strip() for path in _PATCHED.findall(patch)), old=("\n".join(lines),))


def _of_command(command: str, *, powershell: bool) -> Doing:
    if "*** Begin Patch" in command[:2_000]:
        return _of_patch(command)
    if len(command) > LONGEST_COMMAND:
        return Doing()
    script = script_of(command) or (command if powershell else "")
    if script:
        files = files_read(script)
        return Doing() if files is None else Doing(f"$ {' '.join(script.split())}", tuple(files))
    plain = _REDIRECTIONS.sub(" ", command)
    pieces = _simple_commands(plain)
    changes = tuple(path for piece in pieces if _in_place(piece) for path in _files(piece))
    if changes:
        old = tuple(found[1] for found in _SUBSTITUTION.findall(command))
        return Doing(changes=changes, old=old)
    if not pieces or _UNSAFE.search(plain) or not all(_only_reads(piece) for piece in pieces):
        return Doing()
    at, reads = "", []
    for piece in pieces:
        if piece[0] == "cd" and len(piece) > 1:
            at = posixpath.join(at, piece[1])
        elif piece[0] in _WHOLE or piece[0] in _PATTERN_FIRST:
            reads += [posixpath.normpath(posixpath.join(at, path)) for path in _files(piece)]
    return Doing(f"$ {' '.join(plain.split())}", tuple(reads))


def _simple_commands(command: str) -> list[list[str]]:
    """The words of each command of a line; nothing where its quotes do not match."""
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word in _SEPARATORS:
                found.append([])
            else:
                found[-1].append(word)
    except ValueError:
        return []
    return [words for words in found if words]


def _only_reads(words: list[str]) -> bool:
    first = words[0]
    if first == "git":
        return next((word in _GIT for word in words[1:] if not word.startswith("-")), False)
    return (first in _READERS and not _in_place(words)) or first in _FILTERS


def _in_place(words: list[str]) -> bool:
    return words[0] == "sed" and any(word.startswith(("-i", "--in-place")) for word in words[1:])


def _files(words: list[str]) -> list[str]:
    """The files that a reader is given: its words that are neither options, nor numbers, nor a pattern."""
    given, skip, scripts = [], False, 0
    for word in words[1:]:
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            scripts += word in ("-e", "-f", "--regexp", "--expression")
            skip = word in ("-e", "-f", "-n", "-c", "-A", "-B", "-C", "-m", "-g", "-t") and words[0] != "sed"
            if words[0] in _PATTERN_FIRST and word == "-n":
                skip = False
        else:
            given.append(word)
    pattern = words[0] in _PATTERN_FIRST and not scripts
    return [word for word in given[1 if pattern else 0 :] if not word.isdigit() and "*" not in word]


def same_file(one: str, other: str) -> bool:
    """Whether two paths can be the same file, one of them told from another folder."""
    one, other = one.removeprefix("./"), other.removeprefix("./")
    return one == other or one.endswith("/" + other) or other.endswith("/" + one)
