"""Everything that the pure layers say of many short sessions holds until a change is meant.

``data/small_documents.json`` keeps two hashes of each part: one of numbers and names, one of sentences, so that a
reworded sentence changes only the latter. After an intended change, write it anew by
``python -m tests.test_small_documents``; ``python -m tests.test_small_documents NAME`` prints a document whole.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from pydantic import BaseModel, ValidationError

from context_tui.cli import inspect as inspecting
from context_tui.cli import plan as planning
from context_tui.cli import replay as replaying
from context_tui.compaction.apply import apply
from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.plan import Plan
from context_tui.compaction.recorded_compactions import (
    count_tokens_by_category,
    find_recorded_compactions,
    predict_size_after,
)
from context_tui.compaction.tool_pairing import assign_unique_ids, find_unpaired, repair, repair_minimally
from context_tui.errors import Error
from context_tui.lab.price import break_report
from context_tui.lab.price.breaks import find_cache_breaks
from context_tui.lab.price.cache_requests import build_price_model
from context_tui.lab.price.report import format_firing_price, format_price_reuse, format_savings
from context_tui.lab.replay.backtest import run_backtests
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import Replay
from context_tui.lab.replay.walk import replay_recording
from context_tui.lab.study import Lab, Study, StudySettings
from context_tui.policies.agent_settings import build_agent_settings, format_agent_settings, format_setting_lines
from context_tui.policies.base import PHASES, get_bounds
from context_tui.policies.block_index import find_open_calls
from context_tui.policies.parameter_space import build_params, find_changed_values, list_parameters_in_context
from context_tui.policies.parts.rules import Phase, PolicySpec, Rule
from context_tui.policies.planning import build_plan
from context_tui.policies.registry import POLICIES, find_policy
from context_tui.policies.rule_policy import RulePolicy
from context_tui.policies.runtime_state import build_runtime_state
from context_tui.policies.trigger_points import iterate_runtime_states
from context_tui.policies.versions import format_no_firing, format_recorded_params
from context_tui.session.context import Context
from context_tui.session.drops import _compute_growth_shares, _list_candidates, _Results, find_cleared_at
from context_tui.session.facts import Facts, find_last_rewrite, find_prompt_row, order_at, recorded_spans_at, spans_at
from context_tui.session.losses import weigh_context
from context_tui.session.session import Session
from context_tui.session.token_factors import find_intervals, fit_earlier_factors
from context_tui.session.values import Kind
from context_tui.tokens.accounting import compute_believed_size, find_fixed_blocks, find_last_usage
from context_tui.tokens.breakdown import measure_breakdown, measure_prompt
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.estimate_check import check_estimate
from context_tui.tokens.measures import TokenMeasure, build_calibrated_table, build_exact_table
from tests.formats.histories import columns
from tests.fuzz.journey import CURVES, EAGER
from tests.small_sessions import FILE_NAMES, LONG_NAMES, NAMES, open_small

DOCUMENTS = Path(__file__).parent / "data" / "small_documents.json"
PHASE_PAIRS: tuple[tuple[Phase, ...], ...] = (("before_call", "user_turn"), ("after_tools",), ("before_call",))
MADE = ("run", "requests", "odd")
"""Kinds of sessions that differ most in what policies find in them."""
OPAQUE = (Session, Facts, Context, Replay, Lab)
"""Types that documents refer to, and do not show."""


def dump(value: Any) -> Any:
    """A value with its members and properties as JSON, floats rounded to nine digits."""
    if isinstance(value, Enum) or value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, OPAQUE) or callable(value):
        return type(value).__name__
    if isinstance(value, BaseModel):
        return dump(dict(value))
    if isinstance(value, Mapping):
        return {str(key): dump(each) for key, each in value.items()}
    if is_dataclass(value) or isinstance(value, msgspec.Struct) or hasattr(value, "_fields"):
        return {name: dump(getattr(value, name)) for name in _list_members(type(value))}
    if isinstance(value, set | frozenset):
        return sorted(map(dump, value))
    if isinstance(value, list | tuple | array | range) or hasattr(value, "__iter__"):
        return [dump(each) for each in value]
    raise TypeError(type(value))


def _list_members(kind: type) -> list[str]:
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else [*getattr(kind, "_fields", ())]
    names += getattr(kind, "__struct_fields__", ())
    members = [name for name in dir(kind) if isinstance(getattr(kind, name), property | cached_property)]
    return [name for name in dict.fromkeys([*names, *members]) if not name.startswith("_")]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, f"{path}/{key}")
    elif isinstance(value, list):
        yield path, len(value)
        for each in value:
            yield from _leaves(each, path)
    else:
        yield path, value


def hash_document(document: Any) -> list[str]:
    """The hash of the numbers and names of a document, and that of its sentences."""
    numbers, sentences = sha256(), sha256()
    for path, leaf in _leaves(document):
        is_sentence = isinstance(leaf, str) and " " in leaf
        (sentences if is_sentence else numbers).update(f"{path}={json.dumps(leaf)}\n".encode())
    return [numbers.hexdigest()[:10], sentences.hexdigest()[:10]]


def list_points(session: Session, count: int) -> list[int]:
    """Up to *count* points of a session, with both ends."""
    length = len(session)
    return sorted({length * number // max(count - 1, 1) for number in range(count)})


def _describe_factors(facts: Facts, row: int) -> Any:
    """The factors fitted before a request, and what its results had by them."""
    factors = fit_earlier_factors(facts, row)
    if factors is None or row % 3:
        return dump(factors)
    shares, candidates = (
        _compute_growth_shares(facts, row, factors),
        _list_candidates(facts, _Results(facts), row, factors),
    )
    return dump([factors, shares, candidates])


def describe_sizes(session: Session) -> dict[str, Any]:
    """Contexts and sizes along a session, by all measures."""
    facts, points = session.facts, list_points(session, 24)
    tables = {
        "own": None,
        "calibrated": build_calibrated_table(facts),
        "exact": build_exact_table(session, lambda text: len(text) // 3, "thirds", "of all models"),
    }
    document: dict[str, Any] = {
        "tables": {
            name: {**dump(table), "kinds": [table.convert_estimate(1_000, kind) for kind in Kind]}
            for name, table in tables.items()
            if table
        },
        "drops": dump(session.drops),
        "columns": {name: dump(column) for name, column in columns(facts).items() if name != "problems"},
        "cleared": [sorted(find_cleared_at(facts, at).items()) for at in points],
        "intervals": dump([find_intervals(facts, row) for row in range(1, len(facts.requests) + 1)]),
        "states": dump(list(iterate_runtime_states(session, frozenset({"before_call", "user_turn"})))),
        "fixed": dump(find_fixed_blocks(facts)),
        "factors": [_describe_factors(facts, row) for row in range(1, len(facts.requests)) if row < 64 or row % 4],
    }
    contexts = document["contexts"] = []
    for at in points:
        context = session.context_at(at)
        sizes = {name: dump(measure_context(context, table)) for name, table in tables.items()}
        orders = [list(each) for each in (order_at(facts, at)[1], spans_at(facts, at), recorded_spans_at(facts, at))]
        rows = find_last_rewrite(facts, at), find_prompt_row(facts, at), context.epoch_start, context.last_rewrite
        about = [session.window_at(at), find_last_usage(context), compute_believed_size(context)]
        bodies = {row: dump(body) for row, body in context.replacements.items()}
        check = check_estimate(session, context)
        contexts.append([sizes, orders, rows, dump(about), bodies, dump(check)])
    prompts = (measure_prompt(session, session.context_at(), table) for table in tables.values())
    return {**document, "prompts": dump(prompts)}


def describe_inspection(session: Session) -> dict[str, Any]:
    """What ``inspect`` reports; its text belongs to the command."""
    document: dict[str, Any] = {}
    for at, measure in ((None, TokenMeasure.CALIBRATED), (len(session) // 2, TokenMeasure.OWN)):
        report = inspecting.build_report(session, at, timeline=True, measure=measure, compactions=True)
        report["session"].update(path="path", id="id")
        for problem in report["problems"]:
            problem["where"] = ""
        document[f"at {at}"] = report
    return document


def describe_compactions(session: Session) -> list[Any]:
    """The recorded compactions with both contexts, and the sizes that are predicted after them."""
    table = build_calibrated_table(session.facts)
    return [
        [
            dump(each),
            [[list(side.order), count_tokens_by_category(side)] for side in (each.context_before, each.context_after)],
            dump(predict_size_after(each, table)),
        ]
        for each in find_recorded_compactions(session)
    ]


def describe_cache(session: Session) -> dict[str, Any]:
    """The recorded use of the cache with its breaks, their causes and the advice."""
    lab = Lab(session)
    histories = find_cache_breaks(session), find_cache_breaks(session, use_reasons=False)
    named = [break_report.SessionBreaks(f"s{number}", "a", "p", each) for number, each in enumerate(histories)]
    cases = break_report.list_cases(break_report.add_shared_breaks(named))
    return {
        "calls": dump(lab.recorded_calls),
        "histories": dump(histories),
        "note": histories[0].rate_table.note,
        "model": dump(build_price_model(session)),
        "cases": dump(cases),
        "texts": [break_report.format_break(case.cache_break, case.unit) for case in cases],
        "groups": dump(break_report.group_cases(cases, break_report.get_cause)),
        "advice": break_report.build_advice(named),
        "causes": dump(break_report.compare_causes([histories])),
        "report": dump(break_report.build_cache_report(histories[0])),
        "compactions": describe_compactions(session),
    }


def draw_params(session: Session, name: str, dice: random.Random) -> dict[str, Any]:
    """Values of some parameters of a policy, at the ends of what makes a difference or between them."""
    policy, context = POLICIES[name], session.context_at()
    state = build_runtime_state(context, session.window_at(context.at), len(session), None, True)
    values: dict[str, Any] = {}
    for each in list_parameters_in_context(policy, build_params(policy, {}), context, state):
        if dice.random() < 0.4:
            continue
        if each.kind == "number" and each.scale is not None:
            values[each.name] = dice.choice(each.scale.sample_values(dice.choice([2, 5])))
        elif each.kind == "switch":
            values[each.name] = not each.default
        elif each.kind == "list" and each.refers_to == "tools" and each.entries:
            values[each.name] = tuple(entry.name for entry in dice.sample(each.entries, 1))
    return values


def _try(build: Callable[[], Any]) -> Any:
    try:
        return build()
    except Error as error:
        return f"{type(error).__name__}: {error}"


def _describe_plan(plan: Plan) -> dict[str, Any]:
    table = build_calibrated_table(plan.context.facts)
    request = compute_next_request(plan, "A summary. " * 30, table)
    report = planning.build_report(plan, compute_next_request(plan))
    report["session"] = report["losses"] = None
    totals = plan.tokens_removed, plan.messages_summarised, plan.summarised_message_numbers
    changed = find_changed_values(POLICIES[plan.policy], plan.params)
    return {"report": report, "text": planning.format_request(request), "totals": dump(totals), "set": dump(changed)}


def describe_plans(session: Session, name: str) -> dict[str, Any]:
    """Plans of all policies at two points with values that are drawn, and curves."""
    dice, document = random.Random(f"plans {name}"), dict[str, Any]()
    windows = (None, 8_000, 60_000)
    for policy in sorted(POLICIES):
        own = session.with_window(dice.choice(windows))
        for at in (None, len(session) * dice.choice([1, 2]) // 3)[: 2 if name.startswith(MADE) else 1]:
            values = EAGER.get(policy, {}) if dice.random() < 0.3 else draw_params(own, policy, dice)
            chosen = POLICIES[policy]

            def build(chosen: Any = chosen, values: Any = values, own: Session = own, at: int | None = at) -> Any:
                idle = dice.choice([None, None, 30, 900])
                params = build_params(chosen, values)
                plan = build_plan(own, chosen, params, at=at, idle_seconds=idle, force=dice.random() < 0.5)
                return _describe_plan(plan)

            document[f"{policy} {at}"] = _try(build)
        if policy in CURVES and len(session):
            document[f"{policy} curves"] = _describe_curves(own, POLICIES[policy], dice)
    return document


def _describe_curves(session: Session, policy: Any, dice: random.Random) -> dict[str, Any]:
    """Sizes after plans for values of each number, of a policy that does not fire and of one that must."""
    context, curves = session.context_at(), dict[str, Any]()
    for forced in (False, True):
        state = build_runtime_state(context, session.window_at(context.at), len(session), 400, forced)
        params = build_params(policy, EAGER[policy.name] if forced else {})
        for each in list_parameters_in_context(policy, params, context, state):
            if each.kind == "number" and each.scale is not None:
                values = each.scale.sample_values(dice.choice([3, 6]))
                curves[f"{each.name} {forced}"] = policy.curve(context, params, state, each.name, values)
    return curves


def _run_study(lab: Lab, policy: str, values: dict[str, Any], settings: StudySettings) -> Study:
    return lab.run_study(POLICIES[policy], build_params(POLICIES[policy], values), settings)


def describe_replays(session: Session, name: str) -> dict[str, Any]:
    """Replays of some policies with their prices, regret and back-tests."""
    dice = random.Random(f"replays {name}")
    lab = Lab(session.with_window(dice.choice([None, 8_000, 60_000])))
    settings = StudySettings(
        dice.choice(["keep", "ignore"]),
        summary_tokens=dice.choice([None, 1, 900]),
        delay=dice.choice([0, 1, 2]),
        shares_prefix=dice.random() < 0.5,
        reuse=dice.choice(["breakpoints", "anywhere"]),
    )
    studies, document = [], dict[str, Any]()
    names = [*EAGER, *dice.sample(sorted(set(POLICIES) - set(EAGER) - {"none"}), 4)]
    for policy in dice.sample(names, 6):
        values = EAGER.get(policy, {}) if dice.random() < 0.5 else draw_params(lab.session, policy, dice)
        study = _try(partial(_run_study, lab, policy, values, settings))
        if isinstance(study, str):
            document[policy] = study
            continue
        studies.append(study)
        replay, price = study.replay, study.price
        removed = sorted(replay.removed_by_policy.items()), sorted(replay.removed_by_recording.items())
        texts = [format_price_reuse(price), format_savings(price)]
        texts += [format_firing_price(each, price) for each in price.firings]
        document[policy] = [dump(price), dump(study.bound), removed, list(replay.unchanged_prefixes), texts]
    backtests = run_backtests(lab.recording)
    document["back-tests"] = dump(backtests)
    if studies:
        report = replaying.build_report(lab, studies, backtests)
        report["session"] = None
        document["report"] = report
    return document


def describe_triggers(session: Session, name: str) -> dict[str, Any]:
    """What each policy decides along a session, and what it says of its parameters."""
    dice, facts = random.Random(f"triggers {name}"), session.facts
    own = session.with_window(dice.choice([None, 8_000, 60_000]))
    context = own.context_at()
    states = [*iterate_runtime_states(own, frozenset(PHASES))]
    at_end = build_runtime_state(context, own.window_at(context.at), len(own), dice.choice([None, 0, 400]), False)
    document: dict[str, Any] = {}
    for policy in sorted(POLICIES):
        chosen = POLICIES[policy]
        params = build_params(chosen, draw_params(own, policy, dice))
        triggers = [chosen.trigger(state, params) for state in (*states, at_end)]
        believed = [chosen.believed_size(state) for state in states]
        settings = build_agent_settings(policy, params, own.window)
        document[policy] = [
            [[each.fires, each.value, each.threshold, each.unit, each.reason, each.source] for each in triggers],
            dump([each and [each.tokens, each.source] for each in believed]),
            [chosen.runs_in_background(state, params) for state in states],
            [format_agent_settings(settings), *format_setting_lines(settings)],
            [sorted(chosen.flat_curves), sorted(chosen.phases), chosen.needs_trigger, chosen.replan_on],
            [chosen.hint(context), format_no_firing(policy, own), format_recorded_params(policy, params, facts)],
            dump(list_parameters_in_context(chosen, params, context, at_end)),
        ]
    return document


def describe_copies(session: Session, name: str) -> dict[str, Any]:
    """Sessions after the plans of some policies, and their sizes; and what is unpaired in them."""
    dice, document = random.Random(f"copies {name}"), dict[str, Any]()
    table = build_calibrated_table(session.facts)
    for policy in sorted(EAGER):
        chosen, measure = POLICIES[policy], dice.choice([None, table])
        values = draw_params(session, policy, dice) if dice.random() < 0.3 else EAGER[policy]
        at = dice.choice([None, None, len(session) // 2])

        def build(chosen: Any = chosen, values: Any = values, at: Any = at, measure: Any = measure) -> Any:
            plan = build_plan(session, chosen, build_params(chosen, values), at=at, force=True)
            after = apply(session, plan, "What was done. " * 9, measure)
            context, messages = after.context_at(), after.to_messages()
            sizes = measure_context(context), measure_context(context, build_calibrated_table(after.facts))
            parts = measure_breakdown(context, dice.choice([None, measure]))
            digest = sha256(json.dumps([messages, plan.messages_to_summarise], sort_keys=True).encode()).hexdigest()
            weights = sorted(weigh_context(context).items())
            return [digest, dump(sizes), dump(parts), dump(check_estimate(after, context)), weights]

        document[policy] = _try(build)
    messages = session.to_messages()
    unique, renamed = assign_unique_ids(messages)
    document["pairs"] = [dump(find_unpaired(messages)), renamed, repair(messages), dump(repair_minimally(unique))]
    document["calls"] = find_open_calls(session.context_at())
    return document


def draw_part(kind: type[BaseModel], dice: random.Random, count: int) -> dict[str, Any]:
    """Values of up to *count* fields of a part of a rule, at the ends of their ranges or where sessions differ."""
    fields = sorted(kind.model_fields.items())
    return {name: draw_value(field.annotation, get_bounds(field), dice) for name, field in dice.sample(fields, count)}


def draw_value(kind: Any, bounds: tuple[Any, Any], dice: random.Random) -> Any:
    """A random value for a field of type *kind*, often at one of its *bounds*."""
    arguments = [each for each in get_args(kind) if each is not type(None)]
    if get_origin(kind) is Literal:
        return dice.choice(arguments)
    if get_origin(kind) is tuple:
        if arguments[0] is str:
            return dice.sample(["Read", "Bash", "Grep"], dice.choice([1, 2]))
        return [draw_value(arguments[0], (None, None), dice) for _ in range(dice.choice([0, 1, 2]))]
    if arguments:
        return draw_value(arguments[0], bounds, dice)
    if kind is bool:
        return dice.random() < 0.7
    if kind is str:
        return dice.choice(["", "[cleared]", "[Old tool result content cleared]", "<{lines} lines, {messages}>"])
    low, high = (given if given is not None else default for given, default in zip(bounds, (0, 10**6), strict=True))
    if kind is int:
        return min(max(dice.choice([0, 1, 2, 3, 5, 40, 300, 2_000, 9_000]), low), high)
    if kind is float:
        return min(max(dice.choice([0.0, 0.1, 0.34, 0.5, 0.9, 1.0, 4.5]), low), high)
    return draw_part(kind, dice, min(dice.choice([1, 2, 3]), len(kind.model_fields)))


def draw_rule(dice: random.Random) -> Rule:
    """A rule that is allowed."""
    while True:
        limit: dict[str, Any] = {dice.choice(["tokens", "share", "messages", "idle_seconds"]): dice.choice([1, 1, 30])}
        if dice.random() < 0.5:
            limit = {"reserve": dice.choice([0, 7_000, 150_000]), "at_least": dice.choice([0, 900])}
            limit |= {"above": dice.random() < 0.5, "whole_percent": dice.random() < 0.3}
        action = dice.choice(["clear", "clear", "truncate", "drop", "summarise"])
        values: dict[str, Any] = {"trigger": limit, action: {}}
        for name in ("keep", "keep", "select", "head", "cut", "only_if", "size", action):
            field = Rule.model_fields[name]
            if dice.random() < 0.5:
                values[name] = values.get(name, {}) | draw_value(field.annotation, (None, None), dice)
        with contextlib.suppress(ValidationError):
            return Rule.model_validate(values)


def describe_rules(session: Session, name: str) -> dict[str, Any]:
    """Plans by rules that are drawn, at two points, with curves and a replay."""
    dice, document = random.Random(f"rules {name}"), dict[str, Any]()
    window = dice.choice([None, 8_000])
    own = session.with_window(window)
    for number in range(10):
        rules = [draw_rule(dice)]
        if not rules[0].removes_messages and dice.random() < 0.4:
            rules.append(draw_rule(dice))
        spec = PolicySpec(name="drawn", about="A policy.", phases=PHASE_PAIRS[number % 3], rules=tuple(rules))
        policy = RulePolicy(spec, find_policy)

        def build(policy: RulePolicy = policy, number: int = number) -> Any:
            params, at = policy.Params(), dice.choice([None, len(own) // 2])
            plan = build_plan(own, policy, params, at=at, firing_only=dice.random() < 0.3)
            report = planning.build_report(plan, compute_next_request(plan))
            report["losses"] = None
            context = plan.context
            state = build_runtime_state(context, own.window_at(context.at), len(own), None, True)
            values = {
                each.name: [
                    policy.curve(context, params, state, each.name, each.scale.sample_values(3)),
                    each.implied_value,
                    each.scale.track_end,
                ]
                for each in list_parameters_in_context(policy, params, context, state)
                if each.kind == "number" and each.scale is not None
            }
            firings = dump(replay_recording(Recording(own), policy, params).firings) if number < 2 else []
            return [report, values, [firing | {"plan": None} for firing in firings], plan.tokens_removed]

        document[f"{number} {rules}"] = _try(build)
    return document


PARTS: dict[str, Callable[[Session, str], Any]] = {
    "sizes": lambda session, name: describe_sizes(session),
    "inspect": lambda session, name: describe_inspection(session),
    "cache": lambda session, name: describe_cache(session),
    "plans": describe_plans,
    "replays": describe_replays,
    "triggers": describe_triggers,
    "copies": describe_copies,
    "rules": describe_rules,
}


def build_document(name: str, part: str, folder: Path) -> Any:
    """A part of what is said of a session."""
    return json.loads(json.dumps(dump(PARTS[part](open_small(name, folder), name)), sort_keys=True))


CASES = [
    *(
        f"{name} {part}"
        for name in NAMES
        for part in PARTS
        if part not in ("triggers", "rules") or name.startswith(MADE)
    ),
    *(f"{name} {part}" for name in FILE_NAMES for part in ("inspect", "replays")),
    *(f"{name} {part}" for name in LONG_NAMES for part in ("sizes", "cache")),
]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on, sums of floats are rounded in another way")
@pytest.mark.parametrize("case", CASES)
def test_a_document_holds(case: str, tmp_path: Path) -> None:
    name, _, part = case.rpartition(" ")
    assert hash_document(build_document(name, part, tmp_path)) == json.loads(DOCUMENTS.read_text("utf-8"))[case]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            name, _, part = " ".join(sys.argv[1:]).rpartition(" ")
            print(json.dumps(build_document(name, part, Path(folder)), indent=1))
        sys.exit()
    hashes: dict[str, list[str]] = {}
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            name, _, part = case.rpartition(" ")
            hashes[case] = hash_document(build_document(name, part, Path(folder)))
    rows = [f" {json.dumps(case)}: {json.dumps(value)}" for case, value in hashes.items()]
    DOCUMENTS.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
