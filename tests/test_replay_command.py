"""`context-tui replay`: the same numbers as the Python API, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import context_tui as ct
from context_tui.cli import main
from context_tui.lab.price.report import VERDICT_TEXTS
from tests.formats import recordings
from tests.formats.recordings import call, result, text, usage

ESC = "\x1b]0;title\x07"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Eight turns that each read 2,000 tokens, whose names try to write on the terminal."""
    made, size = recordings.Recording(), 10_000
    for turn in range(8):
        made.user(f"turn {turn}")
        made.assistant(call(f"c{turn}", f"Re{ESC}ad", file_path="a.py"), use=usage(0, read=size), model=f"claude-{ESC}")
        made.results(result(f"c{turn}", f"{turn} line\n" * 1_000))
        made.assistant(text("done"), use=usage(0, read=size + 2_000), model=f"claude-{ESC}")
        size += 2_020
    return made.write(tmp_path)


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err and "internal error" not in err
    assert not any(ord(char) < 32 and char != "\n" for char in out + err)
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code, out, _ = ran(capsys, "replay", *arguments, "--json")
    assert code == 0 and out.isascii()
    found: dict[str, Any] = json.loads(out)
    return found


MICRO = ("-P", "defect-microcompact", "-p", "keep_recent_turns=1")


