"""`context-tui completion`: print the script that completes commands, options and files in a shell."""

from __future__ import annotations

from collections.abc import Sequence

from context_tui.cli.options import CommandParser
from context_tui.errors import ExitCode

ABOUT = """\
Print the completion script of a shell. bash: add `eval "$(context-tui completion bash)"` to ~/.bashrc; zsh: the same
in ~/.zshrc, after compinit; fish: save the output as ~/.config/fish/completions/context-tui.fish."""


def run(arguments: Sequence[str]) -> int:
    """Print the completion script."""
    parser = CommandParser("completion", ABOUT)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    shell = parser.parse(arguments).shell
    from argcomplete.shell_integration import shellcode

    print(shellcode(["context-tui"], shell=shell))
    return ExitCode.DONE
