"""Prices at the cache: what calls read, what a firing costs against the formula and a brute-force sum, what follows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.lab.price.cache import (
    CLOCK_TOLERANCE_MS,
    LOOKBACK,
    CacheRequest,
    CacheUsage,
    PromptCache,
)
from context_tui.lab.price.cache_requests import (
    NOTHING_CHANGED,
    PriceModel,
    build_price_model,
    reconstruct_recorded_calls,
)
from context_tui.lab.price.pricing import ReplayPrice
from context_tui.lab.price.pricing import price_replay as price_of
from context_tui.lab.price.rates import (
    DEFAULT_RATES_WITH_WRITE_FEE,
    FIVE_MINUTES,
    ONE_HOUR,
    _load_price_table,
    build_rate_table,
    find_rates,
)
from context_tui.lab.price.report import (
    build_advice,
    compute_break_even_clearing,
    format_firing_price,
    format_price_reuse,
    format_savings,
)
from context_tui.lab.replay.result import CacheCut, Firing, ModelCall, Replay
from context_tui.lab.study import Lab
from context_tui.policies.parameter_space import build_params
from context_tui.policies.registry import POLICIES
from context_tui.session.facts import Usage
from context_tui.session.session import Session
from context_tui.text.numbers import format_cost
from tests.formats.recordings import Recording, call, conversations, result, text, thinking, usage

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "claude-code"
ANY_PLAN: Any = None


def price(replay: Replay, **given: Any) -> ReplayPrice:
    """The price in a cache that is read up to the first change, as the formulas have it."""
    return price_of(replay, **{"reuse": "anywhere"} | given)


def compute_cache_usage(requests: Iterable[CacheRequest]) -> list[CacheUsage]:
    """The usage of each call, in order."""
    cache, usages, reply_tokens = PromptCache(), list[CacheUsage](), 0
    for each in requests:
        cache.append_reply(reply_tokens)
        usages.append(cache.update(each))
        reply_tokens = each.cached_reply_tokens
    return usages


# -- prices


@pytest.mark.parametrize(
    ("name", "prices"),
    [
        ("claude-opus-4-5-20251101", (5, 6.25, 10, 0.5, 25)),
        ("claude-opus-4-20250514", (15, 18.75, 30, 1.5, 75)),
        ("anthropic/claude-opus-4.8", (5, 6.25, 10, 0.5, 25)),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", (1, 1.25, 2, 0.1, 5)),
        ("claude-fable-5[1m]", (10, 12.5, 20, 1, 50)),
        ("gpt-5-codex", (1.25, 1.25, 1.25, 0.125, 10)),
    ],
)
def test_a_model_is_found_by_its_name(name: str, prices: tuple[float, ...]) -> None:
    rates = find_rates(name)
    assert rates is not None and rates.unit == "USD" and rates.date >= "2026" and rates.source.startswith("https://")
    found = (rates.input, rates.write_5m, rates.write_1h, rates.read, rates.output)
    assert [each * 1e6 for each in found] == pytest.approx(prices)


@pytest.mark.parametrize("name", ["claude-opus-4-9", "gpt-5.3-codex-spark", "gpt-5-turbo", "sonnet", "", None])
def test_another_model_is_not_priced_like_its_neighbour(name: str | None) -> None:
    assert find_rates(name) is None


def test_one_unknown_price_makes_all_costs_multiples_of_an_input_token() -> None:
    known = build_rate_table(["claude-opus-5", "claude-haiku-4-5"], has_write_fee=True)
    assert known.unit == "USD" and "2026-10-24" in known.note
    mixed = build_rate_table(["claude-opus-5", "strange-1"], has_write_fee=True)
    assert mixed.unit == "input tokens" and mixed.unpriced_models == ("strange-1",) and "strange-1" in mixed.note
    assert mixed.get_rates("claude-opus-5") == mixed.get_rates("strange-1") == DEFAULT_RATES_WITH_WRITE_FEE
    assert build_rate_table(["strange-1"], has_write_fee=False).get_rates("strange-1").get_write_rate(ONE_HOUR) == 1.0


def test_every_price_has_a_source_and_a_date_and_reading_is_cheapest() -> None:
    for name, rates in _load_price_table().items():
        assert rates.source.startswith("https://") and len(rates.date) == 10, name
        assert 0 < rates.read < rates.input <= rates.write_5m <= rates.write_1h < rates.output, name


def test_a_long_prompt_has_its_own_price() -> None:
    rates = find_rates("claude-haiku-5-5")
    assert rates is not None and rates.select_for_prompt(100_000) is rates
    assert rates.select_for_prompt(100_001).read == pytest.approx(5 * rates.read)


# -- the cache


def test_what_the_last_call_held_is_read_until_its_time_has_passed() -> None:
    first = CacheRequest(100, 0, tail=5, sent_at=0, ended_at=10)
    again = CacheRequest(150, NOTHING_CHANGED, tail=5, sent_at=10 + FIVE_MINUTES, ended_at=10 + FIVE_MINUTES)
    assert compute_cache_usage([first, again]) == [
        CacheUsage(0, 95, 5, FIVE_MINUTES),
        CacheUsage(95, 50, 5, FIVE_MINUTES),
    ]
    late = again._replace(sent_at=again.sent_at + 60_000)
    assert compute_cache_usage([first, late])[1].read == 0
    assert compute_cache_usage([first._replace(ttl_ms=ONE_HOUR), late])[1].read == 95
    third = CacheRequest(170, NOTHING_CHANGED, sent_at=2 * FIVE_MINUTES, ended_at=2 * FIVE_MINUTES)
    assert compute_cache_usage([first, again, third])[2].read == 145
    back = third._replace(unchanged_prefix=120)  # reading an entry begins its time anew
    assert compute_cache_usage([first, again, back])[2].read == 95


def test_an_entry_lives_for_its_time_and_the_grace_of_the_clocks_and_no_millisecond_longer() -> None:
    first = CacheRequest(100, 0, sent_at=0, ended_at=10)
    last = first.ended_at + FIVE_MINUTES + CLOCK_TOLERANCE_MS
    for sent, read, late in ((last, 100, False), (last + 1, 0, True)):
        again = CacheRequest(120, NOTHING_CHANGED, sent_at=sent, ended_at=sent)
        assert compute_cache_usage([first, again])[1].read == read
        assert again.is_expired_after(first) is late
    assert not CacheRequest(120, 0, sent_at=-1, ended_at=-1).is_expired_after(first), (
        "a call without a time is never late"
    )


def test_an_entry_is_found_as_far_back_as_a_provider_looks_and_no_block_farther() -> None:
    calls = [CacheRequest(100, 0, key="a"), CacheRequest(120, NOTHING_CHANGED, key="b", new_blocks=5)]
    for blocks, read in ((LOOKBACK - 5, 100), (LOOKBACK - 4, 0)):
        assert (
            compute_cache_usage([*calls, CacheRequest(130, NOTHING_CHANGED, key="a", new_blocks=blocks)])[2].read
            == read
        )


def test_an_entry_that_ends_where_a_prompt_changed_is_still_read() -> None:
    for kept, read in ((100, 100), (99, 0)):
        assert (
            compute_cache_usage([CacheRequest(100, 0), CacheRequest(150, NOTHING_CHANGED), CacheRequest(160, kept)])[
                2
            ].read
            == read
        )


def test_what_a_prompt_was_cut_down_to_is_not_read_as_what_it_was() -> None:
    cut = CacheRequest(40, 40, anywhere=True)
    assert [
        each.read for each in compute_cache_usage([CacheRequest(100, 0), cut, CacheRequest(90, NOTHING_CHANGED)])
    ] == [0, 40, 40]


def test_another_model_reads_nothing_and_the_first_finds_its_own_entry_again() -> None:
    calls = [
        CacheRequest(100, 0, key="a"),
        CacheRequest(120, NOTHING_CHANGED, key="b"),
        CacheRequest(130, NOTHING_CHANGED, key="a", new_blocks=3),
    ]
    assert [each.read for each in compute_cache_usage(calls)] == [0, 0, 100]
    far = [*calls[:2], calls[2]._replace(new_blocks=LOOKBACK + 1)]
    assert compute_cache_usage(far)[2].read == 0
    near = [calls[0], CacheRequest(130, NOTHING_CHANGED, key="a", new_blocks=LOOKBACK + 1)]
    assert compute_cache_usage(near)[1].read == 100  # the call before is found however much came since


def test_a_change_leaves_what_is_before_it_or_the_last_entry_before_it() -> None:
    calls = [CacheRequest(size, NOTHING_CHANGED if size > 100 else 0, new_blocks=2) for size in (100, 150, 200)]
    changed = CacheRequest(190, 170, floor=30)
    assert compute_cache_usage([*calls, changed])[3].read == 150
    assert compute_cache_usage([*calls, changed._replace(anywhere=True)])[3].read == 170
    assert compute_cache_usage([*calls, changed._replace(unchanged_prefix=90)])[3].read == 30
    assert (
        compute_cache_usage(
            [*calls, changed._replace(unchanged_prefix=NOTHING_CHANGED, miss_reason="the provider says so")]
        )[3].read
        == 30
    )


def test_a_reply_that_another_request_cached_is_read() -> None:
    assert compute_cache_usage([CacheRequest(100, 0, cached_reply_tokens=40), CacheRequest(160, NOTHING_CHANGED)])[
        1
    ] == CacheUsage(140, 20, 0, FIVE_MINUTES)


@given(
    st.lists(
        st.builds(
            CacheRequest,
            size=st.integers(0, 999),
            unchanged_prefix=st.integers(0, 999) | st.just(NOTHING_CHANGED),
            tail=st.integers(0, 20),
            sent_at=st.integers(-1, 10**6),
            ended_at=st.integers(-1, 10**6),
            ttl_ms=st.sampled_from([0, FIVE_MINUTES, ONE_HOUR]),
            new_blocks=st.integers(0, 9),
            floor=st.integers(0, 99),
            key=st.sampled_from("ab"),
            cached_reply_tokens=st.just(0),
            miss_reason=st.sampled_from([None, "lost"]),
            recorded_read=st.none(),
            anywhere=st.booleans(),
        )
    ),
    st.integers(0, 9),
)
def test_every_token_is_read_written_or_sent_anew_and_a_copy_goes_on_alike(calls: list[CacheRequest], at: int) -> None:
    cache, found = PromptCache(), list[CacheUsage]()
    for number, each in enumerate(calls):
        if number == at:
            cache = cache.copy()
        found.append(cache.update(each))
    assert found == compute_cache_usage(calls)
    assert all(each.size == sent.size and min(each[:3]) >= 0 for each, sent in zip(found, calls, strict=True))


# -- the recording


def steps(made: Recording, count: int, size: int, floor: int = 0, **fields: Any) -> int:
    """So many calls, each of which reads what the one before held; returns the size of the context after them."""
    for number in range(count):
        read = size if number or not floor else floor
        grown = size + 400
        made.assistant(call(f"c{made.count}", "Bash"), use=usage(10, read, grown - read - 10), **fields)
        made.results(result(f"c{made.count - 1}", "x" * 900))
        size = grown - 10
    return size


def model_of(made: Recording, folder: Path) -> PriceModel:
    return build_price_model(made.open(folder))


def test_a_recording_without_breaks_is_predicted_to_the_token(tmp_path: Path) -> None:
    made = Recording()
    made.user("go")
    made.assistant(call("c0", "Bash"), use=usage(10, 0, 30_000))
    made.results(result("c0", "x"))
    steps(made, 9, 30_000)
    found = model_of(made, tmp_path)
    assert found.read_predicted == found.read_recorded > 0 and found.error == found.off == 0.0
    assert found.written_predicted == found.written_recorded and found.cost_predicted == found.cost_recorded
    assert found.unexplained == () and found.broken == {} and found.unit == "USD"


def after(made: Recording, folder: Path, read: int, written: int, *blocks: Any, **fields: Any) -> PriceModel:
    """The model of a recording, after one more call that read and wrote so much."""
    made.assistant(*(blocks or [text("done")]), use=usage(10, read, written), **fields)
    return model_of(made, folder)


def begun(first: int = 20_000) -> Recording:
    """A recording whose first call read *first* tokens of what others had cached, in a context of about 32,000."""
    made = Recording()
    made.user("go")
    made.assistant(call("c0", "Bash"), use=usage(10, first, 30_000 - first))
    made.results(result("c0", "x"))
    steps(made, 5, 30_000)
    return made


def test_after_a_compaction_the_system_prompt_is_read(tmp_path: Path) -> None:
    made = begun()
    made.boundary(32_000)
    made.summary()
    found = after(made, tmp_path, 20_000, 4_000)
    assert found.broken == {"the context began anew": 1}
    assert [miss.message for miss in found.unexplained] == [1]  # what others had cached cannot be known
    assert "another session" in found.unexplained[0].guess


def test_after_its_time_what_other_sessions_keep_is_read(tmp_path: Path) -> None:
    made = begun()
    made.user("later", timestamp="2026-01-01T00:09:00.000Z")
    found = after(made, tmp_path, 20_000, 12_500, timestamp="2026-01-01T00:09:05.000Z")
    assert found.broken == {"its time had passed": 1} and len(found.unexplained) == 1


def test_a_miss_that_the_file_says_nothing_of_is_listed(tmp_path: Path) -> None:
    found = after(begun(), tmp_path, 20_000, 12_500)
    [_, miss] = found.unexplained
    assert miss.predicted > 31_000 and miss.recorded == 20_000 and "lost before it expired" in miss.guess
    assert found.error == pytest.approx(abs(miss.predicted - 20_000 - 20_000) / found.read_recorded)
    assert found.off == pytest.approx((miss.predicted - 20_000 + 20_000) / found.read_recorded)


def test_the_providers_word_on_a_miss_is_taken(tmp_path: Path) -> None:
    made = begun()
    message = {
        "id": "last",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [text("done")],
        "usage": usage(10, 20_000, 12_500),
        "diagnostics": {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 9}},
    }
    made.add("assistant", message=message)
    session = made.open(tmp_path)
    assert session.facts.cache_misses == {len(session) - 1: "system_changed"}
    found = build_price_model(session)
    assert found.broken == {"the system prompt changed": 1} and len(found.unexplained) == 1
    message["diagnostics"] = {"cache_miss_reason": {"type": 5}}
    made.add("assistant", message=message | {"id": "other"})
    assert len(made.open(tmp_path).facts.cache_misses) == 1


def test_the_slow_reader_finds_the_same_word(tmp_path: Path) -> None:
    reason = {"cache_miss_reason": {"type": "messages_changed"}}
    message = {"id": "m", "role": "assistant", "model": "x", "content": [text("a")], "diagnostics": reason}
    made = Recording()
    made.user("go")
    made.add("assistant", message=message | {"usage": usage(5, 6, 7)}, isApiErrorMessage=False)
    assert made.open(tmp_path).facts.cache_misses == {1: "messages_changed"}


def test_thinking_that_is_switched_on_has_a_cache_of_its_own(tmp_path: Path) -> None:
    made = begun()
    made.user("think hard")
    made.assistant(thinking("hm", "s" * 40), text("done"), use=usage(18, 20_000, 12_400))
    found = model_of(made, tmp_path)
    assert found.broken == {"thinking was switched on": 1} and len(found.unexplained) == 1


# -- firings


def session_of(sizes: Sequence[int], model: str, hour: bool | None) -> Session:
    """A session with a call for each of *sizes*, a second apart; *hour*: None writes nothing to a cache."""
    session = ct.from_messages(
        [{"role": role, "content": role * 9} for _ in sizes for role in ("user", "assistant")],
    )
    facts, before = session.facts, 0
    facts.model = model
    for number, size in enumerate(sizes):
        message, written = 2 * number + 1, size - before
        facts.time[message - 1] = facts.time[message] = facts.end_time[message] = 1_000 * number
        if hour is None:
            facts.add_request(message, Usage(written, before), 1_000 * number)
        else:
            facts.add_request(message, Usage(0, before, 0 if hour else written, written if hour else 0), 1_000 * number)
        before = size
    return session


def fired(
    sizes: Sequence[int],
    cuts: dict[int, tuple[int, CacheCut]],
    *,
    model: str = "claude-opus-4-5",
    hour: bool | None = False,
    idle: dict[int, int] | None = None,
) -> Replay:
    """A replay in which so many tokens went before some calls; *idle*: seconds that passed before others."""
    session = session_of(sizes, model, hour)
    late = list(accumulate((idle or {}).get(number, 0) * 1_000 for number in range(len(sizes))))
    facts = session.facts
    for number, more in enumerate(late):
        for message in (2 * number, 2 * number + 1):
            facts.time[message] += more
            facts.end_time[message] += more
        facts.request_time[number] += more
        if 1_000 * (idle or {}).get(number, 0) > (ONE_HOUR if hour else FIVE_MINUTES):
            again = facts.requests[number].context
            facts.requests[number] = Usage(0, 0, 0 if hour else again, again if hour else 0)
    gone, found, kept, firings = 0, list[int](), [0], list[Firing]()
    for number, size in enumerate(sizes):
        before = size - gone
        if number in cuts:
            less, cut = cuts[number]
            gone += less
            firings.append(
                Firing(number, 2 * number, 2 * number, "p", ANY_PLAN, before, size - gone, cut, 1, 0, 0, 0, 0, "")
            )
            kept.append(cut.unchanged_prefix)
        elif number:
            kept.append(min(found[-1], size - gone))
        found.append(size - gone)
    calls = [ModelCall(2 * number + 1, number) for number in range(len(sizes))]
    windows = [200_000] * len(sizes)
    return Replay(session, "p", None, "keep", calls, found, list(sizes), kept, firings, {}, {}, windows)


def same_size(count: int, size: int) -> list[int]:
    return [size] * count


@pytest.mark.parametrize(
    ("behind", "less", "hour", "model", "calls"),
    [
        (40_000, 40_000, False, "claude-opus-4-5", 11.5),
        (40_000, 40_000, True, "claude-opus-4-5", 19),
        (40_000, 40_000, None, "gpt-5", 9),
        (80_000, 20_000, False, "claude-opus-4-5", 46),
        (80_000, 20_000, True, "claude-opus-4-5", 76),
        (80_000, 20_000, None, "gpt-5", 36),
        (20_000, 80_000, False, "unknown", 2.875),
        (20_000, 80_000, True, "unknown", 4.75),
        (40_000, 40_000, None, "gpt-4o", 1),
    ],
)
def test_calls_until_a_clearing_pays(behind: int, less: int, hour: bool | None, model: str, calls: float) -> None:
    """The worked examples of the formula ``(w - r) / r * S / C``."""
    kept = 20_000
    sizes = same_size(60, kept + behind + less)
    [found] = price(fired(sizes, {10: (less, CacheCut(kept))}, model=model, hour=hour)).firings
    assert (found.cleared, found.behind, found.rewritten, found.cold) == (less, behind, behind, False)
    assert found.break_even == pytest.approx(calls)
    assert found.calls_left == 50 and found.verdict == ("pays" if calls <= 50 else "does not pay")


@pytest.mark.parametrize(("shares", "calls"), [(False, 12.1), (True, 2.9)])
def test_calls_until_a_summary_pays(shares: bool, calls: float) -> None:
    """The worked example with H = 150k, a summary of 3k and a tail of 8k, with and without the prefix shared."""
    head, summary, tail = 150_000, 3_000, 8_000
    run = fired(same_size(40, head + tail), {5: (head - summary, CacheCut(0, head, summary))})
    [found] = price(run, shares_prefix=shares).firings
    assert found.behind == summary + tail == found.rewritten
    assert found.break_even == pytest.approx(calls, abs=0.05)
    assert found.summarizer == pytest.approx((head * (0.5 if shares else 5) + summary * 25) / 1e6)


def brute_force(priced: ReplayPrice) -> list[float]:
    """After each call from the first firing on, what was paid more than without the policy."""
    [first, *_] = priced.firings
    more = [a - b for a, b in zip(priced.costs[first.call :], priced.baseline_costs[first.call :], strict=True)]
    more[0] += first.summarizer
    return list(accumulate(more))


@settings(deadline=None)
@given(
    st.integers(1, 60_000),
    st.integers(0, 60_000),
    st.integers(1, 30_000),
    st.lists(st.integers(0, 3_000), min_size=2, max_size=40),
    st.sampled_from([(False, "claude-opus-4-5"), (True, "claude-opus-4-5"), (None, "gpt-5"), (False, "unknown")]),
    st.integers(0, 5_000),
    st.booleans(),
)
def test_the_formula_is_the_sum_over_all_calls(
    less: int, behind: int, kept: int, growth: list[int], how: tuple[bool | None, str], summary: int, shares: bool
) -> None:
    start = kept + behind + less
    sizes = list(accumulate([start, start * 0, *growth]))
    hour, model = how
    cut = CacheCut(kept, less if summary else 0, summary)
    priced = price(fired(sizes, {2: (less, cut)}, hour=hour, model=model), shares_prefix=shares)
    [found] = priced.firings
    sums = brute_force(priced)
    assert found.cost == pytest.approx(sums[-1]) and found.cost == pytest.approx(priced.cost - priced.baseline_cost)
    assert found.break_even is not None and found.calls_left == len(sums)
    for number, total in enumerate(sums, 1):
        if abs(number - found.break_even) > 1e-6:
            assert (total <= 1e-12) == (number >= found.break_even)
    write, read = priced.write_read_rates[0]
    exact = ((write - read) * behind + found.summarizer) / (read * less)
    assert found.break_even == pytest.approx(exact) and found.rewritten == found.behind == behind


def test_in_a_cold_cache_a_clearing_pays_at_once() -> None:
    sizes = same_size(12, 100_000)
    [found] = price(fired(sizes, {5: (20_000, CacheCut(20_000))}, idle={5: 400})).firings
    assert found.cold and found.rewritten == 0 and found.break_even == 0
    assert found.verdict == "pays only as the cache was cold"
    assert found.cost == pytest.approx(-(20_000 * 6.25 + 6 * 20_000 * 0.5) / 1e6)
    [warm] = price(fired(sizes, {5: (20_000, CacheCut(20_000))}, idle={5: 400}, hour=True)).firings
    assert not warm.cold and warm.verdict == "does not pay"
    [later] = price(fired(sizes, {5: (20_000, CacheCut(90_000 - 20_000))}, idle={9: 400})).firings
    assert not later.cold and later.verdict == "pays" and later.cost < 0


def test_a_firing_is_priced_to_the_end() -> None:
    """What it took stays away when the next one comes."""
    sizes = same_size(30, 100_000)
    both = price(fired(sizes, {5: (20_000, CacheCut(20_000)), 12: (10_000, CacheCut(20_000))}))
    alone = price(fired(sizes, {5: (20_000, CacheCut(20_000))}))
    [first, second], [single] = both.firings, alone.firings
    assert (first.next_change, second.next_change, single.next_change) == (7, None, None)
    assert (first.calls_left, second.calls_left, second.behind) == (25, 18, 50_000)
    assert first.cost == pytest.approx(single.cost) == pytest.approx((5.75 * 60_000 - 25 * 0.5 * 20_000) / 1e6)
    assert second.cost == pytest.approx((5.75 * 50_000 - 18 * 0.5 * 10_000) / 1e6)


def test_a_firing_is_priced_up_to_a_recorded_compaction(tmp_path: Path) -> None:
    made = begun()
    made.boundary(32_000)
    made.summary()
    steps(made, 4, 22_000, floor=20_000)
    session = made.open(tmp_path)
    facts = session.facts
    sizes = [each.context for each in facts.requests]
    gone = [size - 5_000 if 3 <= row < 6 else size for row, size in enumerate(sizes)]
    firing = Firing(3, 7, 7, "p", ANY_PLAN, sizes[3], gone[3], CacheCut(21_000), 1, 0, 0, 0, 0, "")
    calls = [ModelCall(message, row) for row, message in enumerate(facts.request_message)]
    kept, windows = [21_000] * len(calls), [200_000] * len(calls)
    [found] = price(Replay(session, "p", None, "keep", calls, gone, sizes, kept, [firing], {}, {}, windows)).firings
    assert found.calls_left == 3 and found.cost > 0


def test_firings_before_one_call_share_its_price() -> None:
    run = fired(same_size(30, 100_000), {5: (20_000, CacheCut(20_000))})
    [one] = run.firings
    twice = [Firing(*[*vars(one).values()]), Firing(*[*vars(one).values()])]
    object.__setattr__(twice[0], "after", 85_000)
    object.__setattr__(twice[1], "before", 85_000)
    parts = price(Replay(**{**vars(run), "firings": twice})).firings
    [whole] = price(run).firings
    assert [part.cleared for part in parts] == [15_000, 5_000]
    assert sum(part.cost for part in parts) == pytest.approx(whole.cost)
    assert {part.break_even for part in parts} == {whole.break_even}


def test_with_breakpoints_only_a_change_near_the_end_leaves_anything_to_read() -> None:
    run = fired(same_size(20, 100_000), {5: (20_000, CacheCut(30_000))})
    [anywhere], [marked] = price(run).firings, price_of(run).firings
    assert anywhere.rewritten == anywhere.behind == 50_000 and marked.rewritten == marked.behind == 80_000
    assert marked.break_even == 11.5 * 80_000 / 20_000
    near = fired([*range(50_000, 60_000, 1_000), *same_size(10, 60_000)], {10: (500, CacheCut(58_700))})
    assert [price_of(near).cache_usage[10].read, price(near).cache_usage[10].read] == [58_000, 58_700]


def test_a_cache_that_fills_itself_is_read_up_to_the_change() -> None:
    run = fired(same_size(20, 100_000), {5: (20_000, CacheCut(30_000))}, hour=None, model="gpt-5")
    assert price_of(run) == price(run) and price_of(run).reuse == "anywhere"
    words = "up to the first change, whatever is chosen: no cache writes are recorded, so the cache is automatic"
    assert format_price_reuse(price_of(run)).endswith(words)
    written = fired(same_size(20, 100_000), {5: (20_000, CacheCut(30_000))})
    assert price_of(written).reuse == "breakpoints" != price(written).reuse
    assert format_price_reuse(price(written)).endswith("the cache is read up to the first change")


def test_in_a_cold_cache_what_a_warm_one_had_to_write_is_told_all_the_same() -> None:
    cold = fired(same_size(12, 100_000), {5: (20_000, CacheCut(30_000))}, idle={5: 400})
    [anywhere], [marked] = price(cold).firings, price_of(cold).firings
    assert anywhere.cold and marked.cold and (anywhere.behind, marked.behind) == (50_000, 80_000)
    assert anywhere.rewritten == marked.rewritten == 0 and marked.verdict == "pays only as the cache was cold"


def prices(priced: ReplayPrice) -> float:
    return sum(firing.cost for firing in priced.firings) + priced.unattributed_cost


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 3_000), min_size=20, max_size=40),
    st.dictionaries(st.integers(1, 19), st.tuples(st.integers(1, 4_000), st.integers(0, 60_000)), max_size=5),
    st.dictionaries(st.integers(1, 19), st.integers(100, 5_000), max_size=3),
    st.sampled_from([(False, "claude-opus-4-5"), (True, "claude-haiku-5-5"), (None, "gpt-5")]),
    st.sampled_from(["breakpoints", "anywhere"]),
)
def test_what_firings_cost_adds_up_to_what_the_policy_does(
    growth: list[int],
    cuts: dict[int, tuple[int, int]],
    idle: dict[int, int],
    how: tuple[bool | None, str],
    reuse: Any,
) -> None:
    sizes = list(accumulate([90_000, *growth]))
    made = {at: (less, CacheCut(kept, 50_000, 1_000 * (less % 2))) for at, (less, kept) in sorted(cuts.items())}
    priced = price_of(fired(sizes, made, hour=how[0], model=how[1], idle=idle), reuse=reuse)
    assert prices(priced) == pytest.approx(priced.cost - priced.baseline_cost, abs=1e-9)
    assert priced.unattributed_cost == 0 and [firing.calls_left for firing in priced.firings] == [
        len(sizes) - at for at in made
    ]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 18), st.integers(1, 18), st.lists(st.integers(0, 2_000), min_size=20, max_size=30))
def test_a_firing_costs_what_the_run_up_to_it_costs_more_than_the_run_before_it(
    one: int, more: int, growth: list[int]
) -> None:
    """In a warm cache: the policy with the first firing alone, and with both."""
    sizes = list(accumulate([60_000, *growth]))
    first, second = (one, (9_000, CacheCut(20_000))), (one + more, (5_000, CacheCut(25_000, 30_000, 2_000)))
    alone, both = (price_of(fired(sizes, dict(each))) for each in ([first], [first, second][: 1 + (one + more < 20)]))
    assert [firing.cost for firing in both.firings] == pytest.approx(
        [alone.cost - alone.baseline_cost, *[both.cost - alone.cost] * (len(both.firings) - 1)]
    )


@settings(max_examples=30, deadline=None)
@given(conversations(), st.booleans())
def test_without_a_firing_nothing_costs_more_or_less(made: Recording, undone: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        session = made.open(Path(folder))
        found = reconstruct_recorded_calls(session)
        facts = session.facts
        calls = [ModelCall(message, row) for row, message in enumerate(facts.request_message)]
        sizes = [each.context for each in facts.requests]
        kept, windows = [0] * len(calls), [200_000] * len(calls)
        mode: Any = "ignore" if undone else "keep"
        run = Replay(session, "none", None, mode, calls, sizes, sizes, kept, [], {}, {}, windows)
        priced = price(run, recorded=found)
        assert list(priced.cache_usage) == list(priced.baseline_usage) and priced.cost == priced.baseline_cost
        assert [each.size for each in priced.cache_usage] == sizes and not build_advice(priced)


# -- what recordings do besides


def test_results_that_come_one_after_the_other_say_nothing_of_when_they_were_sent(tmp_path: Path) -> None:
    made = begun()
    made.assistant(call("a", "Bash"), call("b", "Bash"), use=usage(10, 31_950, 390))
    made.results(result("a", "x"))
    made.results(result("b", "x"), timestamp="2026-01-01T00:30:00.000Z")
    found = after(made, tmp_path, 20_000, 12_500, timestamp="2026-01-01T00:30:05.000Z")
    assert found.broken == {"its time had passed": 1}


def test_a_reply_that_another_request_caches_is_expected_from_then_on(tmp_path: Path) -> None:
    made, size = begun(), 31_950
    for turn in range(3):
        made.assistant(text("done"), use=usage(10, size, 1_990, 2_500), stop_reason="end_turn")
        size += 1_990 + (2_500 if turn < 2 else 0)
        made.user(f"turn {turn}")
    found = after(made, tmp_path, size, 4_000)
    assert [miss.guess for miss in found.unexplained[1:2]] == [
        "another request had cached the newer messages, such as the reply"
    ]
    assert [(miss.predicted - miss.recorded, miss.guess) for miss in found.unexplained[2:]] == [
        (2_500, "the previous reply was not cached, unlike at other calls")
    ]


def test_a_smaller_prompt_at_a_turn_has_lost_the_thinking_of_the_turn_before(tmp_path: Path) -> None:
    made = begun()
    made.user("second turn")
    made.assistant(call("p", "Bash"), use=usage(10, 31_950, 2_000))
    made.results(result("p", "x"))
    made.assistant(thinking("hm", "s" * 40), call("q", "Bash"), use=usage(10, 33_950, 2_000))
    made.results(result("q", "x"))
    made.user("third turn")
    found = after(made, tmp_path, 35_950 - 2_000, 1_000)
    assert found.broken == {"thinking of the turn before was dropped": 1} and len(found.unexplained) == 1


def test_a_microcompaction_leaves_the_entries_before_what_it_cleared(tmp_path: Path) -> None:
    made = begun()
    made.microcompact(f"c{made.count - 2}")
    calls = reconstruct_recorded_calls(made.open(tmp_path)).requests
    found = after(made, tmp_path, calls[-1].size - 10, 90)
    assert found.broken == {"microcompaction": 1} and len(found.unexplained) == 1


def along(session: Session, gone: int, at: int, kept: int, mode: Any = "keep") -> Replay:
    """A replay of the recorded requests in which *gone* tokens went before call *at*."""
    facts = session.facts
    sizes = [each.context for each in facts.requests]
    less = [size - gone if row >= at else size for row, size in enumerate(sizes)]
    firing = Firing(at, 0, 0, "p", ANY_PLAN, sizes[at], less[at], CacheCut(kept), 1, 0, 0, 0, 0, "")
    calls = [ModelCall(message, row) for row, message in enumerate(facts.request_message)]
    windows = [200_000] * len(calls)
    return Replay(session, "p", None, mode, calls, less, sizes, [kept] * len(calls), [firing], {}, {}, windows)


def test_a_policy_is_priced_with_the_misses_that_were_recorded(tmp_path: Path) -> None:
    made = begun()
    steps(made, 1, 31_950, floor=30_000)
    steps(made, 3, 32_340)
    session = made.open(tmp_path)
    assert build_price_model(session).unexplained[1].recorded == 30_000
    priced = price(along(session, 4_000, 4, 21_000))
    assert priced.baseline_cost == pytest.approx(build_price_model(session).cost_recorded)
    assert priced.baseline_usage[6].read == 30_000 and priced.cache_usage[6].read == 30_000 - 4_000
    at_the_miss = price(along(session, 4_000, 6, 21_000))
    assert at_the_miss.cache_usage[6].read == 21_000


def test_the_system_prompt_is_read_before_the_recording_shows_how_long_it_is(tmp_path: Path) -> None:
    """A change early in a warm cache costs no writing of what was read after another change later; nor does a miss."""
    made = begun(0)
    steps(made, 1, 31_950, floor=12_000)
    steps(made, 3, 32_340)
    session = made.open(tmp_path)
    known = reconstruct_recorded_calls(session)
    assert (
        known.cached_beginnings == [12_000] * 10 and known.reads[1].predicted.read == known.reads[1].recorded == 30_000
    )
    priced = price_of(along(session, 4_000, 4, 21_000))
    assert priced.cache_usage[4].read == 12_000 and priced.cache_usage[5].read == priced.cache_usage[4].size - 10
    assert priced.baseline_usage[6].read == priced.cache_usage[6].read == 12_000
    [found] = priced.firings
    assert found.behind == session.facts.requests[3].context - 4_000 - 12_000 == found.rewritten + 10
    late = begun(0)
    late.user("later", timestamp="2026-01-01T00:09:00.000Z")
    late.assistant(text("a"), use=usage(10, 0, 32_500), timestamp="2026-01-01T00:09:05.000Z")
    late.user("and")
    late.assistant(text("b"), use=usage(10, 12_000, 12_600), timestamp="2026-01-01T00:09:15.000Z")
    cold = price_of(along(late.open(tmp_path), 4_000, 6, 21_000))
    assert cold.cache_usage[6].read == 0 and cold.firings[0].cold


def test_an_undone_compaction_costs_no_second_writing(tmp_path: Path) -> None:
    made = begun()
    made.boundary(32_000)
    made.summary()
    made.assistant(text("done"), use=usage(10, 20_000, 4_000))
    session = made.open(tmp_path)
    run = along(session, 0, 5, 21_000, "ignore")
    sizes = [*run.sizes[:-1], run.sizes[-2] + 100]
    run = Replay(**{**vars(run), "sizes": sizes, "baseline": sizes, "firings": []})
    assert price(run).cache_usage[-1].read == sizes[-2] - 10


def test_a_summarizer_shares_nothing_with_a_cold_cache() -> None:
    cuts = {5: (20_000, CacheCut(20_000, 60_000, 1_000))}
    cold = fired(same_size(12, 100_000), cuts, idle={5: 400})
    [apart], [shared] = price(cold).firings, price(cold, shares_prefix=True).firings
    assert apart.summarizer == shared.summarizer == pytest.approx((60_000 * 5 + 1_000 * 25) / 1e6)


def test_a_firing_in_a_cold_cache_that_loses_is_not_told_to_clear_more() -> None:
    cold = fired(same_size(6, 100_000), {5: (1_000, CacheCut(20_000, 90_000, 2_000))}, idle={5: 400})
    assert price(cold).firings[0].verdict == "does not pay" and build_advice(price(cold)) == []


# -- advice


def test_what_a_clearing_needs_is_what_pays_exactly() -> None:
    sizes = same_size(25, 100_000)
    lost = price(fired(sizes, {5: (5_000, CacheCut(20_000))}))
    [one] = lost.firings
    value = compute_break_even_clearing(one, *lost.write_read_rates[0])
    assert one.cost > 0 and value == ceil(5.75 * 80_000 / (20 * 0.5 + 5.75))
    assert price(fired(sizes, {5: (value, CacheCut(20_000))})).firings[0].cost <= 0
    assert price(fired(sizes, {5: (value - 5, CacheCut(20_000))})).firings[0].cost > 0
    [least] = build_advice(lost)
    assert least.about == "clear_at_least" and least.value == value and f"{value:,} tokens" in least.text
    assert "5,000 tokens" in least.text and "20 calls left" in least.text and "which none did" in least.text


def test_small_clearings_are_to_be_batched_or_to_wait_for_the_pause() -> None:
    cuts = {number: (1_000, CacheCut(20_000)) for number in (4, 8, 12)}
    found = {each.about: each for each in build_advice(price(fired(same_size(30, 100_000), cuts, idle={20: 900})))}
    assert set(found) == {"clear_at_least", "cold", "batch"}
    assert found["cold"].value == 300 and "1 of 30 calls" in found["cold"].text
    assert "3 of 3 firings" in found["cold"].text and "8 to 16 calls before" in found["cold"].text
    assert found["batch"].value > 400 and "after 4:" in found["batch"].text
    assert found["batch"].avoidable_cost == pytest.approx((5.75 * (79_000 + 78_000) - 4 * 0.5 * 2_000) / 1e6)


def test_one_firing_is_spoken_of_in_the_singular_and_several_in_the_plural() -> None:
    def advise(*calls: int) -> dict[str, str]:
        cuts = {number: (1_000, CacheCut(20_000)) for number in calls}
        return {
            each.about: each.text for each in build_advice(price(fired(same_size(30, 100_000), cuts, idle={20: 900})))
        }

    one, several = advise(4), advise(4, 8)
    for about in ("clear_at_least", "cold"):
        assert "than it saved" in one[about] and "they" not in one[about].split()
        assert "than they saved" in several[about] and "it" not in several[about].split()


def test_a_firing_names_the_cost_of_its_summary_if_it_has_one() -> None:
    for cut, has_summary in ((CacheCut(20_000), False), (CacheCut(20_000, 50_000, 2_000), True)):
        priced = price(fired(same_size(30, 100_000), {5: (40_000, cut)}))
        assert ("for the summary" in format_firing_price(priced.firings[0], priced)) == has_summary


def test_where_everything_pays_there_is_no_advice() -> None:
    assert build_advice(price(fired(same_size(60, 100_000), {5: (70_000, CacheCut(20_000))}))) == []
    assert build_advice(price(fired(same_size(9, 100_000), {}))) == []


# -- real recordings


def naive(session: Session) -> list[int]:
    """Tokens read by the simplest rule: what the call before held, if its time has not passed by the replies' times."""
    facts, lives = session.facts, FIVE_MINUTES
    found = [0] * len(facts.requests)
    for row, each in enumerate(facts.requests):
        if row and facts.request_time[row] - facts.request_time[row - 1] <= lives:
            found[row] = min(facts.requests[row - 1].context, each.context)
        if each.cache_write_1h or each.cache_write_5m:
            lives = ONE_HOUR if each.cache_write_1h else FIVE_MINUTES
    return found


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.exists(), reason="no recordings beside the checkout")
def test_the_model_is_nearer_to_recorded_reads_than_the_simplest_rule() -> None:
    read = predicted = off = simple = simple_off = 0
    for path in sorted(CORPUS.rglob("*.jsonl")):
        session = ct.open_session(f"{path}#{ct.sessions_in(path)[0].id}")
        if len(session.facts.requests) < 2:
            continue
        reads = reconstruct_recorded_calls(session).reads
        model, rule = build_price_model(session), naive(session)
        read += model.read_recorded
        predicted += model.read_predicted
        off += sum(abs(each.predicted.read - each.recorded) for each in reads)
        simple += sum(rule)
        simple_off += sum(abs(rule[row] - each.recorded) for row, each in enumerate(reads))
        assert model.error is not None and model.error < 0.045, path.name
        assert len(model.unexplained) <= 6, path.name
    assert abs(predicted - read) < 0.001 * read < 0.009 * read < simple - read
    assert off < 0.005 * read < 0.014 * read < simple_off


