"""Instructions before a recorded compaction and their outcomes: a line of counts, and a screen that lists them."""

from __future__ import annotations

from collections.abc import Iterator

from context_tui.summarizer.checks.instruction_survival import (
    CompactionInstructions,
    InstructionSource,
    InstructionTrace,
    Outcome,
)
from context_tui.text.numbers import format_count
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.terminal.themes import BOLD, MUTED, WARN
from context_tui.tui.widgets.bindings import read_bindings
from context_tui.tui.widgets.styled_text import Run
from context_tui.tui.widgets.text_screen import TextScreen

EXPLANATIONS = {
    Outcome.ABSENT: "no sentence of the new context has enough of its words",
    Outcome.IN_OTHER_WORDS: "a sentence of the summary has most of the words; judge whether it says the same",
    Outcome.IN_SUMMARY: "word for word in the summary",
    Outcome.PUT_BACK: "word for word in another message of the new context",
    Outcome.IN_CONTEXT: "the message stayed in the context",
}
"""Outcomes in the order in which they are listed, each with what it means."""


class InstructionsScreen(TextScreen[None]):
    """A screen that lists the instructions before a compaction, grouped by outcome."""

    BINDINGS = read_bindings("instructions")


def format_outcomes(instructions: CompactionInstructions) -> list[Run]:
    """Format in one line how many instructions have each outcome, with the key that lists them."""
    counts = [(outcome, instructions.count(outcome)) for outcome in EXPLANATIONS]
    text = ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts if count)
    style = WARN if instructions.count(Outcome.ABSENT) else BOLD
    runs: list[Run] = [("instructions ", MUTED), (text, style), (" (i lists them)", MUTED)]
    if count := len(instructions.contradictions):
        runs.insert(2, (f", {count:,} contradicted later", WARN))
    return runs


def build_instructions_screen(instructions: CompactionInstructions) -> InstructionsScreen:
    """Build the screen that lists the instructions before a compaction, grouped by outcome."""
    count = format_count(len(instructions.traces), "instruction")
    return InstructionsScreen(f"{count} before #{instructions.message:,}", _build_parts(instructions))


def _build_parts(instructions: CompactionInstructions) -> Iterator[TextPart]:
    for outcome, explanation in EXPLANATIONS.items():
        traces = [trace for trace in instructions.traces if trace.outcome is outcome]
        traces.sort(key=lambda trace: trace.placed.source is not InstructionSource.USER)  # typed ones first
        if traces:
            yield TextPart(f"{len(traces):,} {outcome.value}", "heading")
            yield TextPart(explanation, "muted")
            for trace in traces:
                yield from _build_trace_parts(trace)
            yield TextPart("")


def _build_trace_parts(trace: InstructionTrace) -> Iterator[TextPart]:
    placed = trace.placed
    author = "typed" if placed.source is InstructionSource.USER else placed.source.value
    yield TextPart(f"#{placed.message:,} {author}: {placed.instruction.text}")
    if trace.evidence:
        yield TextPart(f"  summary: {trace.evidence}", "muted")
    if trace.contradicted_at is not None:
        yield TextPart(f"  ! #{trace.contradicted_at:,} does what it forbids, as it seems")
