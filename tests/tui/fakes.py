"""Sessions, streams and an application for the tests of single screens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, TypeVar

import httpx
from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.pilot import Pilot
from textual.screen import Screen

from context_tui.compaction.plan import Plan
from context_tui.policies.builtin.defect import SUMMARY_SECTIONS as DEFECT_SECTIONS
from context_tui.policies.planning import plan
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.tui.terminal.cells import to_ascii
from context_tui.tui.terminal.themes import DARK, LIGHT
from context_tui.tui.widgets.reading_pane import ReadingPane
from context_tui.tui.widgets.text_screen import show_help

SECRET = "AKIAABCDEFGHIJKLMNOP"
NASTY = "[/] [red]x[/nope] [@click=app.quit]y \x1b]0;title\x07\x1b[31m \x9b5m \u202e"
ENVIRONMENT = {"ANTHROPIC_BASE_URL": "http://localhost:9", "ANTHROPIC_MODEL": "asked", "CONTEXT_TUI_CONFIG": ""}
GOOD = "".join(f"## {name}\n- about src/auth.py, part {n}\n\n" for n, name in enumerate(DEFECT_SECTIONS))


def messages(turns: int = 12) -> list[dict[str, Any]]:
    """Turns of a prompt, a call, its result and an answer."""
    found: list[dict[str, Any]] = []
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"c{turn}", "name": "Read", "input": {"file_path": "src/auth.py"}}
        body = f"import jwt\nkey = {SECRET}\n" + f"line {turn} of some code\n" * 150
        found += [
            {"role": "user", "content": [{"type": "text", "text": f"Part {turn}: look at src/auth.py {NASTY}"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Looking."}, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{turn}", "content": body}]},
            {"role": "assistant", "content": [{"type": "text", "text": f"Part {turn} is done."}]},
        ]
    return found


def planned(policy: str = "defect-compact", **params: Any) -> tuple[Session, Plan]:
    """A session and a plan that summarises most of it."""
    session = from_messages(messages())
    if policy == "defect-compact":
        params.setdefault("threshold", 8_000)
    return session, plan(session, policy, force=True, **params)


class Server(httpx.MockTransport):
    """A server that streams a reply in Anthropic's format, and remembers what it was sent.

    ``until`` is how many pieces it sends before it hangs; ``fail`` how many calls get a 529 first.
    """

    def __init__(self, text: str = GOOD, *, until: int | None = None, fail: int = 0, stop: str = "end_turn") -> None:
        self.bodies: list[dict[str, Any]] = []
        self.closed = 0
        self._text, self._until, self._fail, self._stop = text, until, fail, stop
        super().__init__(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        if len(self.bodies) <= self._fail:
            return httpx.Response(529, json={"error": {"type": "overloaded_error", "message": "busy"}})
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Stream(self))

    async def pieces(self) -> AsyncIterator[bytes]:
        """The reply, piece by piece."""
        model = self.bodies[-1]["model"]
        yield _event("message_start", {"message": {"model": model, "content": [], "usage": {"input_tokens": 9}}})
        texts = [self._text[at : at + 20] for at in range(0, len(self._text), 20)]
        yield _event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
        for number, text in enumerate(texts):
            if number == self._until:
                break
            yield _event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}})
        if self._until is not None:
            await asyncio.sleep(3600)
        yield _event("message_delta", {"delta": {"stop_reason": self._stop}, "usage": {"output_tokens": 50}})
        yield _event("message_stop", {})


class _Stream(httpx.AsyncByteStream):
    def __init__(self, server: Server) -> None:
        self._server = server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._server.pieces():
            yield piece

    async def aclose(self) -> None:
        self._server.closed += 1


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


Shown = TypeVar("Shown", bound=Screen[Any])


class AsciiFilter(LineFilter):
    """The part of the output filter that replaces glyphs for ``--ascii``."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Replace the glyphs."""
        return [each._replace(text=to_ascii(each.text)) for each in segments]


class Shell(App[None], Generic[Shown]):
    """Shows one screen, and keeps what it closes with."""

    def __init__(self, first: Shown, *, light: bool = False, ascii: bool = False) -> None:
        super().__init__()
        self.first, self.answers, self.ascii = first, list[Any](), ascii
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = LIGHT.name if light else DARK.name

    def on_mount(self) -> None:
        """Open the screen."""
        self.push_screen(self.first, self.answers.append)

    def action_help(self) -> None:
        """List the keys, as the application does."""
        show_help(self)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Replace glyphs if that is asked for."""
        return [*super().get_line_filters(), *([AsciiFilter()] if self.ascii else [])]


async def until(pilot: Pilot[Any], true: Callable[[], object], seconds: int = 60) -> None:
    """Wait for a condition."""
    for _ in range(50 * seconds):
        if true():
            await pilot.pause()
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"it did not come true within {seconds} s")


def footer_fits(app: App[Any]) -> bool:
    """Whether every key of the footer is in sight."""
    return all(key.region.right <= app.size.width for key in app.screen.query("FooterKey"))


def drawn(app: App[Any]) -> str:
    """The text on the screen as a terminal gets it."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def wrapped_text(pane: ReadingPane) -> str:
    """The text that a pane has wrapped so far, with a line break after each wrapped line."""
    return "\n".join(line.drawn_text for line in pane._lines)
