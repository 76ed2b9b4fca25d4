"""From a plan to its summary: the request, the summarizer, and the reply. Used by the command line and the inspector.

Nothing is sent before :func:`write_summary` is called with a summarizer that has endpoints; ``extract`` never sends anything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_tui.compaction.plan import Plan
from context_tui.compaction.summary_prompt import SummaryPrompt
from context_tui.compaction.tool_pairing import repair
from context_tui.errors import PlanError
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.session.session import Message
from context_tui.summarizer.checks.summary_checks import SummaryCheck, check_summary
from context_tui.summarizer.endpoint import APIS, Endpoint
from context_tui.summarizer.extract import MAX_EXTRACT_BYTES, build_extract
from context_tui.summarizer.payload import count_suspected_secrets, mask_body
from context_tui.summarizer.reply import ReplyEvent, Summary, Usage
from context_tui.summarizer.request import SummaryRequest, clean_messages
from context_tui.summarizer.secrets import mask_text
from context_tui.summarizer.settings import resolve_endpoint
from context_tui.tokens import estimate

if TYPE_CHECKING:
    import httpx

EXTRACT = "extract"
SUMMARIZER_KINDS = (EXTRACT, *APIS)
"""What a summarizer can be; the first is the default."""


@dataclass(frozen=True)
class Summarizer:
    """Author of a summary: ``extract`` (rules, on this machine), or models, asked in this order until one answers.

    ``extract_bytes`` bounds an extract.
    """

    kind: str = EXTRACT
    endpoints: tuple[Endpoint, ...] = ()
    extract_bytes: int = MAX_EXTRACT_BYTES

    @property
    def label(self) -> str:
        """Label for display: ``extract``, or the first model and its host."""
        if not self.endpoints:
            return EXTRACT
        return f"{self.endpoints[0].model} at {self.endpoints[0].host}"


@dataclass(frozen=True)
class PreparedSummary:
    """Prepared summary of a plan: everything that is needed before anything is sent.

    Attributes:
        head: the messages that will be summarised, as the runtime prepares them (before pair repair).
        said: the same messages unprepared, without what the runtime put in: what an extract quotes.
        previous: the body of the summary that the head holds, if it holds one.
        request: what a model is asked, in the clear: secrets are masked in what is sent, and last.
        repairs: what had to be changed so that a provider accepts the head.
        tokens: estimated tokens of the request (bytes/4).
    """

    head: list[Message]
    conversation: list[Message]
    previous: str | None
    request: SummaryRequest
    repairs: tuple[str, ...]
    tokens: int
    _masks: dict[str, tuple[list[Message], Mapping[str, int]]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def masked(self) -> bool:
        """Whether suspected secrets are masked in what is sent, and in an extract."""
        return self.request.mask_secrets

    def with_masking(self, masked: bool) -> PreparedSummary:
        """The same with suspected secrets masked, or not."""
        return replace(self, request=replace(self.request, mask_secrets=masked))

    def count_secrets(self, kind: str) -> Mapping[str, int]:
        """Count the suspected secrets of each kind in exactly what a summarizer of *kind* is sent, or reads."""
        return self._mask_messages(kind)[1]

    @property
    def messages(self) -> list[Message]:
        """Messages of the request for display, with their secrets masked when ``masked``."""
        return self._mask_messages(EXTRACT)[0] if self.masked else self.request.messages

    def _mask_messages(self, kind: str) -> tuple[list[Message], Mapping[str, int]]:
        if kind not in self._masks:
            own = kind == EXTRACT
            self._masks[kind] = (
                mask_body(self.request.messages) if own else ([], count_suspected_secrets(kind, self.request))
            )
        return self._masks[kind]

    def check_text(self, text: str, summary: Summary, *, edited: bool = False, cut_off: str = "") -> list[SummaryCheck]:
        """The checks of a summary's text, and of the reply it came in unless it was *edited* since.

        A reply that is not whole fails one, edited or not; *cut_off* says how it ended.

        An extract quotes the recording, loops and all, so that what is wrong with it is never more than a warning.
        """
        if not summary.model:
            return [replace(each, severity="warning") for each in check_summary(text, self.head)]
        if edited:
            return check_summary(text, self.head, cut_off=cut_off)
        request = self.request
        return check_summary(
            text,
            self.head,
            summary.usage,
            summary.stop_reason,
            request.sections,
            max_tokens=request.max_tokens,
            cut_off=cut_off,
        )


def prepare_summary(plan: Plan, *, mask_secrets: bool = True) -> PreparedSummary:
    """Put together what is asked for a plan's summary, with the prompt of its policy.

    Raises:
        PlanError: the plan summarises nothing.
    """
    content = plan.context.content
    if content is None or not plan.needs_summary or not plan.summarised_ranges:
        raise PlanError(f"{plan.policy}: nothing to summarise here")
    if plan.prompt is None:
        raise PlanError(f"{plan.policy}: its plan has no prompt for a summary")
    head, previous, repairs = plan.messages_to_summarise, plan.previous_summary, list[str]()
    sent = head
    if plan.prompt.sends_messages:
        sent, repairs = repair(head)
    request = replace(build_request(plan.prompt, sent, previous, content.tools()), mask_secrets=mask_secrets)
    return PreparedSummary(
        head, plan.quotable_messages, previous, request, tuple(repairs), _estimate_request_tokens(request)
    )


def choose_summarizer(
    plan: Plan,
    kind: str = EXTRACT,
    model: str | None = None,
    base_url: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Summarizer:
    """Choose the summarizer by flags, environment and configuration, with the session's own model where the policy
    falls back to it.

    Raises:
        SummarizerError: an unknown kind, or settings that cannot be used; the message says which.
    """
    if kind == EXTRACT:
        return Summarizer()
    first = resolve_endpoint(kind, model, base_url, environ=environ, config=config)
    own = plan.context.facts.model or ""
    endpoints = [first]
    if (
        plan.prompt is not None
        and plan.prompt.retries_with_session_model
        and own not in ("", "<synthetic>", first.model)
    ):
        endpoints.append(replace(first, model=own))
    return Summarizer(kind, tuple(endpoints))


async def write_summary(
    summarizer: Summarizer,
    prepared: PreparedSummary,
    on_event: Callable[[ReplyEvent], None] | None = None,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Summary:
    """Have the summary written. Cancelling the task closes the connection at once.

    Args:
        on_event: told each event of the reply as it comes.
        transport: another way to carry requests, for tests.

    Returns:
        The summary; an extract's has no ``model``.

    Raises:
        SummarizerError: there is none; the message says why in one line.
    """
    if not summarizer.endpoints:
        started = time.monotonic()
        text = build_extract(prepared.conversation, prepared.previous, summarizer.extract_bytes)
        if prepared.masked:
            text = mask_text(text)[0]
        return Summary(text, "", Usage(), "", time.monotonic() - started)
    from context_tui.summarizer.client import summarize_with_fallback  # httpx: 120 ms

    return await summarize_with_fallback(summarizer.endpoints, prepared.request, on_event, transport=transport)


def write_summary_blocking(
    summarizer: Summarizer, prepared: PreparedSummary, on_event: Callable[[ReplyEvent], None] | None = None
) -> Summary:
    """:func:`write_summary` where no event loop runs; an interrupt closes the connection and passes on."""
    return asyncio.run(write_summary(summarizer, prepared, on_event))


def find_blocking_checks(checks: Iterable[SummaryCheck]) -> list[SummaryCheck]:
    """Return the failed checks that block a summary: it is refused, or accepted only when the user confirms."""
    return [each for each in checks if not each.ok and each.severity == "error"]


def format_notice(summarizer: Summarizer, prepared: PreparedSummary) -> list[str]:
    """Format the notice before anything is sent: to whom, how much, which secrets. Empty for an extract."""
    if not summarizer.endpoints:
        return []
    first = summarizer.endpoints[0]
    lines = [f"sending est. {prepared.tokens:,} tokens to {first.model} at {first.destination}"]
    lines += [f"fallback: {other.model} at {other.destination}" for other in summarizer.endpoints[1:]]
    if found := prepared.count_secrets(summarizer.kind):
        lines.append(
            f"suspected secrets, {'masked' if prepared.masked else 'NOT masked'}: {format_secret_counts(found)}"
        )
    return lines


def format_secret_counts(secrets: Mapping[str, int]) -> str:
    """Suspected secrets in words: ``2 AWS key id, 1 password``."""
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(secrets.items()))


def build_request(
    prompt: SummaryPrompt, head: list[Message], previous: str | None, tools: list[dict[str, Any]] | None = None
) -> SummaryRequest:
    """Build the request of a policy's prompt for this head.

    Args:
        previous: the body of a summary that the head holds, possibly empty, which is to be updated.
        tools: the session's tool schemas, which keep a head of messages valid.
    """
    declared = list(tools or ()) if prompt.sends_messages else []
    return SummaryRequest(
        prompt.system, prompt.build_request(head, previous), declared, prompt.max_tokens, prompt.sections
    )


def _estimate_request_tokens(request: SummaryRequest) -> int:
    """Estimate the tokens sent, by bytes/4; thinking and blanks are left out of a request."""
    fixed = bytes_to_tokens(utf8_len(request.system or ""))
    fixed += bytes_to_tokens(len(compact_json(request.tools))) if request.tools else 0
    return fixed + sum(estimate(message) or 0 for message in clean_messages(request.messages))
