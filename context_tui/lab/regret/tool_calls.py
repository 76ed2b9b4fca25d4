"""Effects of tool calls: the content that they fetch, the files that they read, and the text that they replace."""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from context_tui.lab.regret import tools
from context_tui.session.blocks import parse_read_range
from context_tui.session.jsontext import compact_text

MAX_COMMAND_LENGTH, MAX_FOLDERS_LENGTH = 2_000, 200
"""Maximum lengths in characters of a command (longer ones count as scripts) and of the folders of a mentioned file."""

_SEPARATORS = frozenset(("&&", "||", ";", "|", "&", "\n"))
_REDIRECTIONS = re.compile(r"[0-9]?>+\s*/dev/null|[0-9]?>&[0-9]|&>\s*/dev/null")
_REDIRECTION_TARGET = re.compile(r"(?:^|[\s\"')])>{1,2}[ \t]*([\w./~][\w./~-]*)")
_HERE_DOCUMENT = re.compile(r"\b(?:cat|python3?)\b([^\n]{0,300})<<-?[ \t]*['\"]?(\w+)['\"]?([^\n]{0,300})\n")
_AWK_PROGRAM = re.compile(r"\bawk\b(?: -\w\S*){0,3} '(?:(?!system|getline|>\s*[\"(])[^']){1,500}'")
"""Matches awk with a program that only prints; its signs mean nothing to the shell."""
_UNSAFE_SHELL_SYNTAX = re.compile(r"[`<>]|\bsystem\(|\$[({]|-exec\b|-delete\b")
_SED_SUBSTITUTION = re.compile(r"s([/|#,@!])\^?((?:(?!\1)[^\\\n]){12,300})\1")
"""Matches the old text of a sed command, without its ``^``, if it contains no escapes."""
_PRINTED_LINES = re.compile(r"(?<=[ '\";])([0-9]{1,7}),([0-9]{1,7})p")
_ROOT = re.compile(r"^(?:\./|[A-Za-z]:/|/[a-z]/)")
"""Matches the beginning of a path that some programs leave out, such as a drive (``C:/`` or ``/c/``)."""
_PATH_END, _DIFF_ROOT = re.compile(r"[\w.@~+/\\-]*\Z"), re.compile(r"^[ab]/")
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,500})$", re.MULTILINE)
_SEARCH_BLOCK = re.compile(r"(?:<{5,9}|-{5,9}) ?SEARCH[^\n]*\n(?::start_line:[^\n]*\n)?(?:-{5,9}\n)?")
_SEARCH_END = re.compile(r"\n={5,9}[^\n]*\n")


class CallEffect(NamedTuple):
    """The files that a tool call reads and changes, and the text that it replaces and writes.

    Attributes:
        fetch_key: key that calls with the same content share; empty if the call fetches nothing or only checks a state.
        inserted_text: the new text of an edit; empty if unknown.
        lines_read: first and last numbers of the lines that the call reads of its one file; empty if unknown.
    """

    fetch_key: str = ""
    read_paths: tuple[str, ...] = ()
    changed_paths: tuple[str, ...] = ()
    replaced_texts: tuple[str, ...] = ()
    written_text: str = ""
    inserted_text: str = ""
    lines_read: tuple[tuple[int, int], ...] = ()

    def concerns(self, files: Iterable[str]) -> bool:
        """Return whether the call reads or changes any of these files."""
        paths = (*self.read_paths, *self.changed_paths)
        return any(is_same_file(path, file) for path in paths for file in files)


