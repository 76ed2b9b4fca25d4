"""``python -m scripts.mutants``: mutate sampled lines of the pure layers, and print the share that the tests notice.

Each mutant takes only the tests that run its line, the fastest first, in a copy of the project and without recordings.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import coverage

from scripts.mutants.places import FOLDERS, Mutant, describe, find_function_span, find_mutants, mutate, sample

ROOT = Path(__file__).parents[2]
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
LEFT_OUT = (
    *("tests/live", "tests/fuzz", "tests/tui/test_colours.py", "tests/tui/test_readable.py", "tests/test_packaging.py"),
    *("tests/test_guide.py", "tests/test_killed.py"),
    *(
        "tests/test_newer_pythons.py",
        "tests/test_imports.py",
        "tests/test_large_input.py",
        "tests/test_sweep_cluster.py",
    ),
)
"""Tests of other layers and of processes, which take minutes."""
NOT_COPIED = (".git", ".venv*", ".bench", ".agents", "*_cache", ".hypothesis", "__pycache__", "dist", "screenshots")
VALUE_TESTS = ("tests/test_parameter_table.py",)
"""Tests of all modules: they notice mutants that no function runs."""
BROAD_TESTS = ("tests/test_small_documents.py", "tests/test_small_functions.py")
"""Tests of all that the pure layers say, each of them quick: a mutant takes all that run its line."""
PROCESS_FILES = 4
"""Files of tests for a mutant that needs a process of its own, which has to collect them."""
TEST_SECONDS = 60
"""The tests of a mutant take at most this long without it."""


def main() -> int:
    """Run the command, and return 1 if too few are noticed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.9, help="fail below it")
    parser.add_argument("--only", nargs="*", default=FOLDERS, help="folders to mutate")
    parser.add_argument("--map", type=Path, help="a folder that keeps the map of tests and lines for the next run")
    options = parser.parse_args()
    start = time.monotonic()
    print(f"{options.count} mutants by seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="context-tui-mutants-") as folder:
        copies = [Path(folder, str(number), "project") for number in range(options.jobs)]
        for copy in copies:
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        lines, times = build_map(copies, options.map or Path(folder))
        print(f"{len(times)} tests mapped after {time.monotonic() - start:.0f} s", flush=True)
        mutants = sample(ROOT, find_mutants(ROOT, tuple(options.only)), options.count, options.seed)
        tasks = [_build_task(number, mutant, lines, times) for number, mutant in enumerate(mutants)]
        equivalents = {(each["path"], each["line"], each["mutant"]) for each in _load_equivalents()}
        declared = [task for task in tasks if (task["file"], *task["change"]) in equivalents]
        killers = run(copies, [task for task in tasks if task not in declared], times)
    survivors = [task for task in tasks if task not in declared and killers[task["number"]] is None]
    for task in survivors:
        before, after = task["change"]
        count = len({*task["tests"], *task["process_tests"]})
        print(f"survived, {count} tests: {task['mutant']}\n  - {before}\n  + {after}")
    judged = len(tasks) - len(declared)
    share = (judged - len(survivors)) / judged
    by_folder = Counter(str(Path(task["file"]).parent) for task in survivors)
    print("survivors:", ", ".join(f"{name} {count}" for name, count in by_folder.most_common()) or "none")
    print(f"seed {options.seed}: {judged - len(survivors)} of {judged} noticed ({share:.1%}), ", end="")
    print(f"{len(declared)} equivalent, {time.monotonic() - start:.0f} s")
    return int(share < options.share)


def _load_equivalents() -> list[dict[str, str]]:
    return list(tomllib.loads(EQUIVALENTS.read_text("utf-8")).get("equivalent", []))


def build_map(copies: list[Path], folder: Path) -> tuple[coverage.CoverageData, dict[str, float]]:
    """Return the tests of each line and the seconds of each test, from a file of *folder* if it is there."""
    data, seconds = folder / "coverage", folder / "seconds.json"
    if not seconds.exists():
        folder.mkdir(exist_ok=True)
        files = _list_test_files()
        parts = []
        for number, copy in enumerate(copies):
            task = {"mode": "map", "data": f"{data}{number}", "seconds": f"{seconds}{number}", "folders": FOLDERS}
            parts.append(_start(copy, task, files[number :: len(copies)]))
        for process in parts:
            process.wait()
        times: dict[str, float] = {}
        total = coverage.CoverageData(str(data))
        for number, copy in enumerate(copies):
            part = coverage.CoverageData(f"{data}{number}")
            part.read()
            total.update(part, map_path=lambda path, copy=copy: str(Path(path).relative_to(copy)))
            times |= json.loads(Path(f"{seconds}{number}").read_text("utf-8"))
        seconds.write_text(json.dumps(times), "utf-8")
        total.write()
    total = coverage.CoverageData(str(data))
    total.read()
    return total, json.loads(seconds.read_text("utf-8"))


def _list_test_files() -> list[str]:
    """Return the files of tests of the pure layers, and of the screens those that need no event loop."""
    paths = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if not path.name.endswith("_pty.py")]
    names = [
        str(path.relative_to(ROOT))
        for path in paths
        if path.parent.name != "tui" or "async def" not in path.read_text("utf-8")
    ]
    return [name for name in names if not name.startswith(LEFT_OUT)]


