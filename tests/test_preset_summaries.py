"""The other runtimes' policies that summarise, each held to worked examples derived by hand from its description.

As in ``test_presets.py``: each test says on which facts it rests, and what a description leaves open is not asserted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import context_tui as ct
from context_tui.session.session import Session
from tests.worked_examples import (
    SUMMARY,
    Message,
    checked_range,
    conversation,
    fires,
    left_by,
    messages_gone,
    recorded,
    roles,
    rounds,
    spoke,
    told,
    typed,
    used,
    words_of,
)

# -- summaries of everything


@pytest.mark.parametrize(
    ("end", "kept", "boundary"),
    [
        ((spoke("yes"),), 1, 5),  # the last reply stays
        ((used("y"),), 1, 5),  # and its call with the result
        ((spoke("yes"), typed("go on")), 1, 5),  # and what was typed after it
        ((spoke("yes"),), 0, 6),  # before 2.1.153 nothing
    ],
)
def test_claude_code_auto(end: tuple[list[Message], ...], kept: int, boundary: int) -> None:
    """Claude Code: all goes but the last reply; a user message that says so holds the summary, at the front."""
    session = told(typed(), used("x"), spoke(), typed("and more"), *end)
    left = checked_range(session, ct.plan(session, "claude-code-auto", keep_messages=kept), boundary)
    begin = "This session is being continued from a previous conversation that ran out of context."
    words = words_of(left[0])
    assert left[0]["role"] == "user" and words.startswith(begin) and SUMMARY in words


def test_anthropic_compact() -> None:
    """Anthropic: everything before the compaction block is ignored, the newest message of the user too."""
    session = told(typed(), used("x"), spoke(), typed("and more"))
    left = checked_range(session, ct.plan(session, "anthropic-compact"), 5)
    assert len(left) == 1 and SUMMARY in words_of(left[0])


def test_roo_condense() -> None:
    """Roo Code: all messages are hidden; one user message with the summary is all that the model sees."""
    session = told(typed(), used("x"), spoke(), typed("and more"), spoke("yes"))
    left = checked_range(session, ct.plan(session, "roo-condense"), 6)
    assert roles(left) == ["user"] and SUMMARY in words_of(left[0])
    assert "## Conversation Summary" in words_of(left[0])


@pytest.mark.parametrize("last", [[], spoke("yes"), used("y")])
def test_goose(last: list[Message]) -> None:
    """Goose: everything is summarised; the summary is a user's, a hint how to go on the assistant's, and then the
    latest message of the user that is text only stands again, also in the middle of a tool loop.
    """
    session = told(typed("first"), used("x"), spoke(), typed("latest"), last)
    left = left_by(session, ct.plan(session, "goose"))
    assert roles(left) == ["user", "assistant", "user"]
    assert SUMMARY in words_of(left[0]) and words_of(left[2]) == "latest"


# -- what Codex keeps


def test_codex_keeps_what_users_typed() -> None:
    """Codex: calls, results and replies go; what users typed stays in order; the summary is a user's and comes last."""
    session = told(typed("first"), used("x"), spoke(), typed("second"), used("y"))
    left = left_by(session, ct.plan(session, "codex"))
    assert roles(left) == ["user"] * 3 and [words_of(each) for each in left[:2]] == ["first", "second"]
    words = words_of(left[2])
    assert words.startswith("Another language model started to solve this problem") and words.endswith(SUMMARY)


def test_codex_drops_its_earlier_summary() -> None:
    """Codex: an earlier summary, known by its prefix, is not kept as something that a user typed."""
    session = told(typed("first"), spoke("reply"))
    once = ct.apply(session, ct.plan(session, "codex"), summary="The earlier one.")
    again = ct.apply(once, ct.plan(once, "codex"), summary=SUMMARY).to_messages()
    assert len(again) == 2 and words_of(again[0]) == "first" and not any("earlier one" in words_of(m) for m in again)


