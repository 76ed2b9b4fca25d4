"""Drive an agent through a scenario: an empty HOME, a project, the scripted model, and bounded processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from scripts.agents.agent import Agent, Dialogue, Run, Setup, Typing, write_file
from scripts.agents.programs import get_cache_folder
from scripts.agents.scenarios import InvocationKind, Scenario
from scripts.agents.scripted_model import RULES_MARK, ScriptedModel
from scripts.agents.server import INDEX_NAME, serve

RUN_SECONDS = 300
"""Seconds that one run of a program may take."""
DIALOGUE_SECONDS = 120
"""Seconds that an answer in a dialogue may take."""
REST_SECONDS = 3
"""Seconds without output after which a screen rests."""
INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
"""Files in which agents look for instructions."""
TERMINAL_SIZE = 40, 120
"""Lines and columns of a terminal."""
OUTWARD_PROXY = "http://127.0.0.1:9"
"""Proxy that refuses every connection, so that nothing leaves the machine."""


class DriveError(Exception):
    """A scenario that could not be driven; the message says why."""


@dataclass(frozen=True)
class Recorded:
    """A driven scenario: where its session and its requests are."""

    agent: Agent
    scenario: str
    folder: Path
    sessions: tuple[Path, ...]

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The index of the requests, in order."""
        path = self.folder / "requests" / INDEX_NAME
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def read_body(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Read the body of a request."""
        body: dict[str, Any] = json.loads((self.folder / "requests" / entry["body"]).read_bytes())
        return body


def load_recorded(agent: Agent, scenario: str) -> Recorded:
    """Return a scenario that was driven earlier.

    Raises:
        DriveError: it was not, or without success.
    """
    folder = get_run_folder(agent, scenario)
    sessions = agent.find_sessions(Setup(folder / "home", folder / "project", ""))
    recorded = Recorded(agent, scenario, folder, tuple(sessions))
    if not sessions or not recorded.requests:
        raise DriveError("was not driven")
    return recorded


def get_run_folder(agent: Agent, scenario: str) -> Path:
    """Return the folder of a scenario's run."""
    return get_cache_folder() / "runs" / agent.name / scenario


def prepare_setup(folder: Path, url: str, window: int | None, env: Mapping[str, str]) -> Setup:
    """Create an empty HOME and a project in *folder*."""
    project = folder / "project"
    (folder / "home").mkdir(parents=True, exist_ok=True)
    if not project.exists():
        project.mkdir()
        (project / "numbers.txt").write_text("".join(f"line {number}\n" for number in range(60)), encoding="utf-8")
        for name in INSTRUCTION_FILES:
            write_file(project / name, f"{RULES_MARK}: answer in one sentence.\n")
        subprocess.run(["git", "init", "-q", str(project)], check=False, timeout=30, env=os.environ | {"HOME": "/"})
    return Setup(folder / "home", project, url, window, env)


def drive(agent: Agent, scenario: Scenario, env: Mapping[str, str] | None = None) -> Recorded:
    """Drive an agent through a scenario, from an empty folder.

    Raises:
        DriveError: the program failed, or made no session or no request.
    """
    folder = get_run_folder(agent, scenario.name)
    shutil.rmtree(folder, ignore_errors=True)
    model = ScriptedModel(agent.translate, classify=agent.classify, final_step=agent.final_step)
    with serve(model, folder / "requests") as server, stop_daemons(folder / "home"):
        setup = prepare_setup(folder, server.base_url, agent.compute_window(scenario), env or {})
        variables = {**agent.configure(setup), **setup.env}
        for number, command in enumerate(agent.prepare_commands(setup)):
            run_program(command, setup, variables, folder / f"prepare-{number}.txt")
        for number, invocation in enumerate(scenario.invocations):
            model.queue(invocation.steps)
            run = _build_command(agent, setup, invocation.kind, invocation.prompt)
            output = folder / f"output-{number}.txt"
            match run:
                case Dialogue():
                    hold_dialogue(run, setup, variables, output)
                case Typing():
                    type_lines(run, setup, variables, output)
                case _:
                    run_program(run, setup, variables, output)
    recorded = Recorded(agent, scenario.name, folder, tuple(agent.find_sessions(setup)))
    if not recorded.requests:
        raise DriveError("the program sent no request")
    if not recorded.sessions:
        raise DriveError("the program wrote no session")
    return recorded


def _build_command(agent: Agent, setup: Setup, kind: InvocationKind, prompt: str) -> Run:
    if kind == "start":
        return agent.start_command(setup, prompt)
    sessions = agent.find_sessions(setup)
    if not sessions:
        raise DriveError("the program wrote no session to resume")
    if kind == "compact":
        return agent.compact_command(setup, sessions[-1])
    commands = {"resume": agent.resume_command, "clear": agent.clear_command, "rewind": agent.rewind_command}
    return commands[kind](setup, sessions[-1], prompt)


def run_program(command: Sequence[str], setup: Setup, variables: Mapping[str, str], output: Path) -> None:
    """Run a program to its end in the project, with an environment of its own.

    Raises:
        DriveError: it failed, or took too long and was stopped.
    """
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=setup.project,
            env=_build_environment(setup, variables),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            raise DriveError(f"the program took more than {RUN_SECONDS} seconds") from None
        finally:
            _stop_group(process)
    if status:
        lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no output"]
        raise DriveError(f"the program failed ({status}): {lines[-1][:160]}")


def hold_dialogue(dialogue: Dialogue, setup: Setup, variables: Mapping[str, str], output: Path) -> None:
    """Send a program each line of a dialogue, and wait for what it answers; then stop it.

    Raises:
        DriveError: an answer did not come in time.
    """
    with output.open("wb") as file:
        process = subprocess.Popen(
            dialogue.command,
            cwd=setup.project,
            env=_build_environment(setup, variables),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdin
        try:
            for line, answer in dialogue.exchanges:
                start = output.stat().st_size
                process.stdin.write(json.dumps(line).encode() + b"\n")
                process.stdin.flush()
                deadline = time.monotonic() + DIALOGUE_SECONDS
                while answer.encode() not in output.read_bytes()[start:]:
                    if time.monotonic() > deadline or process.poll() is not None:
                        raise DriveError(f"the program did not answer {line.get('method', line.get('type'))}")
                    time.sleep(0.1)
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            _stop_group(process)


def type_lines(typing: Typing, setup: Setup, variables: Mapping[str, str], output: Path) -> None:
    """Type lines into a program in a terminal, each once its screen rests; stop the program when it rests again."""
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", *TERMINAL_SIZE, 0, 0))
    process = subprocess.Popen(
        typing.command,
        cwd=setup.project,
        env={**_build_environment(setup, variables), "TERM": "xterm-256color"},
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    try:
        with output.open("wb") as file:
            _read_until_rest(terminal, file, REST_SECONDS)
            for line in typing.lines:
                if line:
                    os.write(terminal, line.encode())
                    _read_until_rest(terminal, file, 0.5)
                os.write(terminal, b"\r")
                _read_until_rest(terminal, file, REST_SECONDS)
    finally:
        _stop_group(process)
        os.close(terminal)


def _read_until_rest(terminal: int, file: BinaryIO, seconds: float) -> None:
    """Copy what a program draws, once it draws something, until it draws nothing for some seconds.

    Raises:
        DriveError: it goes on for too long.
    """
    deadline = time.monotonic() + DIALOGUE_SECONDS
    select.select([terminal], [], [], DIALOGUE_SECONDS)
    while select.select([terminal], [], [], seconds)[0]:
        try:
            file.write(os.read(terminal, 65_536))
        except OSError:  # the program ended
            return
        if time.monotonic() > deadline:
            raise DriveError("the screen of the program does not come to rest")


@contextlib.contextmanager
def stop_daemons(home: Path) -> Iterator[None]:
    """Stop, at the end, what the programs left running: the processes whose HOME is *home*."""
    try:
        yield
    finally:
        mark = f"HOME={home}".encode()
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in entry.read_bytes().split(b"\0"):
                    os.kill(int(entry.parent.name), signal.SIGKILL)


def _build_environment(setup: Setup, variables: Mapping[str, str]) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(setup.home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "HTTPS_PROXY": OUTWARD_PROXY,
        "https_proxy": OUTWARD_PROXY,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        **variables,
    }


def _stop_group(process: subprocess.Popen[bytes]) -> None:
    """Stop a program and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
