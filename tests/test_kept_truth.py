"""What is kept of a session is what reading it anew tells, whichever of its files changed, and however."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from context_tui.library import cache as details
from context_tui.library.cache import SessionCache
from context_tui.library.discovery import OTHER_PROJECTS, SessionEntry
from context_tui.library.overview import OverviewReader
from context_tui.session.session import SessionInfo
from tests.formats import opencode_records, rollouts, test_cline, test_defect, test_goose, test_openhands, tree_seeds
from tests.formats.histories import put
from tests.formats.test_swe_agents import STEPS, trajectory

ROUNDS = 12


def _lines(path: Path, records: list[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def _claude_code(home: Path) -> Path:
    def said(name: str, use: int, **more: object) -> list[object]:
        usage = {"input_tokens": use, "cache_read_input_tokens": 900, "output_tokens": 50}
        reply = {"id": "m", "role": "assistant", "model": "claude-opus-4-5", "content": "Done.", "usage": usage}
        ask = {"type": "user", "uuid": f"{name}1", "cwd": "/src/one", "message": {"role": "user", "content": "Look."}}
        return [
            ask | more,
            {"type": "assistant", "uuid": f"{name}2", "parentUuid": f"{name}1", "message": reply, **more},
        ]

    _lines(home / "agent-a1.jsonl", said("a", 40, isSidechain=True, agentId="a1", sessionId="main"))
    return _lines(home / "main.jsonl", said("m", 900, sessionId="main"))


def _cline(home: Path) -> Path:
    rewrites = [[2, [0, [[0, [[1_000, "text", ["Shorter."], []]]]]]]]
    put(home / "task_metadata.json", {"model_usage": [{"model_id": "claude-opus-4-5", "ts": 1}]})
    return test_cline.task(home, test_cline.ASKED, test_cline.SHOWN, rewrites)


def _cline_sdk(home: Path) -> Path:
    put(home / "17.json", {"cwd": "/src/one", "metadata": {}})
    return test_cline.session_file(home / "17.messages.json", *test_cline.SPOKEN)


def _openhands_v0(home: Path) -> Path:
    (home / "events").mkdir()
    for number, event in enumerate(test_openhands.HISTORY[:2] + test_openhands.HISTORY[8:9]):
        put(home / f"events/{number}.json", event | {"id": number})
    return home / "events/0.json"


TREES: dict[str, Callable[[Path], Path]] = {
    "claude-code": _claude_code,
    "codex": lambda home: _lines(home / "rollout-1.jsonl", [*rollouts.whole().records]),
    "cline": _cline,
    "cline-sdk": _cline_sdk,
    "openhands": lambda home: test_openhands.conversation(home, test_openhands.EVENTS),
    "openhands-v0": _openhands_v0,
    "opencode": lambda home: opencode_records.rich().tree(home),
    "opencode-db": lambda home: opencode_records.database(home / "opencode.db", opencode_records.rich()),
    "goose": lambda home: test_goose.lines(home / "s.jsonl", test_goose.WHOLE),
    "goose-db": lambda home: test_goose.database(home / "sessions.db", test_goose.AFTER),
    "defect": lambda home: test_defect.journal(home, test_defect.TURN),
    "swe-agent": lambda home: put(home / "task.traj", trajectory(*STEPS)),
    "gemini-cli": lambda home: _lines(home / "session-1.jsonl", [*tree_seeds.gemini_lines()]),
}
ALONE = {"claude-code", "codex", "opencode-db", "goose", "goose-db", "swe-agent", "gemini-cli"}
"""Those of which one file tells all that is kept."""


def changed(folder: Path, dice: Random) -> Path:
    """Change any file below a folder, as large and of the same time where that can be; which one it was."""
    file = dice.choice(sorted(each for each in folder.rglob("*") if each.is_file() and "-" not in each.suffix))
    status, how = file.stat(), dice.choice(["numbers", "numbers", "words", "cut", "gone", "one more"])
    if file.suffix == ".db":
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            table, column = ("message", "data") if "opencode" in file.name else ("messages", "content_json")
            database.execute(f"DELETE FROM {table} WHERE rowid > ?", (dice.randrange(4),))
            database.execute(f"UPDATE {table} SET {column} = replace({column}, '1', '2')")
            database.commit()
        return file
    text = file.read_text()
    if how == "gone":
        file.unlink()
    elif how == "one more":
        other = re.sub(r"\d(?=\D*$)", lambda found: str((int(found[0]) + 5) % 10), file.name)
        shutil.copy(file, file.with_name(other if other != file.name else f"0{file.name}"))
    elif how == "cut":
        file.write_text(text[: len(text) * 2 // 3])
    else:
        old = r"\d(?=\d)" if how == "numbers" else r"(?<=[a-z])[a-z](?=[a-z. ]*\")"
        new = str(dice.randrange(1, 9)) if how == "numbers" else "x"
        file.write_text(re.sub(old, new, text))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    return file


def told(reader: OverviewReader, entries: list[SessionEntry]) -> list[object]:
    """Everything that the picker shows of sessions."""
    return [(reader.read_title(each.info), reader.read_place(each), reader.read_overview(each)) for each in entries]


def in_file(path: Path) -> list[SessionEntry]:
    if path.suffix != ".db":
        return [SessionEntry(SessionInfo(str(path), ""), OTHER_PROJECTS)]
    names = {"opencode.db": opencode_records.SESSION, "sessions.db": "20251202_1"}
    form = "opencode" if path.stem == "opencode" else "goose"
    return [SessionEntry(SessionInfo(str(path), form, names[path.name]), OTHER_PROJECTS)]


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
def test_nothing_stale_is_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "SETTLE_SECONDS", -60.0)  # the test waits for no clock
    dice, mattered = Random(name), set[bool]()
    for number in range(ROUNDS):
        (home := tmp_path / str(number)).mkdir()
        path, cache = TREES[name](home), SessionCache(tmp_path / "cache.db")
        entries = in_file(path)
        before = told(OverviewReader(cache), entries)
        [[_, _, look]] = before  # type: ignore[misc]
        assert look.agent and not look.problem, look  # type: ignore[has-type]
        assert all(cache.get(str(path), each.info.id, "look") for each in entries), "it is kept"
        assert told(OverviewReader(cache), entries) == before
        file = changed(home, dice)
        now = told(OverviewReader(), entries)
        assert told(OverviewReader(cache), entries) == now, f"{file.relative_to(home)} changed"
        assert told(OverviewReader(cache), entries) == now
        if now != before:
            mattered.add(file != path)
    assert name in ALONE or True in mattered, "no change of another file made a difference"
    assert mattered, "no change made a difference"
