"""Draw the pictures of the inspector that the README shows, from the sample sessions.

Without arguments all of them, into ``screenshots/``; with names only those. Look at each before committing it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from context_tui.library.discovery import SessionEntry
    from context_tui.session.session import SessionInfo
    from context_tui.tui.app import ContextTuiApp

ROOT = Path(__file__).resolve().parents[1]
SAMPLES, OUT = Path("sample_sessions"), ROOT / "screenshots"
AGES = (3_600, 7_200, 18_000, 90_000, 200_000, 900_000, 2_000_000)
"""How old the samples are made to look in the picker, in seconds."""

CLEARED = "t 1 2 3 enter down"
"""Keys that select a result which defect's microcompact would clear."""


MICRO = "defect-microcompact"
WAIT = "wait"
"""In place of a key: give what is computed in the background the time for it."""


@dataclass(frozen=True)
class Picture:
    """A state of the program: a sample (none: the picker), keys, and how big and in which theme it is drawn."""

    about: str
    sample: str = "coding-session.jsonl"
    keys: str = ""
    size: tuple[int, int] = (120, 40)
    theme: str = "dark"
    demo: bool = False
    policy: str | None = None


PICTURES = {
    "demo": Picture("the demo as it opens", demo=True),
    "inspector": Picture("a result that would be cleared", keys=CLEARED, policy=MICRO),
    "inspector-light": Picture("the same in the light theme", keys=CLEARED, theme="light", policy=MICRO),
    "inspector-80x24": Picture("the same on a small terminal", keys=CLEARED, size=(80, 24), policy=MICRO),
    "parameter": Picture("a setting moved: keep_recent_turns from 3 to 2", keys=f"{CLEARED} left", policy=MICRO),
    "turns": Picture("every turn folded: a table of contents", keys="Z", policy=MICRO),
    "as-of": Picture("as of where the trigger first fired", keys="right_curly_bracket", policy=MICRO),
    "full-compaction": Picture("what a full compaction would do", keys="1"),
    "apply": Picture("the summary, made offline", keys="1 a"),
    "breakdown": Picture("where it went", keys="b"),
    "languages": Picture("pictures, scripts and control bytes", sample="images-and-languages.jsonl"),
    "compacted": Picture("a recording with an earlier compaction", sample="compacted-session.jsonl", size=(120, 34)),
    "replay": Picture("the policy along the run, at a firing", keys="l wait left_square_bracket wait", policy=MICRO),
    "sweep": Picture("settings swept: those that nothing beats", keys="l wait s wait asterisk asterisk", policy=MICRO),
    "calibration": Picture("what each model makes of the file's content", keys="C", size=(120, 30)),
    "problems": Picture("what could not be read", sample="broken-on-purpose.jsonl", keys="p", size=(100, 30)),
    "help": Picture("every key", keys="question_mark", size=(100, 40)),
    "picker": Picture("choosing a session", sample="", size=(100, 24)),
}


def entries() -> list[SessionEntry]:
    """The samples for the picker, with ages that do not depend on when they were built."""
    from context_tui.library.discovery import find_samples

    now = time.time()
    samples = [(entry, replace(entry.info, path=str(SAMPLES / Path(entry.info.path).name))) for entry in find_samples()]
    return [
        replace(entry, info=replace(info, time=now - age)) for (entry, info), age in zip(samples, AGES, strict=True)
    ]


def app_of(picture: Picture) -> ContextTuiApp:
    """The application for a picture."""
    from context_tui.formats.opening import choose_session
    from context_tui.library import discovery
    from context_tui.tui.app import ContextTuiApp
    from context_tui.tui.options import InspectorOptions

    sessions: SessionInfo | list[SessionInfo] = []
    if picture.sample:
        sessions = choose_session(SAMPLES / picture.sample)
    else:
        samples = entries()
        discovery.find_samples, discovery.find_recorded_sessions = lambda: samples, lambda *_: []
    return ContextTuiApp(sessions, InspectorOptions(policy=picture.policy, demo=picture.demo), theme=picture.theme)


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until everything is drawn that follows from the last key: until two looks at the screen are the same."""
    before = ""
    for _ in range(50):
        await pilot.pause(0.2)
        if pilot.app.screen.id == "_default":  # the first one is not there yet
            continue
        now = pilot.app.export_screenshot()
        if now == before:
            return
        before = now


async def draw(picture: Picture) -> str:
    """The picture as SVG."""
    app = app_of(picture)
    async with app.run_test(size=picture.size) as pilot:
        await settled(pilot)
        for key in picture.keys.split():
            if key == WAIT:
                await pilot.pause(3)
            else:
                await pilot.press(key)
            await settled(pilot)
        return tidy(app.export_screenshot(title="context-tui"))


def tidy(svg: str) -> str:
    """Without fonts from the network, and with the blanks around a text as its position."""
    svg = re.sub(r"\s*@font-face \{.*?\n    \}\n", "\n", svg, flags=re.DOTALL)
    fonts = "font-family: Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace"
    svg = re.sub(r"font-family: Fira Code, monospace", fonts, svg)
    return re.sub(r'<text ([^>]*?)x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>([^<]*)</text>', _text, svg)


def _text(match: re.Match[str]) -> str:
    head, x, y, length, attributes, content = match.groups()
    cells = content.replace("&#160;", "\u00a0")
    cells = re.sub(r"&\w+;|&#\d+;", "?", cells)
    bare = cells.strip("\u00a0")
    if not bare:
        return ""
    cell = 12.2  # what Textual takes a cell to be wide
    before, after = len(cells) - len(cells.lstrip("\u00a0")), len(cells) - len(cells.rstrip("\u00a0"))
    begin, wide = float(x) + cell * before, float(length) - cell * (before + after)
    content = re.sub(r"^(?:&#160;)+|(?:&#160;)+$", "", content)
    return f'<text {head}x="{begin:.1f}" y="{y}" textLength="{wide:.1f}"{attributes}>{content}</text>'


def main(names: list[str]) -> int:
    """The command line."""
    os.chdir(ROOT)
    os.environ |= {"TZ": "UTC", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    time.tzset()
    for name in list(os.environ):
        if name == "NO_COLOR" or name.startswith(("TEXTUAL_", "CONTEXT_TUI_")):
            del os.environ[name]
    OUT.mkdir(exist_ok=True)
    for name in names or PICTURES:
        (OUT / f"{name}.svg").write_text(asyncio.run(draw(PICTURES[name])) + "\n", "utf-8", newline="\n")
        print(f"{name}.svg: {PICTURES[name].about}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