def test_the_report_has_the_numbers_of_the_api(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    report = document(capsys, session, "--window", 30_000, *MICRO)
    made = ct.replay.replay(ct.open_session(session), "defect-microcompact", window=30_000, keep_recent_turns=1)
    assert report["schema"] == "context-tui.replay/1"
    assert report["recorded"] == "keep"
    assert [each["recorded"] for each in report["requests"]] == made.baseline
    assert [each["message"] for each in report["requests"]] == [call.message for call in made.calls]
    (policy,) = report["policies"]
    assert policy["policy"] == "defect-microcompact" and policy["params"]["keep_recent_turns"] == 1
    assert policy["context"] == made.sizes
    totals = made.totals
    assert {name: policy["totals"][name] for name in ("sent", "saved", "peak", "overflows")} == totals._asdict()
    got = [(each["request"], each["message"], each["before"], each["after"]) for each in policy["firings"]]
    assert got == [(each.call, each.message, each.before, each.after) for each in made.firings]
    assert [each["cleared"] for each in policy["firings"]] == [4, 3]
    assert all(" tokens ≥ limit " in each["reason"] for each in policy["firings"])


def test_a_parameter_belongs_to_the_policy_before_it(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    report = document(capsys, session, "--window", 30_000, *MICRO, "-P", "defect-microcompact", "-P", "chain")
    named = [(each["policy"], each["params"].get("keep_recent_turns")) for each in report["policies"]]
    assert named == [("defect-microcompact", 1), ("defect-microcompact", 3), ("chain", None)]


def test_the_text_tells_policies_firings_and_limits(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    code, out, err = ran(capsys, "replay", session, "--window", 30_000, *MICRO, "-P", "defect-compact")
    assert (code, err) == (0, "")
    assert "16 calls, 16 with a recorded size" in out
    assert "defect-microcompact keep_recent_turns=1" in out
    assert "4 cleared" in out and "summarised" in out
    assert "no recorded compactions" in out
    assert "lower bound" in out


def test_a_policy_that_never_fires_says_why(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    never = ("-P", "codex", "-P", "langchain-summarize")
    _, out, _ = ran(capsys, "replay", session, "--window", 300_000, *never)
    at, off = (policy["missed"] for policy in document(capsys, session, "--window", 300_000, *never)["policies"])
    assert f"codex never fires; nearest before #{at['message']:,}: {at['reason']}\n" in out
    assert "< limit 270,000 (90% of 300,000)" in at["reason"]
    assert f"langchain-summarize never fires; {off['reason']}\n" in out and off["message"] is None


@pytest.mark.parametrize(("trigger", "is_own"), [("auto", True), ("manual", False)])
def test_an_agents_own_policy_does_not_contradict_the_recorded_compactions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trigger: str, is_own: bool
) -> None:
    made = recordings.Recording()
    for size in (160_000, 20_000):
        made.user()
        made.assistant(text("done"), use=usage(0, read=size))
        if size > 20_000:
            made.boundary(168_000, trigger)
            made.summary()
    recorded = made.write(tmp_path)
    own, kept = ("-P", "claude-code-auto"), "adds no firing to the 1 recorded full compaction"
    kept = kept if is_own else "never fires"
    assert f" {kept}; nearest before #" in ran(capsys, "replay", recorded, *own)[1]
    assert f"\n{kept} in this session\n" in ran(capsys, "plan", recorded, *own)[1]
    assert "codex never fires; " in ran(capsys, "replay", recorded, "-P", "codex")[1]
    assert kept not in ran(capsys, "replay", recorded, *own, "--recorded", "undo")[1] or not is_own
    page = tmp_path / "page.html"
    ran(capsys, "report", recorded, *own, "--recorded", "keep", "-o", page)
    assert f" {kept}; nearest before #" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no policy is named"),
        (["-p", "a=1", "-P", "chain"], "is for no policy; name it first"),
        (["-P", "manual"], "applied by hand"),
        (["-P", "no-such"], "unknown policy"),
        (["-P", "defect-microcompact", "-p", "keep=1"], "keep"),
        (["-P", "defect-compact", "--delay", "-1"], "delay"),
        (["-P", "defect-compact", "--summary-tokens", "0"], "not a number of tokens"),
        (["-P", ""], "is empty"),
    ],
)
def test_bad_usage_is_one_line(
    capsys: pytest.CaptureFixture[str], session: Path, arguments: list[str], says: str
) -> None:
    code, out, err = ran(capsys, "replay", session, *arguments)
    assert code in (1, 2) and not out
    assert says in err and err.count("\n") == 1


def test_a_session_without_calls_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = recordings.Recording()
    made.user("hello")
    code, out, err = ran(capsys, "replay", made.write(tmp_path), "-P", "defect-microcompact")
    assert code == 0 and "0 calls" in out and "nothing to replay" in err


def test_the_firings_are_told_with_their_verdict_and_add_up(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    (policy,) = document(capsys, session, "--window", 30_000, *MICRO)["policies"]
    totals, prices = policy["totals"], [each["price"] for each in policy["firings"]]
    assert sum(each["cost"] for each in prices) == pytest.approx(totals["cost_of_firings"])
    more = totals["cost_of_firings"] + totals["cost_besides"]
    assert more == pytest.approx(totals["cost"] - totals["cost_without"])
    _, out, _ = ran(capsys, "replay", session, "--window", 30_000, *MICRO)
    [head] = [line for line in out.splitlines() if "  verdict  " in line]
    heads = "tokens cleared", "tokens rewritten", "break-even", "calls remaining", "compared with not firing ("
    assert all(each in head for each in heads)
    rows = out[out.index(head) :].splitlines()[1 : len(prices) + 1]
    for row, each in zip(rows, prices, strict=True):
        assert (
            f"{each['cleared']:,}" in row and f"{each['rewritten']:,}" in row and VERDICT_TEXTS[each["verdict"]] in row
        )
        assert f"{each['calls_left']}  {VERDICT_TEXTS[each['verdict']]}" in row
    assert f"compared with no policy: saves {totals['saved']:,} tokens" in out and "the sum of its firings" in out


def test_what_a_changed_prompt_reads_is_said_and_can_be_chosen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made, size = recordings.Recording(), 10_000
    for turn in range(8):
        made.user(f"turn {turn}")
        made.assistant(call(f"c{turn}", "Read", file_path="a.py"), use=usage(0, size, 2_000))
        made.results(result(f"c{turn}", f"{turn} line\n" * 1_000))
        made.assistant(text("done"), use=usage(0, size + 2_000, 2_000))
        size += 4_000
    path = made.write(tmp_path)
    costs = []
    for cache, words in (("breakpoints", "end of the last call"), ("anywhere", "up to the first change")):
        given = (path, "--window", 40_000, *MICRO, "--cache", cache)
        report = document(capsys, *given)
        assert report["cache"] == cache
        costs.append([each["price"]["rewritten"] for each in report["policies"][0]["firings"]])
        assert words in ran(capsys, "replay", *given)[1]
    assert all(marked >= anywhere for marked, anywhere in zip(*costs, strict=True)) and costs[0] != costs[1]
    assert document(capsys, path, "--window", 40_000, *MICRO)["cache"] == "breakpoints"
    assert ran(capsys, "replay", path, *MICRO, "--cache", "x")[0] == 2


def test_price_and_regret_are_told_beside_the_firings(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    report = document(capsys, session, "--window", 30_000, *MICRO)
    (policy,) = report["policies"]
    prices = [each["price"] for each in policy["firings"]]
    assert all(
        {"cleared", "rewritten", "break_even", "calls_left", "cost", "verdict"} <= each.keys() for each in prices
    )
    assert [each["cleared"] for each in prices] == [f["before"] - f["after"] for f in policy["firings"]]
    totals, regret = policy["totals"], policy["regret"]
    assert totals["cost"] < totals["cost_without"]
    assert regret["dropped"] == sum(each["cleared"] for each in policy["firings"]) == 7
    assert regret["used_later"] == len(policy["regrets"]) == sum(regret["by_tier"].values())
    listed = [number for firing in policy["firings"] for number in firing["regrets"]]
    assert sorted(listed) == list(range(len(policy["regrets"])))
    assert policy["bound"]["results"]["could_go"] >= policy["bound"]["results"]["went"]
    assert report["price_model"]["read_recorded"] == sum(each["recorded"] for each in report["requests"])


def test_one_of_several_sessions_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[1] / "sample_sessions" / "koda.db"
    name, first = f"{path}#", next(info.id for info in ct.sessions_in(path))
    code, out, _ = ran(capsys, "replay", f"{name}{first}", "-P", "none")
    assert code == 0 and out.startswith(f"{name}{first}   ")
