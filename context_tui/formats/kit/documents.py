"""Find message lists in JSON documents: a request, a bare list, several runs, JSON lines, or a log with responses.

Values stay slices of the file's bytes until they are decoded (``msgspec.Raw`` points into them), so memory use is close
to the size of the file. Only values that are not strict JSON are decoded at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from context_tui.errors import UnreadableSession
from context_tui.formats.kit import files
from context_tui.formats.kit.heads import find_complete_prefix, parse_first_values
from context_tui.formats.kit.values import as_object, parse_tokens
from context_tui.formats.kit.writing import encode_json
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.jsontext import compact_json, is_nested_deeper, loads, loads_all

T = TypeVar("T")
Element = Any
"""JSON value: ``msgspec.Raw`` until it is decoded."""

MESSAGE_KEYS = ("raw_messages", "messages", "traj")
"""Members that hold the message list.

A log may hold a converted list beside the runtime's own. The one that fits the recorded usage is used, else the first.
"""


class MessageLists(NamedTuple):
    """The members (``keys``) that may hold a format's message list, and the rules by which its elements are recognised.

    An element has one of ``required_keys`` and none of ``excluded_keys``. With ``accepts_text``, a string counts as a
    list of one user message.
    """

    keys: tuple[str, ...] = MESSAGE_KEYS
    required_keys: tuple[str, ...] = ("role",)
    excluded_keys: tuple[str, ...] = MESSAGE_KEYS
    accepts_text: bool = False

    def is_element(self, element: Element) -> bool:
        """Return whether a value looks like a message, and not like a run that contains messages."""
        members = decode_members(element)
        if members is None or any(key in members for key in self.excluded_keys):
            return False
        return any(key in members for key in self.required_keys)

    def find_lists(self, members: dict[str, Element]) -> dict[str, list[Element]]:
        """Return the message lists among an object's members, keyed by member. An empty list counts as one."""
        return {key: elements for key in self.keys if (elements := self._parse_list(members.get(key))) is not None}

    def _parse_list(self, element: Element) -> list[Element] | None:
        elements = decode_items(element)
        if elements is None and self.accepts_text and isinstance(text := _parse_text(element), str):
            return [{"role": "user", "content": text}]
        is_list = elements == [] or any(map(self.is_element, (elements or [])[:MAX_CHECKED_ELEMENTS]))
        return elements if is_list else None


DEFAULT_MESSAGE_LISTS = MessageLists()
MAX_CHECKED_ELEMENTS = 10
"""Number of elements at the start of a list that are checked; one of them must be a message."""
WRAPPER_KEYS = ("request", "body")

_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class BrokenElement(NamedTuple):
    """A part of a file that is not a message: the reason why it cannot be read, and its text."""

    reason: str
    text: str


@dataclass
class Run:
    """A message list and the other members of its object. Each run becomes one session.

    ``note`` says why this list was chosen if the object has several. ``key`` is the member that holds the list, or ""
    for a bare list.
    """

    members: dict[str, Element] = field(default_factory=dict)
    elements: list[Element] = field(default_factory=list)
    note: str = ""
    key: str = ""

    def get(self, name: str) -> Any:
        """Return the decoded value of a member, or None if it is missing or cannot be decoded."""
        return try_decode(self.members.get(name))


def make_run(members: dict[str, Element], key: str, elements: list[Element], note: str = "") -> Run:
    """Return a run made from an object: the message list in its member *key*, and all its other members."""
    return Run({name: value for name, value in members.items() if name != key}, elements, note, key)


def get_response(run: Run) -> dict[str, Any]:
    """Return the response logged beside a request (only its ``body`` if it has one), or {} if none was logged."""
    response = as_object(run.get("response"))
    return response["body"] if isinstance(response.get("body"), dict) else response


RunFinder = Callable[[list[Element]], list[Run]]
"""Function that finds the message lists in the values of a file: one document, or the values on its lines."""


def decode_element(element: Element) -> Any:
    """Return the decoded value of an element, or raise ValueError if it is not JSON or is nested too deeply."""
    if isinstance(element, BrokenElement):
        raise ValueError(element.reason)
    value = loads(memoryview(element)) if isinstance(element, msgspec.Raw) else element
    if is_nested_deeper(value):
        raise ValueError("nested too deeply")
    return value


