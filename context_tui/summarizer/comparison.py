"""Comparison of summarizers by the facts that survive when each summarises the same messages once or several times.

:func:`compare_summarizers` announces every request before it is sent; ``extract`` never sends anything.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Any, NamedTuple

from context_tui.compaction.apply import apply, iterate_result_entries
from context_tui.compaction.plan import Plan
from context_tui.errors import PlanError, SummarizerError
from context_tui.lab.price.rates import find_rates
from context_tui.session.facts import Usage
from context_tui.session.session import Message, Session
from context_tui.session.values import Kind, MessageFlag, Role
from context_tui.summarizer.checks.facts import Fact, extract_facts, extract_text_pieces
from context_tui.summarizer.checks.summary_checks import SummaryCheck, collect_text
from context_tui.summarizer.checks.survival import FactMatcher, FactSurvival
from context_tui.summarizer.plan_summary import (
    EXTRACT,
    SUMMARIZER_KINDS,
    PreparedSummary,
    Summarizer,
    choose_summarizer,
    format_notice,
    prepare_summary,
    write_summary_blocking,
)
from context_tui.summarizer.reply import Summary
from context_tui.tokens.context_index import index_context

_URL_SEPARATOR = re.compile(r"@(?=https?://)")
_SETTING_SEPARATOR = re.compile(r",(?=[a-z_]+=)")
_SETTING_NAMES = {"extract": ("bytes",), "model": ("prompt", "max_tokens", "timeout")}
MAX_ROUNDS = 50


class Contender(NamedTuple):
    """A summarizer to compare, as specified by ``KIND[:MODEL][@URL][,KEY=VALUE…]``.

    Attributes:
        kind: one of ``SUMMARIZER_KINDS``.
        model: name of the model; if empty, that of the environment, the configuration file or the API.
        base_url: URL of the server; if empty, that of the environment, the configuration file or the API.
        prompt: file with a system prompt to use in place of the policy's, or empty.
        max_tokens: limit on the reply in tokens, or None for the policy's limit.
        timeout: seconds until a call is abandoned, or None for the configured time.
        extract_bytes: limit on an extract in bytes, or None for the default.
    """

    spec: str
    kind: str
    model: str = ""
    base_url: str = ""
    prompt: str = ""
    max_tokens: int | None = None
    timeout: float | None = None
    extract_bytes: int | None = None

    def build_summarizer(self, plan: Plan) -> Summarizer:
        """Build the summarizer without a fallback model, whose summaries would be credited to this contender.

        Raises SummarizerError if its settings are invalid.
        """
        if self.kind == EXTRACT:
            return Summarizer() if self.extract_bytes is None else Summarizer(extract_bytes=self.extract_bytes)
        endpoint = choose_summarizer(plan, self.kind, self.model or None, self.base_url or None).endpoints[0]
        if self.timeout is not None:
            shorter = min(self.timeout, endpoint.read_timeout)
            endpoint = replace(endpoint, total_timeout=self.timeout, read_timeout=shorter)
        return Summarizer(self.kind, (endpoint,))

    def customize_plan(self, plan: Plan, prompt_text: str) -> Plan:
        """Return the plan with this contender's system prompt and reply limit, or the same plan if it has neither."""
        prompt = plan.prompt
        if prompt is None:
            return plan
        if self.prompt:
            build_request = append_summary_request if prompt.sends_messages else prompt.build_request
            prompt = replace(prompt, system=prompt_text, sections=(), build_request=build_request)
        if self.max_tokens is not None:
            prompt = replace(prompt, max_tokens=self.max_tokens)
        return plan if prompt is plan.prompt else replace(plan, prompt=prompt)


