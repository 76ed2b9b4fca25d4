"""aider."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import STUB, Agent, Setup
from scripts.agents.programs import Program
from scripts.agents.prompt import Prompt
from scripts.agents.scripted_model import Action, RequestKind


class Aider(Agent):
    """aider, headless (``--message``). It has no tools: its sessions are texts only."""

    name = "aider"
    label = "aider"
    program = Program("pypi", "aider-chat", "0.86.2", "aider")
    api = "chat"
    format = "aider"
    calls_to_compact = 0
    unsupported = {
        "parallel": "it has no tools",
        "error": "it has no tools",
        "long": "it has no tools",
        "subagent": "it has no tools",
        "compact": "it has no tools",
        "manual": "it has no tools",
    }

    def configure(self, setup: Setup) -> dict[str, str]:
        return {
            "OPENAI_API_KEY": "anything",
            "OPENAI_API_BASE": f"{setup.url}/v1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "AIDER_ANALYTICS": "false",
            "AIDER_CHECK_UPDATE": "false",
        }

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        options = ["--yes-always", "--no-show-model-warnings", "--no-git", "--no-auto-commits", "--map-tokens", "0"]
        return [str(self.program.path), "--model", f"openai/{STUB}", *options, "--message", prompt]

    def resume_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        return [*self.start_command(setup, prompt), "--restore-chat-history"]

    def find_sessions(self, setup: Setup) -> list[Path]:
        return [path for path in (setup.project / ".aider.chat.history.md",) if path.exists()]

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        return None

    def classify(self, prompt: Prompt) -> RequestKind:
        return "main"