@pytest.mark.parametrize(("older", "newer", "left"), [(15_000, 10_000, 10_000), (15_000, 18_000, 2_000)])
def test_codex_keeps_20_000_tokens_of_them(older: int, newer: int, left: int) -> None:
    """Codex: the newest 20,000 tokens (bytes / 4) of these; the text that does not fit is cut in its middle."""
    session = told(typed("o" * 4 * older), spoke(), typed("n" * 4 * newer), spoke())
    first, second, summary = left_by(session, ct.plan(session, "codex"))
    words = words_of(first)
    assert words[0] == words[-1] == "o" and "tokens truncated" in words and SUMMARY in words_of(summary)
    assert abs(len(words) - 4 * left) < 200 and words_of(second) == "n" * 4 * newer


def test_codex_keeps_what_just_fits() -> None:
    """Codex: texts of 20,000 tokens in all stay whole."""
    session = told(typed("o" * 40_000), spoke(), typed("n" * 40_000), spoke())
    left = left_by(session, ct.plan(session, "codex"))
    assert [words_of(each) for each in left[:-1]] == ["o" * 40_000, "n" * 40_000]


def test_codex_stops_at_what_does_not_fit() -> None:
    """Codex: behind the text that is cut nothing older is kept, however small."""
    session = told(typed("small"), spoke(), typed("n" * 100_000), spoke())
    left = left_by(session, ct.plan(session, "codex"))
    assert len(left) == 2 and abs(len(words_of(left[0])) - 80_000) < 200 and "small" not in words_of(left[0])


# -- a summary of the older part


@pytest.mark.parametrize("window", [200_000, 400_000])
def test_opencode_looks_at_what_is_usable(tmp_path: Path, window: int) -> None:
    """opencode: at the usage of the last reply in all, output too, from the window less the model's output on, which
    is 32,000 at most (the same distance in every window).
    """
    first, other = (ct.plan(recorded(tmp_path, 9), "opencode-compact", window=w).trigger for w in (window, 250_000))
    assert first.threshold is not None and other.threshold is not None and first.threshold == window - 32_000
    assert window - first.threshold == 250_000 - other.threshold
    for prompt, output in ((first.threshold, 0), (first.threshold - 8_000, 8_000)):
        assert fires(recorded(tmp_path, prompt, fresh=9, output=output), "opencode-compact", window=window)
        assert not fires(recorded(tmp_path, prompt - 1, fresh=9, output=output), "opencode-compact", window=window)


def test_opencode_compact_may_keep_nothing() -> None:
    """opencode: where not even the last message fits, everything is summarised."""
    session = told(typed(), spoke(), typed(), spoke("y" * 80_000))
    assert ct.plan(session, "opencode-compact", window=200_000).boundary == 4


def continued(session: Session, boundary: int) -> list[Message]:
    """What opencode leaves: before the tail the summary, behind it the request to go on."""
    left = checked_range(session, ct.plan(session, "opencode-compact", window=200_000), boundary)
    kept = session.to_messages()[boundary:]
    begin = left.index(kept[0])
    assert any(SUMMARY in words_of(each) for each in left[:begin]) and left[begin : begin + len(kept)] == kept
    return left[begin + len(kept) :]


def test_opencode_compact_keeps_turns() -> None:
    """opencode: whole turns from the newest while they fit a quarter of the usable tokens, at most 15,000; a synthetic
    message of the user asks to go on.
    """
    session = told(*(part for _ in range(5) for part in (typed(), spoke("y" * 24_000))))  # 6,000 tokens a turn
    ask = continued(session, 6)
    assert roles(ask) == ["user"] and words_of(ask[0]).startswith("Continue if you have next steps")


def test_opencode_compact_splits_the_turn_that_does_not_fit() -> None:
    """opencode: it is cut at the earliest message from which on all fits in what is left of the budget."""
    session = told(typed(), spoke(), typed("long"), rounds(6, 16_000))  # 4,000 tokens a result
    continued(session, 9)  # 3 reply, 4 result, …, 9 the call of the third result from the end


