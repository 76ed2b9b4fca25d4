"""Install the agents' own programs, with pinned versions, from npm and PyPI."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
INSTALL_SECONDS = 900
LEAST_NODE = 20


def get_cache_folder() -> Path:
    """Return the folder of programs, sessions and requests, which is never committed."""
    return Path(os.environ.get("AGENTS_CACHE") or ROOT / ".agents").resolve()


class ProgramError(Exception):
    """A program that cannot be installed or run; the message says why."""


@dataclass(frozen=True)
class Program:
    """An agent's program: its package, pinned, and the name of its executable."""

    registry: Literal["npm", "pypi"]
    package: str
    version: str
    executable: str
    additions: tuple[str, ...] = ()
    """Packages that it needs and does not name."""

    @property
    def folder(self) -> Path:
        """Folder that it is installed in."""
        name = self.package.replace("@", "").replace("/", "-")
        return get_cache_folder() / "programs" / f"{name}-{self.version}"

    @property
    def path(self) -> Path:
        """Path of the executable."""
        return self.folder / ("node_modules/.bin" if self.registry == "npm" else "venv/bin") / self.executable

    def install(self) -> None:
        """Install the program unless it is there.

        Raises:
            ProgramError: the package manager failed.
        """
        if self.path.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.registry == "npm":
            spec = f"{self.package}@{self.version}"
            _run(["npm", "install", "--prefix", str(self.folder), "--no-audit", "--no-fund", "--loglevel=error", spec])
        else:
            _run([sys.executable, "-m", "venv", "--without-pip", str(self.folder / "venv")])
            python = str(self.folder / "venv" / "bin" / "python")
            packages = [f"{self.package}=={self.version}", *self.additions]
            _run([sys.executable, "-m", "pip", "-q", "--python", python, "install", *packages])
        if not self.path.exists():
            raise ProgramError(f"{self.package} {self.version}: the package has no executable {self.executable!r}")


def check_node() -> None:
    """Check the version of Node.js.

    Raises:
        ProgramError: it is missing or too old.
    """
    try:
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ProgramError(f"node does not run: {error}; install Node.js {LEAST_NODE} or newer") from None
    if int(version.lstrip("v").split(".")[0]) < LEAST_NODE:
        raise ProgramError(f"node {version.strip()} is too old; install Node.js {LEAST_NODE} or newer")


def _run(command: list[str]) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise ProgramError(f"{command[0]}: {error}") from None
    if result.returncode:
        lines = (result.stderr or result.stdout).strip().splitlines() or ["no output"]
        raise ProgramError(f"{' '.join(command[:2])}: {lines[-1][:200]}")