def analyze_call(tool: str, arguments: object) -> CallEffect:
    """Return the effect of a call to *tool* with these arguments."""
    inputs: Mapping[str, Any] = arguments if isinstance(arguments, dict) else {"input": arguments}
    if isinstance(inputs.get("args"), dict):
        inputs = inputs["args"]
    verb = tools.classify_tool(tool, inputs)
    if verb == "run" and (command := get_command_line(inputs)):
        return _analyze_command(command, powershell="powershell" in tool.lower())
    patch = next((text for text in inputs.values() if isinstance(text, str) and "*** Begin Patch" in text[:2_000]), "")
    if patch:
        return _analyze_patch(patch)
    parts = [inputs, *_iter_file_parts(inputs)]
    paths = tuple(dict.fromkeys(path for part in parts if (path := _get_path(part))))
    if verb == "read" and paths:
        targets = " ".join(f"{_get_path(part)} {_get_read_range(part)}".rstrip() for part in parts if _get_path(part))
        first, count = parse_read_range(dict(inputs)) or (1, 0)
        lines_read = ((first, first + count - 1),) if count and len(parts) == 1 else ()
        return CallEffect(f"read {targets}", paths, lines_read=lines_read)
    if verb == "edit":
        return _analyze_edit(inputs, paths)
    if verb == "search":
        return CallEffect(f"{tool} {compact_text(dict(inputs))}", paths if "grep" in tool.lower() else ())
    return CallEffect()


def _get_path(arguments: Mapping[str, Any]) -> str:
    paths = (value for key in tools.ARGUMENTS["path"] if isinstance(value := arguments.get(key), str) and value.strip())
    return next(paths, "").replace("\\", "/")


