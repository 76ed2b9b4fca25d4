"""Comparison of summarizers on the same head: which of its facts survive in each, also after several rounds.

Nothing is sent before :func:`compare_summarizers` has told where; ``extract`` never sends anything.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import NamedTuple

from context_tui.compaction.apply import apply, iterate_result_entries
from context_tui.compaction.plan import Insert, Plan
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
"""Most compactions one after another."""


@dataclass(frozen=True)
class Contender:
    """A summarizer as it is named in one text, ``KIND[:MODEL][@URL][,KEY=VALUE…]``.

    Attributes:
        spec: that text.
        kind: one of ``KINDS``.
        model: the model to ask; nothing: that of the environment, the configuration file or the API.
        base_url: the server to ask; nothing: as for the model.
        prompt: a file whose text is the system prompt instead of the policy's; nothing: the policy's own prompt.
        max_tokens: the most that the reply may use; None: the policy's limit.
        timeout: seconds until a call is given up; None: as configured.
        extract_bytes: bound of an extract; None: the usual one.
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
        """Build the summarizer with one model, without a policy's fallback: else nothing would be compared.

        Raises:
            SummarizerError: the settings cannot be used.
        """
        if self.kind == EXTRACT:
            return Summarizer() if self.extract_bytes is None else Summarizer(extract_bytes=self.extract_bytes)
        endpoint = choose_summarizer(plan, self.kind, self.model or None, self.base_url or None).endpoints[0]
        if self.timeout is not None:
            shorter = min(self.timeout, endpoint.read_timeout)
            endpoint = replace(endpoint, total_timeout=self.timeout, read_timeout=shorter)
        return Summarizer(self.kind, (endpoint,))

    def customize_plan(self, plan: Plan, prompt_text: str) -> Plan:
        """The plan with what this one is asked: another prompt, another limit."""
        prompt = plan.prompt
        if prompt is None:
            return plan
        if self.prompt:
            prompt = replace(
                prompt,
                system=prompt_text,
                sections=(),
                build_request=append_summary_request if prompt.sends_messages else prompt.build_request,
            )
        if self.max_tokens is not None:
            prompt = replace(prompt, max_tokens=self.max_tokens)
        return plan if prompt is plan.prompt else replace(plan, prompt=prompt)


def parse_contender(spec: str) -> Contender:
    """Parse the name of a summarizer, as in ``openai:qwen2.5:7b@http://127.0.0.1:8080/v1,prompt=mine.txt``.

    Raises:
        PlanError: it cannot be read; the message says what is wrong with it.
    """
    head, *settings = _SETTING_SEPARATOR.split(spec)
    head, _, url = head.partition("@") if not _URL_SEPARATOR.search(head) else _split_at_url(head)
    kind, colon, model = head.partition(":")
    if url and not url.startswith(("http://", "https://")):
        model, url = f"{model}@{url}", ""
    if kind not in SUMMARIZER_KINDS:
        raise PlanError(f"unknown summarizer {kind!r}; available: {', '.join(SUMMARIZER_KINDS)}")
    own = kind == EXTRACT
    if own and (model or url):
        raise PlanError(f"{spec!r}: extract asks no model; name one as KIND:MODEL@URL, or leave it out")
    if colon and not model and not own:
        raise PlanError(f"{spec!r}: no model after the colon; name one, or leave the colon out")
    found = Contender(spec, kind, model, url)
    for setting in settings:
        found = _apply_setting(found, setting, _SETTING_NAMES["extract" if own else "model"])
    return found


def _split_at_url(head: str) -> tuple[str, str, str]:
    before, after = _URL_SEPARATOR.split(head, maxsplit=1)
    return before, "@", after


def _apply_setting(given: Contender, setting: str, known: tuple[str, ...]) -> Contender:
    name, _, value = setting.partition("=")
    if name not in known:
        raise PlanError(f"{given.spec!r}: unknown setting {name!r}; available: {', '.join(known)}")
    if name == "prompt":
        if not value:
            raise PlanError(f"{given.spec!r}: prompt is empty; name a file")
        return replace(given, prompt=value)
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < inf or (name != "timeout" and not number.is_integer()):
        raise PlanError(f"{given.spec!r}: {name}={value} is not a positive number; give one such as 600")
    if name == "timeout":
        return replace(given, timeout=number)
    if name == "bytes":
        return replace(given, extract_bytes=int(number))
    return replace(given, max_tokens=int(number))


def append_summary_request(head: list[Message], previous: str | None) -> list[Message]:
    """The head and one more user message, for a system prompt that says all the rest."""
    text = "Write the summary of the conversation above."
    if previous is not None:
        text += f" It takes the place of this earlier one:\n\n<previous-summary>\n{previous}\n</previous-summary>"
    return [*head, {"role": "user", "content": [{"type": "text", "text": text}]}]


class SummaryCost(NamedTuple):
    """Cost of a summary in US dollars, by the list price of its model from ``source`` on ``date`` (ISO).

    Both are empty for an extract, which costs nothing.
    """

    usd: float
    date: str = ""
    source: str = ""


