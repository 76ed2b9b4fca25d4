"""Read Aider's chat histories, Markdown files with many sessions, each of which begins with a heading.

A line of typed text begins with ``#### `` and ends with two spaces, and a blank line precedes a group of such lines. A
line of the console begins with ``> `` and ends with two spaces. A reply has blank lines around it. These rules usually
distinguish typed and console lines from headings and quotations in a reply. Commands and answers to console questions
are typed but not sent; the prompt of an ``/ask`` command is repeated after the command.

The history lacks files that were added to the chat, the system prompt, the repository map, and the summaries that Aider
makes of long chats. Its token counts are rounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from context_tui.errors import UnreadableSession
from context_tui.formats.base import Claim, SessionFile
from context_tui.formats.kit import document_scanner, documents, files, message_builder, values
from context_tui.formats.kit.blocks import build_text
from context_tui.formats.kit.usage import make_cached_usage
from context_tui.session.facts import Usage
from context_tui.session.jsontext import BOM
from context_tui.session.values import MessageFlag, Role
from context_tui.text.sanitize import truncate_name

HISTORY_NAME = ".aider.chat.history.md"
SESSION_HEADING = "# aider chat started at "
INCOMPLETE_NOTE = (
    "best effort: the files in the chat and its summaries are not in the history, and recorded tokens are rounded"
)
_TOKENS_PATTERN = re.compile(r"Tokens: ([\d.,]+[kM]?) sent(.*?), ([\d.,]+[kM]?) received")
_CACHE_PATTERN = re.compile(r"([\d.,]+[kM]?) cache (write|hit)")
_MODEL_PATTERN = re.compile(r"(?:Main model|Model): (\S+)")
_CLEAR_COMMANDS = ("/clear", "/reset")
_ANSWER_PATTERN = re.compile(r".*\(Y\)es/\(N\)o.*\[\w+\]: \w+")
"""Answer to a group of questions, which is recorded like typed text."""
_FAILED_EDIT_PATTERN = re.compile(r"# \d+ SEARCH/REPLACE blocks? failed to match!")
"""Start of the message that tells the model of a failed edit; the console shows that message too."""
_FAILED_EDIT_END = "Just reply with fixed versions of the block"
_TOKEN_SCALES = {"k": 1_000, "M": 1_000_000}


class AiderShape(document_scanner.DocumentShape):
    """Parser for the parts of a chat: groups of consecutive lines that are typed text, a reply, or console output."""

    def read_metadata(self, run: documents.Run, builder: message_builder.MessageBuilder) -> None:
        builder.facts.input_includes_cache = True

    @staticmethod
    def note(run: documents.Run) -> str:
        return INCOMPLETE_NOTE

    def parse(self, value: Any, place: int) -> message_builder.ParsedRecord:
        """Parse a part of the chat. A command becomes metadata, or (``/clear``) an empty context, and is not sent."""
        text, time = str(value["text"]), values.parse_time_ms(value.get("time"))
        if value["kind"] in ("console", "counts"):
            model = _MODEL_PATTERN.search(text)
            usage = message_builder.UsageRecord(_parse_usage(text))
            if model is None:
                return usage
            model_record = message_builder.MetadataRecord(model=truncate_name(model[1]))
            return message_builder.group_records(model_record, usage)
        blocks = [build_text(text)] if text else []
        if value["kind"] == "reflected":
            return message_builder.MessageRecord(Role.USER, blocks, is_injected=True)
        if value["kind"] == "said":
            return message_builder.MessageRecord(Role.ASSISTANT, blocks, flags=0 if text else MessageFlag.NOT_SENT)
        if text.startswith(_CLEAR_COMMANDS):
            return message_builder.ResetRecord()
        if text.startswith(("/", "!")) or _ANSWER_PATTERN.fullmatch(text):
            return message_builder.MetadataRecord()
        return message_builder.MessageRecord(Role.USER, blocks, time=time)


def _parse_usage(line: str) -> Usage | None:
    if not (match := _TOKENS_PATTERN.search(line)):
        return None
    cached = {kind: _parse_token_count(size) for size, kind in _CACHE_PATTERN.findall(match[2])}
    sent, received = _parse_token_count(match[1]), _parse_token_count(match[3])
    return make_cached_usage(sent, cached.get("hit", 0), cached.get("write", 0), received)


def _parse_token_count(text: str) -> int:
    scale = _TOKEN_SCALES.get(text[-1], 1)
    try:
        return round(float(text.rstrip("kM").replace(",", "")) * scale)
    except ValueError:
        return 0


def _parse_elements(text: str, time: str) -> Iterator[dict[str, str]]:
    """Yield the parts of a chat. Consecutive console output is one part, but each report of token counts is another.

    Only the first part with typed text gets the *time*. Token counts that follow no reply are those of an empty one.
    """
    current, texts, has_reply = "", list[str](), False
    for speaker, lines in [*_split_by_speaker(text), ("", "")]:
        kind = speaker
        if kind == "console":
            is_continued = current == "reflected" and _FAILED_EDIT_END not in texts[-1]
            if is_continued or _FAILED_EDIT_PATTERN.match(lines):
                kind = "reflected"
            elif _TOKENS_PATTERN.search(lines):
                kind = "counts"
        if texts and (kind != current or kind in ("typed", "said", "counts")):
            if current == "counts" and not has_reply:
                yield {"kind": "said", "text": ""}
            has_reply = current == "said" or (has_reply and current == "console")
            yield {"kind": current, "text": "\n".join(texts), **({"time": time} if current == "typed" else {})}
            time, texts = ("" if current == "typed" else time), []
        current = kind
        texts.append(lines)


def _split_by_speaker(text: str) -> Iterator[tuple[str, str]]:
    kind, lines, previous_kind, is_continued = "said", list[str](), "blank", False
    for line in (raw_line.rstrip("\r") for raw_line in text.split("\n")):
        has_line_end, is_typed = line.endswith("  "), line.startswith("#### ") and line.endswith("  ")
        if is_continued and not (is_typed and not lines[-1].strip()):
            lines.append(line.strip())
            is_continued = not has_line_end
            continue
        if not line.strip():
            lines.append("")
            previous_kind = "blank"
            continue
        if is_typed and previous_kind in ("blank", "typed"):
            speaker, content = "typed", line[5:-2]
        elif previous_kind == "console" or (line.startswith(">") and has_line_end and previous_kind != "said"):
            speaker, content = "console", line.removeprefix(">").strip()
            is_continued = not has_line_end
        else:
            speaker, content = "said", line
        if speaker != kind or speaker == "console" or (speaker == "typed" and previous_kind == "blank"):
            if any(raw_line.strip() for raw_line in lines):
                yield kind, "\n".join(lines).strip("\n")
            lines = []
        lines.append(content)
        kind = previous_kind = speaker
    if any(line.strip() for line in lines):
        yield kind, "\n".join(lines).strip("\n")


class AiderFormat(document_scanner.DocumentFormat):
    """The format of Aider's chat histories."""

    name: ClassVar[str] = "aider"
    checked_with: ClassVar[str] = "0.86.2"
    unrecorded: ClassVar[tuple[str, ...]] = ("system prompt", "examples", "reminders", "restored history")
    about: ClassVar[str] = "Aider chat histories (Markdown), best effort: no files of the chat, rounded token counts"
    suffixes: ClassVar[tuple[str, ...]] = (".history.md",)
    shape = AiderShape

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        lines = head.removeprefix(BOM)[:4_096].split(b"\n")
        is_history = any(line.startswith(SESSION_HEADING.encode()) for line in lines)
        return Claim(90, "a chat of Aider started") if is_history else None

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Return the history that ``AIDER_CHAT_HISTORY_FILE`` names and those in the current and all parent folders."""
        folder, configured = cwd.absolute(), environ.get("AIDER_CHAT_HISTORY_FILE")
        histories = [project / HISTORY_NAME for project in (folder, *folder.parents)]
        places = [folder / configured, *histories] if configured else histories
        return [SessionFile(path, path.parent.name, True) for path in dict.fromkeys(places) if os.path.isfile(path)]

    def read_runs(self, path: Path) -> list[documents.Run]:
        text = files.read_whole_file(path).decode("utf-8", "replace")
        runs: list[documents.Run] = []
        for chunk in re.split(rf"^(?={re.escape(SESSION_HEADING)})", text, flags=re.MULTILINE):
            if chunk.startswith(SESSION_HEADING):
                heading, _, rest = chunk.partition("\n")
                time = heading.removeprefix(SESSION_HEADING).strip()
                runs.append(documents.Run({"started": time}, [*_parse_elements(rest, time)]))
        if not runs:
            raise UnreadableSession(f"{path}: holds no chat of Aider")
        return runs
