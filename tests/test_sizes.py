"""One size for one context: in a plan, in the copy that it makes, in the file that is written, and in a replay."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import context_tui as ct
from context_tui.cli import main
from context_tui.compaction.next_request import compute_next_request
from context_tui.compaction.recorded_compactions import find_recorded_compactions
from context_tui.errors import Error, PlanError
from context_tui.export.files import export, list_writable_formats
from context_tui.formats.kit.size_note import SIZE_NOTE, build_size_note, parse_size_note
from context_tui.lab.fullness import compute_calibrated_fullness
from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.result import Firing
from context_tui.lab.replay.walk import replay_recording
from context_tui.policies.registry import POLICIES
from context_tui.session.blocks import BYTES_PER_TOKEN
from context_tui.session.context import Context, context_at
from context_tui.session.facts import Facts, Usage
from context_tui.session.losses import Losses
from context_tui.session.session import Session
from context_tui.session.token_factors import PRIOR, SizeBasis
from context_tui.session.values import Kind, Role
from context_tui.tokens.accounting import has_valid_size
from context_tui.tokens.breakdown import measure_breakdown
from context_tui.tokens.context_size import measure_context
from context_tui.tokens.measures import TokenTable, build_calibrated_table
from tests.formats import test_gemini_cli as gemini_cli
from tests.formats.recordings import Recording as Recorder
from tests.formats.recordings import conversations
from tests.small_sessions import NAMES, open_small

SAMPLES = sorted(path for path in (Path(__file__).parents[1] / "sample_sessions").iterdir() if path.is_file())
CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
REPLAYED = sorted(name for name, policy in POLICIES.items() if policy.phases and name != "chain")
"""All but a chain, of whose policies a replay runs those that fire."""
ROUNDING = 5
"""Tokens by which a replay and a plan may differ, as each rounds what it inserts and removes."""

NOTING_FORMATS = ("claude-code", "cline", "codex", "gemini-cli", "koda", "opencode", "pi")
"""Formats in whose files an export notes the size."""


def open_sessions(paths: list[Path]) -> list[Session]:
    sessions = list[Session]()
    for path in paths:
        try:
            sessions.append(ct.open_session(path))
        except Error:
            continue  # several sessions in one file, or what is no session
    return [session for session in sessions if len(session)]


def check_replays(session: Session) -> int:
    """Hold the replays of all policies to what no policy removes, and to their first plans; return how many fired."""
    table, held = build_calibrated_table(session.facts), 0
    for window in (None, 20_000, 6_000):
        recording = Recording(session if window is None else session.with_window(window))
        contexts = [session.context_at(call.message) for call in recording.calls]
        fixed = [measure_context(context, table).fixed for context in contexts]
        sizes = zip(recording.recorded_sizes, recording.sizes, contexts, strict=True)
        assert all(recorded or size == measure_context(context, table).tokens for recorded, size, context in sizes)
        for name in REPLAYED:
            try:
                replay = replay_recording(recording, POLICIES[name], POLICIES[name].Params())
            except PlanError:
                continue
            assert replay.totals.saved == sum(replay.baseline) - sum(replay.sizes)
            assert all(map(int.__ge__, replay.sizes, map(min, replay.baseline, fixed))), (session.info.path, name)
            for firing in replay.firings[:1]:
                held += check_firing(recording, name, firing, contexts[firing.call], table)
    return held


def check_firing(recording: Recording, name: str, firing: Firing, sent: Context, table: TokenTable) -> bool:
    """Hold the first firing of a policy to its plan at that place, unless it made another one; return whether it did.

    The size of the request is not known to the plan, so that its error is the only difference to the plan's range.
    """
    plan = ct.plan(recording.session, name, at=firing.decided, force=True)
    shapes = [(len(each.changes), each.messages_dropped, len(each.inserts)) for each in (plan, firing.plan)]
    if firing.decided != firing.message or shapes[0] != shapes[1]:
        return False  # a plan by force may do more, and a summary in the background comes later
    if [*sent.order][: len(plan.context)] != [*plan.context.order] or sent.replacements != plan.context.replacements:
        return False  # the recording changed the context before the request
    account, call = measure_context(plan.context, table), measure_context(sent, table)
    summary = "." * BYTES_PER_TOKEN * recording.summary_tokens if plan.needs_summary else None
    size, appended = compute_next_request(plan, summary, table).after, call.content - account.content
    error = firing.before - account.tokens - appended
    low, high = size.low + appended + min(error, 0), size.high + appended + max(error, 0)
    assert low - ROUNDING <= firing.after <= high + ROUNDING, (recording.session.info.path, name)
    assert size.tokens <= compute_next_request(plan, None, table).after.high, "it has room for the summary"
    return True


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in SAMPLES])
def test_a_replay_and_a_plan_agree(path: Path) -> None:
    for session in open_sessions([path]):
        check_replays(session)


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_and_a_plan_agree_in_every_format(name: str, tmp_path: Path) -> None:
    check_replays(open_small(name, tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_a_replay_and_a_plan_agree_on_real_sessions() -> None:
    sessions = open_sessions(sorted(path for path in CORPUS.rglob("*") if path.is_file()))
    assert sum(check_replays(session) for session in sessions) > 1_000


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in SAMPLES])
@pytest.mark.parametrize("mark", ["clear", "cut"])
def test_a_plan_its_copy_and_its_file_agree(path: Path, mark: str, tmp_path: Path) -> None:
    for session in open_sessions([path]):
        table, facts = build_calibrated_table(session.facts), session.facts
        order = session.context_at().order
        rows = [(message, row) for message in order for row in facts.blocks_of(message)]
        results = [message for message, row in rows if facts.kind[row] == Kind.TOOL_RESULT]
        if mark == "clear" and not results:
            continue
        params: dict[str, Any] = {"clear": f"{results[0]}:0"} if mark == "clear" else {"cut": len(session) - 1}
        plan = ct.plan(session, "manual", **params)
        summary = "What was done. " * 40 if plan.needs_summary else None
        size = compute_next_request(plan, summary, table).after
        copy = ct.apply(session, plan, summary)
        measured = measure_context(copy.context_at(), build_calibrated_table(copy.facts))
        assert size.low <= measured.tokens <= size.high
        assert ct.measure(copy) == measured.size and ct.measure(plan, summary) == size
        pending = ct.measure(plan)
        assert pending.low <= measured.tokens <= pending.high, "also before the summary is written"
        check_replays(copy)
        for name in list_writable_formats():
            export(copy, tmp_path / "out", name, force=True)
            written = ct.open_session(tmp_path / "out")
            again = measure_context(written.context_at(), build_calibrated_table(written.facts))
            if name != session.info.format:
                assert written.facts.size_basis is None, "another agent has another system prompt"
            elif name in NOTING_FORMATS and copy.facts.size_basis:
                assert (again.tokens, again.fixed, again.error) == (measured.tokens, measured.fixed, measured.error)
            else:
                assert again.size.low <= size.high and size.low <= again.size.high


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
@pytest.mark.parametrize("policy", ["claude-code-auto", "codex", "cline", "claude-code-micro"])
def test_an_exported_file_has_the_size_of_the_copy_for_real_sessions(policy: str, tmp_path: Path) -> None:
    count, out = 0, tmp_path / "out"
    for session in open_sessions(sorted(path for path in CORPUS.rglob("*") if path.is_file())):
        if session.info.format not in NOTING_FORMATS:
            continue
        plan = ct.plan(session, policy, force=True)
        copy = ct.apply(session, plan, "What was done. " * 40 if plan.needs_summary else None)
        if copy.facts.size_basis is None or not plan.has_changes:
            continue
        losses = export(copy, out, session.info.format, force=True).losses
        is_whole = not any(loss.split(":")[0].endswith("left out") for loss in losses)
        written = ct.open_session(out)
        again = measure_context(written.context_at(), build_calibrated_table(written.facts))
        assert again.tokens == copy.facts.size_basis.tokens or not is_whole, session.info.path
        assert again.tokens <= copy.facts.size_basis.tokens
        check_replays(written)
        count += is_whole
    assert count >= 15


@pytest.mark.parametrize("name", NOTING_FORMATS)
def test_the_noted_size_holds_until_a_request_records_one(name: str, tmp_path: Path) -> None:
    sample = ct.open_session(SAMPLES[0].with_name("coding-session.jsonl"))
    session = ct.open_session(export(sample, tmp_path / "recording", name).path)
    copy = ct.apply(session, ct.plan(session, "manual", cut=80), "What was done.")
    export(copy, tmp_path / "out", name)
    written = ct.open_session(tmp_path / "out")
    size = measure_context(written.context_at()).tokens
    assert written.facts.size_basis and size == written.facts.size_basis.tokens
    written.facts.add_text(written.facts.add_message(Role.USER), "Go on." * 100)
    assert measure_context(context_at(written.facts, len(written.facts))).tokens == size + 150
    reply = written.facts.add_message(Role.ASSISTANT)
    written.facts.add_request(reply, Usage(fresh=30_000, output=9))
    account = measure_context(context_at(written.facts, len(written.facts)))
    assert written.facts.size_basis is None and account.recorded == 30_000


@pytest.mark.parametrize("name", NOTING_FORMATS)
def test_a_file_with_only_a_summary_keeps_the_model_until_another_replies(name: str, tmp_path: Path) -> None:
    sample = ct.open_session(SAMPLES[0].with_name("coding-session.jsonl"))
    session = ct.open_session(export(sample, tmp_path / "recording", name).path)
    copy = ct.apply(session, ct.plan(session, "manual", cut=len(session)), "What was done.")
    export(copy, tmp_path / "out", name)
    written = ct.open_session(tmp_path / "out")
    assert len(written) <= 2 and written.facts.model == session.facts.model and written.window == copy.window
    tells_model = name not in ("cline", "koda")
    assert (session.facts.model == "deepseek-chat", written.window.tokens == 65_536) == (tells_model, tells_model)
    if name == "claude-code":
        message = {"id": "m", "model": "other", "content": [{"type": "text", "text": "Done."}]}
        with (tmp_path / "out").open("a") as out:
            out.write(json.dumps({"type": "assistant", "message": message}) + "\n")
        assert ct.open_session(tmp_path / "out").facts.model == "other"


def test_inspect_says_that_the_size_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = ct.open_session(SAMPLES[0].with_name("coding-session.jsonl"))
    export(ct.apply(session, ct.plan(session, "manual", cut=80), "What was done."), tmp_path / "out", "claude-code")
    recorded, noted = "recorded − calibrated at the first request", "as noted by the export"
    for path, source in ((session.info.path, recorded), (tmp_path / "out", noted)):
        assert main(["inspect", str(path)]) == 0
        assert re.search(rf"6,009  not in the file +{source}\n", capsys.readouterr().out)


def test_a_file_without_sizes_keeps_the_instructions_that_its_agent_inserts_again(tmp_path: Path) -> None:
    recording = Recorder()
    recording.attachment("file", filename="/p/rules.md", content="Use tabs. " * 800)
    for number in range(4):
        recording.user(f"step {number} " + "x" * 2_000)
        recording.assistant({"type": "text", "text": "Done. " * 300}, use={})
    session = recording.open(tmp_path)
    table = build_calibrated_table(session.facts)
    plan = ct.plan(session, "manual", cut=len(session))
    size = compute_next_request(plan, "What was done.", table).after
    export(ct.apply(session, plan, "What was done."), tmp_path / "out.jsonl", "claude-code")
    written = ct.open_session(tmp_path / "out.jsonl")
    again = measure_context(written.context_at(), build_calibrated_table(written.facts))
    assert size.tokens > 2_000 and again.tokens == size.tokens and not again.has_prompt
    assert again.size.source == size.source == "estimated" and again.size.high > 60_000
    sentences = compute_calibrated_fullness(written, written.context_at()).sentences
    assert "The system prompt and the tools are not in the file." in sentences and "Injected text" in sentences[1]


def test_what_an_agent_puts_back_is_a_part_of_a_copy_and_of_its_file(tmp_path: Path) -> None:
    """It is in no message, and makes no message of the copy larger."""
    recording = Recorder()
    for number in range(8):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": f"/p/{number}.py"}}
        recording.user(f"step {number}")
        recording.assistant(call, use={"input_tokens": 30_000 + 2_000 * number, "output_tokens": 30})
        read = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "line of code\n" * 500}
        file = {"filePath": f"/p/{number}.py", "content": "line of code\n" * 500, "numLines": 500, "totalLines": 500}
        recording.results(read, toolUseResult={"type": "text", "file": {**file, "startLine": 1}})
    session = recording.open(tmp_path)
    plan = ct.plan(session, "claude-code-auto", force=True)
    request = compute_next_request(plan, "What was done.", build_calibrated_table(session.facts))
    copy = ct.apply(session, plan, "What was done.")
    export(copy, tmp_path / "out.jsonl", "claude-code")
    assert request.restored_tokens > 5_000
    for made in (copy, ct.open_session(tmp_path / "out.jsonl")):
        table = build_calibrated_table(made.facts)
        parts = measure_breakdown(made.context_at(), table).by_category
        assert parts["put_back"] == request.restored_tokens and parts["summary"] < 1_000
        assert sum(parts.values()) == request.tokens_after
        everything = compute_next_request(ct.plan(made, "manual", cut=len(made)), "Done.", table)
        assert everything.tokens_after < request.tokens_after - request.restored_tokens + 100


def find_results(session: Session) -> list[int]:
    return [row for row, kind in enumerate(session.facts.kind) if kind == Kind.TOOL_RESULT]


def test_what_was_put_back_stays_until_the_summary_goes(tmp_path: Path) -> None:
    """Also in a copy of a copy, and after a clearing when a request has followed the compaction."""
    recording = Recorder()
    recording.user("do it")
    recording.assistant({"type": "text", "text": "Yes."}, use={"input_tokens": 12_000, "output_tokens": 5})
    recording.boundary(100_000)
    recording.summary()
    for number in range(6):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}
        recording.assistant(call, use={"input_tokens": 22_000 + 1_200 * number, "output_tokens": 30})
        recording.results({"type": "tool_result", "tool_use_id": f"t{number}", "content": "a file\n" * 600})
    session = recording.open(tmp_path)

    def get_parts(made: Session) -> dict[str, int]:
        return measure_breakdown(made.context_at(), build_calibrated_table(made.facts)).by_category

    parts = get_parts(session)
    results = find_results(session)
    cleared = ct.apply(session, ct.plan(session, "manual", clear=f"{session.facts.block_message[results[0]]}:0"))
    again = ct.apply(cleared, ct.plan(cleared, "manual", clear=f"{len(cleared) - 1}:0"))
    export(again, tmp_path / "out.jsonl", "claude-code")
    assert parts["put_back"] > 8_000 and check_replays(session)
    for made in (session, cleared, again, ct.open_session(tmp_path / "out.jsonl")):
        assert get_parts(made)["put_back"] == parts["put_back"] and get_parts(made)["summary"] < 1_000
        plan, table = ct.plan(made, "manual", cut=len(made) - 2), build_calibrated_table(made.facts)
        request, cut = compute_next_request(plan, "Done.", table), ct.apply(made, plan, "Done.")
        assert get_parts(cut)["put_back"] == 0 and sum(get_parts(cut).values()) == request.tokens_after
        assert request.tokens_after < request.tokens_before - parts["put_back"]
        cut_early = compute_next_request(ct.plan(made, "manual", cut=len(made) - 11), "Done.", table)
        assert abs(cut_early.removed_tokens - parts["put_back"]) < 1_000  # all but the summary stays


def add_turns(recording: Recorder, *sizes: int) -> None:
    """Turns of 400 tokens whose requests record *sizes*."""
    for size in sizes:
        recording.user("u" * 800)
        recording.assistant({"type": "text", "text": "a" * 800}, use={"input_tokens": size, "output_tokens": 30})


def compact(recording: Recorder, first_preserved: str | None = None) -> str:
    """A compaction that keeps the messages from *first_preserved* on; return the summary."""
    segment = {"headUuid": first_preserved, "tailUuid": recording.last, "anchorUuid": recording.last}
    metadata: dict[str, Any] = {"preservedSegment": segment} if first_preserved else {}
    recording.boundary(46_000, **metadata)
    return recording.summary("S" * 4_000)


def record_put_back() -> Recorder:
    """A session whose compaction puts back 23,850 tokens without a record."""
    recording = Recorder()
    add_turns(recording, 20_000, 20_800, 21_600)
    compact(recording)
    return recording


def test_what_was_put_back_goes_at_the_next_compaction(tmp_path: Path) -> None:
    recording = record_put_back()
    add_turns(recording, 45_000, 45_400)
    compact(recording, recording.last)
    session = recording.open(tmp_path)
    table = build_calibrated_table(session.facts)
    before = measure_context(session.context_at(len(session) - 1), table)
    account = measure_context(session.context_at(), table)
    assert before.put_back > 20_000
    assert account.put_back == 0 and account.tokens < account.fixed + account.content + 500


def test_a_compaction_that_puts_nothing_back_inherits_nothing(tmp_path: Path) -> None:
    """Also if it keeps the summary of an earlier one."""
    recording = Recorder()
    add_turns(recording, 20_000, 20_800, 21_600)
    first_summary = compact(recording)
    add_turns(recording, 45_000, 45_400)
    compact(recording, first_summary)
    add_turns(recording, 24_000, 24_500)
    session = recording.open(tmp_path)
    check_parts(session, 1)
    assert check_replays(session)
    parts = measure_breakdown(session.context_at(), build_calibrated_table(session.facts)).by_category
    assert parts["put_back"] == 0 and parts["summary"] > 1_000
    assert Recording(session).recorded_amounts[-1].put_back == 0


def test_content_keeps_most_of_its_size_beside_what_was_put_back(tmp_path: Path) -> None:
    """What was put back went without a record: what a policy removes and inserts still counts."""
    recording = record_put_back()
    add_turns(recording, 45_000)
    for number, size in enumerate((23_000, 23_800, 24_700, 25_600)):
        recording.user("u" * 800)
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}
        recording.assistant(call, use={"input_tokens": size, "output_tokens": 30})
        recording.results({"type": "tool_result", "tool_use_id": f"t{number}", "content": "r" * 1_200})
    add_turns(recording, 26_000)
    session = recording.open(tmp_path)
    check_parts(session, 1)
    table = build_calibrated_table(session.facts)
    parts = measure_breakdown(session.context_at(), table).by_category
    assert parts["tool_result"] > 800 and parts["user"] > 500
    marks = ",".join(f"{session.facts.block_message[row]}:0" for row in find_results(session)[:3])
    assert compute_next_request(ct.plan(session, "manual", clear=marks), None, table).removed_tokens > 500
    policy = POLICIES["claude-code-auto"]
    replayed = replay_recording(Recording(session.with_window(24_000)), policy, policy.Params())
    assert len({*replayed.sizes[-5:]}) > 3, "messages appended after a summary count"


def test_a_later_text_like_a_summary_carries_nothing_that_was_put_back(tmp_path: Path) -> None:
    def build_turn(number: int, size: int, prefix: str = "") -> list[dict[str, Any]]:
        tokens = {"input": size, "output": 10, "cached": 0, "thoughts": 0, "tool": 0, "total": size + 10}
        typed = gemini_cli.user(f"u{number}", [{"text": prefix + "u" * 800}])
        return [typed, gemini_cli.gemini(f"g{number}", "a" * 800, tokens=tokens)]

    snapshot = gemini_cli.user("s", [{"text": "<state_snapshot>" + "S" * 4_000}])
    compressed = {"$set": {"messages": [snapshot, gemini_cli.gemini("r", "Got it.", tokens=None)]}}
    records = [*build_turn(0, 20_000), *build_turn(1, 20_800), *build_turn(2, 21_600), compressed]
    records += [*build_turn(5, 41_000), *build_turn(6, 41_500, "<state_snapshot>"), *build_turn(7, 42_000)]
    session = ct.open_session(gemini_cli.lines(tmp_path / "session.jsonl", *records))
    table = build_calibrated_table(session.facts)
    order = session.context_at().order
    put_back = measure_context(session.context_at(), table).put_back
    request = compute_next_request(ct.plan(session, "manual", cut=order[3]), "Done.", table)
    assert put_back > 10_000 and request.removed_tokens > put_back - 1_000
    assert check_replays(session)


@pytest.mark.parametrize(
    "wrong",
    [
        *(None, [], 7, {"fixed": -1}, {"tokens": 4}, {"tokens": 10**30}),
        *({"factors": {}}, {"error": "0.1"}, {"size_error": 1e9}),
    ],
)
def test_an_invalid_note_is_ignored(wrong: Any) -> None:
    facts = Facts()
    assert build_size_note(facts, Losses()) == {}
    facts.size_basis = SizeBasis(10, 5, PRIOR, 0.1, 0.1)
    valid = build_size_note(facts, Losses())
    assert parse_size_note(json.loads(json.dumps(valid))) == facts.size_basis
    note = valid[SIZE_NOTE] | wrong if isinstance(wrong, dict) else wrong
    assert parse_size_note({SIZE_NOTE: note}) is None


def test_the_noted_size_lacks_what_was_left_out() -> None:
    facts, losses = Facts(), Losses()
    facts.set_size_basis(SizeBasis(1_000, 300, replace(PRIOR, result=1.5, image=200.0), 0.1, 0.1))
    losses.omit("results left out", {"type": "tool_result", "content": "x" * 400})
    assert build_size_note(facts, losses)[SIZE_NOTE]["tokens"] == 850
    losses.omit("images left out", {"type": "image", "source": {}})
    assert build_size_note(facts, losses)[SIZE_NOTE]["tokens"] == 650
    losses.omit("results left out", {"type": "tool_result", "content": "x" * 4_000})
    assert build_size_note(facts, losses)[SIZE_NOTE]["tokens"] == 300


def test_a_copy_has_the_error_of_the_session_it_was_made_of() -> None:
    session = ct.open_session(SAMPLES[0].with_name("coding-session.jsonl"))
    account = measure_context(session.context_at(), build_calibrated_table(session.facts))
    assert account.source == "calibrated" and account.error < 0.1
    for cut in (40, 80):
        session = ct.apply(session, ct.plan(session, "manual", cut=cut), "What was done.")
        copy = measure_context(session.context_at(), build_calibrated_table(session.facts))
        assert (copy.source, copy.error, copy.size_error) == (account.source, account.error, account.size_error)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_nine_of_ten_requests_lie_in_the_predicted_range() -> None:
    within = list[bool]()
    for session in open_sessions(sorted(path for path in CORPUS.rglob("*.jsonl") if path.is_file())):
        facts, drops = session.facts, {drop.message for drop in session.drops}
        if len(facts.requests) < 14:
            continue
        table = build_calibrated_table(facts)
        for row in range(1, len(facts.requests), 11):
            message, recorded = facts.request_message[row], facts.requests[row].context
            account = measure_context(session.context_at(message), table)
            if account.recorded is not None and recorded and message not in drops:
                within.append(account.size.low <= recorded <= account.size.high)
    assert len(within) > 200 and sum(within) > 0.9 * len(within)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_the_first_requests_after_compactions_lie_in_the_predicted_range() -> None:
    within = list[bool]()
    for session in open_sessions(sorted(path for path in CORPUS.rglob("*.jsonl") if path.is_file())):
        for each in find_recorded_compactions(session):
            if each.kind == "full" and each.recorded_tokens_after and each.context_before.order:
                table = build_calibrated_table(session.facts)
                if measure_context(each.context_before, table).recorded is not None:
                    size = measure_context(each.context_after, table).size
                    within.append(size.low <= each.recorded_tokens_after <= size.high)
    assert len(within) >= 13 and sum(within) >= 0.9 * len(within)


def predict_errors(session: Session, table: TokenTable, step: int) -> list[int]:
    """Return the errors of the sizes predicted for recorded requests, without those after a silent drop."""
    facts, drops, errors = session.facts, {drop.message for drop in session.drops}, list[int]()
    for row in range(1, len(facts.requests), step):
        message, recorded = facts.request_message[row], facts.requests[row].context
        account = measure_context(session.context_at(message), table)
        if account.recorded is not None and recorded and message not in drops:
            errors.append(abs(account.tokens - recorded))
    return errors


def without_outputs(table: TokenTable) -> TokenTable:
    calibrations = (each._replace(output_overheads=(None, None)) for each in table.calibrations)
    return replace(table, calibrations=tuple(calibrations))


def test_a_recorded_output_is_the_size_of_its_reply() -> None:
    session = ct.open_session(SAMPLES[0].with_name("coding-session.jsonl"))
    table = build_calibrated_table(session.facts)
    assert median(predict_errors(session, table, 1)) <= 3
    assert median(predict_errors(session, without_outputs(table), 1)) > 10


def holds_content(session: Session, table: TokenTable, row: int) -> bool:
    """Whether a request is not much smaller than the messages before it, as one of another conversation may be."""
    context = session.context_at(session.facts.request_message[row])
    return session.facts.requests[row].context >= 0.7 * measure_context(context, table).content


def check_parts(session: Session, step: int) -> None:
    """Hold the parts of every context of a recorded request to that request, and what no policy removes to all."""
    facts, table = session.facts, build_calibrated_table(session.facts)
    for row in [*range(0, len(facts.requests), step), len(facts.requests)]:
        at = facts.request_message[row] if row < len(facts.requests) else len(session)
        context = session.context_at(at)
        account = measure_context(context, table)
        parts = measure_breakdown(context, table).by_category
        assert all(tokens >= 0 for tokens in parts.values())
        assert sum(parts.values()) == account.tokens or not any(parts.values())
        if account.tokens >= account.fixed:
            assert parts["not_in_file"] == (account.not_in_file or 0)
        past = [row for row in range(len(facts.requests)) if facts.request_message[row] < at]
        same_model = [row for row in past if facts.request_model[row] == facts.request_model[past[-1]]]
        if past and facts.size_basis is None and not facts.holds_requests:
            sized = [row for row in same_model if has_valid_size(facts, row)]
            whole = [row for row in sized if holds_content(session, table, row)] or past[:1]
            assert account.fixed <= min((facts.requests[row].context for row in whole), default=account.fixed)
    if facts.requests and facts.requests[0].context and not facts.holds_requests:
        first = session.context_at(facts.request_message[0])
        in_file = sum(table.prompt_at(facts, first.at)) + table.compute_prefix_sums(first)[-1]
        assert in_file <= facts.requests[0].context or first.replacements


def test_parts_are_no_larger_than_the_request_in_samples() -> None:
    for session in open_sessions(SAMPLES):
        check_parts(session, 1)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recording=conversations())
def test_parts_are_no_larger_than_the_request_in_random_recordings(tmp_path: Path, recording: Recorder) -> None:
    check_parts(recording.open(tmp_path), 1)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_parts_are_no_larger_than_the_request_in_real_sessions() -> None:
    for session in open_sessions(sorted(path for path in CORPUS.rglob("*") if path.is_file())):
        check_parts(session, 9)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_recorded_outputs_predict_requests_better_in_every_format() -> None:
    errors: dict[str, list[list[int]]] = {}
    for session in open_sessions(sorted(path for path in CORPUS.rglob("*") if path.is_file())):
        if len(session.facts.requests) >= 14:
            table = build_calibrated_table(session.facts)
            by_table = errors.setdefault(session.info.format, [[], []])
            for tables, column in zip((table, without_outputs(table)), by_table, strict=True):
                column += predict_errors(session, tables, 7)
    assert len(errors) >= 4
    assert all(mean(by_output) < mean(by_content) for by_output, by_content in errors.values())
