"""The estimator's factors and their error: against a tokenizer that is known, and on the recordings."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.session.token_factors import PRIOR, fit_factors
from context_tui.tokens.calibration import MAX_USABLE_ERROR, MIN_REQUESTS, calibrate
from tests.formats.providers import RATES, Provider
from tests.formats.recordings import text


def test_a_known_tokenizer_is_found_and_predicted(tmp_path: Path) -> None:
    made = Provider()
    made.user("do it")
    made.steps(40)
    (found,) = calibrate(made.recording.open(tmp_path).facts)
    assert found.usable and not found.reason and found.requests == 40 and found.model == "claude-opus-4-5"
    assert found.factors.result == pytest.approx(RATES["tool_result"], abs=0.02)
    assert found.error is not None and found.error_bytes4 is not None
    assert found.error.median < 0.01 and found.error.p95 < 0.02, "on the half that it was not fitted on"
    assert found.error_bytes4.median > 3 * found.error.median


def test_each_model_has_its_own(tmp_path: Path) -> None:
    made = Provider(rate=1.0)
    made.user("do it")
    made.steps(30)
    made.model, made.rate = "claude-fable-5", 1.4
    made.steps(30)
    first, second = calibrate(made.recording.open(tmp_path).facts)
    assert (first.model, second.model) == ("claude-opus-4-5", "claude-fable-5")
    assert second.factors.result == pytest.approx(1.4 * first.factors.result, abs=0.05)
    assert first.usable and second.usable


def test_a_kind_that_was_hardly_seen_is_taken_to_be_like_the_others(tmp_path: Path) -> None:
    made = Provider(rate=1.5)
    made.user("do it")
    made.steps(20)
    (found,) = calibrate(made.recording.open(tmp_path).facts)
    assert found.factors.text == pytest.approx(1.5 * PRIOR.text, rel=0.1), "no reply had a text"


def test_what_comes_without_a_record_is_predicted_on_average(tmp_path: Path) -> None:
    made = Provider(base=40_000)
    made.user("do it")
    for number in range(60):
        made.steps(1)
        made.step(size=400 + 700 * (number * 7 % 11))
        made.context += 600 if number % 4 == 0 else 0
    (found,) = calibrate(made.recording.open(tmp_path).facts)
    assert found.factors.unrecorded == pytest.approx(75, abs=15)
    assert found.error is not None and found.error.median < 0.005
    assert found.factors.result == pytest.approx(RATES["tool_result"], abs=0.05), "it is none of what the file holds"


def test_clearing_without_a_record_is_no_error_of_the_calibration(tmp_path: Path) -> None:
    made = Provider(base=90_000)
    made.user("do it")
    made.step(size=40_000)
    made.step(size=30_000)
    made.steps(30)
    made.clear(40_000, 30_000)
    made.steps(10)
    (found,) = calibrate(made.recording.open(tmp_path).facts)
    assert found.error is not None and found.error.p95 < 0.01


def test_too_few_requests_say_so_and_what_is_used_instead(tmp_path: Path) -> None:
    made = Provider(rate=1.4)
    made.user("do it")
    made.steps(MIN_REQUESTS - 1)
    (found,) = calibrate(made.recording.open(tmp_path).facts)
    assert not found.usable and found.error is None and found.fallback == "factors of few requests"
    assert found.reason == "only 11 of the model's requests recorded a size; 12 are needed"
    assert found.factors.result == pytest.approx(1.4 * RATES["tool_result"], rel=0.05), "nearer than what is typical"
    made = Provider()
    made.user("do it")
    made.steps(3)
    (found,) = calibrate(made.recording.open(tmp_path).facts)
    assert found.factors is PRIOR and found.fallback == "typical factors"


def test_sizes_that_have_nothing_to_do_with_the_file_are_not_usable(tmp_path: Path) -> None:
    made = Provider()
    made.user("do it")
    for number in range(40):
        made.context += 9_000 * (number * 7 % 5)  # of what nobody knows
        made.step(size=400)
    (found,) = calibrate(made.recording.open(tmp_path).facts)
    assert not found.usable and found.factors is PRIOR and found.reason


def test_one_scale_predicts_where_hidden_reasoning_spoils_the_factors_of_the_kinds(tmp_path: Path) -> None:
    """The hidden reasoning of the first half looks like large calls; large results show the tokenizer."""
    made = Provider(base=5_000, rate=0.7)
    made.user("do it")
    for number in range(60):
        made.step(size=100 if number % 4 else 6_000)
        made.context += 600 if number % 4 and number < 30 else 0
    facts = made.recording.open(tmp_path).facts
    assert fit_factors(facts, 30) is None
    (found,) = calibrate(facts)
    assert found.usable and found.error is not None and found.error.median < MAX_USABLE_ERROR
    assert found.factors.result / found.factors.call == PRIOR.result / PRIOR.call, "one scale for all"
    assert found.factors.result == pytest.approx(0.7 * RATES["tool_result"], rel=0.1)


def test_without_usage_there_is_none() -> None:
    session = ct.from_messages([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}])
    assert calibrate(session.facts) == [] and build_report(session)["calibration"] == []


def test_it_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from context_tui.cli import main

    made = Provider()
    made.user("do it")
    made.steps(40)
    made.model = "claude-haiku-4-5"
    made.reply(text("done"))
    session = made.recording.open(tmp_path)
    first, second = build_report(session)["calibration"]
    assert set(first["factors"]) == {"text", "thinking", "signature", "call", "result", "each", "image", "unrecorded"}
    assert first["usable"] and first["error"]["median"] <= first["error"]["p95"] < 0.02
    assert second["why"] == "only 1 of the model's requests recorded a size; 12 are needed" and second["error"] is None
    assert main(["inspect", session.info.path]) == 0
    told = capsys.readouterr().out
    assert "results               1.30" in told and "error of bytes / 4" in told
    assert "not calibrated: claude-haiku-4-5: only 1 of" in told


def test_the_recordings(shared: Path) -> None:
    """Half of the models of the recordings are predicted within 2 %, and all far better than by bytes / 4."""
    errors = [
        (each.error.median, each.error_bytes4.median)
        for path in sorted((shared / "corpus" / "claude-code").glob("*.jsonl"))
        for info in ct.sessions_in(path)[:1]
        for each in calibrate(ct.open_session(f"{path}#{info.id}" if info.id else path).facts)
        if each.error is not None and each.error_bytes4 is not None
    ]
    assert len(errors) >= 10 and median(fitted for fitted, _ in errors) < 0.02
    assert all(fitted < min(plain, MAX_USABLE_ERROR) for fitted, plain in errors)
