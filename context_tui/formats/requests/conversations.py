"""Group the requests in a log into conversations, and find out what each request changed in its conversation.

As each request repeats the history, it is compared with the newest request in each conversation of its run. It then
continues a conversation, goes back in one (a rewind), replaces messages with a summary (a compaction), or starts one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import ne
from typing import Any, NamedTuple

from context_tui.formats.kit.documents import Element, decode_element
from context_tui.formats.kit.message_builder import find_message, problems_as_value_errors
from context_tui.formats.kit.values import as_object, as_text, list_objects
from context_tui.formats.requests import bodies
from context_tui.formats.requests.bodies import Exchange, ProviderApi, Request, Signature, sign_element
from context_tui.session.facts import PromptPart
from context_tui.session.markers import is_summary_start, is_tagged
from context_tui.session.problems import Problem

MIN_PROBED_LENGTH = 120
"""Minimum length of a reply that is recognised as a summary, in characters without spaces."""
MAX_SUMMARY_PLACE = 40
"""Number of new messages that are searched for a summary."""
_SUMMARY_TAG = re.compile(r"<(?:summary|state_snapshot)>(.*?)</", re.DOTALL)


class Place(NamedTuple):
    """A place in the log: an exchange, its message(s), whether they are its reply, and how many blocks to skip."""

    exchange: int
    elements: tuple[Element, ...]
    is_reply: bool = False
    skip: int = 0


@dataclass
class Item:
    """A message in the newest request: its first place in the log, its key, and its signature once computed."""

    place: int
    key: str
    signature: Signature | None = None


@dataclass
class ConversationStep:
    """The changes that an exchange made to its conversation.

    Attributes:
        rewound: key of the first message that was abandoned.
        parent: key of the message that the first new one follows, if that is not the newest.
        order: keys of the messages in a new context, or None for a new message.
        summary: number of the new message that contains the summary, or -1.
        cleared: ids of calls whose results later requests lack, or message keys with the numbers of other blocks.
        places: numbers of the places that the exchange added.
        reply, probes: place of the reply (or -1), and pieces of its text that identify it.
        system, tools, schemas: set if they changed; the schemas are in Anthropic's form.
        cleared_calls: number of calls, from the oldest on, whose results the server removed.
    """

    exchange: int
    rewound: str = ""
    parent: str = ""
    order: tuple[str | None, ...] | None = None
    summary: int = -1
    cleared: list[str | tuple[str, int]] = field(default_factory=list)
    places: range = range(0)
    reply: int = -1
    probes: tuple[str, ...] = ()
    model: str = ""
    system: list[PromptPart] | None = None
    tools: Any = None
    schemas: list[dict[str, Any]] = field(default_factory=list)
    cleared_calls: int = 0


class SummaryMessage(NamedTuple):
    """The message in a new context that holds a summary: its number (-1 if none), and its text without spaces."""

    element: int = -1
    text: str = ""


@dataclass
class _Alignment:
    """An alignment: a request's first ``element_count`` messages equal the conversation's first ``item_count``.

    ``extended`` holds the numbers of messages with further blocks, and their counts of known blocks. ``changed`` holds
    the numbers of known messages, with their new bytes and signatures.
    """

    item_count: int = 0
    element_count: int = 0
    cleared: list[str | tuple[str, int]] = field(default_factory=list)
    extended: list[tuple[int, int]] = field(default_factory=list)
    changed: list[tuple[int, Element, Signature]] = field(default_factory=list)
    has_reply: bool = False


class Conversation:
    """A series of requests that continue each other, identified by its ``source`` and ``prompt`` (the first texts)."""

    def __init__(self, api: ProviderApi, group: str, source: str) -> None:
        self.api, self.group, self.source = api, group, source
        self.shape = api.shape()
        self.exchanges: list[Exchange] = []
        self.steps: list[ConversationStep] = []
        self.places: list[Place] = []
        self.items: list[Item] = []
        self._elements: list[Element] = []  # their bytes in the newest request
        self._before: tuple[list[Item], list[Element]] = [], []  # known messages before the newest step
        self._prompt: tuple[Any, ...] = ()
        self.prompt, self.time = "", -1
        self.has_tools = False

    def sign(self, number: int) -> Signature:
        """Return the signature of the known message *number*."""
        item = self.items[number]
        if item.signature is None:
            item.signature = sign_element(self.shape, self._elements[number], item.place)
        return item.signature

    def align(self, elements: Sequence[Element]) -> _Alignment:
        """Compare a request's messages with the known messages, starting at the first, and return the alignment."""
        are_different = list(map(ne, self._elements, elements))
        element_count = are_different.index(True) if True in are_different else len(are_different)
        self._elements[:element_count] = elements[:element_count]  # the bytes of the older request are no longer needed
        alignment = _Alignment(element_count)
        while alignment.item_count < len(self.items) and element_count < len(elements):
            number, element = alignment.item_count, elements[element_count]
            if self._elements[number] != element:
                old, new = (self.sign(number), sign_element(self.shape, element, self.items[number].place))
                if new == old:
                    alignment.changed.append((number, element, new))
                elif not new:
                    element_count += 1
                    continue
                elif not old:
                    alignment.item_count += 1
                    continue
                elif not self._compare(alignment, element, old, new, element_count):
                    break
            alignment.item_count += 1
            element_count += 1
        while alignment.item_count < len(self.items) and not self.sign(alignment.item_count):
            alignment.item_count += 1
        alignment.element_count = element_count
        if alignment.item_count < len(self.items):
            alignment.has_reply = any(self.places[item.place].is_reply for item in self.items[: alignment.item_count])
        return alignment

    def _compare(self, alignment: _Alignment, element: Element, old: Signature, new: Signature, position: int) -> bool:
        if new[: len(old)] == old:
            alignment.extended.append((position, len(old) - 1))
        elif bodies.strip_results(new) == bodies.strip_results(old):
            alignment.cleared += [str(part[1]) for part, old_part in zip(new, old, strict=True) if part != old_part]
        elif 1 < len(new) < len(old) and set(new) <= set(old):
            key = self.items[alignment.item_count].key
            alignment.cleared += [(key, number) for number, part in enumerate(old[1:]) if part not in new]
        else:
            return False
        alignment.changed.append((alignment.item_count, element, new))
        return True

    def add(self, exchange: Exchange, request: Request, alignment: _Alignment, summary: SummaryMessage | None) -> None:
        """Add a request. If *summary* is not None (it may be empty), the request starts a new context."""
        step = ConversationStep(len(self.exchanges), cleared=alignment.cleared)
        self.exchanges.append(exchange)
        self.steps.append(step)
        self._take_prompt(step, request)
        elements = request.elements[request.lead :]
        first_place, state_before = len(self.places), ([*self.items], [*self._elements])
        if summary is None:
            self._append(step, elements, alignment)
        else:
            if self.steps[:-1] and any(probe in summary.text for probe in self.steps[-2].probes):
                self.items, self._elements = self._before  # the request for the summary is not continued
                step.parent = self.items[-1].key if self.items else ""
            self._replace(step, elements, summary.element)
        step.places, self._before = range(first_place, len(self.places)), state_before
        if request.reply is not None:
            self._add_reply(step, request)

    def _take_prompt(self, step: ConversationStep, request: Request) -> None:
        run, api = request.run, request.api
        prompt = (run.members.get(api.system_key), run.members.get("tools"), request.elements[: request.lead])
        if prompt != self._prompt:
            self._prompt = prompt
            step.system = request.parse_system(self.shape)
            step.tools, step.schemas = request.parse_tools(), self.shape.parse_tools(run)
        self.has_tools |= bool(self._prompt[1])
        step.model = as_text(run.get("model") or as_object(run.get("response")).get("modelVersion"))

    def _append(self, step: ConversationStep, elements: Sequence[Element], alignment: _Alignment) -> None:
        if alignment.item_count < len(self.items):
            step.rewound = self.items[alignment.item_count].key
            del self.items[alignment.item_count :], self._elements[alignment.item_count :]
        for number, element, signature in alignment.changed:
            self._elements[number], self.items[number].signature = element, signature
        for position, skip in alignment.extended:
            self._place(step, elements[position], skip)
            self.items[-1].signature = ()  # compared with the message that it is part of
        for element in elements[alignment.element_count :]:
            self._place(step, element)

    def _place(self, step: ConversationStep, element: Element, skip: int = 0) -> None:
        place = len(self.places)
        self.places.append(Place(step.exchange, (bodies.copy_element(element),), skip=skip))
        self.items.append(Item(place, str(place)))
        self._elements.append(element)

    def _replace(self, step: ConversationStep, elements: Sequence[Element], summary: int) -> None:
        """Replace the messages with those of a new context, in request order. Known messages keep their keys."""
        items_by_signature: dict[Signature, list[Item]] = {}
        for number in reversed(range(len(self.items))):
            items_by_signature.setdefault(self.sign(number), []).append(self.items[number])
        items: list[Item | None] = []
        for position, element in enumerate(elements):
            matches = items_by_signature.get(sign_element(self.shape, element, -1)) if position != summary else None
            items.append(matches.pop() if matches and matches[-1].signature else None)
        last_known = max((position for position, each in enumerate(items) if each), default=-1)
        new_numbers = [position for position, each in enumerate(items) if each is None]
        group = [position for position in new_numbers if position < last_known] or new_numbers[:1]
        if group:  # new messages between known ones become one record, which keeps their order
            place = len(self.places)
            copies = tuple(bodies.copy_element(elements[position]) for position in group)
            self.places.append(Place(step.exchange, copies))
            for number, position in enumerate(group):
                items[position] = Item(place, f"{place}.{number}" if number else str(place))
        step.order = tuple(None if position in group else each.key for position, each in enumerate(items) if each)
        step.summary = group.index(summary) if summary in group else -1
        self.items, self._elements = [], []
        for element, item in zip(elements, items, strict=True):
            if item is None:
                self._place(step, element)
            else:
                self.items.append(item)
                self._elements.append(element)

    def add_late_reply(self, exchange: Exchange, request: Request) -> None:
        """Add the reply to the newest request if it was logged only after the request was added."""
        if self.exchanges[-1].name == exchange.name and self.steps[-1].reply < 0 and request.reply is not None:
            self.exchanges[-1] = exchange
            self.steps.append(ConversationStep(self.steps[-1].exchange))
            self._add_reply(self.steps[-1], request)

    def _add_reply(self, step: ConversationStep, request: Request) -> None:
        assert request.reply is not None
        step.reply, step.probes = len(self.places), _cut_probes("\n".join(_read_texts(self, request.reply)))
        step.cleared_calls = _count_cleared_calls(request.run.get("response"))
        self.places.append(Place(step.exchange, (request.reply,), is_reply=True))
        # The next request repeats the items of the reply, or the reply itself.
        replies = list(request.reply.get("output") or []) if request.api is bodies.RESPONSES else [request.reply]
        self.items += [Item(step.reply, str(step.reply)) for _ in replies]
        self._elements += replies


