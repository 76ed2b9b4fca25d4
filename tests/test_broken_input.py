"""Files that something has happened to: an answer or a clear error, never a traceback, never a hang."""

from __future__ import annotations

import contextlib
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import context_tui as ct
from context_tui.cli import main
from context_tui.formats.base import scan
from context_tui.formats.claude_code import ClaudeCodeFormat
from context_tui.session.session import SessionInfo
from tests.formats.recordings import Recording, call, conversations, result, text

COMMANDS = [
    ["inspect"],
    ["inspect", "--json", "--messages"],
    ["plan", "-P", "chain", "--json"],
    ["plan", "-P", "koda-microcompact", "--ignore-trigger"],
    ["plan", "-P", "agent-sdk-prune", "-p", "max_chars=1", "-p", "preserve_tail=0", "--json"],
    ["apply", "-P", "agent-sdk-compact", "-p", "min_keep=1", "--force"],
    ["apply", "-P", "agent-sdk-prune", "-p", "max_chars=1", "--force", "--to", "openai"],
]
SAMPLES = sorted((Path(__file__).parents[1] / "sample_sessions").glob("*.json*"))


def survives(path: Path, command: list[str]) -> int:
    """Run a command on a file; returns its exit code after looking at what it said."""
    name, *rest = command
    out = ["-o", str(path.parent / "out")] if name == "apply" else []
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main([name, str(path), *rest, *out])
    said = stdout.getvalue() + stderr.getvalue()
    assert "Traceback" not in said and "internal error" not in said, said[-300:]
    assert code in (0, 1, 2)
    if code:
        assert stdout.getvalue() == "" and stderr.getvalue(), said
    elif "--json" in rest:
        assert json.loads(stdout.getvalue())
    return code


def damaged(data: bytes, draw: st.DataObject) -> bytes:
    """What storage, other programs and people do to files."""
    dice = random.Random(draw.draw(st.integers(0, 2**32)))
    lines = data.split(b"\n")
    for _ in range(draw.draw(st.integers(1, 4))):
        match draw.draw(st.sampled_from("cut flip drop double swap zeros quote null number nest join insert".split())):
            case "cut":
                data = data[: dice.randrange(len(data) + 1)]
            case "flip" if data:
                at = dice.randrange(len(data))
                data = data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
            case "drop":
                del lines[dice.randrange(len(lines)) :][:1]
                data = b"\n".join(lines[: dice.randrange(len(lines) + 1)] + lines[dice.randrange(len(lines) + 1) :])
            case "double":
                data = data + data
            case "swap":
                dice.shuffle(lines)
                data = b"\n".join(lines)
            case "zeros":
                at = dice.randrange(len(data) + 1)
                data = data[:at] + b"\0" * 50 + data[at:]
            case "quote":
                data = data.replace(b'":"', b'":', dice.randrange(3))
            case "null":
                name = dice.choice([b"content", b"message", b"usage", b"id", b"type", b"input", b"timestamp", b"uuid"])
                data = data.replace(b'"%s":' % name, b'"%s":null,"x":' % name, dice.randrange(9))
            case "number":
                data = data.replace(b'":"', b'":1,"y":"', dice.randrange(9))
            case "nest":
                data = data.replace(b'":"', b'":[[{"z":"', dice.randrange(2)).replace(
                    b'"}', b'"}]]}', dice.randrange(2)
                )
            case "join":
                data = data.replace(b"\n", b" ", dice.randrange(5))
            case "insert":
                at = dice.randrange(len(data) + 1)
                data = data[:at] + bytes(dice.randrange(256) for _ in range(9)) + data[at:]
    return data


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(recording=conversations(), draw=st.data(), command=st.sampled_from(COMMANDS))
def test_damaged_recordings(tmp_path: Path, recording: Recording, draw: st.DataObject, command: list[str]) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(damaged(recording.data, draw))
    survives(path, command)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(sample=st.sampled_from(SAMPLES), draw=st.data(), command=st.sampled_from(COMMANDS))
def test_damaged_samples(tmp_path: Path, sample: Path, draw: st.DataObject, command: list[str]) -> None:
    data = sample.read_bytes()
    path = tmp_path / sample.name
    path.write_bytes(damaged(data[:60_000] if sample.suffix == ".jsonl" else data, draw))
    survives(path, command)


NAMES = (
    "type message content id role usage tool_use_id input name text thinking signature source data uuid parentUuid "
    "isSidechain isMeta attachment compactMetadata subtype timestamp input_tokens"
).split()
TYPES = ["user", "assistant", "system", "attachment", "text", "tool_use", "tool_result", "image"]
shapes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner | st.sampled_from(TYPES), max_size=6)
    ),
    max_leaves=25,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(shapes, max_size=12))
def test_records_of_any_shape(tmp_path: Path, records: list[Any]) -> None:
    path = tmp_path / "s.jsonl"
    first = b'{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"x"}}\n'
    path.write_bytes(first + b"".join(json.dumps(record).encode() + b"\n" for record in records))
    session = scan(ClaudeCodeFormat().make_scanner(path, SessionInfo(str(path), "claude-code")))
    assert len(session.facts.record_kind) == 1 + len(records)
    ct.from_messages(session.to_messages())
    survives(path, COMMANDS[1])


@pytest.mark.parametrize("to", ["claude-code", "anthropic", "markdown"])
def test_unreadable_records_are_losses_of_a_plan_and_an_export(
    tmp_path: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = SAMPLES[0].with_name("broken-on-purpose.jsonl")
    count = json.loads(_run(capsys, "inspect", source, "--json"))["records"]["problems"]
    loss = f"unreadable records of the session left out: {count}"
    options = ("-P", "manual", "-p", "clear=2:0")
    assert count > 0 and json.loads(_run(capsys, "plan", source, *options, "--json"))["losses"] == [loss]
    assert f"note: {loss}\n" in _run(capsys, "plan", source, *options)
    apply = ("apply", source, *options, "--to", to)
    assert loss in json.loads(_run(capsys, *apply, "--dry-run", "--json"))["losses"]
    assert f"note: {loss}\n" in _run(capsys, *apply, "-o", tmp_path / "out")


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(each) for each in arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_hundred_megabytes_on_a_line(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("first")
    recording.assistant(call("t1"))
    recording.results(result("t1", "PUT"))
    recording.assistant(text("done"))
    path = tmp_path / "s.jsonl"
    path.write_bytes(recording.data.replace(b"PUT", b"x\\n" * 50_000_000))
    assert survives(path, COMMANDS[1]) == 0
    session = ct.open_session(path)
    assert ct.tokens.estimate(session.message(2)) == 25_000_000
