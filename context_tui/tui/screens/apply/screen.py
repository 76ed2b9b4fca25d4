"""The screen that turns a plan into a new session: nothing is sent, and nothing changes, before a key says so."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static, TextArea

from context_tui.compaction.apply import apply
from context_tui.compaction.plan import Plan
from context_tui.errors import Error, SummarizerError
from context_tui.sanitize import sanitize, sanitize_line
from context_tui.session.session import Session
from context_tui.summarizer.reply import Event, Note, Reply, Summary, Thinking
from context_tui.summarizer.summary_checks import Check
from context_tui.summarizing import EXTRACT, KINDS, Prepared, Summarizer, blocking_checks, prepare, write
from context_tui.tui.screens.apply import texts
from context_tui.tui.screens.apply.choice import SummarizerChoice
from context_tui.tui.screens.apply.drafts import Draft, Drafts, last_kind, plan_key
from context_tui.tui.screens.dialogs import InputPrompt
from context_tui.tui.threads import run_in_thread
from context_tui.tui.widgets.reading_pane import Part, ReadingPane

if TYPE_CHECKING:
    import httpx
    from textual.worker import Worker

TICK = 0.08
"""Seconds between repaints of a summary that is being written."""


class Phase(Enum):
    """What the screen is doing."""

    READING = "reading the head"
    READY = "waiting for the word to begin"
    WRITING = "a summary is being written"
    DONE = "a summary is there"
    EDITING = "the summary is being edited"
    FAILED = "there is no summary"


class ApplyScreen(ModalScreen[Session | None]):
    """Closes with the new session, or with None when nothing was accepted.

    Args:
        session: the session that the plan is for.
        plan: a plan that summarises; any other is carried out at once.
        drafts: where drafts are kept between visits; by default in ``app.drafts``.
        kind, model, base_url: the summarizer to begin with, as the command line or the configuration named it.
        environ: the environment that settings and keys come from; the process's own by default.
        transport: another way to carry requests, for tests.
    """

    CSS_PATH = "apply.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (76, "-wide")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "begin", "send", id="apply-begin", tooltip="Send the messages; the model writes the summary"),
        Binding("enter", "why", "", show=False, id="apply-why"),
        Binding("a", "accept", "accept", id="apply-accept", tooltip="Apply the plan with this summary"),
        Binding("e", "edit", "edit", id="apply-edit", tooltip="Edit the summary"),
        Binding("r", "retry", "retry", id="apply-retry", tooltip="Write the summary again"),
        Binding("s", "next_summarizer", "summarizer", id="apply-summarizer", tooltip="Choose the next summarizer"),
        Binding("m", "mask", "mask", id="apply-mask", tooltip="Mask suspected secrets, or send them unmasked"),
        Binding("n", "model", "model", id="apply-model", tooltip="Set the model"),
        Binding("u", "url", "server", id="apply-url", tooltip="Set the server (base URL)"),
        *(
            Binding(str(n), f"choose('{kind}')", kind, show=False, id=f"apply-{kind}", tooltip=f"Summarise by {kind}")
            for n, kind in enumerate(KINDS, 1)
        ),
        Binding("escape", "cancel", "cancel", id="apply-cancel", tooltip="Stop writing the summary"),
        Binding("escape", "finish", "finish editing", id="apply-finish", tooltip="Keep the edited summary"),
        Binding("escape", "close", "close", id="apply-close", tooltip="Close; drafts are kept"),
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
        super().__init__()
        self.session, self.plan = session, plan
        self.phase = Phase.READING
        self.prepared: Prepared | None = None
        self._key = plan_key(session, plan)
        self._drafts, self._shared = ({}, True) if drafts is None else (drafts, False)
        self._summarizer = SummarizerChoice(plan, kind, model, base_url, environ)
        self._transport = transport
        self._reply, self._thinking, self._started = Reply(), 0, 0.0
        self._cancelled = ""
        self._writer: Worker[None] | None = None
        self._warned = False

    def compose(self) -> ComposeResult:
        """Who is asked, the head, the summary with its checks, and a line for what happened."""
        yield Static(texts.title(self.plan), id="apply-title", markup=False)
        yield Static("", id="apply-choices", markup=False)
        yield Static("", id="apply-where", markup=False)
        yield Static("", id="apply-secrets", markup=False)
        with Horizontal(id="apply-panes"):
            yield ReadingPane(id="apply-head")
            with Vertical(id="apply-right"):
                yield ReadingPane(id="apply-summary")
                yield TextArea(id="apply-editor", soft_wrap=True)
                yield Static("", id="apply-checks", markup=False)
        yield Static("", id="apply-status", markup=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Choose the summarizer, and read the head beside; a plan without a summary needs neither."""
        if not self.plan.summarises:
            self.dismiss(apply(self.session, self.plan))
            return
        if self._shared:
            self._drafts = vars(self.app).setdefault("drafts", {})
        self.query_one("#apply-head").border_title = "to be summarised"
        self.query_one("#apply-editor").border_title = "summary, editing"
        self._choose(last_kind(self._drafts, self._key, self.kind))
        self.query_one("#apply-head").focus()
        self.run_worker(self._read(), group="read", exit_on_error=False)

    async def _read(self) -> None:
        try:
            self.prepared = await run_in_thread(lambda job: _prepared(self.plan))
        except (Error, OSError, ValueError) as error:
            self._set_status(f"✗ the messages cannot be read: {error}", "error")
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

    @property
    def kind(self) -> str:
        """The kind of summarizer that is chosen."""
        return self._summarizer.kind

    @property
    def chosen(self) -> Summarizer | SummarizerError:
        """The summarizer, or why it cannot be asked."""
        return self._summarizer.chosen

    @property
    def draft(self) -> Draft | None:
        """The summary that could be accepted now."""
        return self._drafts.get((self._key, self.kind))

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

    # -- what it looks like

    def _show_head(self) -> None:
        if self.prepared:
            pane = self.query_one("#apply-head", ReadingPane)
            pane.show(texts.head_parts(self.plan, self.prepared))
            hidden = self.prepared.masked and self.prepared.secrets(self.kind)
            pane.border_subtitle = "secrets masked" if hidden else None

    def _refresh_all(self) -> None:
        """Bring every line up to date with the state."""
        wrong = isinstance(self.chosen, SummarizerError)
        self.query_one("#apply-choices", Static).update(texts.choices(self.kind))
        asked = self.query_one("#apply-where", Static)
        asked.update(texts.where(self.chosen, self.prepared))
        asked.set_class(wrong, "wrong")
        hidden = self.query_one("#apply-secrets", Static)
        hidden.update(texts.secrets(self.prepared, self.kind))
        shown = self.prepared and not self.prepared.masked and self.prepared.secrets(self.kind)
        hidden.set_class(bool(shown), "wrong")
        editing = self.phase is Phase.EDITING
        self.query_one("#apply-editor").display = editing
        pane = self.query_one("#apply-summary", ReadingPane)
        pane.display = not editing
        checks = self.query_one("#apply-checks", Static)
        draft = self.draft
        if self.phase is Phase.DONE and draft and self.prepared:
            checks.update(texts.check_lines(_checks(self.prepared, draft)))
            self._name_summary(texts.written_by(draft))
        elif self.phase in (Phase.READY, Phase.READING):
            pane.show([Part(self._waiting(), "muted")])
            self._name_summary("summary")
        checks.display = self.phase is Phase.DONE
        self.refresh_bindings()

    def _waiting(self) -> str:
        """What the pane of the summary says before there is one."""
        if isinstance(self.chosen, SummarizerError):
            first = f"Cannot use {self.kind}: {self.chosen}. Or press s for another summarizer."
            return sanitize("\n\n".join(filter(None, (first, texts.kept(self._kept)))))
        if self.phase is Phase.READING:
            return "Reading the messages…"
        host = self.chosen.endpoints[0].destination if self.chosen.endpoints else ""
        if not host:
            text = "Press enter to write the summary."
            text = f"{self._cancelled}. {text}" if self._cancelled else text
        elif self._cancelled:
            text = f"{self._cancelled}; the messages were sent to {host}. Press enter to send them again."
        else:
            text = f"Nothing has been sent. Press enter to send the messages to {host}."
        return sanitize("\n\n".join(filter(None, (text, texts.kept(self._kept)))))

    @property
    def _kept(self) -> list[Draft]:
        """The summaries by other summarizers that wait."""
        return [draft for (plan, kind), draft in self._drafts.items() if plan == self._key and kind != self.kind]

    def _name_summary(self, text: str) -> None:
        self.query_one("#apply-summary").border_title = Content(sanitize_line(text))

    def _set_status(self, text: str, look: str = "") -> None:
        status = self.query_one("#apply-status", Static)
        status.update(sanitize_line(text))
        status.set_class(look == "error", "wrong")

    # -- choosing who writes it, and what they may see

    def _choose(self, kind: str) -> None:
        self._summarizer.choose(kind)
        self._begin_with_choice()

    def _begin_with_choice(self) -> None:
        self._cancelled = ""
        self._set_status("")
        self._enter()

    def action_choose(self, kind: str) -> None:
        """Choose a summarizer; its draft is shown if it has one."""
        if kind != self.kind:
            self._choose(kind)

    def action_next_summarizer(self) -> None:
        """Choose the next summarizer."""
        self._choose(self._summarizer.next_kind)

    def action_mask(self) -> None:
        """Mask suspected secrets, or not; a draft was made with the other setting and stays."""
        if self.prepared:
            self.prepared = self.prepared.with_masking(not self.prepared.masked)
            self._show_head()
            self._refresh_all()

    def action_model(self) -> None:
        """Ask for the name of a model."""
        hint = "The name that the server knows; empty for the default"
        self.app.push_screen(InputPrompt("Model", hint, self._summarizer.model), self._named_model)

    def _named_model(self, name: str | None) -> None:
        if name is not None:
            self._summarizer.name_model(name)
            self._begin_with_choice()

    def action_url(self) -> None:
        """Ask for the address of a server."""
        hint = "As in http://localhost:8080; empty for the default"
        self.app.push_screen(InputPrompt("Server", hint, self._summarizer.base_url), self._named_url)

    def _named_url(self, url: str | None) -> None:
        if url is not None:
            self._summarizer.name_server(url)
            self._begin_with_choice()

    # -- writing

    def action_begin(self) -> None:
        """Have the summary written."""
        if isinstance(self.chosen, SummarizerError) or self.prepared is None or self.phase is Phase.WRITING:
            return
        self.phase, self._cancelled = Phase.WRITING, ""
        self._reply, self._thinking, self._started = Reply(), 0, time.monotonic()
        self._set_status("")
        self.query_one("#apply-summary", ReadingPane).show([])
        self._refresh_all()
        self._tick()
        self._writer = self.run_worker(
            self._write(self.chosen, self.prepared), group="write", exclusive=True, exit_on_error=False
        )

    def action_why(self) -> None:
        """Say why nothing can be asked."""
        self._set_status(f"✗ {self.chosen}", "error")

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
            self._set_status(event.text)
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
            self._name_summary(texts.progress(text, self._thinking, time.monotonic() - self._started))

    def _take(self, summary: Summary, chosen: Summarizer) -> None:
        by = summary.model if chosen.endpoints else EXTRACT
        self._drafts[self._key, self.kind] = Draft(self.kind, by, summary, summary.text)
        if summary.notes:
            self._set_status(" · ".join(summary.notes))
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
        parts = [Part("No summary; the session is unchanged.", "heading")]
        if partial:
            parts += [Part("\nreceived before the failure:", "muted"), Part(partial, "muted")]
        self.query_one("#apply-summary", ReadingPane).show(parts)
        self._name_summary("summary")
        self._set_status(f"✗ {error}", "error")
        self._refresh_all()

    def action_cancel(self) -> None:
        """Stop the summary that is being written; an earlier draft stays."""
        if self._writer:
            self._writer.cancel()
        self.phase = Phase.READY
        seconds = f"Cancelled after {time.monotonic() - self._started:.0f} s"
        if self.draft:
            self._done()
        else:
            self._cancelled = seconds
            self._refresh_all()
        self._set_status(f"{seconds}; the session is unchanged")

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
            self._set_status("Press esc to finish, ctrl+z to undo")

    def action_finish(self) -> None:
        """Keep the edited summary, and check it again."""
        draft, text = self.draft, self.query_one("#apply-editor", TextArea).text
        if draft and text != sanitize(draft.text):
            self._drafts[self._key, self.kind] = Draft(draft.kind, draft.by, draft.summary, text)
        self._set_status("")
        self._done()

    def action_accept(self) -> None:
        """Make the new session; a summary that fails a blocking check has to be accepted twice."""
        draft = self.draft
        if draft is None or self.prepared is None:
            return
        wrong = blocking_checks(_checks(self.prepared, draft))
        if wrong and not self._warned:
            self._warned = True
            self._set_status(f"✗ {wrong[0].name}: {wrong[0].detail}; press a again to accept it anyway", "error")
            return
        try:
            self.dismiss(apply(self.session, self.plan, draft.text))
        except Error as error:
            self._set_status(f"✗ {error}", "error")


def _checks(prepared: Prepared, draft: Draft) -> list[Check]:
    return prepared.checks_of(draft.text, draft.summary, edited=draft.edited)


def _prepared(plan: Plan) -> Prepared:
    """What a plan's summary needs; its secrets are counted now, and not while a key waits."""
    made = prepare(plan)
    for kind in KINDS:
        made.secrets(kind)
    return made
