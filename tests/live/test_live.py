"""Calls of a real model server, in both wire formats: what a mock cannot tell is what a server really does."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from context_tui.policies.builtin import agent_sdk, defect
from context_tui.summarizer.checks.summary_checks import check_summary
from context_tui.summarizer.client import summarize, summarize_with_fallback
from context_tui.summarizer.endpoint import ApiKey, Endpoint
from context_tui.summarizer.failures import CallFailed
from context_tui.summarizer.plan_summary import build_request
from context_tui.summarizer.reply import ReplyEvent, Summary, TextDelta
from context_tui.summarizer.request import SummaryRequest

from .conftest import KEY, LiveServer, StartServer

pytestmark = pytest.mark.live

KINDS: tuple[str, ...] = ("anthropic", "openai")
HEAD: list[dict[str, Any]] = [
    {"role": "user", "content": "Add a retry to the exporter in src/export.py. It is cut here: \ud83d"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Read it first.", "signature": "s"},
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "call|1", "name": "fs.read", "input": {"path": "src/export.py"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call|1", "content": "def export(): ...", "is_error": True}],
    },
    {"role": "assistant", "content": "Done: it tries three times. \U0001f98a\u2028"},
]
SHORT = SummaryRequest(None, [{"role": "user", "content": "Tell me a story."}], [], 100_000)


def endpoint(server: LiveServer, kind: str, **more: Any) -> Endpoint:
    return Endpoint(kind, server.url, "any", **{"key": ApiKey(KEY), "read_timeout": 60.0, **more})


def headings(*names: str) -> str:
    """A grammar that makes every reply these sections, each with one short line, and then ends it."""
    parts = " ".join(f'"## {name}\\n- " [a-z ] [a-z ] [a-z ] [a-z ] "\\n"' for name in names)
    return f"root ::= {parts}"


def call(
    asked: Endpoint, request: SummaryRequest = SHORT, on_event: Callable[[ReplyEvent], None] | None = None
) -> Summary:
    return asyncio.run(asyncio.wait_for(summarize(asked, request, on_event), 120))


def fails(
    asked: Endpoint, request: SummaryRequest = SHORT, on_event: Callable[[ReplyEvent], None] | None = None
) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        call(asked, request, on_event)
    message = str(caught.value)
    assert "\n" not in message
    assert asked.host in message
    assert KEY not in message
    return caught.value


def on_first_text(action: Callable[[], None]) -> Callable[[ReplyEvent], None]:
    """Calls *action* when the first piece of text comes."""
    pending = [action]

    def told(event: ReplyEvent) -> None:
        if isinstance(event, TextDelta) and pending:
            pending.pop()()

    return told


def noting_texts(times: list[float]) -> Callable[[ReplyEvent], None]:
    """Notes when each piece of text comes."""
    return lambda event: times.append(time.monotonic()) if isinstance(event, TextDelta) else None


def cancelled_after(asked: Endpoint, request: SummaryRequest, wait: float | None) -> float:
    """Seconds from cancelling to being back; cancelled after so long, or when the first text comes."""

    async def main() -> float:
        begun = asyncio.Event()
        task = asyncio.create_task(summarize(asked, request, on_first_text(begun.set)))
        if wait is None:
            await asyncio.wait_for(begun.wait(), 60)
        else:
            await asyncio.sleep(wait)
            assert not begun.is_set(), "the prompt was read already"
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        return time.monotonic() - started

    return asyncio.run(main())


def test_a_real_summary_streams(start: StartServer) -> None:
    for prompt in (defect.SUMMARY_PROMPT, agent_sdk.SUMMARY_PROMPT):
        names = prompt.sections
        server = start("--grammar", headings(*names))
        request = build_request(replace(prompt, max_tokens=400), HEAD, "old")
        for kind in KINDS:
            times: list[float] = []
            started = time.monotonic()
            summary = call(endpoint(server, kind), request, noting_texts(times))
            assert len(times) > 20
            assert times[-1] - times[0] > 0.05  # as it is written, not all at the end
            assert summary.seconds <= time.monotonic() - started
            assert summary.stop_reason in ("end_turn", "stop")
            assert summary.usage.context_tokens > 50
            assert (summary.usage.output_tokens or 0) > 20
            assert summary.model
            for result in check_summary(summary.text, HEAD, summary.usage, summary.stop_reason, request.sections, 400):
                assert result.ok or result.name in ("smaller", "no loop"), result


@pytest.mark.parametrize("kind", KINDS)
def test_an_endless_reply_is_cut(endless: LiveServer, kind: str) -> None:
    failed = fails(endpoint(endless, kind))
    assert failed.kind == "cut"
    assert len(failed.partial) > 200


@pytest.mark.parametrize("kind", KINDS)
def test_reaching_the_limit_is_a_cut(endless: LiveServer, kind: str) -> None:
    failed = fails(endpoint(endless, kind), SummaryRequest(None, SHORT.messages, [], 12))
    assert failed.kind == "cut"
    assert 0 < len(failed.partial) < 200


@pytest.mark.parametrize("kind", KINDS)
def test_cancelling_while_it_writes(endless: LiveServer, kind: str) -> None:
    assert cancelled_after(endpoint(endless, kind), SHORT, None) < 1
    # The server is free again: it answers the next one.
    assert fails(endpoint(endless, kind), SummaryRequest(None, SHORT.messages, [], 5)).kind == "cut"


@pytest.mark.parametrize("kind", KINDS)
def test_cancelling_while_it_reads(start: StartServer, kind: str) -> None:
    server = start("--ctx", "2048")
    long = SummaryRequest(None, [{"role": "user", "content": "one two three four " * 440}], [], 50)
    assert cancelled_after(endpoint(server, kind), long, 0.5) < 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_killed_while_it_writes(start: StartServer, kind: str) -> None:
    server = start("--ctx", "512", "--grammar", "root ::= [a-z ] root")
    failed = fails(endpoint(server, kind), SHORT, on_first_text(lambda: server.send(signal.SIGKILL)))
    assert failed.kind == "disconnected"
    assert failed.partial
    assert fails(endpoint(server, kind)).kind == "refused"  # and now nobody is there


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_hangs(start: StartServer, kind: str) -> None:
    server = start("--ctx", "512", "--grammar", "root ::= [a-z ] root")
    started = time.monotonic()
    # In the middle of a reply.
    failed = fails(endpoint(server, kind, read_timeout=1.0), SHORT, on_first_text(lambda: server.send(signal.SIGSTOP)))
    assert failed.kind == "timeout"
    assert "1 s" in str(failed)
    # And before one: the system takes the connection, nobody reads it.
    assert fails(endpoint(server, kind, read_timeout=0.5)).kind == "timeout"
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("kind", KINDS)
def test_keys(plain: LiveServer, kind: str) -> None:
    assert "refused the key (401: Invalid API Key)" in str(fails(endpoint(plain, kind, key=ApiKey("sk-wrong"))))
    assert "requires a key (401: Invalid API Key); set " in str(fails(endpoint(plain, kind, key=None)))
    short = SummaryRequest(None, [{"role": "user", "content": "Say hello."}], [], 400)
    assert call(endpoint(plain, kind), short).text.startswith("Hello ")
    if kind == "anthropic":
        assert call(endpoint(plain, kind, bearer=True), short).text.startswith("Hello ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_that_is_too_long(plain: LiveServer, kind: str) -> None:
    long = SummaryRequest(None, [{"role": "user", "content": "one two three four " * 1250}], [], 50)
    failed = fails(endpoint(plain, kind), long)
    assert failed.kind == "too_long"
    assert "its limit is 2048" in str(failed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_path(plain: LiveServer, kind: str) -> None:
    asked = Endpoint(kind, f"{plain.url}/v9", "any", ApiKey(KEY))
    failed = fails(asked)
    assert failed.kind == "not_found"
    assert "nothing at /v9/" in str(failed)


def test_the_next_endpoint_is_asked(plain: LiveServer) -> None:
    absent = Endpoint("openai", "http://127.0.0.1:9", "absent")
    short = SummaryRequest(None, [{"role": "user", "content": "Say hello."}], [], 400)
    summary = asyncio.run(summarize_with_fallback([absent, endpoint(plain, "openai")], short))
    assert summary.text.startswith("Hello ")
    assert "127.0.0.1:9 refused the connection" in summary.notes[0]
