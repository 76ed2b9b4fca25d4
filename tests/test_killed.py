"""Ended by a signal: what is private is cleaned up, the exit code tells, and what a kill leaves is found again.

Real processes are really killed; a test waits for what it looks for, and never for a time.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.pty import Terminal
from context_tui.app.signals import Terminated, find_termination, handle_termination
from context_tui.text.files import MARKER, find_leftovers, private_folder, remove_leftover
from tests.formats.recordings import four_turns

pytestmark = pytest.mark.slow

SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
WAITS = """
import sys, time
from context_tui import cli
from context_tui.export import files
def sync(path):
    print("writing", flush=True)
    time.sleep(600)
files.sync = sync
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return four_turns(folder)


def apply(session: Path, out: Path) -> list[str]:
    return ["apply", str(session), "-P", "defect-microcompact", "-p", "keep_recent_turns=1", "-o", str(out)]


@pytest.fixture
def writing(session: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that has written everything, and has not moved it into place yet."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, *apply(session, tmp_path / "out" / "new.jsonl")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def begun(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None and process.stdout.readline() == "writing\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("signum", SIGNALS)
def test_an_export_that_is_ended_leaves_nothing(
    writing: subprocess.Popen[str], out: Path, signum: signal.Signals
) -> None:
    begun(writing)
    assert find_leftovers(out) == []  # it lives
    assert [each.is_dir() for each in out.iterdir()] == [True]
    writing.send_signal(signum)
    _, err = writing.communicate(timeout=30)
    assert writing.returncode == 128 + signum
    assert err == (
        "context-tui: interrupted\n" if signum == signal.SIGINT else f"context-tui: ended by {signum.name}\n"
    )
    assert not any(out.iterdir())


@pytest.mark.parametrize("signum", SIGNALS)
def test_standard_input_that_is_ended_leaves_nothing(session: Path, out: Path, signum: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "context_tui", "inspect", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(out)},
    )
    until(lambda: any(out.rglob("standard-input")))
    process.send_signal(signum)
    stdout, _ = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (128 + signum, b"")
    assert not any(out.iterdir())


@pytest.mark.parametrize("signum", SIGNALS)
def test_nothing_is_left_for_the_exit_that_a_second_signal_would_cut_short(out: Path, signum: signal.Signals) -> None:
    code = "import os, sys\nfrom context_tui import cli\ncode = cli.main(['inspect', '-'])\n"
    code += "print(code, os.listdir(os.environ['TMPDIR']), file=sys.stderr)"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(out)},
        text=True,
    )
    until(lambda: any(out.rglob("standard-input")))
    process.send_signal(signum)
    _, stderr = process.communicate(timeout=30)
    assert stderr.splitlines()[-1] == f"{128 + signum} []"


def test_a_signal_that_is_ignored_stays_so(session: Path, tmp_path: Path) -> None:
    code = "import signal, sys; signal.signal(1, signal.SIG_IGN); from context_tui.cli import main; "
    code += "from context_tui.app.signals import handle_termination\n"
    code += "with handle_termination(): signal.raise_signal(1)\nprint('on')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "on\n")


def test_what_follows_a_signal_does_not_interrupt_the_cleaning_up() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)]
    cleaned = False
    with pytest.raises(Terminated) as caught, handle_termination():
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            signal.raise_signal(signal.SIGTERM)
            cleaned = True
    assert cleaned and caught.value.exit_code == 129
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)] == before


def test_a_signal_is_found_behind_what_it_was_wrapped_in() -> None:
    try:
        try:
            raise Terminated(signal.SIGTERM)
        except Terminated as ended:
            raise RuntimeError("in the middle of things") from ended
    except RuntimeError as error:
        assert isinstance(find_termination(error), Terminated)
    assert find_termination(RuntimeError()) is None


@pytest.mark.parametrize("signum", SIGNALS[:2])
def test_the_inspector_restores_the_terminal(session: Path, out: Path, signum: signal.Signals) -> None:
    command = [sys.executable, "-m", "context_tui", str(session)]
    with Terminal(command, env={"TMPDIR": str(out)}) as terminal:
        terminal.wait_for("timeline")
        os.kill(terminal.pid, signum)
        until(lambda: not (terminal.read(0.02) or terminal.alive()))
        terminal.settle()
    assert terminal.status == 128 + signum
    on, off = b"\x1b[?1049h", b"\x1b[?1049l"
    assert terminal.output.count(on) == terminal.output.count(off) == 1 and b"\x1b[?25h" in terminal.output
    assert b"Traceback" not in terminal.output and not any(out.iterdir())


def test_a_terminal_that_hangs_up(session: Path, out: Path) -> None:
    """With the session piped in, so that there is something to clean up."""
    command = ["sh", "-c", f'exec {sys.executable} -m context_tui - < "$1"', "sh", str(session)]
    with Terminal(command, env={"TMPDIR": str(out)}) as terminal:
        terminal.wait_for("timeline")
        assert any(out.rglob("standard-input"))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, terminal.fd)  # which closes the terminal
        os.close(null)
        until(lambda: not terminal.alive())
    assert terminal.status == 129 and not any(out.iterdir())


