"""Claude Code. Its licence allows running it only, so nothing that it writes or sends is committed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import Agent, Dialogue, Setup, list_by_time
from scripts.agents.programs import Program
from scripts.agents.prompt import Prompt
from scripts.agents.scripted_model import PROMPT_MARK, Action, RequestKind, classify_request, find_last_texts


class ClaudeCode(Agent):
    """Claude Code, headless (``claude -p``)."""

    name = "claude-code"
    label = "Claude Code"
    program = Program("npm", "@anthropic-ai/claude-code", "2.1.330", "claude")
    api = "anthropic"
    format = "claude-code"
    headless = 'exec {program} "$@" -p {prompt} --dangerously-skip-permissions'
    model = "claude-sonnet-4-5"
    window = 100_000
    lines_to_compact = 1_400
    preset = "claude-code-auto"

    def configure(self, setup: Setup) -> dict[str, str]:
        env = {
            "ANTHROPIC_API_KEY": "anything",
            "ANTHROPIC_BASE_URL": setup.url,
            "ANTHROPIC_MODEL": self.model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }
        if setup.window:
            env["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(setup.window)
        return env

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "-p", prompt, "--dangerously-skip-permissions"]

    def resume_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        return [*self.start_command(setup, prompt), "--resume", session.stem]

    def compact_command(self, setup: Setup, session: Path) -> Sequence[str]:
        return self.resume_command(setup, session, "/compact")

    def clear_command(self, setup: Setup, session: Path, prompt: str) -> Dialogue:
        formats = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        command = [str(self.program.path), "-p", *formats, "--dangerously-skip-permissions", "--resume", session.stem]
        texts = ("/clear", prompt)
        messages = ({"type": "user", "message": {"role": "user", "content": text}} for text in texts)
        return Dialogue(command, tuple((message, '"type":"result"') for message in messages))

    def rewind_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        records = [json.loads(line) for line in session.read_text(encoding="utf-8").splitlines()]
        typed = [number for number, record in enumerate(records) if PROMPT_MARK in str(_get_content(record))]
        before = (record for record in reversed(records[: typed[-1]]) if record.get("type") == "assistant")
        return [*self.resume_command(setup, session, prompt), "--resume-session-at", next(before)["uuid"]]

    def find_sessions(self, setup: Setup) -> list[Path]:
        return list_by_time(list((setup.home / ".claude" / "projects").glob("*/*.jsonl")))

    def get_session_folder(self, setup: Setup) -> Path:
        """Return the folder of the project's sessions."""
        return setup.home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(setup.project))

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        if action.kind == "command":
            return "Bash", {"command": action.text, "description": "Run a command"}
        if action.kind == "read":
            return "Read", {"file_path": action.text}
        tool = next((name for name in ("Agent", "Task") if name in names), None)
        arguments = {"description": "Count", "prompt": action.text, "subagent_type": "general-purpose"}
        return (tool, arguments) if tool else None

    def classify(self, prompt: Prompt) -> RequestKind:
        kind = classify_request(prompt)
        asks = any("detailed summary" in part.text for part in find_last_texts(prompt)[-1:])
        return "main" if kind == "summary" and not asks else kind


def _get_content(record: Mapping[str, Any]) -> Any:
    """Return the content of a user record."""
    return record["message"]["content"] if record.get("type") == "user" else ""
