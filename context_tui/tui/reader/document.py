"""A message in full: its verdict, blocks, edits and recorded request as styled text parts."""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from itertools import chain, islice
from typing import Any, NamedTuple

from context_tui.compaction.changes import Change
from context_tui.compaction.plan import Plan
from context_tui.session.blocks import get_text
from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Kind
from context_tui.text.sanitize import sanitize
from context_tui.tokens.context_index import index_context
from context_tui.tokens.measures import TokenTable
from context_tui.tui.rendering import formatting, highlighting
from context_tui.tui.rendering.languages import detect_language, find_path_language, measure_line_numbers
from context_tui.tui.rendering.layout import Highlighter, StyleSpan, StyleSpans, TextPart, pair_columns
from context_tui.tui.search import find_text
from context_tui.tui.timeline.marks import BLOCK_LABELS, CHANGED_VERDICTS, VERDICT_PHRASES, RowMark
from context_tui.tui.timeline.rows import Location

MAX_DIFF_LINES = 2_000
"""Maximum number of lines of two texts, together, that are compared; a diff of longer texts replaces all lines."""

_OLD_TEXT_KEYS = ("old_string", "old_str", "oldText", "old_text", "search")
_NEW_TEXT_KEYS = ("new_string", "new_str", "newText", "new_text", "replace")


class DiffLine(NamedTuple):
    """A diff line and its marker: ``+``, ``-``, a space, or ``@`` for the gap between two hunks."""

    mark: str
    text: str


def find_edits(arguments: Any) -> list[tuple[str, str]]:
    """Return (old, new) texts for the edits that a tool call makes, or [] if it edits nothing."""
    if not isinstance(arguments, Mapping):
        return []
    if isinstance(edits := arguments.get("edits"), list):
        return [pair for edit in edits for pair in find_edits(edit)]
    new = _get_first_text(arguments, _NEW_TEXT_KEYS)
    return [] if new is None else [(_get_first_text(arguments, _OLD_TEXT_KEYS) or "", new)]


def find_written_text(name: str, arguments: Any) -> str | None:
    """Return the text that a tool call writes to a file, or None if it writes none."""
    if name.lower() in ("write", "write_file", "create_file", "writefile") and isinstance(arguments, Mapping):
        return _get_first_text(arguments, ("content", "file_text", "contents"))
    return None


def find_patch(arguments: Any) -> str | None:
    """Return the patch in a tool call's arguments (``*** Begin Patch``), or None if there is none."""
    texts = arguments.values() if isinstance(arguments, Mapping) else [arguments]
    return next((text for text in texts if isinstance(text, str) and "*** Begin Patch" in text[:2_000]), None)


def _get_first_text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


def compute_diff(old: str, new: str) -> Iterator[DiffLine]:
    """Yield the lines of a diff from *old* to *new*, with three lines of context."""
    old_lines, new_lines = old.split("\n") if old else [], new.split("\n") if new else []
    if len(old_lines) + len(new_lines) > MAX_DIFF_LINES or not old_lines or not new_lines:
        yield from (DiffLine("-", line) for line in old_lines)
        yield from (DiffLine("+", line) for line in new_lines)
        return
    for line in islice(unified_diff(old_lines, new_lines, lineterm="", n=3), 2, None):  # without the names of the files
        yield DiffLine("@", "") if line.startswith("@@") else DiffLine(line[:1], line[1:])


def parse_patch(patch: str) -> Iterator[DiffLine]:
    """Yield each line of a patch with its marker, which is a space for a line that changes nothing."""
    for line in patch.split("\n"):
        is_change = line[:1] in ("+", "-") and not line.startswith(("+++", "---"))
        yield DiffLine(line[0], line[1:]) if is_change else DiffLine(" ", line)


def describe_request(session: Session, location: Location) -> str:
    """Format the time of a message and the recorded usage of the request that it answers; "" if neither is known."""
    facts, parts = session.facts, []
    if location.message < len(facts.time) and facts.time[location.message] > 0:
        parts.append(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts.time[location.message] / 1000)))
    row = bisect_left(facts.request_message, location.message)
    if location.block < 0 and row < len(facts.request_message) and facts.request_message[row] == location.message:
        usage = facts.requests[row]
        cache_writes = usage.cache_write_5m + usage.cache_write_1h
        cached = f"{usage.cache_read:,} from the cache, {cache_writes:,} written to it"
        parts.append(f"recorded: {usage.context:,} tokens in ({cached})")
        if usage.output_trusted:
            parts.append(f"{usage.output:,} out")
    return ", ".join(parts)


