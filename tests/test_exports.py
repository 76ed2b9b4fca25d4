"""Exports tell the truth and are valid: for every policy, at any point, in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.exports import defects
from tests.vendors import refused

SAMPLES = sorted(
    path
    for path in (Path(__file__).parents[1] / "sample_sessions").iterdir()
    if path.suffix in (".json", ".jsonl", ".db")
)
CORPUS = Path(__file__).parents[2] / "shared" / "corpus"


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in SAMPLES])
def test_samples(path: Path, tmp_path: Path) -> None:
    assert defects(path, 3, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in SAMPLES])
def test_samples_at_more_points(path: Path, tmp_path: Path) -> None:
    assert defects(path, 20, tmp_path) == []


def recordings() -> list[Any]:
    """The files of the corpus that can be read; one that is skipped where there is none."""
    if not CORPUS.is_dir():
        return [pytest.param(CORPUS, marks=pytest.mark.skip("no ../shared/corpus beside the checkout"))]
    from tests.test_corpus import FILES

    return [pytest.param(path, id=str(path.relative_to(CORPUS))) for path in FILES]


@pytest.mark.slow
@pytest.mark.parametrize("path", recordings())
def test_recordings(path: Path, tmp_path: Path) -> None:
    assert defects(path, 10, tmp_path) == []


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "fallback", "from": "a", "to": "b"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "redacted_thinking"},
        {**text("x"), "more": 1},
        {"type": "tool_result", "tool_use_id": "1", "content": {"a": 1}},
        {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "unknown"}]},
        {"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": ""}},
    ],
)
def test_the_vendor_types_refuse_what_the_endpoint_does(block: dict[str, Any]) -> None:
    assert refused("anthropic", {"messages": [{"role": "assistant", "content": [block]}]})
    assert not refused("anthropic", {"messages": [{"role": "assistant", "content": [text("x")]}]})


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "tool", "content": "no id"},
        {"role": "user", "content": [{"type": "unknown"}]},
        {"role": "user", "content": [{**text("x"), "more": 1}]},
        {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "assistant", "content": None, "reasoning_content": "hm"},
    ],
)
def test_the_other_vendor_types_do_too(message: dict[str, Any]) -> None:
    assert refused("openai", {"messages": [message]})
    assert not refused("openai", {"messages": [{"role": "user", "content": [text("x")]}]})
