"""The logs of Lumen, an agent that does not exist: JSON lines, a record on each.

{"kind": "start", "model": "lumen-2", "window": 128000, "system": "You write code."}
{"kind": "user", "at": "2026-03-01T10:00:00Z", "text": "Fix the test."}
{"kind": "reply", "at": "…", "text": "I look.", "calls": [{"id": "c1", "tool": "read", "with": {"path": "a.py"}}],
 "tokens": {"in": 2000, "cached": 1500, "out": 40}}
{"kind": "result", "call": "c1", "ok": true, "text": "x = 1"}
{"kind": "cleared", "calls": ["c1"]}
{"kind": "summary", "text": "So far: …", "kept": 2, "before": 90000}
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim, Format, SessionFile
from context_tui.formats.kit.line_scanner import LineScanner, list_only_session
from context_tui.formats.kit.message_builder import (
    FullCompactionRecord,
    MessageRecord,
    MetadataRecord,
    MicroCompactionRecord,
    ParsedRecord,
    group_records,
)
from context_tui.formats.kit.values import parse_time_ms, parse_tokens, parse_usage_or_note
from context_tui.formats.kit.writing import convert_body_to_text, count_injected_losses
from context_tui.session.facts import Usage
from context_tui.session.losses import Losses
from context_tui.session.session import Session, SessionInfo
from context_tui.session.values import MessageFlag, Role


class LumenFormat(Format):
    """Logs of Lumen."""

    name: ClassVar[str] = "lumen"
    about: ClassVar[str] = "Lumen's logs (JSON lines), with its compactions"
    suffixes: ClassVar[tuple[str, ...]] = (".lumen", ".jsonl")

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        """Recognize the first record."""
        return Claim(95, "a start record of Lumen") if head.startswith(b'{"kind": "start"') else None

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        """Return the only session of a file."""
        return list_only_session(path, self.name)

    def make_scanner(self, path: Path, info: SessionInfo) -> LineScanner:
        """Return a scanner of lines."""
        return LineScanner(path, info, LumenShape)

    def read_title(self, path: Path) -> str:
        """Return the first prompt."""
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file.readlines(65_536):
                if line.startswith('{"kind": "user"'):
                    return str(json.loads(line).get("text"))
        return ""

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Search ``~/.lumen``, which has a folder for each project."""
        for path in Path(environ.get("HOME", "/")).glob(".lumen/*/*.lumen"):
            yield SessionFile(path, path.parent.name, path.parent.name == cwd.name)

    def write(self, session: Session, path: Path) -> Losses:
        """Write the context at the end of a session, without images."""
        losses = Losses()
        start = {"kind": "start", "model": session.facts.model, "system": session.content.system()}
        records = [start, *_records(session, losses)]
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return losses

    def build_resume_command(self, session: Session, written_session: Path, out_path: Path) -> str:
        """Return the command that continues a file."""
        return f"lumen --continue {shlex.quote(str(out_path))}"


class LumenShape:
    """Meaning of Lumen's records."""

    def parse(self, record: dict[str, Any]) -> ParsedRecord:
        """Parse a record."""
        time, text = parse_time_ms(record.get("at")), [{"type": "text", "text": str(record.get("text") or "")}]
        match record.get("kind"):
            case "start":
                system = [{"type": "text", "text": str(record.get("system") or "")}]
                window = parse_tokens(record.get("window"), "window")
                settings = MetadataRecord(model=str(record.get("model") or ""), window=window)
                return group_records(settings, MessageRecord(Role.SYSTEM, system))
            case "user":
                return MessageRecord(Role.USER, text, time=time)
            case "reply":
                calls = [_call(call) for call in record.get("calls") or [] if isinstance(call, dict)]
                spoken = text if text[0]["text"] or not calls else []
                usage, notes = parse_usage_or_note(_usage, record.get("tokens"))
                return MessageRecord(Role.ASSISTANT, [*spoken, *calls], time=time, usage=usage, notes=notes)
            case "result":
                result = {"type": "tool_result", "tool_use_id": record.get("call"), "content": record.get("text") or ""}
                if record.get("ok") is False:
                    result["is_error"] = True
                return MessageRecord(Role.USER, [result], has_results=True, time=time)
            case "summary":
                before, kept = (parse_tokens(record.get(name), name) for name in ("before", "kept"))
                told = FullCompactionRecord("auto", before or None, kept_messages=kept)
                return MessageRecord(Role.USER, text, time=time, compaction=told)
            case "cleared":
                return MicroCompactionRecord(cleared_keys=tuple(map(str, record.get("calls") or [])))
            case other:
                raise ValueError(f"unknown kind of record {other!r}")


def _call(call: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": str(call.get("id")), "name": str(call.get("tool")), "input": call.get("with")}


def _usage(tokens: Any) -> Usage | None:
    """Parse recorded tokens; ``in`` includes cached ones, which are counted separately here."""
    if not isinstance(tokens, dict):
        return None
    given, cached, out = (parse_tokens(tokens.get(name), name) for name in ("in", "cached", "out"))
    return Usage(max(given - cached, 0), cached, 0, 0, out)


def _records(session: Session, losses: Losses) -> Iterable[dict[str, Any]]:
    """Yield the records of a context; what a summary kept follows it, so it keeps nothing before it."""
    facts, context = session.facts, session.context_at()
    for index, message in zip(context.order, session.messages_in(context), strict=True):
        blocks, spoken = message["content"], message["role"] == "assistant"
        for block in blocks:
            if block.get("type") not in ("text", "tool_use" if spoken else "tool_result"):
                losses.omit(f"blocks of type {block.get('type')} left out", block)
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        losses.add("texts of one message joined", len(texts) > 1)
        if spoken:
            calls = [
                {"id": block["id"], "tool": block["name"], "with": block["input"]}
                for block in blocks
                if block.get("type") == "tool_use"
            ]
            yield {"kind": "reply", "text": "\n\n".join(texts), "calls": calls}
            continue
        for block in blocks:
            if block.get("type") == "tool_result":
                body = convert_body_to_text(block, losses)
                yield {"kind": "result", "call": block["tool_use_id"], "ok": not block.get("is_error"), "text": body}
        if texts:
            summary = facts.flags[index] & MessageFlag.SUMMARY
            yield {"kind": "summary" if summary else "user", "text": "\n\n".join(texts)}
    count_injected_losses(session, losses)
