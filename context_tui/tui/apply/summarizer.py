"""Choice of the summarizer, and one attempt to write a summary, with its drafts."""

from __future__ import annotations

import time
from collections.abc import Mapping

from context_tui.compaction.plan import Plan
from context_tui.errors import SummarizerError
from context_tui.summarizer.plan_summary import EXTRACT, Summarizer, choose_summarizer
from context_tui.summarizer.reply import Reply, ReplyEvent, ReplyNote, Summary, ThinkingDelta
from context_tui.tui.apply import texts
from context_tui.tui.drafts import Draft, DraftEnding, Drafts


class SummarizerChoice:
    """The choice of a summarizer for a plan; ``summarizer`` is an error if the chosen one cannot be used.

    *drafts* holds the requested model and server.
    """

    def __init__(self, plan: Plan, kind: str, drafts: Drafts, environ: Mapping[str, str] | None) -> None:
        self._plan, self._drafts, self._environ, self.kind = plan, drafts, environ, kind
        self.summarizer: Summarizer | SummarizerError = Summarizer()

    def choose(self, kind: str) -> None:
        """Choose a kind of summarizer, keeping the requested model and server."""
        self.kind = kind
        try:
            self.summarizer = choose_summarizer(self._plan, kind, *self._drafts.requested_server, environ=self._environ)
        except SummarizerError as error:
            self.summarizer = error

    @property
    def model(self) -> str:
        """The model that will write the summary, or "" if unknown."""
        if isinstance(self.summarizer, Summarizer):
            return self.summarizer.endpoints[0].model
        return self._drafts.requested_server.model or ""

    @property
    def base_url(self) -> str:
        """The base URL of the server that the messages will be sent to, or "" if unknown."""
        if isinstance(self.summarizer, Summarizer):
            return self.summarizer.endpoints[0].base_url
        return self._drafts.requested_server.base_url or ""

    def request(self, name: str, value: str) -> None:
        """Set the request's ``model`` or ``base_url`` (*name*) to *value*, or to the default if *value* is empty."""
        server = self._drafts.requested_server
        self._drafts.requested_server = server._replace(**{name: value.strip() or None})
        self.choose(self.kind)


class SummaryAttempt:
    """One attempt to write a summary; *plan* is the key under which *drafts* stores the results."""

    def __init__(self, drafts: Drafts, plan: str, summarizer: Summarizer) -> None:
        self._drafts, self._plan, self.summarizer = drafts, plan, summarizer
        self._reply, self._thinking, self._failed_calls, self._is_over = Reply(), 0, 0, False
        self._started = self._call_started = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since the attempt began."""
        return time.monotonic() - self._started

    @property
    def text(self) -> str:
        """The text received so far in the current call."""
        return self._reply.text

    @property
    def progress(self) -> str:
        """The progress of the attempt as text, for the summary's title."""
        return texts.format_progress(self.text, self._thinking, self.seconds)

    def update(self, event: ReplyEvent) -> None:
        """Add an event to the reply; if it reports that a call failed, store that call's text as a draft first."""
        if isinstance(event, ReplyNote) and event.failed is not None:
            self._store_draft(DraftEnding.CUT_OFF, event.failed)
            self._reply, self._thinking, self._failed_calls = Reply(), 0, self._failed_calls + 1
            self._call_started = time.monotonic()
            return
        if isinstance(event, ThinkingDelta):
            self._thinking += event.chars
        self._reply.add(event)

    def finish(self, summary: Summary) -> Draft:
        """End the attempt, and store and return the complete summary as a draft."""
        self._is_over = True
        author = summary.model if self.summarizer.endpoints else EXTRACT
        return self._drafts.add(self._plan, self.summarizer.kind, author, summary)

    def stop(self) -> Draft | None:
        """End the attempt. Store and return the text so far as a draft, or return None if there is none."""
        return self._end_once(DraftEnding.STOPPED)

    def fail(self, error: SummarizerError) -> Draft | None:
        """End the attempt after *error*. Store and return the text so far as a draft; return None without any text."""
        return self._end_once(DraftEnding.CUT_OFF, error)

    def _end_once(self, ending: DraftEnding, error: SummarizerError | None = None) -> Draft | None:
        """End the attempt, or return None if it has already ended, as a stopped call may fail afterwards."""
        if self._is_over:
            return None
        self._is_over = True
        return self._store_draft(ending, error)

    def _store_draft(self, ending: DraftEnding, error: SummarizerError | None = None) -> Draft | None:
        endpoints = self.summarizer.endpoints
        model = endpoints[min(self._failed_calls, len(endpoints) - 1)].model if endpoints else ""
        summary = self._reply.build_partial_summary(model, time.monotonic() - self._call_started)
        if not summary.text:
            return None
        cause = texts.format_failure_cause(error, summary) if error else ""
        return self._drafts.add(self._plan, self.summarizer.kind, summary.model or EXTRACT, summary, ending, cause)
