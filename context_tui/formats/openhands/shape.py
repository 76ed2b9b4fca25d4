"""How a history of OpenHands is understood, whichever generation it is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_tui.formats.kit.document_scanner import DocumentShape
from context_tui.formats.kit.documents import Run
from context_tui.formats.kit.message_builder import MessageBuilder, MessagePart
from context_tui.formats.openhands import events
from context_tui.formats.openhands.legacy import LegacyEventParser
from context_tui.formats.openhands.runs import find_stats
from context_tui.formats.openhands.views import EventView
from context_tui.session.facts import Usage
from context_tui.session.validation import truncate_name


class OpenHandsShape(DocumentShape):
    """Events, each understood by its generation: those of the SDK have a ``kind``."""

    def __init__(self) -> None:
        self._usages: Mapping[str, Usage] = {}
        self._view, self._legacy = EventView(), LegacyEventParser()

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        """Take the model, the window and what each response took, as far as they stand beside the events."""
        builder.facts.input_includes_cache = True
        self._usages, window = events.parse_usages(find_stats(run))
        builder.facts.window = window or None
        agent, metadata = run.get("agent"), run.get("metadata")
        configured = agent.get("llm") if isinstance(agent, dict) else None
        if isinstance(metadata, dict):
            configured = metadata.get("llm_config") or configured
        if isinstance(configured, dict) and isinstance(model := configured.get("model"), str):
            builder.facts.model = truncate_name(model)

    def parse(self, value: Any, place: int) -> MessagePart:
        """What an event says."""
        if not isinstance(value, dict):
            raise ValueError("not an event: not a JSON object")
        if isinstance(value.get("kind"), str):
            return events.parse_event(value, self._view, self._usages)
        return self._legacy.part(value, place)
