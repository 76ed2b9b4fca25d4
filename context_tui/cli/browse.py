"""``context-tui [SESSION ...]``: open the inspector on a terminal, or else print the report of ``inspect``."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from context_tui.app.config import read_config
from context_tui.cli.options import CommandParser, load_policy_files, open_named_session, resolve_policy, spool_stdin
from context_tui.errors import ExitCode, SeveralSessions, UnreadableSession
from context_tui.formats.opening import choose_session, find_main_session
from context_tui.session.session import SessionInfo
from context_tui.tui.early_answer import start_early_answer

WAIT_S = 1.0
"""Seconds between two searches for the first session of a folder."""


def run(arguments: Sequence[str]) -> int:
    """Open the named session in the inspector, or a picker if none or several are named; return the exit code."""
    options = CommandParser("").parse(arguments)
    return open_inspector(options.sessions, options)


def open_inspector(specs: Sequence[str], options: argparse.Namespace, *, demo: bool = False) -> int:
    """Run the inspector on the named sessions or, without a terminal, print a report on one; return the exit code."""
    at, window, policy = (getattr(options, name, None) for name in ("at", "window", "policy"))
    settings: dict[str, dict[str, Any]] = {}
    files = load_policy_files(getattr(options, "policy_file", ()))
    policy = policy or next(iter(files), None)
    if policy:
        from context_tui.policies.parameter_space import build_params, find_changed_values

        resolved, texts = resolve_policy(policy)
        policy, settings = resolved.name, find_changed_values(resolved, build_params(resolved, texts))
    terminal = sys.stdout.isatty() and (sys.stdin.isatty() or "-" in specs)
    if not terminal:
        if not specs:
            raise UnreadableSession("no terminal for the picker; name a session, as in `context-tui inspect SESSION`")
        if len(specs) > 1:
            raise SeveralSessions("no terminal for the picker; name one session", list(specs))
        from context_tui.cli import inspect  # pydantic: 100 ms, not needed for the first paint

        session = open_named_session(specs[0], window)
        inspect.print_report(session, inspect.build_report(session, at))
        return ExitCode.DONE
    follow = getattr(options, "follow", False)
    sessions = [_await_newest_session()] if follow and not specs else _find_named_sessions(specs)
    config = read_config()
    early_answer = start_early_answer(sessions[0], at, window) if len(sessions) == 1 else None
    gc.disable()  # imports create no garbage; the inspector enables collection again
    try:
        from context_tui.tui.app import ContextTuiApp, run  # Textual: 170 ms
        from context_tui.tui.options import InspectorOptions

        shown = InspectorOptions(at, policy, settings, window, options.ascii, demo, follow)
        app = ContextTuiApp(
            sessions,
            shown,
            theme=options.theme,
            config=config,
            follow_newest=follow and not specs,
            early_answer=early_answer,
        )
        return run(app, mouse=not options.no_mouse)
    finally:
        gc.enable()


def _await_newest_session() -> SessionInfo:
    """Return the newest session of the working folder, after waiting for an agent to begin one if there is none."""
    from context_tui.cli.output import print_notice  # imported here, as most starts need none
    from context_tui.library.discovery import find_newest_session

    entry = find_newest_session()
    if entry is None:
        remedy = "or name one, as in `context-tui SESSION --follow`"
        print_notice(f"no agent has a session of this folder yet: waiting for one; ctrl+c ends, {remedy}")
    while entry is None:
        time.sleep(WAIT_S)
        entry = find_newest_session()
    return entry.info


def _find_named_sessions(specs: Sequence[str]) -> list[SessionInfo]:
    """Return the sessions named on the command line: a file's main session or, if it has none, all of its sessions."""
    if not specs:
        return []
    from context_tui.library.discovery import find_session_infos

    infos: list[SessionInfo] = []
    for spec in specs:
        if spec == "-":
            infos.append(choose_session(spool_stdin()))
            _reopen_keyboard()
            continue
        file_infos = find_session_infos(spec)
        main_info = find_main_session(file_infos)
        infos += [main_info] if main_info else file_infos
    return infos


def _reopen_keyboard() -> None:
    """Reconnect standard input to the terminal after a session was read from it; may raise UnreadableSession."""
    try:
        handle = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        raise UnreadableSession("no terminal to read keys from; use `context-tui inspect -`") from None
    os.dup2(handle, 0)
    sys.stdin = os.fdopen(0)
    sys.__stdin__ = sys.stdin  # type: ignore[misc]  # Textual reads the original one
