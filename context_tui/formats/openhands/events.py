"""Events of the software-agent SDK (OpenHands V1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_tui.formats.kit.message_builder import Compacted, Part
from context_tui.formats.kit.usage import size_of, with_cache
from context_tui.formats.kit.values import as_id, epoch_ms
from context_tui.formats.openai.shape import call_of, thinking_of
from context_tui.formats.openhands.observations import blocks_of, joined
from context_tui.formats.openhands.views import View
from context_tui.session.facts import Usage
from context_tui.session.values import Role

Event = dict[str, Any]
Usages = Mapping[str, Usage]
"""What each response took, by its id."""


def usages_in(stats: Any) -> tuple[dict[str, Usage], int]:
    """What each response took, as ``base_state.json`` tells it, and the context window of the newest (0: unknown).

    Sizes that never were are left out.
    """
    found, window = dict[str, Usage](), 0
    metrics = stats.get("usage_to_metrics") if isinstance(stats, dict) else None
    for each in metrics.values() if isinstance(metrics, dict) else ():
        listed = each.get("token_usages") if isinstance(each, dict) else None
        for told in listed if isinstance(listed, list) else ():
            if not isinstance(told, dict) or not (response := told.get("response_id")):
                continue
            try:
                sizes = [
                    size_of(told, f"{name}_tokens") for name in ("prompt", "cache_read", "cache_write", "completion")
                ]
                window = size_of(told, "context_window") or window
            except ValueError:
                continue
            found[as_id(response)] = with_cache(*sizes)
    return found, window


def part_of(event: Event, view: View, usages: Usages) -> Part:
    """What an event says; kinds that no model is shown are beside the conversation.

    Raises:
        ValueError: it lacks what its kind has.
    """
    kind, key, time = event["kind"], as_id(event.get("id")), epoch_ms(event.get("timestamp"))
    response = as_id(event.get("llm_response_id"))
    match kind:
        case "SystemPromptEvent":
            view.append(key, message=False)
            prompts = [each for name in ("system_prompt", "dynamic_context") for each in blocks_of(event.get(name))]
            return Part(Role.SYSTEM, prompts, time=time, tools=_tools(event.get("tools")))
        case "MessageEvent":
            view.append(key)
            message = event.get("llm_message")
            if not isinstance(message, dict):
                raise ValueError("a MessageEvent without llm_message")
            blocks, more = blocks_of(message.get("content")), blocks_of(event.get("extended_content"))
            if message.get("role") == "assistant":
                spoken = [*thinking_of(message), *blocks]
                return Part(Role.ASSISTANT, spoken, time=time, message_id=response, usage=usages.get(response), key=key)
            typed = event.get("source") == "user"
            added = frozenset(range(len(blocks), len(blocks) + len(more)))
            return Part(Role.USER, [*blocks, *more], time=time, injected=not typed, injects=added, key=key)
        case "ActionEvent":
            view.append(key)
            call = event.get("tool_call")
            call = call if isinstance(call, dict) else {}
            given = call if "function" in call else {"function": call}
            spoken = [*thinking_of(event), *blocks_of(event.get("thought"))]
            use = call_of(given, as_id(event.get("tool_call_id") or call.get("id")))
            use["name"] = use["name"] or as_id(event.get("tool_name"))
            blocks = [*spoken, use]
            return Part(Role.ASSISTANT, blocks, time=time, message_id=response, usage=usages.get(response), key=key)
        case "ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent":
            view.append(key)
            return Part(Role.USER, [_result(event)], results=True, time=time, key=key)
        case "Condensation":
            return _condensed(event, key, time, view)
    return Part(time=time)


def _result(event: Event) -> dict[str, Any]:
    """The result that an event is."""
    failed, body = event["kind"] != "ObservationEvent", list[dict[str, Any]]()
    if event["kind"] == "AgentErrorEvent":
        body = [{"type": "text", "text": as_id(event.get("error"))}]
    elif failed:
        body = [{"type": "text", "text": f"Action rejected: {as_id(event.get('rejection_reason'))}"}]
    elif isinstance(seen := event.get("observation"), dict):
        content = next((seen[name] for name in ("content", "output", "message") if name in seen), None)
        body, failed = joined(blocks_of(content), seen.get("metadata")), bool(seen.get("is_error"))
        body += blocks_of(event.get("extended_content"))
    result = {"type": "tool_result", "tool_use_id": as_id(event.get("tool_call_id")), "content": body}
    return {**result, "is_error": True} if failed else result


def _condensed(event: Event, key: str, time: int, view: View) -> Part:
    """A condensation; without a place for its summary it puts none in."""
    given, summary, offset = event.get("forgotten_event_ids"), event.get("summary"), event.get("summary_offset")
    # An earlier summary is an event of its own, whose id is made from that of its condensation.
    forgotten = {as_id(each).removesuffix("-summary") for each in (given if isinstance(given, list) else [])}
    told = isinstance(summary, str) and type(offset) is int and offset >= 0
    context = view.condense(key, forgotten.__contains__, summary=told, offset=offset if told else None)
    compacted = Compacted("condenser", context=context)
    if not told:
        return Part(time=time, compacted=compacted)
    text = {"type": "text", "text": summary}
    return Part(Role.USER, [text], time=time, injected=True, compacted=compacted, key=key)


def _tools(tools: Any) -> list[dict[str, Any]]:
    """Tools as far as an event tells of them: name and description; their parameters are known by a name only."""
    listed = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return [
        {
            "name": as_id(tool.get("name") or tool.get("title")),
            "description": as_id(tool.get("description")),
            "input_schema": _schema(tool),
        }
        for tool in listed
    ]


def _schema(tool: dict[str, Any]) -> dict[str, Any]:
    mcp = tool.get("mcp_tool")
    given = mcp.get("inputSchema") if isinstance(mcp, dict) else None
    return given if isinstance(given, dict) else {"type": "object"}