def try_decode(element: Element) -> Any:
    """Return the decoded value of an element, or None if it cannot be decoded."""
    try:
        return decode_element(element)
    except ValueError:
        return None


def get_element_text(element: Element) -> str:
    """Return an element as JSON text."""
    if isinstance(element, BrokenElement):
        return element.text
    data = bytes(memoryview(element)) if isinstance(element, msgspec.Raw) else compact_json(element)
    return data.decode("utf-8", "replace")


def format_element(element: Element) -> str:
    """Return an element's text for display, cut after ``MAX_RAW_BYTES``."""
    if isinstance(element, msgspec.Raw):
        data = memoryview(element)
    else:
        data = memoryview(get_element_text(element).encode("utf-8", "replace"))
    return files.format_beginning(data, len(data))


def count_element_bytes(element: Element) -> int:
    """Return the size of an element's JSON text in bytes."""
    return len(memoryview(element)) if isinstance(element, msgspec.Raw) else len(get_element_text(element).encode())


def decode_members(element: Element) -> dict[str, Element] | None:
    """Return the members of a JSON object with their values still undecoded, or None for any other value."""
    return _decode_level(element, _decode_members, dict)


def decode_items(element: Element) -> list[Element] | None:
    """Return the items of a JSON array, still undecoded, or None for any other value."""
    return _decode_level(element, _decode_items, list)


def _decode_level(element: Element, decode: Callable[[memoryview], T], kind: type[T]) -> T | None:
    if isinstance(element, msgspec.Raw):
        with suppress(ValueError, RecursionError):
            return decode(memoryview(element))
    return element if isinstance(element, kind) else None


def encode_run(run: Run) -> bytes:
    """Return a run as a separate JSON document, with the exact text of its elements but without broken ones."""
    elements = b",".join(_encode_element(each) for each in run.elements if not isinstance(each, BrokenElement))
    if not run.key:
        return b"[%s]\n" % elements
    members = ((name, value) for name, value in run.members.items() if not isinstance(value, BrokenElement))
    encoded = {**{name: _encode_element(value) for name, value in members}, run.key: b"[%s]" % elements}
    return b"{%s}\n" % b",".join(b"%s:%s" % (compact_json(name), value) for name, value in encoded.items())


def _encode_element(element: Element) -> bytes:
    return bytes(memoryview(element)) if isinstance(element, msgspec.Raw) else encode_json(element)


def read_runs(path: Path, finder: RunFinder | None = None) -> list[Run]:
    """Read a file and return its runs in file order, as found by *finder* (default: :func:`find_runs`).

    Raises UnreadableSession if the file cannot be read, or holds no message list.
    """
    data = files.read_whole_file(path)
    try:
        values, torn = _parse_values(data)
    except ValueError as error:
        raise UnreadableSession(f"{path}: not valid JSON: {error}") from None
    runs = (finder or find_runs)(values)
    if not runs:
        raise UnreadableSession(f"{path}: holds no list of messages")
    if torn is not None:
        elements = runs[-1].elements
        if elements and get_element_text(elements[-1]).encode() not in data:  # only a part of an element
            elements.pop()
        elements.append(BrokenElement("the file is cut off here", torn))
    return runs


def read_head_run(head: bytes, lists: MessageLists = DEFAULT_MESSAGE_LISTS) -> Run | None:
    """Return the first run in the head of a file, or None if there is none. The head may end within a value."""
    return next(iter(find_runs(parse_first_values(head), lists)), None)


def parse_document(data: bytes) -> tuple[Element, str | None]:
    """Parse a JSON document, even if it was cut off, or raise ValueError.

    Returns the value, and the text after its last complete part (None if the document is complete).
    """
    with suppress(ValueError, RecursionError):
        return _decode_raw(data), None
    try:
        if reason := files.format_too_large(len(data)):  # the tolerant parser is slow, and needs several times the size
            raise ValueError(reason)
        return loads(data), None
    except ValueError as error:
        failure = error
    if prefix := find_complete_prefix(data):
        end, closers = prefix
        with suppress(ValueError, RecursionError):
            return _decode_raw(data[:end] + closers), files.format_beginning(memoryview(data)[end:], len(data) - end)
    raise failure


