"""Record everything the program says of a set of sessions, and compare two such records.

A change that is meant to keep behaviour is made between two runs::

    python scripts/results.py record BEFORE sample_sessions ../shared/corpus
    python scripts/results.py record AFTER sample_sessions ../shared/corpus
    python scripts/results.py compare BEFORE AFTER

For each session it records ``inspect --messages``, a plan by every policy at three points, the context at these points
and every export as hashes, ``replay``, ``sweep`` with and without prices, and ``compare`` with the extract. Free text
(reasons, descriptions) is left out, so that wording can change; structure, numbers and enumerated values are held.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import itertools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import context_tui as ct  # noqa: E402
from context_tui import cli  # noqa: E402

FREE_TEXT = {
    "reason",
    "why",
    "diagnosis",
    "about",
    "evidence",
    "what",
    "notes",
    "advice",
    "limits",
    "seconds",
    "words",
    "guess",
    "detail",
    "losses",
    "out",
    "resume",
}
"""Members of JSON documents whose wording may change; lengths of lists of them are held."""
UUID_TEXT = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MODEST = 3_000_000
"""Size in bytes up to which a session is exported by every policy and swept with prices."""


def main(argv: Sequence[str] | None = None) -> int:
    """Record, or compare; returns 1 where two records differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("folder", type=Path)
    record.add_argument("paths", type=Path, nargs="+")
    record.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    record.add_argument("--only", default="", help="sessions with this text in their path")
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    options = parser.parse_args(argv)
    if options.command == "compare":
        return compare_records(options.before, options.after)
    return record_all(options.folder, options.paths, options.jobs, options.only)