@dataclass(frozen=True)
class ComparisonRound:
    """Compaction by one summarizer.

    Attributes:
        at: the message of the recording before which it happens.
        head_messages: how many messages were summarised.
        request_tokens: estimated tokens of what a model is asked (bytes/4); an extract is not asked.
        summary: what came; None where nothing did.
        error: why nothing came, on one line.
        skipped: why there was nothing to summarise; the summary before it stands.
        checks: the checks of the summary.
        survivals: by fact of the first head.
        cost: what it cost; None: unknown.
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
        """Number of facts that survive."""
        return sum(each.preserved for each in self.survivals)


@dataclass
class ContenderRun:
    """Rounds of one summarizer, as far as it got. ``name`` is a letter."""

    name: str
    contender: Contender
    summarizer: Summarizer
    rounds: list[ComparisonRound] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether its model could not be asked, or gave no summary."""
        return any(each.error for each in self.rounds)


@dataclass(frozen=True)
class Comparison:
    """Summarizers on the same head.

    Attributes:
        plan: the plan of the first compaction.
        tokens: estimated tokens of its head as it stands in the context (bytes/4).
        facts: the facts of its head.
        shown: by fact, whether what a model is sent has it: a policy cuts long results before they are summarised.
        points: the messages before which a compaction happens, in order.
        again: by point and fact, whether the messages behind the first head and before that point have it too: it may
            be in a summary without having been remembered.
        runs: by summarizer.
        interrupted: whether it was ended by hand; what had come until then is here.
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
    """Have every contender summarise the head that a policy drops, and look for the head's facts in each summary.

    Where nothing would change there are neither facts nor runs; the plan says why.

    Args:
        session: what was recorded.
        plan_at: the policy's plan for the context before a message of a session.
        contenders: who is compared, each asked once for each round.
        at: the message before which the (last) compaction happens; default: the end of the session.
        rounds: how many compactions, at the points of :func:`find_compaction_points`. Each summarises what the summary before it
            and the messages since make up; the facts stay those of the first head. Points before the first one at
            which there is something to summarise are passed over.
        mask_secrets: whether suspected secrets are masked in what is sent, and in extracts.
        read: gives the text of the file of a prompt.
        tell: is told what is about to be sent to whom, before it is.

    Raises:
        PlanError: the policy clears or drops and summarises nothing, or there are not so many rounds.
        SummarizerError: settings that cannot be used; nothing was sent.
    """
    points = find_compaction_points(session, len(session) if at is None else at, rounds)
    plan = plan_at(session, points[0])
    while not plan.has_changes and len(points) > 1:
        points = points[1:]
        plan = plan_at(session, points[0])
    if not plan.has_changes:
        return Comparison(plan, 0, [], (), points, (), [])
    prompts = {each.prompt: read_prompt(each.prompt) for each in contenders if each.prompt}
    usual = prepare_summary(plan, mask_secrets=mask_secrets)
    runs = [ContenderRun(chr(65 + place), each, each.build_summarizer(plan)) for place, each in enumerate(contenders)]
    facts, sent = extract_head_facts(plan), FactMatcher(collect_text(usual.request.messages))
    head = set(plan.summarised_message_numbers)
    sums = index_context(plan.context)
    found = Comparison(
        plan,
        sum(sums.tokens[sums.position_of[message]] for message in head),
        facts,
        tuple(sent.match_fact(fact).preserved for fact in facts),
        points,
        tuple(_find_facts_in_tail(session, head, point, facts) for point in points),
        runs,
    )

    def prepare_for_run(run: ContenderRun, made: Plan) -> PreparedSummary:
        asked = run.contender.customize_plan(made, prompts.get(run.contender.prompt, ""))
        return usual if asked is plan else prepare_summary(asked, mask_secrets=mask_secrets)

    first = [prepare_for_run(run, plan) for run in runs]
    for run, asked in zip(runs, first, strict=True):
        _notify_request(run, asked, notify)
    try:
        for run, asked in zip(runs, first, strict=True):
            _run_rounds(run, found, asked, session, plan_at, prepare_for_run, notify)
    except KeyboardInterrupt:
        return replace(found, interrupted=True)
    return found


def find_compaction_points(session: Session, at: int, rounds: int) -> tuple[int, ...]:
    """Return the messages before which the compactions happen, the last one at *at*.

    They cut the context there into parts of the same estimated tokens (bytes/4), each but the last moved on to the
    next message of the assistant; fewer where there are not so many.

    Raises:
        PlanError: no such message, or *rounds* is not 1 to :data:`MAX_ROUNDS`.
    """
    if not 1 <= rounds <= MAX_ROUNDS:
        raise PlanError(f"repeat={rounds}: must be 1 to {MAX_ROUNDS}")
    context = session.context_at(at)
    sums = index_context(context)
    found = set[int]()
    for part in range(1, rounds):
        start = bisect_left(sums.prefix, sums.total * part / rounds)
        later = (context.order[position] for position in sums.assistants if position >= start)
        found.update(islice((message for message in later if message >= context.epoch_start), 1))
    return (*sorted(found - {at}), at)


def extract_head_facts(plan: Plan) -> list[Fact]:
    """Extract the facts of what a plan summarises; injected text has none."""
    facts = plan.context.facts
    tools = frozenset(facts.tool_name(row) for row in range(len(facts.kind)) if facts.kind[row] == Kind.TOOL_USE)
    blocks = (
        (
            message,
            ordinal,
            "assistant" if facts.role[message] == Role.ASSISTANT else "user",
            block,
            bool(facts.flags[message] & MessageFlag.SUMMARY),
        )
        for message, ordinal, block in plan.iterate_quotable_blocks()
    )
    return extract_facts(extract_text_pieces(blocks), tools)


def continue_after_compaction(
    session: Session, plan: Plan, summary: str, points: Sequence[int]
) -> tuple[Session, list[int]]:
    """Apply a compaction to a session and append everything recorded after it; returns it and the points as numbers in
    it.

    Args:
        session: what the plan was made of.
        plan: the compaction; it happens before the last of the points.
        points: messages of *session*.

    Raises:
        PlanError: the plan cannot be carried out with what is recorded later.
    """
    rest = session.context_at(points[-1])
    if tuple(rest.order[: len(plan.context)]) != tuple(plan.context.order):
        raise PlanError(
            f"{plan.policy}: the context before message {plan.context.at:,} is not the beginning of the rest"
        )
    context = replace(plan.context, at=points[-1], order=rest.order, base=None, memo={})
    whole = replace(plan, context=context, tokens_saved=None)
    numbers = {
        message: place for place, message in enumerate(iterate_result_entries(whole)) if not isinstance(message, Insert)
    }
    done = apply(session, whole, summary)
    return done, [numbers.get(point, len(done)) for point in points]


def _run_rounds(
    run: ContenderRun,
    comparison: Comparison,
    prepared: PreparedSummary,
    session: Session,
    plan_at: Callable[[Session, int], Plan],
    prepare_for: Callable[[ContenderRun, Plan], PreparedSummary],
    notify: Callable[[str], None],
) -> None:
    """Make the rounds of one summarizer, until it fails."""
    plan, points = comparison.plan, list(comparison.points)
    for place, point in enumerate(comparison.points):
        if place:
            plan = plan_at(session, points[place])
            if not plan.has_changes or not plan.needs_summary:
                run.rounds.append(ComparisonRound(point, skipped=plan.reason or "nothing is summarised"))
                continue
            prepared = prepare_for(run, plan)
            _notify_request(run, prepared, notify, f", compaction {place + 1} of {len(points)}")
        made = _run_round(run, prepared, point, len(plan.summarised_message_numbers), comparison.facts)
        run.rounds.append(made)
        if made.summary is None:
            return
        if place + 1 < len(points):
            session, points = continue_after_compaction(session, plan, made.summary.text, points)


def _run_round(
    run: ContenderRun, prepared: PreparedSummary, at: int, head_count: int, facts: Sequence[Fact]
) -> ComparisonRound:
    begun = ComparisonRound(at, head_count, prepared.tokens if run.summarizer.endpoints else 0)
    try:
        summary = write_summary_blocking(run.summarizer, prepared)
    except SummarizerError as error:
        return replace(begun, error=str(error))
    told = FactMatcher(summary.text)
    return replace(
        begun,
        summary=summary,
        checks=tuple(prepared.check_text(summary.text, summary)),
        survivals=tuple(told.match_fact(fact) for fact in facts),
        cost=compute_cost(summary),
    )


def compute_cost(summary: Summary) -> SummaryCost | None:
    """Compute the cost of a summary from its reported tokens; None where these or the price of its model are unknown.

    Tokens written to a prompt cache count as living for 5 minutes: nothing else is asked for.
    """
    if not summary.model:
        return SummaryCost(0.0)
    rates, used = find_rates(summary.model), summary.usage
    if rates is None or used.output_tokens is None or not used.context_tokens:
        return None
    here = rates.select_for_prompt(used.context_tokens)
    prompt = Usage(used.input_tokens or 0, used.cache_read_tokens or 0, used.cache_write_tokens or 0)
    return SummaryCost(here.compute_recorded_cost(prompt) + here.output * used.output_tokens, rates.date, rates.source)


def _find_facts_in_tail(session: Session, head: set[int], point: int, facts: Sequence[Fact]) -> tuple[bool, ...]:
    """Return by fact whether the context before *point* has it outside the first head."""
    context = session.context_at(point)
    told = FactMatcher(collect_text(session.messages_in(context, [each for each in context.order if each not in head])))
    return tuple(told.match_fact(fact).preserved for fact in facts)


def _notify_request(
    run: ContenderRun, prepared: PreparedSummary, notify: Callable[[str], None], suffix: str = ""
) -> None:
    """Report what is about to be sent."""
    for line in format_notice(run.summarizer, prepared):
        notify(f"{run.name}{suffix}: {line}")
    for repair in prepared.repairs if run.summarizer.endpoints else ():
        notify(f"{run.name}{suffix}: changed for the provider: {repair}")