def test_opencode_counts_its_tail_as_json() -> None:
    """opencode: line ends in results are two characters of JSON, so that fewer results fit."""
    plain, lines = (told(typed(), *(used(text * 4_000) for _ in range(12))) for text in ("xx", "x\n"))
    boundaries = [ct.plan(session, "opencode-compact", window=200_000).boundary for session in (plain, lines)]
    assert boundaries == [
        11,
        17,
    ]  # of 25: 7 results of 2,000 tokens, or 4 of 3,000, each with the frames of two messages


def test_gemini_compress() -> None:
    """Gemini CLI: the head ends before the first typed message at or after 70 % of the characters; the summary is the
    user's and the model answers it with a fixed line.
    """
    session = conversation([10_000] * 10)  # the message that begins at 70 % is a reply
    left = checked_range(session, ct.plan(session, "gemini-compress"), 8)
    assert roles(left[:2]) == ["user", "assistant"] and SUMMARY in words_of(left[0])
    assert words_of(left[1]) == "Got it. Thanks for the additional context!" and len(left) == 4


def test_gemini_compress_without_such_a_message() -> None:
    """Gemini CLI: else everything goes, where the last is a reply without calls; else all before the last typed one."""
    whole = told(typed(), spoke(), typed(), spoke("y" * 90_000))
    assert ct.plan(whole, "gemini-compress").boundary == 4
    looping = told(typed(), spoke(), typed(), rounds(1, 90_000))
    assert ct.plan(looping, "gemini-compress").boundary == 2
    assert not ct.plan(told(typed(), rounds(2, 9_000)), "gemini-compress").has_changes, "the only one is the first"


@pytest.mark.parametrize(("keep", "boundary"), [(1, 7), (2, 5), (3, 5), (4, 5), (5, 4), (6, 3)])
def test_langchain_counts_each_result_as_a_message(keep: int, boundary: int) -> None:
    """``SummarizationMiddleware`` counts the messages of LangChain, and goes back from a result to its call."""
    session = told(typed(), used("a"), typed("next"), spoke(), used("b", "c"), spoke())
    assert [len(message["content"]) for message in session.to_messages()] == [1, 1, 1, 1, 1, 2, 2, 1]
    plan = ct.plan(session, "langchain-summarize", trigger_tokens=1, keep_messages=keep)
    assert plan.boundary == boundary


def test_langchain_summarize() -> None:
    """LangChain: by default it never fires and keeps 20 messages; a cut at a result goes back to its call; the summary
    is the user's, at the front.
    """
    session = told(typed(), rounds(14, 100), spoke())  # 30 messages; the 20th from the end is a result
    left = checked_range(session, ct.plan(session, "langchain-summarize"), 9)
    words = words_of(left[0])
    assert left[0]["role"] == "user" and words.startswith("Here is a summary of the conversation to date:")
    assert SUMMARY in words
    assert ct.plan(conversation([9] * 30), "langchain-summarize").boundary == 10
    assert not ct.plan(conversation([9] * 20), "langchain-summarize").has_changes
    assert not fires(conversation([4_000_000] * 4), "langchain-summarize", window=200_000)


