"""Files of known agents that hold no conversation, so that the message names them and the file to open instead.

Each test looks at the first values of a file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from context_tui.formats.base import Claim
from context_tui.formats.cline.beside import CONVERSATIONS
from context_tui.formats.kit.heads import first_values

CERTAIN = 90
LIKELY = 88

Object = dict[str, Any]


class SideFile(NamedTuple):
    """A kind of file: what it is, the names that the conversation beside it may have, and how such a file begins."""

    what: str
    open: tuple[str, ...]
    test: Callable[[Any], bool]


def unsupported_format(head: bytes, path: Path) -> Claim | None:
    """What a file is, and what to open instead, where it is known to hold no conversation."""
    values = first_values(head)
    if len(values) != 1:
        return None  # all that is known of lines has a reader
    if not isinstance(values[0], list):
        kinds, strength, shown = DOCUMENTS, CERTAIN, values
    else:
        kinds, strength, shown = ARRAYS, LIKELY, values[0]
    kind = next((kind for kind in kinds if any(map(kind.test, shown))), None)
    return Claim(strength, f"{kind.what}; open {_named(kind.open, path)}") if kind else None


def _named(names: tuple[str, ...], path: Path) -> str:
    """The first of some files that lies beside *path*, else what the usual one is called."""
    beside = (path.with_name(name.replace("<id>", path.stem)) for name in names)
    found = next((each.name for each in beside if each.is_file()), "")
    return f"{found} beside it" if found else f"the {names[0]} of the same session"


def _keys(*names: str) -> Callable[[Any], bool]:
    """Objects that have all these members."""
    return lambda value: isinstance(value, dict) and all(name in value for name in names)


def _cline_description(value: Any) -> bool:
    return _keys("session_id", "workspace_root")(value) and isinstance(value.get("version"), int)


def _shown(value: Any) -> bool:
    return _keys("ts")(value) and value.get("type") in ("say", "ask")


def _rewritten(value: Any) -> bool:
    """An element with what was rewritten in it: ``[0, [1, [[0, [[1760000000000, "text", ["..."], []]]]]]]``."""
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], int)):
        return False
    return isinstance(value[1], list) and len(value[1]) == 2 and isinstance(value[1][1], list)


DOCUMENTS = [
    SideFile("the description of a Cline session, without its messages", ("<id>.messages.json",), _cline_description),
    SideFile("a list of the files of a Cline or Roo task", CONVERSATIONS, _keys("files_in_context")),
]
ARRAYS = [
    SideFile("what Cline or Roo showed of a task, not what was sent", CONVERSATIONS, _shown),
    SideFile("what Cline left out of the messages of a task", CONVERSATIONS, _rewritten),
]
