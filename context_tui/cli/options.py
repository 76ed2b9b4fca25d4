"""Parsing of command-line options, and opening of the session that they name."""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from context_tui.cli.output import offer_leftover_removal, print_notice
from context_tui.errors import ExitCode, PlanError, SeveralSessions, UnreadableSession, shorten_message
from context_tui.formats.opening import open_session
from context_tui.session.session import Session
from context_tui.session.validation import MAX_TOKENS
from context_tui.text.files import private_folder, read_toml
from context_tui.text.sanitize import sanitize

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from context_tui.lab.replay.result import CompactionHandling
    from context_tui.lab.study import StudySettings
    from context_tui.policies.base import Policy
    from context_tui.policies.command.policy import PolicyCommand


MAX_POLICY_TIMEOUT_S = 3_600


class CommandParser(argparse.ArgumentParser):
    """A parser of one command's arguments, which reports an error in one sanitized line and exits with code 2.

    The options are read from ``options.toml``; *types* adds functions that parse types of this command only.
    """

    def __init__(self, command: str, types: Mapping[str, Callable[[str], Any]] = MappingProxyType({})) -> None:
        texts = read_toml("context_tui.cli", "options.toml")
        command_texts = texts[command or "browse"]
        about, notes = command_texts["description"], command_texts.get("epilog")
        super().__init__(f"context-tui {command}".strip(), description=about, epilog=notes, allow_abbrev=False)
        if notes:
            self.formatter_class = argparse.RawDescriptionHelpFormatter
        self._shared_rows, self._types = texts["shared"], {**_TYPES, **types}
        self._add_rows(self, command_texts["options"])
        self.set_defaults(**command_texts.get("defaults", {}))

    def _add_rows(self, target: argparse._ActionsContainer, rows: Sequence[str | dict[str, Any]]) -> None:
        for row in rows:
            if isinstance(row, str):
                self._add_rows(target, self._shared_rows[row])
            elif "one_of" in row:
                self._add_rows(self.add_mutually_exclusive_group(required=True), row["one_of"])
            else:
                settings = {key: value for key, value in row.items() if key not in ("names", "number")}
                if "type" in row:
                    settings["type"] = self._types[row["type"]]
                elif "number" in row:
                    settings["type"] = build_number_type(*row["number"])
                if "action" in row:
                    settings["action"] = _ACTIONS.get(row["action"], row["action"])
                target.add_argument(*row["names"].split(), **settings)

    def error(self, message: str) -> NoReturn:
        print_notice(f"{shorten_message(message)}; see {self.prog} --help", self.prog)
        raise SystemExit(int(ExitCode.USAGE))

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message(sanitize(message), file)  # the only output path of argparse

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse arguments, with options and positional arguments in any order, and return the options."""
        if "_ARGCOMPLETE" in os.environ:
            _complete(self)
        options = self.parse_intermixed_args(list(arguments))
        if any(isinstance(each, str) for each in getattr(options, "policy_file", ())):
            options.policy_file = _build_policy_commands(options.policy_file, options.policy_timeout)
        return options


class _PolicyAction(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), (values, [])])


class _ParameterAction(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if not getattr(namespace, self.dest):
            setattr(namespace, self.dest, [("", [])])  # for the policy of --policy-file
        getattr(namespace, self.dest)[-1][1].append(values)


_ACTIONS = {"policy": _PolicyAction, "parameter": _ParameterAction}
"""Actions that collect policies, each with the assignments after it, in one member of the options."""


def list_policies(options: argparse.Namespace) -> list[tuple[str, Sequence[str]]]:
    """Return (name, assignments) for each policy that -P names, and then for other policies of --policy-file.

    Assignments before any -P are for the first policy of --policy-file; raises PlanError if there is none.
    """
    policies, file_names = options.policies or [], load_policy_files(options.policy_file)
    if policies and not policies[0][0]:
        if not file_names:
            raise PlanError(f"-p {policies[0][1][0]} is for no policy; name it first: -P POLICY -p KEY=VALUE")
        policies[0] = (file_names[0], policies[0][1])
    return [*policies, *((name, ()) for name in file_names if name not in dict(policies))]


def build_study_settings(options: argparse.Namespace) -> StudySettings:
    """Build the settings of a replay from the options of a command that replays."""
    from context_tui.lab.study import StudySettings

    return StudySettings(options.recorded, options.summary_tokens, options.delay, options.shares_prefix, options.cache)


def resolve_policies(options: argparse.Namespace) -> list[tuple[Policy, dict[str, str]]]:
    """Return the requested policies with checked parameter values; raises PlanError before any session is read."""
    from context_tui.policies.parameter_space import build_params

    requests = [resolve_policy(name, texts) for name, texts in list_policies(options)]
    for policy, values in requests:
        build_params(policy, values)
    return requests


def resolve_policy_name(options: argparse.Namespace, own_names: Collection[str]) -> str:
    """Load the policy files and return the name of the requested policy.

    Raises PlanError if none is named; its message suggests *own_names*, the policies of the session's agent.
    """
    names = load_policy_files(options.policy_file)
    name: str | None = options.policy or next(iter(names), None)
    if name is None:
        suggestion = f" (this session's agent: {', '.join(own_names)})" if own_names else ""
        raise PlanError(f"no policy is named; give -P POLICY{suggestion} or --policy-file FILE")
    return name


def load_policy_files(paths: Sequence[Path | PolicyCommand]) -> list[str]:
    """Register the policies of files and programs, and return their names; raises PlanError if one is invalid."""
    if not paths:
        return []
    from context_tui.policies.command.policy import read_command
    from context_tui.policies.registry import POLICIES, find_policy  # pydantic: only if a file is named
    from context_tui.policies.toml import read_policy

    names = []
    for path in paths:
        policy = read_policy(path, find_policy) if isinstance(path, Path) else read_command(path)
        if problem := POLICIES.add(policy, policy.name, str(path)):
            raise PlanError(f"{path}: {problem}")
        names.append(policy.name)
    return names


def resolve_policy(name: str, params: Sequence[str] = ()) -> tuple[Policy, dict[str, str]]:
    """Return the policy and values, with *params*, for the name of a policy or saved settings; may raise PlanError."""
    from context_tui.policies.parameters import parse_assignments  # pydantic: only if a policy is named
    from context_tui.policies.registry import POLICIES, find_policy

    if name in POLICIES:
        return POLICIES[name], parse_assignments(params)
    from context_tui.app.config import read_config  # only if no policy has this name

    settings = read_config().settings.get(name)
    if settings is None:
        return find_policy(name), parse_assignments(params)
    return find_policy(settings.policy), {**parse_assignments(settings.params), **parse_assignments(params)}


def parse_name(text: str) -> str:
    """Return a name, or raise ArgumentTypeError if it is empty: as a path, it would mean the working folder."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; give a name")
    return text


