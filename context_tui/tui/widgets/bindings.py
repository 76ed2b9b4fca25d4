"""Key bindings, which a configuration file can change, and a footer that lists as many keys as fit."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.keys import KEY_TO_UNICODE_NAME, Keys
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from context_tui.text.files import read_toml

MAX_POLICY_DIGIT = 9
"""Number of policies that a digit chooses; others are chosen by arrows, by clicks or from the list of all policies."""


def build_binding(
    keys: str,
    action: str,
    description: str,
    name: str,
    tooltip: str,
    display: str | Literal[False] = False,
    priority: bool = False,
) -> Binding:
    """Build a key binding; a configuration file refers to it by *name*.

    The *keys* are separated by commas. The footer shows *display*, or the usual name if it is "", or nothing if it is
    False. With *priority*, the keys come before those of the focused widget.
    """
    return Binding(keys, action, description, display is not False, display or None, priority, tooltip, name)


def read_bindings(name: str) -> list[BindingType]:
    """Return the key bindings listed under *name* in ``keys.toml``."""
    return [build_binding(*row) for row in _KEYS[name]]


def read_default_keys() -> dict[str, list[str]]:
    """Return the default keys of all bindings in ``keys.toml``, keyed by the name that a configuration file uses."""
    keys: dict[str, list[str]] = {}
    for row in (row for rows in _KEYS.values() for row in rows):
        keys.setdefault(row[3], []).extend(row[0].split(","))
    return keys


_KEYS = read_toml("context_tui.tui", "keys.toml")
_RANKS: dict[str, int] = {name: rank for rank, name in enumerate(_KEYS.pop("footer"))}
PANE_RANK = 3
"""Rank of the focused pane's keys in a narrow footer, after the keys for help, leaving and quitting."""


class KeyFooter(Footer):
    """A footer that lists a screen's keys on one line, without the least important ones if not all fit."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._fitted_width = 0

    def compose(self) -> ComposeResult:
        self._fitted_width = self.app.size.width
        keys = [child for child in super().compose() if isinstance(child, FooterKey)]
        ranks = dict[str, int]()
        for name, (node, binding, *_) in self.screen.active_bindings.items():
            rank = _RANKS["leave"] if name == "escape" else _RANKS.get(binding.id or "", len(_RANKS))
            ranks[binding.action] = min(ranks.get(binding.action, rank), rank)
            if node not in (self.app, self.screen):
                ranks[binding.action] = min(ranks[binding.action], PANE_RANK)
        room, shown = self._fitted_width + 1, list[FooterKey]()
        for key in sorted(keys, key=lambda key: ranks.get(key.action, len(_RANKS))):
            room -= cell_len(key.key_display) + cell_len(key.description) + 2  # with both gaps
            if room < 0:
                break
            shown.append(key)
        yield from (key for key in keys if key in shown)

    def on_resize(self, event: Resize) -> None:
        if event.size.width != self._fitted_width:
            self.call_after_refresh(self.recompose)


def build_policy_bindings(verb: str, prefix: str = "", display: str | None = None) -> list[Binding]:
    """Build bindings of the digits 1 to 9 to listed policies; *display* stands for all of them in the footer."""
    tooltip = f"{verb} the first policy of the list; 2 to {MAX_POLICY_DIGIT}: the others"
    bindings = [
        build_binding(str(number), f"policy_number({number})", "policy", f"{prefix}policy-{number}", tooltip)
        for number in range(1, MAX_POLICY_DIGIT + 1)
    ]
    first = replace(bindings[0], show=bool(display), key_display=display)
    return [first, *(replace(binding, system=True) for binding in bindings[1:])]


# Keys of the configuration file

QUIT_KEYS = {"leave": "q", "quit-now": "ctrl+q"}
"""Keys that quit, by the names of their bindings; no other binding may take them."""
_NUMBERED_NAME = re.compile(r"(replay-)?policy-[1-9]|(apply|export)-[a-z]+|quit-(early|now)|report")
_MODIFIERS = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})
_KEY_NAMES = frozenset({key.value for key in Keys if not key.value.startswith("<")} | KEY_TO_UNICODE_NAME.keys())


def check_keymap(keymap: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid entries of a keymap (binding names to keys), and a warning for each invalid entry."""
    default_keys, valid, warnings = read_default_keys(), dict[str, str](), list[str]()
    reserved = {key for name, keys in QUIT_KEYS.items() for key in _split_keys(keymap.get(name, keys))}
    for name, value in keymap.items():
        keys = _split_keys(value)
        unknown = next((key for key in keys if not is_key(key)), None)
        reserved_keys = reserved.intersection(keys) - set(default_keys.get(name, ()))
        if name not in default_keys and not _NUMBERED_NAME.fullmatch(name):
            problem = f"no such name; {_suggest(name, [*default_keys, *QUIT_KEYS])}docs/keys.md lists all"
        elif unknown is not None:
            problem = f"{unknown} is no key; {_suggest(unknown, _KEY_NAMES)}write keys as ctrl+n, f5 or escape"
        elif reserved_keys and name not in QUIT_KEYS:
            problem = f"{min(reserved_keys)} quits; choose another key, or give another one to {' or '.join(QUIT_KEYS)}"
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