def parse_contender(spec: str) -> Contender:
    """Parse a specification such as ``openai:qwen2.5:7b@http://127.0.0.1:8080/v1``, raising PlanError if invalid."""
    head, *settings = _SETTING_SEPARATOR.split(spec)
    separator = _URL_SEPARATOR.search(head)
    place = separator.start() if separator else head.find("@")
    head, url = (head[:place], head[place + 1 :]) if place >= 0 else (head, "")
    kind, colon, model = head.partition(":")
    if url and not url.startswith(("http://", "https://")):
        model, url = f"{model}@{url}", ""
    if kind not in SUMMARIZER_KINDS:
        raise PlanError(f"unknown summarizer {kind!r}; available: {', '.join(SUMMARIZER_KINDS)}")
    is_extract = kind == EXTRACT
    if is_extract and (model or url):
        raise PlanError(f"{spec!r}: extract uses no model; write extract, or name another kind as KIND:MODEL@URL")
    if colon and not model and not is_extract:
        raise PlanError(f"{spec!r}: no model after the colon; name one, or omit the colon")
    names, values = _SETTING_NAMES["extract" if is_extract else "model"], dict[str, Any]()
    for name, _, value in (setting.partition("=") for setting in settings):
        if name not in names:
            raise PlanError(f"{spec!r}: unknown setting {name!r}; available: {', '.join(names)}")
        if name == "prompt" and not value:
            raise PlanError(f"{spec!r}: prompt is empty; name a file")
        member = "extract_bytes" if name == "bytes" else name
        values[member] = value if name == "prompt" else _parse_number(spec, name, value)
    return Contender(spec, kind, model, url, **values)