MAX_SHOWN_CHARS = 200_000
"""Maximum number of characters of a text that are shown at first."""
CHUNK_CHARS = 4_000
"""Maximum number of characters of a part; longer lines are split into several parts."""
MAX_MARKDOWN_CHARS = 30_000
MAX_HIGHLIGHTED_DIFF_LINES = 400

_PADDED_LINE_NUMBER = re.compile(r"(?=[ \d]{6,}[→\t]) *\d+[→\t]")
"""Line number in at least six columns, which a tool that reads a file has added."""
_DIFF_STYLES = {"+": "added", "-": "removed"}

SEARCHED_STYLES = frozenset({"text", "quiet", "key", "added", "removed", "heading", "h1", "h2", "h3", "fence"})
"""Styles of parts that are searched; other parts are annotations."""


class TextExtent(NamedTuple):
    """The part of each text that is shown: ``limit`` characters, from the start or just before the first ``needle``."""

    limit: int = MAX_SHOWN_CHARS
    needle: str = ""

    def find_range(self, text: str) -> range:
        """Return the shown range of a text: its beginning or, if the first needle is further on, a range around it."""
        at = find_text(text, self.needle) if self.needle and len(text) > self.limit else -1
        if at < 0 or at + len(self.needle) <= min(self.limit, MAX_SHOWN_CHARS):
            return range(min(len(text), self.limit))
        before = at - min(self.limit, MAX_SHOWN_CHARS) // 10
        start = text.find("\n", before, at) + 1 or before
        return range(start, min(len(text), start + self.limit))


RawBlock = dict[str, Any]
DEFAULT_EXTENT = TextExtent()


@dataclass(frozen=True)
class DocumentSource:
    """The input of a document: the session, a location in it, the blocks in full, and the effect of the plan on them.

    ``events`` are the context events above the message; ``token_table`` is None for ``bytes/4``.
    """

    session: Session
    location: Location
    blocks: list[RawBlock]
    mark: RowMark
    plan: Plan | None = None
    request_note: str = ""
    runtime_sizes_note: str = ""
    events: tuple[str, ...] = ()
    extent: TextExtent = DEFAULT_EXTENT
    token_table: TokenTable | None = None

    @property
    def rows(self) -> list[int]:
        """The numbers of the blocks in the session's facts, in the order of ``blocks``."""
        return list(self.session.facts.blocks_of(self.location.message))


@dataclass(frozen=True)
class RenderOptions:
    """Options for rendering a document; by default, texts are shown as written.

    ``render_markdown`` renders a safe text in a style and a width in cells. With ``side_by_side``, the texts before and
    after a change are shown in two columns.
    """

    render_markdown: Callable[[str, str, int, Highlighter], Iterator[TextPart]] | None = None
    highlight: Highlighter | None = None
    width: int = 80
    side_by_side: bool = False


PLAIN_TEXT = RenderOptions()


def build_document(source: DocumentSource, options: RenderOptions = PLAIN_TEXT) -> Iterator[TextPart]:
    """Yield the parts of the document for a message or tool result."""
    facts = source.session.facts
    changes = dict(_find_changes(source))
    in_columns = options.side_by_side and source.blocks
    yield from (TextPart(text, "rule") for text in source.events)
    yield from _build_verdict(source, bool(changes))
    for text in filter(None, (source.request_note, source.runtime_sizes_note)):
        yield TextPart(text, "muted")
    if source.request_note or source.runtime_sizes_note:
        yield TextPart("")
    if changes and not in_columns:
        for row, change in changes.items():
            yield from _build_replacement(source, row, change)
            yield TextPart("")
        yield TextPart("before", "heading")
    rows = source.rows
    if not rows:
        yield TextPart("empty message", "muted")
    elif not source.blocks:
        yield TextPart("can no longer be read: the file has changed or was removed; open it again", "warning")
    for row, block in zip(rows, source.blocks, strict=False):
        if source.location.block >= 0 and row != source.location.block:
            continue
        if source.location.block < 0 and facts.kind[row] == Kind.TOOL_RESULT:
            continue
        if in_columns and row in changes:
            before = chain([TextPart("before", "heading")], _build_block(source, row, block, options))
            yield from pair_columns(before, _build_replacement(source, row, changes[row]))
        else:
            yield from _build_block(source, row, block, options)


