"""`context-tui compare` with a real model beside the extract: what a small model says is measured like the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_tui.cli import main
from tests.formats import recordings
from tests.formats.recordings import call, result, text

from .conftest import KEY, StartServer

pytestmark = pytest.mark.live

# Every reply is this: it names one file and one number of the head, and lets the model choose four letters.
GRAMMAR = (
    'root ::= "## Goal\\n- retry in src/part0.py after 2 seconds\\n## Progress\\n- " [a-z] [a-z] [a-z] [a-z] "\\n"'
)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Eight short turns, with a tail that fits into 2,000 tokens left out of the head."""
    made = recordings.Recording()
    for turn in range(8):
        made.user(f"Never remove gadget{turn} of machine{turn}.")
        made.assistant(call(f"c{turn}", "Read", file_path=f"src/part{turn}.py"))
        made.results(result(f"c{turn}", "filler words\n" * (20 if turn < 2 else 200)))
        made.assistant(text(f"It takes {turn + 2} seconds."))
    return made.write(tmp_path)


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_real_model_beside_the_extract(
    start: StartServer,
    session: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"{kind.upper()}_API_KEY", KEY)
    server = start("--ctx", "4096", "--key", KEY, "--grammar", GRAMMAR)
    model = f"{kind}:any@{server.url},max_tokens=200,timeout=120"
    given = ["-P", "manual", "-p", "cut=8", "--summarizer", model, "--summarizer", "extract", "--json"]
    assert main(["compare", str(session), *given]) == 0
    out, err = capsys.readouterr()
    report: dict[str, Any] = json.loads(out)
    assert "A: sending est." in err and f"tokens to any at 127.0.0.1:{server.port}" in err and KEY not in out + err
    made, extract = (each["rounds"][0] for each in report["summarizers"])
    kept = {fact["text"] for fact, each in zip(report["facts"], made["facts"], strict=True) if each["kept"]}
    assert kept == {"src/part0.py", "2 seconds"}
    assert sum(extract["kept"].values()) > len(kept)
    assert made["tokens"]["output"] > 10 and made["tokens"]["input"] > 200
    assert made["seconds"] > 0 and made["cost"] is None and made["model"]
    assert not any(check["name"] == "not cut" and not check["ok"] for check in made["checks"][:1])


def test_a_reply_that_never_ends_is_a_failure_and_the_extract_is_shown(
    start: StartServer, session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start("--ctx", "4096", "--grammar", "root ::= [a-z ] root")
    models = [f"openai:any@{server.url},max_tokens=20", f"openai:any@{server.url},timeout=1"]
    given = [word for spec in (*models, "extract") for word in ("--summarizer", spec)]
    assert main(["compare", str(session), "-P", "manual", "-p", "cut=8", *given, "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    cut, late, extract = (each["rounds"][0] for each in report["summarizers"])
    assert "cut off" in cut["error"] and "1 s" in late["error"]
    assert sum(extract["kept"].values()) > 0
