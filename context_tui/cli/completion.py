"""``context-tui completion``: print the script that completes commands, options and files in a shell."""

from __future__ import annotations

from collections.abc import Sequence

from context_tui.cli.options import CommandParser
from context_tui.errors import ExitCode


def run(arguments: Sequence[str]) -> int:
    """Print the completion script of a shell, and return the exit code."""
    shell = CommandParser("completion").parse(arguments).shell
    from argcomplete.shell_integration import shellcode

    print(shellcode(["context-tui"], shell=shell))
    return ExitCode.DONE
