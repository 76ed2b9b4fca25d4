"""Texts of the apply screen, sanitized and never parsed as markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from textual.content import Content

from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import Plan
from context_tui.errors import SummarizerError
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.summarizer.checks.summary_checks import SummaryCheck
from context_tui.summarizer.failures import CallFailed
from context_tui.summarizer.plan_summary import (
    EXTRACT,
    SUMMARIZER_KINDS,
    PreparedSummary,
    Summarizer,
    format_secret_counts,
)
from context_tui.summarizer.reply import Summary
from context_tui.text.files import read_toml
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import sanitize, sanitize_line
from context_tui.tokens.context_index import index_context
from context_tui.tokens.measures import TokenTable
from context_tui.tui.drafts import Draft
from context_tui.tui.rendering.formatting import format_estimate_sign, format_result, format_unknown_block
from context_tui.tui.rendering.layout import TextPart
from context_tui.tui.widgets.styled_text import build_choice_strip

MAX_BLOCK_CHARS = 4_000
"""Maximum number of characters of a block that are shown; blocks are sent in full."""


REFUSALS = {
    "READING": "The messages are still being read",
    "WRITING": "A summary is being written; press esc to stop",
    "EDITING": "Press esc to finish editing first",
}
EXTRACT_REFUSAL = "The extract is made here and needs none; press p for another summarizer"


def format_title(plan: Plan) -> str:
    """Format in one line what the plan would do."""
    sums, head = index_context(plan.context), plan.summarised_message_numbers
    if not head:
        return plan.policy
    tokens = sum(sums.tokens[sums.position_of[message]] for message in head)
    messages = f"messages {min(head):,} to {max(head):,}" if len(head) > 1 else f"message {head[0]:,}"
    kept_messages = format_count(len(plan.context) - plan.messages_dropped, "message")
    return f"{plan.policy}: summarise {messages}, est. {format_count(tokens, 'token')}; keep {kept_messages}"


def format_summarizer_choices(kind: str) -> Content:
    """Format the kinds of summarizer with *kind* marked; a click on a kind chooses it."""
    strip = build_choice_strip({name: f"{number} {name}" for number, name in enumerate(SUMMARIZER_KINDS, 1)}, kind)
    model_keys = (_format_key("n", "model", "set_model"), "  ", _format_key("b", "server", "set_server"))
    keys = model_keys if kind != EXTRACT else ()
    return Content.assemble(_format_key("p", "summarizer", "next_summarizer"), "  ", strip, "   ", *keys)


def _format_key(key: str, name: str, action: str) -> Content:
    return Content.assemble((key, "bold $accent"), "\u00a0", Content(name).stylize(f"@click=screen.{action}"))


def format_destination(summarizer: Summarizer | SummarizerError, prepared: PreparedSummary | None) -> str:
    """Format the destination of the messages and their tokens, or the error if the summarizer cannot be used."""
    if isinstance(summarizer, SummarizerError):
        return sanitize_line(f"✗ {summarizer}")
    if not summarizer.endpoints:
        return "extract: quotations picked by rules on this machine; nothing is sent"
    amount = f"sends est. {prepared.tokens:,} tokens to " if prepared else ""
    fallbacks = "".join(f", fallback {other.model}" for other in summarizer.endpoints[1:])
    return sanitize_line(f"{amount}{summarizer.endpoints[0].model} at {summarizer.endpoints[0].destination}{fallbacks}")


def format_secrets(prepared: PreparedSummary | None, kind: str) -> Content:
    """Format how many secrets are suspected in the text, and the key that masks or unmasks them."""
    if prepared is None:
        return Content("reading the messages…")
    counts = prepared.count_secrets(kind)
    if not counts:
        return Content("no suspected secrets")
    state, other = ("masked", "send unmasked") if prepared.masks_secrets else ("NOT masked", "mask")
    text = f"suspected secrets, {state}: {format_secret_counts(counts)}   "
    return Content.assemble(text, _format_key("m", other, "mask"))


def format_progress(text: str, thinking: int, seconds: float) -> str:
    """Format how much text has been received, and after how many seconds."""
    if text:
        return f"{seconds:.0f} s · est. {bytes_to_tokens(utf8_len(text)):,} tokens"
    if thinking:
        return f"{seconds:.0f} s · thinking, {thinking:,} characters"
    return f"{seconds:.0f} s · waiting for the first token"


def format_checks(checks: Sequence[SummaryCheck]) -> Content:
    """Format the checks of a summary, failed ones first and the others together on one line."""
    failed = sorted((check for check in checks if not check.ok), key=lambda check: check.severity)
    lines = []
    for check in failed:
        sign, style = ("✗", "$error") if check.severity == "error" else ("!", "$warning")
        lines.append(Content.assemble((f"{sign} ", style), sanitize_line(f"{check.label}: {check.detail}")))
    if passed_labels := ", ".join(check.label for check in checks if check.ok and check.label):
        lines.append(Content.assemble(("✓ ", "$success"), passed_labels))
    return Content("\n").join(lines)


def format_draft_title(draft: Draft) -> str:
    """Format a draft's number, author, length and duration, and whether it is incomplete or edited."""
    duration = "" if draft.kind == EXTRACT else f" · {draft.summary.seconds:.0f} s"
    edited = " · edited" if draft.is_edited else ""
    incomplete = "" if draft.is_complete else ", incomplete"
    return f"draft {draft.number}{incomplete} · {draft.author} · {_format_text_tokens(draft.text)}{duration}{edited}"


