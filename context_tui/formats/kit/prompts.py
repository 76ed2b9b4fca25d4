"""Set and describe the system prompt and the tool schemas with which requests begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from context_tui.formats.kit.blocks import Block, extract_text
from context_tui.formats.kit.values import parse_id
from context_tui.session.facts import Facts, Prompt, PromptPart
from context_tui.session.jsontext import compact_json, compact_text, utf8_len
from context_tui.session.markers import name_text
from context_tui.text.sanitize import truncate_name


def build_part(*blocks: Block) -> PromptPart:
    """Combine blocks into one part of a system prompt."""
    text = extract_text(blocks)
    return PromptPart(name_text(text), utf8_len(text), text, any("cache_control" in block for block in blocks))


def set_system(facts: Facts, parts: Sequence[PromptPart]) -> None:
    """Set the system prompt of all later requests."""
    _set_prompt(facts, system=tuple(part for part in parts if part.text))
    facts.system_bytes = utf8_len(join_system(facts))


def join_system(facts: Facts) -> str:
    """Return the newest system prompt as one text."""
    return "\n\n".join(part.text for part in get_prompt(facts).system)


def set_tools(facts: Facts, tools: Any) -> None:
    """Set the tool schemas of all later requests, in any provider's form."""
    facts.tools_bytes = len(compact_json(tools)) if tools else 0
    _set_prompt(facts, tools=tuple(map(_describe_tool, tools if isinstance(tools, list) else ())))


def get_prompt(facts: Facts) -> Prompt:
    """Return the newest system prompt and tool schemas, or an empty prompt if none are recorded."""
    return facts.prompts[-1] if facts.prompts else Prompt()


def _set_prompt(facts: Facts, **parts: tuple[PromptPart, ...]) -> None:
    newest = get_prompt(facts)
    if any(value != getattr(newest, name) for name, value in parts.items()):
        prompt = Prompt(len(facts), **{"system": newest.system, "tools": newest.tools, **parts})
        facts.prompts[len(facts.prompts) - (newest.message == prompt.message) :] = [prompt]


def _describe_tool(tool: Any) -> PromptPart:
    """Return a tool schema as a part of the prompt. A tool that the provider runs may have a type instead of a name."""
    schema = tool if isinstance(tool, dict) else {"name": tool}
    schema = schema["function"] if isinstance(schema.get("function"), dict) else schema
    name = truncate_name(parse_id(schema.get("name") or schema.get("type")))
    text = compact_text(tool)
    return PromptPart(name, utf8_len(text), text, isinstance(tool, dict) and "cache_control" in tool)
