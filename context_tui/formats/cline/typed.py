"""Which blocks of a user message a person typed; the others Cline and Roo put in."""

from __future__ import annotations

import re
from typing import Any

TYPED_MARKERS = ("<feedback>", "<answer>", "<user_message>", "<task>")
"""What stands around words of a person, also in the results of tools."""
NOTICE_STARTS = (
    "<environment_details>",
    "[ERROR]",
    "[TASK RESUMPTION]",
    "The tool execution failed",
    "The user denied this operation",
    "Tool [",
    "<explicit_instructions",
    "<file_content ",
    "<folder_content ",
)
"""How blocks begin that say something to the model in the place of a person."""
_TEXT_RESULT = re.compile(r"\[\w+[^\n]*\] Result:")
"""How the result of a tool is headed where calls are XML in texts."""
_XML_CALL = re.compile(r"<(read_file|execute_command|write_to_file|apply_diff|replace_in_file|attempt_completion)>")


def find_injected_blocks(blocks: list[dict[str, Any]]) -> frozenset[int]:
    """The blocks of a user message, by number, that nobody typed."""
    found, behind = set[int](), False
    for number, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            behind = False
            continue
        text = block.get("text") if block.get("type") == "text" else None
        if not isinstance(text, str):
            continue
        head = _TEXT_RESULT.match(text) is not None
        notice = text.lstrip().startswith(NOTICE_STARTS)
        said = any(mark in text for mark in TYPED_MARKERS) and not notice
        if (head or behind or notice) and not said:
            found.add(number)
        behind = behind or head
    return frozenset(found)


def has_text_call(text: str) -> bool:
    """Whether a text of the assistant holds a call as XML."""
    return _XML_CALL.search(text) is not None
