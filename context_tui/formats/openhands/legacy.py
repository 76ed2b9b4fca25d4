"""Parse events of OpenHands V0, which are actions and observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from context_tui.formats.kit import values
from context_tui.formats.kit.blocks import build_text, build_tool_result, build_tool_use
from context_tui.formats.kit.message_builder import MessageRecord, MetadataRecord, ParsedRecord, group_records
from context_tui.formats.kit.usage import make_cached_usage, parse_openai_usage, parse_token_count
from context_tui.formats.openai.reader import (
    get_first_choice,
    parse_call,
    parse_content_part,
    parse_schemas,
    parse_thinking,
)
from context_tui.formats.openhands.events import EventView, add_metadata
from context_tui.session.facts import Usage
from context_tui.session.values import Role
from context_tui.text.sanitize import truncate_name

Event = dict[str, Any]

UNCOUNTED_EVENTS = frozenset({"change_agent_state", "agent_state_changed", "null"})
"""Events that have no place in the history from which requests are built."""
IGNORED_ACTIONS = frozenset({"recall", "condensation_request", "loop_recovery", "pause", "resume", "start"})
"""Actions that are not sent to the model."""
_USAGE_FIELDS = ("prompt_tokens", "cache_read_tokens", "cache_write_tokens", "completion_tokens")


class LegacyEventParser:
    """Parser for events of V0. It keeps data of earlier events by place, so that an event can be parsed again."""

    def __init__(self) -> None:
        self._view = EventView()
        self._first_event_by_response: dict[str, int] = {}  # response to the event with its text
        self._generated_call_ids: set[str] = set()  # generated ids of calls without one
        self._open_call = ""  # the newest of these calls without a result
        self._newest_place = -1  # the last event with such a call or its result
        self._answers: dict[int, str] = {}
        self._summaries: set[str] = set()
        self._task_place = -1  # the first message
        self._totals: tuple[int, ...] = (0, 0, 0, 0)
        self._last_totals_place = -1  # the last event whose totals were read
        self._usage_by_place: dict[int, Usage] = {}

    def parse(self, event: Event, place: int) -> ParsedRecord:
        """Parse an event. Raises ValueError if it is neither an action nor an observation."""
        action, observation = event.get("action"), event.get("observation")
        key, kind = _format_key(event.get("id"), place), action if isinstance(action, str) else observation
        if not isinstance(kind, str):
            raise ValueError("not an event: neither an action nor an observation")
        if kind == "condensation":
            return self._parse_condensation(_get_arguments(event), key)
        parse = self._parse_action if kind == action else self._parse_observation
        parsed = parse(event, kind, place)
        message = parsed if isinstance(parsed, MessageRecord) else None
        if kind not in UNCOUNTED_EVENTS:
            self._view.append(key, message=message is not None and message.role != Role.SYSTEM)
        if message is None:
            return parsed
        message = replace(message, time=values.parse_time_ms(event.get("timestamp")), key=key)
        tools = parse_schemas(_get_arguments(event).get("tools")) if kind == "system" else None
        return message if tools is None else group_records(MetadataRecord(tools=tools), message)

    # -- actions

    def _parse_action(self, event: Event, kind: str, place: int) -> ParsedRecord:
        arguments, source = _get_arguments(event), event.get("source")
        text = build_text(values.parse_id(arguments.get("content", event.get("message"))))
        if kind == "system":
            return MessageRecord(Role.SYSTEM, [text])
        if kind in UNCOUNTED_EVENTS or kind in IGNORED_ACTIONS:
            return MetadataRecord()
        if kind == "message":
            self._task_place = place if self._task_place < 0 else self._task_place
            images = values.as_list(arguments.get("image_urls") or arguments.get("images_urls"))
            image_blocks = [*map(_parse_image, images)]
            if source == "user" or (source is None and place == self._task_place):
                return MessageRecord(Role.USER, [text, *image_blocks])
            usage, notes = self._compute_usage(event, place)
            return MessageRecord(Role.ASSISTANT, [text, *image_blocks], usage=usage, notes=notes)
        response = _get_response(event)
        if source == "user" and response is None:
            names = (name for name in ("command", "code", "path", "content") if name in arguments)
            main = values.parse_id(next((arguments[name] for name in names), ""))
            return MessageRecord(Role.USER, [build_text(f"User executed the {kind}:\n{main}")])
        usage, notes = self._compute_usage(event, place)
        if response is None:
            reply = self._parse_text_action(event, kind, place)
        else:
            reply = self._parse_tool_call(event, response, kind, place)
        return replace(reply, usage=usage, notes=notes)

    def _parse_tool_call(self, event: Event, response: Event, kind: str, place: int) -> MessageRecord:
        """Parse an action that is one of a reply's calls. The first action of a reply also gets the reply's text."""
        message, response_id = get_first_choice(response) or {}, values.parse_id(response.get("id"))
        call_id = values.parse_id(event["tool_call_metadata"].get("tool_call_id"))
        blocks: list[dict[str, Any]] = []
        if self._first_event_by_response.setdefault(response_id or str(place), place) == place:
            blocks = [*parse_thinking(message), *map(parse_content_part, values.parse_blocks(message.get("content")))]
            blocks = [block for block in blocks if block.get("text", "x").strip()]
        if kind == "finish":  # its call is not sent again, since it has no result
            blocks = blocks or [build_text(values.parse_id(_get_arguments(event).get("final_thought")))]
        else:
            calls = map(values.as_object, values.as_list(message.get("tool_calls")))
            call = next((call for call in calls if call and call.get("id") == call_id), None)
            if call is None:
                name = event["tool_call_metadata"].get("function_name")
                call = {"function": {"name": name, "arguments": _select_own_arguments(_get_arguments(event))}}
            blocks.append(parse_call(call, call_id))
        model = truncate_name(values.as_text(response.get("model")))
        return MessageRecord(Role.ASSISTANT, blocks, message_id=response_id, model=model)

    def _parse_text_action(self, event: Event, kind: str, place: int) -> MessageRecord:
        arguments = _get_arguments(event)
        thought = values.as_text(arguments.get("thought"))
        blocks = [build_text(thought)] if thought else []
        if kind == "finish":
            return MessageRecord(Role.ASSISTANT, blocks or [build_text(values.as_text(arguments.get("final_thought")))])
        call = f"event-{_format_key(event.get('id'), place)}"
        self._generated_call_ids.add(call)
        if place > self._newest_place:
            self._newest_place, self._open_call = place, call
        call_block = build_tool_use(call, kind, _select_own_arguments(arguments))
        return MessageRecord(Role.ASSISTANT, [*blocks, call_block])

    def _compute_usage(self, event: Event, place: int) -> tuple[Usage | None, tuple[str, ...]]:
        """Return the usage of an action's request (from its response, else the growth of the totals), and notes."""
        totals = values.as_object(event.get("llm_metrics")).get("accumulated_token_usage")
        notes: tuple[str, ...] = ()
        if place > self._last_totals_place and isinstance(totals, dict):
            self._last_totals_place = place
            try:
                current = tuple(parse_token_count(totals, name) for name in _USAGE_FIELDS)
            except ValueError as error:
                notes = (str(error),)
            else:
                growth = [size - total for size, total in zip(current, self._totals, strict=True)]
                self._totals = current
                if min(growth) >= 0 and growth[0]:
                    self._usage_by_place[place] = make_cached_usage(*growth)
        response = _get_response(event)
        usage, unread = values.parse_usage_or_note(parse_openai_usage, response.get("usage") if response else None)
        return usage or self._usage_by_place.get(place), (*notes, *unread)

    # -- observations

    def _parse_observation(self, event: Event, kind: str, place: int) -> ParsedRecord:
        extras = recorded if isinstance(recorded := event.get("extras"), dict) else event
        text = values.parse_id(event.get("content"))
        if kind in UNCOUNTED_EVENTS:
            return MetadataRecord()
        if kind == "recall":
            recalled = _parse_recall(extras)
            return MessageRecord(Role.USER, recalled, is_injected=True) if recalled else MetadataRecord()
        match kind:
            case "run":
                text = add_metadata(text, extras.get("metadata"))
            case "error":
                text += "\n[Error occurred in processing last action]"
            case "user_rejected":
                text = f"OBSERVATION:\n{text}\n[Last action has been rejected by the user]"
        call = self._find_call_id(event, place)
        if not call:
            return MessageRecord(Role.USER, [build_text(text)], is_injected=True)
        image_blocks = [*map(_parse_image, values.as_list(extras.get("image_urls")))]
        body = [build_text(text), *image_blocks] if image_blocks else text
        result = build_tool_result(call, body, is_error=kind in ("error", "user_rejected"))
        return MessageRecord(Role.USER, [result], has_results=True)

    def _find_call_id(self, event: Event, place: int) -> str:
        if isinstance(metadata := event.get("tool_call_metadata"), dict):
            return values.parse_id(metadata.get("tool_call_id"))
        if (cause := event.get("cause")) is not None:
            call = f"event-{_format_key(cause, place)}"
            return call if call in self._generated_call_ids else ""
        if place > self._newest_place and "id" not in event:
            self._newest_place, self._answers[place], self._open_call = place, self._open_call, ""
        return self._answers.get(place, "")

    def _parse_condensation(self, arguments: Event, key: str) -> ParsedRecord:
        ids, summary, offset = (arguments.get(name) for name in ("forgotten_event_ids", "summary", "summary_offset"))
        first_id, last_id = (arguments.get(f"forgotten_events_{bound}_id") for bound in ("start", "end"))
        forgotten = {_format_key(each, 0) for each in values.as_list(ids)}
        inserts_summary = isinstance(summary, str)

        def is_forgotten(each: str) -> bool:
            if each in forgotten or (inserts_summary and each in self._summaries):
                return True
            if not isinstance(first_id, int) or not isinstance(last_id, int) or not each.isdecimal():
                return False
            return first_id <= int(each) <= last_id

        place = offset if type(offset) is int and offset >= 0 else None
        parsed = self._view.condense(key, is_forgotten, summary if inserts_summary else None, place)
        if inserts_summary:
            self._summaries.add(key)
        return parsed


