"""The policies of other runtimes, each held to worked examples that were derived by hand from its description.

The descriptions are of the runtimes' own sources and documents, as of 2026; each test says in its docstring on which
facts it rests. What a description leaves open is not asserted. What summaries leave is in ``test_preset_summaries.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import context_tui as ct
from context_tui.compaction.tool_pairing import compare_orphans
from context_tui.session.session import Session
from tests.formats.recordings import Recording, text
from tests.worked_examples import (
    SUMMARY,
    Message,
    bodies_changed,
    body,
    checked_range,
    conversation,
    fires,
    left_by,
    recorded,
    roles,
    rounds,
    spoke,
    told,
    typed,
    used,
    words_of,
)

OLD_RESULT = "[Old tool result content cleared]"
"""What koda, Claude Code and opencode put in place of a result."""


NAMES = (
    "none defect koda agent-sdk claude-code-auto claude-code-micro claude-code-micro-by-size anthropic-clear-tool-uses "
    "anthropic-compact codex opencode-prune opencode-compact gemini-compress gemini-masking langchain-clear "
    "langchain-summarize deepagents openhands-masking openhands-condenser swe-agent-last-n cline roo-condense "
    "roo-truncate goose crush pi letta hermes aider claude-code-idle agent-framework"
).split()
"""Every one that there is, besides the seven older policies."""


@pytest.mark.parametrize("name", NAMES)
def test_it_parts_no_call_from_its_result(name: str) -> None:
    """At any point of a session with parallel calls. koda parts them by its own account, and drops the halves when it
    loads them; Aider has no tools.
    """
    turns = [part for _ in range(6) for part in (typed(), used("x" * 9_000, "y" * 90_000), rounds(3, 40_000), spoke())]
    session = told(*turns)
    for at in (0, 3, 9, 10, 13, 15, 21, 29, 33, 40, 41, 57, 59, 60):  # none between a call and its result
        plan = ct.plan(session, name, at=at, window=200_000, idle_seconds=3_600)
        before = session.messages_in(plan.context)
        after = left_by(session, plan) if plan.has_changes else before
        assert name in ("koda", "aider") or compare_orphans(before, after)[1] == [], at
        assert plan.has_changes == bool(plan.edits) != bool(plan.reason), at


# -- when they act, by what is recorded


@pytest.mark.parametrize(
    ("policy", "window", "first"),
    [
        ("defect", 200_000, 120_000),  # its lowest tier: at least 0.60 of the window
        ("claude-code-auto", 200_000, 167_000),  # at least the window less 20,000 for output less 13,000
        ("claude-code-auto", 1_000_000, 967_000),
        ("claude-code-micro-by-size", 200_000, 135_000),  # 20,000 before its compaction at the window less 45,000
        ("anthropic-clear-tool-uses", 200_000, 100_001),  # above 100,000 whatever the window
        ("anthropic-clear-tool-uses", 1_000_000, 100_001),
        ("anthropic-compact", 200_000, 150_001),  # above 150,000 whatever the window
        ("anthropic-compact", 1_000_000, 150_001),
        ("codex", 272_000, 244_800),  # at least floor(window * 9 / 10)
        ("codex", 272_005, 244_804),
        ("deepagents", 200_000, 170_000),  # at least 0.85 of a known window
        ("gemini-compress", 1_048_576, 524_288),  # at least half the window
        ("goose", 200_000, 160_001),  # above 0.8 of the window
        ("crush", 200_000, 160_000),  # at least four fifths of a window up to 200,000
        ("crush", 400_000, 380_000),  # at least a larger window less 20,000
        ("pi", 200_000, 183_617),  # above the window less 16,384
    ],
)
def test_the_recorded_size_at_which_it_fires(tmp_path: Path, policy: str, window: int, first: int) -> None:
    """Cached tokens count in all of these; a token less and nothing fires."""
    assert fires(recorded(tmp_path, first, fresh=3), policy, window=window)
    assert not fires(recorded(tmp_path, first - 1, fresh=3), policy, window=window)


@pytest.mark.parametrize(
    ("policy", "prompt", "output"),
    [
        ("claude-code-auto", 160_000, 7_000),
        ("codex", 170_000, 10_000),
        ("crush", 150_000, 10_000),
        ("pi", 180_000, 3_617),
    ],
)
def test_output_of_the_last_reply_counts(tmp_path: Path, policy: str, prompt: int, output: int) -> None:
    """Claude Code, Codex, crush and pi take the usage of the last reply in all."""
    assert fires(recorded(tmp_path, prompt, output=output), policy, window=200_000)
    assert not fires(recorded(tmp_path, prompt, output=output - 1), policy, window=200_000)


def test_a_rule_for_other_windows_is_neither_named_nor_its_limit_taken(tmp_path: Path) -> None:
    for policy, window, limit in (
        ("crush", 200_000, 160_000),
        ("crush", 400_000, 380_000),
        ("hermes", 200_000, 150_000),
    ):
        trigger = ct.plan(recorded(tmp_path, 10_000), policy, window=window).trigger
        assert trigger.threshold == limit and "other context windows" not in trigger.reason


def test_output_of_the_last_reply_does_not_count(tmp_path: Path) -> None:
    """Gemini CLI looks at the last prompt's count only; defect's baseline is input and both cache fields."""
    assert not fires(recorded(tmp_path, 99_999, output=50_000), "gemini-compress", window=200_000)
    assert not fires(recorded(tmp_path, 119_999, output=50_000), "defect", window=200_000)


@pytest.mark.parametrize(
    ("policy", "window", "quiet", "fire"),
    [
        ("hermes", 200_000, 147_000, 153_000),  # half the window, but 0.75 where the window is below 512,000
        ("hermes", 1_000_000, 490_000, 510_000),
        ("letta", 100_000, 70_000, 110_000),  # what overflows the window; its estimate has a margin
        ("roo-condense", 200_000, 171_600, 172_000),  # above 0.9 of the window less 8,192
        ("roo-truncate", 200_000, 171_600, 172_000),
    ],
)
def test_about_where_it_fires(tmp_path: Path, policy: str, window: int, quiet: int, fire: int) -> None:
    """Estimators that cannot be told exactly: recorded and estimated sizes agree here, and stay clear of the limit."""
    for tokens in (quiet, fire):
        session = recorded(tmp_path, tokens, typed("x" * 4 * tokens), spoke(""))
        estimate = ct.tokens.estimate(session)
        assert estimate == tokens
        assert fires(session, policy, window=window) == (tokens == fire)


def test_none() -> None:
    """The full context, whatever its size."""
    session = conversation([400_000] * 10)
    plan = ct.plan(session, "none", window=1_000)
    assert not plan.trigger.fires and not plan.has_changes and plan.reason and ct.apply(session, plan) is session


# -- ladders


def defect_turns(number: int) -> list[list[Message]]:
    """Turns with one result of 2,052 bytes each: 513 tokens."""
    return [part for _ in range(number) for part in (typed("a turn"), used("x" * 2_052))]


def test_defect_clears_first_and_reads_its_estimate_anew(tmp_path: Path) -> None:
    """defect: results above 512 tokens (bytes / 4, floored) before the third-newest turn start, at 0.60 of the window.

    After that its baseline is forgotten: what it believes is the sum of its estimates, far below 0.70, so that nothing
    is summarised although the recorded size was above 0.85.
    """
    session = recorded(tmp_path, 190_000, typed("a turn"), used("x" * 2_051, "x" * 2_052), *defect_turns(4), spoke(""))
    plan = ct.plan(session, "defect", window=200_000)
    assert plan.trigger.fires and bodies_changed(plan) == [(2, 1), (5, 0)] and plan.boundary is None
    left = left_by(session, plan)
    marker = "[tool output cleared to save context — re-run the tool if its result is needed again]"
    assert body(left, (2, 1)) == body(left, (5, 0)) == marker and body(left, (8, 0)) == "x" * 2_052
    assert bodies_changed(ct.plan(ct.apply(session, plan), "defect", window=200_000)) == []


@pytest.mark.parametrize(
    ("tokens", "summarises"), [(139_999, False), (140_000, True), (169_999, True), (170_000, True)]
)
def test_defect_summarises_where_there_is_nothing_to_clear(tmp_path: Path, tokens: int, summarises: bool) -> None:
    """defect: at 0.70 of the window in the background, at 0.85 at once; the tail is whole turns of 8,000 tokens in all.

    The newest turn has 5,000 tokens here and the one before about as many; the summary is an assistant's, in front.
    """
    turn = (typed("x" * 400), spoke("y" * 18_400))
    session = recorded(tmp_path, tokens - 4_600, typed("first"), spoke("reply"), *turn, *turn)
    assert ct.tokens.estimate(session) == 2 * 4_700 + 2, "the last reply counts as appended: 4,600 tokens"
    plan = ct.plan(session, "defect", window=200_000)
    assert plan.trigger.fires, "its first tier does, at 120,000"
    if not summarises:
        assert not plan.has_changes
        return
    left = checked_range(session, plan, 4)
    prefix = "[Compacted context summary — earlier conversation was condensed to save context.]\n"
    assert roles(left) == ["assistant", "user", "assistant"] and words_of(left[0]) == prefix + SUMMARY


def test_koda_clears_when_idle() -> None:
    """koda: idle for 300 s; of re-runnable tools' results of at least 50 tokens (175 bytes) all but the newest five.

    Small results and those of other tools use up no place among the five.
    """
    sizes = [175, 174, 175, 175, 175, 175, 60, 175, 175]
    session = told(typed(), *(used("x" * size) for size in sizes), used("x" * 900, tool="Edit"), spoke())
    plan = ct.plan(session, "koda", idle_seconds=300)
    assert plan.trigger.fires and bodies_changed(plan) == [(2, 0), (6, 0)]
    assert body(left_by(session, plan), (2, 0)) == OLD_RESULT
    assert not ct.plan(ct.apply(session, plan), "koda", idle_seconds=300).has_changes
    assert not ct.plan(session, "koda", idle_seconds=299).trigger.fires


@pytest.mark.parametrize(("messages", "window", "first_kept"), [(12, 14_258, 6), (11, 13_070, 7), (15, 17_823, 7)])
def test_koda_summarises_the_older_half(messages: int, window: int, first_kept: int) -> None:
    """koda: floor(bytes / 3.5) + 10 a message, integer percent at least 85; of fewer than 12 messages the newest 4 are
    kept, else half of them, rounded up; the summary lands behind what is kept, and an assistant's hint behind it.
    """
    session = conversation([3_500] * messages)  # 1,010 tokens each
    quiet, plan = (ct.plan(session, "koda", window=size, idle_seconds=0) for size in (window + 1, window))
    assert not quiet.trigger.fires and plan.trigger.fires
    left = checked_range(session, plan, first_kept)
    assert left[: messages - first_kept] == session.to_messages()[first_kept:]
    summary, hint = left[messages - first_kept :]
    assert words_of(summary) == f"[Compacted conversation summary]\n\n{SUMMARY}" and hint["role"] == "assistant"


def sdk_session(folder: Path, tokens: int, fresh: int | None = None) -> Session:
    """Three results of 5,000 characters; the last four messages begin behind the second of them."""
    return recorded(folder, tokens, typed(), *(used("y" * 5_000) for _ in range(3)), spoke(""), typed(), fresh=fresh)


@pytest.mark.parametrize(("tokens", "prunes"), [(112_000, False), (112_001, True), (160_000, True)])
def test_agent_sdk_prunes(tmp_path: Path, tokens: int, prunes: bool) -> None:
    """agent-sdk: above 70 % of 160,000 input tokens; of results whose JSON is longer than 2,000 bytes the first 500 and
    the last 200 bytes of it are left, but for those of the last four messages.
    """
    session = sdk_session(tmp_path, tokens)
    plan = ct.plan(session, "agent-sdk")
    assert plan.trigger.fires == prunes
    if prunes:
        assert bodies_changed(plan) == [(2, 0), (4, 0)] and plan.boundary is None
        pruned = '"' + "y" * 499 + "\n\n[...4302 chars pruned...]\n\n" + "y" * 199 + '"'
        assert body(left_by(session, plan), (4, 0)) == pruned


@pytest.mark.parametrize(("last", "boundary"), [([*spoke(""), *typed()], 5), (spoke(""), 3)])
def test_agent_sdk_summarises(tmp_path: Path, last: list[Message], boundary: int) -> None:
    """agent-sdk: above 160,000 too it summarises all but the last four messages, moved back so that no pair is split.

    The last four begin with the third result's call, or with the second result; the summary is a user's, in front.
    """
    session = recorded(tmp_path, 160_001, typed(), *(used("y" * 5_000) for _ in range(3)), last)
    left = checked_range(session, ct.plan(session, "agent-sdk"), boundary)
    words = f"[Previous conversation summary]\n{SUMMARY}\n[End of summary — conversation continues below]"
    assert left[0]["role"] == "user" and words_of(left[0]) == words


def test_agent_sdk_is_blind_to_the_cache(tmp_path: Path) -> None:
    """agent-sdk: only uncached input tokens are compared, however much was read from the cache."""
    assert not fires(sdk_session(tmp_path, 190_000, fresh=2_000), "agent-sdk")


# -- clearing


def test_claude_code_micro() -> None:
    """Claude Code: an hour since the last reply; of eight tools' results, whatever their size, all but the newest five.

    Other tools' results stay and use up no place among the five.
    """
    tools = ["Read", "Edit", "Write", "Task", "Grep", "Glob", "WebSearch", "WebFetch", "Bash"]
    session = told(typed(), *(used("done", tool=tool) for tool in tools), spoke())
    plan = ct.plan(session, "claude-code-micro", idle_seconds=3_600)
    assert plan.trigger.fires and bodies_changed(plan) == [(2, 0), (4, 0), (6, 0)] and plan.boundary is None
    assert body(left_by(session, plan), (2, 0)) == OLD_RESULT
    assert not ct.plan(session, "claude-code-micro", idle_seconds=3_599).trigger.fires


def test_claude_code_micro_by_size() -> None:
    """Claude Code to 2.1.20: the newest 40,000 tokens of eight tools' results stay, and at least three of them; what
    crosses that line goes with all that is older, where it is at least 20,000 tokens.
    """
    others = used("x" * 400_000, tool="Task")
    session = told(typed(), rounds(2, 40_000), others, rounds(4, 40_000), spoke())
    plan = ct.plan(session, "claude-code-micro-by-size")
    assert bodies_changed(plan) == [(2, 0), (4, 0)] and plan.tokens_before - plan.tokens_after == 20_000 - 2 * 8
    assert body(left_by(session, plan), (2, 0)) == OLD_RESULT
    less = told(typed(), used("x" * 39_996), rounds(5, 40_000), spoke())
    assert "19,999 tokens would be cleared" in ct.plan(less, "claude-code-micro-by-size").reason
    large = told(typed(), rounds(6, 100_000), spoke())
    assert bodies_changed(ct.plan(large, "claude-code-micro-by-size")) == [(2, 0), (4, 0), (6, 0)]


@pytest.mark.parametrize(("clock", "acts"), [("01:00:02", True), ("01:00:01", False)])
def test_claude_code_micro_goes_by_the_recorded_times(tmp_path: Path, clock: str, acts: bool) -> None:
    """Claude Code: the gap is counted from the last assistant message, here recorded two seconds after midnight."""
    recording = Recording()
    recording.user("do it")
    recording.assistant(text("done"), timestamp="2026-01-01T00:00:02.000Z")
    recording.user("go on", timestamp=f"2026-01-01T{clock}.000Z")
    assert ct.plan(recording.open(tmp_path), "claude-code-micro", at=2).trigger.fires == acts


def test_anthropic_clear_tool_uses() -> None:
    """Anthropic: all but the newest three tool uses, which are counted one by one where calls are parallel; all tools,
    all sizes; the inputs of the calls stay, and no text of the conversation is touched.
    """
    session = told(typed(), used("a", tool="Task"), used("b", "c", "d", "e", path="x"), spoke())
    plan = ct.plan(session, "anthropic-clear-tool-uses")
    assert bodies_changed(plan) == [(2, 0), (4, 0)] and plan.boundary is None
    left, before = left_by(session, plan), session.to_messages()
    assert body(left, (2, 0)) != "a" and [body(left, (4, number)) for number in (1, 2, 3)] == ["c", "d", "e"]
    assert [left[number] for number in (0, 1, 3, 5)] == [before[number] for number in (0, 1, 3, 5)]
    assert not ct.plan(told(typed(), used("a", "b", "c")), "anthropic-clear-tool-uses").has_changes


def test_langchain_clear() -> None:
    """LangChain: all results but the newest three, of any tool and size, become ``[cleared]``; arguments stay.

    ``clear_at_least`` is 0, which clears all there are; what is cleared is not cleared again.
    """
    session = told(typed(), *(used(letter, tool="Edit", path="x") for letter in "abcde"), spoke())
    plan = ct.plan(session, "langchain-clear")
    assert bodies_changed(plan) == [(2, 0), (4, 0)]
    left, before = left_by(session, plan), session.to_messages()
    assert body(left, (2, 0)) == body(left, (4, 0)) == "[cleared]" and body(left, (6, 0)) == "c"
    assert left[0::2][3:] == before[0::2][3:] and left[1::2] == before[1::2]
    assert not ct.plan(ct.apply(session, plan), "langchain-clear").has_changes


def test_agent_framework_shortens_then_drops() -> None:
    """Microsoft Agent Framework: of a window of 100,000, 83,616 are for the input. Above half of it, results but the
    newest four are cut to 4,096 characters; above four fifths, the oldest messages go until half of it is left.
    """
    small, large = told(typed(), rounds(10, 16_000)), told(typed(), rounds(11, 16_000))  # 4,000 tokens each, and calls
    assert not fires(small, "agent-framework", window=100_000) and fires(large, "agent-framework", window=100_000)
    plan = ct.plan(large, "agent-framework", window=100_000)
    left = left_by(large, plan)
    shortened = [body(left, place) for place in bodies_changed(plan)]
    assert len(shortened) == 7 and {len(each) for each in shortened} == {4_096}
    assert not plan.dropped_ranges
    plan = ct.plan(conversation([4_000] * 100), "agent-framework", window=100_000)  # 1,000 tokens each
    assert not plan.changes and plan.dropped_ranges == (range(59),)


def test_langchain_counts_what_there_is() -> None:
    """LangChain: it clears above 100,000 tokens: characters / 4 rounded up for each message, and 3 more."""
    size = 399_000
    value = ct.plan(conversation([size]), "langchain-clear").trigger.value
    assert value is not None and 0 <= value - (size // 4 + 3) <= 3, "the role may count"
    size += 4 * (100_000 - value)
    assert not fires(conversation([size]), "langchain-clear") and fires(conversation([size + 4]), "langchain-clear")
    two = [size // 8 * 4, size - size // 8 * 4]
    assert fires(conversation(two), "langchain-clear"), "the same characters in two messages count 3 more"


def opencode_session(*old: list[Message], newest: int = 40_000) -> Session:
    """A turn of *old*, and two more with a result each, the newest of *newest* characters."""
    return told(typed("old"), *old, typed("b"), used("x" * 40_000), spoke(), typed("c"), used("x" * newest), spoke())


def test_opencode_prune() -> None:
    """opencode: behind the newest two user turns, whose results count for nothing, the newest 40,000 tokens
    (characters / 4) stay; what crosses that line goes, and all before it.
    """
    session = opencode_session(rounds(7, 40_000), newest=400_000)
    plan = ct.plan(session, "opencode-prune")
    assert bodies_changed(plan) == [(2, 0), (4, 0), (6, 0)], "four results of 10,000 tokens are not above 40,000"
    assert body(left_by(session, plan), (6, 0)) == OLD_RESULT
    crossing = opencode_session(used("x" * 100_000), used("x" * 120_000))
    assert bodies_changed(ct.plan(crossing, "opencode-prune")) == [(2, 0)]


def test_opencode_prunes_above_20_000_tokens() -> None:
    """opencode: nothing is pruned unless that is more than 20,000 tokens in all."""
    assert not ct.plan(opencode_session(rounds(6, 40_000)), "opencode-prune").has_changes, "two results of 10,000"
    slightly_more = opencode_session(used("x" * 40_004), rounds(5, 40_000))
    assert bodies_changed(ct.plan(slightly_more, "opencode-prune")) == [(2, 0), (4, 0)]


def test_opencode_leaves_skills_and_what_is_pruned() -> None:
    """opencode: results of the tool ``skill`` neither go nor count; from a pruned result on nothing older is looked at,
    so that pruning twice changes nothing.
    """
    session = opencode_session(rounds(3, 40_000), rounds(1, 100_000, "skill"), rounds(4, 40_000))
    plan = ct.plan(session, "opencode-prune")
    assert bodies_changed(plan) == [(2, 0), (4, 0), (6, 0)]
    assert not ct.plan(ct.apply(session, plan), "opencode-prune").has_changes


def test_gemini_masking() -> None:
    """Gemini CLI: the newest 50,000 tokens of results stay, and the newest message; what crosses that line goes with
    all that is older, where it is at least 30,000 tokens; 250 characters of either end remain as a preview.
    """
    long = "h" * 300 + "x" * 47_400 + "t" * 300  # 12,000 tokens
    session = told(typed(), *(used(long) for _ in range(7)), spoke())
    plan = ct.plan(session, "gemini-masking")
    assert bodies_changed(plan) == [(2, 0), (4, 0), (6, 0)] and plan.boundary is None
    masked = body(left_by(session, plan), (6, 0))
    assert "<tool_output_masked>" in masked and len(masked) < 2_000
    assert all(letter * 250 in masked and letter * 251 not in masked for letter in "ht")
    assert not ct.plan(ct.apply(session, plan), "gemini-masking").has_changes
    assert not ct.plan(told(typed(), rounds(6, 48_000), spoke()), "gemini-masking").has_changes, "24,000 tokens"
    newest = told(typed(), *(used(long) for _ in range(7)))
    assert not ct.plan(newest, "gemini-masking").has_changes, "the newest message does not count towards 50,000"


@pytest.mark.parametrize(("last", "masked"), [([], [(2, 0)]), (spoke(), [(2, 0), (4, 0)])])
def test_openhands_masking(last: list[Message], masked: list[tuple[int, int]]) -> None:
    """OpenHands: always; observations that are not among the last five events (calls, results and texts) are masked."""
    session = told(typed(), *(used(letter) for letter in "abcd"), last)
    plan = ct.plan(session, "openhands-masking")
    assert plan.trigger.fires and bodies_changed(plan) == masked and plan.boundary is None
    left, before = left_by(session, plan), session.to_messages()
    assert body(left, (2, 0)) == "<MASKED>" and left[0] == before[0] and left[1::2] == before[1::2]


@pytest.mark.parametrize(("results", "masked"), [(5, 0), (6, 1), (9, 4)])
def test_swe_agent_last_n(results: int, masked: int) -> None:
    """SWE-agent: always; all observations but the last five and the first, which is the task: its lines are counted."""
    session = told(typed("the task"), *(used("one\ntwo\nthree", tool="Edit") for _ in range(results)), spoke())
    plan = ct.plan(session, "swe-agent-last-n")
    assert plan.trigger.fires and bodies_changed(plan) == [(2 + 2 * number, 0) for number in range(masked)]
    left = session.to_messages() if not plan.has_changes else left_by(session, plan)
    assert words_of(left[0]) == "the task"
    for number in range(masked):
        assert body(left, (2 + 2 * number, 0)) == "Old environment output: (3 lines omitted)"
