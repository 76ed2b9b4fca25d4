"""Judge a reader: each request as it was sent, and the context that the session file gives for it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import context_tui as ct
from context_tui.formats.opening import list_unrecorded
from context_tui.lab.replay.backtest import BacktestCase, backtest_policy
from context_tui.lab.replay.recording import Recording
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES
from context_tui.session.facts import prompt_at
from context_tui.session.session import Session
from scripts.agents.agent import Agent
from scripts.agents.drive import Recorded, load_recorded
from scripts.agents.prompt import Part, PartKind, Prompt, count_tokens, parse_prompt
from scripts.agents.scenarios import Scenario
from scripts.agents.scripted_model import PROMPT_MARK, RULES_MARK, SUBTASK_MARK, SUMMARY_MARK

_REPLY = re.compile(r"Reply (main\d+)\b")
_SUMMARY = re.compile(rf"{SUMMARY_MARK}-\d+")
SHORTEST_BODY = 20
"""Characters of a text that is looked for within the texts that were sent."""
_APPENDED_REMINDER = re.compile(r"\n\n(?=<system-reminder>)")
_TEXT_KINDS: Sequence[tuple[str, str]] = (
    (RULES_MARK, "instruction files"),
    (r"^\s*<system-reminder>", "reminder"),
    (r"^\s*<(environment_context|session_context|environment_details)|^<env>", "environment"),
    (r"^\s*<(user_instructions|permissions instructions|skills_instructions|collaboration_mode)", "instructions"),
    (r"AGENTS\.md|CLAUDE\.md|GEMINI\.md", "instructions"),
    (r"^\s*<task-notification>", "task notification"),
    (r"^\s*<local-command-", "output of a command"),
    (rf"{SUMMARY_MARK}|<summary>|<state_snapshot>", "summary"),
    (rf"{PROMPT_MARK}|{SUBTASK_MARK}", "prompt"),
    (r"^Reply \w+\d{4}:", "reply"),
)
_SYSTEM_SECTIONS = (
    (r"^x-anthropic-billing-header.*", "billing header"),
    (r"<env>[\s\S]*?</env>", "environment"),
    (r"<available_skills>[\s\S]*?</available_skills>", "skills"),
    (rf"(?:^.*\n)?.*{RULES_MARK}.*", "instruction files"),
)
"""Parts of a system prompt that have kinds of their own."""


@dataclass
class Share:
    """How many of a number of things are as they should be."""

    matches: int = 0
    count: int = 0

    def add(self, matches: int, count: int = 1) -> None:
        """Add things, and those of them that match."""
        self.matches += matches
        self.count += count

    @property
    def is_complete(self) -> bool:
        """Whether all match."""
        return self.matches == self.count

    def __str__(self) -> str:
        return f"{self.matches:,} of {self.count:,}"


@dataclass(frozen=True)
class Firing:
    """Automatic compaction, compared with our preset of the agent's policy.

    Attributes:
        scenario: where it happened.
        earlier: calls by which the preset fires earlier (negative), 0: at the same call, None: not at all.
        before: tokens of the last request before, as returned.
        results: whether the results that the preset leaves are those that were sent next.
        after_recorded: tokens of the next request, as returned.
        after_predicted: tokens predicted for it from the context before and the messages after; None if unknown.
    """

    scenario: str
    earlier: int | None
    before: int
    results: bool | None
    after_recorded: int | None
    after_predicted: int | None


@dataclass
class Judgement:
    """Figures of one or more scenarios of an agent.

    Attributes:
        requests: requests of the main conversation, and those whose calls and results are exactly those in our context.
        deleted: requests of a prompt that was taken back and that the agent deletes from its files; left out above.
        calls, results, texts: parts that were sent, and those of them in our context.
        unrecorded_kinds: kinds of parts that ``inspect`` says are not in the file.
        missing_parts: parts that were sent and are not in our context, by kind; ``missing_tokens`` their tokens.
        surplus: calls and results in our context that were not sent.
        sizes: requests, and those whose recorded sizes are the returned ones.
        compactions: those that the requests show, and those of them that the session has at that call.
        compactions_surplus: those that the session has elsewhere.
        firings: automatic compactions, compared with our preset.
    """

    requests: Share = field(default_factory=Share)
    deleted: int = 0
    calls: Share = field(default_factory=Share)
    results: Share = field(default_factory=Share)
    texts: Share = field(default_factory=Share)
    unrecorded_kinds: set[str] = field(default_factory=set)
    missing_parts: Counter[str] = field(default_factory=Counter)
    missing_tokens: Counter[str] = field(default_factory=Counter)
    surplus: int = 0
    sizes: Share = field(default_factory=Share)
    compactions: Share = field(default_factory=Share)
    compactions_surplus: int = 0
    firings: list[Firing] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    def add(self, other: Judgement) -> None:
        """Add the figures of another scenario."""
        for name, value in vars(other).items():
            if isinstance(value, Share):
                getattr(self, name).add(value.matches, value.count)
            elif isinstance(value, Counter | set):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def miss(self, reply: str, kind: str, tokens: int) -> None:
        """Add a part that was sent and is not in our context."""
        self.missing_parts[kind] += 1
        self.missing_tokens[kind] += tokens
        self.details.append(f"{reply}: {tokens:,} tokens are not in our context: {kind}")

    @property
    def earlier_calls(self) -> list[int | None]:
        """By how many calls our preset fires earlier at each automatic compaction."""
        return [firing.earlier for firing in self.firings]


def classify_text(part: Part) -> str:
    """Return the kind of a text that was sent."""
    kind = next((kind for pattern, kind in _TEXT_KINDS if re.search(pattern, part.text)), None)
    if kind:
        return kind
    return f"message of role {part.role}" if part.role in ("system", "developer") else f"other text ({part.role})"


def judge_scenario(agent: Agent, scenario: Scenario) -> Judgement:
    """Judge the sessions that a driven scenario wrote last.

    Raises:
        DriveError: it was not driven.
        Error: a session cannot be read.
    """
    recorded = load_recorded(agent, scenario.name)
    judgement = Judgement()
    for session, replies in _assign_replies(recorded):
        judgement.add(judge_session(agent, recorded, session, replies))
        if scenario.window_share and agent.preset:
            judgement.add(judge_preset(agent, recorded, session, scenario))
    return judgement


def find_session(recorded: Recorded) -> str:
    """Return what names the session that holds most replies of a scenario."""
    return next(_assign_replies(recorded))[0]


def _assign_replies(recorded: Recorded) -> Iterator[tuple[str, list[str]]]:
    """Yield what names each session, the one with most replies first, and its replies that no earlier one has.

    Replies that none has go to the first.
    """
    left_replies = [entry["reply"] for entry in recorded.requests if entry["kind"] == "main"]
    specs = [spec for path in recorded.sessions for spec in _list_specs(path)]
    calls = {spec: _find_calls(ct.open_session(spec), left_replies).keys() for spec in specs}
    specs.sort(key=lambda spec: len(calls[spec]), reverse=True)
    in_none = {*left_replies}.difference(*calls.values())
    for number, spec in enumerate(specs):
        replies = [reply for reply in left_replies if reply in calls[spec] or (not number and reply in in_none)]
        left_replies = [reply for reply in left_replies if reply not in replies]
        if replies:
            yield spec, replies


def _list_specs(path: Path) -> list[str]:
    """Return what names the sessions of a file and their branches, those of sub-agents left out."""
    infos = [info for info in ct.sessions_in(str(path)) if not info.parent]
    specs = [f"{info.path}#{info.id}" if len(infos) > 1 else str(path) for info in infos]
    branches = ct.open_session(specs[0]).facts.branches if len(specs) == 1 else ()
    return [*specs, *(f"{path}#{branch.id}" for branch in branches)]


def format_judgement(judgement: Judgement) -> str:
    """Format the figures on one line."""
    each = judgement
    kinds = ", ".join(f"{count} {kind}" for kind, count in each.missing_parts.most_common())
    names = ("requests", "calls", "results", "texts", "sizes", "compactions")
    parts = [f"{name} {getattr(each, name)}" for name in names]
    parts += [f"not in our context: {kinds}"] if kinds else []
    parts += [f"{each.surplus} surplus"] if each.surplus else []
    parts += [f"{each.compactions_surplus} compactions surplus"] if each.compactions_surplus else []
    parts += [f"preset fires {each.earlier_calls}"] if each.firings else []
    return "; ".join(parts)


def judge_session(agent: Agent, recorded: Recorded, spec: str, replies: Collection[str]) -> Judgement:
    """Judge a session by the requests of its scenario whose *replies* it has."""
    session = ct.open_session(spec)
    requests = {entry["reply"]: entry for entry in recorded.requests if entry["reply"] in replies}
    calls, judgement = _find_calls(session, requests), Judgement(unrecorded_kinds={*list_unrecorded(session)})
    beginnings = _find_beginnings(session, [message for message, _ in calls.values()])
    before, summaries_before = Counter[str](), set[str]()
    for reply, entry in requests.items():
        sent = parse_sent(agent, recorded.read_body(entry))
        results = Counter(identify_part(part) for part in sent.get("result"))
        summaries = {mark for part in sent.get("text") for mark in _SUMMARY.findall(part.text)}
        is_compaction = bool(before - results or summaries - summaries_before)
        message, row = calls.get(reply, (-1, -1))
        if message < 0:
            is_deleted = agent.deletes_rewound and recorded.scenario == "rewind"
            judgement.deleted += is_deleted
            judgement.requests.add(0, not is_deleted)
            judgement.details.append(f"{reply}: not in the session")
            continue
        before, summaries_before = results, summaries
        _judge_request(judgement, session, sent, message, reply)
        _judge_size(judgement, session, row, entry, reply)
        judgement.compactions.add(is_compaction and message in beginnings, is_compaction)
        judgement.compactions_surplus += not is_compaction and message in beginnings
    return judgement


def parse_sent(agent: Agent, body: dict[str, Any]) -> Prompt:
    """Parse a request; reminders that the agent appended to a result count as texts of their own."""
    return _split_reminders(parse_prompt(agent.api, body, agent.model))


def _split_reminders(prompt: Prompt) -> Prompt:
    parts = list[Part]()
    for part in prompt.parts:
        text, *reminders = _APPENDED_REMINDER.split(part.text) if part.kind == "result" else [part.text]
        parts.append(replace(part, text=text))
        parts += [replace(part, kind="text", id="", text=reminder) for reminder in reminders]
    return replace(prompt, parts=tuple(parts))


def _find_reply(message: Mapping[str, Any]) -> str:
    texts = (block.get("text", "") for block in message["content"])
    return next((match[1] for text in texts if (match := _REPLY.search(text))), "")


def _find_calls(session: Session, replies: Container[str]) -> dict[str, tuple[int, int]]:
    """Return, by reply, its message in the session and the row of its recorded usage."""
    calls = dict[str, tuple[int, int]]()
    for call in ct.replay.replay(session, "none").calls:
        reply = _find_reply(session.message(call.message))
        if reply in replies:
            calls.setdefault(reply, (call.message, call.request))
    return calls


def _find_beginnings(session: Session, replies: Iterable[int]) -> set[int]:
    """Return the replies that are the first ones of an epoch, or the first ones after a recorded microcompaction."""
    facts = session.facts
    starts = [epoch.start for epoch in facts.epochs if epoch.cause != "start"]
    starts += [each.message for each in facts.compactions if each.is_rewrite]
    ordered = sorted(replies)
    firsts = (next((reply for reply in ordered if reply >= start), None) for start in starts)
    return {reply for reply in firsts if reply is not None}


def identify_part(part: Part) -> str:
    """Return what a call or a result is compared by."""
    return f"{part.kind} {part.name if part.kind == 'call' else ''} {part.text.strip()}"


def _judge_request(judgement: Judgement, session: Session, sent: Prompt, message: int, reply: str) -> None:
    held = _split_reminders(parse_prompt("anthropic", {"messages": session.to_messages(message)}))
    is_equal = True
    kinds: tuple[tuple[PartKind, Share], ...] = (("call", judgement.calls), ("result", judgement.results))
    for kind, share in kinds:
        identities = [identify_part(part) for part in sent.get(kind)]
        sent_parts, sent_ids = dict(zip(identities, sent.get(kind), strict=True)), Counter(identities)
        held_ids = Counter(identify_part(part) for part in held.get(kind))
        share.add((sent_ids & held_ids).total(), sent_ids.total())
        judgement.surplus += (held_ids - sent_ids).total()
        is_equal &= sent_ids == held_ids
        for identity in (sent_ids - held_ids).elements():
            part = sent_parts[identity]
            judgement.miss(reply, kind, part.tokens)
    judgement.requests.add(is_equal)
    for part in _list_hidden_prompt_parts(session, sent, message):
        judgement.miss(reply, part.name, count_tokens(part.text))
    held_texts = [part.text.strip() for part in held.get("text", "thinking")]
    shown = "\0".join([*held_texts, session.content.system()])
    for part in sent.get("text"):
        text = part.text.strip()
        body = next((each for each in held_texts if len(each) > SHORTEST_BODY and each in text), "")
        judgement.texts.add(text in shown or bool(body))
        if text not in shown:
            text_kind, tokens = classify_text(part), part.tokens - (count_tokens(body) if body else 0)
            judgement.miss(reply, f"frame of a {text_kind}" if body else text_kind, tokens)


def _list_hidden_prompt_parts(session: Session, sent: Prompt, message: int) -> Iterator[Part]:
    """Yield what a request has of the system prompt and of tools and the file has not, named by its kind."""
    shown, prompt = set(session.content.system().splitlines()), prompt_at(session.facts, message)
    text = "\n".join(line for part in sent.get("system") for line in part.text.splitlines() if line not in shown)
    for pattern, kind in _SYSTEM_SECTIONS:
        sections = [match[0] for match in re.finditer(pattern, text, re.MULTILINE)]
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
        if sections:
            yield Part("system", "\n".join(sections), name=kind)
    if len(text.strip()) > SHORTEST_BODY:
        yield Part("system", text, name="system prompt")
    names = {tool.name for tool in prompt.tools}
    schemas = [part.text for part in sent.get("tool") if not {part.name, part.name.partition(".")[0]} & names]
    if schemas:
        yield Part("tool", "\n".join(schemas), name="tool schemas")


def _judge_size(judgement: Judgement, session: Session, row: int, entry: Mapping[str, Any], reply: str) -> None:
    recorded = session.facts.requests[row].context if row >= 0 else None
    judgement.sizes.add(recorded == entry["prompt_tokens"])
    if recorded != entry["prompt_tokens"]:
        judgement.details.append(f"{reply}: {entry['prompt_tokens']:,} tokens returned, {recorded} recorded")


def judge_preset(agent: Agent, recorded: Recorded, spec: str, scenario: Scenario) -> Judgement:
    """Judge the preset of an agent's policy: at which call it fires, told the limits that were configured."""
    params, window = agent.get_preset_limits(agent.compute_window(scenario) or 0)
    session, policy, judgement = ct.open_session(spec).with_window(window), POLICIES[agent.preset], Judgement()
    built = build_params(policy, dict(params))
    compactions = [each for each in session.facts.compactions if each.kind == "full" and each.trigger != "manual"]
    cases = [BacktestCase(compaction, built) for compaction in compactions]
    main_requests = [entry for entry in recorded.requests if entry["kind"] == "main"]
    numbers = {entry["reply"]: number for number, entry in enumerate(main_requests)}
    recording = Recording(session)
    calls = [call.message for call in recording.calls]
    replies = [_find_reply(session.message(message)) for message in range(len(session))]
    firsts = {reply: message for message, reply in reversed(list(enumerate(replies))) if reply}
    for result in backtest_policy(recording, policy, cases):
        index = bisect_left(calls, result.message)
        earlier = calls[index + (result.off_by or 0) : index]
        main = [each for each in earlier if replies[each]]  # not the request for the summary
        new_replies = (reply for reply in replies[result.message :] if firsts.get(reply, -1) >= result.message)
        number = numbers.get(next(new_replies, ""), len(main_requests))
        last, *following = main_requests[number - 1 : number + 1]
        has_same_results = None
        if following:
            sent = parse_sent(agent, recorded.read_body(following[0]))
            plan = ct.plan(session, agent.preset, at=result.message, **params)
            after = ct.apply(session, plan, summary="(a summary)") if plan.has_changes else session
            planned = parse_prompt("anthropic", {"messages": after.to_messages()})
            sent_results, planned_results = (
                {identify_part(part) for part in each.get("result")} for each in (sent, planned)
            )
            has_same_results = sent_results == planned_results
            judgement.details.append(
                f"after #{result.message}: {len(planned_results)} results left, {len(sent_results)} sent"
            )
        judgement.firings.append(
            Firing(
                scenario.name,
                None if result.off_by is None else -len(main),
                last["prompt_tokens"],
                has_same_results,
                following[0]["prompt_tokens"] if following else None,
                result.after_predicted,
            )
        )
        judgement.details.append(f"preset {agent.preset} at #{result.message}: off by {result.off_by}; {result.why}")
    return judgement
