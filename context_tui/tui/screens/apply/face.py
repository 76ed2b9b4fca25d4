"""What the apply screen shows: its state, and the lines and panes that are drawn from it."""

from __future__ import annotations

from enum import Enum

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static, TextArea

from context_tui.compaction.plan import Plan
from context_tui.errors import SummarizerError
from context_tui.sanitize import sanitize, sanitize_line
from context_tui.session.session import Session
from context_tui.summarizer.checks import Check
from context_tui.summarizing import Prepared, Summarizer
from context_tui.tui.screens.apply import words
from context_tui.tui.screens.apply.draft import Draft, Drafts, last_kind, plan_key
from context_tui.tui.screens.reading import Part, ReadingPane


class Phase(Enum):
    """What the screen is doing."""

    READING = "reading the head"
    READY = "waiting for the word to begin"
    WRITING = "a summary is being written"
    DONE = "a summary is there"
    EDITING = "the summary is being edited"
    FAILED = "there is no summary"


class ApplyFace(ModalScreen[Session | None]):
    """The state of the screen and how it looks; what keys do is in ``screen``."""

    CSS_PATH = "apply.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (76, "-wide")]

    def __init__(self, session: Session, plan: Plan, drafts: Drafts, kind: str) -> None:
        super().__init__()
        self.session, self.plan = session, plan
        self.phase = Phase.READING
        self.prepared: Prepared | None = None
        self.chosen: Summarizer | SummarizerError = Summarizer()
        self._cancelled = ""
        self._key = plan_key(session, plan)
        self._keep_drafts(drafts, kind)

    def _keep_drafts(self, drafts: Drafts, kind: str) -> None:
        self._drafts, self.kind = drafts, last_kind(drafts, self._key, kind)

    @property
    def draft(self) -> Draft | None:
        """The summary that could be accepted now."""
        return self._drafts.get((self._key, self.kind))

    def compose(self) -> ComposeResult:
        """Who is asked, the head, the summary with its checks, and a line for what happened."""
        yield Static(words.title(self.plan), id="apply-title", markup=False)
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

    def _show_head(self) -> None:
        if self.prepared:
            pane = self.query_one("#apply-head", ReadingPane)
            pane.show(words.head_parts(self.plan, self.prepared))
            hidden = self.prepared.masked and self.prepared.secrets(self.kind)
            pane.border_subtitle = "with secrets masked" if hidden else None

    def _refresh_all(self) -> None:
        """Bring every line up to date with the state."""
        wrong = isinstance(self.chosen, SummarizerError)
        self.query_one("#apply-choices", Static).update(words.choices(self.kind))
        asked = self.query_one("#apply-where", Static)
        asked.update(words.where(self.chosen, self.prepared))
        asked.set_class(wrong, "wrong")
        hidden = self.query_one("#apply-secrets", Static)
        hidden.update(words.secrets(self.prepared, self.kind))
        shown = self.prepared and not self.prepared.masked and self.prepared.secrets(self.kind)
        hidden.set_class(bool(shown), "wrong")
        editing = self.phase is Phase.EDITING
        self.query_one("#apply-editor").display = editing
        pane = self.query_one("#apply-summary", ReadingPane)
        pane.display = not editing
        checks = self.query_one("#apply-checks", Static)
        draft = self.draft
        if self.phase is Phase.DONE and draft and self.prepared:
            checks.update(words.check_lines(self._checks(draft)))
            self._name_summary(words.written_by(draft))
        elif self.phase in (Phase.READY, Phase.READING):
            pane.show([Part(self._waiting(), "muted")])
            self._name_summary("summary")
        checks.display = self.phase is Phase.DONE
        self.refresh_bindings()

    def _waiting(self) -> str:
        """What the pane of the summary says before there is one."""
        if isinstance(self.chosen, SummarizerError):
            first = f"{self.kind} cannot be asked: {self.chosen}. Or choose another summarizer with s."
            return sanitize("\n\n".join(filter(None, (first, words.kept(self._kept)))))
        if self.phase is Phase.READING:
            return "Reading the head…"
        host = self.chosen.endpoints[0].destination if self.chosen.endpoints else ""
        if not host:
            text = f"{self._cancelled}; enter writes it again." if self._cancelled else "Enter writes it."
        elif self._cancelled:
            text = f"{self._cancelled}; the head was sent to {host}. Enter sends it again."
        else:
            text = f"Nothing has been sent. Enter sends the head to {host}."
        return sanitize("\n\n".join(filter(None, (text, words.kept(self._kept)))))

    @property
    def _kept(self) -> list[Draft]:
        """The summaries by other summarizers that wait."""
        return [draft for (plan, kind), draft in self._drafts.items() if plan == self._key and kind != self.kind]

    def _name_summary(self, text: str) -> None:
        self.query_one("#apply-summary").border_title = Content(sanitize_line(text))

    def _say(self, text: str, look: str = "") -> None:
        status = self.query_one("#apply-status", Static)
        status.update(sanitize_line(text))
        status.set_class(look == "error", "wrong")

    def _checks(self, draft: Draft) -> list[Check]:
        assert self.prepared is not None
        return self.prepared.check(draft.text, draft.summary, edited=draft.edited)
