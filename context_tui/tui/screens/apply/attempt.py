"""One time that a summarizer is asked: what has come of its reply, and what is kept of it whatever happens."""

from __future__ import annotations

import time

from context_tui.errors import SummarizerError
from context_tui.summarizer.plan_summary import EXTRACT, Summarizer
from context_tui.summarizer.reply import Reply, ReplyEvent, ReplyNote, Summary, ThinkingDelta
from context_tui.tui.drafts import Draft, DraftEnding, Drafts
from context_tui.tui.screens.apply import texts


class SummaryAttempt:
    """A summary that is being written.

    Args:
        drafts, plan: where what comes of it is kept, and for which plan.
        summarizer: who is asked.
    """

    def __init__(self, drafts: Drafts, plan: str, summarizer: Summarizer) -> None:
        self._drafts, self._plan, self.summarizer = drafts, plan, summarizer
        self._reply, self._thinking, self._failed_calls, self._is_over = Reply(), 0, 0, False
        self._started = self._call_started = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self._started

    @property
    def text(self) -> str:
        """The text so far."""
        return self._reply.text

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        return texts.format_progress(self.text, self._thinking, self.seconds)

    def update(self, event: ReplyEvent) -> None:
        """Take in the next event; where another call is made in place of a failed one, what that wrote is kept."""
        if isinstance(event, ReplyNote) and event.failed is not None:
            self._store_draft(DraftEnding.CUT_OFF, event.failed)
            self._reply, self._thinking, self._failed_calls = Reply(), 0, self._failed_calls + 1
            self._call_started = time.monotonic()
            return
        if isinstance(event, ThinkingDelta):
            self._thinking += event.chars
        self._reply.add(event)

    def finish(self, summary: Summary) -> Draft:
        """Keep the whole summary."""
        self._is_over = True
        by = summary.model if self.summarizer.endpoints else EXTRACT
        return self._drafts.add(self._plan, self.summarizer.kind, by, summary)

    def stop(self) -> Draft | None:
        """Keep what has come until now; None where that is nothing."""
        return self._end_once(DraftEnding.STOPPED)

    def fail(self, error: SummarizerError) -> Draft | None:
        """Keep what had come when it failed; None where that is nothing."""
        return self._end_once(DraftEnding.CUT_OFF, error)

    def _end_once(self, ending: DraftEnding, error: SummarizerError | None = None) -> Draft | None:
        """The first end counts: a call that was stopped may fail after that."""
        if self._is_over:
            return None
        self._is_over = True
        return self._store_draft(ending, error)

    def _store_draft(self, ending: DraftEnding, error: SummarizerError | None = None) -> Draft | None:
        endpoints = self.summarizer.endpoints
        asked = endpoints[min(self._failed_calls, len(endpoints) - 1)].model if endpoints else ""
        summary = self._reply.build_partial_summary(asked, time.monotonic() - self._call_started)
        if not summary.text:
            return None
        why = texts.format_failure_cause(error, summary) if error else ""
        return self._drafts.add(self._plan, self.summarizer.kind, summary.model or EXTRACT, summary, ending, why)