def test_a_price_can_be_told_of_each_firing_in_either_unit() -> None:
    [found] = price(fired(same_size(20, 50_000), {5: (10_000, CacheCut(20_000))}, model="strange-1")).firings
    assert found.cost == pytest.approx(1.15 * 20_000 - 15 * 0.1 * 10_000)


def test_small_sums_are_told_with_the_digits_that_tell_them_apart() -> None:
    sums = (1_234.5, 0.1, 0.0781, 0.0004, 0.00004, -0.00004, -0.0078, -2)
    told = ["$1,234.50", "$0.10", "$0.0781", "$0.0004", "$0.00", "$0.00", "−$0.0078", "−$2.00"]
    assert [format_cost(cost, "USD") for cost in sums] == told
    assert format_cost(1_234.4, "input tokens") == "1,234"


def test_the_saving_is_gone_at_the_extra_calls_that_cost_as_much() -> None:
    lab = Lab(ct.open_session(Path(__file__).parents[1] / "sample_sessions" / "coding-session.jsonl"))
    policy = POLICIES["defect-microcompact"]
    study = lab.run_study(policy, build_params(policy, {}))
    price = study.price
    (first, second), costs = (each.call for each in price.firings), price.costs
    extra = [
        firing.cleared / 1_000 * sum(costs[start:end]) / (end - start)
        for firing, start, end in zip(price.firings, (first, second), (second, len(costs)), strict=True)
    ]
    assert price.extra_call_cost == pytest.approx(sum(extra))
    saved = price.baseline_cost - price.cost
    assert saved < 0 and price.break_even_calls == pytest.approx(saved / sum(extra))
    assert "It does not pay even if the agent needs no extra call." in format_savings(price)
    other = lab.run_study(policy, build_params(policy, {"keep_recent_turns": 2})).price
    assert other.break_even_calls == pytest.approx(57_698 / 82_362, rel=0.01)
    with_calls = other.cost + (other.break_even_calls or 0) * other.extra_call_cost
    assert with_calls == pytest.approx(other.baseline_cost)
    assert "pays unless the agent needs more than 0.7 extra calls per 1,000 tokens removed" in format_savings(other)


def test_nothing_expires_between_calls_whose_times_are_unknown() -> None:
    timed, untimed = CacheRequest(100, 0, sent_at=10**12, ended_at=10**12), CacheRequest(100, 0)
    later = CacheRequest(100, 100, sent_at=10**12 + 3_600_000)
    assert later.is_expired_after(timed)
    assert not later.is_expired_after(untimed) and not untimed.is_expired_after(timed)
