"""mini-swe-agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import STUB, Agent, Setup, configure_litellm
from scripts.agents.programs import Program
from scripts.agents.scripted_model import Action

FINAL_COMMAND = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class MiniSweAgent(Agent):
    """mini-swe-agent, without confirmation. It has one tool, and ends by a command."""

    name = "mini-swe-agent"
    label = "mini-swe-agent"
    program = Program("pypi", "mini-swe-agent", "2.4.6", "mini", ("mcp==2.3.0",))
    api = "chat"
    format = "mini-swe-agent"
    final_step = (Action("command", FINAL_COMMAND),)
    unsupported = {
        "subagent": "it has no sub-agents",
        "compact": "it never compacts",
        "manual": "it never compacts",
        "mixed": "it never compacts",
        "resume": "it cannot resume",
        "clear": "it answers one prompt",
        "rewind": "it answers one prompt",
    }

    def configure(self, setup: Setup) -> dict[str, str]:
        return {
            **configure_litellm(setup),
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
        }

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        options = ["--yolo", "--exit-immediately", "--output", str(self._get_output(setup))]
        return [str(self.program.path), "--model", f"openai/{STUB}", "--task", prompt, *options]

    def find_sessions(self, setup: Setup) -> list[Path]:
        return [path for path in (self._get_output(setup),) if path.exists()]

    def _get_output(self, setup: Setup) -> Path:
        return setup.home / "run.traj.json"

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        if action.kind == "delegate":
            return None
        return "bash", {"command": f"cat {action.text}" if action.kind == "read" else action.text}
