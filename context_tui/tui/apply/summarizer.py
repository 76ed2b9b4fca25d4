"""Choice of the summarizer, and one attempt to write a summary, with its drafts."""

from __future__ import annotations

import time
from collections.abc import Mapping

from context_tui.compaction.plan import Plan
from context_tui.errors import SummarizerError
from context_tui.summarizer.plan_summary import EXTRACT, SUMMARIZER_KINDS, Summarizer, choose_summarizer
from context_tui.summarizer.reply import Reply, ReplyEvent, ReplyNote, Summary, ThinkingDelta
from context_tui.tui.apply import texts
from context_tui.tui.drafts import Draft, DraftEnding, Drafts


class SummarizerChoice:
    """Summarizer chosen for a plan; ``summarizer`` is an error if it cannot be used.

    Args:
        kind, model, base_url: initial choice; None for the defaults.
        environ: environment with settings and keys; by default, the process environment.
    """

    def __init__(
        self, plan: Plan, kind: str, model: str | None, base_url: str | None, environ: Mapping[str, str] | None
    ) -> None:
        self._plan, self._environ = plan, environ
        self.kind, self._model, self._base_url = kind, model, base_url
        self.summarizer: Summarizer | SummarizerError = Summarizer()

    def choose(self, kind: str) -> None:
        """Choose a kind of summarizer, with the requested model and server."""
        self.kind = kind
        try:
            self.summarizer = choose_summarizer(self._plan, kind, self._model, self._base_url, environ=self._environ)
        except SummarizerError as error:
            self.summarizer = error

    @property
    def next_kind(self) -> str:
        """Kind after the chosen one, wrapping around."""
        return SUMMARIZER_KINDS[(SUMMARIZER_KINDS.index(self.kind) + 1) % len(SUMMARIZER_KINDS)]

    @property
    def model(self) -> str:
        """Model that the summary will be requested from; empty if unknown."""
        return self.summarizer.endpoints[0].model if isinstance(self.summarizer, Summarizer) else self._model or ""

    @property
    def base_url(self) -> str:
        """Base URL of the server that the summary will be requested from; empty if unknown."""
        if isinstance(self.summarizer, Summarizer):
            return self.summarizer.endpoints[0].base_url
        return self._base_url or ""

    @property
    def requested_server(self) -> tuple[str | None, str | None]:
        """Requested model and base URL; None for the defaults."""
        return self._model, self._base_url

    def set_model(self, name: str) -> None:
        """Set the model; an empty name selects the default."""
        self._model = name.strip() or None
        self.choose(self.kind)

    def set_server(self, base_url: str) -> None:
        """Set the server; an empty URL selects the default."""
        self._base_url = base_url.strip() or None
        self.choose(self.kind)


class SummaryAttempt:
    """Attempt to write a summary; *plan* is the key of its plan in *drafts*."""

    def __init__(self, drafts: Drafts, plan: str, summarizer: Summarizer) -> None:
        self._drafts, self._plan, self.summarizer = drafts, plan, summarizer
        self._reply, self._thinking, self._failed_calls, self._is_over = Reply(), 0, 0, False
        self._started = self._call_started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the attempt began."""
        return time.monotonic() - self._started

    @property
    def text(self) -> str:
        """Text received so far."""
        return self._reply.text

    @property
    def progress(self) -> str:
        """Progress, for the title of the summary."""
        return texts.format_progress(self.text, self._thinking, self.seconds)

    def update(self, event: ReplyEvent) -> None:
        """Process the next event; the text of a failed call becomes a draft when another call replaces it."""
        if isinstance(event, ReplyNote) and event.failed is not None:
            self._store_draft(DraftEnding.CUT_OFF, event.failed)
            self._reply, self._thinking, self._failed_calls = Reply(), 0, self._failed_calls + 1
            self._call_started = time.monotonic()
            return
        if isinstance(event, ThinkingDelta):
            self._thinking += event.chars
        self._reply.add(event)

    def finish(self, summary: Summary) -> Draft:
        """Store the complete summary as a draft."""
        self._is_over = True
        author = summary.model if self.summarizer.endpoints else EXTRACT
        return self._drafts.add(self._plan, self.summarizer.kind, author, summary)

    def stop(self) -> Draft | None:
        """Store the text so far as a draft; None if there is no text."""
        return self._end_once(DraftEnding.STOPPED)

    def fail(self, error: SummarizerError) -> Draft | None:
        """Store the text before the failure as a draft; None if there is no text."""
        return self._end_once(DraftEnding.CUT_OFF, error)

    def _end_once(self, ending: DraftEnding, error: SummarizerError | None = None) -> Draft | None:
        """End the attempt, unless it has ended: a stopped call may fail afterwards."""
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
