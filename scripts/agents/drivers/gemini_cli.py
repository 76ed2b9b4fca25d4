"""Gemini CLI."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import Agent, Setup, Typing, list_by_time, write_file
from scripts.agents.programs import Program
from scripts.agents.scripted_model import PROMPT_MARK, Action

WINDOW = 1_048_576
"""Context window of the model."""
UP = "\x1b[A"
"""The key ↑ of a terminal."""


class GeminiCli(Agent):
    """Gemini CLI, headless (``gemini -p``).

    It summarises up to a prompt only. Its threshold is a share of the window, which cannot be set.
    """

    name = "gemini-cli"
    label = "Gemini CLI"
    program = Program("npm", "@google/gemini-cli", "0.61.0", "gemini")
    api = "gemini"
    format = "gemini-cli"
    headless = 'exec {program} "$@" -m {model} --yolo -p {prompt}'
    model = "gemini-2.5-flash"
    window = 30_000
    calls_to_compact = 40
    turns_to_compact = 8
    preset = "gemini-compress"
    differences = {
        "preset fires": "the first check after a session is resumed goes by an estimate of its messages alone",
    }

    def configure(self, setup: Setup) -> dict[str, str]:
        settings: dict[str, Any] = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        }
        if setup.window:
            settings["model"] = {"compressionThreshold": setup.window / WINDOW}
        write_file(setup.home / ".gemini" / "settings.json", json.dumps(settings))
        return {
            "GEMINI_API_KEY": "anything",
            "GOOGLE_GEMINI_BASE_URL": setup.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "-m", self.model, "--yolo", "-p", prompt]

    def resume_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        return [*self.start_command(setup, prompt), "--resume", "latest"]

    def compact_command(self, setup: Setup, session: Path) -> Sequence[str]:
        return self.resume_command(setup, session, "/compress")

    def clear_command(self, setup: Setup, session: Path, prompt: str) -> Typing:
        return self._type_lines("/clear", prompt)

    def rewind_command(self, setup: Setup, session: Path, prompt: str) -> Typing:
        """Go up to the newest prompt; the other is typed after it. The dialog lists each result below it twice."""
        newest_turn = session.read_text(encoding="utf-8").rpartition(PROMPT_MARK)[2]
        results = sum('"type":"user"' in line and '"functionResponse"' in line for line in newest_turn.splitlines())
        return self._type_lines("/rewind", UP * (2 * results + 1), "", prompt)

    def _type_lines(self, *lines: str) -> Typing:
        return Typing([str(self.program.path), "-m", self.model, "--yolo", "--resume", "latest"], lines)

    def get_preset_limits(self, window: int) -> tuple[Mapping[str, Any], int | None]:
        return {"trigger_share": window / WINDOW}, None

    def find_sessions(self, setup: Setup) -> list[Path]:
        return list_by_time(list((setup.home / ".gemini" / "tmp").glob("*/chats/*.json*")))

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        if action.kind == "read":
            return "read_file", {"file_path": action.text}
        if action.kind == "command":
            return "run_shell_command", {"command": action.text}
        if "invoke_agent" in names:
            return "invoke_agent", {"agent_name": "generalist", "prompt": action.text}
        return ("generalist", {"request": action.text}) if "generalist" in names else None
