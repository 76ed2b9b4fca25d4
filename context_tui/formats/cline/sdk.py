"""Read sessions of Cline's SDK and command line, ``ID.messages.json``, which record the usage of each reply.

All messages stay in that file. After a compaction, ``ID.compaction.json`` holds the newest summary, a copy of the kept
messages, and the number of messages at that time. Earlier summaries are lost.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from context_tui.formats.base import Claim
from context_tui.formats.cline.paths import find_sdk_sessions
from context_tui.formats.kit import values
from context_tui.formats.kit.blocks import build_text, extract_text
from context_tui.formats.kit.document_scanner import DocumentFormat, DocumentShape, copy_document, read_document_title
from context_tui.formats.kit.documents import Run
from context_tui.formats.kit.heads import parse_only_value, read_json
from context_tui.formats.kit.message_builder import FullCompactionRecord, MessageBuilder, MessageRecord, ParsedRecord
from context_tui.formats.kit.usage import make_cached_usage, parse_token_count
from context_tui.session.facts import Usage
from context_tui.session.session import SessionInfo
from context_tui.text.sanitize import truncate_name

NOTICE_MARK = "<SYSTEM_NOTICE>"
MAX_RESULT_UNITS = 8_000
"""Maximum length of a string in a result, in UTF-16 code units. The middle of a longer string is not sent."""
SHORTENED_SINCE = 3, 0, 57
"""First version of the command line that is known to shorten the results of all tools by that limit."""


def _list_description_files(path: Path) -> list[Path]:
    names = (path.name.replace(".messages.json", ".json"), "session.json")
    return [path.with_name(name) for name in names if name != path.name]


def _get_compaction_file(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix('.messages.json')}.compaction.json")


class ClineSdkShape(DocumentShape):
    """Parser for messages of the Messages API, to which the SDK adds file blocks and marks on summaries."""

    _shortens_results = False

    def read_metadata(self, run: Run, builder: MessageBuilder) -> None:
        origin = values.as_object(run.get("origin"))
        version = values.parse_version(values.as_text(origin.get("version")))
        self._shortens_results = origin.get("source") == "cli" and version >= SHORTENED_SINCE
        builder.facts.input_includes_cache = True
        builder.append_system(extract_text(values.parse_blocks(run.get("system_prompt"))))

    def parse(self, value: Any, place: int) -> ParsedRecord:
        role = values.parse_role(value)
        blocks = values.parse_blocks(value.get("content"))
        injected = (number for number, block in enumerate(blocks) if _is_injected(block))
        usage, notes = values.parse_usage_or_note(_parse_usage, value.get("metrics"))
        return MessageRecord(
            role,
            [*map(self._parse_block, blocks)],
            time=values.parse_time_ms(value.get("ts")),
            usage=usage,
            notes=notes,
            injected_blocks=frozenset(injected),
            model=truncate_name(values.as_text(values.as_object(value.get("modelInfo")).get("id"))),
            compaction=_parse_compaction(values.as_object(value.get("metadata"))),
        )

    def _parse_block(self, block: dict[str, Any]) -> dict[str, Any]:
        content = block.get("content")
        if block.get("type") == "file" and isinstance(content, str):
            return build_text(content)
        if block.get("type") == "tool_result" and self._shortens_results:
            return {**block, "content": _shorten_strings(content)}
        return block


def _shorten_strings(value: Any) -> Any:
    """Return the content of a tool result as Cline sends it, with long strings shortened. The file has them in full."""
    if isinstance(value, str):
        return _shorten_middle(value)
    if isinstance(value, list):
        return [_shorten_strings(each) for each in value]
    if isinstance(value, dict) and value.get("type") != "image":
        return {name: _shorten_strings(member) for name, member in value.items()}
    return value


def _shorten_middle(text: str) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    omitted, end, marker = len(units) // 2 - MAX_RESULT_UNITS, 0, ""
    if omitted <= 0:
        return text
    for _ in range(2):  # the marker takes room, so more is omitted, which may make the marker longer
        marker = f"\n\n...[truncated {omitted} chars]...\n\n"
        end = (MAX_RESULT_UNITS - len(marker)) // 2
        omitted = len(units) // 2 - 2 * end
    return f"{_decode(units[: 2 * end])}{marker}{_decode(units[-2 * end :])}"


def _decode(units: bytes) -> str:
    return units.decode("utf-16-le", "replace")


def _parse_compaction(metadata: dict[str, Any]) -> FullCompactionRecord | None:
    match metadata.get("kind"):
        case "compaction":
            reason = metadata.get("reason")
            trigger = truncate_name(reason) if isinstance(reason, str) else None
            return FullCompactionRecord(trigger, context=(0,), has_summary=False)
        case "compaction_summary":
            tokens = values.parse_tokens_or_note(metadata, "tokensBefore")[0] or None
            if isinstance(kept := metadata.get("keptMessages"), int):
                return FullCompactionRecord(None, tokens, kept_messages=kept)
            return FullCompactionRecord(None, tokens, context=(0,))
    return None


def _parse_usage(metrics: Any) -> Usage | None:
    if not isinstance(metrics, dict) or "inputTokens" not in metrics:
        return None
    names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")
    return make_cached_usage(*(parse_token_count(metrics, name) for name in names))


def _is_injected(block: dict[str, Any]) -> bool:
    text = str(block.get("text")) if block.get("type") == "text" else ""
    return block.get("type") == "file" or text.lstrip().startswith(NOTICE_MARK)


class ClineSdkFormat(DocumentFormat):
    """The format of sessions of Cline's SDK and command line."""

    name: ClassVar[str] = "cline-sdk"
    checked_with: ClassVar[str] = "3.0.65"
    unrecorded: ClassVar[tuple[str, ...]] = ("instruction files", "tool schemas")
    about: ClassVar[str] = "Cline SDK and command line sessions (.messages.json)"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    shape = ClineSdkShape

    copy = staticmethod(copy_document)
    find_sessions = staticmethod(find_sdk_sessions)

    @staticmethod
    def related_files(path: Path) -> list[Path]:
        return [*_list_description_files(path), _get_compaction_file(path)]

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        value = values.as_object(parse_only_value(head))
        if not isinstance(value.get("version"), int):
            return None
        if isinstance(value.get("sessionId"), str) and "agent" in value and isinstance(value.get("messages", []), list):
            return Claim(93, "a version, an agent and a sessionId")
        return None

    def read_runs(self, path: Path) -> list[Run]:
        """Return the session's messages, with the newest summary inserted where its compaction happened."""
        runs = super().read_runs(path)
        is_own_name = path.name.endswith(".messages.json")
        compaction = values.as_object(read_json(_get_compaction_file(path)) if is_own_name else None)
        count, messages = compaction.get("source_message_count"), compaction.get("messages")
        if len(runs) == 1 and isinstance(count, int) and isinstance(messages, list) and messages:
            elements, summary = runs[0].elements, values.as_object(messages[0])
            metadata = {**values.as_object(summary.get("metadata")), "keptMessages": len(messages) - 1}
            if len(messages) <= count + 1 <= len(elements) + 1 and metadata.get("kind") == "compaction_summary":
                elements = [*elements[:count], {**summary, "metadata": metadata}, *elements[count:]]
                return [replace(runs[0], elements=elements)]
        return runs

    def list_sessions(self, path: Path) -> list[SessionInfo]:
        descriptions = map(read_json, _list_description_files(path))
        description: dict[str, Any] = next((each for each in descriptions if isinstance(each, dict)), {})
        origin = values.as_object(values.as_object(description.get("metadata")).get("fork")).get("forkedFromSessionId")
        cwd = values.as_text(description.get("cwd"))
        note = f"forked from session {truncate_name(origin)}" if isinstance(origin, str) else ""
        return [replace(info, cwd=cwd, note=note or info.note) for info in super().list_sessions(path)]

    def read_title(self, path: Path) -> str:
        return read_document_title(path, ClineSdkShape())
