"""SWE-agent, a research agent that resolves GitHub issues.

A session is a trajectory, a JSON file ``INSTANCE.traj`` with the conversation in ``history`` and the configuration,
which states how observations were elided from requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, SessionFile
from context_tui.formats.kit.document_scanner import DocumentFormat, copy_document, read_document_title
from context_tui.formats.kit.documents import Element, Run, decode_items, decode_members, make_run
from context_tui.formats.kit.files import parse_first_values
from context_tui.formats.swe_agent.reader import SweAgentShape, format_totals

__all__ = ["SweAgentFormat"]


class SweAgentFormat(DocumentFormat):
    """Format of SWE-agent's ``.traj``."""

    name: ClassVar[str] = "swe-agent"
    about: ClassVar[str] = "SWE-agent trajectory (.traj)"
    suffixes: ClassVar[tuple[str, ...]] = (".traj", ".json")
    shape = SweAgentShape

    copy = staticmethod(copy_document)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognise a history whose messages name their agent, or the steps of a trajectory."""
        values = parse_first_values(head)
        value = values[0] if len(values) == 1 else None
        if not isinstance(value, dict):
            return None
        message, step = _get_first(value.get("history")), _get_first(value.get("trajectory"))
        if "role" in message and "agent" in message:
            return Claim(93, "a history of messages that name their agent")
        if {"action", "observation", "response"} <= set(step):
            return Claim(92, "a trajectory of actions and observations")
        return None

    def find_runs(self, values: list[Element]) -> list[Run]:
        """Find the history of a trajectory, or its steps if it has none."""
        members = decode_members(values[0]) if len(values) == 1 else None
        for key in ("history", "trajectory"):
            if members is not None and (elements := decode_items(members.get(key))):
                run = make_run(members, key, elements)
                run.note = format_totals(run.get("info"))
                return [run]
        return []

    def read_title(self, path: Path) -> str:
        return read_document_title(path, SweAgentShape(), self.find_runs)

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Yield the trajectories in the folder that the environment names: USER/RUN/INSTANCE/INSTANCE.traj."""
        if not (configured := environ.get("SWE_AGENT_TRAJECTORY_DIR")):
            return []
        paths = sorted(Path(configured).glob("*/*/*/*.traj"))
        return [SessionFile(path, path.parent.parent.name, False) for path in paths]


def _get_first(values: Any) -> dict[str, Any]:
    """Return the first object of a list; an empty one if there is none."""
    return next((each for each in values if isinstance(each, dict)), {}) if isinstance(values, list) else {}
