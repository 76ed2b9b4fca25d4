"""`context-tui compare`: what is printed, what is sent to whom, and what happens when a server fails."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from context_tui.cli import main
from tests.formats import recordings
from tests.formats.recordings import call, result, text, usage

SECRET = "AKIAABCDEFGHIJKLMNOP"
ESC = "\x1b]0;title\x07"
PARAMS = ("-p", "threshold=8000")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Twelve turns with a rule, a file and a failure each, a secret in the first."""
    made = recordings.Recording()
    for turn in range(12):
        made.user(f"Never remove gadget{turn} of machine{turn}{ESC}. My key is {SECRET if not turn else 'gone'}.")
        made.assistant(call(f"c{turn}", "Read", file_path=f"src/part{turn}.py"), use=usage(0, read=9_000))
        made.results(result(f"c{turn}", f"fatal: part{turn} cannot load\n" + "filler words\n" * 180, is_error=True))
        made.assistant(text(f"It takes {turn + 2} seconds."), use=usage(0, read=9_500))
    return made.write(tmp_path)


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["compare", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err and "internal error" not in err
    assert not any(ord(char) < 32 and char != "\n" for char in out + err)
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *arguments: object, exits: int = 0) -> tuple[dict[str, Any], str]:
    code, out, err = ran(capsys, *arguments, "--json")
    assert code == exits and out.isascii()
    found: dict[str, Any] = json.loads(out)
    return found, err