def format_next_request(plan: Plan, summary: str, token_table: TokenTable | None) -> str:
    """Format the size of the next request if the plan is applied with *summary*."""
    request = compute_next_request(plan, summary, token_table)
    return f"next request {format_estimate_sign(request)}{request.tokens_before:,} → ~{request.tokens_after:,}"


def _format_text_tokens(text: str) -> str:
    return f"est. {format_count(bytes_to_tokens(utf8_len(text)), 'token')}"


def format_draft_ending(draft: Draft) -> str:
    """Format how the writing of a draft ended, and its length in tokens."""
    if draft.is_complete:
        return f"finished, {_format_text_tokens(draft.text)}"
    cause = f": {draft.cause}" if draft.cause else ""
    return f"{draft.ending.value} after {_format_text_tokens(draft.summary.text)}{cause}"


_FAILURE_CAUSES = read_toml("context_tui.tui.apply", "failure_causes.toml")


def format_failure_cause(error: SummarizerError, summary: Summary) -> str:
    """Format in a few words why a reply is incomplete."""
    kind = error.kind if isinstance(error, CallFailed) else ""
    if kind == "cut" and summary.stop_reason:  # a server that names a stop reason had finished
        return f"the limit on its length was reached ({summary.stop_reason})"
    return _FAILURE_CAUSES.get(kind) or str(error).partition("; ")[0]


