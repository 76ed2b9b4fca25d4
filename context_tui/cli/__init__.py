"""The command line: stdout is data, stderr is talk. Nothing heavy is imported before a command is chosen."""

from __future__ import annotations

import os
import sys
from errno import EDQUOT, EIO, ENOSPC
from importlib import import_module
from io import TextIOWrapper

from context_tui import __version__
from context_tui.errors import Error, ExitCode, SeveralSessions

COMMANDS = {
    "inspect": "where a session's context went, as text or JSON",
    "plan": "what a policy would do to it",
    "apply": "carry a plan out, into a new file",
    "policies": "the policies there are, with their parameters",
    "formats": "the session formats that can be read and written",
    "demo": "the inspector on a sample session",
}

_HELP = """\
usage: context-tui [SESSION ...] [options]       the inspector; without SESSION, a picker
       context-tui COMMAND [options]

Open the recorded session of a coding agent, see where its context went, see what a
compaction policy would drop, tune the policy on it, and apply it.

SESSION is a file, a directory of sessions, - for standard input, or PATH#ID for one of several.

commands:
{commands}

options:
  --window N            size of the context window in tokens
  --at N                the context before message N
  -P, --policy POLICY   the policy that is shown first
  --theme NAME          a theme of Textual's, or light or dark
  --ascii               plain characters only
  --no-mouse            leave the mouse to the terminal
  --version, --help

`context-tui COMMAND --help` tells about one. Exit codes: 0 done, 1 failed, 2 bad usage or
nothing readable, 3 the model endpoint failed, 130 interrupted.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command line with these arguments (default: the process's own); returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no reason to fail
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except Error as error:
        return _report(error)
    except KeyboardInterrupt:
        print("context-tui: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # nobody reads on: end silently
        return ExitCode.DONE
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else ExitCode.USAGE
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT, EIO):
            _drop_output()
            print(f"context-tui: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
            return ExitCode.FAILED
        return _crashed(error)


def _run(arguments: list[str]) -> int:
    first = arguments[0] if arguments else ""
    if first in ("--version", "-V"):
        print(f"context-tui {__version__}")
        return ExitCode.DONE
    if first in ("--help", "-h", "help"):
        commands = "\n".join(f"  {name:<10}{about}" for name, about in COMMANDS.items())
        print(_HELP.format(commands=commands), end="")
        return ExitCode.DONE
    name = first if first in COMMANDS else "browse"
    command = import_module(f"context_tui.cli.{name}")
    code: int = command.run(arguments[1:] if first in COMMANDS else arguments)
    return code


def _drop_output() -> None:
    """Let what is still to be written vanish, so that Python does not complain at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: Error) -> int:
    from context_tui.sanitize import sanitize_line

    print(f"context-tui: {sanitize_line(str(error))}", file=sys.stderr)
    if isinstance(error, SeveralSessions):
        for session_id in error.ids:
            print(sanitize_line(session_id), file=sys.stderr)
    return error.exit_code


def _crashed(error: Exception) -> int:
    """A defect of ours: one line, and the traceback in a log."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="context-tui-", suffix=".log", delete=False) as log:
        traceback.print_exception(error, file=log)
    what = type(error).__name__
    print(f"context-tui: failed unexpectedly ({what}); please report it with {log.name}", file=sys.stderr)
    return ExitCode.FAILED
