"""What observations were shown to a model as."""

from __future__ import annotations

from typing import Any

from context_tui.formats.kit.values import parse_blocks
from context_tui.formats.openai.shape import parse_content_part

Block = dict[str, Any]


def parse_content_blocks(content: Any) -> list[Block]:
    """Content of a message of the SDK: text stays, images that are named by address become blocks of their own."""
    found: list[Block] = []
    for part in parse_blocks(content):
        urls = part.get("image_urls")
        if part.get("type") == "image" and isinstance(urls, list):
            found += [parse_content_part({"type": "image_url", "image_url": {"url": url}}) for url in urls]
        elif part.get("type") == "text":
            found.append({"type": "text", "text": part.get("text") or ""})
        else:
            found.append(part)
    return found


def add_metadata(text: str, metadata: Any) -> str:
    """The output of a command with what its model is told of it.

    Source: OpenHands, CmdOutputObservation.to_agent_observation; the SDK's TerminalObservation.to_llm_content.
    """
    if not isinstance(metadata, dict):
        return text
    told = f"{metadata.get('prefix') or ''}{text}{metadata.get('suffix') or ''}"
    if folder := metadata.get("working_dir"):
        told += f"\n[Current working directory: {folder}]"
    if interpreter := metadata.get("py_interpreter_path"):
        told += f"\n[Python interpreter: {interpreter}]"
    code = metadata.get("exit_code", -1)
    return told if code in (-1, None) else f"{told}\n[Command finished with exit code {code}]"


def join_metadata(blocks: list[Block], metadata: Any) -> list[Block]:
    """Blocks of an observation, the last text of which says what its model is told of the command."""
    at = next((at for at in reversed(range(len(blocks))) if blocks[at].get("type") == "text"), None)
    if at is None or not isinstance(metadata, dict):
        return blocks
    return [
        *blocks[:at],
        {**blocks[at], "text": add_metadata(blocks[at].get("text") or "", metadata)},
        *blocks[at + 1 :],
    ]