def _start(copy: Path, task: dict[str, Any], arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start pytest with the plug-in in a copy of the project."""
    file = copy.parent / "task.json"
    file.write_text(json.dumps(task), "utf-8")
    environment = os.environ | {"MUTANTS_TASK": str(file), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "scripts.mutants.plugin", "-p", "no:cacheprovider"]
    output = (copy.parent / "log.txt").open("ab")
    return subprocess.Popen(
        [*command, f"--basetemp={copy.parent / 'tests'}", *arguments],
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )


def _build_task(number: int, mutant: Mutant, lines: coverage.CoverageData, times: dict[str, float]) -> dict[str, Any]:
    """Return what a worker needs to know of a mutant: its text, and the tests that run it."""
    text = (ROOT / mutant.path).read_text("utf-8")
    mutation = mutate(text, mutant)
    contexts = lines.contexts_by_lineno(mutant.path)
    span = find_function_span(text, mutant.line)
    if span:
        first, last = _find_statement(text, mutant.line)
        tests = {test for line in range(first, last + 1) for test in contexts.get(line, ())}
    else:
        tests = {test for names in contexts.values() for test in names}
    values = [test for test in times if test.startswith(VALUE_TESTS)]
    files = Counter(test.partition("::")[0] for test in tests).most_common(PROCESS_FILES)
    few = {test for test in tests if any(test.startswith(f"{name}::") for name, _ in files)}
    return {
        "number": number,
        "mutant": str(mutant),
        "file": mutant.path,
        "change": describe(text, mutation),
        "text": mutation,
        "tests": _choose_tests(tests & times.keys(), times) if span else [],
        "process_tests": [] if span and "" not in tests else [*values, *_choose_tests(few & times.keys(), times)],
    }


def _choose_tests(tests: set[str], times: dict[str, float]) -> list[str]:
    """Return the broad tests, and others that take :data:`TEST_SECONDS`, some of each file, the fastest first."""
    by_file = defaultdict(list)
    for test in sorted(tests, key=lambda test: (times[test], test)):
        by_file[test.partition("::")[0]].append(test)
    chosen, seconds = [test for name in BROAD_TESTS for test in by_file.pop(name, ())], 0.0
    for test in chain.from_iterable(zip_longest(*by_file.values())):
        if test is not None and seconds < TEST_SECONDS:
            seconds += times[test] + 0.01
            chosen.append(test)
    return sorted(chosen, key=lambda test: (times[test], test))


def _find_statement(text: str, line: int) -> tuple[int, int]:
    """Return the lines of the smallest statement at *line*: a trace names the lines of its parts in no fixed way."""
    spans = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            body = getattr(node, "body", None)
            spans.append((node.lineno, body[0].lineno - 1 if body else node.end_lineno or 0))
    around = [span for span in spans if span[0] <= line <= span[1]]
    return min(around, key=lambda span: span[1] - span[0], default=(line, line))


def run(copies: list[Path], tasks: list[dict[str, Any]], times: dict[str, float]) -> dict[int, str | None]:
    """Return the test that noticed each mutant, by its number."""
    processes, results = [], [copy.parent / "results.jsonl" for copy in copies]
    for number, (copy, result) in enumerate(zip(copies, results, strict=True)):
        mutants = [{**task, "path": str(copy / task["file"])} for task in tasks[number :: len(copies)]]
        nodes = {test for task in mutants for test in task["tests"]}
        files = sorted({node.partition("::")[0] for node in nodes})
        task = {"mode": "run", "mutants": mutants, "results": str(result), "times": times}
        processes.append(_start(copy, task, files))
    for process in processes:
        process.wait()
    verdicts = {}
    for result in results:
        for line in result.read_text("utf-8").splitlines():
            verdict = json.loads(line)
            verdicts[verdict["number"]] = verdict["killer"]
    return verdicts


if __name__ == "__main__":
    sys.exit(main())
