"""Check of the keys that the configuration file gives to bindings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from textual.keys import KEY_TO_UNICODE_NAME, Keys

from context_tui.tui.widgets.bindings import read_default_keys

QUIT_KEYS = {"leave": "q", "quit-now": "ctrl+q"}
"""Keys that quit, by the names of their bindings; no other binding may take them."""
_NUMBERED_NAME = re.compile(r"(replay-)?policy-[1-9]|(apply|export)-[a-z]+|quit-(early|now)|report")
_MODIFIERS = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})
_KEY_NAMES = frozenset({key.value for key in Keys if not key.value.startswith("<")} | KEY_TO_UNICODE_NAME.keys())


def check_keymap(keymap: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid entries of a keymap (keys by the name of a binding), and one warning for each other entry."""
    default_keys, valid, warnings = read_default_keys(), dict[str, str](), list[str]()
    reserved = {key for name, keys in QUIT_KEYS.items() for key in _split_keys(keymap.get(name, keys))}
    for name, value in keymap.items():
        keys = _split_keys(value)
        unknown = next((key for key in keys if not is_key(key)), None)
        taken = reserved.intersection(keys) - set(default_keys.get(name, ()))
        if name not in default_keys and not _NUMBERED_NAME.fullmatch(name):
            problem = f"no such name; {_suggest(name, default_keys)}docs/keys.md lists all"
        elif unknown is not None:
            problem = f"{unknown} is no key; {_suggest(unknown, _KEY_NAMES)}write keys as ctrl+n, f5 or escape"
        elif taken and name not in QUIT_KEYS:
            problem = f"{min(taken)} quits; choose another key, or give another one to {' or '.join(QUIT_KEYS)}"
        else:
            valid[name] = value
            continue
        warnings.append(f"[keys] {name}: {problem}")
    return valid, warnings


def is_key(name: str) -> bool:
    """Return whether *name* is a key: a character or a name as in ``escape``, perhaps after modifiers (``ctrl+``)."""
    *modifiers, base = name.removesuffix("+").split("+") if len(name) > 1 else [name]
    if not _MODIFIERS.issuperset(modifiers):
        return False
    if len(base) == 1 or base in _KEY_NAMES or (not base and name.endswith("+")):
        return True
    try:
        unicodedata.lookup(base.replace("_", " "))
    except KeyError:
        return False
    return True


def _split_keys(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()] or [","]


def _suggest(name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches  # only if a key is wrong

    matches = get_close_matches(name, names, 1)
    return f"did you mean {matches[0]}? " if matches else ""
