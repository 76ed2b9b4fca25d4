"""Screen that applies a plan; nothing is sent or changed before the user confirms it by a key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from context_tui.compaction.apply import apply_with_measure
from context_tui.compaction.plan import Plan
from context_tui.errors import Error, SummarizerError
from context_tui.session.session import Session
from context_tui.summarizer.checks.instruction_survival import INSTRUCTIONS_CHECK, restore_instructions
from context_tui.summarizer.checks.summary_checks import SummaryCheck
from context_tui.summarizer.plan_summary import (
    EXTRACT,
    SUMMARIZER_KINDS,
    PreparedSummary,
    find_blocking_checks,
    prepare_summary,
    write_summary,
)
from context_tui.summarizer.reply import ReplyEvent, ReplyNote
from context_tui.text.sanitize import sanitize, sanitize_line
from context_tui.tokens.measures import TokenTable
from context_tui.tui.apply import texts
from context_tui.tui.apply.summarizer import SummarizerChoice, SummaryAttempt
from context_tui.tui.drafts import Draft, Drafts, compute_plan_key, find_initial_draft
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.threads import WorkErrorHandler, run_in_thread
from context_tui.tui.widgets.bindings import KeyFooter, build_binding, read_bindings
from context_tui.tui.widgets.dialogs import Answer, ChoicePrompt, InputPrompt
from context_tui.tui.widgets.guarded_screens import RefusingScreen
from context_tui.tui.widgets.reading_pane import ReadingPane

if TYPE_CHECKING:
    import httpx
    from textual.worker import Worker


APPLY_BINDINGS = [
    *read_bindings("apply-first"),
    *(
        build_binding(str(number), f"choose('{kind}')", kind, f"apply-{kind}", f"Summarise by {kind}")
        for number, kind in enumerate(SUMMARIZER_KINDS, 1)
    ),
    *read_bindings("apply-other"),
    # Textual's bindings are not inherited, as they would come first in the footer.
    Binding("shift+tab", "app.focus_previous", "Focus Previous", show=False),
    Binding("ctrl+c,super+c", "screen.copy_text", "Copy selected text", show=False),
]


REFRESH_INTERVAL_S = 0.08

LISTED_DRAFTS_BY_HEIGHT = {0: 2, 24: 3, 30: 6}


class Phase(Enum):
    """A phase of the apply screen, with its description as the value."""

    READING = "reading the messages"
    READY = "waiting for the user to begin"
    WRITING = "a summary is being written"
    DONE = "a draft is shown"
    EDITING = "the draft is being edited"
    FAILED = "the last call failed; a draft may be shown"


RESTING_PHASES = (Phase.READY, Phase.DONE, Phase.FAILED)


class ApplyScreen(
    RefusingScreen[Session | None], WorkErrorHandler, ModalScreen[Session | None], inherit_bindings=False
):
    """A screen that applies a plan, immediately if it needs no summary; returns the new session, or None if closed.

    Without *drafts*, the drafts are lost when the screen closes. If given, *environ* is used instead of the process
    environment, and *transport* instead of the network.
    """

    CSS_PATH = "apply.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (76, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (24, "-low"), (30, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [*APPLY_BINDINGS]

    def __init__(
        self,
        session: Session,
        plan: Plan,
        *,
        token_table: TokenTable | None = None,
        drafts: Drafts | None = None,
        kind: str = EXTRACT,
        environ: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__()
        self.session, self.plan, self.token_table = session, plan, token_table
        self.phase = Phase.READING
        self.prepared: PreparedSummary | None = None
        self.shown_draft: Draft | None = None
        self._plan_key = compute_plan_key(session, plan)
        self._draft_store = Drafts() if drafts is None else drafts
        self._choice = SummarizerChoice(plan, kind, self._draft_store, environ)
        self._transport = transport
        self._attempt: SummaryAttempt | None = None
        self._writer: Worker[None] | None = None
        self._stop_notice = ""
        self._checks: Sequence[SummaryCheck] = ()  # of the shown draft

    def compose(self) -> ComposeResult:
        yield Static(texts.format_title(self.plan), id="apply-title", markup=False)
        yield Static("", id="apply-choices", markup=False)
        yield Static("", id="apply-where", markup=False)
        yield Static("", id="apply-secrets", markup=False)
        with Horizontal(id="apply-panes"):
            yield ReadingPane(id="apply-head")
            with Vertical(id="apply-right"):
                yield ReadingPane(id="apply-summary")
                yield TextArea(id="apply-editor", soft_wrap=True)
                yield Static("", id="apply-checks", markup=False)
        yield Static("", id="apply-drafts", markup=False)
        yield Static("", id="apply-status", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        """Choose the summarizer and read the messages, or apply the plan at once if it needs no summary."""
        if not self.plan.needs_summary:
            self.dismiss(apply_with_measure(self.session, self.plan, None, self.token_table))
            return
        self.query_one("#apply-head").border_title = "to be summarised"
        self.query_one("#apply-editor").border_title = "summary, editing"
        self.query_one("#apply-head").focus()
        draft = find_initial_draft(self.drafts)
        self._choose_summarizer(draft.kind if draft else self.kind)
        self._prepare_summary()

    def on_resize(self) -> None:
        self._update_draft_list()

    @work(group="read", description="read the messages", exit_on_error=False)
    async def _prepare_summary(self) -> None:
        try:
            self.prepared = await run_in_thread(lambda job: _prepare_plan_summary(self.plan))
        except (Error, OSError, ValueError) as error:
            self._set_status(f"✗ the messages cannot be read: {error}", "error")
            return
        self._show_head()
        if self.phase is Phase.READING:
            self._show_initial_draft()
        else:  # a draft may be shown or edited meanwhile
            self._refresh_all()

    def _show_initial_draft(self) -> None:
        """Show the newest draft of the chosen summarizer, or else write an extract or offer to send the messages."""
        draft = next((draft for draft in self.drafts if draft.kind == self.kind), None)
        if draft is not None:
            self._show_draft(draft)
        else:
            self._show_no_draft()

    def _show_no_draft(self) -> None:
        """Clear the draft, then write the extract or wait for the key that sends the messages."""
        self.shown_draft = None
        self.phase = Phase.READY if self.prepared else Phase.READING
        if self.kind == EXTRACT and self.prepared:
            self.action_begin()
        else:
            self._refresh_all()

    def _show_draft(self, draft: Draft, phase: Phase = Phase.DONE) -> None:
        self.shown_draft, self.phase = draft, phase
        self.query_one("#apply-summary", ReadingPane).show_text(draft.text)
        self._refresh_all()
        self.query_one("#apply-summary").focus()

    @property
    def kind(self) -> str:
        """The chosen kind of summarizer."""
        return self._choice.kind

    @property
    def drafts(self) -> list[Draft]:
        """The drafts for this plan, newest first."""
        return self._draft_store.list_drafts(self._plan_key)

    def find_refusal(self, action: str) -> str:
        phase, draft, prepared = self.phase, self.shown_draft, self.prepared
        is_usable = not isinstance(self._choice.summarizer, SummarizerError)
        can_send, has_draft = is_usable and prepared is not None, draft is not None
        is_complete = phase is Phase.DONE and draft is not None and draft.is_complete
        is_open = phase in (Phase.WRITING, Phase.EDITING)
        busy = "" if phase in RESTING_PHASES else texts.REFUSALS[phase.name]
        no_draft = busy or ("" if has_draft else "There is no draft yet; press enter")
        no_other_draft = busy or ("" if len(self.drafts) > has_draft else "There is no other draft")
        complete = "The draft is finished; a accepts it, r writes another"
        sent = busy or (complete if is_complete else "")
        unsent = "Only a summary that is being written can be stopped"
        extract = busy or (texts.EXTRACT_REFUSAL if self.kind == EXTRACT else "")
        secret_count = prepared.count_secrets(self.kind) if prepared else 0
        refusals = {
            "begin": sent or ("" if phase is Phase.READY and is_usable else "press enter to send again"),
            "again": sent or ("" if phase is not Phase.READY and can_send else "Nothing has been sent yet"),
            "why": sent or ("The summarizer can be used" if is_usable else ""),
            "accept": no_draft or ("" if prepared else texts.REFUSALS["READING"]),
            "edit": no_draft,
            "retry": busy or ("" if is_complete and can_send else "There is no finished draft to write again"),
            **dict.fromkeys(("next_draft", "show_draft"), no_other_draft),
            "mask": busy or ("" if secret_count else "No secrets are suspected in what is sent"),
            **dict.fromkeys(("next_summarizer", "choose"), busy if is_open else ""),
            **dict.fromkeys(("set_model", "set_server"), extract),
            "cancel": "" if phase is Phase.WRITING else unsent,
            "finish": "" if phase is Phase.EDITING else "Nothing is being edited",
            "dismiss": busy if is_open else "",
        }
        if action == "restore":
            is_missing = any(check.name == INSTRUCTIONS_CHECK and not check.ok for check in self._checks)
            return no_draft or ("" if is_missing else "No typed instruction is missing in this draft")
        return refusals.get(action, "")

    # Display

    def _show_head(self) -> None:
        if self.prepared:
            pane = self.query_one("#apply-head", ReadingPane)
            pane.show(texts.build_head_parts(self.plan, self.prepared))
            has_masked = self.prepared.masks_secrets and self.prepared.count_secrets(self.kind)
            pane.border_subtitle = "secrets masked" if has_masked else None

    def _refresh_all(self) -> None:
        is_unusable = isinstance(self._choice.summarizer, SummarizerError)
        self.query_one("#apply-choices", Static).update(texts.format_summarizer_choices(self.kind))
        destination = self.query_one("#apply-where", Static)
        destination.update(texts.format_destination(self._choice.summarizer, self.prepared))
        destination.set_class(is_unusable, "wrong")
        secrets = self.query_one("#apply-secrets", Static)
        secrets.update(texts.format_secrets(self.prepared, self.kind))
        is_unmasked = self.prepared and not self.prepared.masks_secrets and self.prepared.count_secrets(self.kind)
        secrets.set_class(bool(is_unmasked), "wrong")
        editing = self.phase is Phase.EDITING
        self.query_one("#apply-editor").display = editing
        self.query_one("#apply-summary").display = not editing
        self._update_summary_pane()
        self._update_draft_list()
        self.refresh_bindings()

    def _update_summary_pane(self) -> None:
        pane, checks = self.query_one("#apply-summary", ReadingPane), self.query_one("#apply-checks", Static)
        checks.display, self._checks = False, ()
        pane.border_subtitle = None
        if self.phase in (Phase.WRITING, Phase.EDITING):
            return
        if self.shown_draft is None:
            summarizer = self._choice.summarizer
            if self.phase is Phase.FAILED:
                text = texts.format_failure(summarizer)
            else:
                text = texts.format_waiting(summarizer, self.kind, self.phase is Phase.READING, self._stop_notice)
            pane.show([TextPart(text, "muted")])
            pane.border_title = "summary"
            return
        pane.border_title = Content(sanitize_line(texts.format_draft_title(self.shown_draft)))
        pane.border_subtitle = Content(texts.format_next_request(self.plan, self.shown_draft.text, self.token_table))
        if self.prepared:
            self._checks = _run_checks(self.prepared, self.shown_draft)
            checks.update(texts.format_checks(self._checks))
            checks.display = True

    def _update_draft_list(self) -> None:
        label, drafts = self.query_one("#apply-drafts", Static), self.drafts
        label.display = bool(drafts)
        draft = None if self.phase is Phase.WRITING else self.shown_draft
        rows = max(rows for height, rows in LISTED_DRAFTS_BY_HEIGHT.items() if self.size.height >= height)
        label.update(texts.format_drafts(drafts, draft, rows))

    def _set_status(self, text: str, style: str = "") -> None:
        status = self.query_one("#apply-status", Static)
        status.update(sanitize_line(text))
        status.set_class(style == "error", "wrong")

    # Summarizer, secrets and drafts

    def _choose_summarizer(self, kind: str) -> None:
        self._choice.choose(kind)
        self._stop_notice = ""
        self._set_status("")
        self._show_initial_draft()

    def action_choose(self, kind: str) -> None:
        if kind != self.kind:
            self._choose_summarizer(kind)

    def action_next_summarizer(self) -> None:
        self._choose_summarizer(SUMMARIZER_KINDS[(SUMMARIZER_KINDS.index(self.kind) + 1) % len(SUMMARIZER_KINDS)])

    def action_show_draft(self, number: int) -> None:
        draft = next((draft for draft in self.drafts if draft.number == number), None)
        if draft is None:
            return
        if draft.kind != self.kind:
            self._choice.choose(draft.kind)
        self._stop_notice = ""
        self._set_status("")
        self._show_draft(draft)

    def action_next_draft(self, step: int) -> None:
        numbers = [draft.number for draft in self.drafts]
        position = numbers.index(self.shown_draft.number) + step if self.shown_draft else 0
        self.action_show_draft(numbers[position % len(numbers)])

    def action_mask(self) -> None:
        if self.prepared:
            self.prepared = self.prepared.with_masking(not self.prepared.masks_secrets)
            self._show_head()
            self._refresh_all()

    def action_set_model(self) -> None:
        hint = "Name of the model on the server; empty for the default"
        prompt = InputPrompt("Model", hint, self._choice.model)
        self.app.push_screen(prompt, partial(self._request_server, "model"))

    def action_set_server(self) -> None:
        hint = "For example http://localhost:8080; empty for the default"
        prompt = InputPrompt("Server", hint, self._choice.base_url)
        self.app.push_screen(prompt, partial(self._request_server, "base_url"))

    def _request_server(self, name: str, answer: str | None) -> None:
        if answer is not None:
            self._choice.request(name, answer)
            self._stop_notice = ""
            self._set_status("")
            self._show_no_draft()

    # Writing

    def action_begin(self) -> None:
        if isinstance(self._choice.summarizer, SummarizerError) or self.prepared is None or self.phase is Phase.WRITING:
            return
        self.phase, self._stop_notice = Phase.WRITING, ""
        attempt = self._attempt = SummaryAttempt(self._draft_store, self._plan_key, self._choice.summarizer)
        self._set_status("")
        pane = self.query_one("#apply-summary", ReadingPane)
        pane.show([])
        self._refresh_all()
        pane.focus()
        self._refresh_progress()
        self._writer = self._write(attempt, self.prepared)

    def show_work_error(self, message: str, group: str) -> None:
        if self._attempt is not None:
            error = SummarizerError(message)
            self._handle_failure(error, self._attempt.fail(error))
        else:
            self._set_status(f"✗ {message}", "error")

    def action_why(self) -> None:
        self._set_status(f"✗ {self._choice.summarizer}", "error")

    action_again = action_retry = action_begin

    @work(group="write", description="write the summary", exclusive=True, exit_on_error=False)
    async def _write(self, attempt: SummaryAttempt, prepared: PreparedSummary) -> None:
        timer = self.set_interval(REFRESH_INTERVAL_S, self._refresh_progress)
        try:
            handle = partial(self._handle_reply_event, attempt)
            summary = await write_summary(attempt.summarizer, prepared, handle, transport=self._transport)
        except SummarizerError as error:
            draft = attempt.fail(error)
            if attempt is self._attempt:
                self._handle_failure(error, draft)
        except asyncio.CancelledError:
            attempt.stop()  # keeps the text so far, also if the screen was closed
            raise
        else:
            draft = attempt.finish(summary)
            if attempt is self._attempt:
                self._attempt = None
                self._set_status(" · ".join(summary.notes))
                self._show_draft(draft)
        finally:
            timer.stop()

    def _handle_reply_event(self, attempt: SummaryAttempt, event: ReplyEvent) -> None:
        attempt.update(event)
        if isinstance(event, ReplyNote) and attempt is self._attempt:
            self._set_status(event.text)
            self._update_draft_list()

    def _refresh_progress(self) -> None:
        if self._attempt is not None:
            text = self._attempt.text
            pane = self.query_one("#apply-summary", ReadingPane)
            if text != pane.source_text:
                pane.show_text(text, follow=True)
            pane.border_title = Content(sanitize_line(self._attempt.progress))

    def _handle_failure(self, error: SummarizerError, draft: Draft | None) -> None:
        self._attempt = None
        self._show_remaining_draft(draft, Phase.FAILED, Phase.FAILED)
        self._set_status(f"✗ {error}{texts.format_partial_draft_notice(draft)}", "error")

    def _show_remaining_draft(self, draft: Draft | None, phase: Phase, phase_without: Phase) -> None:
        """Show the partial *draft* of an attempt that ended, or else the draft before it, if there is one."""
        if (shown_draft := draft or self.shown_draft) is not None:
            self._show_draft(shown_draft, phase)
        else:
            self.phase = phase_without
            self._refresh_all()

    def action_cancel(self) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        draft = attempt.stop()
        if self._writer:
            self._writer.cancel()
        self._stop_notice = f"Stopped after {attempt.seconds:.0f} s"
        self._show_remaining_draft(draft, Phase.DONE, Phase.READY)
        self._set_status(f"{self._stop_notice}; the session is unchanged{texts.format_partial_draft_notice(draft)}")

    # Decision

    def action_edit(self) -> None:
        if self.shown_draft:
            self.phase = Phase.EDITING
            editor = self.query_one("#apply-editor", TextArea)
            editor.text = sanitize(self.shown_draft.text)
            self._refresh_all()
            editor.focus()
            self._set_status("Press esc to finish, ctrl+z to undo")

    def action_finish(self) -> None:
        draft, text = self.shown_draft, self.query_one("#apply-editor", TextArea).text
        self._set_status("")
        if draft and text != sanitize(draft.text):
            draft = self._draft_store.edit(self._plan_key, draft, text)
        if draft:
            self._show_draft(draft)

    def action_restore(self) -> None:
        """Append the instructions that are missing from the shown draft, and show the result as an edited draft."""
        if self.shown_draft and self.prepared:
            text = restore_instructions(self.prepared.instructions, self.shown_draft.text)
            self._show_draft(self._draft_store.edit(self._plan_key, self.shown_draft, text))

    def action_accept(self) -> None:
        """Apply the plan with the summary that is shown, asking first if it is incomplete or fails a blocking check."""
        draft = self.shown_draft
        if draft is None or self.prepared is None:
            return
        failed_checks = find_blocking_checks(self._checks)
        if not failed_checks or not draft.text.strip():
            self._accept(draft)
            return
        answers = [Answer("n", "no", "no, go back"), Answer("y", "yes", "yes, accept it")]
        problem = "fails a check" if draft.is_complete else "is incomplete"
        question = texts.format_accept_question(draft, failed_checks)
        prompt = ChoicePrompt(f"Accept a summary that {problem}?", question, answers)
        self.app.push_screen(prompt, lambda answer: self._accept(draft) if answer == "yes" else None)

    def _accept(self, draft: Draft) -> None:
        try:
            copy = apply_with_measure(self.session, self.plan, draft.text, self.token_table)
        except Error as error:
            self._set_status(f"✗ {error}", "error")
        else:
            self._draft_store.accept(self._plan_key)
            self.dismiss(copy)


def _run_checks(prepared: PreparedSummary, draft: Draft) -> list[SummaryCheck]:
    cut_off = "" if draft.is_complete else texts.format_draft_ending(draft)
    return prepared.check_text(draft.text, draft.summary, edited=draft.is_edited, cut_off=cut_off)


def _prepare_plan_summary(plan: Plan) -> PreparedSummary:
    """Prepare the summary of a plan, and count and cache its suspected secrets, since counting is slow."""
    prepared = prepare_summary(plan)
    for kind in SUMMARIZER_KINDS:
        prepared.count_secrets(kind)
    return prepared
