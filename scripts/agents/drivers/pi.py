"""pi."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import LARGE_WINDOW, STUB, Agent, Dialogue, Setup, list_by_time, write_file
from scripts.agents.programs import Program
from scripts.agents.scripted_model import Action


class Pi(Agent):
    """pi, headless (``pi -p``). It compacts between prompts only."""

    name = "pi"
    label = "pi"
    program = Program("npm", "@mariozechner/pi-coding-agent", "0.73.1", "pi")
    api = "chat"
    format = "pi"
    headless = 'exec {program} -p "$@" {prompt}'
    calls_to_compact = 45
    turns_to_compact = 9
    preset = "pi"
    unsupported = {"subagent": "it has no sub-agents"}

    def configure(self, setup: Setup) -> dict[str, str]:
        model = {
            "id": STUB,
            "name": STUB,
            "reasoning": False,
            "input": ["text"],
            "cost": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0},
            "contextWindow": setup.window or LARGE_WINDOW,
            "maxTokens": 4_000,
        }
        provider = {"baseUrl": f"{setup.url}/v1", "api": "openai-completions", "apiKey": "anything", "models": [model]}
        write_file(setup.home / ".pi" / "agent" / "models.json", json.dumps({"providers": {"stub": provider}}))
        return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "-p", "--provider", "stub", "--model", STUB, prompt]

    def resume_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "-p", "--session", str(session), prompt]

    def compact_command(self, setup: Setup, session: Path) -> Dialogue:
        return self._call_program(session, ({"type": "compact"}, '"command":"compact"'))

    def clear_command(self, setup: Setup, session: Path, prompt: str) -> Dialogue:
        return self._call_program(session, ({"type": "new_session"}, '"command":"new_session"'), _prompt(prompt))

    def rewind_command(self, setup: Setup, session: Path, prompt: str) -> Dialogue:
        records = [json.loads(line) for line in session.read_text(encoding="utf-8").splitlines()]
        typed = [record["id"] for record in records if record.get("message", {}).get("role") == "user"]
        fork = {"type": "fork", "entryId": typed[-1]}
        return self._call_program(session, (fork, '"command":"fork"'), _prompt(prompt))

    def _call_program(self, session: Path, *exchanges: tuple[dict[str, Any], str]) -> Dialogue:
        model = ["--provider", "stub", "--model", STUB]
        return Dialogue([str(self.program.path), "--mode", "rpc", *model, "--session", str(session)], exchanges)

    def find_sessions(self, setup: Setup) -> list[Path]:
        return list_by_time(list((setup.home / ".pi" / "agent" / "sessions").rglob("*.jsonl")))

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        if action.kind == "delegate":
            return None
        return ("read", {"path": action.text}) if action.kind == "read" else ("bash", {"command": action.text})


def _prompt(text: str) -> tuple[dict[str, Any], str]:
    """Return the exchange that answers a prompt."""
    return {"type": "prompt", "message": text}, '"type":"agent_end"'