def format_drafts(drafts: Sequence[Draft], shown_draft: Draft | None, rows: int) -> Content:
    """Format at most *rows* drafts around *shown_draft*, newest first; a click on a draft shows it."""
    position = next((n for n, draft in enumerate(drafts) if shown_draft and draft.number == shown_draft.number), 0)
    start = max(0, min(position - rows // 2, len(drafts) - rows))
    label = f"{format_count(len(drafts), 'draft')}  "
    lines = []
    for number, draft in enumerate(drafts[start : start + rows], start):
        is_shown = number == position and shown_draft is not None
        edited = " · edited" if draft.is_edited else ""
        text = f"{'●' if is_shown else '○'} {draft.number} {format_draft_ending(draft)} · {draft.author}{edited}"
        line = Content.styled(sanitize_line(text), "bold $accent" if is_shown else "")
        line = line.stylize(f"@click=screen.show_draft({draft.number})")
        lines.append(Content.assemble(label if number == start else " " * len(label), line))
    return Content("\n").join(lines)


def format_waiting(summarizer: Summarizer | SummarizerError, kind: str, reading: bool, stop_notice: str) -> str:
    """Format the text shown before there is a summary; *stop_notice* reports a stopped call."""
    if isinstance(summarizer, SummarizerError):
        return sanitize(f"Cannot use {kind}: {summarizer}.\n\nPress b to name a server, or p for another summarizer.")
    if reading:
        return "Reading the messages…"
    if not summarizer.endpoints:
        return f"{stop_notice}. " * bool(stop_notice) + "Press enter to write the summary."
    host = summarizer.endpoints[0].destination
    if stop_notice:
        return sanitize(f"{stop_notice}; the messages were sent to {host}. Press enter to send them again.")
    return sanitize(f"Nothing has been sent. Press enter to send the messages to {host}.")


def format_failure(summarizer: Summarizer | SummarizerError) -> str:
    """Format the text shown when the summarizer failed before it wrote anything."""
    host = summarizer.endpoints[0].destination if isinstance(summarizer, Summarizer) and summarizer.endpoints else ""
    again = f"\n\nPress enter to send the messages to {host} again." if host else ""
    return sanitize(f"No summary; the session is unchanged.{again}")


def format_partial_draft_notice(draft: Draft | None) -> str:
    """Format a notice that the text of a stopped or failed call is kept, or "" if there is no draft."""
    return f". The text so far is kept as draft {draft.number}." if draft else ""


def format_accept_question(draft: Draft, failed_checks: Sequence[SummaryCheck]) -> str:
    """Format the question asked before accepting a summary that is incomplete or fails checks."""
    ending = format_draft_ending(draft)
    failed = "; ".join(f"{check.label}: {check.detail}" for check in failed_checks if check.detail != ending)
    draft_name = f"Draft {draft.number} by {draft.author}"
    problem = f"{draft_name} was {ending}." if not draft.is_complete else f"{draft_name}: {failed}."
    return sanitize_line(problem if draft.is_complete or not failed else f"{problem} Also, {failed}.")


def build_head_parts(plan: Plan, prepared: PreparedSummary) -> Iterator[TextPart]:
    """Yield the messages to be sent, each block cut to ``MAX_BLOCK_CHARS`` characters, then any system prompt."""
    order = plan.summarised_message_numbers
    messages = prepared.messages
    # The last message is the prompt. The others have no numbers if the repair of tool pairs has added or removed some.
    numbered = len(messages) - 1 == len(order)
    for position, message in enumerate(messages):
        number = f"{order[position]}  " if numbered and position < len(order) else ""
        prompt = numbered and position == len(order)
        yield TextPart(f"{number}{'prompt' if prompt else message.get('role', '')}", "heading")
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        for block in blocks:
            text, style = _format_block_part(block)
            hidden_chars = len(text) - MAX_BLOCK_CHARS
            note = f"\n… {hidden_chars:,} more characters, not shown" if hidden_chars > 0 else ""
            yield TextPart(text[:MAX_BLOCK_CHARS] + note, style)
        yield TextPart("")
    if prepared.request.system:
        yield TextPart("system prompt", "heading")
        yield TextPart(prepared.request.system, "muted")


def _format_block_part(block: dict[str, Any]) -> tuple[str, str]:
    match block.get("type"):
        case "text":
            return str(block.get("text") or ""), "text"
        case "tool_use":
            return f"call {block.get('name')} {_format_json(block.get('input'))}", "muted"
        case "tool_result":
            body = block.get("content")
            return f"result: {format_result(body) if isinstance(body, str | list) else _format_json(body)}", "muted"
        case "thinking" | "redacted_thinking":
            return "(thinking: not sent)", "muted"
    return f"({format_unknown_block(block)})", "muted"


def _format_json(value: Any) -> str:
    return compact_json(value).decode("utf-8", "replace")
