"""Cline's command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import LARGE_WINDOW, STUB, Agent, Setup, Typing, list_by_time, write_file
from scripts.agents.programs import Program
from scripts.agents.scripted_model import Action


class Cline(Agent):
    """Cline, headless; resumed sessions in a terminal."""

    name = "cline"
    label = "Cline"
    program = Program("npm", "cline", "3.0.65", "cline")
    api = "chat"
    format = "cline"
    window = 60_000
    calls_to_compact = 30
    preset = "cline"
    differences = {
        "compactions": "only the newest compaction is in the files; these scenarios make one each",
    }

    def configure(self, setup: Setup) -> dict[str, str]:
        settings = {
            "provider": "openai-compatible",
            "apiKey": "anything",
            "model": STUB,
            "baseUrl": f"{setup.url}/v1",
            "contextWindow": setup.window or LARGE_WINDOW,
        }
        provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
        providers = {"version": 1, "lastUsedProvider": settings["provider"], "modes": {}}
        document = {**providers, "providers": {settings["provider"]: provider}}
        write_file(setup.home / ".cline" / "data" / "settings" / "providers.json", json.dumps(document))
        return {"CLINE_NO_AUTO_UPDATE": "1"}

    def prepare_commands(self, setup: Setup) -> list[Sequence[str]]:
        """Commit the project, since checkpoints need a commit."""
        author = ("-c", "user.name=driver", "-c", "user.email=driver@example.com")
        return [["git", *author, "commit", "--quiet", "--allow-empty", "-m", "start"]]

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "--auto-approve", "true", prompt]

    def resume_command(self, setup: Setup, session: Path, prompt: str) -> Typing:
        return self._type_lines(session, prompt)

    def compact_command(self, setup: Setup, session: Path) -> Typing:
        return self._type_lines(session, "/compact")

    def clear_command(self, setup: Setup, session: Path, prompt: str) -> Typing:
        """Clear the chat; an escape closes the advertisement that then waits for a key."""
        return self._type_lines(session, "/clear", "\x1b", prompt)

    def rewind_command(self, setup: Setup, session: Path, prompt: str) -> Typing:
        """Choose the newest checkpoint, then its chat only; the prompt is typed after the one that is taken back."""
        return self._type_lines(session, "/undo", "", "", prompt)

    def _type_lines(self, session: Path, *lines: str) -> Typing:
        return Typing([str(self.program.path), "--auto-approve", "true", "--id", session.parent.name], lines)

    def get_preset_limits(self, window: int) -> tuple[Mapping[str, Any], int | None]:
        """Return 90 % of the window, which is the limit of the input here."""
        return {"trigger_share": 0.9}, window

    def find_sessions(self, setup: Setup) -> list[Path]:
        return list_by_time(list((setup.home / ".cline" / "data" / "sessions").glob("*/*.messages.json")))

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        if action.kind == "command":
            return "run_commands", {"commands": [action.text]}
        if action.kind == "read":
            return "read_files", {"files": [{"path": action.text}]}
        arguments = {"systemPrompt": "You print numbers.", "task": action.text}
        return ("spawn_agent", arguments) if "spawn_agent" in names else None