class RequestLog:
    """The conversations in the part of a log that was read. :meth:`update` reads more."""

    def __init__(self) -> None:
        self.conversations: list[Conversation] = []
        self.problems: dict[str, Problem] = {}
        self._versions: dict[str, object] = {}
        self.owners: dict[str, Conversation] = {}  # by the names of exchanges

    def update(self, exchanges: Sequence[Exchange]) -> None:
        """Read the exchanges that are new or have changed."""
        for exchange in exchanges:
            if self._versions.get(exchange.name, self) == exchange.version:
                continue
            self._versions[exchange.name] = exchange.version
            self.problems.pop(exchange.name, None)
            try:
                body = exchange.read()
                request = problems_as_value_errors(bodies.split_request)(body)
            except bodies.OtherRequest:
                continue
            except ValueError as error:
                self.problems[exchange.name] = Problem(exchange.name, str(error))
                continue
            if exchange.name in self.owners:
                self.owners[exchange.name].add_late_reply(exchange, request)
            else:
                exchange = exchange._replace(source=exchange.source or body.source)
                owner, alignment, summary = self._choose(exchange, request)
                self.owners[exchange.name] = owner
                owner.add(exchange, request, alignment, summary)
                owner.time = exchange.time
            reason = "no response to it was logged" if body.response is None else "its response is no reply of a model"
            if note := body.note or ("" if request.reply else reason):
                self.problems[exchange.name] = Problem(exchange.name, note)

    def _choose(self, exchange: Exchange, request: Request) -> tuple[Conversation, _Alignment, SummaryMessage | None]:
        """Return the conversation that a request belongs to, their alignment, and a new context's summary (or None)."""
        elements = request.elements[request.lead :]
        run = [conversation for conversation in self.conversations if conversation.group == exchange.group]
        same_api = [owner for owner in run if owner.api is request.api]
        sources = ("", exchange.source)
        candidates = [owner for owner in same_api if not exchange.source or owner.source in sources]
        base, base_alignment = None, _Alignment()
        for owner in candidates:
            alignment = owner.align(elements)
            if alignment.item_count and (base is None or alignment.element_count >= base_alignment.element_count):
                base, base_alignment = owner, alignment
        if base and base_alignment.item_count == len(base.items):
            return base, base_alignment, None
        side_steps = [step for conversation in run if not conversation.has_tools for step in conversation.steps]
        side_probes = {probe for step in side_steps for probe in step.probes}
        matched_count = base_alignment.element_count
        has_nothing_new = matched_count == len(elements)  # possibly the same summary again
        owners = [base] if base else [owner for owner in candidates if owner.has_tools] or candidates
        for owner in sorted(owners, key=lambda owner: -owner.time):
            probes = {*owner.steps[-1].probes, *([] if has_nothing_new else side_probes)}
            if summary := _find_summary(owner, elements, 0 if has_nothing_new else matched_count, probes):
                return owner, owner.align(elements), summary
        if base and base_alignment.has_reply:
            replaced = range(base_alignment.item_count, len(base.items))
            replaced_signatures = {base.sign(number) for number in replaced} - {()}
            is_cut = any(sign_element(base.shape, each, -1) in replaced_signatures for each in elements[matched_count:])
            return base, base_alignment, SummaryMessage() if is_cut else None
        for owner in candidates:  # ids of calls are unique: a shared id means the same history, without its beginning
            calls = {sign for each in elements for sign in sign_element(owner.shape, each, -1) if sign[0] == "call"}
            if calls and any(sign in calls for number in range(len(owner.items)) for sign in owner.sign(number)):
                return owner, _Alignment(), SummaryMessage()
        conversation = Conversation(request.api, exchange.group, exchange.source)
        texts = (text for each in elements[:3] for text in _read_texts(conversation, each))
        conversation.prompt = "\n".join(text for text in texts if not is_tagged(text))
        self.conversations.append(conversation)
        return conversation, _Alignment(), None

    def list_by_id(self) -> dict[str, Conversation]:
        """Return the conversations that are sessions, keyed by id: ``RUN`` (the first of a run), ``RUN/agent-1``, ...

        If a run has conversations with tools, those without tools only ask for titles or quotas, and are not sessions.
        """
        with_tools = {conversation.group for conversation in self.conversations if conversation.has_tools}
        conversations: dict[str, Conversation] = {}
        counts: dict[str, int] = {}
        for conversation in self.conversations:
            if conversation.has_tools or conversation.group not in with_tools:
                number = counts[conversation.group] = counts.get(conversation.group, -1) + 1
                conversations[f"{conversation.group}/agent-{number}" if number else conversation.group] = conversation
        return conversations

    def count_others(self, group: str) -> int:
        """Return the number of requests in a run that belong to no session."""
        sessions = set(self.list_by_id().values())
        others = (each for each in self.conversations if each.group == group and each not in sessions)
        return sum(len(each.exchanges) for each in others)


