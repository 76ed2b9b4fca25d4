"""Command line, with data on stdout and notices on stderr; large modules are imported only by the command run."""

from __future__ import annotations

import codecs
import os
import sys
from contextlib import suppress
from errno import EBADF, EDQUOT, EIO, ENOSPC
from importlib import import_module
from io import TextIOWrapper

from context_tui import __version__
from context_tui.app.signals import Terminated, find_termination, handle_termination
from context_tui.errors import Error, ExitCode, SeveralSessions, UsageError
from context_tui.text.numbers import replace_unencodable

COMMANDS = (
    *("inspect", "plan", "apply", "replay", "sweep", "cache", "aftermath", "tune", "report", "compare", "policies"),
    *("formats", "sessions", "demo", "completion"),
)
"""Commands, each in a module of its name; ``options.toml`` describes them."""

MAX_LISTED_SESSIONS = 20
"""Maximum number of sessions that an error lists."""
SIGNAL_EXIT_BASE = 128
"""Exit codes above this name a signal, such as 130 for an interrupt."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code; *argv* defaults to the arguments of the process."""
    arguments = sys.argv[1:] if argv is None else argv
    _open_closed_streams()
    codecs.register_error("context-tui", replace_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="context-tui")  # a character missing from the encoding must not be fatal
    with handle_termination():
        return _run_guarded(arguments)


def _run_guarded(arguments: list[str]) -> int:
    try:
        try:
            code = _dispatch(arguments)
        finally:  # during interpreter shutdown, a second signal could interrupt the removal
            if temporary := sys.modules.get("context_tui.text.files"):
                temporary.remove_open_folders()
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
        _drop_output()  # the reader has closed the pipe
        return ExitCode.DONE
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else ExitCode.USAGE
    except Exception as error:
        if ended := find_termination(error):
            return _report_termination(ended)
        if isinstance(error, FileNotFoundError) and error.filename is None:  # raised by os.getcwd
            return _report_error(Error("the working folder was deleted; change to another one"))
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
        topic = "".join(arguments[1:2])
        if topic in COMMANDS:
            return _run_command(topic, ["--help"])
        if topic and first == "help":
            raise UsageError(f"{topic} is no command{_suggest_command(topic)}")
        from context_tui.text.files import read_toml

        print(read_toml("context_tui.cli", "options.toml")["usage"], end="")
        return ExitCode.DONE
    if "_ARGCOMPLETE" in os.environ:
        first = _choose_completed_command(os.environ.get("COMP_LINE", "").split())
    elif first not in COMMANDS and first.isalpha() and not os.path.exists(first):
        suggestion = _suggest_command(first)
        if suggestion:
            raise UsageError(f"{first} is no command and no file{suggestion}")
    return _run_command(first, arguments[1:]) if first in COMMANDS else _run_command("browse", arguments)


def _suggest_command(name: str) -> str:
    from difflib import get_close_matches

    matches = get_close_matches(name, COMMANDS, 1)
    return f"; did you mean `context-tui {matches[0]}`?" if matches else ""


def _run_command(name: str, arguments: list[str]) -> int:
    code: int = import_module(f"context_tui.cli.{name}").run(arguments)
    return code


def _choose_completed_command(words: list[str]) -> str:
    """Return the command whose arguments are to be completed, or "" for the first word, and inform argcomplete."""
    name = words[1] if len(words) > 1 and words[1] in COMMANDS else ""
    if name:
        os.environ["_ARGCOMPLETE"] = "2"  # the number of the word at which the arguments of the parser start
    return name


def _open_closed_streams() -> None:
    """Open the null device for closed standard streams (``>&-``), so that no other file gets their descriptors."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: SIM115


def _drop_output() -> None:
    """Discard buffered output, so that Python does not report a write error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _drop_closed_streams() -> None:
    """Redirect streams that cannot be flushed, such as those of a closed terminal, to the null device."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report_termination(termination: Terminated) -> int:
    with suppress(OSError):  # the terminal may be closed
        print(f"context-tui: ended by {termination}", file=sys.stderr)
    with suppress(OSError):
        _drop_output()
    _drop_closed_streams()
    return termination.exit_code


def _report_error(error: Error) -> int:
    from context_tui.cli.output import print_notice
    from context_tui.text.sanitize import make_visible

    print_notice(str(error))
    if isinstance(error, SeveralSessions):
        for session_id in error.ids[:MAX_LISTED_SESSIONS]:
            print(make_visible(session_id), file=sys.stderr)
        if count := len(error.ids[MAX_LISTED_SESSIONS:]):
            print(f"and {count:,} more; `context-tui sessions PATH --limit 0` lists all", file=sys.stderr)
    return error.exit_code


def _report_crash(error: Exception) -> int:
    import tempfile
    import traceback

    from context_tui.cli.output import print_notice

    message = f"internal error ({type(error).__name__}); please report it with"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="context-tui-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as log:
            traceback.print_exception(error, file=log)
        print_notice(f"{message} the log {log.name}")
    except OSError as no_log:
        print_notice(f"{message} what you did; the log cannot be written ({no_log.strerror})")
    return ExitCode.FAILED
