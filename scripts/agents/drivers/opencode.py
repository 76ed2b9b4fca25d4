"""opencode."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.agents.agent import LARGE_WINDOW, STUB, Agent, Dialogue, Setup, write_file
from scripts.agents.programs import Program
from scripts.agents.prompt import Prompt
from scripts.agents.scripted_model import Action, RequestKind, classify_request

OUTPUT_TOKENS = 4_000
REVERT = """\
{0} serve --port 0 >serve.txt 2>&1 &
until url=$(grep -o 'http://[0-9.:]*' serve.txt); do sleep 0.2; done
curl -sf "$url/session/{1}/revert" -H 'Content-Type: application/json' -d '{{"messageID": "{2}"}}' || exit 1
kill $!
exec {0} run -s {1} {3}
"""
"""Shell commands that take a message back through the program's server, and answer a prompt."""


class OpenCode(Agent):
    """opencode, headless (``opencode run``). Its sessions are in one database."""

    name = "opencode"
    label = "opencode"
    program = Program("npm", "opencode-ai", "1.18.33", "opencode")
    api = "chat"
    format = "opencode"
    headless = 'case $1 in import) exec {program} "$@" ;; *) exec {program} run "$@" {prompt} ;; esac'
    window = 40_000
    preset = "opencode-compact"
    deletes_rewound = True
    differences = {
        "requests": "a prompt that is taken back is deleted from the database, with all that follows it: counted apart",
    }

    def configure(self, setup: Setup) -> dict[str, str]:
        limit = {"context": setup.window or LARGE_WINDOW, "output": OUTPUT_TOKENS}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{setup.url}/v1", "apiKey": "anything"},
            "models": {STUB: {"limit": limit}},
        }
        config = {
            "autoupdate": False,
            "share": "disabled",
            "model": f"stub/{STUB}",
            "small_model": f"stub/{STUB}",
            "provider": {"stub": provider},
            "permission": {"bash": "allow", "edit": "allow"},
        }
        write_file(setup.home / ".config" / "opencode" / "opencode.json", json.dumps(config))
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "run", prompt]

    def resume_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        return [str(self.program.path), "run", "-s", session.name.partition("#")[2], prompt]

    def compact_command(self, setup: Setup, session: Path) -> Dialogue:
        load = {"sessionId": session.name.partition("#")[2], "cwd": str(setup.project), "mcpServers": []}
        prompt = {"sessionId": load["sessionId"], "prompt": [{"type": "text", "text": "/compact"}]}
        return Dialogue(
            [str(self.program.path), "acp"],
            (
                (_request(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}), '"id":1'),
                (_request(2, "session/load", load), '"id":2'),
                (_request(3, "session/prompt", prompt), '"id":3'),
            ),
        )

    def clear_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        """Start a new session, which is what ``/new`` and ``/clear`` do."""
        return self.start_command(setup, prompt)

    def rewind_command(self, setup: Setup, session: Path, prompt: str) -> Sequence[str]:
        path, _, session_id = str(session).partition("#")
        with sqlite3.connect(path) as database:
            query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created"
            rows = database.execute(query, (session_id,)).fetchall()
        typed = [message_id for message_id, data in rows if json.loads(data)["role"] == "user"]
        quoted = (shlex.quote(each) for each in (str(self.program.path), session_id, typed[-1], prompt))
        return ["sh", "-c", REVERT.format(*quoted)]

    def get_preset_limits(self, window: int) -> tuple[Mapping[str, Any], int | None]:
        return {"trigger_reserve": OUTPUT_TOKENS}, window

    def find_sessions(self, setup: Setup) -> list[Path]:
        path = setup.home / ".local" / "share" / "opencode" / "opencode.db"
        if not path.exists():
            return []
        with sqlite3.connect(path) as database:
            rows = database.execute("SELECT id FROM session WHERE parent_id IS NULL ORDER BY time_created").fetchall()
        return [path.with_name(f"{path.name}#{session_id}") for (session_id,) in rows]

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        if action.kind == "read":
            return "read", {"filePath": action.text}
        if action.kind == "delegate":
            arguments = {"description": "Count", "prompt": action.text, "subagent_type": "general"}
            return ("task", arguments) if "task" in names else None
        return "bash", {"command": action.text, "description": "Run a command"}

    def classify(self, prompt: Prompt) -> RequestKind:
        is_title = any("title generator" in part.text for part in prompt.get("system"))
        return "side" if is_title else classify_request(prompt)


def _request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