def _find_summary(
    owner: Conversation, elements: Sequence[Element], start: int, probes: Collection[str]
) -> SummaryMessage | None:
    """Return the new message that holds a piece of a reply (*probes*) or begins as summaries do, or None."""
    for number, element in enumerate(elements[start : start + MAX_SUMMARY_PLACE], start):
        for text in _read_texts(owner, element):
            compact_text = _remove_whitespace(text)
            has_probe = len(compact_text) > MIN_PROBED_LENGTH and any(probe in compact_text for probe in probes)
            if has_probe or is_summary_start(text, by_assistant=False, first_block=True, first_message=True):
                return SummaryMessage(number, compact_text)
    return None


def _read_texts(conversation: Conversation, element: Element) -> list[str]:
    try:
        message = find_message(conversation.shape.parse(decode_element(element), -1))
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
    return [str(block.get("text")) for block in message.blocks if block.get("type") == "text"] if message else []


def _count_cleared_calls(response: Any) -> int:
    """Return how many of the oldest calls had their results cleared by the server's context editing."""
    edits = list_objects(as_object(as_object(response).get("context_management")).get("applied_edits"))
    counts = (edit.get("cleared_tool_uses") for edit in edits)
    return next((count for count in counts if isinstance(count, int) and count > 0), 0)


def _remove_whitespace(text: str) -> str:
    return "".join(text.split())


def _cut_probes(text: str) -> tuple[str, ...]:
    """Return two pieces of a reply by which a later summary is recognised, or () for a short reply."""
    inner = _SUMMARY_TAG.search(text)
    compact_text = _remove_whitespace(inner[1] if inner else text)
    if len(compact_text) < MIN_PROBED_LENGTH:
        return ()
    middle = len(compact_text) // 2
    return compact_text[:60], compact_text[middle : middle + 60]
