"""Histories for the tests of formats: random ones, and what to compare of two sessions."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from context_tui.formats.base import Format, Scanner, scan
from context_tui.session.facts import Facts
from context_tui.session.losses import format_losses
from context_tui.session.memory import from_messages
from context_tui.session.session import Session
from context_tui.tokens import estimate

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}

few = settings(max_examples=30)
"""For tests that write files: what they look for shows early or not at all."""

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | texts, lambda inner: st.lists(inner, max_size=3))
inputs = st.dictionaries(texts, values, max_size=3)


@st.composite
def histories(draw: st.DrawFn, *, rich: bool = True) -> list[dict[str, Any]]:
    """Valid histories; ``rich`` ones hold what only Anthropic's shape can: thinking, errors, several texts, images."""
    messages: list[dict[str, Any]] = []
    calls: list[str] = []
    for turn in range(draw(st.integers(1, 5))):
        results = [{"type": "tool_result", "tool_use_id": call, "content": draw(_bodies(rich))} for call in calls]
        for result in results:
            if rich and draw(st.booleans()):
                result["is_error"] = True
        typed = [{"type": "text", "text": draw(texts)} for _ in range(draw(st.integers(1, 2 if rich else 1)))]
        if rich and draw(st.booleans()):
            typed.append(dict(IMAGE))
        both = rich and draw(st.booleans())
        messages.append({"role": "user", "content": [*results, *(typed if both or not results else [])]})
        calls = [f"call-{turn}-{number}" for number in range(draw(st.integers(0, 3)))]
        spoken: list[dict[str, Any]] = [{"type": "text", "text": draw(texts) + "."}] if draw(st.booleans()) else []
        if rich and draw(st.booleans()):
            spoken.insert(0, {"type": "thinking", "thinking": draw(texts), "signature": "s"})
        names = st.sampled_from(["Read", "Bash", "apply_patch"])
        uses = [{"type": "tool_use", "id": call, "name": draw(names), "input": draw(inputs)} for call in calls]
        messages.append({"role": "assistant", "content": [*spoken, *uses] or [{"type": "text", "text": "Done."}]})
    return messages


def _bodies(rich: bool) -> st.SearchStrategy[Any]:
    blocks = st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts) | st.just(dict(IMAGE)), max_size=3)
    return texts | blocks | values if rich else texts


def written(form: Format, messages: list[dict[str, Any]], path: Path) -> tuple[Session, list[str]]:
    """A history written to *path* and read again, with what was lost; pairs and blank texts stay as they are."""
    why = [[form.unsupported_reason(message["role"], block) for block in message["content"]] for message in messages]
    held = [
        {**message, "content": [block for block, reason in zip(message["content"], reasons, strict=True) if not reason]}
        for message, reasons in zip(messages, why, strict=True)
    ]
    refused = Counter(reason for reasons in why for reason in reasons if reason)
    losses = form.write(from_messages(held), path)
    return opened(form, path), [*format_losses(refused), *losses.lines]


def opened(form: Format, path: Path, session_id: str | None = None) -> Session:
    """A session of a file (the first, or the one with this id), read to its end."""
    found = form.list_sessions(path)
    info = next(each for each in found if session_id is None or each.id == session_id)
    return scan(form.make_scanner(path, info))


def scanner_of(form: Format, path: Path) -> Scanner:
    """A scanner for the first session of a file."""
    return form.make_scanner(path, form.list_sessions(path)[0])


def measures(session: Session) -> list[int | None]:
    """The estimate of every message."""
    return [estimate(session.message(index)) for index in range(len(session))]


def columns(facts: Facts) -> dict[str, Any]:
    """Everything that was measured, for comparing two scans."""
    return {
        name: list(value) if isinstance(value, array) else value
        for name, value in vars(facts).items()
        if not name.startswith("_") and not name.endswith("_search")  # what was looked at, not what there is
    }


def put(path: Path, value: Any) -> Path:
    """Write *value* to *path* as JSON."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return path
