"""Events of OpenHands V0: actions and observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from context_tui.formats.kit.message_builder import Compacted, Part
from context_tui.formats.kit.usage import openai_usage, size_of, with_cache
from context_tui.formats.kit.values import as_blocks, as_id, epoch_ms, usage_or_note
from context_tui.formats.openai.shape import call_of, content_block, schemas_of, thinking_of
from context_tui.formats.openhands.observations import with_metadata
from context_tui.formats.openhands.views import View
from context_tui.session.facts import Usage
from context_tui.session.validation import truncate_name
from context_tui.session.values import Role

Event = dict[str, Any]

UNSEEN = frozenset({"change_agent_state", "agent_state_changed", "null"})
"""Events that are not even counted when a model is shown the history."""
BESIDE = frozenset({"recall", "condensation_request", "loop_recovery", "pause", "resume", "start"})
"""Actions that no model is shown."""
_SIZES = ("prompt_tokens", "cache_read_tokens", "cache_write_tokens", "completion_tokens")


class LegacyEvents:
    """Understands events one after the other; what one says because of those before it is remembered by its place."""

    def __init__(self) -> None:
        self._view = View()
        self._first: dict[str, int] = {}  # response to the event that says its text
        self._calls: set[str] = set()  # made up ids of calls that have none
        self._asked = ""  # the newest of them that nothing has answered
        self._newest = -1  # the last event that asked or answered so
        self._answers: dict[int, str] = {}
        self._summaries: set[str] = set()
        self._task = -1  # the first thing that was said
        self._totals: tuple[int, ...] = (0, 0, 0, 0)
        self._read = -1  # the last event whose totals were read
        self._used: dict[int, Usage] = {}

    def part(self, event: Event, place: int) -> Part:
        """What an event says.

        Raises:
            ValueError: it is neither an action nor an observation.
        """
        action, seen = event.get("action"), event.get("observation")
        key, kind = _key(event.get("id"), place), action if isinstance(action, str) else seen
        if not isinstance(kind, str):
            raise ValueError("not an event: neither an action nor an observation")
        if kind == "condensation":
            return self._condensed(_arguments(event), key)
        part = self._acted(event, kind, place) if kind == action else self._observed(event, kind, place)
        if kind not in UNSEEN:
            self._view.append(key, message=part.role is not None and part.role != Role.SYSTEM)
        part = replace(part, time=epoch_ms(event.get("timestamp")), key=key if part.role is not None else "")
        return part

    # -- actions

    def _acted(self, event: Event, kind: str, place: int) -> Part:
        arguments, source = _arguments(event), event.get("source")
        text = {"type": "text", "text": as_id(arguments.get("content", event.get("message")))}
        if kind == "system":
            return Part(Role.SYSTEM, [text], tools=schemas_of(arguments.get("tools")))
        if kind in UNSEEN or kind in BESIDE:
            return Part()
        if kind == "message":
            self._task = place if self._task < 0 else self._task
            images = arguments.get("image_urls") or arguments.get("images_urls")
            shown = [_image(url) for url in images] if isinstance(images, list) else []
            if source == "user" or (source is None and place == self._task):
                return Part(Role.USER, [text, *shown])
            usage, notes = self._use(event, place)
            return Part(Role.ASSISTANT, [text, *shown], usage=usage, notes=notes)
        response = _response(event)
        if source == "user" and response is None:
            return Part(Role.USER, [{"type": "text", "text": f"User executed the {kind}:\n{_told(arguments)}"}])
        usage, notes = self._use(event, place)
        if response is None:
            return self._plain(kind, event, place, usage, notes)
        return self._called(event, response, kind, place, usage, notes)

    def _called(
        self, event: Event, response: Event, kind: str, place: int, usage: Usage | None, notes: tuple[str, ...]
    ) -> Part:
        """An action by a tool call: its own call of those that the model made, and what it said beside them once."""
        message, response_id = _message(response), as_id(response.get("id"))
        own = as_id(event["tool_call_metadata"].get("tool_call_id"))
        blocks: list[dict[str, Any]] = []
        if self._first.setdefault(response_id or str(place), place) == place:
            blocks = [*thinking_of(message), *map(content_block, as_blocks(message.get("content")))]
            blocks = [block for block in blocks if block.get("text", "x").strip()]
        if kind == "finish":  # its call is not sent again, as nothing answers it
            thought = {"type": "text", "text": as_id(_arguments(event).get("final_thought"))}
            blocks = blocks or [thought]
        else:
            calls = message.get("tool_calls")
            listed = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
            call = next((call for call in listed if call.get("id") == own), None)
            if call is None:
                name = event["tool_call_metadata"].get("function_name")
                call = {"function": {"name": name, "arguments": _own(_arguments(event))}}
            blocks.append(call_of(call, own))
        model = truncate_name(name) if isinstance(name := response.get("model"), str) else ""
        return Part(Role.ASSISTANT, blocks, message_id=response_id, usage=usage, notes=notes, model=model)

    def _plain(self, kind: str, event: Event, place: int, usage: Usage | None, notes: tuple[str, ...]) -> Part:
        """An action that was written as text: shown as the call that it is, with what was thought before."""
        arguments = _arguments(event)
        thought = arguments.get("thought")
        blocks = [{"type": "text", "text": thought}] if isinstance(thought, str) and thought else []
        if kind == "finish":
            final = arguments.get("final_thought")
            blocks = blocks or [{"type": "text", "text": final if isinstance(final, str) else ""}]
            return Part(Role.ASSISTANT, blocks, usage=usage, notes=notes)
        call = f"event-{_key(event.get('id'), place)}"
        self._calls.add(call)
        if place > self._newest:
            self._newest, self._asked = place, call
        use = {"type": "tool_use", "id": call, "name": kind, "input": _own(arguments)}
        return Part(Role.ASSISTANT, [*blocks, use], usage=usage, notes=notes)

    def _use(self, event: Event, place: int) -> tuple[Usage | None, tuple[str, ...]]:
        """What the request behind an action took: as its response says, else what the totals grew by."""
        metrics = event.get("llm_metrics")
        totals = metrics.get("accumulated_token_usage") if isinstance(metrics, dict) else None
        notes: tuple[str, ...] = ()
        if place > self._read and isinstance(totals, dict):
            self._read = place
            try:
                now = tuple(size_of(totals, name) for name in _SIZES)
            except ValueError as error:
                notes = (str(error),)
            else:
                grown = [new - old for new, old in zip(now, self._totals, strict=True)]
                self._totals = now
                if min(grown) >= 0 and grown[0]:
                    self._used[place] = with_cache(*grown)
        response = _response(event)
        usage, unread = usage_or_note(openai_usage, response.get("usage") if response else None)
        return usage or self._used.get(place), (*notes, *unread)

    # -- observations

    def _observed(self, event: Event, kind: str, place: int) -> Part:
        extras = event.get("extras")
        extras = extras if isinstance(extras, dict) else event
        content = event.get("content")
        text = content if isinstance(content, str) else as_id(content)
        if kind in UNSEEN:
            return Part()
        if kind == "recall":
            told = _recalled(extras)
            return Part(Role.USER, told, injected=True) if told else Part()
        match kind:
            case "run":
                text = with_metadata(text, extras.get("metadata"))
            case "error":
                text += "\n[Error occurred in processing last action]"
            case "user_rejected":
                text = f"OBSERVATION:\n{text}\n[Last action has been rejected by the user]"
        call = self._answered(event, place)
        if not call:
            return Part(Role.USER, [{"type": "text", "text": text}], injected=True)
        images = extras.get("image_urls")
        shown = [_image(url) for url in images] if isinstance(images, list) else []
        body = [{"type": "text", "text": text}, *shown] if shown else text
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": body}
        if kind in ("error", "user_rejected"):
            result["is_error"] = True
        return Part(Role.USER, [result], results=True)

    def _answered(self, event: Event, place: int) -> str:
        """The id of the call that an observation answers; empty where it answers none."""
        metadata = event.get("tool_call_metadata")
        if isinstance(metadata, dict):
            return as_id(metadata.get("tool_call_id"))
        if (cause := event.get("cause")) is not None:
            call = f"event-{_key(cause, place)}"
            return call if call in self._calls else ""
        if place > self._newest and "id" not in event:
            self._newest, self._answers[place], self._asked = place, self._asked, ""
        return self._answers.get(place, "")

    def _condensed(self, arguments: Event, key: str) -> Part:
        """A condensation; its summary takes the place of an earlier one."""
        ids, summary, offset = (arguments.get(name) for name in ("forgotten_event_ids", "summary", "summary_offset"))
        first, last = (arguments.get(f"forgotten_events_{end}_id") for end in ("start", "end"))
        forgotten = {_key(each, 0) for each in ids} if isinstance(ids, list) else set[str]()

        told = isinstance(summary, str)

        def forgets(each: str) -> bool:
            if each in forgotten or (told and each in self._summaries):
                return True
            if not isinstance(first, int) or not isinstance(last, int) or not each.isdecimal():
                return False
            return first <= int(each) <= last

        place = offset if type(offset) is int and offset >= 0 else None
        context = self._view.condense(key, forgets, summary=told, offset=place)
        compacted = Compacted("condenser", context=context)
        if not told:
            return Part(compacted=compacted)
        self._summaries.add(key)
        text = {"type": "text", "text": summary}
        return Part(Role.USER, [text], injected=True, compacted=compacted, key=key)


def _key(event_id: Any, place: int) -> str:
    """What an event is known by: its id, or its place where it has none."""
    return as_id(event_id) or f"@{place}"


def _arguments(event: Event) -> Event:
    """What an action was given; older ones have it beside their kind."""
    arguments = event.get("args", event)
    return arguments if isinstance(arguments, dict) else {}


def _own(arguments: Event) -> Event:
    """The arguments of an action without what the runtime added to all of them."""
    added = (
        *("action", "thought", "source", "id", "timestamp", "message", "is_confirmed", "confirmation_state"),
        *("action_risk", "keep_prompt", "hidden", "blocking", "is_static", "security_risk", "llm_metrics", "cause"),
        *("kernel_init_code", "tool_call_metadata", "timeout", "args"),
    )
    return {name: value for name, value in arguments.items() if name not in added and value is not None}


def _told(arguments: Event) -> str:
    return as_id(next((arguments[name] for name in ("command", "code", "path", "content") if name in arguments), ""))


def _response(event: Event) -> Event | None:
    """The response of the model that an event is of."""
    metadata = event.get("tool_call_metadata")
    response = metadata.get("model_response") if isinstance(metadata, dict) else None
    return response if isinstance(response, dict) else None


def _message(response: Event) -> Event:
    choices = response.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    return message if isinstance(message, dict) else {}


def _image(url: Any) -> dict[str, Any]:
    return content_block({"type": "image_url", "image_url": {"url": url}})


def _recalled(extras: Event) -> list[dict[str, Any]]:
    """What was looked up for the model, without the words that its prompt puts around it."""
    names = ("repo_directory", "repo_instructions", "conversation_instructions", "additional_agent_instructions")
    texts = [extras.get(name) for name in names]
    listed = extras.get("microagent_knowledge")
    texts += [each.get("content") for each in (listed if isinstance(listed, list) else []) if isinstance(each, dict)]
    return [{"type": "text", "text": text} for text in texts if isinstance(text, str) and text.strip()]
