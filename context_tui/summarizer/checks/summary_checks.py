"""Mechanical checks that help a person decide whether to accept a summary.

They detect failures seen with small models: copying the template, repeating a line up to the limit, stopping early
with a normal stop reason, and naming files that never existed. They cannot detect a plan that is stated as a fact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.jsontext import utf8_len
from context_tui.summarizer.reply import CUT_REASONS, ReplyUsage
from context_tui.summarizer.request import Message, list_message_blocks
from context_tui.text.files import read_toml

_TABLES = read_toml("context_tui.summarizer.checks", "summary_checks.toml")

MIN_REPEATS = 3
"""Number of copies of a line, or of a piece of text at the end, that count as a loop."""

_EMPTY_SUMMARY = re.compile(r"[^\w]*(?:none|nothing|n/?a|not applicable)?[^\w]*", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"\[(?:insert|your|describe|list|add|fill|name|placeholder|todo|goal|summary|e\.g\.)\b[^\]\n]{0,80}\]"
    r"|\{\{[^}\n]{0,80}\}\}|<(?:insert|your|describe|list|placeholder)\b[^>\n]{0,80}>|</?previous-summary>"
    r"|lorem ipsum",
    re.IGNORECASE,
)
URL_PATTERN = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://\S+", re.IGNORECASE)
_SUFFIXES = "|".join(_TABLES["suffixes"])
PATH_PATTERN = re.compile(
    r"(?<![\w/.~@-])(?:"
    rf"[\w.~@+-]{{0,100}}(?:/[\w.@+-]{{1,100}}){{1,30}}\.(?:{_SUFFIXES})|(?:~|\.{{1,2}})?(?:/[\w.@+-]{{1,100}}){{2,30}}"
    rf"|[\w-]{{1,60}}(?:\.[\w-]{{1,30}}){{0,3}}\.(?:{_SUFFIXES})"
    r")(?![\w/-])"
)
"""Path in prose: a file with a known suffix, or an absolute path of two parts or more."""
_PRODUCT_NAME = re.compile(r"[A-Z][A-Za-z0-9]*\.js")  # Node.js and the like are not files


@dataclass(frozen=True)
class SummaryCheck:
    """The result of a check; ``severity`` says how much a failure matters, and ``detail`` gives the reason."""

    name: str
    ok: bool
    severity: Literal["error", "warning"]
    detail: str

    @property
    def label(self) -> str:
        """The result in a few words, for display, or an empty string if another label implies it."""
        return _LABELS.get(self.name, (self.name, self.name))[not self.ok]


_LABELS: dict[str, list[str]] = _TABLES["labels"]
"""Labels keyed by the name of a check: one if it passed, one if it failed."""


def check_summary(
    summary: str,
    head_messages: list[Message],
    usage: ReplyUsage | None = None,
    stop_reason: str = "",
    sections: tuple[str, ...] = (),
    max_tokens: int | None = None,
    cut_off: str = "",
) -> list[SummaryCheck]:
    """Run all checks on a summary and on the reply that contained it.

    Args:
        max_tokens: requested limit; a reply that reaches it counts as cut off, whatever its stop reason.
        cut_off: how the reply ended if it is known to be incomplete, else an empty string.
    """
    history = collect_text(head_messages)
    headings = {line.strip(" #*:_0123456789.").casefold() for line in summary.splitlines()}
    missing = [name for name in sections if name.casefold() not in headings]
    missing_text, has_text = f"missing: {', '.join(missing)}" if missing else "none missing", bool(summary.strip())
    lacks_end = 0 < len(missing) < len(sections) and tuple(missing) == sections[-len(missing) :]
    return [
        SummaryCheck("not empty", has_text, "error", f"{len(summary)} characters" if has_text else "no text"),
        _check_not_cut(usage, stop_reason, max_tokens, lacks_end, cut_off),
        SummaryCheck("sections", not missing, "warning", missing_text),
        _check_not_looping(summary),
        _check_no_template(summary, history),
        _check_known_paths(summary, history),
        _check_smaller(summary, history),
    ]


def _check_not_cut(
    usage: ReplyUsage | None, stop_reason: str, max_tokens: int | None, lacks_end: bool, cut_off: str
) -> SummaryCheck:
    output_tokens = usage.output_tokens if usage is not None else None
    if cut_off:
        detail = cut_off
    elif stop_reason in CUT_REASONS:
        detail = f"the model was stopped: {stop_reason}"
    elif output_tokens is not None and max_tokens is not None and output_tokens >= max_tokens:
        detail = f"stopped at the limit of {output_tokens} tokens"
    elif lacks_end:
        detail = "ends before the last section"
    else:
        return SummaryCheck("not cut", True, "error", stop_reason or "no stop reason reported")
    return SummaryCheck("not cut", False, "error", detail)


def _check_not_looping(summary: str) -> SummaryCheck:
    counts: dict[str, int] = {}
    for line in summary.splitlines():
        if not _EMPTY_SUMMARY.fullmatch(line):
            counts[line.strip()] = counts.get(line.strip(), 0) + 1
    worst = max(counts, key=lambda line: counts[line], default="")
    if counts.get(worst, 0) >= MIN_REPEATS:
        return SummaryCheck("no loop", False, "error", f"{counts[worst]} times: {worst[:80]}")
    tail = _find_repeated_tail(summary.rstrip())
    detail = f"ends with repetitions of: {tail[:80]}" if tail else "no line repeats"
    return SummaryCheck("no loop", not tail, "error", detail)


def _find_repeated_tail(text: str) -> str:
    """Return the piece of 8 to 300 characters that is repeated ``MIN_REPEATS`` times at the end of the text, or ""."""
    for length in range(8, min(300, len(text) // MIN_REPEATS) + 1):
        if text.endswith(text[-length:] * MIN_REPEATS) and len(set(text[-length:])) > 3:
            return text[-length:]
    return ""


def _check_no_template(summary: str, history: str) -> SummaryCheck:
    placeholders = _find_unknown(_PLACEHOLDER.findall(summary), history)
    return SummaryCheck("no template text", not placeholders, "error", _format_list(placeholders) or "none")


def _check_known_paths(summary: str, history: str) -> SummaryCheck:
    """Check that paths in the summary occur in the history; a leading ``./``, ``~`` or ``/`` may differ."""
    paths = [path.rstrip(".") for path in PATH_PATTERN.findall(URL_PATTERN.sub(" ", summary))]
    unknown = _find_unknown((path for path in paths if not _PRODUCT_NAME.fullmatch(path)), history)
    detail = f"not in the conversation: {_format_list(unknown)}" if unknown else "all occur in the conversation"
    return SummaryCheck("known paths", not unknown, "warning", detail)


def _find_unknown(texts: Any, history: str) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text.lstrip("./~") not in history]


def _check_smaller(summary: str, history: str) -> SummaryCheck:
    history_tokens, summary_tokens = bytes_to_tokens(utf8_len(history)), bytes_to_tokens(utf8_len(summary))
    detail = f"about {summary_tokens} of {history_tokens} tokens"
    return SummaryCheck("smaller", summary_tokens < history_tokens, "warning", detail)


def _format_list(texts: list[str]) -> str:
    more = f" and {len(texts) - 10} more" if len(texts) > 10 else ""
    return ", ".join(islice(texts, 10)) + more


def collect_text(messages: list[Message]) -> str:
    """Join all strings in the messages, including tool arguments and results, into one text."""
    texts: list[str] = []
    pending: list[Any] = [block for message in reversed(messages) for block in reversed(list_message_blocks(message))]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            pending += [v for key, v in value.items() if key not in ("type", "id", "tool_use_id", "signature", "data")]
        elif isinstance(value, list):
            pending += reversed(value)
    return "\n".join(texts)