def find_first_match(parts: Iterable[TextPart], needle: str) -> tuple[int, int] | None:
    """Return the number of the first part in which *needle* begins, and the index in its text, or None."""
    previous_text = ""  # of the same line: a match may extend over two parts of it
    for number, part in enumerate(parts):
        if part.style not in SEARCHED_STYLES:
            previous_text = ""
            continue
        if (index := find_text(previous_text + part.text, needle)) >= 0:
            length = len(previous_text)
            return (number - 1, index) if index < length else (number, index - length)
        previous_text = part.text if part.continues else ""
    return None


def _build_verdict(subject: DocumentSource, is_changed: bool) -> Iterator[TextPart]:
    mark = subject.mark
    if mark.verdict == "kept" and not mark.reason:
        return
    about = VERDICT_PHRASES.get(mark.verdict, "")
    if is_changed and subject.location.block < 0:
        about = f"part of it would be {mark.verdict}"
    if mark.verdict in ("kept", "protected"):
        yield TextPart(f"kept: {mark.reason}", "kept")
    elif mark.verdict in ("before", "after"):
        yield TextPart(mark.reason, "muted")
    elif subject.plan is None and mark.verdict in CHANGED_VERDICTS:  # by the plan that was applied
        yield TextPart(f"{mark.glyph} {mark.reason}", mark.verdict)
    else:
        yield TextPart(f"{mark.glyph} {about}: {mark.reason}" if mark.reason != about else about, mark.verdict)
    if not is_changed:
        yield TextPart("")


def _build_replacement(subject: DocumentSource, row: int, change: Change) -> Iterator[TextPart]:
    body = change.body.text
    if body is None and change.render and row in subject.rows and subject.blocks:
        body = change.render(get_text(subject.blocks[subject.rows.index(row)]))
    tokens = subject.token_table.count_body(row, change.body) if subject.token_table else change.body.tokens
    unit = formatting.format_token_unit(subject.token_table)
    size = "nothing" if change.body.removed else f"{unit} {tokens:,} tokens"
    block = "" if subject.location.block >= 0 else f" of its {BLOCK_LABELS[Kind(subject.session.facts.kind[row])]}"
    yield TextPart(f"after{block}, {size}", "heading")
    if not change.body.removed:
        yield from _build_text(body or "", "after", subject.extent)


def _find_changes(subject: DocumentSource) -> Iterator[tuple[int, Change]]:
    plan, facts = subject.plan, subject.session.facts
    if plan is None or subject.mark.verdict not in ("cleared", "truncated", "dropped"):
        return
    rows = [subject.location.block] if subject.location.block >= 0 else subject.rows
    if plan.find_action(index_context(plan.context).position_of.get(subject.location.message, -1)):
        return
    for row in rows:
        change = plan.changes.get(row)
        if change and (subject.location.block >= 0 or facts.kind[row] != Kind.TOOL_RESULT):
            yield row, change


def _build_block(subject: DocumentSource, row: int, block: RawBlock, rendering: RenderOptions) -> Iterator[TextPart]:
    facts, extent = subject.session.facts, subject.extent
    kind, flags = facts.kind[row], facts.block_flags[row]
    injected = bool(flags & BlockFlag.INJECTED)
    if injected:
        yield TextPart("injected by the runtime, not typed", "heading")
    if kind == Kind.TEXT and injected:
        yield from _build_text(str(block.get("text") or ""), "quiet", extent)
    elif kind == Kind.TEXT:
        yield from _build_prose(str(block.get("text") or ""), "text", extent, rendering)
    elif kind == Kind.THINKING:
        yield from _build_thinking(block, extent, rendering)
    elif kind == Kind.TOOL_USE:
        yield from _build_call(block, subject.session.info.cwd, extent, rendering)
    elif kind == Kind.TOOL_RESULT:
        language = "" if flags & BlockFlag.ERROR else _find_file_language(facts, row)
        yield from _build_result(block, bool(flags & BlockFlag.ERROR), extent, rendering, language)
    elif kind == Kind.IMAGE:
        yield TextPart(f"image: {formatting.describe_image(block)}", "heading")
    else:
        yield TextPart(f"{formatting.format_unknown_block(block)}; not estimated", "heading")
        fields = {name: value for name, value in block.items() if name not in ("type", "note", "encrypted_content")}
        if fields:
            yield from _build_text(_format_json(fields), "quiet", extent)
    if "cache_control" in block:
        yield TextPart("cache breakpoint", "muted")
    yield TextPart("")


def _find_file_language(facts: Facts, row: int) -> str:
    call = facts.find_tool_use(row)
    path = facts.path[call] if call >= 0 else -1
    return find_path_language(facts.paths[path]) if path >= 0 else ""