def build_choice_type(noun: str, names: Sequence[str]) -> Callable[[str], str]:
    """Build an argparse type that accepts only *names*; errors call the value a *noun*."""

    def parse_choice(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"unknown {noun} {text!r}; available: {', '.join(names)}")
        return text

    return parse_choice


def build_number_type(noun: str, remedy: str = "a whole number", minimum: int | None = None) -> Callable[[str], int]:
    """Build an argparse type for whole numbers; with *minimum*, only plain digits of at least that value are valid."""

    def parse_number(text: str) -> int:
        digits_only = text.isascii() and text.isdigit()
        with suppress(ValueError):
            if minimum is None or (digits_only and int(text) >= minimum):
                return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a {noun}; give {remedy}")

    return parse_number


def parse_recorded_mode(text: str) -> CompactionHandling:
    """Parse the handling of recorded compactions: ``keep``, ``undo``, or ``ignore``, the old name of ``undo``."""
    modes: dict[str, CompactionHandling] = {"keep": "keep", "undo": "ignore", "ignore": "ignore"}
    if text not in modes:
        raise argparse.ArgumentTypeError(f"unknown mode {text!r}; available: keep, undo")
    return modes[text]


def parse_seconds(text: str) -> float:
    """Parse a number of seconds without checking its range."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; give one such as 3600") from None


def parse_tokens(text: str) -> int:
    """Parse a positive number of tokens, as in ``200000``, ``200k`` or ``1m``."""
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    digits = text[:-1] if scale > 1 else text
    try:
        value = float(digits.replace("_", "").replace(",", "")) * scale
    except ValueError:
        value = 0.0
    if not 1 <= value <= MAX_TOKENS or (scale == 1 and not value.is_integer()):
        remedy = f"give 1 to {MAX_TOKENS:,}, or one such as 200k"
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens; {remedy}")
    return int(value)


_TYPES: dict[str, Callable[[str], Any]] = {
    "int": int,
    "message": build_number_type("message number"),
    "name": parse_name,
    "path": lambda text: Path(parse_name(text)),
    "recorded": parse_recorded_mode,
    "saving-unit": build_choice_type("measure", ("tokens", "money")),
    "seconds": parse_seconds,
    "tokens": parse_tokens,
}
"""Functions that parse the values of options, by the types that ``options.toml`` names."""


def open_named_session(spec: str, window: int | None = None) -> Session:
    """Read the session that *spec* names, where ``-`` means standard input."""
    if spec != "-":
        return open_session(spec, window=window)
    path = spool_stdin()
    try:
        session = open_session(path, window=window)
    except SeveralSessions as error:
        ids = [session_id.removeprefix(f"{path}#") for session_id in error.ids]
        message = f"standard input: holds {len(ids):,} sessions; write it to a file and name one as FILE#ID"
        raise SeveralSessions(message, ids) from None
    except UnreadableSession as error:
        raise UnreadableSession(str(error).replace(str(path), "standard input")) from None
    return replace(session, info=replace(session.info, path="-", title="standard input"))


def spool_stdin() -> Path:
    """Copy standard input to a private temporary file, which is removed at exit, and return the path."""
    place = Path(tempfile.gettempdir())
    offer_leftover_removal(place)
    folder = private_folder(place, "context-tui")
    path = folder.__enter__() / "standard-input"
    atexit.register(folder.__exit__, None, None, None)
    with path.open("xb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _complete(parser: CommandParser) -> None:
    """Let argcomplete print the completions (commands, options, policies and files) of the current word, and exit."""
    import argcomplete
    from argcomplete.completers import FilesCompleter

    from context_tui.cli import COMMANDS

    def complete_first(prefix: str, **_: object) -> list[str]:
        return [*(name for name in COMMANDS if name.startswith(prefix)), *FilesCompleter()(prefix)]

    def complete_policy(prefix: str, **_: object) -> list[str]:
        from context_tui.policies.registry import POLICIES

        return [name for name in POLICIES if name.startswith(prefix)]

    for action in parser._actions:
        if action.dest == "sessions" and parser.prog == "context-tui":
            action.completer = complete_first  # type: ignore[attr-defined]
        elif action.dest in ("policy", "policies"):
            action.completer = complete_policy  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options="long")


def _build_policy_commands(sources: Sequence[Path | str], timeout: float | None) -> list[Path | PolicyCommand]:
    """Return policy files as they are, and the texts of commands as commands with a timeout; may raise PlanError."""
    from context_tui.policies.command.policy import DEFAULT_TIMEOUT_S, PolicyCommand

    seconds = DEFAULT_TIMEOUT_S if timeout is None else timeout
    if not 0 < seconds <= MAX_POLICY_TIMEOUT_S:
        raise PlanError(f"--policy-timeout {seconds:g}: give a number of seconds, up to {MAX_POLICY_TIMEOUT_S:,}")
    return [PolicyCommand(each, seconds) if isinstance(each, str) else each for each in sources]
