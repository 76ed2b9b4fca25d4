"""The screen that turns a plan into a new session: nothing is sent, and nothing changes, before a key says so."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from context_tui.compaction.apply import apply
from context_tui.compaction.plan import Plan
from context_tui.errors import Error, SummarizerError
from context_tui.sanitize import sanitize
from context_tui.session.session import Session
from context_tui.summarizer.reply import Event, Note, Reply, Summary, Thinking
from context_tui.summarizing import EXTRACT, KINDS, Prepared, Summarizer, blocking_checks, prepare, write
from context_tui.tui.screens.apply import words
from context_tui.tui.screens.apply.background import in_background
from context_tui.tui.screens.apply.choosing import Choosing
from context_tui.tui.screens.apply.draft import Draft, Drafts
from context_tui.tui.screens.apply.face import Phase
from context_tui.tui.screens.reading import Part, ReadingPane

if TYPE_CHECKING:
    import httpx
    from textual.worker import Worker

TICK = 0.08
"""Seconds between repaints of a summary that is being written."""


class ApplyScreen(Choosing):
    """Closes with the new session, or with None when nothing was accepted.

    Args:
        session: the session that the plan is for.
        plan: a plan that summarises; any other is carried out at once.
        drafts: where drafts are kept between visits; by default in ``app.drafts``.
        kind, model, base_url: the summarizer to begin with, as the command line or the configuration named it.
        environ: the environment that settings and keys come from; the process's own by default.
        transport: another way to carry requests, for tests.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "begin", "send", id="apply-begin", tooltip="Send the head, and have the summary written"),
        Binding("enter", "why", "", show=False, id="apply-why"),
        Binding("a", "accept", "accept", id="apply-accept", tooltip="Make the new session with this summary"),
        Binding("e", "edit", "edit", id="apply-edit", tooltip="Change the summary by hand"),
        Binding("r", "retry", "retry", id="apply-retry", tooltip="Have it written once more"),
        Binding("s", "next_summarizer", "summarizer", id="apply-summarizer", tooltip="Extract, or a model"),
        Binding("m", "mask", "mask", id="apply-mask", tooltip="Mask suspected secrets, or send them"),
        Binding("n", "model", "model", id="apply-model", tooltip="Name another model"),
        Binding("u", "url", "server", id="apply-url", tooltip="Name another server (base URL)"),
        *(
            Binding(str(n), f"choose('{kind}')", kind, show=False, id=f"apply-{kind}", tooltip=f"Summarise by {kind}")
            for n, kind in enumerate(KINDS, 1)
        ),
        Binding("escape", "cancel", "cancel", id="apply-cancel", tooltip="Stop the summary that is being written"),
        Binding("escape", "finish", "finish editing", id="apply-finish", tooltip="Keep the edited summary"),
        Binding("escape", "close", "close", id="apply-close", tooltip="Close; a draft is kept"),
    ]

    def __init__(
        self,
        session: Session,
        plan: Plan,
        *,
        drafts: Drafts | None = None,
        kind: str = EXTRACT,
        model: str | None = None,
        base_url: str | None = None,
        environ: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(session, plan, {} if drafts is None else drafts, kind)
        self._wanted, self._homeless = kind, drafts is None
        self._model, self._base_url, self._environ, self._transport = model, base_url, environ, transport
        self._reply, self._thinking, self._started = Reply(), 0, 0.0
        self._writer: Worker[None] | None = None
        self._warned = False

    def on_mount(self) -> None:
        """Choose the summarizer, and read the head beside; a plan without a summary needs neither."""
        if not self.plan.summarises:
            self.dismiss(apply(self.session, self.plan))
            return
        if self._homeless:
            self._keep_drafts(vars(self.app).setdefault("drafts", {}), self._wanted)
        self.query_one("#apply-head").border_title = "head"
        self.query_one("#apply-editor").border_title = "summary, edited by hand"
        self._choose(self.kind)
        self.query_one("#apply-head").focus()
        self.run_worker(self._read(), group="read", exit_on_error=False)

    async def _read(self) -> None:
        try:
            self.prepared = await in_background(lambda: _prepared(self.plan))
        except (Error, OSError, ValueError) as error:
            self._say(f"✗ the head cannot be read: {error}", "error")
            return
        self.phase = Phase.READY
        self._show_head()
        self._enter()

    def _enter(self) -> None:
        """Begin with the summarizer that is chosen: its draft, a fresh extract, or the question whether to ask."""
        if self.draft is not None:
            self._done()
        elif self.kind == EXTRACT and self.prepared:
            self.action_begin()
        else:
            self.phase = Phase.READY if self.prepared else Phase.READING
            self._refresh_all()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done now."""
        phase, usable = self.phase, not isinstance(self.chosen, SummarizerError)
        resting = phase in (Phase.READY, Phase.DONE, Phase.FAILED)
        match action:
            case "begin":
                return phase is Phase.READY and usable
            case "why":
                return phase is Phase.READY and not usable
            case "accept" | "edit":
                return phase is Phase.DONE
            case "retry":
                return phase in (Phase.DONE, Phase.FAILED) and usable
            case "mask":
                return resting and bool(self.prepared and self.prepared.secrets(self.kind))
            case "next_summarizer" | "choose":
                return resting or phase is Phase.READING
            case "model" | "url":
                return phase in (Phase.READY, Phase.FAILED) and self.kind != EXTRACT
            case "cancel":
                return phase is Phase.WRITING
            case "finish":
                return phase is Phase.EDITING
            case "close":
                return phase not in (Phase.WRITING, Phase.EDITING)
        return True

    # -- writing

    def action_begin(self) -> None:
        """Have the summary written."""
        if isinstance(self.chosen, SummarizerError) or self.prepared is None or self.phase is Phase.WRITING:
            return
        self.phase, self._cancelled = Phase.WRITING, ""
        self._reply, self._thinking, self._started = Reply(), 0, time.monotonic()
        self._say("")
        self.query_one("#apply-summary", ReadingPane).show([])
        self._refresh_all()
        self._tick()
        self._writer = self.run_worker(
            self._write(self.chosen, self.prepared), group="write", exclusive=True, exit_on_error=False
        )

    def action_why(self) -> None:
        """Say why nothing can be asked."""
        self._say(f"✗ nothing to send to: {self.chosen}", "error")

    def action_retry(self) -> None:
        """Have it written once more; the draft stays until the new one is there."""
        self.action_begin()

    async def _write(self, chosen: Summarizer, prepared: Prepared) -> None:
        ticking = self.set_interval(TICK, self._tick)
        try:
            summary = await write(chosen, prepared, self._heard, transport=self._transport)
        except SummarizerError as error:
            self._failed(error)
            return
        finally:
            ticking.stop()
        self._take(summary, chosen)

    def _heard(self, event: Event) -> None:
        if isinstance(event, Note):
            self._say(event.text)
            if event.restart:
                self._reply, self._thinking = Reply(), 0
                return
        if isinstance(event, Thinking):
            self._thinking += event.chars
        self._reply.add(event)

    def _tick(self) -> None:
        if self.phase is Phase.WRITING:
            text = self._reply.text
            pane = self.query_one("#apply-summary", ReadingPane)
            if text != pane.given:
                pane.show_text(text, follow=True)
            self._name_summary(words.progress(text, self._thinking, time.monotonic() - self._started))

    def _take(self, summary: Summary, chosen: Summarizer) -> None:
        by = summary.model if chosen.endpoints else EXTRACT
        self._drafts[self._key, self.kind] = Draft(self.kind, by, summary, summary.text)
        if summary.notes:
            self._say(" · ".join(summary.notes))
        self._done()

    def _done(self) -> None:
        self.phase, self._warned = Phase.DONE, False
        if self.draft:
            self.query_one("#apply-summary", ReadingPane).show_text(self.draft.text)
        self._refresh_all()
        self.query_one("#apply-summary").focus()

    def _failed(self, error: SummarizerError) -> None:
        self.phase = Phase.FAILED
        partial = getattr(error, "partial", "")
        parts = [Part("No summary; the session is as it was.", "heading")]
        if partial:
            parts += [Part("\nwhat had come until then:", "muted"), Part(partial, "muted")]
        self.query_one("#apply-summary", ReadingPane).show(parts)
        self._name_summary("summary")
        self._say(f"✗ {error}", "error")
        self._refresh_all()

    def action_cancel(self) -> None:
        """Stop the summary that is being written; an earlier draft stays."""
        if self._writer:
            self._writer.cancel()
        self.phase = Phase.READY
        seconds = f"cancelled after {time.monotonic() - self._started:.0f} s"
        if self.draft:
            self._done()
        else:
            self._cancelled = seconds
            self._refresh_all()
        self._say(f"{seconds}; the session is as it was")

    def action_close(self) -> None:
        """Close without a result; a draft is kept."""
        self.dismiss(None)

    # -- deciding

    def action_edit(self) -> None:
        """Change the summary by hand."""
        if self.draft:
            self.phase = Phase.EDITING
            editor = self.query_one("#apply-editor", TextArea)
            editor.text = sanitize(self.draft.text)
            self._refresh_all()
            editor.focus()
            self._say("esc when it is done; ctrl+z takes back")

    def action_finish(self) -> None:
        """Keep the edited summary, and check it again."""
        draft, text = self.draft, self.query_one("#apply-editor", TextArea).text
        if draft and text != sanitize(draft.text):
            self._drafts[self._key, self.kind] = Draft(draft.kind, draft.by, draft.summary, text)
        self._say("")
        self._done()

    def action_accept(self) -> None:
        """Make the new session; a summary that fails a blocking check has to be accepted twice."""
        draft = self.draft
        if draft is None or self.prepared is None:
            return
        wrong = blocking_checks(self._checks(draft))
        if wrong and not self._warned:
            self._warned = True
            self._say(f"✗ {wrong[0].name}: {wrong[0].detail}; press a again to accept it all the same", "error")
            return
        try:
            self.dismiss(apply(self.session, self.plan, draft.text))
        except Error as error:
            self._say(f"✗ {error}", "error")


def _prepared(plan: Plan) -> Prepared:
    """What a plan's summary needs; its secrets are counted now, and not while a key waits."""
    made = prepare(plan)
    for kind in KINDS:
        made.secrets(kind)
    return made
