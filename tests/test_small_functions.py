"""Small functions at the ends of their ranges: tables of answers, and obvious slow versions of those that are fast.

The answers stand in ``data/small_functions.json``; ``python -m tests.test_small_functions`` writes it anew after an
intended change.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from itertools import accumulate, pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.compaction.tool_pairing import (
    assign_unique_ids,
    compare_orphans,
    find_unpaired,
    repair,
    repair_minimally,
    repair_orphans,
)
from context_tui.errors import Error
from context_tui.lab.price.break_report import SessionBreaks, build_advice, format_break, group_cases, list_cases
from context_tui.lab.price.breaks import (
    BreakCause,
    CacheBreak,
    CacheHistory,
    HourCache,
    _Levels,
    format_gap,
)
from context_tui.lab.price.cache import CacheRequest, PromptCache
from context_tui.lab.price.pricing import FiringPrice
from context_tui.lab.price.rates import build_rate_table, find_rates
from context_tui.lab.price.report import compute_break_even_clearing, format_break_even, format_break_even_calls
from context_tui.lab.replay.amounts import Amount, resize_context
from context_tui.lab.replay.backtest import BacktestResult, find_explaining_threshold
from context_tui.policies.base import parse_names
from context_tui.policies.block_index import PrefixSums
from context_tui.policies.command.answer import AnswerReader, ContextCopy
from context_tui.policies.command.program import ProgramError
from context_tui.policies.parameter_space import build_params, list_parameters
from context_tui.policies.parameters import (
    format_assignments,
    parse_assignments,
    parse_values,
)
from context_tui.policies.parts.clear_truncate import truncate_text
from context_tui.policies.parts.rules import Truncate
from context_tui.policies.registry import POLICIES, _load_entry_point, find_policy
from context_tui.policies.scales import build_scale, format_number, parse_number
from context_tui.policies.toml import parse_policy
from context_tui.session import markers
from context_tui.session.blocks import (
    count_image_bytes,
    measure_body,
    measure_raw_body,
    parse_read_range,
    replace_texts,
)
from context_tui.session.drops import find_drops
from context_tui.session.facts import Usage
from context_tui.session.jsontext import compact_json, find_value_ranges, is_nested_deeper
from context_tui.session.losses import Losses, weigh_block
from context_tui.session.memory import from_messages
from context_tui.session.problems import Problem, ProblemList
from context_tui.session.values import Spans
from context_tui.session.window import normalize_model_name
from context_tui.tokens.accounting import History, estimate_message
from context_tui.tokens.breakdown import (
    FileRead,
    ServerShare,
    ToolSchema,
    count_wasted,
    fit_categories,
    format_diagnosis,
    measure_servers,
    scale_tokens,
)
from context_tui.tokens.context_size import ContextAccount, resize
from tests.small_sessions import make_odd

MAX_LINE = 400
ANSWERS = Path(__file__).parent / "data" / "small_functions.json"


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """The answer of a function, or the error that it raises."""
    try:
        return function(*arguments)
    except (Error, ProgramError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def build_scales() -> Iterable[Any]:
    """Scales of parameters, with steps, shares and values on them."""
    for low, high, default, reach, unit in (
        *((0, 10_000_000, 20_000, 90_000, "tokens"), (0, 4_096, 1_024, 9, "bytes"), (1, 604_800, None, 70, "seconds")),
        *((1, 1_000, 3, 10, "turns"), (0, 100_000, None, 60, "results"), (0, 100, 80, 100, "%"), (0, 5, 0, 0, "")),
        *((0.0, 1.0, 0.5, 1.0, "of window"), (0.01, 1.0, None, 0, "of window"), (7, 7, 7, 7, "messages")),
        *((1, 10_000, 7, 41, "turns"), (1, 10_000, 7, 42, "turns"), (0, 10**6, 64, 65, "tokens")),
    ):
        scale = build_scale(low, high, default, reach, unit)
        yield list(scale)
        values = (low, low + 1, default or 0, scale.track_end, high)
        yield [round(scale.compute_share(value), 6) for value in values]
        yield [[scale.step_value(value, steps) for steps in (-9, -1, 0, 1, 2)] for value in values]
        yield [scale.find_value(share) for share in (0, 0.01, 0.3, 0.5, 0.99, 1, 2)]
        yield [scale.sample_values(count) for count in (1, 2, 3, 5, 9)]
        yield [scale.clamp(value) for value in (-1, 0.4, 2.5, 10**9)]


def build_parameters() -> Iterable[Any]:
    """Descriptions of all parameters, and values and ranges of them from text."""
    texts = (
        "1",
        "1..3",
        "3..1",
        "1..9:2",
        "0.5",
        "0.1..0.3",
        "1..5000",
        "true,off",
        "x",
        "",
        "1k..3k",
        "1,1",
        "1..2:0",
    )
    for name in ("defect-microcompact", "koda-microcompact", "agent-sdk-prune", "chain", "manual", "claude-code-auto"):
        policy = POLICIES[name]
        params = build_params(policy, {})
        for each in list_parameters(policy, params):
            yield [each.name, each.kind, each.type, each.low, each.high, each.ratio, each.optional, each.of_window]
            yield [each.label, each.owner, each.ordered, each.refers_to, each.get_effective_value(None)]
            if each.kind == "number":
                yield each._replace(scale=build_scale(each.low or 0, each.high or 9, None, 5, each.unit)).format_range()
            yield [attempt(parse_values, each, text) for text in texts]
            wrong = ({each.name: value} for value in (-1, "x", 10**12, 0.5, None, True))
            yield [str(attempt(build_params, policy, values)) for values in wrong]
    yield attempt(build_params, POLICIES["defect-compact"], {"thresold": 1})
    yield attempt(build_params, POLICIES["defect-compact"], {"zzz": 1}, {"zzz": "--zz"})
    yield [attempt(parse_assignments, texts) for texts in (["a=1", " b = 2=3"], ["a"], ["=1"], ["a="])]
    yield [parse_names(each) for each in ("a, b,,c", "[1, 2]", '["a"]', "[x", 7, ("a",))]
    yield format_assignments({"a": 1, "b": ("x", "y"), "c": {"d": {"e": 0.5}}, "f": ("x,y",), "g": ((1, 2), (3, 4))})
    numbers = ("1,500", "1.5k", "2M", "60%", "0.5", "", "none", "x", "1e400", "9" * 31, "-1", "101", "0.00004")
    for low, high in ((0, 100), (0.0, 1.0), (1, 10**7)):
        yield [attempt(parse_number, text, low, high, optional) for text in numbers for optional in (False, True)]
    yield [format_number(value) for value in (0, 1_000, 0.5, 0.125, 0.33333, 1.0)]


def build_texts() -> Iterable[Any]:
    """Names of injected texts, and what is stripped of others."""
    texts = (
        *(
            "# Skills\nread: reads",
            "Contents of /src/CLAUDE.md (rules):\nUse tabs.",
            "<env>\nLinux\n</env>",
            "plain line",
        ),
        *(
            "<system-reminder>\nx\n</system-reminder>",
            "<other-tag a=1>x</other-tag>",
            "see\n# Skills\n- a\n# currentDate",
        ),
        *(
            "x" * 90,
            "",
            "# Title",
            "Instructions from: a.txt",
            "  <b>\nThe following skills",
            f"{'a' * 2_010}\n# Skills",
        ),
        *(
            "<x>\nToday's date is 1\ngitStatus: clean\n## MCP Server Instructions\nx",
            "--- Context from: a",
            " b <c> </c>",
        ),
        *(
            f"{markers.SDK_SUMMARY}a{markers.SDK_SUMMARY_END}",
            f"{markers.DEFECT_SUMMARY} b ",
            "<command-args>c</command-args>",
        ),
        *(f"{markers.CLAUDE_CODE_SUMMARY}: d", f"{markers.KODA_SUMMARY}e{markers.SDK_SUMMARY_END}", "<INSTRUCTIONS>"),
    )
    for text in texts:
        yield [markers.name_text(text), [*markers.split_text(text)], markers.strip_summary_marker(text)]
        yield [markers.is_rule_file(text), markers.is_tagged(text), markers.strip_command_tags(text)]
        flags = ("by_assistant", "first_block", "first_message")
        choices = (dict(zip(flags, each, strict=True)) for each in product((False, True), repeat=3))
        yield [markers.is_summary_start(text, **each) for each in choices]


def build_bodies() -> Iterable[Any]:
    """Sizes of bodies, ranges of reads, and replaced texts."""
    texts = ["", "a", "[b", "é" * 300, "a" * 499 + "é" * 150, "a" * 500, "a" * 498 + "😀" * 60, '"\\\n', "\ud800"]
    png: dict[str, Any] = {"type": "image", "source": {"data": "abc"}}
    for body in (
        *texts,
        None,
        [],
        [png],
        [{"type": "text", "text": "[x"}, png],
        [{"type": "other"}],
        {"k": ["é" * 600]},
        7,
    ):
        yield list(measure_body(body))
        assert measure_raw_body(compact_json(body)) == measure_body(body)
    sources: tuple[Any, ...] = (
        {"data": "é"},
        {"url": "abc"},
        {"data": None, "url": "x"},
        {"data": "", "url": "x"},
        {"data": 7},
        {},
        None,
    )
    yield [count_image_bytes({"source": source}) for source in sources]
    keys = ("offset", "limit", "start_line", "end_line", "view_range")
    lines = (0, 1, 2, 10**9, 10**9 + 1, -1, "3", None, [1, 2], [3, -1], [1], [0, 1], [1, 10**9])
    yield [parse_read_range({key: line}) for key in keys for line in lines]
    yield [parse_read_range(dict(zip(keys, each, strict=False))) for each in product((0, 1, 5, None), repeat=4)]
    blocks = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b", "signature": "c"}, png]
    blocks += [{"type": "tool_use", "id": "d", "input": {}}, {"type": "tool_result", "content": "e"}]
    yield [
        replace_texts(blocks, {at: new}) for at in range(5) for new in ('{"n": 1}', "", None) if (at, new) != (3, "")
    ]
    bodies: tuple[Any, ...] = ("", "ab", "abcdefgh", "éééééé", "a😀b😀c", [])
    cuts = (
        Truncate(head=3, tail=2),
        Truncate(head=0, tail=0),
        Truncate(head=4, tail=9, before="<", middle="|", after=">"),
    )
    yield [truncate_text(cut, body) for cut in cuts for body in bodies]
    yield [weigh_block(block) for block in blocks]
    nested: Any = 1
    for depth in range(4):
        yield [depth, [is_nested_deeper(nested, levels) for levels in (0, 1, 2, 3)]]
        nested = {"k": nested} if depth % 2 else [nested, 2]
    raw = (b"", b"1", b" 1 2", b'{"a":1}{"b":2}\n', b"\xef\xbb\xbf 1", b"1 x", b'"\xff" 2')
    yield [attempt(lambda each=each: [*find_value_ranges(each)]) for each in raw]


def build_costs() -> Iterable[Any]:
    """Rates, gaps, break-even points, and advice about the cache."""
    models = (
        "claude-sonnet-4-5",
        "anthropic/claude-opus-4.1",
        "claude-haiku-4-5-20251001",
        "gpt-5.5",
        "gpt-4o",
        "none",
        None,
    )
    for model in (*models, "claude-sonnet-4-5[1m]", "claude-sonnet-4-5-x", "us.anthropic.claude-sonnet-4-5-v1:0"):
        rates = find_rates(model)
        yield [model, normalize_model_name(model or "")]
        if rates is not None:
            yield [list(rates.select_for_prompt(size)[:6]) for size in (0, 200_000, 200_001, 272_000, 272_001, 10**6)]
            yield [rates.get_write_rate(ttl) for ttl in (0, 1, 300_000, 300_001, 3_600_000)]
    used: tuple[list[str | None], ...] = ([], ["gpt-4o"], ["gpt-4o", "none"], [None], ["none", None, "other"])
    for names, has_fee in product(used, (False, True)):
        table = build_rate_table(names, has_write_fee=has_fee)
        yield [table.unit, table.unpriced_models, table.note, list(table.get_rates("none")), list(table.default_rates)]
    gaps = (-1, 0, 999, 1_000, 59_999, 60_000, 3_599_999, 3_600_000, 3_660_000, 7_199_000, 360_000_000)
    yield [format_gap(gap) for gap in gaps]
    yield [format_break_even_calls(calls) for calls in (None, -1.0, 0.0, 0.004, 1.0, 12.345)]
    for cleared, behind, left, summarizer in product((0, 1, 9_000), (0, 5_000), (1, 7), (0.0, 50.0)):
        price = partial(FiringPrice, 3, 9, cleared, behind, 70, False, summarizer)
        yield compute_break_even_clearing(price(1.5, left, 2, -3.0, "pays"), 1.25, 0.1)
        yield [format_break_even(price(each, left, None, 3.0, "does not pay")) for each in (None, 0.0, 0.1, 1.0, 1.01)]
    for shared, compacted, beginning in product((0, 16, 900), (0, 900, 916, 917), (0, 900, 5_000)):
        levels = _Levels(shared, compacted, beginning, "")
        reads = (0, 16, 32, 33, 450, 884, 883, 900, 916, 917, 2_950, 2_951, 5_000)
        yield [[levels.is_shared(read), levels.is_beginning(read)] for read in reads]
    yield from _build_advice()


def _build_advice() -> Iterable[Any]:
    tables = [build_rate_table([model], has_write_fee=True) for model in ("claude-sonnet-4-5", "none")]
    for number, table in enumerate((*tables, tables[0])):
        breaks = tuple(
            CacheBreak(10 * at, 5_000 * at, 0.25 * at * (number + 1), cause, "inferred", f"evidence {at}", saved=at % 3)
            for at, cause in enumerate(BreakCause)
        )
        hours = [HourCache(2, 3.0, 1.0), HourCache(1, 0.5, 1.0), HourCache(3, 900.0, 1.0), HourCache()]
        for count, hour in product((0, 1, 7, len(breaks)), hours):
            history = CacheHistory(9, 70_000, 800, breaks[:count], table, True, hour)
            sessions = [SessionBreaks(f"s{name}", "a", "p", history) for name in range(2)]
            cases = list_cases(sessions)
            yield [build_advice(sessions), history.again, history.cost, len(history.costly_breaks)]
            yield [format_break(case.cache_break._replace(is_estimated=count == 1), case.unit) for case in cases]
            yield [list(group) for group in group_cases(cases, lambda case: case.cache_break.cause[0])]


def build_sizes() -> Iterable[Any]:
    """Sizes of contexts with their errors, scales, shares, and lines that are read again."""
    for size, fixed, content, change, share in product((0, 900), (0, 100, 950), (0, 700), (-800, -1, 50), (0, 0.5, 1)):
        yield resize(size, fixed, content, change, share)
    for recorded, appended, requests, has_prompt in product((None, 0, 5_000), (-40, 0, 900), (0, 4), (False, True)):
        account = ContextAccount(
            recorded, appended, 700, 3_000, requests, 90, 0.1, 0.02, "m", "s", requests == 4, 5, has_prompt
        )
        yield [account.tokens, account.origin, list(account.parts), list(account.size)]
        for removed, replies in product((0, 1, 2_500, 9_000), (0, 1, 4)):
            yield [*account.resize(removed, replies), *account.resize(removed, replies).add(700, 90)]
    before = Amount(6_000, 4, 0)
    for after, size in product(
        (Amount(0, 0, 0), before, Amount(700, 3, 0), Amount(2_000, 6, 900)), (100, 4_000, 9_000)
    ):
        yield resize_context(size, 900, before, after)
    parts = {"system": 30, "tools": 20, "not_in_file": 10, "user": 7, "thinking": 0, "tool_result": 33}
    yield [fit_categories(parts, size) for size in (0, 10, 59, 60, 61, 100, 1_000)]
    yield [fit_categories(dict.fromkeys(parts, 0) | {"system": 9}, size) for size in (0, 9, 10)]
    counts: tuple[dict[str, int], ...] = ({}, {"a": 0}, {"a": 1, "b": 1, "c": 1})
    yield [scale_tokens(count, total) for count in counts for total in (0, 1, 10)]
    spans = ((1, 0), (1, 10), (5, 10), (11, 5), (6, 0), (3, 1))
    for length in (1, 2, 3):
        for chosen in product(spans, repeat=length):
            yield count_wasted([FileRead(40 + 7 * at, *span, True) for at, span in enumerate(chosen)])
    amounts: tuple[dict[str, int], ...] = (
        {"Read": 499},
        {"Read": 500},
        {"x": 900},
        {"Read": 9, "Bash": 700, "Grep": 700, "bash": 800, "Glob": 0},
    )
    yield [format_diagnosis(each) for each in amounts]


def build_pairs() -> Iterable[Any]:
    """Histories with calls and results that miss the other, repaired in each way."""
    for number in range(24):
        messages = make_odd(number)
        orphans, (unique, renamed) = find_unpaired(messages), assign_unique_ids(messages)
        yield [[list(orphan) for orphan in orphans], renamed]
        yield repair(messages)
        for repaired in (
            repair_minimally(unique),
            repair_minimally(unique, range(0, len(unique), 2)),
            repair_orphans(messages, orphans),
            repair_orphans(unique, orphans[::2]),
        ):
            yield [repaired.messages, dict(repaired.notes), [list(source) for source in repaired.sources]]
            yield [[list(each) for each in side] for side in compare_orphans(messages, repaired.messages, renamed)]


def build_lists() -> Iterable[Any]:
    """Problems, losses, and messages that are not valid."""
    places = ("line 7", "line 07", "line", "row 123456789", "row 1234567890", "", "line ٣", "7")
    problems = ProblemList(Problem(place, f"reason {at % 2}", at) for at, place in enumerate(places))
    yield [list(each) for each in problems]
    yield [list(problems[-1]), [list(each) for each in problems[1:3]], list(problems.pop()), len(problems)]
    losses = Losses()
    losses.add("a", 2)
    losses.add("b", 0)
    losses.add_note("n")
    losses.omit("c", {"type": "text", "text": "seven b"})
    for before, after in product(({"type": "text", "text": "long text"}, {"type": "image"}), repeat=2):
        losses.replace(before, after, "d" if before == after else "")
    yield [
        losses.lines,
        sorted(losses.removed.items()),
        (losses + losses).lines,
        sorted((losses + losses).removed.items()),
    ]
    deep: Any = []
    for _ in range(201):
        deep = [deep]
    values: list[Any] = [deep, deep[0], 10**4_000, 10**4_000 - 1, -(10**4_000), {1}, object]
    contents: list[Any] = [[7], [{}], [{"type": 7}], [{"type": "text", "text": 7}]]
    wrong: list[Any] = [
        *("text", b"b", {}, 7, [7], [{"role": "system"}], [{"role": None}], [{"role": "user", "content": 7}]),
        *([{"role": "user", "content": content}] for content in contents),
        *([{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": 7}]}], [{"role": "user", "x": {1: 2}}]),
        *([{"role": "user", "x": value}] for value in values),
        *([{"role": "user", "content": "a"}, {"role": "x" * 50}], [{"role": "user", "x": [{"y": (1,)}]}]),
    ]
    yield [len(found) if hasattr(found := attempt(from_messages, each), "facts") else found for each in wrong]


def build_policy_texts() -> Iterable[Any]:
    """Errors of policies that are written in TOML."""
    head = 'name = "mine"\nabout = "mine: a rule"\n'
    clear = "\n[[rules]]\ntrigger = { tokens = 1 }\nclear = {}\n"
    drop = "\n[[rules]]\ntrigger = { tokens = 1 }\ndrop = {}\n"
    texts = [
        *("", "x", 'name = "X"', head, head + clear, head + "rules = 7", head + clear + "keep = { turns = 0 }\n"),
        *(
            head + clear + line + "\n"
            for line in ("keep = { turn = 1 }", "keep = { tokens = -1 }", 'select = { tools = "a" }')
        ),
        *(head + clear + line + "\n" for line in ("cut = {}", "drop = {}", "keep = { user_tokens = 1 }", "zzz = 1")),
        *(
            head + drop + clear,
            head + drop + "select = {}\n",
            head + drop + "keep = { results = 1 }\n",
            head + clear * 9,
        ),
        *(head + '\n[[rules]]\npolicy = "none"\n', head + '\n[[rules]]\npolicy = "nothing"\n'),
        head + '\n[[rules]]\npolicy = "defect-compact"\nparams = { threshold = -1 }\n',
        head + "\n[[rules]]\ntrigger = { tokens = 1, share = 0.5 }\nclear = {}\n",
        head + "\n[[rules]]\ntrigger = { tokens = 1, at_least = 5 }\nclear = {}\n",
        head + "\n[[rules]]\ntrigger = { any = [{ tokens = 1 }, { share = 7.0 }] }\nclear = {}\n",
        head + '\n[[rules]]\ntrigger = { tokens = "x" }\nclear = {}\n[rules.keep]\nturns = 1\nmessages = true\n',
        head + "phases = []\n" + clear + '\n[rules.truncate]\nhead = 1\n"odd key" = 7\n',
        head.replace("about", "abut") + clear,
        head + 'runtime = "a"\nphases = ["never"]\n' + clear,
    ]
    yield [
        found if isinstance(found := attempt(parse_policy, text, "file.toml", find_policy), str) else found.name
        for text in texts
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mine.toml")
        path.write_text(head + clear)
        for loaded in (path, str(path), head + clear, lambda: str(path), POLICIES["none"], path.with_name("none.toml")):
            found = attempt(_load_entry_point, loaded)
            yield found.replace(folder, "") if isinstance(found, str) else [found.name, found.about]


TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Read both."},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "First a.", "signature": "s"},
            {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "/a"}},
            {"type": "tool_use", "id": "b", "name": "Read", "input": {"path": "/b"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "a long body of a file"},
            {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "b"}]},
            {"type": "image", "source": {}},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Both are read."}]},
]


def build_program_answers() -> Iterable[Any]:
    """Changes that programs ask for, or why they are refused."""
    texts: list[Any] = [
        [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}, {"type": "text"}],
        "a long",
        7,
        [],
    ]
    note: dict[str, Any] = {"role": "user", "content": "A note."}
    summary = {"role": "assistant", "content": [{"type": "text", "text": "So: {summary}."}], "summary": True}
    edits: list[Any] = [
        *([{"clear": 2, "text": text}] for text in texts),
        *([{"clear": 2, "block": block, "text": "t"}] for block in (0, 1, 2, 3, -1, "0", True)),
        *([{"clear": 1, "block": block, "input": each}] for block in (1, 2) for each in ({}, {"path": "/a"}, "x")),
        *([{"clear": 1, "block": 0, "text": "t"}], [{"clear": 3, "text": "Both are not."}], [{"clear": 9, "text": ""}]),
        *([{"remove": 1, "block": block}] for block in (0, 1, 2)),
        *([{"remove": 3}], [{"remove": 2, "block": 2}], [{"remove": 0}, {"drop": 0}], [{"clear": 0, "text": "t"}] * 2),
        *(
            [{"drop": first, "to": last}]
            for first, last in ((0, 0), (0, 2), (1, 2), (1, 1), (2, 2), (2, 1), (0, 3), (0, 4))
        ),
        *([{"drop": 1}, {"remove": 2, "block": 0}, {"remove": 2, "block": 1}], [{"drop": 0}, {"drop": 3}]),
        *(
            [{"insert": each}]
            for each in (note, summary, {**summary, "content": "no"}, {**note, "role": "system"}, "x")
        ),
        *(
            [{"insert": note, "before": at}, {"insert": summary, "before": 2}, {"drop": 0}]
            for at in (0, 3, 4, "n", None)
        ),
        *([{}], [{"drop": 0, "clear": 1}], [{"drop": 0, "text": "t"}], [{"other": 1}]),
    ]
    sent: list[Any] = [{"id": number, **message} for number, message in enumerate(TALK)]
    short = {**sent[2], "content": [{**sent[2]["content"][0], "content": "a long"}, *sent[2]["content"][1:]]}
    kept: list[Any] = [
        *(
            sent,
            sent[:1],
            sent[1:],
            sent[::-1],
            [],
            [sent[0], note, *sent[1:]],
            [*sent, {**note, "id": "n"}],
            [sent[0]] * 2,
        ),
        *([sent[0], sent[1], short, sent[3]], [*sent[:3], {**sent[3], "role": "user"}], [*sent[:3], {"id": 3}]),
        *([*sent[:3], {**sent[3], "content": content}] for content in ("Both.", "", 7, [], [*sent[3]["content"]] * 2)),
        *([sent[0], {**sent[1], "content": sent[1]["content"][first:]}, *sent[2:]] for first in (1, 2)),
        *([{"id": 9, **note}], [{"id": "z", **note}, *sent]),
    ]
    answers: list[dict[str, Any]] = [
        {},
        {"reason": "r"},
        {"other": 1},
        {"edits": 7},
        {"edits": [{"drop": 0}], "messages": []},
    ]
    for answer in (*answers, *({"edits": each} for each in edits), *({"messages": each} for each in kept)):
        facts = from_messages([*TALK, note, note]).facts
        copy = ContextCopy(facts, [*range(4)], {at: each["role"] for at, each in enumerate(TALK)})
        copy.rows = {at: [*facts.blocks_of(at)] for at in range(4)}
        for at, message in enumerate(TALK):
            content = message["content"]
            copy.blocks[at] = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
        reader = AnswerReader(copy, "p")
        error = attempt(reader.read, answer)
        changes = {
            row: [change.action, change.body.text, change.body.removed] for row, change in reader.changes.items()
        }
        inserts = [[each.role, each.position, each.prefix, each.suffix, each.holds_summary] for each in reader.inserts]
        order = [each if isinstance(each, int) else each.prefix for each in copy.order]
        yield [error, changes, sorted(reader.dropped), inserts, order, copy.rows, len(copy.pending)]
        yield [copy.bind_inserts(facts, [*range(length)]) for length in (3, 4, 5)]


KINDS: dict[str, Callable[[], Iterable[Any]]] = {
    "scales": build_scales,
    "parameters": build_parameters,
    "texts": build_texts,
    "bodies": build_bodies,
    "costs": build_costs,
    "sizes": build_sizes,
    "pairs": build_pairs,
    "lists": build_lists,
    "policies": build_policy_texts,
    "programs": build_program_answers,
}


def build_answers(kind: str) -> list[str]:
    """Each answer as a line, or its hash if it is long."""
    lines = (json.dumps(answer, sort_keys=True, default=str) for answer in KINDS[kind]())
    return [line if len(line) <= MAX_LINE else sha256(line.encode()).hexdigest()[:12] for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_hold(kind: str) -> None:
    expected = json.loads(ANSWERS.read_text("utf-8"))[kind]
    for number, (answer, line) in enumerate(zip(build_answers(kind), expected, strict=True)):
        assert answer == line, (kind, number)


# Slow versions


numbers = st.lists(st.integers(0, 30), max_size=12)


@given(numbers, numbers, st.integers(-1, 31))
def test_sums_below_and_above_a_level(levels: list[int], amounts: list[int], value: int) -> None:
    pairs = list(zip(levels, amounts, strict=False))
    sums = PrefixSums([level for level, _ in pairs], [amount for _, amount in pairs])
    assert sums.sum_below(value) == sum(amount for level, amount in pairs if level < value)
    assert sums.sum_above(value) == sum(amount for level, amount in pairs if level > value)


@given(numbers, numbers, st.integers(-14, 14), st.integers(-14, 14))
def test_spans_are_the_numbers_that_they_hold(first: list[int], second: list[int], start: int, end: int) -> None:
    spans, other = Spans.from_numbers(first), Spans.from_numbers(sorted(set(second)))
    assert list(spans) == first and len(spans) == len(first) and spans == first and spans != [*first, 1]
    assert spans[start:end] == first[start:end] and spans.end == max(first, default=-1) + 1
    assert [*spans.without(other)] == [number for number in first if number not in other]
    assert all(spans[at] == first[at] and spans[-at - 1] == first[-at - 1] for at in range(len(first)))
    assert [number in spans for number in range(31)] == [number in first for number in range(31)]


sizes = st.lists(st.sampled_from([0, 900, 30_000, 31_000, 33_500, 70_000, 71_000, 150_000]), min_size=1, max_size=12)


@given(sizes, st.booleans())
def test_drops_are_found_step_by_step_as_at_once(contexts: list[int], has_side_requests: bool) -> None:
    talk = [{"role": role, "content": "word " * 9} for _ in contexts for role in ("user", "assistant")]
    growing, whole = from_messages(talk).facts, from_messages(talk).facts
    growing.has_side_requests = whole.has_side_requests = has_side_requests
    for number, size in enumerate(contexts):
        growing.add_request(2 * number + 1, Usage(size))
        whole.add_request(2 * number + 1, Usage(size))
        find_drops(growing)
    assert find_drops(growing) == find_drops(whole)
    falls = [before - after for before, after in pairwise(contexts) if after]  # a call without a size is no drop
    if not has_side_requests:
        assert [drop.tokens for drop in growing.drops] == [fall for fall in falls if fall >= 2_000]


actions = st.lists(
    st.tuples(st.sampled_from(["append", "number", "record", "replace", "splice", "truncate"]), st.integers(0, 6)),
    max_size=12,
)


@given(actions)
def test_a_history_is_its_recorded_size_and_what_came_later(steps: list[tuple[str, int]]) -> None:
    history, tokens, recorded, later = History(), list[int](), None, 0
    for step, number in steps:
        message = {"role": "user", "content": "word " * 10 * number}
        size = estimate_message(message)
        match step:
            case "append" | "number":
                history.append(message if step == "append" else size)
                tokens, later = [*tokens, size], later + size
            case "record":
                history.record(1_000 * number)
                recorded, later = 1_000 * number, 0
            case "replace":
                history.replace([message] * (number % 3))
                tokens, recorded, later = [size] * (number % 3), None, 0
            case "splice":
                history.splice(number, message)
                tokens, recorded, later = [size, *tokens[number:]], None, 0
            case _:
                history.truncate(number)
                if number < len(tokens):
                    tokens, recorded, later = tokens[:number], None, 0
        expected = recorded + later if recorded is not None else sum(tokens) if tokens else None
        assert (len(history), history.tokens) == (len(tokens), expected)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=7))
def test_the_thresholds_that_explain_the_most_compactions(cases: list[tuple[int, int]]) -> None:
    results = [
        BacktestResult(at, "full", None, recorded, testable=True, off_by=0, why="", above=above)
        for at, (above, recorded) in enumerate(cases)
    ]
    found = find_explaining_threshold(results)
    explained = {threshold: sum(low < threshold <= high for low, high in cases) for threshold in range(11)}
    most = max(explained.values())
    if not most:
        assert found is None
        return
    assert found is not None and (found.explains, found.of) == (most, len(cases))
    assert [explained[threshold] for threshold in range(found.above + 1, found.most + 1)].count(most) > 0
    assert found.most == max(threshold for threshold, count in explained.items() if count == most)


requests = st.lists(
    st.builds(
        CacheRequest,
        size=st.integers(0, 300),
        unchanged_prefix=st.sampled_from([0, 40, 120, 10**9]),
        tail=st.sampled_from([0, 5]),
        sent_at=st.just(-1),
        ended_at=st.just(-1),
        key=st.sampled_from(["a", "a", "b"]),
        ttl_ms=st.sampled_from([0, 300_000, 300_000, 3_600_000]),
        new_blocks=st.sampled_from([0, 1, 7, 21]),
        floor=st.sampled_from([0, 30]),
        anywhere=st.booleans(),
        cached_reply_tokens=st.just(0),
        miss_reason=st.none(),
        recorded_read=st.none(),
    ),
    max_size=9,
)
pauses = st.lists(st.sampled_from([0, 100, 305_000, 305_001, 3_605_000, 3_605_001]), min_size=9, max_size=9)


@given(requests, pauses, st.booleans())
def test_a_cache_reads_the_longest_entry_that_lives(calls: list[CacheRequest], waits: list[int], timed: bool) -> None:
    """The rules once more: an entry is a prefix of a prompt, until that changes, it expires, or is too far back."""
    cache, entries, before, blocks = PromptCache(), list[dict[str, Any]](), 0, 0
    clocks = list(accumulate(waits, initial=0))
    for call, clock in zip(calls, clocks, strict=False):
        call = call._replace(sent_at=clock, ended_at=clock) if timed else call
        clock, blocks = clock if timed else 0, blocks + call.new_blocks
        for entry in entries:
            if call.unchanged_prefix < before and call.anywhere:
                entry["end"] = min(entry["end"], call.unchanged_prefix)
            elif call.unchanged_prefix < before and entry["end"] > call.unchanged_prefix:
                entry["dead"] = True
        alive = [each for each in entries if not each.get("dead")]
        for each in alive:
            far = blocks - each["block"] > 20 and each is not alive[-1]
            if far or clock - each["used"] > each["ttl"] + 5_000:
                each["dead"] = True
        readable = [each for each in alive if not each.get("dead") and each["key"] == call.key]
        limit = max(call.size - call.tail, 0)
        read = min(max([call.floor, *(each["end"] for each in readable)]), limit)
        if readable:
            max(readable, key=lambda each: each["end"])["used"] = clock
        used = cache.copy().update(call)
        assert used == cache.update(call)
        assert used.read == read and used.size == call.size
        assert used.written == (limit - read if call.ttl_ms else 0)
        if call.ttl_ms:
            entries.append({"end": limit, "key": call.key, "block": blocks, "ttl": call.ttl_ms, "used": clock})
        before = call.size


def test_the_tools_of_a_server_are_added_up() -> None:
    names = ("mcp__git__log", "Read", "mcp__web__get_page", "mcp__git__show")
    tools = [ToolSchema(name, 100 + number, number, None, False) for number, name in enumerate(names)]
    assert measure_servers(tools) == [ServerShare("git", 2, 203, 3), ServerShare("web", 1, 102, 2)]


if __name__ == "__main__":
    rows = [
        f" {json.dumps(kind)}: [\n  " + ",\n  ".join(map(json.dumps, build_answers(kind))) + "\n ]" for kind in KINDS
    ]
    ANSWERS.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