def _iter_file_parts(arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in (*tools.ARGUMENTS["path_list"], *tools.ARGUMENTS["path"]):
        if isinstance(files := arguments.get(key), list):
            yield from (file if isinstance(file, dict) else {"path": file} for file in files)


def _get_read_range(arguments: Mapping[str, Any]) -> object:
    """Return the requested range of a file in the tool's own form; empty for the complete file."""
    ranges = map(arguments.get, ("view_range", "line_ranges", "line_number"))
    return parse_read_range(dict(arguments)) or next(filter(None, ranges), "")


def get_command_line(arguments: Mapping[str, Any]) -> str:
    """Return the command line in a shell tool's arguments, or an empty string; newlines join commands."""
    command = next((value for key in tools.ARGUMENTS["command_line"] if (value := arguments.get(key))), "")
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
    parts = [arguments, *(edit for edit in edits if isinstance(edit, dict))] if isinstance(edits, list) else [arguments]
    replaced, inserted = (
        [text for part in parts for key in keys if isinstance(text := part.get(key), str) and text]
        for keys in (tools.ARGUMENTS["replaced_text"], tools.ARGUMENTS["inserted_text"])
    )
    diffs = (text for part in parts for key in tools.ARGUMENTS["diff"] if isinstance(text := part.get(key), str))
    for search_block in (block for diff in diffs for block in _SEARCH_BLOCK.split(diff)[1:]):
        if end := _SEARCH_END.search(search_block):
            replaced.append(search_block[: end.start()])
    content = next((value for key in tools.ARGUMENTS["file_content"] if (value := arguments.get(key))), "")
    written = content if isinstance(content, str) and not replaced else ""
    return CallEffect("", (), paths, tuple(replaced), written, "\n".join(inserted))


def _analyze_patch(patch: str) -> CallEffect:
    lines, kinds = patch.splitlines(), (("-", " "), ("+", " "))
    replaced, inserted = ("\n".join(line[1:] for line in lines if line[:1] in signs) for signs in kinds)
    paths = tuple(map(str.strip, _PATCHED_FILE.findall(patch)))
    if "\n*** Update File: " not in patch:
        return CallEffect(changed_paths=paths, written_text=inserted)
    return CallEffect("", (), paths, (replaced,), "", inserted)


def _analyze_command(command: str, *, powershell: bool) -> CallEffect:
    if "*** Begin Patch" in command[:2_000]:
        return _analyze_patch(command)
    document = _HERE_DOCUMENT.search(command)
    text = command[document.end() :].partition(f"\n{document[2]}")[0] if document else ""
    if document and document[0].startswith("python"):
        return _analyze_python(text) if "write" in text else CallEffect()
    if document and (target := _REDIRECTION_TARGET.search(document[1] + document[3])):
        return CallEffect(changed_paths=(target[1],), written_text=text)
    if len(command) > MAX_COMMAND_LENGTH:
        return CallEffect()
    if script := extract_powershell_script(command) or (command if powershell else ""):
        files = find_powershell_reads(script)
        return CallEffect() if files is None else CallEffect(f"$ {' '.join(script.split())}", tuple(files))
    command_line = _REDIRECTIONS.sub(" ", command)
    pieces = _split_commands(command_line, _SEPARATORS.__contains__)
    changed = tuple(path for piece in pieces if _edits_in_place(piece) for path in _find_command_files(piece))
    if changed:
        replaced = tuple(match[1] for match in _SED_SUBSTITUTION.findall(command))
        return CallEffect(changed_paths=changed, replaced_texts=replaced)
    is_unsafe = _UNSAFE_SHELL_SYNTAX.search(_AWK_PROGRAM.sub("awk", command_line)) is not None
    if not pieces or is_unsafe or not all(map(_is_read_only, pieces)):
        return CallEffect(changed_paths=tuple(_REDIRECTION_TARGET.findall(command_line)))
    folder, reads = "", []
    for piece in pieces:
        if piece[0] == "cd" and len(piece) > 1:
            folder = posixpath.join(folder, piece[1])
        elif piece[0] in ("git", *tools.COMMANDS["file_printers"], *tools.COMMANDS["with_pattern"]):
            files = _find_shown_files(piece) if piece[0] == "git" else _find_command_files(piece)
            reads += [posixpath.normpath(posixpath.join(folder, path)) for path in files]
    is_search = not {"grep", "egrep", "rg"}.isdisjoint(piece[0] for piece in pieces)
    prints_range = len(set(reads)) == 1 and command_line.count("sed -n") == len(reads) and not is_search
    lines = _PRINTED_LINES.findall(command_line) if prints_range else ()
    lines_read = tuple((int(first), int(last)) for first, last in lines)
    return CallEffect(f"$ {' '.join(command_line.split())}", tuple(reads), lines_read=lines_read)


def _analyze_python(script: str) -> CallEffect:
    """Return the effect of a Python script that replaces literal texts in files, itself or in functions of its own."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as one about an escape in a string of the session
            nodes = list(ast.walk(ast.parse(script)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CallEffect()
    definitions = {node.name: node.args.args for node in nodes if isinstance(node, ast.FunctionDef)}
    values: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        match node:
            case ast.Assign([ast.Name(name)], ast.Constant(str(text))):
                values[name].append(text)
            case ast.Call(ast.Name(name), arguments) if name in definitions:
                for parameter, argument in zip(definitions[name], arguments, strict=False):
                    match argument:
                        case ast.Constant(str(text)):
                            values[parameter.arg].append(text)

    def find_arguments(functions: Collection[str], number: int) -> Iterator[str]:
        for node in nodes:
            match node:
                case ast.Call(ast.Attribute(_, name) | ast.Name(name), args) if name in functions:
                    match args[number : number + 1]:
                        case [ast.Constant(str(text))]:
                            yield text
                        case [ast.Name(variable)]:
                            yield from values[variable]

    replaced, inserted = (tuple(find_arguments(("replace",), number)) for number in range(2))
    return CallEffect("", (), tuple(find_arguments(("Path", "open"), 0)), replaced, "", "\n".join(inserted))


def _split_commands(command: str, is_separator: Callable[[str], bool]) -> list[list[str]]:
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
        words = words[3:] if words[1:2] == ["-C"] else words[1:]
        return next((word in tools.COMMANDS["git_reads"] for word in words if not word.startswith("-")), False)
    if first == "xargs":
        return next((word in tools.COMMANDS["reads"] for word in words[1:] if not word.startswith("-")), False)
    if words[-1] == "--help":
        return True
    return (first in tools.COMMANDS["reads"] and not _edits_in_place(words)) or first in tools.COMMANDS["filters"]


def _edits_in_place(words: list[str]) -> bool:
    return words[0] == "sed" and any(word.startswith(("-i", "--in-place")) for word in words[1:])


def _find_command_files(words: list[str]) -> list[str]:
    """Return the files that a command reads: words that are neither options nor numbers nor a pattern."""
    operands, is_option_value, has_script = [], False, False
    for word in words[1:]:
        if is_option_value:
            is_option_value = False
        elif word.startswith("-") and len(word) > 1:
            has_script |= word in ("-e", "-f") or word.startswith(("--regexp", "--expression"))
            is_option_value = word in tools.VALUE_OPTIONS.get(words[0], ())
        else:
            operands.append(word)
    has_pattern = words[0] in tools.COMMANDS["with_pattern"] and not has_script
    return [word for word in operands[1 if has_pattern else 0 :] if not word.isdigit() and "*" not in word]


def _find_shown_files(words: list[str]) -> list[str]:
    """Return the files that ``git show`` prints: after ``--``, or each after its revision and a colon."""
    if "show" not in words:
        return []
    if "--" in words:
        return words[words.index("--") + 1 :]
    return [word.partition(":")[2] for word in words if ":" in word]


def is_same_file(path: str, other: str) -> bool:
    """Return whether two paths may be the same file, which holds if one ends with the other, without its drive."""
    path, other = _ROOT.sub("", path), _ROOT.sub("", other)
    return path == other or path.endswith("/" + other) or other.endswith("/" + path)


def mentions_file(text: str, path: str) -> bool:
    """Return whether a text contains a path that may be the same file."""
    name = path.rpartition("/")[2]
    parts = text.split(name)[:-1] if name else ()
    folders = (_PATH_END.findall(part[-MAX_FOLDERS_LENGTH:])[0].replace("\\", "/").lstrip("./") for part in parts)
    return any(is_same_file(_DIFF_ROOT.sub("", each) + name, path) for each in folders)


_CMDLET = re.compile(r"\b(?:get-content|select-string|get-childitem|set-location)\b", re.IGNORECASE)
_POWERSHELL_INVOCATION = re.compile(
    r"^\s*\"?(?:[\w:\\/. ]*[\\/])?(?:powershell|pwsh|cmd)(?:\.exe)?\"?"
    r"(?:\s+(?!-c\b|-command\b)-\w+(?:\s+(?!-)\w+)?)*\s+(?:-c|-command|/c)\s+(.*)$",
    re.IGNORECASE | re.DOTALL,
)
_UNSAFE_POWERSHELL_SYNTAX = re.compile(r"[`<>{}@]|\$\(|-wait\b", re.IGNORECASE)


def extract_powershell_script(command: str) -> str:
    """Return the PowerShell or cmd script that a command line runs, or an empty string if it runs none."""
    if invocation := _POWERSHELL_INVOCATION.match(command):
        script = invocation[1].strip()
        return script[1:-1] if len(script) > 1 and script[0] == script[-1] and script[0] in "\"'" else script
    return command if _CMDLET.search(command) else ""


def find_powershell_reads(script: str) -> list[str] | None:
    """Return the files that a script prints, or None if the script may do more than read."""
    if _UNSAFE_POWERSHELL_SYNTAX.search(script):
        return None
    harmless = tools.CMDLETS["reads"] | tools.CMDLETS["lists"] | tools.CMDLETS["filters"]
    pieces = _split_commands(script.replace("\\", "/"), lambda word: set(word) <= set("|&;"))
    if not pieces or not all(piece[0].lower() in harmless for piece in pieces):
        return None
    folder, paths = "", list[str]()
    for piece in pieces:
        name, files = piece[0].lower(), _find_cmdlet_files(piece)
        if name in ("set-location", "cd", "sl") and files:
            folder = files[0].rstrip("/") + "/"
        elif name in tools.CMDLETS["reads"]:
            relative = (file.removeprefix("./") for file in files)
            paths += [file if file[1:2] == ":" or file[:1] == "/" else folder + file for file in relative]
    return paths


def _find_cmdlet_files(words: list[str]) -> list[str]:
    """Return the files passed to a cmdlet by ``-Path``, or as positional words other than a pattern."""
    paths, operands, option = list[str](), list[str](), ""
    has_pattern = words[0].lower() in tools.CMDLETS["with_pattern"]
    for word in words[1:]:
        if option:
            paths += filter(None, word.split(",")) if option in ("-path", "-literalpath") else []
            has_pattern = has_pattern and option != "-pattern"
            option = ""
        elif word.startswith("-") and len(word) > 1:
            option = "" if word.lower() in tools.CMDLETS["flags"] else word.lower()
        else:
            operands += word.split(",")
    return paths + [file for file in operands[1 if has_pattern else 0 :] if file and "*" not in file]
