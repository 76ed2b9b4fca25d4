"""Which rows of the timeline are listed. Pure: a filter is asked about one row at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

LABELS = {
    "system": "system prompt",
    "tool_use": "calls",
    "tool_result": "results",
    "user": "user",
    "assistant": "assistant",
}


@dataclass(frozen=True)
class Filter:
    """Conditions that a row must meet all of; an empty one is no condition.

    ``category`` is a category of the breakdown, ``verdict`` one of a plan's, ``path`` a file that was read.
    """

    category: str = ""
    tool: str = ""
    path: str = ""
    verdict: str = ""
    min_tokens: int = 0

    def __bool__(self) -> bool:
        return self != EVERYTHING

    def with_(self, kind: str, value: str | int) -> Filter:
        """The same with one condition set; setting it to what it is takes it away again."""
        empty = 0 if kind == "min_tokens" else ""
        return replace(self, **{kind: empty if getattr(self, kind) == value else value})  # type: ignore[arg-type]

    def describe(self) -> str:
        """The filter in words, for a title."""
        found = [LABELS.get(self.category, self.category.replace("_", " "))] if self.category else []
        found += [self.tool] if self.tool else []
        found += [self.path] if self.path else []
        found += [self.verdict] if self.verdict else []
        found += [f"est. {self.min_tokens:,} tokens or more"] if self.min_tokens else []
        return ", ".join(found)


EVERYTHING = Filter()
