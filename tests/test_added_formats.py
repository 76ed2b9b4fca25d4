"""Formats that other packages add: the worked example of the docs, installed, with nothing of ours changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "docs" / "examples" / "format"

LOG: list[dict[str, object]] = [
    {"kind": "start", "model": "lumen-2", "window": 64_000, "system": "You write code."},
    {"kind": "user", "at": "2026-03-01T10:00:00Z", "text": "Say what a.py does."},
    {
        **{"kind": "reply", "at": "2026-03-01T10:00:05Z", "text": "I look."},
        "calls": [{"id": "c1", "tool": "read", "with": {"path": "a.py"}}],
        "tokens": {"in": 2_000, "cached": 1_500, "out": 40},
    },
    {"kind": "result", "call": "c1", "ok": True, "text": "x = 1\n" * 900},
    {"kind": "cleared", "calls": ["c1"]},
    {"kind": "reply", "text": "It sets x.", "tokens": {"in": 900, "cached": 0, "out": 9}},
    {"kind": "user", "text": "And b.py?"},
    {"kind": "summary", "text": "So far: a.py sets x.", "kept": 1, "before": 60_000},
    {"kind": "reply", "text": "", "calls": [{"id": "c2", "tool": "read", "with": {"path": "b.py"}}]},
    {"kind": "result", "call": "c2", "ok": False, "text": "no such file " * 500},
    {"kind": "reply", "text": "There is none.", "tokens": {"in": 3_000, "cached": 900, "out": 12}},
    {"kind": "user", "text": "One."},
    {"kind": "reply", "text": "1."},
    {"kind": "user", "text": "Two."},
    {"kind": "reply", "text": "2."},
    {"kind": "user", "text": "Three."},
    {"kind": "sneeze"},
]


def installed(folder: Path, module: str, entry_point: str) -> dict[str, str]:
    """The environment of a process that has a package installed, of which there is one module in *folder*."""
    about = folder / "added-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: added\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[context_tui.formats]\n{entry_point}\n")
    (folder / "added.py").write_text(module)
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(environ: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "context_tui", *map(str, arguments)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def lumen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the example is installed, by pip, as its pyproject says."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    copied = tmp_path_factory.mktemp("source")
    for file in EXAMPLE.iterdir():
        if file.is_file():
            (copied / file.name).write_bytes(file.read_bytes())
    subprocess.run([*pip, "--target", str(target), str(copied)], check=True, timeout=120)
    return {**os.environ, "PYTHONPATH": str(target)}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "fix.lumen"
    path.write_text("".join(json.dumps(record) + "\n" for record in LOG) + '{"kind": "us')
    return path


@pytest.mark.slow
def test_an_added_format_is_listed_and_opened(lumen: dict[str, str], log: Path) -> None:
    listed = json.loads(run(lumen, "formats", "--json").stdout)
    assert listed["formats"][-1]["name"] == "lumen" and listed["broken"] == []
    report = json.loads(run(lumen, "inspect", log, "--json", "--messages").stdout)
    assert report["session"] == {
        **report["session"],
        **{"format": "lumen", "model": "lumen-2", "context_window": 64_000, "context_window_source": "file"},
    }
    assert report["records"] == {"total": 18, "messages": 14, "side": 2, "problems": 2}
    assert [problem["where"] for problem in report["problems"]] == ["line 17", "line 18"]
    assert [(c["kind"], c["message"], c["tokens_before_in_file"]) for c in report["compactions"]] == [
        ("micro", 3, None),
        ("full", 5, 60_000),
    ]
    assert report["window"]["recorded_tokens"] == 3_000
    assert report["window"]["indices"][:2] == [5, 4]  # the summary, and the message that it kept


def test_a_folder_of_them_is_listed_too(lumen: dict[str, str], log: Path) -> None:
    assert "fix.lumen" in run(lumen, "inspect", log.parent).stdout


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["defect-compact", "manual"])
def test_a_plan_is_made_and_carried_out(lumen: dict[str, str], log: Path, tmp_path: Path, policy: str) -> None:
    chosen = ["-P", policy, *(["-p", "clear=7:0"] if policy == "manual" else [])]
    planned = json.loads(run(lumen, "plan", log, *chosen, "--json").stdout)
    out = tmp_path / "after.lumen"
    done = run(lumen, "apply", log, *chosen, "-o", out, "--json")
    if not planned["changed"]:
        assert not out.exists()
        return
    applied = json.loads(done.stdout)
    assert applied["format"] == "lumen" and applied["resume"] == f"lumen --continue {out}"
    again = json.loads(run(lumen, "inspect", out, "--json", "--ruler", "own").stdout)
    assert again["window"]["estimated_tokens"] - again["by_category"]["system"] == applied["tokens"]["after"]


@pytest.mark.slow
@pytest.mark.parametrize("to", ["anthropic", "openai", "claude-code", "koda"])
def test_it_is_exported_to_every_other_format(lumen: dict[str, str], log: Path, tmp_path: Path, to: str) -> None:
    out = tmp_path / "out.bin"
    chosen = ["-P", "manual", "-p", "clear=7:0", "--to", to]
    applied = json.loads(run(lumen, "apply", log, *chosen, "-o", out, "--json").stdout)
    assert applied["check"]["introduced"] == [] and out.stat().st_size


@pytest.mark.slow
def test_a_package_that_cannot_be_used_is_said_and_takes_nothing_down(tmp_path: Path) -> None:
    environ = installed(tmp_path, "import nowhere_to_be_found\n", "lost = added:Lost")
    sample = ROOT / "sample_sessions" / "coding-session.jsonl"
    assert run(environ, "inspect", sample).returncode == 0
    listed = run(environ, "formats")
    assert listed.returncode == 0
    assert listed.stderr.startswith("format lost of package added is not used: ModuleNotFoundError")


def test_none_takes_the_place_of_another_or_does_less_than_it_must(tmp_path: Path) -> None:
    environ = installed(tmp_path, "class Half:\n    name = 'half'\n", "claude-code = added:Half\nhalf = added:Half")
    broken = json.loads(run(environ, "formats", "--json").stdout)["broken"]
    assert {each["name"]: each["why"] for each in broken} == {
        "claude-code": "a built-in one has the same name",
        "half": "it does not derive from formats.base.Format",
    }


def test_one_that_fails_to_look_at_a_file_leaves_it_to_the_others(tmp_path: Path) -> None:
    module = (
        "from context_tui.formats.base import Format\n\n\nclass Wild(Format):\n    name = about = 'wild'\n\n"
        "    def sniff(self, head, path):\n        raise RuntimeError(path)\n\n"
        "    def list_sessions(self, path):\n        return []\n\n"
        "    def make_scanner(self, path, info):\n        return None\n"
    )
    environ = installed(tmp_path, module, "wild = added:Wild")
    assert run(environ, "inspect", ROOT / "sample_sessions" / "coding-session.jsonl").returncode == 0


WILD = """
from context_tui.formats.base import Claim, Format
from context_tui.formats.kit.line_scanner import LineScanner, list_only_session
from context_tui.formats.kit.message_builder import MessageRecord
from context_tui.session.losses import Losses
from context_tui.session.values import Role


