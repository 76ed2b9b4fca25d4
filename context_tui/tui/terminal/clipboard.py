"""System clipboard, written by an external program, except over SSH, where the program would run remotely."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from subprocess import DEVNULL, Popen
from tempfile import TemporaryFile

COPY_TIMEOUT_S = 1.0

_WAYLAND_COMMANDS = [["wl-copy"]]
_X11_COMMANDS = [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]


def find_clipboard_command(environment: Mapping[str, str], platform: str = sys.platform) -> list[str] | None:
    """Return a command that copies its standard input to the clipboard, or None over SSH or if none is installed."""
    if any(environment.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT")):
        return None
    commands = [["pbcopy"]] if platform == "darwin" else []
    commands += _WAYLAND_COMMANDS if environment.get("WAYLAND_DISPLAY") else []
    commands += _X11_COMMANDS if environment.get("DISPLAY") else []
    commands += [["clip.exe"]] if environment.get("WSL_DISTRO_NAME") or platform == "win32" else []
    for name, *arguments in commands:
        if path := shutil.which(name, path=environment.get("PATH")):
            return [path, *arguments]
    return None


def start_copy(text: str, environment: Mapping[str, str]) -> Popen[bytes] | None:
    """Start a program that copies *text* and may outlive this process; return None if there is no such program."""
    program = find_clipboard_command(environment)
    if program is None:
        return None
    encoding = "utf-16" if program[0].endswith("clip.exe") else "utf-8"
    with suppress(OSError), TemporaryFile() as file:  # writing to a pipe could block
        file.write(text.encode(encoding, "replace"))
        file.seek(0)
        # In a new session, since some programs must run as long as the text is in the clipboard.
        return Popen(program, stdin=file, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)
    return None


async def wait_for_copy(program: Popen[bytes]) -> bool:
    """Wait for the program and return whether it copied the text; kill it after ``COPY_TIMEOUT_S`` seconds."""
    deadline = time.monotonic() + COPY_TIMEOUT_S
    while program.poll() is None:
        if time.monotonic() > deadline:
            cancel_copy(program)
            return False
        await asyncio.sleep(0.01)
    return program.returncode == 0


def cancel_copy(program: Popen[bytes]) -> None:
    """Kill a program that is still copying."""
    if program.poll() is None:
        program.kill()
        program.wait()
