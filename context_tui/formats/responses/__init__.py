"""OpenAI's Responses API: requests, responses, both logged together, or bare lists of items (JSON)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from context_tui.formats.base import ALL_FROM_SOURCE, Claim
from context_tui.formats.kit import response_items
from context_tui.formats.kit.document_scanner import DocumentFormat, copy_document
from context_tui.formats.kit.documents import read_head_run
from context_tui.formats.kit.response_items import is_item
from context_tui.formats.responses.reader import ITEM_LISTS, ResponsesShape
from context_tui.formats.responses.writer import write_request

__all__ = ["ResponsesFormat"]


class ResponsesFormat(DocumentFormat):
    """Format of Responses requests, responses and lists of items."""

    name: ClassVar[str] = "openai-responses"
    about: ClassVar[str] = "OpenAI Responses request, response or list of items (JSON, JSONL)"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl")
    from_source: ClassVar[str] = ALL_FROM_SOURCE
    shape = ResponsesShape

    unsupported_reason = staticmethod(response_items.unsupported_reason)
    write = staticmethod(write_request)
    copy = staticmethod(copy_document)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise items that only this API has, or a request with ``input`` and a model or instructions."""
        run = read_head_run(head, ITEM_LISTS)
        if run is None or run.get("messages") is not None:
            return None
        if run.key == "output":
            return Claim(90, "a response") if run.get("object") == "response" else None
        if any(map(is_item, run.elements)):
            return Claim(90, "items of the Responses API")
        is_described = isinstance(run.get("model"), str) or isinstance(run.get("instructions"), str)
        is_request = is_described or run.get("previous_response_id") is not None
        return Claim(88, "a request with input") if run.key == "input" and run.elements and is_request else None