@pytest.mark.parametrize(
    ("size", "idle", "acts"), [(200_000, 3_240, True), (200_000, 3_239, False), (199_999, 9_000, False)]
)
def test_claude_code_idle(size: int, idle: int, acts: bool) -> None:
    """Claude Code 2.1.332: nine tenths of an hour after the last request, if 200,000 tokens are in the context."""
    session = conversation([4 * 1_000] * (size // 1_000 - 1) + [4 * (size % 1_000 + 1_000)])
    assert ct.plan(session, "claude-code-idle", window=1_000_000, idle_seconds=idle).trigger.fires == acts


def test_deepagents() -> None:
    """deepagents: the newest messages that fit 0.10 of the window are kept; six where no window is known."""
    session = conversation([8_000] * 12)  # 2,005 tokens at 4 characters each, 2,429 at 3.3
    left = checked_range(session, ct.plan(session, "deepagents", window=100_000), 8)
    assert len(left) == 5 and SUMMARY in words_of(left[0])
    assert ct.plan(session, "deepagents").boundary == 6


def test_deepagents_cuts_no_pair() -> None:
    """deepagents: a cut at a result goes back to its call."""
    session = told(typed(), *(used("x" * 400) for _ in range(6)), typed())
    assert session.to_messages()[8]["content"][0]["type"] == "tool_result"
    assert ct.plan(session, "deepagents").boundary == 7


@pytest.mark.parametrize(("messages", "acts"), [(80, False), (81, True)])
def test_openhands_condenser(messages: int, acts: bool) -> None:
    """OpenHands: above 80 events, of which the first four stay and half of 80 less these and the summary at the end;
    the summary is the user's and stands behind the first four.
    """
    session = conversation([10] * messages)
    plan = ct.plan(session, "openhands-condenser")
    assert plan.trigger.fires == acts
    if acts:
        left, before = left_by(session, plan), session.to_messages()
        assert messages_gone(plan) == list(range(4, 46)) and plan.boundary == 46
        assert left[:4] == before[:4] and left[5:] == before[46:] and len(left) == 40
        assert left[4]["role"] == "user" and SUMMARY in words_of(left[4])


def test_openhands_condenser_splits_no_pair() -> None:
    """OpenHands: both ends of what is forgotten move on to where no call is parted from its observation."""
    session = told(typed(), rounds(40, 10))  # 81 events; 4 and 46 are results
    plan = ct.plan(session, "openhands-condenser")
    assert plan.trigger.fires and messages_gone(plan) == list(range(5, 47))
    left, before = left_by(session, plan), session.to_messages()
    assert left[:5] == before[:5] and SUMMARY in words_of(left[5]) and left[6:] == before[47:]


def test_cline() -> None:
    """Cline: at 0.9 of 0.9 of the window by its own count, JSON characters / 3 rounded up for each message."""
    for tokens in (79_000, 83_000):
        session = conversation([3 * tokens - 20_000 * 3, *[3 * 5_000] * 4])
        assert fires(session, "cline", window=100_000) == (tokens == 83_000)


def test_cline_keeps_20_000_tokens() -> None:
    """Cline: the newest messages with at least 20,000 tokens in all, never beginning behind the latest typed prompt,
    and at a reply or a prompt, never at a result.
    """
    session = conversation([30_000] * 10)  # a little more than 10,000 tokens each
    left = checked_range(session, ct.plan(session, "cline", window=100_000), 8)
    assert SUMMARY in words_of(left[0])
    prompt_before = told(typed(), spoke(), typed(), rounds(8, 15_000))
    assert ct.plan(prompt_before, "cline", window=200_000).boundary == 2
    only_prompt_first = told(typed(), rounds(8, 15_000))  # result 10 is the fourth from the end
    assert ct.plan(only_prompt_first, "cline", window=200_000).boundary == 9


@pytest.mark.parametrize(("messages", "hidden"), [(12, 4), (13, 6), (15, 6), (3, 0)])
def test_roo_truncate(messages: int, hidden: int) -> None:
    """Roo Code: half of the messages behind the first go, rounded down to an even number; a marker says how many."""
    session = conversation([10] * messages)
    plan = ct.plan(session, "roo-truncate")
    assert messages_gone(plan) == list(range(1, 1 + hidden)) and not plan.needs_summary
    if hidden:
        left, before = ct.apply(session, plan).to_messages(), session.to_messages()
        marker = f"[Sliding window truncation: {hidden} messages hidden to reduce context]"
        assert left[0] == before[0] and words_of(left[1]) == marker and left[2:] == before[1 + hidden :]


def test_pi() -> None:
    """pi: the newest messages with at least 20,000 tokens (characters / 4, rounded up) are kept; the summary is the
    user's, within ``<summary>``.
    """
    session = conversation([40_000] * 10)  # 10,000 tokens each: two are enough
    left = checked_range(session, ct.plan(session, "pi"), 8)
    assert left[0]["role"] == "user" and "<summary>" in words_of(left[0]) and SUMMARY in words_of(left[0])
    smaller = conversation([40_000] * 9 + [39_996])
    assert ct.plan(smaller, "pi").boundary == 7, "19,999 are not, and a cut at a reply is possible"


def test_pi_never_begins_with_a_result() -> None:
    """pi: where a result has the count reach 20,000, the tail begins at the next prompt or reply behind it."""
    session = told(typed(), used("x" * 400), used("x" * 100_000), used("x" * 400), spoke())
    assert ct.plan(session, "pi").boundary == 5


@pytest.mark.parametrize(("size", "boundary"), [(400, 7), (42_000, 15)])
def test_letta(size: int, boundary: int) -> None:
    """Letta: 40 % of the messages, a tenth more until less than 0.7 of the window is left; then back to a reply.

    Of 20 messages that is at the eighth, or, with 10,500 tokens each in a window of 100,000, at the sixteenth.
    """
    session = conversation([size] * 20)
    left = checked_range(session, ct.plan(session, "letta", window=100_000), boundary)
    assert any(SUMMARY in words_of(each) for each in left[: len(left) - (20 - boundary)])


def test_letta_falls_back_to_everything() -> None:
    """Letta: where no share leaves less than 0.7 of the window, the whole history is summarised."""
    session = conversation([400] * 19 + [400_000])
    assert ct.plan(session, "letta", window=100_000).boundary == 20


def test_hermes() -> None:
    """Hermes: the first three messages and a tail are kept; the middle becomes a summary that is for reference only."""
    session = conversation([20_000] * 30)
    plan = ct.plan(session, "hermes", window=200_000)
    left, before = left_by(session, plan), session.to_messages()
    gone = messages_gone(plan)
    assert plan.boundary is not None and gone == list(range(3, plan.boundary)) and 3 < plan.boundary <= 27
    assert left[:3] == before[:3] and left[-3:] == before[-3:]
    assert SUMMARY in words_of(left[3]) and "REFERENCE ONLY" in words_of(left[3])


@pytest.mark.parametrize(
    ("window", "sizes", "acts"),
    [
        (128_000, [4_000] * 7, False),  # a sixteenth of the window: 8,000
        (128_000, [4_000] * 9, True),
        (1_000_000, [4_000] * 8, False),  # at most 8,192
        (1_000_000, [4_000] * 9, True),
        (8_000, [3_600], False),  # at least 1,024
        (8_000, [4_800], True),
    ],
)
def test_aider_has_a_limit_for_the_history(window: int, sizes: list[int], acts: bool) -> None:
    """Aider: it summarises above a sixteenth of the window, at least 1,024 and at most 8,192 tokens."""
    assert fires(conversation(sizes), "aider", window=window) == acts


def test_aider() -> None:
    """Aider: the newest messages below half the limit are kept, and more until what goes ends with a reply."""
    session = conversation([4_000] * 10)  # limit 8,000: three are below 4,000, and the fourth from the end is a prompt
    left = checked_range(session, ct.plan(session, "aider", window=128_000), 6)
    assert left[0]["role"] == "user" and SUMMARY in words_of(left[0])


def test_aider_summarises_a_short_history_whole() -> None:
    """Aider: of four messages or fewer nothing is kept; an assistant's "Ok." follows the summary."""
    session = conversation([12_000] * 4)
    left = checked_range(session, ct.plan(session, "aider", window=128_000), 4)
    assert roles(left) == ["user", "assistant"] and SUMMARY in words_of(left[0]) and words_of(left[1]) == "Ok."


def test_aider_summarises_whole_where_little_would_go() -> None:
    """Aider: so it does where the head would have four messages or fewer."""
    session = conversation([8_000] * 6)  # one is below 4,000 tokens, and the head ends with the reply before it
    assert ct.plan(session, "aider", window=128_000).boundary == 6
