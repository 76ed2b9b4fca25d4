"""Which PowerShell command lines only read, and which files: those of the cmdlets and aliases that print files."""

from __future__ import annotations

import re
import shlex

_READERS = frozenset("get-content gc cat type select-string sls".split())
_LISTERS = frozenset("get-childitem gci dir ls test-path get-item gi resolve-path get-location pwd".split())
_FILTERS = frozenset(
    (
        "select-object select sort-object sort measure-object measure format-table ft format-list fl out-string"
        " get-unique write-output echo set-location cd sl"
    ).split()
)
_CMDLET = re.compile(r"\b(?:get-content|select-string|get-childitem|set-location)\b", re.IGNORECASE)
_STARTED = re.compile(
    r"^\s*\"?(?:[\w:\\/. ]*[\\/])?(?:powershell|pwsh|cmd)(?:\.exe)?\"?"
    r"(?:\s+(?!-c\b|-command\b)-\w+(?:\s+(?!-)\w+)?)*\s+(?:-c|-command|/c)\s+(.*)$",
    re.IGNORECASE | re.DOTALL,
)
_PATTERNED = frozenset(("select-string", "sls"))
_FLAGS = frozenset(
    "-raw -recurse -force -name -file -directory -simplematch -casesensitive -allmatches -quiet -list".split()
)
_UNSAFE = re.compile(r"[`<>{}@]|\$\(|-wait\b", re.IGNORECASE)


def script_of(command: str) -> str:
    """What a command line gives PowerShell or cmd to run; itself where it is one of PowerShell; else nothing."""
    started = _STARTED.match(command)
    if started:
        script = started[1].strip()
        return script[1:-1] if len(script) > 1 and script[0] == script[-1] and script[0] in "\"'" else script
    return command if _CMDLET.search(command) else ""


def files_read(script: str) -> list[str] | None:
    """The files that a script prints, and nothing else that it does; None where it may do more than read."""
    if _UNSAFE.search(script):
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
    if not pieces or not all(piece[0].lower() in _READERS | _LISTERS | _FILTERS for piece in pieces):
        return None
    at, found = "", list[str]()
    for piece in pieces:
        name, files = piece[0].lower(), _files(piece)
        if name in ("set-location", "cd", "sl") and files:
            at = files[0].rstrip("/") + "/"
        elif name in _READERS:
            named = (file.removeprefix("./") for file in files)
            found += [file if file[1:2] == ":" or file[:1] == "/" else at + file for file in named]
    return found


def _files(words: list[str]) -> list[str]:
    """The files that a cmdlet is given: by ``-Path``, or its words that belong to no option and are no pattern."""
    found, rest, option, patterned = [], [], "", words[0].lower() in _PATTERNED
    for word in words[1:]:
        if option:
            found += word.split(",") if option in ("-path", "-literalpath") else []
            patterned = patterned and option != "-pattern"
            option = ""
        elif word.startswith("-") and len(word) > 1:
            option = "" if word.lower() in _FLAGS else word.lower()
        else:
            rest += word.split(",")
    return found + [file for file in rest[1 if patterned else 0 :] if file and "*" not in file]
