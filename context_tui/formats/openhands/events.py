"""Parse events of the software-agent SDK (OpenHands V1), and compute which of them the model still sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from context_tui.formats.kit.blocks import Block, build_text, build_tool_result
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    MessageRecord,
    MetadataRecord,
    ParsedRecord,
    group_records,
)
from context_tui.formats.kit.usage import make_cached_usage, parse_token_count
from context_tui.formats.kit.values import as_list, as_object, list_objects, parse_blocks, parse_id, parse_time_ms
from context_tui.formats.openai.reader import parse_call, parse_content_part, parse_thinking
from context_tui.session.facts import Usage
from context_tui.session.values import Role

Event = dict[str, Any]
UsageByResponse = Mapping[str, Usage]


def parse_usages(stats: Any) -> tuple[dict[str, Usage], int]:
    """Return the valid usages in ``base_state.json`` (keyed by response) and the newest context window (0: unknown)."""
    usages, window = dict[str, Usage](), 0
    for metrics in as_object(as_object(stats).get("usage_to_metrics")).values():
        for entry in list_objects(as_object(metrics).get("token_usages")):
            if not (response := entry.get("response_id")):
                continue
            names = ("prompt_tokens", "cache_read_tokens", "cache_write_tokens", "completion_tokens")
            with suppress(ValueError):
                sizes = [parse_token_count(entry, name) for name in names]
                window = parse_token_count(entry, "context_window") or window
                usages[parse_id(response)] = make_cached_usage(*sizes)
    return usages, window


def parse_event(event: Event, view: EventView, usages: UsageByResponse) -> ParsedRecord:
    """Parse an event. An event that is not sent to the model becomes metadata."""
    kind, key, time = event["kind"], parse_id(event.get("id")), parse_time_ms(event.get("timestamp"))
    response = parse_id(event.get("llm_response_id"))
    usage = usages.get(response)
    match kind:
        case "SystemPromptEvent":
            view.append(key, message=False)
            contents = (event.get(name) for name in ("system_prompt", "dynamic_context"))
            prompts = [block for content in contents for block in parse_content_blocks(content)]
            tools = MetadataRecord(tools=_parse_tools(event.get("tools")))
            return group_records(tools, MessageRecord(Role.SYSTEM, prompts, time=time))
        case "MessageEvent":
            view.append(key)
            message = event.get("llm_message")
            if not isinstance(message, dict):
                raise ValueError("a MessageEvent without llm_message")
            blocks, extension = map(parse_content_blocks, (message.get("content"), event.get("extended_content")))
            if message.get("role") == "assistant":
                reply_blocks = [*parse_thinking(message), *blocks]
                return MessageRecord(Role.ASSISTANT, reply_blocks, time=time, message_id=response, usage=usage, key=key)
            by_runtime, injected = event.get("source") != "user", frozenset(range(len(blocks), len(blocks + extension)))
            blocks += extension
            return MessageRecord(
                Role.USER, blocks, time=time, is_injected=by_runtime, injected_blocks=injected, key=key
            )
        case "ActionEvent":
            view.append(key)
            call = as_object(event.get("tool_call"))
            function_call = call if "function" in call else {"function": call}
            call_block = parse_call(function_call, parse_id(event.get("tool_call_id") or call.get("id")))
            call_block["name"] = call_block["name"] or parse_id(event.get("tool_name"))
            blocks = [*parse_thinking(event), *parse_content_blocks(event.get("thought")), call_block]
            return MessageRecord(Role.ASSISTANT, blocks, time=time, message_id=response, usage=usage, key=key)
        case "ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent":
            view.append(key)
            return MessageRecord(Role.USER, [_parse_result(event)], has_results=True, time=time, key=key)
        case "Condensation":
            return _parse_condensation(event, key, time, view)
    return MetadataRecord()


def _parse_result(event: Event) -> dict[str, Any]:
    failed, body = event["kind"] != "ObservationEvent", list[dict[str, Any]]()
    if event["kind"] == "AgentErrorEvent":
        body = [build_text(parse_id(event.get("error")))]
    elif failed:
        body = [build_text(f"Action rejected: {parse_id(event.get('rejection_reason'))}")]
    elif isinstance(observation := event.get("observation"), dict):
        content = next((observation[name] for name in ("content", "output", "message") if name in observation), None)
        body = join_metadata(parse_content_blocks(content), observation.get("metadata"))
        body, failed = body + parse_content_blocks(event.get("extended_content")), bool(observation.get("is_error"))
    return build_tool_result(parse_id(event.get("tool_call_id")), body, is_error=failed)


def _parse_condensation(event: Event, key: str, time: int, view: EventView) -> ParsedRecord:
    ids, summary, offset = event.get("forgotten_event_ids"), event.get("summary"), event.get("summary_offset")
    # An earlier summary is a separate event, whose id is derived from that of its condensation.
    forgotten = {parse_id(each).removesuffix("-summary") for each in as_list(ids)}
    if not isinstance(summary, str) or type(offset) is not int or offset < 0:
        summary = offset = None
    return view.condense(key, forgotten.__contains__, summary, offset, time)


def _parse_tools(tools: Any) -> list[dict[str, Any]]:
    """Return tool schemas with names and descriptions. Parameters are recorded only for MCP tools."""
    schemas = []
    for tool in list_objects(tools):
        name, description = parse_id(tool.get("name") or tool.get("title")), parse_id(tool.get("description"))
        schema = as_object(tool.get("mcp_tool")).get("inputSchema")
        schema = schema if isinstance(schema, dict) else {"type": "object"}
        schemas.append({"name": name, "description": description, "input_schema": schema})
    return schemas


def parse_content_blocks(content: Any) -> list[Block]:
    """Convert the SDK's content to blocks. Each image URL becomes a separate block."""
    blocks: list[Block] = []
    for part in parse_blocks(content):
        urls = part.get("image_urls")
        if part.get("type") == "image" and isinstance(urls, list):
            blocks += [parse_content_part({"type": "image_url", "image_url": {"url": url}}) for url in urls]
        elif part.get("type") == "text":
            blocks.append(build_text(part.get("text") or ""))
        else:
            blocks.append(part)
    return blocks


