"""The real program in a pseudo-terminal on a hostile file: none of the file's control bytes come out."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.pty import Terminal

pytestmark = pytest.mark.slow

TITLE, CLIPBOARD, ALERT = "\x1b]0;OWNED\x07", "\x1b]52;c;T1dORUQ=\x07", "\x1b[5;7;31mOWNED\x1b[0m"
C1 = "\x9d0;OWNED\x9c\x9b31m"
EVIL = f"{TITLE}{CLIPBOARD}{ALERT}{C1}\u202eOWNED\x1b[2J\x1b[?1049l\x1bc\x08\x07 [@click=app.quit]x[/] [/nope]"


def write(path: Path) -> None:
    messages = []
    for turn in range(6):
        call = {"type": "tool_use", "id": f"c{turn}{EVIL}", "name": f"Bash{EVIL}", "input": {"command": EVIL}}
        result = {"type": "tool_result", "tool_use_id": f"c{turn}{EVIL}", "content": EVIL * 60}
        messages += [
            {"role": "user", "content": EVIL},
            {"role": "assistant", "content": [{"type": "text", "text": EVIL}, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": EVIL},
        ]
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))


# What Textual itself writes: modes, cursor, colours, its own queries. Anything else has to be from the file.
_TEXTUALS = re.compile(
    rb"\x1b\[[0-9;]*[Hm]|\x1b\[\?[0-9;]+[hlu$p]+|\x1b\[[<>=]?[0-9;]*[uqt]|\x1b\[\?[0-9;]*\$p|\x1bP=[12]s\x1b\\|\x1b\[[0-9]*c"
    rb"|\x1b\]22;[a-z-]*\x07"  # the shape of the mouse pointer
)
_KEYS = ("\x1b[A", "\x1b[A", "\x1b[5~", "2", "4", "1", "b", "\x1b", "f", "\x1b", "?", "\x1b", "a", "\x1b", " ")


def test_nothing_of_a_hostile_file_reaches_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil\x1b]0;OWNED\x07[red].jsonl"
    write(path)
    with Terminal([sys.executable, "-m", "context_tui", str(path)], columns=140, rows=44) as terminal:
        terminal.wait_for("timeline")
        terminal.settle(1.0)
        for key in _KEYS:
            terminal.send(key)
            terminal.settle(0.6)
        output = terminal.output
        assert terminal.alive()
        terminal.send("\x1b")
        terminal.settle(0.3)
        terminal.send("\x11")
        terminal.settle(1.0)
    assert b"OWNED" in output, "the text itself is shown"
    for payload in (TITLE, CLIPBOARD, ALERT, "\x1bc", "\x9d", "\x9b", "\u202e"):
        assert payload.encode() not in output, payload
    rest = _TEXTUALS.sub(b"", output)
    assert not (found := re.findall(rb".{0,20}[\x00-\x08\x0b\x0c\x0e-\x1f\x7f].{0,20}", rest)), found[:5]
    assert not re.search("[\x80-\x9f\u202a-\u202e\u2066-\u2069]", rest.decode())