def _build_thinking(block: RawBlock, extent: TextExtent, rendering: RenderOptions) -> Iterator[TextPart]:
    if text := str(block.get("thinking") or ""):
        yield TextPart("thinking", "heading")
        yield from _build_prose(text, "quiet", extent, rendering)
        return
    encrypted = block.get("signature") or block.get("data") or ""
    size = f": {len(str(encrypted)):,} encrypted characters" if encrypted else ""
    yield TextPart(f"thinking, hidden by the provider{size}", "heading")


def _build_call(block: RawBlock, cwd: str, extent: TextExtent, rendering: RenderOptions) -> Iterator[TextPart]:
    name, arguments = str(block.get("name") or "?"), block.get("input")
    yield TextPart(f"call {formatting.format_call(name, arguments, cwd)}", "heading")
    patch, edits, written_text = find_patch(arguments), find_edits(arguments), find_written_text(name, arguments)
    if patch is not None or edits or written_text is not None:
        language = ""
        for key in ("file_path", "path", "notebook_path", "replace_all"):
            if isinstance(arguments, Mapping) and arguments.get(key):
                yield TextPart(f"{key}: {arguments[key]}", "key")
                language = language or find_path_language(str(arguments[key]))
        if patch is not None:
            for part in _build_diff(parse_patch(patch), language, rendering):
                mark = part.mark.strip()
                yield part._replace(mark=mark, continuation_mark="┊" if mark else "", mark_is_content=True)
        for old, new in edits if patch is None else ():
            yield from _build_diff(compute_diff(old, new), language, rendering)
        if written_text is not None and patch is None and not edits:
            for part in _build_code(written_text, language, extent, rendering):
                if part.style == "text":
                    part = part._replace(style="added", mark="+ ", continuation_mark="+┊", mark_style="mark-added")
                yield part
        return
    if isinstance(arguments, Mapping):
        for key, value in arguments.items():
            yield from _build_argument(formatting.format_line(str(key)), value, extent, rendering)
    elif arguments is not None:
        yield from _build_text(arguments if isinstance(arguments, str) else _format_json(arguments), "text", extent)


def _build_argument(key: str, value: Any, extent: TextExtent, rendering: RenderOptions) -> Iterator[TextPart]:
    text = value if isinstance(value, str) else _format_json(value)
    language = "json" if not isinstance(value, str) else "bash" if key in ("command", "cmd", "script") else ""
    if "\n" in text:
        yield TextPart(f"{key}:", "key")
        for part in _build_code(text, language, extent, rendering):
            yield part._replace(mark="  ", continuation_mark="  ")
    elif len(text) > CHUNK_CHARS or rendering.highlight is None:
        yield from _build_text(f"{key}: {text}", "text", extent)
    else:
        safe_text, offset = sanitize(text), len(sanitize(key)) + 2
        highlights = rendering.highlight([safe_text], language)[0]
        spans = (StyleSpan(start + offset, stop + offset, style) for start, stop, style in highlights)
        yield TextPart(f"{key}: {safe_text}", "text", (StyleSpan(0, offset - 1, "key"), *spans))


def _build_diff(lines: Iterable[DiffLine], language: str, rendering: RenderOptions) -> Iterator[TextPart]:
    remaining = iter(lines)
    first = list(islice(remaining, MAX_HIGHLIGHTED_DIFF_LINES)) if rendering.highlight and language else []
    texts = [sanitize(line.text) for line in first]
    if rendering.highlight and first:
        for line, text, spans in zip(first, texts, rendering.highlight(texts, language), strict=True):
            yield _build_diff_line(line.mark, text, spans)
    yield from (_build_diff_line(*line) for line in remaining)


def _build_diff_line(mark: str, text: str, spans: StyleSpans = ()) -> TextPart:
    if mark == "@":
        return TextPart("⋯", "muted")
    style = _DIFF_STYLES.get(mark, "text")
    return TextPart(text, style, spans, f"{mark} ", f"{mark}┊" if mark.strip() else "  ", f"mark-{style}")


def _build_result(
    block: RawBlock, error: bool, extent: TextExtent, rendering: RenderOptions, language: str
) -> Iterator[TextPart]:
    if error:
        yield TextPart("the tool reported an error", "warning")
    if isinstance(content := block.get("content"), list):
        for part in content:
            if isinstance(part, Mapping) and part.get("type") == "image":
                yield TextPart(f"image: {formatting.describe_image(part)}", "heading")
            elif isinstance(part, Mapping) and part.get("type") == "text":
                yield from _build_output(str(part.get("text") or ""), language, extent, rendering)
            else:
                yield from _build_text(_format_json(part), "quiet", extent)
    elif isinstance(content, Mapping):
        yield from _build_code(_format_json(content), "json", extent, rendering)
    elif content in (None, ""):
        yield TextPart("empty result", "muted")
    else:
        yield from _build_output(formatting.format_result(content), language, extent, rendering)


