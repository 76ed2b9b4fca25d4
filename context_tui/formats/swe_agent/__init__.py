"""SWE-agent's trajectories: the conversation in ``history``, with the observations that its processors elided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, Found, Scanner
from context_tui.formats.kit.document_scanner import DocumentScanner, copy_document, documents_in, title_in_head
from context_tui.formats.kit.documents import Element, Run, items_of, members_of, read_runs
from context_tui.formats.kit.heads import first_values
from context_tui.formats.swe_agent.shape import SweAgentShape, told_totals
from context_tui.session.session import Session, SessionInfo

__all__ = ["SweAgentFormat"]


class SweAgentFormat(Format):
    """SWE-agent's ``.traj``."""

    name: ClassVar[str] = "swe-agent"
    about: ClassVar[str] = "SWE-agent trajectory (.traj)"
    copies: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".traj", ".json")

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """By a history whose messages name their agent, or by the steps of a trajectory."""
        values = first_values(head)
        value = values[0] if len(values) == 1 else None
        if not isinstance(value, dict):
            return None
        said, stepped = _first(value.get("history")), _first(value.get("trajectory"))
        if "role" in said and "agent" in said:
            return Claim(93, "a history of messages that name their agent")
        if {"action", "observation", "response"} <= set(stepped):
            return Claim(92, "a trajectory of actions and observations")
        return None

    def sessions(self, path: Path) -> list[SessionInfo]:
        """The only session of a trajectory."""
        return documents_in(path, self.name, SweAgentShape, runs=_runs)

    def scanner(self, path: Path, info: SessionInfo) -> Scanner:
        """A scanner for it."""
        return DocumentScanner(path, info, SweAgentShape, runs=_runs)

    def title(self, path: Path) -> str:
        """The task's first line."""
        return title_in_head(path, SweAgentShape(), _found)

    def kept(self, environ: Mapping[str, str], cwd: Path) -> Iterable[Found]:
        """The trajectories in the folder that the environment names: USER/RUN/INSTANCE/INSTANCE.traj."""
        if not (told := environ.get("SWE_AGENT_TRAJECTORY_DIR")):
            return []
        found = sorted(Path(told).glob("*/*/*/*.traj"))
        return [Found(path, path.parent.parent.name, False) for path in found]

    def copy(self, session: Session, path: Path) -> list[str] | None:
        """Write the trajectory as it was read."""
        return copy_document(session, path)


def _first(listed: Any) -> dict[str, Any]:
    """The first object of a list; an empty one where there is none."""
    return next((each for each in listed if isinstance(each, dict)), {}) if isinstance(listed, list) else {}


def _runs(path: Path) -> list[Run]:
    return read_runs(path, _found)


def _found(values: list[Element]) -> list[Run]:
    """The history of a trajectory, or its steps where it has none."""
    members = members_of(values[0]) if len(values) == 1 else None
    for key in ("history", "trajectory"):
        if members is not None and (listed := items_of(members.get(key))):
            run = Run({name: value for name, value in members.items() if name != key}, listed, "", key)
            run.note = told_totals(run.get("info"))
            return [run]
    return []
