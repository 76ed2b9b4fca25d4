"""Read sessions of mini-swe-agent, a minimal research agent that runs shell commands.

A session is a trajectory, a JSON file ``NAME.traj.json`` with the messages and the configuration. Version 1 has texts
only, version 2 tool calls or Responses items; a file may also be a bare list of messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, SessionFile
from context_tui.formats.kit import document_scanner, documents, files, heads, response_items, values
from context_tui.formats.kit.message_builder import MessageBuilder, MessageRecord, MetadataRecord, ParsedRecord
from context_tui.formats.kit.usage import parse_openai_usage
from context_tui.formats.openai.reader import OpenAIShape
from context_tui.session.values import Role
from context_tui.text.sanitize import truncate_name

TYPED_STARTS = (
    "Interrupted by user: ",
    "The user added a new task: ",
    "Command not executed. The user rejected your command",
    "Commands not executed. The user rejected your commands",
)
"""First words of texts typed at the agent's prompt; all other user texts are observations."""


_TEMPLATE_STARTS = (
    "<pr_description>",
    "Consider the following PR description:",
    "We're currently solving the following ",
    "ISSUE:",
)
"""First words of lines that templates of SWE-agent and mini-swe-agent put before a task."""
_TASK_PREFIX = "Please solve this issue: "
"""Prefix that templates put before a task on the same line."""


def find_task_title(text: str) -> str:
    """Return a title for a task: its first line that is not part of a template, or else its first line."""
    lines = [line.strip() for line in text[:4_000].splitlines()]
    title_line = next((line for line in lines if line and not line.startswith(_TEMPLATE_STARTS)), text)
    return values.format_title(title_line.removeprefix(_TASK_PREFIX))


class MiniSweAgentShape(document_scanner.DocumentShape):
    """Parser for Chat Completions messages with the agent's data in ``extra``, or for items of the Responses API."""

    def __init__(self) -> None:
        self._chat_shape = OpenAIShape()
        self._task_place = -1  # the element that holds the task

    title = staticmethod(find_task_title)

    def read_metadata(self, run: documents.Run, builder: MessageBuilder) -> None:
        builder.facts.input_includes_cache = True
        model = values.as_object(values.as_object(values.as_object(run.get("info")).get("config")).get("model"))
        if isinstance(name := model.get("model_name"), str):
            builder.facts.model = truncate_name(name)

    def parse(self, value: Any, place: int) -> ParsedRecord:
        """Parse a message. The final message, with the role ``exit``, was never sent and becomes metadata."""
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        extra = values.as_object(value.get("extra"))
        if value.get("role") == "exit":
            return MetadataRecord()
        response = value if value.get("object") == "response" else values.as_object(extra.get("response"))
        record = self._parse_message(value, place)
        if not isinstance(record, MessageRecord):
            return record
        time = values.parse_time_ms(extra.get("timestamp", response.get("created", response.get("created_at"))))
        record = replace(record, time=time if time >= 0 else record.time)
        if record.role == Role.ASSISTANT:
            usage, unread = values.parse_usage_or_note(parse_openai_usage, response.get("usage"))
            model = truncate_name(values.as_text(response.get("model")))
            return replace(record, usage=usage, notes=(*record.notes, *unread), model=model)
        if record.role == Role.USER and not record.has_results:
            return replace(record, is_injected=self._is_observation(value, extra, place))
        return record

    def _parse_message(self, value: dict[str, Any], place: int) -> MessageRecord | MetadataRecord:
        if "role" not in value:
            if value.get("object") == "response":
                return response_items.parse_response_items(value.get("output"))
            if response_items.is_item(value):
                return response_items.parse_item(value)
        return self._chat_shape.parse(value, place)

    def _is_observation(self, value: dict[str, Any], extra: dict[str, Any], place: int) -> bool:
        if self._task_place < 0 or place == self._task_place:
            self._task_place = place
            return False
        content = value.get("content")
        typed = isinstance(content, str) and content.startswith(TYPED_STARTS)
        return not typed and not str(extra.get("interrupt_type")).startswith("User")


LAST_TRAJECTORY = "last_mini_run.traj.json"


class MiniSweAgentFormat(document_scanner.DocumentFormat):
    """The format of mini-swe-agent's trajectories (``.traj.json``)."""

    name: ClassVar[str] = "mini-swe-agent"
    checked_with: ClassVar[str] = "2.4.6"
    unrecorded: ClassVar[tuple[str, ...]] = ("tool schemas",)
    about: ClassVar[str] = "mini-swe-agent trajectory (.traj.json, versions 1 and 2, and bare lists of messages)"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    shape = MiniSweAgentShape

    copy = staticmethod(document_scanner.copy_document)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        value = heads.parse_only_value(head)
        if isinstance(value, dict):
            info, version = value.get("info"), value.get("trajectory_format")
            if isinstance(version, str) and version.startswith("mini"):
                return Claim(95, f"trajectory_format {version[:40]}")
            if isinstance(info, dict) and "mini_version" in info:
                return Claim(92, "info with a mini_version")
            return None
        if isinstance(value, list) and _is_bare_trajectory(value):
            return Claim(90, "commands in texts of the assistant, and their return codes in those of the user")
        return None

    def find_runs(self, values: list[documents.Element]) -> list[documents.Run]:
        return super().find_runs(values)[:1]

    def read_title(self, path: Path) -> str:
        return document_scanner.read_document_title(path, MiniSweAgentShape())

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Return the last trajectory, the only one that mini-swe-agent keeps by default, or [] if it is missing."""
        home = files.find_home_folder(environ)
        folders = [Path(environ.get("XDG_CONFIG_HOME") or home / ".config"), home / "Library" / "Application Support"]
        if local := environ.get("LOCALAPPDATA"):
            folders.append(Path(local) / "mini-swe-agent")
        places = [folder / "mini-swe-agent" for folder in folders]
        if configured := environ.get("MSWEA_GLOBAL_CONFIG_DIR"):
            places = [Path(configured)]
        return [SessionFile(path, "", False) for place in places if os.path.isfile(path := place / LAST_TRAJECTORY)]


def _is_bare_trajectory(messages: list[Any]) -> bool:
    roles_and_texts = [(message.get("role"), message.get("content", "")) for message in values.list_objects(messages)]
    if not all(role in ("system", "user", "assistant") and isinstance(text, str) for role, text in roles_and_texts):
        return False
    has_output = any(role == "user" and text.startswith("<returncode>") for role, text in roles_and_texts)
    return has_output or any(role == "assistant" and "```mswea_bash_command" in text for role, text in roles_and_texts)
