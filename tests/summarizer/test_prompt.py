"""The two summary requests: everything the systems ask for is in them, and the transcript is exact."""

from __future__ import annotations

import re
from typing import Any

from context_tui.policies.builtin import agent_sdk, defect
from context_tui.policies.builtin.agent_sdk import format_transcript
from context_tui.summarizer.plan_summary import build_request

DEFECT_SECTIONS, SDK_SECTIONS = defect.SUMMARY_SECTIONS, agent_sdk.SUMMARY_SECTIONS

HEAD: list[dict[str, Any]] = [
    {"role": "user", "content": "Fix it."},
    {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
]


def defect_request(head: list[dict[str, Any]], previous: str | None, tools: list[dict[str, Any]]) -> Any:
    return build_request(defect.SUMMARY_PROMPT, head, previous, tools)


def agent_sdk_request(head: list[dict[str, Any]]) -> Any:
    return build_request(agent_sdk.SUMMARY_PROMPT, head, None, [{"name": "Read"}])


def prompt_of(request: Any) -> str:
    return str(request.messages[-1]["content"][0]["text"])


def test_defect_request_adds_one_user_message() -> None:
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    request = defect_request(HEAD, None, tools)
    assert request.messages[:-1] == HEAD
    assert request.messages[-1]["role"] == "user"
    assert (request.tools, request.max_tokens, request.sections) == (tools, 8192, DEFECT_SECTIONS)
    assert len(HEAD) == 2  # untouched


def test_defect_asks_for_its_sections_in_order() -> None:
    headings = re.findall(r"^#+ (.+)$", prompt_of(defect_request(HEAD, None, [])), re.MULTILINE)
    assert headings == [
        "Goal",
        "Constraints & Preferences",
        "Progress",
        "Done",
        "In Progress",
        "Blocked",
        "Key Decisions",
        "Next Steps",
        "Key Context",
        "Relevant Files",
    ]


def test_defect_instructs_as_the_runtime_does() -> None:
    system = defect_request(HEAD, None, []).system or ""
    for words in (
        "only what the conversation holds",
        "merge",
        "Keep every section, even one with nothing in it",
        "file paths, identifiers, commands and error messages exactly",
        "terse bullet",
        "Do not continue the task",
        "the language the person and the agent speak",
    ):
        assert words in system


def test_defect_updates_an_earlier_summary() -> None:
    fresh, update = (prompt_of(defect_request(HEAD, previous, [])) for previous in (None, "## Goal\n- x"))
    assert "<previous-summary>\n## Goal\n- x\n</previous-summary>" in update
    assert "Update that summary" in update
    assert "previous-summary" not in fresh
    assert "pdate" not in fresh
    # An earlier summary with an empty body is still one.
    assert "<previous-summary>\n\n</previous-summary>" in prompt_of(defect_request(HEAD, "", []))


def test_no_placeholders() -> None:
    """Small models copy them."""
    request, sdk = defect_request(HEAD, "old", []), agent_sdk_request(HEAD)
    for text in (request.system or "", prompt_of(request), sdk.system or "", sdk.messages[0]["content"]):
        assert not re.search(r"\[[^\]]*\]|\{[^}]*\}|<(?!/?previous-summary>)", text)


def test_agent_sdk_request() -> None:
    request = agent_sdk_request(HEAD)
    assert (request.tools, request.max_tokens, request.sections) == ([], 4096, SDK_SECTIONS)
    (message,) = request.messages
    assert message["role"] == "user"
    assert message["content"].endswith("User:\nFix it.\n\nAssistant:\nDone.")
    positions = [(request.system or "").find(f"## {name}") for name in SDK_SECTIONS]
    assert positions == sorted(positions)
    assert positions[0] > 0


def lines_of(*blocks: dict[str, Any]) -> list[str]:
    return format_transcript([{"role": "user", "content": list(blocks)}]).split("\n")[1:]


def test_transcript_of_calls_and_images() -> None:
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {"z": 1.0, "a": {"y": "é\u0007", "b": [1e16]}}}
    image = {"type": "image", "source": {"type": "base64", "data": "AA=="}}
    assert lines_of(call, image, {"type": "text", "text": "hi"}) == [
        'Tool call: Read {"a":{"b":[1e16],"y":"é\\u0007"},"z":1.0}',
        "[image]",
        "hi",
    ]


def test_transcript_of_results() -> None:
    def result(content: Any, **more: Any) -> str:
        (line,) = lines_of({"type": "tool_result", "tool_use_id": "a", "content": content, **more})
        return line

    assert result('say "hi"') == 'Tool result: "say \\"hi\\""'
    assert result("no", is_error=True) == 'Tool error: "no"'
    assert result([{"type": "text", "text": "x"}]) == 'Tool result: [{"text":"x","type":"text"}]'
    # 500 bytes with the quotes are whole, one more is cut after 500 bytes.
    assert result("x" * 498) == f'Tool result: "{"x" * 498}"'
    assert result("x" * 499) == f'Tool result: "{"x" * 499}...'
    # Back to the start of a character: the quote and 249 two-byte characters are 499 bytes.
    assert result("é" * 250) == f'Tool result: "{"é" * 249}...'
    assert result("🦊" * 200) == f'Tool result: "{"🦊" * 124}...'


def test_transcript_of_thinking() -> None:
    def thinking(text: str) -> list[str]:
        return lines_of({"type": "thinking", "thinking": text, "signature": "s"})

    assert thinking("x" * 200) == [f"({'x' * 200})"]
    assert thinking("x" * 201) == [""]
    assert thinking("é" * 100) == [f"({'é' * 100})"]
    assert thinking("é" * 101) == [""]


def test_transcript_survives_lone_surrogates() -> None:
    assert lines_of({"type": "tool_result", "tool_use_id": "a", "content": "x\ud83d"}) == ['Tool result: "x\ud83d"']
