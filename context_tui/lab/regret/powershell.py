"""Which PowerShell command lines only read, and which files: those of the cmdlets and aliases that print files."""

from __future__ import annotations

import re
import shlex

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
    """What a command line gives PowerShell or cmd to run; itself where it is one of PowerShell; else nothing."""
    started = _POWERSHELL_INVOCATION.match(command)
    if started:
        script = started[1].strip()
        return script[1:-1] if len(script) > 1 and script[0] == script[-1] and script[0] in "\"'" else script
    return command if _CMDLET.search(command) else ""


def find_powershell_reads(script: str) -> list[str] | None:
    """The files that a script prints, and nothing else that it does; None where it may do more than read."""
    if _UNSAFE_POWERSHELL_SYNTAX.search(script):
        return None
    lexer = shlex.shlex(script.replace("\\", "/").replace("\n", " ; "), posix=True, punctuation_chars="|&;")
    lexer.whitespace_split, lexer.commenters = True, ""
    pieces: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) <= set("|&;"):
                pieces.append([])
            else:
                pieces[-1].append(word)
    except ValueError:
        return None
    pieces = [piece for piece in pieces if piece]
    if not pieces or not all(piece[0].lower() in _READ_CMDLETS | _LIST_CMDLETS | _FILTER_CMDLETS for piece in pieces):
        return None
    at, found = "", list[str]()
    for piece in pieces:
        name, files = piece[0].lower(), _find_cmdlet_files(piece)
        if name in ("set-location", "cd", "sl") and files:
            at = files[0].rstrip("/") + "/"
        elif name in _READ_CMDLETS:
            named = (file.removeprefix("./") for file in files)
            found += [file if file[1:2] == ":" or file[:1] == "/" else at + file for file in named]
    return found


def _find_cmdlet_files(words: list[str]) -> list[str]:
    """The files that a cmdlet is given: by ``-Path``, or its words that belong to no option and are no pattern."""
    found, rest, option, patterned = [], [], "", words[0].lower() in _PATTERN_CMDLETS
    for word in words[1:]:
        if option:
            found += word.split(",") if option in ("-path", "-literalpath") else []
            patterned = patterned and option != "-pattern"
            option = ""
        elif word.startswith("-") and len(word) > 1:
            option = "" if word.lower() in _CMDLET_FLAGS else word.lower()
        else:
            rest += word.split(",")
    return found + [file for file in rest[1 if patterned else 0 :] if file and "*" not in file]