def add_metadata(text: str, metadata: Any) -> str:
    """Return a command's output with the metadata that the model sees in it.

    Source: OpenHands, CmdOutputObservation.to_agent_observation; the SDK's TerminalObservation.to_llm_content.
    """
    if not isinstance(metadata, dict):
        return text
    output = f"{metadata.get('prefix') or ''}{text}{metadata.get('suffix') or ''}"
    if folder := metadata.get("working_dir"):
        output += f"\n[Current working directory: {folder}]"
    if interpreter := metadata.get("py_interpreter_path"):
        output += f"\n[Python interpreter: {interpreter}]"
    code = metadata.get("exit_code", -1)
    return output if code in (-1, None) else f"{output}\n[Command finished with exit code {code}]"


def join_metadata(blocks: list[Block], metadata: Any) -> list[Block]:
    """Add a command's metadata, as the model sees it, to the last text block, and return all blocks."""
    number = next((number for number in reversed(range(len(blocks))) if blocks[number].get("type") == "text"), None)
    if number is None or not isinstance(metadata, dict):
        return blocks
    text = add_metadata(blocks[number].get("text") or "", metadata)
    return [*blocks[:number], {**blocks[number], "text": text}, *blocks[number + 1 :]]


class EventView:
    """The events that the model sees, in order. Adding an event or condensation again changes nothing.

    Source: OpenHands software-agent-sdk, context/view/view.py; OpenHands V0, memory/view.py.
    """

    def __init__(self) -> None:
        self._events: list[tuple[str, bool]] = []  # key, and whether it is a message (else only counted)
        self._known_keys: set[str] = set()
        self._context_by_condensation: dict[str, tuple[str | int, ...]] = {}

    def append(self, key: str, *, message: bool = True) -> None:
        """Append an event, unless it is known. An event that is not a *message* only counts towards offsets."""
        if key and key not in self._known_keys:
            self._known_keys.add(key)
            self._events.append((key, message))

    def condense(
        self, key: str, is_forgotten: Callable[[str], bool], summary: str | None, offset: int | None, time: int = -1
    ) -> ParsedRecord:
        """Apply a condensation, and return its compaction, as part of the summary's message if there is a summary.

        *is_forgotten* returns whether the event with a given key is removed. *offset* is the number of remaining events
        before the summary, or None for all of them.
        """
        if key not in self._context_by_condensation:
            self._known_keys.add(key)
            remaining = [each for each in self._events if not is_forgotten(each[0])]
            if summary is not None:
                remaining.insert(len(remaining) if offset is None else min(offset, len(remaining)), (key, True))
            self._events = remaining
            context = (0 if each == key else each for each, message in remaining if message)
            self._context_by_condensation[key] = tuple(context)
        compaction = FullCompactionRecord("condenser", context=self._context_by_condensation[key])
        if summary is None:
            return compaction
        blocks = [build_text(summary)]
        return MessageRecord(Role.USER, blocks, time=time, is_injected=True, compaction=compaction, key=key)
