"""Judge a reader: each request as it was sent, and the context that the session file gives for it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import context_tui as ct
from context_tui.lab.replay.backtest import BacktestCase, backtest_policy
from context_tui.lab.replay.recording import Recording
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES
from context_tui.session.session import Session
from scripts.agents.agent import Agent
from scripts.agents.drive import Recorded, load_recorded
from scripts.agents.prompt import Part, Prompt, parse_prompt
from scripts.agents.scenarios import Scenario
from scripts.agents.scripted_model import PROMPT_MARK, SUBTASK_MARK, SUMMARY_MARK

_REPLY = re.compile(r"Reply (main\d+)\b")
_APPENDED_REMINDER = re.compile(r"\n\n(?=<system-reminder>)")
_TEXT_KINDS: Sequence[tuple[str, str]] = (
    (r"^\s*<system-reminder>", "system reminder"),
    (r"^\s*<(environment_context|session_context|environment_details)|^<env>", "environment"),
    (r"^\s*<(user_instructions|permissions instructions|skills_instructions|collaboration_mode)", "instructions"),
    (r"AGENTS\.md|CLAUDE\.md|GEMINI\.md", "instructions"),
    (r"^\s*<task-notification>", "task notification"),
    (rf"{SUMMARY_MARK}|<summary>|<state_snapshot>", "summary"),
    (rf"{PROMPT_MARK}|{SUBTASK_MARK}", "prompt"),
    (r"^Reply \w+\d{4}:", "reply"),
)


@dataclass
class Judgement:
    """Figures of one or more scenarios of an agent.

    Attributes:
        requests: requests of the main conversation; ``requests_equal`` those whose calls and results are all in our
            context, and nothing else is.
        requests_without_reply: requests whose reply is not in the session.
        calls, results, texts: parts that were sent; ``*_held`` those of them in our context.
        missing_texts: texts that were sent and are not in our context, by kind; ``missing_tokens`` their tokens.
        surplus: calls and results in our context that were not sent.
        usages: requests with a usage; ``usages_equal`` those whose recorded sizes are the returned ones.
        compactions: compactions that the requests show; ``compactions_equal`` those that the session has at that call.
        compactions_surplus: those that the session has elsewhere.
        fired: at each compaction, by how many calls our preset fires earlier (None: not at all).
        left_equal: compactions after which the preset leaves the results that were sent next; of ``left``.
    """

    requests: int = 0
    requests_equal: int = 0
    requests_without_reply: int = 0
    calls: int = 0
    calls_held: int = 0
    results: int = 0
    results_held: int = 0
    texts: int = 0
    texts_held: int = 0
    missing_texts: Counter[str] = field(default_factory=Counter)
    missing_tokens: Counter[str] = field(default_factory=Counter)
    surplus: int = 0
    usages: int = 0
    usages_equal: int = 0
    compactions: int = 0
    compactions_equal: int = 0
    compactions_surplus: int = 0
    fired: list[int | None] = field(default_factory=list)
    left: int = 0
    left_equal: int = 0
    details: list[str] = field(default_factory=list)

    def add(self, other: Judgement) -> None:
        """Add the figures of another scenario."""
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


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
        Error: the session cannot be read.
    """
    recorded = load_recorded(agent, scenario.name)
    spec = find_session(recorded)
    judgement = judge_session(agent, recorded, spec)
    if scenario.compacts and agent.preset:
        judgement.add(judge_preset(agent, recorded, spec, agent.preset, agent.preset_params))
    return judgement


def find_session(recorded: Recorded) -> str:
    """Return what names the session that holds most replies of a scenario."""
    replies = {entry["reply"] for entry in recorded.requests if entry["kind"] == "main"}
    specs = [spec for path in recorded.sessions for spec in _list_specs(path)]
    return max(specs, key=lambda spec: len(_find_calls(ct.open_session(spec), replies)))


def _list_specs(path: Path) -> list[str]:
    """Return what names the sessions of a file, those of sub-agents left out."""
    infos = [info for info in ct.sessions_in(str(path)) if not info.parent]
    return [f"{info.path}#{info.id}" if len(infos) > 1 else str(path) for info in infos]


def format_judgement(judgement: Judgement) -> str:
    """Format the figures on one line."""
    each = judgement
    kinds = ", ".join(f"{count} {kind}" for kind, count in each.missing_texts.most_common())
    parts = [
        f"requests {each.requests_equal}/{each.requests}",
        f"calls {each.calls_held}/{each.calls}",
        f"results {each.results_held}/{each.results}",
        f"texts {each.texts_held}/{each.texts}" + (f" (missing: {kinds})" if kinds else ""),
        f"usage {each.usages_equal}/{each.usages}",
        f"compactions {each.compactions_equal}/{each.compactions}",
    ]
    parts += [f"{each.surplus} surplus"] if each.surplus else []
    parts += [f"{each.compactions_surplus} compactions surplus"] if each.compactions_surplus else []
    parts += [f"fires {each.fired}; leaves {each.left_equal}/{each.left}"] if each.fired else []
    return "; ".join(parts)


