"""Where programs keep their files, by names alone: nothing here opens one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ALL_PROJECTS = "all projects"
"""What is said of a database with the sessions of every project."""


def find_home_folder(environ: Mapping[str, str]) -> Path:
    """The user's home folder, on any system."""
    named = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(named) if named else Path.home()


def find_data_home(environ: Mapping[str, str]) -> Path:
    """The folder of programs' data, as those that follow the XDG rules have it on every system."""
    named = environ.get("XDG_DATA_HOME")
    return Path(named) if named else find_home_folder(environ) / ".local" / "share"


def find_program_folder(environ: Mapping[str, str], name: str, *default: str) -> Path:
    """The folder that the variable *name* holds, ``~`` being the home folder; else *default* below that."""
    home, value = find_home_folder(environ), environ.get(name)
    if not value:
        return home.joinpath(*default)
    return home / value[2:] if value.startswith(("~/", "~\\")) else home if value == "~" else Path(value)


def list_entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """What is in a folder, by name; nothing where it is missing or cannot be read."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []


def list_files(folder: str | os.PathLike[str], *suffixes: str) -> list[Path]:
    """The files in a folder whose names end so, by name; none is opened."""
    return [Path(entry.path) for entry in list_entries(folder) if entry.name.endswith(suffixes)]
