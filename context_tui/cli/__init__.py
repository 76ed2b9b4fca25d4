"""The command line: stdout is data, stderr is talk. Nothing heavy is imported before a command is chosen."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from errno import EBADF, EDQUOT, EIO, ENOSPC
from importlib import import_module
from io import TextIOWrapper

from context_tui import __version__
from context_tui.app.signals import Terminated, find_termination, handle_termination
from context_tui.errors import Error, ExitCode, SeveralSessions

COMMANDS = {
    "inspect": "where a session's context went, as text or JSON",
    "plan": "what a policy would do to a session",
    "apply": "apply a policy and write the result to a new file",
    "replay": "what policies would have done along a session",
    "sweep": "many settings along many sessions, and which nothing beats",
    "compare": "which facts survive in the summaries of several summarizers",
    "policies": "the policies and their parameters",
    "formats": "the session formats that can be read and written",
    "sessions": "the sessions of every agent on this machine",
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
  --at N                start at the context before message N
  -P, --policy POLICY   the policy to start with
  --policy-file FILE    take a policy from a TOML file, and start with it
  --follow              follow the session as it is written
  --theme NAME          light, dark, or a theme of Textual
  --ascii               draw with plain characters
  --no-mouse            do not capture the mouse
  --version, --help

`context-tui COMMAND --help` lists the options of a command. Exit codes: 0 done, 1 failed,
2 bad usage or no readable session, 3 the model endpoint failed, 130 interrupted
(128 + n: ended by signal n).
"""

SIGNAL_EXIT_BASE = 128
"""Exit codes above this name a signal; 130 of an interrupt is one of them."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line with these arguments (default: the process's own); returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no reason to fail
    with handle_termination():
        return _run_guarded(arguments)


def _run_guarded(arguments: list[str]) -> int:
    """Run, and turn whatever ends it into a line and an exit code."""
    try:
        try:
            code = _dispatch(arguments)
        finally:
            _clean_up()
        if code > SIGNAL_EXIT_BASE:
            _drop_closed_streams()
        sys.stdout.flush()
        return code
    except Error as error:
        return _report_error(error)
    except Terminated as error:
        return _report_termination(error)
    except KeyboardInterrupt:
        print("context-tui: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # nobody reads on: end silently
        return ExitCode.DONE
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else ExitCode.USAGE
    except Exception as error:
        if ended := find_termination(error):
            return _report_termination(ended)
        if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT, EIO, EBADF):
            from context_tui.cli.output import print_notice

            _drop_output()
            print_notice(f"{error.filename or 'standard output'}: {error.strerror}")
            return ExitCode.FAILED
        return _report_crash(error)


def _dispatch(arguments: list[str]) -> int:
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


def _clean_up() -> None:
    """Remove what is private now: at the exit of Python, a second signal would end the process in the middle of it."""
    if temporary := sys.modules.get("context_tui.text.private_files"):  # else there is nothing
        temporary.remove_open_folders()


def _open_closed_streams() -> None:
    """A standard stream that was closed (``>&-``) becomes the null device, as what it is for is not wanted.

    Left closed, its number would go to the next file that is opened, a session or what is written.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: SIM115


def _drop_output() -> None:
    """Let what is still to be written vanish, so that Python does not complain at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _drop_closed_streams() -> None:
    """Drop each stream that cannot be written to: the terminal may be closed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report_termination(by: Terminated) -> int:
    with suppress(OSError):  # the terminal may have gone
        print(f"context-tui: ended by {by}", file=sys.stderr)
    with suppress(OSError):
        _drop_output()
    _drop_closed_streams()
    return by.exit_code


def _report_error(error: Error) -> int:
    from context_tui.cli.output import print_notice
    from context_tui.text.sanitize import make_visible

    print_notice(str(error))
    if isinstance(error, SeveralSessions):
        for session_id in error.ids:
            print(make_visible(session_id), file=sys.stderr)
    return error.exit_code


def _report_crash(error: Exception) -> int:
    """A defect of ours: one line, and the traceback in a log."""
    import tempfile
    import traceback

    from context_tui.cli.output import print_notice

    what = f"internal error ({type(error).__name__}); please report it with"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="context-tui-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as log:
            traceback.print_exception(error, file=log)
        print_notice(f"{what} the log {log.name}")
    except OSError as no_log:
        print_notice(f"{what} what you did; the log cannot be written ({no_log.strerror})")
    return ExitCode.FAILED
