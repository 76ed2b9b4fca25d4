"""Summary for a plan, from the prepared request to the checked result, for the command line and the inspector.

Nothing is sent before :func:`write_summary` is called with a summarizer that has endpoints; ``extract`` never sends
anything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from context_tui.compaction.plan import Plan, SummaryPrompt
from context_tui.compaction.tool_pairing import repair
from context_tui.errors import PlanError
from context_tui.session.blocks import bytes_to_tokens
from context_tui.session.jsontext import compact_json, utf8_len
from context_tui.session.session import Message
from context_tui.summarizer.checks.instruction_survival import (
    InstructionSource,
    PlacedInstruction,
    check_instructions,
    find_removed_instructions,
)
from context_tui.summarizer.checks.summary_checks import SummaryCheck, check_summary
from context_tui.summarizer.endpoint import APIS, Endpoint
from context_tui.summarizer.extract import MAX_EXTRACT_BYTES, build_extract
from context_tui.summarizer.payload import count_suspected_secrets, mask_body
from context_tui.summarizer.reply import ReplyEvent, ReplyUsage, Summary
from context_tui.summarizer.request import SummaryRequest, clean_messages
from context_tui.summarizer.secrets import mask_text
from context_tui.summarizer.settings import resolve_endpoint
from context_tui.tokens import estimate

if TYPE_CHECKING:
    import httpx

EXTRACT = "extract"
SUMMARIZER_KINDS = (EXTRACT, *APIS)
"""Kinds of summarizers; the first is the default."""


class Summarizer(NamedTuple):
    """A way to write a summary: ``extract`` (local rules), or models that are called in order until one succeeds.

    ``extract_bytes`` limits the size of an extract in bytes.
    """

    kind: str = EXTRACT
    endpoints: tuple[Endpoint, ...] = ()
    extract_bytes: int = MAX_EXTRACT_BYTES

    @property
    def label(self) -> str:
        """Name for display: ``extract``, or the first model with its host."""
        if not self.endpoints:
            return EXTRACT
        return f"{self.endpoints[0].model} at {self.endpoints[0].host}"


@dataclass(frozen=True)
class PreparedSummary:
    """Everything needed to summarise part of a session for a plan, prepared before any request is sent.

    Attributes:
        head: the messages to summarise, as prepared by the runtime (before pair repair).
        conversation: the same messages as recorded, without injected blocks, for an extract.
        previous: text of an earlier summary in the head, or None.
        request: the request to a model, in which secrets are masked only when it is encoded.
        repairs: changes that make the head acceptable to a provider.
        tokens: estimated tokens in the request (bytes/4).
        instructions: the typed instructions in the head, which only the summary can preserve.
    """

    head: list[Message]
    conversation: list[Message]
    previous: str | None
    request: SummaryRequest
    repairs: tuple[str, ...]
    tokens: int
    instructions: Sequence[PlacedInstruction] = ()
    _masks: dict[str, tuple[list[Message], Mapping[str, int]]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def masks_secrets(self) -> bool:
        """Whether suspected secrets are masked in requests and in extracts."""
        return self.request.mask_secrets

    def with_masking(self, masked: bool) -> PreparedSummary:
        """Return a copy in which suspected secrets are masked if *masked*, and are sent unchanged otherwise."""
        return replace(self, request=self.request._replace(mask_secrets=masked))

    def count_secrets(self, kind: str) -> Mapping[str, int]:
        """Count the suspected secrets of each kind in the exact input that a summarizer of *kind* gets."""
        return self._mask_messages(kind)[1]

    @property
    def messages(self) -> list[Message]:
        """Messages of the request, for display; secrets are masked if they are masked in the request that is sent."""
        return self._mask_messages(EXTRACT)[0] if self.masks_secrets else self.request.messages

    def _mask_messages(self, kind: str) -> tuple[list[Message], Mapping[str, int]]:
        if kind not in self._masks:
            is_extract, request = kind == EXTRACT, self.request
            masked = mask_body(request.messages) if is_extract else ([], count_suspected_secrets(kind, request))
            self._masks[kind] = masked
        return self._masks[kind]

    def check_text(self, text: str, summary: Summary, *, edited: bool = False, cut_off: str = "") -> list[SummaryCheck]:
        """Check the text of a summary and, unless it was *edited*, the reply that contained it.

        An incomplete reply always fails a check; *cut_off* says how the reply ended. An extract quotes the recording,
        including any loops, so its failed checks are warnings.
        """
        if not summary.model:
            checks = [replace(each, severity="warning") for each in check_summary(text, self.head)]
        elif edited:
            checks = check_summary(text, self.head, cut_off=cut_off)
        else:
            sections, limit = self.request.sections, self.request.max_tokens
            checks = check_summary(text, self.head, summary.usage, summary.stop_reason, sections, limit, cut_off)
        return [*checks, check_instructions(self.instructions, text)] if self.instructions else checks


def prepare_summary(plan: Plan, *, mask_secrets: bool = True) -> PreparedSummary:
    """Prepare the summary for a plan, raising PlanError if the plan summarises nothing or its policy has no prompt."""
    content = plan.context.content
    if content is None or not plan.needs_summary or not plan.summarised_ranges:
        raise PlanError(f"{plan.policy}: nothing to summarise here; choose another point or policy")
    if plan.prompt is None:
        raise PlanError(f"{plan.policy}: its plan has no summary prompt; choose another policy")
    head, previous = plan.messages_to_summarise, plan.previous_summary
    history, repairs = repair(head) if plan.prompt.sends_messages else (head, [])
    request = build_request(plan.prompt, history, previous, content.tools())._replace(mask_secrets=mask_secrets)
    tokens = _estimate_request_tokens(request)
    instructions = [each for each in find_removed_instructions(plan) if each.source is InstructionSource.USER]
    return PreparedSummary(head, plan.quotable_messages, previous, request, tuple(repairs), tokens, instructions)


def choose_summarizer(
    plan: Plan,
    kind: str = EXTRACT,
    model: str | None = None,
    base_url: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Summarizer:
    """Build the summarizer that the flags, the environment and the configuration file select, in that order.

    If the policy retries with the session's model, that model is the last endpoint.

    Raises SummarizerError if the kind is unknown, or a setting is invalid.
    """
    if kind == EXTRACT:
        return Summarizer()
    endpoint = resolve_endpoint(kind, model, base_url, environ=environ)
    session_model = plan.context.facts.model or ""
    endpoints = [endpoint]
    retries = plan.prompt is not None and plan.prompt.retries_with_session_model
    if retries and session_model not in ("", "<synthetic>", endpoint.model):
        endpoints.append(replace(endpoint, model=session_model))
    return Summarizer(kind, tuple(endpoints))


async def write_summary(
    summarizer: Summarizer,
    prepared: PreparedSummary,
    on_event: Callable[[ReplyEvent], None] | None = None,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Summary:
    """Write the summary for a plan; its ``model`` is empty for an extract.

    Cancelling the task closes the connection immediately. Raises SummarizerError if every endpoint failed.
    """
    if not summarizer.endpoints:
        started = time.monotonic()
        text = build_extract(prepared.conversation, prepared.previous, summarizer.extract_bytes)
        if prepared.masks_secrets:
            text = mask_text(text)[0]
        return Summary(text, "", ReplyUsage(), "", time.monotonic() - started)
    from context_tui.summarizer.client import summarize_with_fallback  # httpx: 120 ms

    return await summarize_with_fallback(summarizer.endpoints, prepared.request, on_event, transport=transport)


def write_summary_blocking(summarizer: Summarizer, prepared: PreparedSummary) -> Summary:
    """Run :func:`write_summary` to its end without an event loop; an interrupt closes the connection and is raised."""
    return asyncio.run(write_summary(summarizer, prepared))


def find_blocking_checks(checks: Iterable[SummaryCheck]) -> list[SummaryCheck]:
    """Return the failed checks of severity ``error``; the summary is refused, or accepted only after confirmation."""
    return [each for each in checks if not each.ok and each.severity == "error"]


def format_notice(summarizer: Summarizer, prepared: PreparedSummary) -> list[str]:
    """Describe a request before it is sent: destination, size and secrets. Return [] for an extract (never sent)."""
    if not summarizer.endpoints:
        return []
    first = summarizer.endpoints[0]
    lines = [f"sending est. {prepared.tokens:,} tokens to {first.model} at {first.destination}"]
    lines += [f"fallback: {other.model} at {other.destination}" for other in summarizer.endpoints[1:]]
    if secrets := prepared.count_secrets(summarizer.kind):
        state = "masked" if prepared.masks_secrets else "NOT masked"
        lines.append(f"suspected secrets, {state}: {format_secret_counts(secrets)}")
    return lines


def format_secret_counts(secrets: Mapping[str, int]) -> str:
    """Format the numbers of suspected secrets of each kind, as in ``2 AWS key id, 1 password``."""
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(secrets.items()))


def build_request(
    prompt: SummaryPrompt, head: list[Message], previous: str | None, tools: list[dict[str, Any]] | None = None
) -> SummaryRequest:
    """Build the request that asks for a summary of *head* with a policy's prompt, or for an update of *previous*."""
    messages, declared = prompt.build_request(head, previous), list(tools or ()) if prompt.sends_messages else []
    return SummaryRequest(prompt.system, messages, declared, prompt.max_tokens, prompt.sections)


def _estimate_request_tokens(request: SummaryRequest) -> int:
    fixed = bytes_to_tokens(utf8_len(request.system or ""))
    fixed += bytes_to_tokens(len(compact_json(request.tools))) if request.tools else 0
    return fixed + sum(estimate(message) or 0 for message in clean_messages(request.messages))
