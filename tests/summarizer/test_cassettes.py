"""Recorded replies of real servers: each ends in the right result, wherever the network splits it."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from context_tui.summarizer.anthropic import AnthropicDecoder
from context_tui.summarizer.client import summarize
from context_tui.summarizer.decoder import Decoder
from context_tui.summarizer.endpoint import Endpoint
from context_tui.summarizer.failures import CallFailed
from context_tui.summarizer.openai import OpenAIDecoder
from context_tui.summarizer.reply import ReplyEvent, ReplyUsage, Summary
from context_tui.summarizer.request import SummaryRequest

CASSETTES = Path(__file__).parents[1] / "cassettes"
ANTHROPIC = Endpoint("anthropic", "http://localhost:1", "asked")
OPENAI = Endpoint("openai", "http://localhost:1", "asked")
REQUEST = SummaryRequest(None, [{"role": "user", "content": "Summarise."}], [], 1000)


@dataclass
class Cassette:
    """A recorded response; ``broken`` when the connection did not end properly."""

    status: int
    content_type: str
    chunks: list[bytes]
    broken: bool

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


def load(name: str) -> Cassette:
    data: dict[str, Any] = json.loads((CASSETTES / f"{name}.json").read_text("utf-8"))
    chunks = [text.encode() for _, text in data["chunks"]]
    return Cassette(data["status"], data["content_type"], chunks, data["end"] != "clean end of body")


WELCOME = "Welcome to my humble abode of creative ideas! I'm here to assist you with"
# Endpoint, and the text of the summary or the kind of failure with something that its message must tell.
OUTCOMES: dict[str, tuple[Endpoint, str, str]] = {
    "lcpp-badjson": (OPENAI, "server", "500: Internal Server Error"),
    "lcpp-kill": (OPENAI, "disconnected", "broke before the reply was complete"),
    "lcpp-long": (OPENAI, "empty", "returned no text"),
    "lcpp-toolong": (OPENAI, "empty", "may be too long"),
    "lit-chat-dead": (OPENAI, "server", "500: litellm.InternalServerError"),
    "lit-chat-kill9": (OPENAI, "error", "reported an error in its reply: litellm.APIConnectionError"),
    "lit-chat-ok": (OPENAI, "cut", "(length)"),
    "lit-chat-toolong": (OPENAI, "too_long", "5031 tokens, its limit is 2048"),
    "lit-messages-kill9": (ANTHROPIC, "error", "Response payload is not completed"),
    "lit-msg-badkey": (ANTHROPIC, "rejected", "400: No connected db."),
    "lit-msg-claude-dead": (ANTHROPIC, "server", "500: litellm.InternalServerError"),
    "lit-msg-claude-local": (ANTHROPIC, "summary", WELCOME),
    "lit-msg-nokey": (ANTHROPIC, "server", "500: Internal Server Error"),
    "lit-msg-nomax": (ANTHROPIC, "rejected", "Missing required parameter: 'max_tokens'"),
    "lit-msg-nope": (ANTHROPIC, "rejected", "Invalid model name passed in model=nope"),
    "lit-native1": (ANTHROPIC, "cut", "after 24 tokens (max_tokens)"),
    "lit-native2": (ANTHROPIC, "cut", "after 24 tokens (max_tokens)"),
    "lit-native3": (ANTHROPIC, "cut", "after 24 tokens (max_tokens)"),
    "par1": (ANTHROPIC, "cut", "after 150 tokens (max_tokens)"),
    "xl-chat-ctxfull": (OPENAI, "cut", "(length)"),
    "xl-chat-kill15": (OPENAI, "disconnected", "broke before the reply was complete"),
    "xl-chat-kill9": (OPENAI, "disconnected", "broke before the reply was complete"),
    "xl-chat-think": (OPENAI, "summary", "water types. Wet water is often found in"),
    "xl-close": (ANTHROPIC, "cut", "ended before it was complete"),
    "xl-messages-ctxfull": (ANTHROPIC, "cut", "after 481 tokens (max_tokens)"),
    "xl-messages-kill9": (ANTHROPIC, "disconnected", "broke before the reply was complete"),
    "xl-messages-nothink": (ANTHROPIC, "summary", "The word wet can have several meanings,,"),
    "xl-messages-overflow": (ANTHROPIC, "empty", "returned no text"),
    "xl-messages-think60": (ANTHROPIC, "summary", "If you have any other questions or need,"),
    "xl-messages-think8": (ANTHROPIC, "thinking_only", "wrote only thinking and no summary within 8 tokens"),
    "xl-messages-thinktrunc": (ANTHROPIC, "cut", "after 8 tokens (max_tokens)"),
    "xl-ping": (ANTHROPIC, "empty", "returned no text"),
    "xl-ping-oai": (OPENAI, "empty", "returned no text"),
}
STREAMS = [name for name in OUTCOMES if load(name).status == 200]


def played(name: str) -> Summary:
    """What ``summarize`` makes of the cassette."""
    cassette = load(name)

    async def body() -> AsyncIterator[bytes]:
        for chunk in cassette.chunks:
            yield chunk
        if cassette.broken:
            raise httpx.RemoteProtocolError("peer closed connection")

    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(cassette.status, headers={"content-type": cassette.content_type}, content=body())

    return asyncio.run(summarize(OUTCOMES[name][0], REQUEST, transport=httpx.MockTransport(respond)))


def decoded(decoder: Decoder, *chunks: bytes) -> list[ReplyEvent]:
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [*events, *decoder.finish()]


def test_every_cassette_has_an_outcome() -> None:
    assert {path.stem for path in CASSETTES.glob("*.json")} == OUTCOMES.keys()


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome(name: str) -> None:
    _, outcome, words = OUTCOMES[name]
    if outcome == "summary":
        assert played(name).text == words
        return
    with pytest.raises(CallFailed) as caught:
        played(name)
    message = str(caught.value)
    assert (caught.value.kind, words in message) == (outcome, True), message
    assert "\n" not in message
    assert "localhost:1" in message
    assert ";" in message  # a remedy follows


def test_whole_replies_are_read_whole() -> None:
    litellm = played("lit-msg-claude-local")
    assert litellm.usage == ReplyUsage(1, 31, 0, 16)  # the start says 0, the end says the truth
    assert (litellm.model, litellm.stop_reason, litellm.thinking_chars) == ("claude-local", "end_turn", 0)
    thinking = played("xl-messages-nothink")  # its two blocks are open at the same time
    assert (thinking.usage, thinking.thinking_chars) == (ReplyUsage(1, 11, None, 38), 61)
    assert played("xl-chat-think").thinking_chars == 61


def test_what_came_before_a_break_is_kept() -> None:
    for name in ("lcpp-kill", "lit-chat-kill9", "lit-messages-kill9", "xl-chat-kill9", "xl-messages-kill9", "xl-close"):
        with pytest.raises(CallFailed) as caught:
            played(name)
        assert caught.value.partial.startswith(("Once", "In")), name


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["here", "everywhere"])
@pytest.mark.parametrize("name", STREAMS)
def test_splits_change_nothing(name: str, everywhere: bool) -> None:
    body = load(name).body
    make = AnthropicDecoder if OUTCOMES[name][0] is ANTHROPIC else OpenAIDecoder
    expected = decoded(make(), body)
    places = list(range(len(body)))
    if not everywhere or len(body) > 8192:
        places = random.Random(name).sample(places, min(200 if everywhere else 50, len(places)))
    for place in places:
        assert decoded(make(), body[:place], body[place:]) == expected, place
    if len(body) <= 8192:
        assert decoded(make(), *(body[i : i + 1] for i in range(len(body)))) == expected


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_anywhere_is_no_summary(name: str) -> None:
    """Before the event that ends it has come whole, a reply is not taken for a whole one."""
    body = load(name).body
    make = AnthropicDecoder if OUTCOMES[name][0] is ANTHROPIC else OpenAIDecoder
    final = re.search(rb'"finish_reason": ?"' if make is OpenAIDecoder else b"message_stop", body)
    end = final.end() if final else len(body)
    for place in random.Random(name).sample(range(len(body)), min(60, len(body))):
        decoder = make()
        decoded(decoder, body[:place])
        assert place > end or not decoder.complete
        assert decoder.ended
