"""A replay without a policy is the recording: the sizes that a separate reader finds in the raw file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.cli.inspect import build_report
from context_tui.session.session import SessionInfo
from tests.raw_usage import READERS

ROOT = Path(__file__).parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"


def find_sessions() -> Iterator[SessionInfo]:
    """The sessions of every file that has a reader, each once."""
    known = set[tuple[str, str]]()
    for path in sorted([*CORPUS.rglob("*"), *(ROOT / "sample_sessions").iterdir()]):
        try:
            infos = ct.sessions_in(path) if path.is_file() else []
        except ct.UnreadableSession:
            continue
        for info in infos:
            if (info.path, info.id) not in known:
                known.add((info.path, info.id))
                yield info


@pytest.mark.parametrize(
    "info", find_sessions(), ids=lambda info: f"{info.format}:{Path(info.path).name}{info.id and '#'}{info.id}"
)
def test_a_replay_without_a_policy_is_the_recording(info: SessionInfo) -> None:
    session = ct.open_session(f"{info.path}#{info.id}" if info.id else info.path)
    recorded = READERS[info.format](Path(info.path)).get(info.id, [])
    for branch in session.facts.branches:  # abandoned by a rewind: not in this session, but in its file
        for usage in ct.open_session(f"{info.path}#{branch.id}").facts.requests[-branch.requests :]:
            recorded.remove(usage.context)
    assert [usage.context for usage in session.facts.requests] == recorded
    made, reported = ct.replay.replay(session, "none"), build_report(session)["requests"]
    assert reported == len(made.calls)
    assert not recorded or list(made.sizes) == recorded
