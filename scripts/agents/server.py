"""Model server on loopback that speaks four APIs, logs each exact request and returns usage by a real tokenizer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scripts.agents.prompt import Api, Prompt, parse_prompt
from scripts.agents.prompt_cache import PromptCache
from scripts.agents.reply import Answer, build_json, build_usage, iterate_events
from scripts.agents.scripted_model import ScriptedModel

API_BY_ENDING: dict[str, Api] = {
    "/messages": "anthropic",
    "/responses": "responses",
    "/chat/completions": "chat",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}
INDEX_NAME = "requests.jsonl"


@dataclass
class RequestLog:
    """Folder of exact requests: ``NNNN.json`` for each body, and an index that says what was replied."""

    folder: Path
    count: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def append(self, body: bytes, entry: dict[str, Any]) -> None:
        """Write a request and its entry in the index."""
        name = f"{self.count:04}.json"
        (self.folder / name).write_bytes(body)
        with (self.folder / INDEX_NAME).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"number": self.count, "body": name, **entry}) + "\n")
        self.count += 1


@dataclass
class ModelServer:
    """The state of a server: the model, its prompt cache and the log of requests."""

    model: ScriptedModel
    log: RequestLog
    cache: PromptCache = field(default_factory=PromptCache)
    base_url: str = ""
    unknown_paths: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, api: Api, prompt: Prompt, path: str, body: bytes) -> Answer:
        """Answer a request, and log it."""
        with self.lock:
            kind, reply = self.model.reply(prompt)
            answer = Answer(reply, prompt.model, self.cache.use(prompt, time.monotonic()))
            entry = {
                "time": time.time(),
                "path": path,
                "api": api,
                "kind": kind,
                "reply": reply.id,
                "text": reply.text,
                "calls": [{"id": call.id, "name": call.name} for call in reply.calls],
                "prompt_tokens": answer.prompt_tokens,
                "usage": build_usage(api, answer),
            }
            self.log.append(body, entry)
            return answer


def find_api(path: str) -> Api | None:
    """Return the API of a path; None for paths that are no request to a model."""
    return next((api for ending, api in API_BY_ENDING.items() if path.endswith(ending)), None)


def _find_model_in_path(path: str) -> str:
    """Return the model that a path of Gemini's API names."""
    return path.rpartition("/")[2].partition(":")[0] if ":" in path else ""


@contextmanager
def serve(model: ScriptedModel, folder: Path, port: int = 0) -> Iterator[ModelServer]:
    """Serve a model on loopback while the context lasts.

    Args:
        folder: where the requests are logged.
        port: 0 takes a free one; ``base_url`` names it.
    """
    server = ModelServer(model, RequestLog(folder))
    http = ThreadingHTTPServer(("127.0.0.1", port), _make_handler(server))
    http.daemon_threads = True
    server.base_url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def _make_handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

        def do_HEAD(self) -> None:
            self._send_json({}, with_body=False)

        def do_GET(self) -> None:
            if self.path.partition("?")[0].endswith("/models"):
                self._send_json({"object": "list", "data": [{"id": "stub-model", "object": "model"}], "models": []})
            else:
                self._send_unknown()

        def do_POST(self) -> None:
            body = self._read_body()
            path = urlsplit(self.path).path
            try:
                request = json.loads(body)
            except ValueError:
                self._send_unknown()
                return
            if path.endswith("/count_tokens"):
                self._send_json({"input_tokens": parse_prompt("anthropic", request).tokens})
            elif path.endswith(":countTokens"):
                inner = request.get("generateContentRequest", request)
                self._send_json({"totalTokens": parse_prompt("gemini", inner).tokens})
            elif api := find_api(path):
                self._answer(api, path, request, body)
            else:
                self._send_unknown()

        def _answer(self, api: Api, path: str, request: dict[str, Any], body: bytes) -> None:
            prompt = parse_prompt(api, request, _find_model_in_path(path))
            answer = server.answer(api, prompt, path, body)
            if not (prompt.stream or path.endswith(":streamGenerateContent")):
                self._send_json(build_json(api, answer))
                return
            options = request.get("stream_options") or {}
            events = iterate_events(api, answer, bool(options.get("include_usage")))
            lines = list[str]()
            for name, data in events:
                text = data if isinstance(data, str) else json.dumps(data)
                lines.append(f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n")
            self._send(200, "text/event-stream", "".join(lines).encode())

        def _read_body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            chunks = list[bytes]()
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        def _send_unknown(self) -> None:
            with server.lock:
                server.unknown_paths.append(f"{self.command} {self.path}")
            error = {"type": "not_found_error", "message": "the scripted model has no such path", "code": 404}
            self._send(404, "application/json", json.dumps({"type": "error", "error": error}).encode())

        def _send_json(self, document: dict[str, Any], with_body: bool = True) -> None:
            self._send(200, "application/json", json.dumps(document).encode(), with_body)

        def _send(self, status: int, kind: str, body: bytes, with_body: bool = True) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

    return Handler
