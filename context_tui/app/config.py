"""The user's configuration file, which holds the theme, key bindings, and settings saved under a name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from context_tui.errors import Error
from context_tui.text.files import lock_folder, read_settings_file, write_atomically

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class ConfigError(Error):
    """Raised if the configuration file cannot be read or written, or holds an invalid setting."""


class SavedSettings(NamedTuple):
    """Settings that the user saved under a name: a policy, and its parameters as ``KEY=VALUE``."""

    policy: str
    params: tuple[str, ...]


class Config(NamedTuple):
    """The contents of the configuration file: the theme, the key bindings by name, and the saved settings by name."""

    theme: str | None = None
    keys: Mapping[str, str] = {}
    settings: Mapping[str, SavedSettings] = {}


def find_config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the configuration file: ``$CONTEXT_TUI_CONFIG`` or, if unset, the system's usual path."""
    if path := (os.environ if environ is None else environ).get("CONTEXT_TUI_CONFIG"):
        return Path(path)
    from platformdirs import user_config_path  # slow to import, and not needed with a named file

    return user_config_path("context-tui", appauthor=False) / "config.toml"


def read_tables(path: Path) -> dict[str, Any]:
    """Return the tables in the configuration file without checking them; empty if the file does not exist.

    Raises ConfigError if the file cannot be read, or is not valid TOML.
    """
    try:
        text = read_settings_file(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; check the file") from None
    import tomllib  # most users have no such file

    try:
        return tomllib.loads(text.decode())
    except (UnicodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML ({error}); fix it") from None


def read_config(path: Path | None = None) -> Config:
    """Read and check the configuration file, raising ConfigError if the file or a setting is invalid."""
    path = path or find_config_path()
    tables = read_tables(path)
    theme = tables.get("theme")
    if theme is not None and not isinstance(theme, str):
        raise ConfigError(f'{path}: theme must be a name; write theme = "context-light"')
    keys = require_table(path, "keys", tables.get("keys", {}))
    for name, value in keys.items():
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f'{path}: keys.{name} must be keys separated by commas; write {name} = "ctrl+x"')
    settings = require_table(path, "settings", tables.get("settings", {}))
    return Config(theme, keys, {name: _parse_settings(path, name, value) for name, value in settings.items()})


def _parse_settings(path: Path, name: str, value: object) -> SavedSettings:
    table = require_table(path, f"settings.{name}", value)
    policy, params = table.get("policy"), table.get("params", [])
    if not isinstance(policy, str):
        raise ConfigError(f'{path}: settings.{name} names no policy; write policy = "defect-microcompact"')
    if not isinstance(params, list) or not all(isinstance(each, str) for each in params):
        raise ConfigError(f'{path}: settings.{name}.params must be a list; write params = ["KEY=VALUE"]')
    return SavedSettings(policy, tuple(params))


def require_table(path: Path, name: str, value: object) -> dict[str, Any]:
    """Return *value* if it is a TOML table; otherwise, raise :class:`ConfigError` with *name* and a remedy."""
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {name} must be a table; write [{name}], and one setting per line below it")
    return value


def validate_name(name: str, reserved: Sequence[str]) -> str:
    """Return a name for saved settings without outer spaces; raises ConfigError if it is malformed or *reserved*."""
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise ConfigError("a name has 1 to 40 characters; use letters, digits, dots, dashes or underscores")
    if name in reserved:
        raise ConfigError(f"{name} is the name of a policy; choose another name")
    return name


def save_settings(name: str, settings: SavedSettings) -> Path:
    """Save settings under a name, keeping the rest of the file, and return its path; may raise ConfigError."""

    def change(document: TOMLDocument) -> None:
        import tomlkit

        table = tomlkit.table()
        table.update({"policy": settings.policy, "params": list(settings.params)})
        if "settings" not in document:
            document.append("settings", tomlkit.table(is_super_table=True))
        document["settings"][name] = table

    return _edit_file(change)


def save_theme(theme: str) -> Path:
    """Save the theme, keeping the rest of the file, and return its path; may raise ConfigError."""

    def change(document: TOMLDocument) -> None:
        document["theme"] = theme

    return _edit_file(change)


def _edit_file(edit: Callable[[TOMLDocument], None]) -> Path:
    import tomllib

    import tomlkit  # preserves comments and order
    from tomlkit.exceptions import TOMLKitError

    path = find_config_path()
    try:
        path = path.resolve()
        with lock_folder(path.parent):
            read_config(path)  # refuse to overwrite an invalid file
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            document = tomlkit.parse(text)
            edit(document)
            text_after = tomlkit.dumps(document)
            tomllib.loads(text_after)
            write_atomically(path, text_after)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; check its permissions") from None
    except (TOMLKitError, tomllib.TOMLDecodeError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be changed: {error}; edit it by hand") from None
    return path
