"""Replays and sweeps, against a loop that puts the context together and plans anew at every request."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measures import LARGE_BYTES, Row, best_of, session
from context_tui.compaction.changes import collect_bodies
from context_tui.lab.replay.amounts import subtract_amounts
from context_tui.lab.replay.recording import Recording
from context_tui.policies.base import Params, Policy
from context_tui.policies.builtin.defect import DefectMicrocompact, DefectMicrocompactParams
from context_tui.policies.registry import find_policy
from context_tui.policies.runtime_state import RuntimeState
from context_tui.session.context import Body, Context, context_at
from context_tui.session.facts import Usage
from context_tui.session.values import Kind
from context_tui.tokens.estimators import Images, count_context_tokens, count_message_tokens

REQUESTS_BYTES = 10_900_000
"""A session of about 1,000 requests, with recorded compactions."""


EVERY_CALL = ("openhands-masking", "swe-agent-last-n")
"""Policies that clear something before nearly every request: the slowest ones along a recording."""


def naive(recording: Recording, policy: Policy, params: Params) -> tuple[list[int], int, int]:
    """A policy that clears, along a recording, with nothing kept from one request to the next but what it did.

    Returns:
        By call, the tokens of its context; how often it cleared, and how many results.
    """
    facts = recording.session.facts
    calls = {call.message: number for number, call in enumerate(recording.calls)}
    replacements: dict[int, Body] = {}
    sizes: list[int] = []
    firings, forgot, reply, reported = 0, 0, -1, 0
    for at, phases in recording.checkpoints:
        if "before_call" not in phases:
            continue
        now = context_at(facts, at)
        messages = set(now.order)
        remaining = {
            row: body
            for row, body in replacements.items()
            if facts.block_message[row] in messages and row not in now.replacements
        }
        context = Context(facts, at, now.order, now.epoch_start, {**now.replacements, **remaining})
        knows = reply >= max(now.epoch_start, now.last_rewrite, forgot)
        since = sum(count_message_tokens(facts, message) for message in now.order if message >= reply)
        believed = reported + since if knows else count_context_tokens(context)
        usage = Usage(reported) if knows else None
        window = recording.session.window_at(at)
        state = RuntimeState(
            at,
            believed,
            usage,
            None,
            False,
            True,
            window,
            images=Images(),
            estimated_tokens=0,
            message_count=len(now.order),
            result_count=0,
            reply_tokens=0,
            reasoning_tokens=0,
        )
        plan = policy.plan(context, params, state)
        if plan.trigger.fires and plan.has_changes:
            new = collect_bodies(plan.changes)
            replacements.update(new)
            remaining.update(new)
            firings, forgot = firings + 1, at
        if at in calls:
            replaced = {**now.replacements, **remaining}
            more = subtract_amounts(
                recording.compute_amount(now.order, replaced), recording.compute_amount(now.order, now.replacements)
            )
            size = max(recording.sizes[calls[at]] + more.tokens, 0)
            sizes.append(size)
            if recording.recorded_sizes[calls[at]] is not None:
                reply, reported = at, size
    return sizes, firings, len(replacements)


def timed(action: Any) -> tuple[float, Any]:
    """Seconds that something takes, and what it gives."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def grid() -> list[DefectMicrocompactParams]:
    """Ten thousand settings."""
    return [
        DefectMicrocompactParams(keep_recent_turns=turns, min_clear_tokens=tokens, microcompact_ratio=ratio / 100)
        for turns in range(1, 21)
        for tokens in range(0, 2_500, 50)
        for ratio in range(50, 100, 5)
    ]


def replaying() -> list[Row]:
    """A replay of 1,000 requests under one setting, and ten thousand settings of one policy on it."""
    import context_tui as ct
    from context_tui.lab.replay.walk import replay_recording
    from context_tui.lab.sweep.clearing_kernel import SweepTrack, compute_outcomes

    recording = Recording(ct.open_session(session(REQUESTS_BYTES)))
    settings = grid()
    tried = [settings[number] for number in (0, 3_333, 6_112, 9_999)]
    plain, replay_seconds = 0.0, 0.0
    for params in tried:
        seconds, (sizes, firings, cleared) = timed(partial(naive, recording, DefectMicrocompact(), params))
        plain += seconds / len(tried)
        replay = replay_recording(recording, DefectMicrocompact(), params)
        assert (replay.sizes, len(replay.firings), len(replay.removed_by_policy)) == (sizes, firings, cleared), (
            "other numbers"
        )
        replayed = partial(replay_recording, recording, DefectMicrocompact(), params)
        replay_seconds += min(timed(replayed)[0] for _ in range(5)) / len(tried)
    policy = DefectMicrocompact()
    rules = [policy.clearing_rule(params) for params in settings]
    all_at_once, outcomes = timed(lambda: compute_outcomes(SweepTrack(recording, rules[0]), rules))
    for number in range(0, len(settings), 997):
        if outcomes.is_known[number]:
            replay = replay_recording(recording, DefectMicrocompact(), settings[number])
            figures = (
                replay.totals.sent,
                replay.totals.peak,
                replay.totals.overflows,
                len(replay.firings),
                len(replay.removed_by_policy),
            )
            assert figures == tuple(int(column[number]) for column in outcomes[1:6]), "other numbers"
    calls = f"{len(recording.calls):,} requests; a naive loop {plain * 1000:.0f} ms; equal numbers"
    share = f"{all_at_once:.2f} s, {float(outcomes.is_known.mean()):.0%} of the settings; equal numbers"
    return [
        Row("replay of 1,000 requests", replay_seconds * 1000, 50, "ms", calls),
        Row("the same", replay_seconds / plain, 0.2, "× naive"),
        *(row for name in EVERY_CALL for row in _every_call(recording, name)),
        Row("10,000 settings on it", all_at_once / plain, 1, "× naive", f"of one setting; {share}"),
    ]


