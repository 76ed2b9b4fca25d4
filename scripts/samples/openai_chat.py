"""`openai-chat.json`: a Chat Completions request with tool calls, and its response with cached tokens in its usage."""

from __future__ import annotations

import json
from typing import Any

from scripts.samples.claude import tokens

SYSTEM = """\
You help the readers of a public library. (A sample of context-tui: written by hand, nobody's real conversation.)
Search before you answer. Reserve only what the reader has asked for by name. Dates are DD.MM.YYYY."""


def function(name: str, about: str, **properties: str) -> dict[str, Any]:
    """A function as the request describes it; all its parameters are strings."""
    fields = {key: {"type": "string", "description": value} for key, value in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


TOOLS = [
    function("search_catalogue", "Find titles in the catalogue.", query="words of the title, author or subject"),
    function("get_title", "All about one title: copies, branches, due dates.", title_id="its id, like T-1042"),
    function("reserve", "Reserve a copy for the reader.", title_id="its id", branch="where it is picked up"),
]

BOOKS = (
    ("T-1042", "The Carpenter's Year", "A. Lindqvist", 2011, "wood; tools; seasons"),
    ("T-1077", "Joints Without Glue", "P. Okafor", 2018, "wood; joinery; Japan"),
    ("T-1103", "A Workbench of One's Own", "M. Duarte", 2020, "wood; workbench; plans"),
    ("T-2210", "Sharp: On Edges and How to Keep Them", "K. Brandt", 2015, "tools; sharpening"),
    ("T-2388", "Chairs for Small Rooms", "L. Moreau", 2009, "furniture; chairs; plans"),
    ("T-3120", "The Green Timber House", "S. Ito", 2022, "building; timber; drying"),
)


class Chat:
    """The messages while they are written."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        self._calls = 0

    def user(self, text: str) -> None:
        """What the reader says."""
        self.messages.append({"role": "user", "content": text})

    def say(self, text: str) -> None:
        """An answer without a call."""
        self.messages.append({"role": "assistant", "content": text})

    def call(self, *calls: tuple[str, dict[str, str], object]) -> None:
        """Tool calls of one answer, and a message for the result of each."""
        tool_calls, results = [], []
        for name, arguments, result in calls:
            self._calls += 1
            call_id = f"call_library_{self._calls:03}"
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            tool_calls.append({"id": call_id, "type": "function", "function": function})
            content = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
            results.append({"role": "tool", "tool_call_id": call_id, "content": content})
        self.messages += [{"role": "assistant", "content": None, "tool_calls": tool_calls}, *results]


def found(*words: str) -> list[dict[str, Any]]:
    """What the catalogue answers."""
    names = ("id", "title", "author", "year", "subjects")
    return [dict(zip(names, book, strict=True)) for book in BOOKS if any(word in str(book).lower() for word in words)]


def copies(title_id: str, due: str) -> dict[str, Any]:
    """All about one title."""
    book = next(book for book in BOOKS if book[0] == title_id)
    shelves = [("Main", "in"), ("Harbour", f"due {due}"), ("North", "in transit"), ("School bus", "in")]
    copies_held = [
        {"copy": f"{title_id}-{number}", "branch": branch, "state": state, "shelf": f"Tec {400 + number}"}
        for number, (branch, state) in enumerate(shelves, 1)
    ]
    about = f"{book[1]} by {book[2]} ({book[3]}). " + "From the publisher: a book for patient hands. " * 6
    return {"id": title_id, "title": book[1], "about": about.strip(), "copies": copies_held, "reservations": 2}


def build() -> bytes:
    """The request and its response."""
    chat = Chat()
    chat.user("I have a small flat and want to build a bench without screws. What do you have?")
    chat.call(
        ("search_catalogue", {"query": "workbench"}, found("workbench")),
        ("search_catalogue", {"query": "joinery"}, found("joinery", "joints")),
    )
    chat.say("Two fit: *A Workbench of One's Own* (T-1103) has plans, *Joints Without Glue* (T-1077) shows the joints.")
    chat.user("Is the second one in, near the harbour?")
    chat.call(("get_title", {"title_id": "T-1077"}, copies("T-1077", "28.11.2026")))
    chat.say("The copy at Harbour is due back on 28.11.2026. Main and the school bus have one on the shelf.")
    chat.user("Then the workbench one too: get me both at Main, please.")
    chat.call(
        ("get_title", {"title_id": "T-1103"}, copies("T-1103", "02.12.2026")),
        ("reserve", {"title_id": "T-1077", "branch": "Main"}, {"ok": True, "ready": "23.11.2026"}),
    )
    chat.call(("reserve", {"title_id": "T-1103", "branch": "Main"}, "error: the catalogue did not answer in time"))
    chat.call(("reserve", {"title_id": "T-1103", "branch": "Main"}, {"ok": True, "ready": "23.11.2026"}))
    answer = (
        "Both are reserved for you at Main, ready on 23.11.2026. (The second took two attempts; it is reserved once.)"
    )
    request = {
        "model": "gpt-4o-2024-11-20",
        "temperature": 0.2,
        "parallel_tool_calls": True,
        "tools": TOOLS,
        "messages": chat.messages,
    }
    prompt = tokens(request)
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": len(answer) // 4,
        "total_tokens": prompt + len(answer) // 4,
        "prompt_tokens_details": {"cached_tokens": prompt // 128 * 128 - 128, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
    response = {
        "id": "chatcmpl-sample",
        "object": "chat.completion",
        "created": 1_795_212_000,
        "model": request["model"],
    }
    response |= {"choices": [choice], "usage": usage}
    return json.dumps({"request": request, "response": response}, ensure_ascii=False, indent=1).encode() + b"\n"
