"""The values at which functions of the pure layers change their answer, one step on either side."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from context_tui.errors import UnreadableSession
from context_tui.formats.kit.prompts import set_system
from context_tui.lab.regret.needles import find_lines, is_number
from context_tui.policies.parameter_space import build_params, list_parameters
from context_tui.policies.parameters import parse_values
from context_tui.policies.parts.clear_truncate import truncate_text
from context_tui.policies.parts.rules import Truncate
from context_tui.policies.registry import POLICIES, find_policy
from context_tui.policies.scales import build_scale, compute_round_values, format_number, parse_number
from context_tui.policies.versions import find_policy_of_version
from context_tui.session.blocks import (
    body_to_text,
    bytes_to_tokens,
    compute_boundary_shifts,
    count_image_bytes,
    get_bracket_start,
    measure_body,
    measure_raw_body,
    parse_read_range,
    replace_texts,
)
from context_tui.session.drops import find_drops
from context_tui.session.facts import Facts, PromptPart, Usage
from context_tui.session.jsontext import compact_json, find_value_ranges, is_nested_deeper, loads, utf8_len
from context_tui.session.markers import is_summary_start, is_tagged, name_text, split_text, strip_summary_marker
from context_tui.session.session import ContentOverlay, FileState
from context_tui.session.token_factors import count_blocks_before, count_output_tokens
from context_tui.session.validation import validate_messages
from context_tui.session.values import BlockFlag, Role, Spans
from context_tui.session.window import COMMON_WINDOWS, normalize_model_name
from context_tui.tokens.accounting import estimate_prompt
from context_tui.tokens.estimators import count_result_by_characters
from context_tui.tokens.measures import find_encoding
from context_tui.tokens.restored_files import Restoration
from tests.formats.recordings import Recording, text, usage


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({}, None),
        ({"offset": 0}, None),
        ({"offset": 1}, (1, 0)),
        ({"offset": True}, None),
        ({"offset": 10**9}, (10**9, 0)),
        ({"offset": 10**9 + 1}, None),
        ({"limit": 1}, (1, 1)),
        ({"limit": 0}, None),
        ({"limit": 10**9}, (1, 10**9)),
        ({"limit": 10**9 + 1}, None),
        ({"offset": 3, "limit": 2}, (3, 2)),
        ({"start_line": 3, "end_line": 3}, (3, 1)),
        ({"start_line": 3, "end_line": 9}, (3, 7)),
        ({"start_line": 3, "end_line": 2}, (3, 0)),
        ({"end_line": 4}, (1, 4)),
        ({"view_range": [2, 5]}, (2, 4)),
        ({"view_range": [2, -1]}, (2, 0)),
        ({"view_range": [2]}, None),
        ({"view_range": [2, 5, 6]}, None),
    ],
)
def test_lines_that_a_call_reads(arguments: dict[str, Any], lines: tuple[int, int] | None) -> None:
    assert parse_read_range(arguments) == lines


def test_bodies_and_their_sizes() -> None:
    image = {"type": "image", "source": {"data": "abcd"}}
    assert [bytes_to_tokens(size) for size in (3, 4, 7, 8)] == [0, 1, 1, 2]
    assert body_to_text([text("a"), image, text("b")]) == "ab"
    assert body_to_text(None) == "" and body_to_text({"b": 1}) == '{"b":1}'
    assert count_image_bytes(image) == 4
    assert count_image_bytes({"source": {"url": "http://é"}}) == 9
    assert count_image_bytes({"source": "abcd"}) == count_image_bytes({"source": {"data": 7}}) == 0
    assert measure_body("é😀") == (6, 6, 8, 0, 0, "", 3)
    assert measure_body(None) == (0, 0, 2, 0, 0, "", 0)
    assert measure_body("[cleared]")[5] == "[cleared]"
    flags = BlockFlag.BODY_LIST | BlockFlag.HAS_IMAGE | BlockFlag.UNKNOWN_SIZE
    assert measure_body([text("é"), image])[:2] == (6, 2) and measure_body([text("é"), image])[4] == flags
    assert measure_body([text("[a"), text("b")])[4:] == (BlockFlag.BODY_LIST, "[ab", 0)
    assert measure_body({"b": "é", "a": 1})[:5] == (16, 16, 16, 0, BlockFlag.BODY_JSON)
    for body in ('"plain"', '"a\\nb\\"c"', '"é😀"', '"\\u00e9"', '"[x]"', '{"b":1,"a":2}', '"a\\\\b"', '""'):
        assert measure_raw_body(body.encode()) == measure_body(loads(body))
    assert get_bracket_start("x[") == "" and get_bracket_start("[" + "x" * 200) == "[" + "x" * 159


def test_character_boundaries_near_the_cuts_of_a_body() -> None:
    assert compute_boundary_shifts("é".encode() * 250) == 0
    shifts = {
        compute_boundary_shifts(b"x" * lead + "😀".encode() * 200 + b"x" * tail)
        for lead in range(4)
        for tail in range(4)
    }
    assert shifts == {back | forward << 2 for back in range(4) for forward in range(4)}
    assert compute_boundary_shifts(b"x" * 499 + "é".encode() + b"y" * 300) == 1
    assert compute_boundary_shifts(b"x" * 500 + "é".encode() + b"y" * 199) == 4


def test_texts_are_replaced_by_ordinal() -> None:
    blocks = [
        text("a"),
        {"type": "tool_use", "input": {"x": 1}},
        {"type": "tool_result", "content": "c"},
        {"type": "thinking", "thinking": "d", "signature": "s"},
        {"type": "image", "source": {}},
    ]
    assert replace_texts(blocks, {}) == blocks
    assert replace_texts(blocks, {0: None, 1: "{}", 2: "C", 3: "D", 4: "E"}) == [
        {"type": "tool_use", "input": {}},
        {"type": "tool_result", "content": "C"},
        {"type": "thinking", "thinking": "D"},
        text("E"),
    ]


def test_json_that_is_not_quite_json() -> None:
    assert loads(b'\xef\xbb\xbf{"a": NaN}')["a"] != 0 and loads('"\ud800"') == "\ud800"
    assert loads("1" * 3_999) == int("1" * 3_999) and loads("1" * 4_400) == float("inf")
    assert compact_json({"b": "\ud800", "a": 2}, sort_keys=True) == b'{"a":2,"b":"\xed\xa0\x80"}'
    assert utf8_len("aé\ud800") == 6
    nest: Any = 1
    for depth in range(1, 6):
        nest = [nest] if depth % 2 else {"a": nest}
        assert is_nested_deeper(nest, depth - 1) and not is_nested_deeper(nest, depth)
    assert list(find_value_ranges(b' {"a":1} [2]\t"\xff" ')) == [(1, 8), (9, 12), (13, 16)]
    assert list(find_value_ranges(b"\xef\xbb\xbf1 2")) == [(0, 4), (5, 6)]
    with pytest.raises(ValueError):
        list(find_value_ranges(b"1 x"))


def test_spans_are_a_sequence_of_numbers() -> None:
    spans = Spans.from_numbers([1, 2, 3, 7, 9, 10])
    assert spans.ranges == (range(1, 4), range(7, 8), range(9, 11))
    assert [*spans] == [1, 2, 3, 7, 9, 10] == [spans[place] for place in range(6)] and len(spans) == 6
    assert spans[-1] == spans.end - 1 == 10 and spans[2:4] == [3, 7] and Spans().end == 0
    assert spans == [1, 2, 3, 7, 9, 10] and spans != [1, 2, 3, 7, 9, 11] and spans != [1, 2]
    assert 3 in spans and 4 not in spans and hash(spans) == hash(Spans(range(1, 4), range(7, 8), range(9, 11)))
    with pytest.raises(IndexError):
        spans[6]


@pytest.mark.parametrize(
    ("session_model", "peak", "tokens", "source", "alternatives"),
    [
        ("claude-sonnet-4-5", 1, 200_000, "model", (1_000_000,)),
        ("claude-sonnet-4-5", 200_000, 200_000, "model", (1_000_000,)),
        ("claude-sonnet-4-5", 200_001, 1_000_000, "inferred", ()),
        ("claude-sonnet-4-5[1m]", 1, 1_000_000, "model", ()),
        ("claude-3-opus", 200_001, 1_000_000, "inferred", ()),
        ("claude-3-opus", 1_000_000, 1_000_000, "inferred", ()),
        ("nobody's", 256_000, 256_000, "inferred", ()),
        ("claude-3-opus", 1_000_001, 1_000_001, "inferred", ()),
        ("gpt-5.5", 1, 400_000, "model", ()),
        ("gpt-5.5", 272_000, 400_000, "model", ()),
        ("qwen3", 131_073, 262_144, "inferred", (1_000_000,)),
        ("nobody's", 1, 200_000, "assumed", ()),
        ("nobody's", 200_001, 256_000, "inferred", ()),
    ],
)
def test_windows_by_model_and_peak(
    tmp_path: Path, session_model: str, peak: int, tokens: int, source: str, alternatives: tuple[int, ...]
) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("ok"), use=usage(fresh=peak), model=session_model)
    window = recording.open(tmp_path).window_at(2)
    assert (window.tokens, window.source) == (tokens, source)
    assert set(alternatives) <= {*window.alternatives, *COMMON_WINDOWS} and (
        not alternatives or window.alternatives == alternatives
    )
    assert window.is_known == (source != "assumed") and window.model_tokens == tokens


def test_what_is_not_said_of_a_message_or_a_request() -> None:
    facts = Facts()
    message = facts.add_message(Role.USER)
    assert (facts.time[message], facts.end_time[message], facts.flags[message]) == (-1, -1, 0)
    assert Usage().output_trusted and Usage().context == 0


def test_names_of_switches() -> None:
    switch = next(each for each in list_parameters(POLICIES["defect-compact"]) if each.kind == "switch")
    assert parse_values(switch, "true,on, 1,YES") == [True] and parse_values(switch, "false,Off,0,no") == [False]
    ratio = next(each for each in list_parameters(POLICIES["defect-compact"]) if each.ratio)
    assert parse_values(ratio, "50%") == [0.5] == parse_values(ratio, "0.5")


def test_names_of_models() -> None:
    assert normalize_model_name("us.anthropic.claude-Sonnet-4.5-v1") == "claude-sonnet-4-5-v1"
    assert normalize_model_name("openrouter/openai/GPT-4.1") == "gpt-4.1"
    encodings = {
        name: find_encoding(name) for name in ("gpt-4o-mini", "gpt-4-turbo", "openai/o3", "gpt-oss-20b", "llama")
    }
    assert encodings == {
        "gpt-4o-mini": ("o200k_base", True),
        "gpt-4-turbo": ("cl100k_base", True),
        "openai/o3": ("o200k_base", True),
        "gpt-oss-20b": ("o200k_harmony", True),
        "llama": ("o200k_base", False),
    }


def test_policies_of_former_versions() -> None:
    by_version = {
        version: find_policy_of_version("claude-code-auto", version)[1]
        for version in ((1, 9), (2, 0), (2, 1, 20), (2, 1, 21), (2, 1, 152), (2, 1, 153))
    }
    early = {"trigger_reserve": 45_000, "keep_messages": 0}
    assert list(by_version.values()) == [{}, early, early, {"keep_messages": 0}, {"keep_messages": 0}, {}]
    micro = [
        find_policy_of_version("claude-code-micro", version)[0]
        for version in ((2, 0, 9), (2, 1), (2, 1, 20), (2, 1, 21))
    ]
    assert micro == ["claude-code-micro", "claude-code-micro-by-size", "claude-code-micro-by-size", "claude-code-micro"]
    assert find_policy_of_version("defect-compact", (2, 1)) == ("defect-compact", {})


def test_files_that_are_put_back() -> None:
    class Files:
        """Content with the states of files, and sizes of skills."""

        def __init__(self, states: dict[str, FileState], skills: list[int]) -> None:
            self.states, self.skills = states, skills

        def read_file_states(self, messages: Any) -> dict[str, FileState]:
            return self.states

        def read_skill_sizes(self, end: int) -> list[int]:
            return self.skills

    def tokens_of(states: dict[str, FileState], *skills: int, kept: tuple[int, ...] = (), **rule: int) -> int:
        context = SimpleNamespace(content=ContentOverlay(cast(Any, Files(states, list(skills)))), order=[], at=0)
        return Restoration(**rule).estimate(cast(Any, context), kept=kept)

    def state(tokens: int, message: int = 1, *, lines: int = 0, is_written: bool = False) -> FileState:
        return FileState(4 * tokens, lines, message, is_written)

    assert tokens_of({}) == Restoration().estimate(cast(Any, SimpleNamespace(content=None, order=[], at=0))) == 0
    assert tokens_of({"a": state(100, lines=10)}) == 100 + 6 * 10 // 4 + 55
    assert tokens_of({"a": state(4_250)}) == 4_250 + 55 and tokens_of({"a": state(5_750)}) == 62
    assert tokens_of({"a": state(5_000)}) == round((5_055 + 62) / 2), "it may be above the limit or below"
    assert tokens_of({"a": state(100)}, file_tokens=50) == 62 and tokens_of({"a": state(100)}, files=0) == 0
    assert tokens_of({"CLAUDE.md": state(100, is_written=True), "/p/AGENTS.md": state(100)}) == 0
    assert tokens_of({"a": state(100, 3)}, kept=(3,)) == 0, "it stands in a message that stays"
    later = {f"f{number}": state(100 * number, number) for number in range(1, 7)}
    assert tokens_of(later) == sum(100 * number + 55 for number in range(2, 7))
    later["f1"] = state(100, is_written=True)  # written ones come first
    assert tokens_of(later) == sum(100 * number + 55 for number in (1, 3, 4, 5, 6))
    assert tokens_of(later | {"/u/.claude/plans/a.md": state(700, 9)}) == tokens_of(later) + 755, "the plan besides"
    assert tokens_of({}, 400, 40_000) == 100 + 5_000 and tokens_of({}, *[40_000] * 9) == 25_000


def test_names_of_injected_texts() -> None:
    texts = "# claudeMd\nContents of /p/CLAUDE.md (project):\nRules.\ngitStatus: clean\nToday's date is 2026-01-01."
    names = [(name, part.partition("\n")[0]) for name, part in split_text(texts)]
    assert names == [
        ("/p/CLAUDE.md", "# claudeMd"),
        ("git status", "gitStatus: clean"),
        ("date", "Today's date is 2026-01-01."),
    ]
    assert [*split_text("no section")] == [("no section", "no section")]
    assert name_text("<system-reminder>x") == "reminder" and name_text("<env>\nx") == "environment"
    assert name_text("intro\n# Environment") == "intro" and name_text("## A head\nmore") == "A head"
    assert len(name_text("word " * 40)) <= 48
    assert is_tagged(" <note>x</note>") and not is_tagged("<note>x") and not is_tagged("a <b></b>")
    assert name_text(f"<mail>{'x' * 1_990}\ngitStatus: late") == "mail"


def test_summaries_are_recognised_where_they_can_be() -> None:
    claude, sdk = "This session is being continued from a previous conversation.", "[Previous conversation summary]\nx"
    places = [(first_block, first_message) for first_block in (True, False) for first_message in (True, False)]
    assert [
        is_summary_start(words, by_assistant=False, first_block=block, first_message=message)
        for words in (claude, sdk)
        for block, message in places
    ] == [True, False, False, False, True, True, False, False]
    defect = "[Compacted context summary — earlier conversation was condensed to save context.]\nx"
    assert is_summary_start(defect, by_assistant=True, first_block=False, first_message=False)
    assert not is_summary_start(defect, by_assistant=False, first_block=True, first_message=True)
    assert strip_summary_marker(f"{sdk}\n[End of summary — conversation continues below]") == "x"
    assert strip_summary_marker(defect) == "x" and strip_summary_marker(claude) == claude


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ("text", "messages: a value of type str"),
        ([1], "message 0: a value of type int"),
        ([{"role": "user", "content": "a"}, {"role": "tool"}], "message 1: its role is 'tool'"),
        ([{"content": "a"}], "its role is missing"),
        ([{"role": "user", "content": 7}], "its content is a value of type int"),
        ([{"role": "user", "content": [text("a"), "b"]}], "block 1: a value of type str"),
        ([{"role": "user", "content": [{"type": 7}]}], "block 0: its type is a value of type int"),
        ([{"role": "user", "content": [{"type": "tool_use", "id": 7}]}], "its id is a value of type int"),
        ([{"role": "user", "content": "a", "x": 10**4_000}], "an integer of over 4,000 digits"),
        ([{"role": "user", "content": "a", "x": {1: 2}}], "a key that is not a string"),
        ([{"role": "user", "content": "a", "x": [b""]}], "a value of type bytes, which JSON cannot hold"),
    ],
)
def test_messages_that_are_refused(messages: Any, words: str) -> None:
    with pytest.raises(UnreadableSession, match=words):
        validate_messages(messages)


def test_messages_at_the_limits_are_accepted() -> None:
    nest: Any = 1
    for _ in range(200):
        nest = [nest]
    message = {"role": "user", "content": None, "x": [10**4_000 - 1, -1.5, True, nest[0]]}
    assert validate_messages(iter([message])) == [message]
    with pytest.raises(UnreadableSession, match="deeper than 200 levels"):
        validate_messages([{**message, "x": [[nest]]}])


def test_scales_of_parameters() -> None:
    tokens = build_scale(0, 1_000_000, 512, 40_000, "tokens")
    assert tokens.log and tokens.round_values[:5] == (0, 1, 2, 3, 4) and tokens.track_end == 49_152
    assert tokens.step_value(512, 1) == 768 and tokens.step_value(512, -1) == 384 and tokens.step_value(513, -1) == 512
    assert tokens.step_value(512, 0) == 512 and tokens.step_value(49_152, 1) == 49_152
    assert tokens.compute_share(0) == 0.0 and tokens.compute_share(49_152) == tokens.compute_share(10**6) == 1.0
    assert tokens.find_value(0.0) == 0 and tokens.find_value(1.0) == 49_152
    assert [tokens.find_value(tokens.compute_share(each)) for each in (96, 512, 24_576)] == [96, 512, 24_576]
    count = build_scale(1, 1_000, 3, 10, "turns")
    assert not count.log and count.sample_values(20) == [*range(1, 11)] and count.sample_values(4) == [1, 4, 7, 10]
    assert build_scale(1, 1_000, 3, 41, "turns").log is False and build_scale(1, 1_000, 3, 42, "turns").log is True
    ratio = build_scale(0.01, 1.0, 0.6, 1, "of window")
    assert ratio.step == 0.01 and ratio.clamp(0.004) == 0.01 and ratio.clamp(3) == 1.0
    assert ratio.step_value(0.6, 2) == 0.62 and ratio.find_value(0.5) == 0.5
    assert compute_round_values(0, 20, None) == (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
    assert compute_round_values(0, 300, 64) == (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 300)
    assert compute_round_values(0, 70, 63)[-2:] == (63, 70)
    assert compute_round_values(0, 60, 7, seconds=True) == (0, 1, 2, 5, 7, 10, 15, 20, 30, 45, 60)


def test_numbers_that_are_typed() -> None:
    assert [parse_number(typed, 0, 10**7) for typed in ("1,500", "1.5k", "2m", "1_0", " 7 ")] == [
        1_500,
        1_500,
        2_000_000,
        10,
        7,
    ]
    assert parse_number("60%", 0.0, 1.0) == 0.6 and parse_number("60%", 0, 100) == 60
    assert (
        parse_number("0", 0, 5) == 0 and parse_number("5", 0, 5) == 5 and parse_number("", 0, 5, optional=True) is None
    )
    for typed, words in {
        "6": "at most 5",
        "-1": "at least 0",
        "1.5": "whole",
        "x": "not a number",
        "1" * 31: "not a",
    }.items():
        with pytest.raises(ValueError, match=words):
            parse_number(typed, 0, 5)
    assert parse_number("0" * 29 + "4", 0, 5) == 4
    assert [format_number(value) for value in (1_234, 0.5, 0.1234)] == ["1,234", "0.50", "0.1234"]


@pytest.mark.parametrize("size", COMMON_WINDOWS[5:])
def test_a_window_is_the_smallest_that_the_largest_request_fits_in(tmp_path: Path, size: int) -> None:
    def find_window(tokens: int) -> int:
        recording = Recording()
        recording.user()
        recording.assistant(text("done"), use=usage(tokens), model="gpt-4o")
        return recording.open(tmp_path).window.tokens

    assert find_window(size - 1) == find_window(size) == size and find_window(size + 1) > size


def test_a_long_number_is_one_up_to_the_length_of_a_name() -> None:
    digits = "1234567890123456789" * 5
    assert is_number(digits[:80]) and not is_number(digits[:81])
    assert not is_number("12") and is_number("98765432")


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_a_cut_keeps_the_characters_that_fit_and_puts_marks_for_the_bytes_of_others(character: str) -> None:
    size = len(character.encode())
    content = "".join((character, character, "middle", character, character))
    for bytes_kept in range(2 * size + 1):
        complete, partial = divmod(bytes_kept, size)
        cut = Truncate(head=bytes_kept, tail=bytes_kept, middle="|")
        assert (
            truncate_text(cut, content)
            == f"{character * complete}{'?' * partial}|{'?' * partial}{character * complete}"
        )


@pytest.mark.parametrize("unit", ["tokens", "seconds", "messages", "%"])
def test_a_slider_beyond_its_ends_is_at_its_ends(unit: str) -> None:
    scale = build_scale(10, 5_000, 300, 900, unit)
    assert scale.find_value(-0.5) == scale.find_value(0.0) == 10
    assert scale.find_value(1.5) == scale.find_value(1.0) == scale.track_end


def test_a_mark_without_a_block_is_of_the_first_one() -> None:
    params = build_params(find_policy("manual"), {"clear": "2,3:1"})
    assert params.model_dump()["clear"] == ((2, 0), (3, 1))


def test_whole_numbers_stay_whole_and_shares_are_fractions() -> None:
    for policy in POLICIES.values():
        for parameter in list_parameters(policy):
            if parameter.kind == "number" and (parameter.low or 0) <= 1 <= (parameter.high or 1):
                [value] = parse_values(parameter, "1")
                assert type(value) is (float if parameter.ratio else int), f"{policy.name}.{parameter.label}"


def test_blocks_before_a_message_without_any_are_all_of_them() -> None:
    facts = Facts()
    for count in (2, 0, 3, 0):
        message = facts.add_message(Role.USER)
        for _ in range(count):
            facts.add_block(message, text("a"))
    assert [count_blocks_before(facts, message) for message in range(4)] == [0, 5, 2, 5]
    assert {*facts.time} == {-1}, "unknown"


def test_the_newest_prompt_counts_unless_a_message_before_it_is_named() -> None:
    facts = Facts()
    for size in (40, 4_000):
        set_system(facts, [PromptPart("system", size, "x" * size)])
        facts.add_message(Role.USER)
        facts.add_request(facts.add_message(Role.ASSISTANT), Usage(10), 0)
    assert estimate_prompt(facts) == estimate_prompt(facts, 4) == 1_000 and estimate_prompt(facts, 1) == 10


def test_round_times_are_quarters_of_a_minute() -> None:
    values = compute_round_values(0, 86_400, None, seconds=True)
    assert [value for value in values if value > 20 and value % 15] == [] and 900 in values and 3_600 in values


def test_a_search_for_drops_is_current_until_a_size_is_revised() -> None:
    facts = Facts()
    facts.add_message(Role.USER)
    usage_recorded = Usage(10)
    facts.add_request(facts.add_message(Role.ASSISTANT), usage_recorded, 0)
    find_drops(facts)
    facts.peak_search.update(facts)
    searches = facts.drop_search, facts.peak_search
    assert all(search.is_current(facts) for search in searches)
    facts.revise_request(usage_recorded, Usage(5_000, output=9))
    assert not any(search.is_current(facts) for search in searches) and usage_recorded.context == 5_000
    assert not any(search.is_current(Facts()) for search in searches), "there are fewer requests"


def test_an_image_in_a_result_counts_beside_its_text() -> None:
    facts = Facts()
    message = facts.add_message(Role.USER)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "abcd"}}
    rows = [
        facts.add_block(message, {"type": "tool_result", "tool_use_id": name, "content": [text("x" * 40), *images]})
        for name, images in (("a", []), ("b", [image]))
    ]
    assert [count_result_by_characters(facts, row) for row in rows] == [10, 2_010]


def test_a_placeholder_for_the_output_counts_as_none() -> None:
    facts = Facts()
    for trusted in (True, False):
        message = facts.add_message(Role.ASSISTANT)
        facts.add_request(message, Usage(10, output=7, output_trusted=trusted), 0)
    assert [count_output_tokens(facts, row) for row in range(2)] == [7, 0]


def test_a_line_of_up_to_400_characters_is_looked_for() -> None:
    line = "total = sum(each.size for each in self.parts_of_it) + " * 8
    assert find_lines(line[:399] + "x") == [line[:399] + "x"] and find_lines(line[:400] + "x") == []


def test_other_windows_are_others(tmp_path: Path) -> None:
    recording = Recording()
    recording.user()
    recording.assistant(text("done"), use=usage(1_000), model="claude-sonnet-4-5")
    window = recording.open(tmp_path).window
    assert window.tokens == 200_000 and window.alternatives == (1_000_000,)


def test_a_path_with_one_more_argument_can_name_lines() -> None:
    facts = Facts()
    message = facts.add_message(Role.ASSISTANT)
    arguments = {"file_path": "/a.py"}, {"file_path": "/a.py", "offset": 7}, {"file_path": "/a.py", "encoding": "utf-8"}
    rows = [
        facts.add_block(message, {"type": "tool_use", "id": f"c{number}", "name": "Read", "input": each})
        for number, each in enumerate(arguments)
    ]
    assert [facts.read_range.get(row) for row in rows] == [None, (7, 0), None]