def _every_call(recording: Recording, name: str) -> list[Row]:
    """A replay of a policy that clears at nearly every request."""
    from context_tui.lab.replay.walk import replay_recording

    policy = find_policy(name)
    params = policy.Params()
    plain, (sizes, firings, cleared) = timed(partial(naive, recording, policy, params))
    replay = replay_recording(recording, policy, params)
    assert (replay.sizes, len(replay.firings), len(replay.removed_by_policy)) == (sizes, firings, cleared), (
        "other numbers"
    )
    replay_seconds = best_of(5, lambda: timed(lambda: replay_recording(recording, policy, params))[0])
    plain = min(plain, timed(partial(naive, recording, policy, params))[0])
    detail = f"{firings:,} firings; a naive loop {plain * 1000:.0f} ms; equal numbers"
    return [
        Row(f"replay of 1,000 requests: {name}", replay_seconds * 1000, 50, "ms", detail),
        Row("the same", replay_seconds / plain, 0.3, "× naive"),  # each call is planned, carried out and told
    ]


PROGRAM = """
import json, sys
messages = []
for line in sys.stdin:
    question, answer = json.loads(line), {}
    if question["type"] == "describe":
        answer = {"protocol": 1, "name": "counts"}
    else:
        messages = question["messages"] if question.get("reset") else messages + question["messages"]
        tokens = sum(len(json.dumps(message["content"])) for message in messages) // 4
        results = [(m["id"], n) for m in messages for n, b in enumerate(m["content"]) if b["type"] == "tool_result"]
        if tokens > 60_000:
            answer = {"edits": [{"clear": m, "block": n, "text": "[cleared]"} for m, n in results[:-3]]}
            for m in messages:
                m["content"] = [b if b["type"] != "tool_result" else {**b, "content": ""} for b in m["content"]]
    print(json.dumps(answer), flush=True)
"""
"""A policy that counts the whole context at every call, as middleware without a running total does."""


def asking() -> list[Row]:
    """A replay of 1,000 requests by a program, against the program alone with the same questions."""
    import context_tui as ct
    from context_tui.lab.replay.walk import replay_recording
    from context_tui.policies.command.policy import PolicyCommand, read_command

    recording = Recording(ct.open_session(session(REQUESTS_BYTES)))
    example = Path(__file__).parents[1] / "docs/examples/policy-command/drop_turns.py"
    rows = list[Row]()
    for name, arguments, budget in (
        ("a program that counts anew", [sys.executable, "-c", PROGRAM], 1.2),
        ("the example, which does little", [sys.executable, str(example)], 3.0),
    ):
        with TemporaryDirectory() as folder:
            log = Path(folder) / "questions"
            tee = shlex.join(["sh", "-c", f"tee {shlex.quote(str(log))} | {shlex.join(arguments)}"])
            policy = read_command(PolicyCommand(tee, 60.0))
            replay_recording(recording, policy, policy.Params())
            questions = log.read_bytes().splitlines(keepends=True)
        policy = read_command(PolicyCommand(shlex.join(arguments), 60.0))
        alone, replayed = [], []
        for _ in range(3):
            alone.append(_ask_all(arguments, questions))
            replayed.append(timed(partial(replay_recording, recording, policy, policy.Params()))[0])
        detail = f"{len(questions) - 1:,} questions; {min(replayed):.2f} s, the program alone {min(alone):.2f} s"
        rows.append(Row(name, min(replayed) / min(alone), budget, "× alone", detail))
    return rows


def _ask_all(arguments: list[str], questions: list[bytes]) -> float:
    """Seconds in which a program that runs answers all questions but the first, its description."""
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        start = 0.0
        for number, question in enumerate(questions):
            if number == 1:
                start = time.perf_counter()
            process.stdin.write(question)
            process.stdin.flush()
            process.stdout.readline()
        return time.perf_counter() - start


def sweeping() -> list[Row]:
    """Ten thousand settings on a session of hundreds of contexts, against one replay of it."""
    import context_tui as ct
    from context_tui.lab.replay.walk import replay_recording
    from context_tui.lab.sweep.clearing_kernel import SweepTrack, compute_outcomes

    opened = ct.open_session(session(LARGE_BYTES))
    recording, settings = Recording(opened), grid()
    rules = [DefectMicrocompact().clearing_rule(params) for params in settings]
    track = SweepTrack(recording, rules[0])  # reads the results once
    outcomes = compute_outcomes(track, rules)
    seconds = best_of(3, lambda: timed(lambda: compute_outcomes(track, rules))[0])
    replay = replay_recording(recording, DefectMicrocompact(), settings[6_112])
    alone = best_of(3, lambda: timed(lambda: replay_recording(recording, DefectMicrocompact(), settings[6_112]))[0])
    assert int(outcomes.sent[6_112]) == replay.totals.sent and outcomes.is_known[6_112], "other numbers"
    results = sum(kind == Kind.TOOL_RESULT for kind in opened.facts.kind)
    detail = f"{len(recording.calls):,} requests, {results:,} results, {len(opened.facts.compactions):,} compactions"
    return [
        Row("10,000 settings, 100,000 results", seconds * 100_000 / results, 1, "s", f"{seconds:.2f} s for {detail}"),
        Row("the same", seconds / alone, 2, "× a replay", f"of one setting: {alone:.2f} s; equal numbers"),
    ]