def _parse_number(spec: str, name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < inf or (name != "timeout" and not number.is_integer()):
        raise PlanError(f"{spec!r}: {name}={value} is not a positive number; give one such as 600")
    return number if name == "timeout" else int(number)


def append_summary_request(head: list[Message], previous: str | None) -> list[Message]:
    """Append a user message that asks for the summary, for use with a custom system prompt."""
    text = "Write the summary of the conversation above."
    if previous is not None:
        text += f" It takes the place of this earlier one:\n\n<previous-summary>\n{previous}\n</previous-summary>"
    return [*head, {"role": "user", "content": [{"type": "text", "text": text}]}]


class SummaryCost(NamedTuple):
    """Cost of a summary in US dollars at the model's list price, as published in ``source`` on ``date`` (ISO).

    ``source`` and ``date`` are empty for an extract, which is free.
    """

    usd: float
    date: str = ""
    source: str = ""


class ComparisonRound(NamedTuple):
    """One compaction by one summarizer, with the summary and the facts that survive in it.

    Attributes:
        at: index of the recorded message before which the compaction happens.
        request_tokens: estimated tokens in the request (bytes/4); 0 for an extract.
        error: the reason why the summarizer failed, on one line; else empty.
        skipped: the reason why there was nothing to summarise, so that the previous summary remains; else empty.
        survivals: for each fact in the first head, whether it survives, with the evidence.
    """

    at: int
    head_messages: int = 0
    request_tokens: int = 0
    summary: Summary | None = None
    error: str = ""
    skipped: str = ""
    checks: tuple[SummaryCheck, ...] = ()
    survivals: tuple[FactSurvival, ...] = ()
    cost: SummaryCost | None = None

    @property
    def preserved_count(self) -> int:
        """Number of facts that survive in the summary."""
        return sum(each.preserved for each in self.survivals)


@dataclass
class ContenderRun:
    """The rounds of one summarizer, up to the first failure; ``name`` is a letter that stands for the summarizer."""

    name: str
    contender: Contender
    summarizer: Summarizer
    rounds: list[ComparisonRound] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        """Whether a round ended with an error and so without a summary."""
        return any(each.error for each in self.rounds)


class Comparison(NamedTuple):
    """The results of several summarizers on the same head: the messages that one plan replaces with a summary.

    Attributes:
        head_tokens: estimated tokens that the head has in the context (bytes/4).
        facts_in_request: for each fact, whether the request contains it; a policy may truncate long results first.
        points: indexes of the messages before which a compaction happens, in order.
        facts_in_tail: for each point and fact, whether the messages between the first head and the point also have the
            fact; a summary may then have taken it from them.
        interrupted: whether the user stopped the comparison, so that the results are partial.
    """

    plan: Plan
    head_tokens: int
    facts: list[Fact]
    facts_in_request: tuple[bool, ...]
    points: tuple[int, ...]
    facts_in_tail: tuple[tuple[bool, ...], ...]
    runs: list[ContenderRun]
    interrupted: bool = False


def compare_summarizers(
    session: Session,
    plan_at: Callable[[Session, int], Plan],
    contenders: Sequence[Contender],
    *,
    at: int | None = None,
    rounds: int = 1,
    mask_secrets: bool = False,
    read_prompt: Callable[[str], str] = lambda path: "",
    notify: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Have every contender summarise the head that a policy drops, and find which facts survive in each summary.

    If the plan changes nothing, the result has neither facts nor runs, and the plan states the reason.

    Raises PlanError if the policy summarises nothing, or *rounds* is out of range, and SummarizerError if the settings
    of a contender are invalid; nothing was sent.

    Args:
        plan_at: returns the policy's plan for the context before a message of a session.
        contenders: the summarizers, each called once per round.
        at: message before which the (last) compaction happens; default: the end of the session.
        rounds: number of compactions, at the points of :func:`find_compaction_points`. Each summarises the previous
            summary and the messages since; the facts are always those of the first head. Points at which there is
            nothing to summarise yet are skipped.
        notify: called with a line for each request, before anything is sent.
    """
    points = find_compaction_points(session, len(session) if at is None else at, rounds)
    plan = plan_at(session, points[0])
    while not plan.has_changes and len(points) > 1:
        points = points[1:]
        plan = plan_at(session, points[0])
    if not plan.has_changes:
        return Comparison(plan, 0, [], (), points, (), [])
    prompts = {each.prompt: read_prompt(each.prompt) for each in contenders if each.prompt}
    shared = prepare_summary(plan, mask_secrets=mask_secrets)
    runs = [ContenderRun(chr(65 + place), each, each.build_summarizer(plan)) for place, each in enumerate(contenders)]
    facts, request_matcher = extract_head_facts(plan), FactMatcher(collect_text(shared.request.messages))
    head = set(plan.summarised_message_numbers)
    sums = index_context(plan.context)
    head_tokens = sum(sums.tokens[sums.position_of[message]] for message in head)
    in_request = tuple(request_matcher.match_fact(fact).preserved for fact in facts)
    in_tail = tuple(_find_facts_in_tail(session, head, point, facts) for point in points)
    comparison = Comparison(plan, head_tokens, facts, in_request, points, in_tail, runs)

    def prepare_for_run(run: ContenderRun, compaction_plan: Plan) -> PreparedSummary:
        own_plan = run.contender.customize_plan(compaction_plan, prompts.get(run.contender.prompt, ""))
        return shared if own_plan is plan else prepare_summary(own_plan, mask_secrets=mask_secrets)

    prepared_runs = [(run, prepare_for_run(run, plan)) for run in runs]
    for run, prepared in prepared_runs:
        _notify_request(run, prepared, notify)
    try:
        for run, prepared in prepared_runs:
            _run_rounds(run, comparison, prepared, session, plan_at, prepare_for_run, notify)
    except KeyboardInterrupt:
        return comparison._replace(interrupted=True)
    return comparison


def find_compaction_points(session: Session, at: int, rounds: int) -> tuple[int, ...]:
    """Return the messages before which *rounds* compactions happen, in order; the last one is *at*.

    The points divide the context into parts of equal estimated tokens (bytes/4); each but the last is then moved to the
    next assistant message. A short context has fewer points.

    Raises PlanError if *at* is outside the session, or *rounds* is not 1 to :data:`MAX_ROUNDS`.
    """
    if not 1 <= rounds <= MAX_ROUNDS:
        raise PlanError(f"repeat={rounds}: must be 1 to {MAX_ROUNDS}")
    context = session.context_at(at)
    sums = index_context(context)
    points = set[int]()
    for part in range(1, rounds):
        start = bisect_left(sums.prefix, sums.total * part / rounds)
        candidates = (context.order[position] for position in sums.assistants if position >= start)
        points.update(islice((message for message in candidates if message >= context.epoch_start), 1))
    return (*sorted(points - {at}), at)


def extract_head_facts(plan: Plan) -> list[Fact]:
    """Extract the facts from the messages that a plan summarises, without blocks that the runtime injected."""
    facts = plan.context.facts
    tools = frozenset(facts.tool_name(row) for row in range(len(facts.kind)) if facts.kind[row] == Kind.TOOL_USE)
    blocks = []
    for message, ordinal, block in plan.iterate_quotable_blocks():
        role = "assistant" if facts.role[message] == Role.ASSISTANT else "user"
        blocks.append((message, ordinal, role, block, bool(facts.flags[message] & MessageFlag.SUMMARY)))
    return extract_facts(extract_text_pieces(blocks), tools)


def continue_after_compaction(
    session: Session, plan: Plan, summary: str, points: Sequence[int]
) -> tuple[Session, list[int]]:
    """Compact the start of a session, keeping later messages; return the new session and the points in it.

    Raises PlanError if the plan's context is not the start of the context at the last point.

    Args:
        plan: the compaction, which happens before the last of the points.
        points: indexes of messages of *session*.
    """
    later_context = session.context_at(points[-1])
    if tuple(later_context.order[: len(plan.context)]) != tuple(plan.context.order):
        problem = f"the context before message {plan.context.at:,} does not continue"
        raise PlanError(f"{plan.policy}: {problem}; choose another point")
    context = replace(plan.context, at=points[-1], order=later_context.order, base=None, memo={})
    extended_plan = replace(plan, context=context, tokens_saved=None)
    numbers = {entry: place for place, entry in enumerate(iterate_result_entries(extended_plan))}  # with inserts
    compacted = apply(session, extended_plan, summary)
    return compacted, [numbers.get(point, len(compacted)) for point in points]


def _run_rounds(
    run: ContenderRun,
    comparison: Comparison,
    prepared: PreparedSummary,
    session: Session,
    plan_at: Callable[[Session, int], Plan],
    prepare_for: Callable[[ContenderRun, Plan], PreparedSummary],
    notify: Callable[[str], None],
) -> None:
    plan, points = comparison.plan, list(comparison.points)
    for place, point in enumerate(comparison.points):
        if place:
            plan = plan_at(session, points[place])
            if not plan.has_changes or not plan.needs_summary:
                run.rounds.append(ComparisonRound(point, skipped=plan.reason or "nothing is summarised"))
                continue
            prepared = prepare_for(run, plan)
            _notify_request(run, prepared, notify, f", compaction {place + 1} of {len(points)}")
        compaction = _run_round(run, prepared, point, len(plan.summarised_message_numbers), comparison.facts)
        run.rounds.append(compaction)
        if compaction.summary is None:
            return
        if place + 1 < len(points):
            session, points = continue_after_compaction(session, plan, compaction.summary.text, points)


def _run_round(
    run: ContenderRun, prepared: PreparedSummary, at: int, head_count: int, facts: Sequence[Fact]
) -> ComparisonRound:
    compaction = ComparisonRound(at, head_count, prepared.tokens if run.summarizer.endpoints else 0)
    try:
        summary = write_summary_blocking(run.summarizer, prepared)
    except SummarizerError as error:
        return compaction._replace(error=str(error))
    checks, survivals = prepared.check_text(summary.text, summary), map(FactMatcher(summary.text).match_fact, facts)
    cost = compute_cost(summary)
    return compaction._replace(summary=summary, checks=tuple(checks), survivals=tuple(survivals), cost=cost)


def compute_cost(summary: Summary) -> SummaryCost | None:
    """Return the cost of a summary by its reported usage, or None if the usage or the model's price is unknown.

    Cache writes are priced at the 5-minute rate, the only one that is requested.
    """
    if not summary.model:
        return SummaryCost(0.0)
    rates, usage = find_rates(summary.model), summary.usage
    if rates is None or usage.output_tokens is None or not usage.context_tokens:
        return None
    prompt_rates = rates.select_for_prompt(usage.context_tokens)
    prompt = Usage(usage.input_tokens or 0, usage.cache_read_tokens or 0, usage.cache_write_tokens or 0)
    usd = prompt_rates.compute_recorded_cost(prompt) + prompt_rates.output * usage.output_tokens
    return SummaryCost(usd, rates.date, rates.source)


def _find_facts_in_tail(session: Session, head: set[int], point: int, facts: Sequence[Fact]) -> tuple[bool, ...]:
    context = session.context_at(point)
    tail = session.messages_in(context, [each for each in context.order if each not in head])
    matcher = FactMatcher(collect_text(tail))
    return tuple(matcher.match_fact(fact).preserved for fact in facts)


def _notify_request(
    run: ContenderRun, prepared: PreparedSummary, notify: Callable[[str], None], suffix: str = ""
) -> None:
    repairs = prepared.repairs if run.summarizer.endpoints else ()
    changes = (f"changed for the provider: {repair}" for repair in repairs)
    for line in (*format_notice(run.summarizer, prepared), *changes):
        notify(f"{run.name}{suffix}: {line}")