class Shape:
    def parse(self, record):
        return MessageRecord(Role.USER, [{"type": "text", "text": record["wild"]}])


class Wild(Format):
    name = about = "wild"
    suffixes = (".jsonl",)

    def sniff(self, head, path):
        return Claim(99, "wild") if head.startswith(b'{"wild"') else None

    def list_sessions(self, path):
        return list_only_session(path, self.name)

    def make_scanner(self, path, info):
        return LineScanner(path, info, Shape)

    def write(self, session, path):
        path.write_text('{"wild": "x"}')
        return Losses()

"""


FAILING = [
    ("def list_sessions(self, path): raise RuntimeError('no luck')", "RuntimeError: no luck"),
    ("def list_sessions(self, path): return ['x']", "gave str, not SessionInfo"),
    ("def list_sessions(self, path): return None", "TypeError: 'NoneType' object is not iterable"),
    ("def make_scanner(self, path, info): raise KeyError('x')", "KeyError: 'x' (added.py:31)"),
    *(
        (
            f"Shape.parse = lambda *a: {record}",
            f"holds no known record; line 1: {words}",
        )
        for record, words in (
            ("None", "not understood: TypeError: parse returned NoneType, not a record"),
            ("MessageRecord('user', [])", "its role, blocks, time are str, list, int, not Role, list, int"),
            ("MessageRecord(Role.USER, 'x')", "its role, blocks, time are Role, str, int, not Role, list, int"),
        )
    ),
    ("def make_scanner(self, path, info): return None", "AttributeError: 'NoneType' object has no attribute 'advance'"),
    (
        "def make_scanner(self, path, info): Shape.parse = lambda *a: 1 // 0; return LineScanner(path, info, Shape)",
        "holds no known record; line 1: not understood: ZeroDivisionError: integer division or modulo by zero",
    ),
    ("def make_lister(self): raise RuntimeError('no luck')", ""),
    ("def sniff(self, head, path): return True", "unknown session format"),
    ("def sniff(self, head, path): return Claim('high', 'x')", "unknown session format"),
    ("def write(self, session, path): raise RuntimeError('no luck')", "RuntimeError: no luck"),
    ("def write(self, session, path): return None", "gave NoneType, not Losses"),
    ("unsupported_reason = lambda *a: 1 // 0", "ZeroDivisionError"),
]
"""Methods of a format that fail, and what is said then."""


@pytest.mark.parametrize(
    ("method", "words"),
    [pytest.param(*each, marks=() if number % 5 == 0 else pytest.mark.slow) for number, each in enumerate(FAILING)],
)
def test_one_that_fails_while_it_works_fails_in_a_line_and_alone(tmp_path: Path, method: str, words: str) -> None:
    environ = installed(tmp_path, f"{WILD}    {method}\n", "wild = added:Wild")
    folder, out = tmp_path / "logs", tmp_path / "out"
    folder.mkdir()
    log, good = folder / "a.jsonl", folder / "b.json"
    log.write_text('{"wild": "one"}\n{"wild": "two"}\n')
    good.write_text('[{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Yes."}]')
    done = run(environ, "inspect", good)
    assert (done.returncode, done.stderr) == (0, "")
    listed = run(environ, "inspect", folder)
    assert "b.json" in listed.stdout + listed.stderr and "unexpectedly" not in listed.stderr
    if not words:
        return
    done = run(environ, "apply", log, "-P", "manual", "-p", "cut=1", "-o", out)
    assert done.returncode in (1, 2) and words in done.stderr.splitlines()[-1] and not out.exists()
    assert "unexpectedly" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("suffixes", ["'.wild'", "()", "None", "('wild',)"])
def test_suffixes_are_checked(tmp_path: Path, suffixes: str) -> None:
    environ = installed(tmp_path, f"{WILD}    suffixes = {suffixes}\n", "wild = added:Wild")
    [broken] = json.loads(run(environ, "formats", "--json").stdout)["broken"]
    assert broken["why"] == "its suffixes are not a tuple of texts like '.jsonl'"


def test_one_that_was_written_for_older_names_says_what_to_rename(tmp_path: Path) -> None:
    old = WILD.replace("def list_sessions", "def sessions").replace("def make_scanner", "def scanner")
    environ = installed(tmp_path, f"{old}    def title(self, path): return 'x'\n", "wild = added:Wild")
    [broken] = json.loads(run(environ, "formats", "--json").stdout)["broken"]
    assert broken["why"] == (
        "it is written for an older context-tui: "
        "rename sessions to list_sessions, rename scanner to make_scanner, rename title to read_title"
    )


def test_a_shape_of_older_names_says_so_too(tmp_path: Path) -> None:
    environ = installed(tmp_path, WILD.replace("def parse(", "def part("), "wild = added:Wild")
    log = tmp_path / "a.jsonl"
    log.write_text('{"wild": "one"}\n')
    done = run(environ, "inspect", log)
    assert done.returncode == 2
    assert "Shape: it is written for an older context-tui: rename part to parse" in done.stderr


def test_one_that_lacks_a_method_is_not_used(tmp_path: Path) -> None:
    environ = installed(tmp_path, WILD.replace("def make_scanner", "def make_it"), "wild = added:Wild")
    [broken] = json.loads(run(environ, "formats", "--json").stdout)["broken"]
    assert broken["why"] == "it lacks make_scanner"


def test_a_record_that_it_fails_on_is_a_problem_of_its_line(tmp_path: Path) -> None:
    environ = installed(tmp_path, WILD, "wild = added:Wild")
    log = tmp_path / "a.jsonl"
    log.write_text('{"wild": "one"}\n{"tame": 1}\n{"wild": "two"}\n')
    report = json.loads(run(environ, "inspect", log, "--json").stdout)
    assert report["records"]["messages"] == 2
    assert [(each["where"], each["what"]) for each in report["problems"]] == [
        ("line 2", "not understood: KeyError: 'wild' (added.py:11)")
    ]


def test_the_minimal_format_of_the_documentation_works(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "formats.md").read_text()
    module = text.partition("```python\n")[2].partition("```")[0]
    environ = installed(tmp_path, module, "notes = added:NoteFormat")
    log = tmp_path / "a.notes"
    log.write_text('{"who": "person", "text": "Hello."}\n{"who": "model", "text": "Yes."}\n{"whom": 1}\n')
    report = json.loads(run(environ, "inspect", log, "--json").stdout)
    assert report["session"]["format"] == "notes" and report["records"]["messages"] == 2
    assert [each["where"] for each in report["problems"]] == ["line 3"]