def _build_output(text: str, language: str, extent: TextExtent, rendering: RenderOptions) -> Iterator[TextPart]:
    language = language or detect_language(text)
    if language == "diff" and rendering.highlight:
        start = extent.find_range(text).start
        yield from _style_diff_lines(_build_text(text, "text", extent), start > 0 and text[start - 1] != "\n")
    else:
        yield from _build_code(text, language, extent, rendering, numbered=True)


def _style_diff_lines(parts: Iterable[TextPart], continues: bool) -> Iterator[TextPart]:
    """Yield the parts of a diff with their styles and marks; with *continues*, the first part begins within a line."""
    style = "text"
    for part in parts:
        if part.style == "text":
            mark = "" if continues or part.text.startswith(("+++", "---")) else part.text[:1]
            if not continues:
                style = _DIFF_STYLES.get(mark, "key" if part.text.startswith("@@") else "text")
            continues = part.continues
            if style not in ("added", "removed"):
                part = part._replace(style=style)
            elif mark:
                text, mark_style = part.text[1:], f"mark-{style}"
                part = TextPart(text, style, (), mark, "┊", mark_style, part.continues, mark_is_content=True)
            else:
                part = TextPart(part.text, style, (), "┊", "┊", f"mark-{style}", part.continues)
        yield part


def _format_json(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "nested too deeply to show"


def _build_prose(text: str, style: str, extent: TextExtent, rendering: RenderOptions) -> Iterator[TextPart]:
    end = _find_head_end(text, MAX_MARKDOWN_CHARS, extent)
    if rendering.render_markdown is None or rendering.highlight is None or not end:
        yield from _build_text(text, style, extent)
        return
    yield from rendering.render_markdown(sanitize(text[:end]), style, rendering.width, rendering.highlight)
    if end < len(text):
        yield TextPart("raw text from here on", "muted")
    yield from _build_text(text, style, extent, end)


def _build_code(
    text: str, language: str, extent: TextExtent, rendering: RenderOptions, *, numbered: bool = False
) -> Iterator[TextPart]:
    """Yield the parts of code, whose beginning is highlighted; with *numbered*, line numbers become marks."""
    end = _find_head_end(text, highlighting.MAX_HIGHLIGHTED_CHARS, extent) if language and rendering.highlight else 0
    if end and rendering.highlight:
        lines = sanitize(text[:end]).removesuffix("\n").split("\n")
        numbers = measure_line_numbers(lines) if numbered else [0] * len(lines)
        number_is_content = numbered and not _PADDED_LINE_NUMBER.match(text)
        code = [line[number:] for line, number in zip(lines, numbers, strict=True) if number or not numbers[0]]
        line_spans = iter(rendering.highlight(code, language))
        for line, number in zip(lines, numbers, strict=True):
            spans, mark, blanks = next(line_spans) if number or not numbers[0] else (), line[:number], " " * number
            yield TextPart(line[number:], "text", spans, mark, blanks, "muted", mark_is_content=number_is_content)
    yield from _build_text(text, "text", extent, end)


def _find_head_end(text: str, limit: int, extent: TextExtent) -> int:
    """Return the end of the last whole line in *limit* characters; 0 if there is none, or the start is not shown."""
    shown_range = extent.find_range(text)
    if shown_range.start or shown_range.stop <= limit:
        return 0 if shown_range.start or shown_range.stop < len(text) else len(text)
    return text.rfind("\n", 0, limit) + 1


def _build_text(text: str, style: str, extent: TextExtent, start: int = 0) -> Iterator[TextPart]:
    shown_range = extent.find_range(text)
    if shown_range.start:
        yield TextPart(f"… {shown_range.start:,} characters before this; g goes to the start", "warning")
    start, end = max(start, shown_range.start), shown_range.stop
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        for place in range(start, max(stop, start + 1), CHUNK_CHARS):
            yield TextPart(text[place : min(place + CHUNK_CHARS, stop)], style, continues=place + CHUNK_CHARS < stop)
        start = stop + 1
    if len(text) > end:
        yield TextPart(f"… {len(text) - end:,} more characters; press x to show more", "warning")
