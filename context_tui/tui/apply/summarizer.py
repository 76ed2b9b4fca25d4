"""Choice of the summarizer, and an attempt at a summary with the drafts that it leaves."""

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
    """Summarizer chosen for a plan; ``summarizer`` is the error if it cannot be used.

    Args:
        kind, model, base_url: initial choice, from the command line or the configuration.
        environ: environment with settings and keys; the process's own by default.
    """

    def __init__(
        self, plan: Plan, kind: str, model: str | None, base_url: str | None, environ: Mapping[str, str] | None
    ) -> None:
        self._plan, self._environ = plan, environ
        self.kind, self._model, self._base_url = kind, model, base_url
        self.summarizer: Summarizer | SummarizerError = Summarizer()

    def choose(self, kind: str) -> None:
        """Choose a kind, with the model and server named for it."""
        self.kind = kind
        try:
            self.summarizer = choose_summarizer(self._plan, kind, self._model, self._base_url, environ=self._environ)
        except SummarizerError as error:
            self.summarizer = error

    @property
    def next_kind(self) -> str:
        """Return the kind after the chosen one, wrapping around."""
        return SUMMARIZER_KINDS[(SUMMARIZER_KINDS.index(self.kind) + 1) % len(SUMMARIZER_KINDS)]

    @property
    def model(self) -> str:
        """Model to be asked; empty for the default."""
        return self.summarizer.endpoints[0].model if isinstance(self.summarizer, Summarizer) else self._model or ""

    @property
    def base_url(self) -> str:
        """Server to be asked; empty for the default."""
        if isinstance(self.summarizer, Summarizer):
            return self.summarizer.endpoints[0].base_url
        return self._base_url or ""

    @property
    def requested_server(self) -> tuple[str | None, str | None]:
        """Model and server that were named; None for the default."""
        return self._model, self._base_url

    def set_model(self, name: str) -> None:
        """Set the model; an empty name is the default."""
        self._model = name.strip() or None
        self.choose(self.kind)

    def set_server(self, base_url: str) -> None:
        """Set the server; an empty address is the default."""
        self._base_url = base_url.strip() or None
        self.choose(self.kind)


class SummaryAttempt:
    """Attempt at a summary.

    Args:
        drafts, plan: store of drafts, and the plan of this one.
        summarizer: summarizer that writes the summary.
    """

    def __init__(self, drafts: Drafts, plan: str, summarizer: Summarizer) -> None:
        self._drafts, self._plan, self.summarizer = drafts, plan, summarizer
        self._reply, self._thinking, self._failed_calls, self._is_over = Reply(), 0, 0, False
        self._started = self._call_started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Duration so far."""
        return time.monotonic() - self._started

    @property
    def text(self) -> str:
        """Text so far."""
        return self._reply.text

    @property
    def progress(self) -> str:
        """Progress in words."""
        return texts.format_progress(self.text, self._thinking, self.seconds)

    def update(self, event: ReplyEvent) -> None:
        """Process the next event; the text of a failed call is kept when another call replaces it."""
        if isinstance(event, ReplyNote) and event.failed is not None:
            self._store_draft(DraftEnding.CUT_OFF, event.failed)
            self._reply, self._thinking, self._failed_calls = Reply(), 0, self._failed_calls + 1
            self._call_started = time.monotonic()
            return
        if isinstance(event, ThinkingDelta):
            self._thinking += event.chars
        self._reply.add(event)

    def finish(self, summary: Summary) -> Draft:
        """Keep the complete summary."""
        self._is_over = True
        by = summary.model if self.summarizer.endpoints else EXTRACT
        return self._drafts.add(self._plan, self.summarizer.kind, by, summary)

    def stop(self) -> Draft | None:
        """Keep the text so far; return None if there is none."""
        return self._end_once(DraftEnding.STOPPED)

    def fail(self, error: SummarizerError) -> Draft | None:
        """Keep the text before the failure; return None if there is none."""
        return self._end_once(DraftEnding.CUT_OFF, error)

    def _end_once(self, ending: DraftEnding, error: SummarizerError | None = None) -> Draft | None:
        """End the attempt once: a stopped call may fail afterwards."""
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
