"""The real program in a pseudo-terminal, a server on this machine that hangs up: keys in one write, nothing is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from benchmarks.pty import Terminal
from tests.tui.fakes import GOOD

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[2] / "sample_sessions" / "coding-session.jsonl"
ESCAPE = "\x1b[27u"
"""As terminals send it that tell it from the beginning of another key; before another key, a bare one means alt."""


class HangingUp(ThreadingHTTPServer):
    """Sends the first call half a summary and waits, the second half a summary and hangs up, every other all of it."""

    daemon_threads = True

    def __init__(self) -> None:
        self.calls, self.over = 0, Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HangingUp

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.calls += 1
        call = self.server.calls
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", "1000000")  # whoever hangs up before has broken off
        self.end_headers()
        self._send("message_start", {"message": {"model": "m", "content": [], "usage": {"input_tokens": 9}}})
        self._send("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
        text = GOOD if call > 2 else GOOD[: len(GOOD) // 2]
        self._send("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}})
        if call == 1:
            self.server.over.wait(60)
        elif call > 2:
            self._send("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 50}})
            self._send("message_stop", {})

    def _send(self, kind: str, data: dict[str, object]) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the output is the tests'."""


@pytest.fixture
def server() -> Iterator[HangingUp]:
    made = HangingUp()
    thread = Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.over.set()
    made.shutdown()
    made.server_close()
    thread.join()


def test_stopping_failing_and_sending_again_keep_every_draft(server: HangingUp) -> None:
    environment = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_MODEL": "m", "CONTEXT_TUI_CONFIG": ""}
    argv = [sys.executable, "-m", "context_tui", str(SAMPLE), "-P", "defect-compact"]
    with Terminal(argv, columns=140, rows=36, env=environment) as terminal:
        terminal.wait_for("apply")
        terminal.settle(1.0)
        terminal.send("a")
        terminal.wait_for("1 draft ")
        terminal.settle()
        terminal.send("2\r")
        terminal.wait_for("part 1")
        terminal.send(f"{ESCAPE}\r")
        terminal.wait_for("The text so far is kept as draft 3.")
        assert server.calls == 2
        for said in ("stopped by you after est. ", "the server closed the connection"):
            terminal.wait_for(said)
        terminal.send("\r")
        terminal.wait_for("4 drafts")
        assert server.calls == 3
        terminal.settle()
        terminal.send(ESCAPE)
        terminal.settle(1.0)
        before = len(terminal.output)
        terminal.send("a")
        terminal.settle(1.0)
        assert b"4 drafts" in terminal.output[before:]
        assert server.calls == 3
        assert terminal.alive()
