"""Cline's command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import STUB, Agent, Setup, list_by_time
from scripts.agents.programs import Program
from scripts.agents.scripted_model import Action


class Cline(Agent):
    """Cline, headless."""

    name = "cline"
    label = "Cline"
    program = Program("npm", "cline", "3.0.65", "cline")
    api = "chat"
    format = "cline"
    unsupported = {
        "compact": "the window of a model at an address of one's own cannot be set",
        "resume": "resuming needs a terminal",
        "manual": "resuming needs a terminal",
    }

    def configure(self, setup: Setup) -> dict[str, str]:
        return {"CLINE_NO_AUTO_UPDATE": "1"}

    def prepare_commands(self, setup: Setup) -> list[Sequence[str]]:
        url = f"{setup.url}/v1"
        path = str(self.program.path)
        return [[path, "auth", "--provider", "openai", "--apikey", "anything", "--modelid", STUB, "--baseurl", url]]

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "--auto-approve", "true", prompt]

    def resume_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "--auto-approve", "true", "--id", session.parent.name, prompt]

    def find_sessions(self, setup: Setup) -> list[Path]:
        return list_by_time(list((setup.home / ".cline" / "data" / "sessions").glob("*/*.messages.json")))

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        if action.kind == "command":
            return "run_commands", {"commands": [action.text]}
        if action.kind == "read":
            return "read_files", {"files": [{"path": action.text}]}
        arguments = {"systemPrompt": "You print numbers.", "task": action.text}
        return ("spawn_agent", arguments) if "spawn_agent" in names else None