def replying(body: bytes, status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def chunks(words: str, prompt: int = 7_000, output: int = 21) -> bytes:
    """A reply in OpenAI's format with its usage."""
    parts: list[dict[str, Any]] = [
        {"model": f"real{ESC}", "choices": [{"index": 0, "delta": {"content": words}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": output}},
    ]
    return b"".join(f"data: {json.dumps(part)}\n\n".encode() for part in parts) + b"data: [DONE]\n\n"


@contextmanager
def serving(reply: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on this machine: its base URL, and the bodies that it is sent."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            reply(self)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()


EXTRACTS = ("--summarizer", "extract", "--summarizer", "extract,bytes=900")


def test_two_extracts_need_no_network(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    report, err = document(capsys, session, *PARAMS, *EXTRACTS)
    assert err == ""
    assert report["schema"] == "context-tui.compare/1"
    assert (report["policy"], report["points"], report["reason"]) == ("defect-compact", [48], None)
    head = report["head"]
    assert (head["first"], head["estimator"]) == (0, "bytes/4") and head["messages"] == head["last"] + 1
    first, second = report["summarizers"]
    assert [each["name"] for each in (first, second)] == ["A", "B"]
    assert (first["kind"], first["model"], first["host"], first["spec"]) == ("extract", None, None, "extract")
    (made,) = first["rounds"]
    assert made["cost"] == 0 and made["tokens"] == {
        "estimated": made["tokens"]["estimated"],
        "output": None,
        "input": None,
    }
    assert made["tokens"]["estimated"] > second["rounds"][0]["tokens"]["estimated"] > 0
    assert sum(made["kept"].values()) == sum(each["kept"] for each in made["facts"])
    assert len(made["facts"]) == len(report["facts"])
    for fact, kept in zip(report["facts"], made["facts"], strict=True):
        assert fact["message"] <= head["last"] and fact["looked_for"]
        assert kept["evidence"] and (not kept["kept"] or kept["evidence"] in " ".join(made["text"].split()))
    assert SECRET not in json.dumps(report["facts"])
    assert {check["name"] for check in made["checks"]} >= {"no loop", "smaller"}


def test_the_text_tells_survival_losses_and_who(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    code, out, err = ran(capsys, session, *PARAMS, *EXTRACTS)
    assert (code, err) == (0, "")
    assert "A: extract (extract)" in out and "B: extract (extract,bytes=900)" in out
    (total,) = (line.split() for line in out.splitlines() if line.split()[:1] == ["all"])
    report, _ = document(capsys, session, *PARAMS, *EXTRACTS)
    kept = [sum(each["rounds"][0]["kept"].values()) for each in report["summarizers"]]
    assert total[1:] == [str(each) for each in (len(report["facts"]), sum(f["shown"] for f in report["facts"]), *kept)]
    lost = out.split("lost facts")[1]
    assert "src/part" in lost and "kept  lost" in lost and "kept  kept" not in lost


def test_repeated_compaction_shows_the_decay(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    _, out, _ = ran(capsys, session, *PARAMS, *EXTRACTS, "--repeat", 3)
    assert "facts of the first head, after each compaction" in out
    report, _ = document(capsys, session, *PARAMS, *EXTRACTS, "--repeat", 3)
    assert len(report["points"]) == 3 and report["points"][-1] == 48
    for each in report["summarizers"]:
        kept = [sum(made["kept"].values()) for made in each["rounds"]]
        assert len(kept) == 3 and kept[0] >= kept[1] >= kept[2]
        rows = [line.split() for line in out.splitlines() if line.split()[:2] == ["2", str(report["points"][1])]]
        assert str(kept[1]) in rows[0] and str(each["rounds"][1]["kept"]["constraint"]) in rows[1]


def test_a_model_is_asked_for_the_same_head_as_an_extract(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    words = "## Goal\nDo not remove gadget0 of machine0.\n\n## Relevant Files\n- src/part0.py\n"
    with serving(replying(chunks(words))) as (url, bodies):
        report, err = document(
            capsys, session, *PARAMS, "--summarizer", f"openai:asked@{url}", "--summarizer", "extract", "--mask-secrets"
        )
    host = url.removeprefix("http://").removesuffix("/v1")
    assert "A: sending est. " in err and f"tokens to asked at {host}" in err
    assert "A: suspected secrets, masked: 1 AWS key id" in err
    (body,) = bodies
    assert body["model"] == "asked" and SECRET not in json.dumps(body)
    assert json.dumps(body).count("fatal: part0 cannot load") == 1
    assert report["summarizers"][0]["model"] == "asked" and report["summarizers"][0]["host"] == host
    (made,) = report["summarizers"][0]["rounds"]
    assert made["tokens"]["output"] == 21 and made["tokens"]["input"] == 7_000 and made["cost"] is None
    assert made["model"].startswith("real") and 0 < made["seconds"] < 60 and made["stop_reason"] == "stop"
    kept = {fact["text"] for fact, each in zip(report["facts"], made["facts"], strict=True) if each["kept"]}
    assert any(text.startswith("Never remove gadget0") for text in kept) and "src/part0.py" in kept
    assert not any("gadget1 " in text for text in kept) and made["kept"]["error"] == 0
    assert [check["name"] for check in made["checks"] if not check["ok"]][:1] == ["sections"]
    assert SECRET not in report["summarizers"][1]["rounds"][0]["text"]


def test_without_masking_that_is_told(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    with serving(replying(chunks("src/part0.py"))) as (url, bodies):
        _, out, err = ran(
            capsys, session, *PARAMS, "--summarizer", f"openai:a@{url}", "--summarizer", f"openai:b@{url}"
        )
    assert err.count("suspected secrets, NOT masked: 1 AWS key id") == 2
    assert [body["model"] for body in bodies] == ["a", "b"] and SECRET in json.dumps(bodies[0])
    assert bodies[0]["messages"] == bodies[1]["messages"]
    assert "unknown" in out  # what it cost


def test_a_prompt_from_a_file_is_sent(capsys: pytest.CaptureFixture[str], session: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "mine.txt"
    prompt.write_text("Only list the files.")
    with serving(replying(chunks("src/part0.py"))) as (url, bodies):
        report, _ = document(
            capsys,
            session,
            *PARAMS,
            *("--summarizer", f"openai:m@{url}", "--summarizer", f"openai:m@{url},prompt={prompt},max_tokens=50"),
        )
    usual, own = bodies
    assert own["messages"][0] == {"role": "system", "content": "Only list the files."}
    assert usual["messages"][1:-1] == own["messages"][1:-1] and usual["messages"][0] != own["messages"][0]
    assert 50 in own.values() and 50 not in usual.values()
    checks = [{c["name"]: c["ok"] for c in each["rounds"][0]["checks"]} for each in report["summarizers"]]
    assert [each["sections"] for each in checks] == [False, True]


def test_when_an_endpoint_fails_the_other_is_shown(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    refusal = json.dumps({"error": {"message": f"no such model{ESC}", "type": "x"}}).encode()
    with serving(replying(refusal, 404)) as (url, _):
        given = (session, *PARAMS, "--summarizer", f"openai:m@{url}", "--summarizer", "extract", "--repeat", 2)
        report, err = document(capsys, *given, exits=3)
        code, out, _ = ran(capsys, *given)
    failed, extract = report["summarizers"]
    assert len(failed["rounds"]) == 1 and failed["rounds"][0]["facts"] == [] and failed["rounds"][0]["kept"] is None
    assert "no such model" in failed["rounds"][0]["error"] and "A: " in err.splitlines()[-1]
    assert len(extract["rounds"]) == 2 and sum(extract["rounds"][0]["kept"].values()) > 0
    assert code == 3 and "failed" in out and " all " in out


def test_a_call_has_a_time_limit(capsys: pytest.CaptureFixture[str], session: Path) -> None:
    with serving(lambda handler: time.sleep(2)) as (url, _):
        began = time.monotonic()
        report, _ = document(
            capsys,
            session,
            *PARAMS,
            *("--summarizer", "extract", "--summarizer", f"openai:m@{url},timeout=0.3"),
            exits=3,
        )
        assert time.monotonic() - began < 10
    assert "0.3 s" in report["summarizers"][1]["rounds"][0]["error"]


def test_a_key_in_the_environment_is_no_consent(
    capsys: pytest.CaptureFixture[str], session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(replying(chunks("x"))) as (url, bodies):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        assert ran(capsys, session, *PARAMS, *EXTRACTS)[0] == 0
        assert bodies == []
        code, _, err = ran(capsys, session, *PARAMS, "--summarizer", "openai", "--summarizer", "extract")
        assert code == 0 and len(bodies) == 1 and "sk-test" not in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "compare needs two summarizers"),
        (("--summarizer", "extract"), "compare needs two summarizers"),
        (("--summarizer", "extract", "--summarizer", "gpt"), "unknown summarizer 'gpt'"),
        ((*EXTRACTS, "--repeat", "0"), "repeat=0"),
        ((*EXTRACTS, "--repeat", "x"), "not a number of compactions"),
        ((*EXTRACTS, "--repeat", "2", "-P", "manual"), "leave --repeat out"),
        ((*EXTRACTS, "-P", "no-such"), "unknown policy"),
        ((*EXTRACTS, "-P", "defect-microcompact", "-p", "keep_recent_turns=1"), "nothing to summarise here"),
        ((*EXTRACTS, "--at", "99"), "message 99 is not in the session"),
        (("--summarizer", "openai@http://127.0.0.1:9,prompt=/no/such", "--summarizer", "extract"), "cannot be read"),
        (("--summarizer", "openai@http://127.0.0.1:9,prompt=/dev/null", "--summarizer", "extract"), "a prompt is 1 to"),
    ],
)
def test_bad_usage_is_one_line(
    capsys: pytest.CaptureFixture[str], session: Path, arguments: tuple[str, ...], says: str
) -> None:
    code, out, err = ran(capsys, session, *PARAMS[: 0 if "-P" in arguments else 2], *arguments)
    assert code == 2 and not out
    assert says in err and err.count("\n") == 1


def test_nothing_to_summarise_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = recordings.Recording()
    made.user("hello")
    code, out, err = ran(capsys, made.write(tmp_path), *EXTRACTS)
    assert (code, out) == (0, "") and "nothing to summarise" in err
    report, _ = document(capsys, made.write(tmp_path), *EXTRACTS)
    assert report["summarizers"] == report["facts"] == [] and "nothing to summarise" in report["reason"]


def test_help_tells_how_a_summarizer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, "--help")
    assert code == 0
    for words in ("openai:qwen2.5:7b@http://127.0.0.1:8080/v1", "prompt=mine.txt", "--repeat N", "Exit code 3"):
        assert words in out