def test_a_terminal_that_hangs_up_and_tells_only_a_parent(session: Path, out: Path) -> None:
    """The kernel tells the leader of the session; one that waits for its children, as make does, tells nobody."""
    inspector = [sys.executable, "-m", "context_tui", str(session)]
    leader = f"import signal, subprocess as s; signal.signal(signal.SIGHUP, lambda *_: None); exit(s.call({inspector}))"
    with Terminal([sys.executable, "-c", leader], env={"TMPDIR": str(out)}) as terminal:
        terminal.wait_for("timeline")
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, terminal.fd)
        os.close(null)
        until(lambda: not terminal.alive())
    assert terminal.status == 129


# -- what a kill leaves


def killed(writing: subprocess.Popen[str]) -> None:
    begun(writing)
    writing.kill()
    writing.wait(30)


def test_what_a_kill_leaves_is_found_told_and_removed(writing: subprocess.Popen[str], session: Path, out: Path) -> None:
    killed(writing)
    (left,) = find_leftovers(out)
    assert left.name.startswith(".new.jsonl.") and any(left.rglob("new.jsonl"))
    done = subprocess.run(
        [sys.executable, "-m", "context_tui", *apply(session, out / "other.jsonl")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0 and f"remove it with: rm -r {left}" in done.stderr
    assert left.is_dir(), "named, not removed: nobody was asked"
    assert remove_leftover(left) and find_leftovers(out) == [] and sorted(os.listdir(out)) == ["other.jsonl"]


@pytest.mark.parametrize(("answer", "stays"), [("y\n", False), ("\n", True), ("n\n", True)])
def test_on_a_terminal_it_is_asked(
    writing: subprocess.Popen[str], session: Path, out: Path, answer: str, stays: bool
) -> None:
    killed(writing)
    (left,) = find_leftovers(out)
    with Terminal([sys.executable, "-m", "context_tui", *apply(session, out / "other.jsonl")]) as terminal:
        terminal.wait_for("[y/N]")
        terminal.send(answer)
        until(lambda: not (terminal.read(0.02) or terminal.alive()))
    assert terminal.status == 0 and (out / "other.jsonl").exists()
    assert left.exists() == stays


def test_another_processes_folder_is_left_alone(writing: subprocess.Popen[str], out: Path) -> None:
    begun(writing)
    (living,) = out.iterdir()
    assert find_leftovers(out) == [] and not remove_leftover(living) and any(living.rglob("new.jsonl"))


def test_only_what_is_ours_is_taken_for_a_leftover(out: Path, tmp_path: Path) -> None:
    with private_folder(out, "x") as inside:
        ours = shutil.copytree(inside.parent, out / ".x.abcdefgh.tmp")
    assert find_leftovers(out) == [ours]
    (out / ".y.abcdefgh.tmp").mkdir()  # no marker
    (out / ".z.abcdefgh.tmp").mkdir()
    (out / ".z.abcdefgh.tmp" / MARKER).write_text("mine")  # another one
    shutil.copytree(ours, out / "x.abcdefgh.tmp")  # another kind of name
    shutil.copytree(ours, out / ".x.ABC.tmp")
    (out / ".link.abcdefgh.tmp").symlink_to(ours)
    (out / ".file.abcdefgh.tmp").write_text("")
    linked = out / ".marker.abcdefgh.tmp"
    linked.mkdir()
    (linked / MARKER).symlink_to(ours / MARKER)
    pipe = out / ".pipe.abcdefgh.tmp"
    pipe.mkdir()
    os.mkfifo(pipe / MARKER)
    assert find_leftovers(out) == [ours]
    for each in out.iterdir():
        assert remove_leftover(each) == (each == ours)
    assert find_leftovers(out) == find_leftovers(out / "missing") == find_leftovers(tmp_path / ("x" * 300)) == []


def test_another_users_folder_is_left_alone(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with private_folder(out, "x") as inside:
        ours = shutil.copytree(inside.parent, out / ".x.abcdefgh.tmp")
    uid = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: uid + 1)
    assert find_leftovers(out) == [] and not remove_leftover(ours)


def test_without_locks_nothing_is_taken_for_a_leftover(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuses)
    with private_folder(out, "x") as inside:
        shutil.copytree(inside.parent, out / ".x.abcdefgh.tmp")
        assert find_leftovers(out) == []


def test_a_thread_that_ends_with_the_program_leaves_nothing(out: Path) -> None:
    code = f"""
import threading, time
from pathlib import Path
from context_tui.text.files import private_folder
ready = threading.Event()
def work():
    with private_folder(Path({str(out)!r}), "x") as folder:
        (folder / "copy").write_text("secret")
        ready.set()
        time.sleep(600)
threading.Thread(target=work, daemon=True).start()
ready.wait()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=Path(__file__).parents[1])
    assert not any(out.iterdir())
