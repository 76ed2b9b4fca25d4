"""What the apply screen says, as safe text: nothing here is ever parsed as markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from textual.content import Content

from context_tui.compaction.plan import Plan
from context_tui.errors import SummarizerError
from context_tui.sanitize import sanitize_line
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.summarizer.summary_checks import Check
from context_tui.summarizing import EXTRACT, KINDS, Prepared, Summarizer, counted
from context_tui.tokens.estimators import tokens_of_bytes
from context_tui.tokens.measured import measured
from context_tui.tui.screens.apply.drafts import Draft
from context_tui.tui.text import plural, result_text
from context_tui.tui.widgets.draw import choice_strip
from context_tui.tui.widgets.reading_pane import Part

BLOCK_LENGTH = 4_000
"""Characters of one block that the head shows; what is sent is not cut."""


def title(plan: Plan) -> str:
    """What would be done, in a line."""
    sums, head = measured(plan.context), plan.head_messages
    if not head:
        return plan.policy  # carried out at once
    tokens = sum(sums.tokens[sums.position_of[message]] for message in head)
    which = f"messages {head[0]:,} to {head[-1]:,}" if len(head) > 1 else f"message {head[0]:,}"
    kept = len(plan.context) - plan.messages_dropped
    return f"{plan.policy}: summarise {which}, est. {plural(tokens, 'token')}; keep {plural(kept, 'message')}"


def choices(kind: str) -> Content:
    """The summarizers, with the chosen one marked; a click chooses."""
    return Content.assemble(
        "summarizer  ", choice_strip({each: f"{n} {each}" for n, each in enumerate(KINDS, 1)}, kind)
    )


def where(chosen: Summarizer | SummarizerError, prepared: Prepared | None) -> str:
    """Who would be asked, and how much would be sent."""
    if isinstance(chosen, SummarizerError):
        return sanitize_line(f"✗ {chosen}")
    if not chosen.endpoints:
        return "extract: quotations picked by rules on this machine; nothing is sent"
    much = f"est. {prepared.tokens:,} tokens to " if prepared else ""
    then = "".join(f", fallback {other.model}" for other in chosen.endpoints[1:])
    return sanitize_line(f"{much}{chosen.endpoints[0].model} at {chosen.endpoints[0].destination}{then}")


def secrets(prepared: Prepared | None, kind: str) -> str:
    """The suspected secrets and whether they are masked."""
    if prepared is None:
        return "reading the messages…"
    found = prepared.secrets(kind)
    if not found:
        return "no suspected secrets"
    state = "masked" if prepared.masked else "NOT masked"
    return f"suspected secrets, {state}: {counted(found)}"


def progress(text: str, thinking: int, seconds: float) -> str:
    """How far the reply is."""
    if text:
        return f"{seconds:.0f} s · est. {tokens_of_bytes(utf8_len(text)):,} tokens"
    if thinking:
        return f"{seconds:.0f} s · thinking, {thinking:,} characters"
    return f"{seconds:.0f} s · waiting for the first token"


def check_lines(checks: Sequence[Check]) -> Content:
    """The checks: those that failed first, the others on one line."""
    failed = sorted((check for check in checks if not check.ok), key=lambda check: check.severity)
    lines = []
    for check in failed:
        sign, look = ("✗", "$error") if check.severity == "error" else ("!", "$warning")
        lines.append(Content.assemble((f"{sign} ", look), sanitize_line(f"{check.name}: {check.detail}")))
    passed = ", ".join(check.name for check in checks if check.ok)
    if passed:
        lines.append(Content.assemble(("✓ ", "$success"), passed))
    return Content("\n").join(lines)


def written_by(draft: Draft) -> str:
    """Who wrote the summary that is shown, and how large it is."""
    took = "" if draft.kind == EXTRACT else f" · {draft.summary.seconds:.0f} s"
    changed = " · edited" if draft.edited else ""
    return f"{draft.by} · est. {tokens_of_bytes(utf8_len(draft.text)):,} tokens{took}{changed}"


def kept(drafts: Sequence[Draft]) -> str:
    """Where the summaries are that were written before and are not shown."""
    names = [f"{each.kind}{', edited' if each.edited else ''} (press {KINDS.index(each.kind) + 1})" for each in drafts]
    return f"Other drafts: {'; '.join(names)}." if names else ""


def head_parts(plan: Plan, prepared: Prepared) -> Iterator[Part]:
    """What would be sent, message by message, each block only as far as it can be looked at."""
    order = plan.head_messages
    messages = prepared.messages
    numbered = len(messages) - 1 == len(order)  # the last one is the prompt; repairs may have moved the others
    for position, message in enumerate(messages):
        number = f"{order[position]}  " if numbered and position < len(order) else ""
        prompt = numbered and position == len(order)
        yield Part(f"{number}{'prompt' if prompt else message.get('role', '')}", "heading")
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        for block in blocks:
            text, look = _block(block)
            more = len(text) - BLOCK_LENGTH
            yield Part(text[:BLOCK_LENGTH] + (f"\n… {more:,} more characters, not shown" if more > 0 else ""), look)
        yield Part("")
    if prepared.request.system:
        yield Part("system prompt", "heading")
        yield Part(prepared.request.system, "muted")


def _block(block: dict[str, Any]) -> tuple[str, str]:
    match block.get("type"):
        case "text":
            return str(block.get("text") or ""), "text"
        case "tool_use":
            return f"call {block.get('name')} {_json(block.get('input'))}", "muted"
        case "tool_result":
            body = block.get("content")
            return f"result: {result_text(body) if isinstance(body, str | list) else _json(body)}", "muted"
        case "thinking" | "redacted_thinking":
            return "(thinking: not sent)", "muted"
    return f"({block.get('type')})", "muted"


def _json(value: Any) -> str:
    return compact_json(value).decode("utf-8", "replace")