def _parse_values(data: bytes) -> tuple[list[Element], str | None]:
    try:
        value, torn = parse_document(data)
        return [value], torn
    except ValueError as error:
        if find_complete_prefix(data):
            raise
        failure = error
    values: list[Element] = []
    for line in data.split(b"\n"):
        try:
            values.append(_decode_raw(line))
        except (ValueError, RecursionError):
            try:
                values.extend(loads_all(line))
            except ValueError as error:
                values.append(BrokenElement(f"not JSON: {error}", line.decode("utf-8", "replace")))
    if all(isinstance(value, BrokenElement) for value in values):
        raise failure
    return values, None


def find_runs(values: list[Element], lists: MessageLists = DEFAULT_MESSAGE_LISTS) -> list[Run]:
    """Return the runs in the JSON values of a file: the values themselves as one run, or each list inside them."""
    if len(values) == 1 and (elements := decode_items(values[0])) is not None:
        values = elements
    if any(map(lists.is_element, values[:MAX_CHECKED_ELEMENTS])):
        return [Run({}, values)]
    return collect_runs(values, partial(_parse_run, lists=lists), "holds no list of messages")


def collect_runs(values: list[Element], parse: Callable[[Element], Run | None], problem: str) -> list[Run]:
    """Return the runs that *parse* finds in values. Any other value becomes a broken element of the run before it."""
    runs: list[Run] = []
    stray_elements: list[Element] = []
    for value in values:
        if run := parse(value):
            runs.append(run)
        else:
            element = value if isinstance(value, BrokenElement) else BrokenElement(problem, get_element_text(value))
            (runs[-1].elements if runs else stray_elements).append(element)
    if runs:
        runs[0].elements[:0] = stray_elements
    return runs


def _parse_run(element: Element, lists: MessageLists) -> Run | None:
    if (elements := decode_items(element)) is not None:
        return Run({}, elements) if any(map(lists.is_element, elements[:MAX_CHECKED_ELEMENTS])) else None
    members = decode_members(element)
    for _ in range(len(WRAPPER_KEYS) + 1):
        if members and (found := lists.find_lists(members)):
            key, note = _choose_sent_list(found, members) if len(found) > 1 else (next(iter(found)), "")
            return make_run(members, key, found[key], note)
        members = _unwrap_log_entry(members) if members else None
    return None


def _parse_text(element: Element) -> Any:
    if isinstance(element, msgspec.Raw) and bytes(memoryview(element)[:1]) == b'"':
        return try_decode(element)
    return element if isinstance(element, str) else None


def _choose_sent_list(lists: dict[str, list[Element]], members: dict[str, Element]) -> tuple[str, str]:
    """Return the name of the list closest in size to the recorded usage (or else of the first), and the reason."""
    sizes = {key: bytes_to_tokens(sum(map(count_element_bytes, elements))) for key, elements in lists.items()}
    list_names = " and ".join(f"{key} (est. {size:,} tokens)" for key, size in sizes.items())
    recorded = _parse_input_tokens(members.get("response"))
    key = min(sizes, key=lambda key: abs(sizes[key] - recorded)) if recorded else next(iter(lists))
    reason = f"it is closest to the recorded {recorded:,} tokens" if recorded else "no usage is recorded"
    return key, f"the file holds {list_names}; {key} is shown, as {reason}"


def _parse_input_tokens(response: Element) -> int:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    try:
        value = as_object(decode_element(response))
        usage = as_object(as_object(value.get("body", value)).get("usage"))
        prompt = parse_tokens(usage.get("prompt_tokens"), "prompt_tokens")
        return prompt or sum(parse_tokens(usage.get(name), name) for name in names)
    except ValueError:
        return 0


def _unwrap_log_entry(members: dict[str, Element]) -> dict[str, Element] | None:
    """Return a log entry's members merged with those of its request (object or JSON text), or None if it has none."""
    key = next((key for key in WRAPPER_KEYS if key in members), None)
    if key is None:
        return None
    inner = members[key]
    try:
        if (text := _parse_text(inner)) is not None:
            inner = loads(text)
    except (ValueError, TypeError):
        return None
    wrapped = decode_members(inner)
    return None if wrapped is None else {**{k: v for k, v in members.items() if k != key}, **wrapped}
