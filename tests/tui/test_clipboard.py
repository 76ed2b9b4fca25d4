"""Copying: by the system's program where there is one, else by the terminal; never in the way."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest

from context_tui.session.memory import from_messages
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.terminal import clipboard
from tests.tui.fakes import until
from tests.tui.inspecting import session, settled

WAYLAND, X11 = {"WAYLAND_DISPLAY": "wayland-0"}, {"DISPLAY": ":0"}


def program(folder: Path, name: str, does: str) -> Path:
    """A program on the path that keeps what it is given beside itself, then does something."""
    path, kept = folder / name, folder / f"{name}.got"
    path.write_text(f'#!/bin/sh\n/bin/cat > "{kept}.new" && /bin/mv "{kept}.new" "{kept}"\n{does}\n')
    path.chmod(0o755)
    return kept


@pytest.mark.parametrize(
    ("environment", "platform", "names", "expected"),
    [
        (WAYLAND, "linux", ["wl-copy", "xclip"], "wl-copy"),
        ({**WAYLAND, **X11}, "linux", ["xsel", "xclip"], "xclip"),
        (X11, "linux", ["wl-copy", "xsel"], "xsel"),
        ({}, "linux", ["wl-copy", "xclip", "xsel", "pbcopy", "clip.exe"], None),
        (X11, "linux", [], None),
        ({}, "darwin", ["pbcopy"], "pbcopy"),
        ({"WSL_DISTRO_NAME": "Debian"}, "linux", ["clip.exe"], "clip.exe"),
        ({**X11, "SSH_TTY": "/dev/pts/1"}, "linux", ["xclip"], None),
        ({"SSH_CONNECTION": "1 2 3 4"}, "darwin", ["pbcopy"], None),
    ],
)
def test_the_program_of_the_display(
    tmp_path: Path, environment: dict[str, str], platform: str, names: list[str], expected: str | None
) -> None:
    for name in names:
        program(tmp_path, name, "")
    found = clipboard.find_clipboard_command({**environment, "PATH": str(tmp_path)}, platform)
    assert (Path(found[0]).name if found else None) == expected


async def _copied(
    monkeypatch: pytest.MonkeyPatch, folder: Path, does: str | None, *, ssh: bool = False
) -> tuple[str, str]:
    """What a program that does that was given when a message was copied, and what was notified."""
    kept = program(folder, "xclip", does) if does is not None else folder / "none"
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("DISPLAY", ":0")
    for name in ("WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_CLIENT", "WSL_DISTRO_NAME", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    if ssh:
        monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    monkeypatch.setattr(clipboard, "COPY_TIMEOUT_S", 0.3)
    monkeypatch.setattr(clipboard.wait_for_copy, "__defaults__", (0.3,))
    running = ContextTuiApp(session())
    async with running.run_test(size=(100, 30), notifications=True) as pilot:
        await settled(pilot)
        written: list[str] = []
        assert running._driver is not None
        monkeypatch.setattr(running._driver, "write", written.append)
        await pilot.press("home", "y")
        begun = time.monotonic()
        await pilot.press("down")
        assert time.monotonic() - begun < 0.25, "keys go on"
        await until(pilot, lambda: len(running._notifications))
        said = next(iter(running._notifications)).message
        text = base64.b64encode(b"Step 0: rotate the refresh tokens").decode()
        by_terminal = f"\x1b]52;c;{text}\a" in "".join(written)
    assert by_terminal == ("OSC 52" in said)
    return kept.read_text() if kept.exists() else "", said


async def test_copied_by_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    got, said = await _copied(monkeypatch, tmp_path, "exit 0")
    assert (got, said) == ("Step 0: rotate the refresh tokens", "Copied")


@pytest.mark.slow
@pytest.mark.parametrize("does", [None, "exit 1", "/bin/sleep 60"], ids=["none", "fails", "hangs"])
async def test_else_by_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str | None) -> None:
    _, said = await _copied(monkeypatch, tmp_path, does)
    assert said == "Sent to the clipboard (OSC 52)"


async def test_over_ssh_the_terminal_has_the_clipboard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    got, said = await _copied(monkeypatch, tmp_path, "exit 0", ssh=True)
    assert (got, said) == ("", "Sent to the clipboard (OSC 52)")


async def test_the_last_copy_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept = program(tmp_path, "xclip", "exit 0")
    first = f'[ -e "{tmp_path}/once" ] || {{ : > "{tmp_path}/once"; /bin/sleep 0.2; }}\n'
    path = tmp_path / "xclip"
    path.write_text(path.read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + first))
    environment = {**X11, "PATH": str(tmp_path)}
    slow = clipboard.start_copy("first", environment)
    assert slow is not None
    while not (tmp_path / "once").exists():
        time.sleep(0.01)
    clipboard.cancel_copy(slow)
    last = clipboard.start_copy("last", environment)
    assert last is not None
    assert await clipboard.wait_for_copy(last)
    time.sleep(0.3)
    assert kept.read_text() == "last"


async def test_the_copy_has_no_escape_sequences_unless_it_is_raw() -> None:
    text = "\x1b]52;c;aGk=\x07\x1b[31mred\x1b[0m\tnext\r\nrm -rf x\x00"
    running = ContextTuiApp(from_messages([{"role": "user", "content": text}]))
    async with running.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await pilot.press("home", "y")
        assert running.clipboard == "red\tnext\nrm -rf x␀"
        await pilot.press("Y")
        assert running.clipboard == text
