"""aider."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import STUB, Agent, Setup, configure_litellm
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
        **dict.fromkeys(("parallel", "error", "long", "subagent", "compact", "mixed", "manual"), "it has no tools"),
        **dict.fromkeys(("clear", "rewind"), "its commands and prompts are separate runs"),
    }
    differences = {
        "texts": "its examples, its reminder after a prompt and restored history are not in the history file",
        "sizes": "the history has its own estimate, rounded, not the usage returned",
    }

    def configure(self, setup: Setup) -> dict[str, str]:
        return {
            **configure_litellm(setup),
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