def judge_session(agent: Agent, recorded: Recorded, spec: str) -> Judgement:
    """Judge a session by the requests of its scenario."""
    session = ct.open_session(spec)
    requests = {entry["reply"]: entry for entry in recorded.requests if entry["kind"] == "main"}
    calls = _find_calls(session, requests)
    judgement = Judgement(requests=len(requests), requests_without_reply=len(requests.keys() - calls.keys()))
    begins = _find_beginnings(session, [message for message, _ in calls.values()])
    before: Counter[str] = Counter()
    for reply, entry in requests.items():
        sent = parse_sent(agent, recorded.read_body(entry))
        results = Counter(identify_part(part) for part in sent.get("result"))
        is_compaction = bool(before - results)
        before = results
        message, row = calls.get(reply, (-1, -1))
        if message < 0:
            judgement.details.append(f"{reply}: not in the session")
            continue
        _judge_request(judgement, session, sent, message, reply)
        _judge_usage(judgement, session, row, entry, reply)
        judgement.compactions += is_compaction
        judgement.compactions_equal += is_compaction and message in begins
        judgement.compactions_surplus += not is_compaction and message in begins
    return judgement


def parse_sent(agent: Agent, body: dict[str, Any]) -> Prompt:
    """Parse a request; reminders that the agent appended to a result count as texts of their own."""
    prompt, parts = parse_prompt(agent.api, body, agent.model), list[Part]()
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
    held = parse_prompt("anthropic", {"messages": session.to_messages(message)})
    is_equal = True
    for kind in ("call", "result"):
        sent_parts = Counter(identify_part(part) for part in sent.parts if part.kind == kind)
        held_parts = Counter(identify_part(part) for part in held.parts if part.kind == kind)
        count, common = sent_parts.total(), (sent_parts & held_parts).total()
        surplus = held_parts.total() - common
        setattr(judgement, f"{kind}s", getattr(judgement, f"{kind}s") + count)
        setattr(judgement, f"{kind}s_held", getattr(judgement, f"{kind}s_held") + common)
        judgement.surplus += surplus
        if count != common or surplus:
            is_equal = False
            judgement.details.append(f"{reply}: {kind}s: {count} sent, {common} held, {surplus} held besides")
    judgement.requests_equal += is_equal
    shown = "\0".join([*(part.text for part in held.get("text", "thinking")), session.content.system()])
    for part in sent.get("text"):
        judgement.texts += 1
        if not part.text.strip() or part.text.strip() in shown:
            judgement.texts_held += 1
        else:
            kind = classify_text(part)
            judgement.missing_texts[kind] += 1
            judgement.missing_tokens[kind] += part.tokens
            judgement.details.append(f"{reply}: text of {part.tokens:,} tokens not held: {kind}")


def _judge_usage(judgement: Judgement, session: Session, row: int, entry: Mapping[str, Any], reply: str) -> None:
    judgement.usages += 1
    recorded = session.facts.requests[row].context if row >= 0 else None
    if recorded == entry["prompt_tokens"]:
        judgement.usages_equal += 1
    else:
        judgement.details.append(f"{reply}: {entry['prompt_tokens']:,} tokens returned, {recorded} recorded")


def judge_preset(agent: Agent, recorded: Recorded, spec: str, policy: str, params: Mapping[str, Any]) -> Judgement:
    """Judge the preset of an agent's policy: at which call it fires, told the limits that were configured."""
    session = ct.open_session(spec).with_window(agent.preset_window)
    judgement, chosen = Judgement(), POLICIES[policy]
    built = build_params(chosen, dict(params))
    compactions = [each for each in session.facts.compactions if each.kind == "full" and each.trigger != "manual"]
    cases = [BacktestCase(compaction, built) for compaction in compactions]
    requests = {entry["reply"]: entry for entry in recorded.requests}
    recording = Recording(session)
    calls = [call.message for call in recording.calls]
    replies = [_find_reply(session.message(message)) for message in range(len(session))]
    firsts = {reply: message for message, reply in reversed(list(enumerate(replies))) if reply}
    for result in backtest_policy(recording, chosen, cases):
        index = bisect_left(calls, result.message)
        earlier = calls[index + (result.off_by or 0) : index]
        main = [each for each in earlier if _find_reply(session.message(each))]  # not the request for the summary
        judgement.fired.append(None if result.off_by is None else -len(main))
        judgement.details.append(f"preset {policy} at #{result.message}: off by {result.off_by}; {result.why}")
        new_replies = (reply for reply in replies[result.message :] if firsts.get(reply, -1) >= result.message)
        entry = requests.get(next(new_replies, ""))
        if entry is None:
            continue
        sent = parse_sent(agent, recorded.read_body(entry))
        plan = ct.plan(session, policy, at=result.message, **params)
        after = ct.apply(session, plan, summary="(a summary)") if plan.has_changes else session
        left = parse_prompt("anthropic", {"messages": after.to_messages()})
        sent_results = {identify_part(part) for part in sent.get("result")}
        left_results = {identify_part(part) for part in left.get("result")}
        judgement.left += 1
        judgement.left_equal += sent_results == left_results
        judgement.details.append(f"after #{result.message}: {len(left_results)} left, {len(sent_results)} sent")
    return judgement