def _format_key(event_id: Any, place: int) -> str:
    return values.parse_id(event_id) or f"@{place}"


def _get_arguments(event: Event) -> Event:
    """Return an event's ``args``, or in older versions the event itself, which holds its arguments."""
    return values.as_object(event.get("args", event))


def _select_own_arguments(arguments: Event) -> Event:
    added = (
        *("action", "thought", "source", "id", "timestamp", "message", "is_confirmed", "confirmation_state"),
        *("action_risk", "keep_prompt", "hidden", "blocking", "is_static", "security_risk", "llm_metrics", "cause"),
        *("kernel_init_code", "tool_call_metadata", "timeout", "args"),
    )
    return {name: value for name, value in arguments.items() if name not in added and value is not None}


def _get_response(event: Event) -> Event | None:
    response = values.as_object(event.get("tool_call_metadata")).get("model_response")
    return response if isinstance(response, dict) else None


def _parse_image(url: Any) -> dict[str, Any]:
    return parse_content_part({"type": "image_url", "image_url": {"url": url}})


def _parse_recall(extras: Event) -> list[dict[str, Any]]:
    """Return recalled texts as blocks, without the words that the prompt puts around them."""
    names = ("repo_directory", "repo_instructions", "conversation_instructions", "additional_agent_instructions")
    texts = [extras.get(name) for name in names]
    texts += [values.as_object(each).get("content") for each in values.as_list(extras.get("microagent_knowledge"))]
    return [build_text(text) for text in texts if isinstance(text, str) and text.strip()]