def record_all(folder: Path, paths: list[Path], jobs: int, only: str) -> int:
    """Write a document for each session into *folder*; returns 0."""
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted({name for path in paths for name in session_names(path) if only in name}, key=size_of, reverse=True)
    start = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        for count, _ in enumerate(pool.map(record_session, names, [folder] * len(names)), 1):
            print(f"\r{count} of {len(names)}, {time.monotonic() - start:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    write_document(folder, "policies", run_json("policies", "--json"))
    write_document(folder, "formats", run_json("formats", "--json"))
    return 0


def size_of(name: str) -> int:
    """Return the size in bytes of the file of a session."""
    return Path(name.partition("#")[0]).stat().st_size


def session_names(path: Path) -> Iterator[str]:
    """List the sessions in a file or folder, as the command line names them."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    for file in files:
        with contextlib.suppress(ct.Error):
            for info in ct.sessions_in(file):
                yield f"{file}#{info.id}" if info.id else str(file)


def record_session(name: str, folder: Path) -> None:
    """Write the document of one session."""
    document: dict[str, Any] = {}
    for key, result in results_of(name):
        try:
            document[key] = result()
        except Exception as error:
            document[key] = f"{type(error).__name__}"
    write_document(folder, name, document)


def results_of(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name each result of a session, and give the function that computes it."""
    yield "inspect", lambda: run_json("inspect", name, "--json", "--messages", "--compactions")
    yield "calibrated", lambda: run_json("inspect", name, "--json", "--ruler", "calibrated")
    try:
        session = ct.open_session(name)
    except ct.Error as error:
        kind = type(error).__name__
        yield "open", lambda: kind
        return
    count = len(session)
    points = sorted({count, count // 2, count * 4 // 5})
    policies = [policy["name"] for policy in run_json("policies", "--json")["policies"]]
    for at in points:
        yield f"context at {at}", partial(context_hash, session, at)
        for policy in policies:
            yield f"plan {policy} at {at}", partial(plan_facts, session, policy, at)
    for policy in ("defect-microcompact", "claude-code-auto", "chain", "koda-microcompact"):
        yield f"plan --json {policy}", partial(run_json, "plan", name, "-P", policy, "--json")
    arguments = [word for policy in policies if policy != "manual" for word in ("-P", policy)]
    yield "replay", lambda: run_json("replay", name, *arguments, "--json")
    ignore = ("-P", "claude-code-auto", "-P", "codex", "--recorded", "ignore")
    yield "replay --recorded ignore", lambda: run_json("replay", name, *ignore, "--json")
    grid = ("-P", "defect-microcompact", "-p", "keep_recent_turns=1..4", "-P", "claude-code-auto", "--jobs", "1")
    yield "sweep --quick", lambda: run_json("sweep", name, *grid, "--quick", "--json")
    modest = size_of(name) <= MODEST
    if modest:
        yield "sweep", lambda: run_json("sweep", name, *grid, "--json")
        summarizers = ("--summarizer", "extract", "--summarizer", "extract,bytes=2000")
        yield "compare", lambda: run_json("compare", name, *summarizers, "--json")
    formats = [form["name"] for form in run_json("formats", "--json")["formats"] if form["writes"]]
    for form in [*formats, "markdown"]:
        for policy in ["none", "defect-microcompact", "defect-compact"] if modest else ["defect-compact"]:
            yield f"export {policy} to {form}", partial(export_facts, name, policy, form)


def context_hash(session: Any, at: int) -> str:
    """Return the hash of the context before message *at*."""
    return digest(session.to_messages(at))


def plan_facts(session: Any, policy: str, at: int) -> Any:
    """Return what a plan changes: totals, and edits, head and result as hashes."""
    plan = ct.plan(session, policy, at=at)
    edits = [(e.action, e.message, e.block, e.tool, e.call_id, e.tokens_before, e.tokens_after) for e in plan.edits]
    verdicts = [(message, block, str(verdict.code)) for message, block, verdict in plan.iterate_verdicts()]
    after = ct.apply(session, plan, summary="a summary")
    return {
        "changed": plan.has_changes,
        "tokens": [plan.tokens_before, plan.tokens_after],
        "boundary": plan.boundary,
        "fires": [plan.trigger.fires, plan.trigger.value, plan.trigger.threshold],
        "edits": digest(edits),
        "verdicts": digest(verdicts),
        "head": digest(plan.messages_to_summarise),
        "previous": digest(plan.previous_summary),
        "after": digest(after.to_messages()),
    }


def export_facts(name: str, policy: str, form: str) -> Any:
    """Apply a policy, and return the hash of the file and what the report says."""
    numbers = itertools.count(1)
    fixed = mock.patch("uuid.uuid4", lambda: UUID(int=next(numbers)))
    with tempfile.TemporaryDirectory() as folder, fixed:
        out = Path(folder) / "out"
        report = run_json("apply", name, "-P", policy, "-o", str(out), "--to", form, "--json")
        if out.is_dir():
            files = {str(file.relative_to(out)): digest_file(file) for file in sorted(out.rglob("*")) if file.is_file()}
            return {"report": report, "files": files}
        return {"report": report, "file": digest_file(out)}


def digest_file(path: Path) -> str | None:
    """Return the hash of a file, with today's times and fresh ids left out; of a database that of its rows."""
    if not path.exists():
        return None
    content = path.read_bytes()
    if content.startswith(b"SQLite format 3"):
        import sqlite3

        with contextlib.closing(sqlite3.connect(path)) as database:
            content = "\n".join(database.iterdump()).encode()
    numbers: dict[bytes, bytes] = {}
    content = UUID_TEXT.sub(lambda match: numbers.setdefault(match[0], b"uuid %d" % len(numbers)), content)
    today = time.strftime("%Y[-/]%m[-/]%d", time.gmtime()).encode()
    content = re.sub(today + rb"([T ][0-9:.]+Z?)?", b"today", content)
    content = re.sub(rb"\b%s[0-9]{8}\b" % str(int(time.time()))[:5].encode(), b"now", content)
    return sha256(content).hexdigest()[:16]


def digest(value: Any) -> str:
    """Return a short hash of a value that JSON can hold."""
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def run_json(*arguments: str) -> Any:
    """Run a command in this process, and return its JSON document without free text, or its exit code."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = cli.main(list(arguments))
    printed = stdout.getvalue()
    return without_free_text(json.loads(printed)) if printed.startswith("{") else {"exit": code}


def without_free_text(value: Any) -> Any:
    """Return the same document with free text replaced by the kind of its value."""
    if isinstance(value, dict):
        return {
            key: type(each).__name__ if key in FREE_TEXT and isinstance(each, str | float) else without_free_text(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [without_free_text(each) for each in value]
    return value


def write_document(folder: Path, name: str, document: Any) -> None:
    """Write one document, under a name made of that of its session."""
    path = folder / f"{name.replace('/', '_')[-80:]}-{digest(name)[:8]}.json.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(document, file, indent=0, sort_keys=True)


def compare_records(before: Path, after: Path) -> int:
    """Print the first differences of each session; returns 1 where there are any."""
    names = sorted({path.name for folder in (before, after) for path in folder.glob("*.json.gz")})
    differing = 0
    for name in names:
        documents = [read_document(folder / name) for folder in (before, after)]
        changes = list(differences(documents[0], documents[1], ""))
        differing += bool(changes)
        for line in changes[:6]:
            print(f"{name}: {line}")
        if len(changes) > 6:
            print(f"{name}: {len(changes) - 6} more")
    print(f"{len(names)} documents, {differing} differ")
    return 1 if differing else 0


def read_document(path: Path) -> Any:
    """Read a document; None where there is none."""
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def differences(before: Any, after: Any, place: str) -> Iterator[str]:
    """List the places where two documents differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{place}/{index}")
    elif before != after:
        yield f"{place}: {str(before)[:60]} → {str(after)[:60]}"


if __name__ == "__main__":
    sys.exit(main())
