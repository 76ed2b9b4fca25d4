"""The sample sessions: they rebuild byte for byte, open without a loss, and show what their README says they show."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.cli import main
from context_tui.library.discovery import find_samples
from context_tui.policies.registry import find_policy
from context_tui.policies.trigger_points import find_firing_runs
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, MessageFlag, RecordKind
from context_tui.summarizer.payload import mask_body
from context_tui.tokens.accounting import find_last_usage
from context_tui.tokens.breakdown import measure_breakdown
from context_tui.tokens.estimate_check import check_estimate

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "sample_sessions"
SCRIPT = ROOT / "scripts" / "build_samples.py"

KODA = {
    "5b1f0c9e-27d4-4a83-9d61-0e7a4c2f8b15": (24, 31),
    "c3a94d70-6e1b-4f58-8b02-d95e13a7f604": (20, 22),
    "e80d2f46-91c5-4b7a-a3fe-6c14b70d9e28": (4, 4),
}
FORMAT = {
    "agent-sdk-request.json": "anthropic",
    "broken-on-purpose.jsonl": "claude-code",
    "coding-session.jsonl": "claude-code",
    "compacted-session.jsonl": "claude-code",
    "images-and-languages.jsonl": "claude-code",
    "koda.db": "koda",
    "openai-chat.json": "openai",
}
RECORDS = {  # messages, records: message records, metadata records, problems
    "agent-sdk-request.json": (22, 22, 0, 0),
    "broken-on-purpose.jsonl": (10, 13, 2, 5),
    "coding-session.jsonl": (168, 259, 21, 0),
    "compacted-session.jsonl": (37, 62, 11, 0),
    "images-and-languages.jsonl": (20, 29, 3, 0),
    "openai-chat.json": (16, 18, 1, 0),
}


@pytest.fixture(scope="module")
def coding() -> Session:
    """The session of the demo."""
    return ct.open_session(FOLDER / "coding-session.jsonl")


def turn_starts(session: Session) -> list[int]:
    """The messages at which a turn starts."""
    return [m for m in range(len(session)) if session.facts.flags[m] & MessageFlag.TURN_START]


def test_they_rebuild_byte_for_byte(tmp_path: Path) -> None:
    if not SCRIPT.exists():
        pytest.skip("an installation without its scripts")
    subprocess.run([sys.executable, SCRIPT, tmp_path], check=True, capture_output=True, cwd=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(FORMAT)
    for name in FORMAT:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), f"{name}: rebuild it"


def test_each_is_told_about_and_none_is_big() -> None:
    told = (FOLDER / "README.md").read_text("utf-8")
    for path in FOLDER.iterdir():
        if path.suffix != ".md":
            assert f"| `{path.name}` |" in told
            assert path.stat().st_size < 600_000
    assert {Path(entry.info.path).name for entry in find_samples()} == set(FORMAT)


def test_nothing_of_a_machine_is_in_them() -> None:
    for name in FORMAT:
        data = (FOLDER / name).read_bytes()
        assert not re.search(rb"/(?:root|Users|mnt)/", data), name
        assert {found for found in re.findall(rb"/home/(\w+)", data)} <= {b"dev"}, name


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_accounted_for(name: str) -> None:
    session = ct.open_session(FOLDER / name)
    kinds = Counter(session.facts.record_kind)
    assert session.info.format == FORMAT[name]
    found = (kinds[RecordKind.MESSAGE], kinds[RecordKind.METADATA], kinds[RecordKind.PROBLEM])
    assert (len(session), *found) == RECORDS[name]
    assert len(session.to_messages()) == len(session.context_at())


@pytest.mark.parametrize("session_id", KODA)
def test_every_row_is_accounted_for(session_id: str) -> None:
    session = ct.open_session(f"{FOLDER / 'koda.db'}#{session_id}")
    assert (len(session), len(session.facts.record_kind)) == KODA[session_id]
    assert not session.facts.problems


@pytest.mark.parametrize("name", FORMAT)
def test_the_command_line_reports_on_each(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(FOLDER / name) + (f"#{next(iter(KODA))}" if name == "koda.db" else "")
    assert main(["inspect", spec, "--messages"]) == 0
    shown = capsys.readouterr().out
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


# -- the coding session


def test_both_tiers_fire_at_the_end_of_the_demo(coding: Session) -> None:
    assert (coding.window.tokens, coding.window.source) == (65_536, "model")
    assert len(coding) == 168 and coding.turns == 10
    usage = find_last_usage(coding.context_at())
    assert usage is not None and usage.context == 58_472
    for policy, threshold in (("defect-microcompact", 39_321), ("defect-compact", 55_705)):
        plan = ct.plan(coding, policy)
        assert plan.trigger.fires and plan.has_changes
        assert (plan.trigger.value, plan.trigger.threshold) == (58_592, threshold)


def test_what_each_policy_makes_of_the_demo(coding: Session) -> None:
    micro = ct.plan(coding, "defect-microcompact")
    assert (micro.report, micro.tokens_before, micro.tokens_after) == (
        {"tokens_before": 46_178, "tokens_after": 22_680, "cleared": 23},
        46_178,
        22_680,
    )
    full = ct.plan(coding, "defect-compact")
    assert (full.boundary, full.tokens_after) == (156, 4_251)
    assert ct.plan(coding, "agent-sdk-prune").report == {"removed_bytes": 99_351}
    assert ct.plan(coding, "agent-sdk-compact").boundary == 163
    # A warm cache hides the size from agent-sdk, which is worth seeing.
    assert not ct.plan(coding, "agent-sdk-prune", context_budget=60_000).trigger.fires


def test_where_the_triggers_of_the_demo_first_fire(coding: Session) -> None:
    policies = [find_policy(name) for name in ALL]
    runs = {policy.name: find_firing_runs(coding, policy, policy.Params()) for policy in policies}
    first = {name: [run[0].at for run in found] for name, found in runs.items()}
    assert first == {"defect-microcompact": [93], "defect-compact": [119], "koda-microcompact": [86, 168]}


ALL = ("defect-microcompact", "defect-compact", "koda-microcompact")


def test_koda_fires_after_lunch_only(coding: Session) -> None:
    plans = {at: ct.plan(coding, "koda-microcompact", at=at) for at in turn_starts(coding)}
    assert [at for at, plan in plans.items() if plan.trigger.fires] == [86]
    assert plans[86].trigger.value == 2_835
    assert plans[86].report == {"cleared": 23, "tokens_saved": 22_847}


def test_the_demo_has_what_real_sessions_have(coding: Session) -> None:
    parts, facts = measure_breakdown(coding.context_at()), coding.facts
    assert [(Path(read.path).name, read.count, read.wasted) for read in parts.duplicate_reads] == [
        ("breakdown.py", 3, 3_133),
        ("inspect.py", 3, 1_679),
    ]
    assert {share.tool for share in parts.by_tool} == {"Read", "Bash", "Grep", "Edit", "Write"}
    assert sum(1 for flags in facts.block_flags if flags & BlockFlag.ERROR) == 5
    parallel = Counter(facts.block_message[block] for block in facts.call_use)
    assert sum(1 for calls in parallel.values() if calls > 1) == 28
    sizes = [usage.context for usage in facts.requests]
    assert sizes == sorted(sizes)
    times = [time for time in facts.time if time >= 0]
    assert times == sorted(times)
    # After lunch the cache was cold: the whole context was written anew.
    cold = [row for row, usage in enumerate(facts.requests) if usage.cache_read == 0]
    assert [facts.request_message[row] for row in cold] == [1, 87]


def test_the_estimate_of_the_demo_fits_what_was_recorded(coding: Session) -> None:
    fit = check_estimate(coding, coding.context_at())
    assert fit is not None and abs(fit.relative_error) < 0.15 and not fit.causes_text


# -- the others


def test_the_compacted_session() -> None:
    path = FOLDER / "compacted-session.jsonl"
    session = ct.open_session(path)
    micro, full = session.facts.compactions
    assert (micro.kind, micro.message, len(micro.cleared_blocks)) == ("micro", 18, 3)
    assert (full.kind, full.message, full.trigger, tuple(full.prefix)) == ("full", 24, "manual", (24, 23))
    assert list(session.context_at().order)[:3] == [24, 23, 25]
    texts = str([session.message(index) for index in range(len(session))])
    assert "keep Decimal" in texts and "integers of cents.'" not in texts  # the branch that was left
    assert [info.id for info in ct.sessions_in(path)] == ["", "a7c41de05b92f3e61"]
    assert len(ct.open_session(f"{path}#a7c41de05b92f3e61")) == 4


def test_images_languages_and_hostile_bytes() -> None:
    session = ct.open_session(FOLDER / "images-and-languages.jsonl")
    messages = str(session.to_messages())
    assert measure_breakdown(session.context_at()).by_category["image"] == 4_000
    assert "降水量" in messages and "الأمطار" in messages and "👩🏽" in messages
    assert all(bad in messages for bad in ("\\x1b]52;", "\\x1b[2J", "\\u202e", "\\x9b"))


def test_the_agent_sdk_request_is_pruned_and_masked() -> None:
    session = ct.open_session(FOLDER / "agent-sdk-request.json")
    assert session.content.system().startswith("You are the night watch")
    assert [tool["name"] for tool in session.content.tools()] == ["Bash", "Read", "Edit"]
    usage = find_last_usage(session.context_at())
    assert usage is not None and (usage.fresh, usage.cache_write_5m) == (212, 640)
    plan = ct.plan(session, "agent-sdk-prune")
    assert plan.report == {"removed_bytes": 7_474}
    assert [(edit.message, edit.tool) for edit in plan.edits] == [(2, "Bash"), (8, "Bash"), (16, "Bash")]
    masked, counts = mask_body(session.to_messages())
    assert sum(counts.values()) == 2 and "AKIAIOSFODNN7EXAMPLE" not in str(masked)


def test_the_openai_request_has_cached_usage() -> None:
    session = ct.open_session(FOLDER / "openai-chat.json")
    usage = find_last_usage(session.context_at())
    assert usage is not None and usage.cache_read == 896 and usage.context == 1_062


def test_koda_is_compacted_idle_and_keeps_its_keys() -> None:
    path = FOLDER / "koda.db"
    with pytest.raises(ct.SeveralSessions) as several:
        ct.open_session(path)
    assert several.value.ids == [f"{path}#{session_id}" for session_id in KODA]
    monthly, compacted, _ = (ct.open_session(f"{path}#{session_id}") for session_id in KODA)
    [full] = compacted.facts.compactions
    assert (full.kind, full.message) == ("full", 14)
    assert len(compacted.context_at()) == 9
    plan = ct.plan(monthly, "koda-microcompact", at=turn_starts(monthly)[1])
    assert plan.trigger.fires and plan.report is not None and plan.report["cleared"] == 3


def test_no_key_leaves_the_koda_database(tmp_path: Path) -> None:
    path, key = FOLDER / "koda.db", b"sk-FAKE"
    assert key in path.read_bytes()
    before = path.read_bytes()
    for to, name in (("koda", "out.db"), ("anthropic", "out.json")):
        out = tmp_path / name
        spec = f"{path}#{next(iter(KODA))}"
        assert main(["apply", spec, "-P", "koda-microcompact", "--to", to, "-o", str(out)]) == 0
        assert key not in out.read_bytes()
    assert path.read_bytes() == before


def test_what_is_broken_is_named() -> None:
    session = ct.open_session(FOLDER / "broken-on-purpose.jsonl")
    assert [problem.where for problem in session.facts.problems] == [
        "line 8",
        "line 16",
        "line 18",
        "line 19",
        "line 21",
    ]
    assert "torn last line" in session.facts.problems[-1].what
    assert "'hologram'" in session.facts.problems[1].what
    assert "\\ud83d.txt" in str(session.to_messages())
