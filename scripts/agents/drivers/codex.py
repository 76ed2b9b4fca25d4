"""Codex CLI."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import LARGE_WINDOW, Agent, Dialogue, Setup, list_by_time, write_file
from scripts.agents.programs import Program
from scripts.agents.scripted_model import Action

CONFIG = """\
model = "stub-model"
model_provider = "stub"
model_context_window = {window}
model_auto_compact_token_limit = {limit}
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "STUB_KEY"
"""


class Codex(Agent):
    """Codex, headless (``codex exec``)."""

    name = "codex"
    label = "Codex"
    program = Program("npm", "@openai/codex", "0.169.0", "codex")
    api = "responses"
    format = "codex"
    headless = 'exec {program} exec --skip-git-repo-check "$@" {prompt}'
    window = 40_000
    preset = "codex"

    def configure(self, setup: Setup) -> dict[str, str]:
        window = setup.window or LARGE_WINDOW
        config = CONFIG.format(window=window, limit=window // 2, url=setup.url)
        write_file(setup.home / ".codex" / "config.toml", config)
        return {"CODEX_HOME": str(setup.home / ".codex"), "STUB_KEY": "anything"}

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "exec", "--skip-git-repo-check", prompt]

    def resume_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        session_id = session.stem[-36:]
        return [str(self.program.path), "exec", "--skip-git-repo-check", "resume", session_id, prompt]

    def compact_command(self, setup: Setup, session: Path) -> Dialogue:
        return self._call_server(session, ("thread/compact/start", {}, '"turn/completed"'))

    def clear_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        """Start a new thread, which is what ``/new`` and ``/clear`` do."""
        return self.start_command(setup, prompt)

    def rewind_command(self, setup: Setup, session: Path, prompt: str) -> Dialogue:
        records = [json.loads(line) for line in session.read_text(encoding="utf-8").splitlines()]
        turns = [record["payload"]["turn_id"] for record in records if record["type"] == "turn_context"]
        start = {"input": [{"type": "text", "text": prompt}]}
        return self._call_server(
            session,
            ("thread/revert", {"beforeTurnId": turns[-1]}, '"id":3'),
            ("turn/start", start, '"turn/completed"'),
        )

    def _call_server(self, session: Path, *calls: tuple[str, dict[str, Any], str]) -> Dialogue:
        """Return calls of the program's server for a session: method, parameters and what answers it."""
        thread = {"threadId": session.stem[-36:]}
        client = {"clientInfo": {"name": "driver", "version": "1"}, "capabilities": {"experimentalApi": True}}
        exchanges = [
            ({"id": number, "method": method, "params": {**thread, **params}}, answer)
            for number, (method, params, answer) in enumerate(calls, 3)
        ]
        initialize = ({"id": 1, "method": "initialize", "params": client}, '"id":1')
        resume = ({"id": 2, "method": "thread/resume", "params": thread}, '"id":2')
        return Dialogue([str(self.program.path), "app-server"], (initialize, resume, *exchanges))

    def get_preset_limits(self, window: int) -> tuple[Mapping[str, Any], int | None]:
        return {"trigger_at_most": window // 2}, None

    def find_sessions(self, setup: Setup) -> list[Path]:
        files = (setup.home / ".codex" / "sessions").rglob("rollout-*.jsonl")
        return list_by_time([file for file in files if not _is_subagent(file)])

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        if action.kind == "delegate":
            tool = "multi_agent_v1.spawn_agent"
            return (tool, {"message": action.text}) if tool in names else None
        command = f"cat {action.text}" if action.kind == "read" else action.text
        return "exec_command", {"cmd": command}


def _is_subagent(file: Path) -> bool:
    """Return whether a rollout is that of a sub-agent, as its first line says."""
    with file.open(encoding="utf-8") as lines:
        return isinstance(json.loads(next(lines))["payload"].get("source"), dict)
