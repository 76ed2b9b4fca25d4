"""A message as it is read in full: what becomes of it, then its blocks, as pieces of text with a look each.

Pieces come one after another, so that only what is scrolled to is rendered and wrapped. Of a long text a part is shown,
with a note: its beginning, or where what was searched for stands in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

from context_tui.compaction.changes import Change
from context_tui.compaction.plan import Plan
from context_tui.session.blocks import get_text
from context_tui.session.facts import Facts
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Kind
from context_tui.text.sanitize import sanitize
from context_tui.tokens.measures import TokenTable
from context_tui.tui import highlights
from context_tui.tui.diffs import DiffLine, diff, edits_in, patch_in, patch_lines, written_in
from context_tui.tui.finding import find
from context_tui.tui.images import describe_image
from context_tui.tui.languages import language_of, looks_like, numbers_of
from context_tui.tui.marks import ABOUT, CHANGED, PARTS, Mark
from context_tui.tui.numbers import unit_of
from context_tui.tui.parts import Looks, Part, Span, Spans, side_by_side
from context_tui.tui.text import call_line, line, result_text, words_of_unknown
from context_tui.tui.view import Location

LIMIT = 200_000
"""Characters of one text that are shown at first."""
CHUNK = 4_000
"""Characters of a line that are handed out at once, where a text has no line breaks."""
RENDERED = 30_000
"""Characters of a text that are read as markdown."""
COMPARED = 400
"""Lines of a diff that are highlighted."""

_ADDED = re.compile(r"(?=[ \d]{6,}[→\t]) *\d+[→\t]")
"""The number of a line as tools that read files write it: in six columns. It is none of the file."""
_MARKED = {"+": "added", "-": "removed"}

OF_THE_SESSION = frozenset({"text", "quiet", "key", "added", "removed", "heading", "h1", "h2", "h3", "fence"})
"""The looks of what is searched; other parts say something about it."""


class Extent(NamedTuple):
    """How much of each text is shown: ``limit`` characters from its start, or else from before the first *needle*."""

    limit: int = LIMIT
    needle: str = ""

    def of(self, text: str) -> range:
        """The part of a text that is shown: its beginning, unless what is looked for stands only behind that."""
        found = find(text, self.needle) if self.needle and len(text) > self.limit else -1
        if found < 0 or found + len(self.needle) <= min(self.limit, LIMIT):
            return range(min(len(text), self.limit))
        before = found - min(self.limit, LIMIT) // 10
        start = text.find("\n", before, found) + 1 or before
        return range(start, min(len(text), start + self.limit))


Block = dict[str, Any]
START = Extent()


@dataclass(frozen=True)
class Subject:
    """What is read: a location of a session, its full blocks, and what the plan makes of it."""

    session: Session
    location: Location
    blocks: list[Block]
    mark: Mark
    plan: Plan | None = None
    note: str = ""
    belief: str = ""
    events: tuple[str, ...] = ()  # what happened to the context right here
    extent: Extent = START
    sizes: TokenTable | None = None  # the ruler; bytes / 4 without one

    @property
    def rows(self) -> list[int]:
        """Rows of the blocks, in the order of ``blocks``."""
        return list(self.session.facts.blocks_of(self.location.message))


@dataclass(frozen=True)
class Rendering:
    """How texts are shown: as they were written, where nothing else is said.

    ``markdown`` renders a safe text in a look, in so many cells; ``beside`` sets before and after side by side.
    """

    markdown: Callable[[str, str, int, Looks], Iterator[Part]] | None = None
    looks: Looks | None = None
    width: int = 80
    beside: bool = False


PLAIN = Rendering()


def pieces(subject: Subject, rendering: Rendering = PLAIN) -> Iterator[Part]:
    """The whole document."""
    facts = subject.session.facts
    changes = dict(_changed(subject))
    beside = rendering.beside and subject.blocks
    yield from (Part(text, "rule") for text in subject.events)
    yield from _fate(subject, bool(changes))
    for text in filter(None, (subject.note, subject.belief)):
        yield Part(text, "muted")
    if subject.note or subject.belief:
        yield Part("")
    if changes and not beside:
        for row, change in changes.items():
            yield from _after(subject, row, change)
            yield Part("")
        yield Part("before", "heading")
    rows = subject.rows
    if not rows:
        yield Part("empty message", "muted")
    elif not subject.blocks:
        yield Part("cannot be read any more: the file has changed or gone; open it again", "warning")
    for row, block in zip(rows, subject.blocks, strict=False):
        if subject.location.block >= 0 and row != subject.location.block:
            continue
        if subject.location.block < 0 and facts.kind[row] == Kind.TOOL_RESULT:
            continue
        if beside and row in changes:
            before = chain([Part("before", "heading")], _block(subject, row, block, rendering))
            yield from side_by_side(before, _after(subject, row, changes[row]))
        else:
            yield from _block(subject, row, block, rendering)


def first_match(parts: Iterable[Part], needle: str) -> tuple[int, int] | None:
    """The first part in which *needle* stands, or begins, and its place in the text; None where there is none."""
    before = ""
    for number, part in enumerate(parts):
        if part.look not in OF_THE_SESSION:
            before = ""
            continue
        place = find(before + part.text, needle)
        if place >= 0:
            return (number - 1, place) if place < len(before) else (number, place - len(before))
        # What has no line breaks comes in chunks: it may begin in one and end in the next.
        before = part.text if part.goes_on else ""
    return None


def _fate(subject: Subject, changed: bool) -> Iterator[Part]:
    """What becomes of it, in a line."""
    mark = subject.mark
    if mark.word == "kept" and not mark.reason:
        return
    about = ABOUT.get(mark.word, "")
    if changed and subject.location.block < 0:
        about = f"part of it would be {mark.word}"
    if mark.word in ("kept", "protected"):
        yield Part(f"kept: {mark.reason}", "kept")
    elif mark.word in ("before", "after"):
        yield Part(mark.reason, "muted")
    elif subject.plan is None and mark.word in CHANGED:  # it was done
        yield Part(f"{mark.glyph} {mark.reason}", mark.word)
    else:
        yield Part(f"{mark.glyph} {about}: {mark.reason}" if mark.reason != about else about, mark.word)
    if not changed:
        yield Part("")


def _after(subject: Subject, row: int, change: Change) -> Iterator[Part]:
    """What a changed block becomes."""
    body = change.body.text
    if body is None and change.render and row in subject.rows and subject.blocks:
        body = change.render(get_text(subject.blocks[subject.rows.index(row)]))
    tokens = subject.sizes.count_body(row, change.body) if subject.sizes else change.body.tokens
    what = "nothing" if change.body.removed else f"{unit_of(subject.sizes)} {tokens:,} tokens"
    of = "" if subject.location.block >= 0 else f" of its {PARTS[Kind(subject.session.facts.kind[row])]}"
    yield Part(f"after{of}, {what}", "heading")
    if not change.body.removed:
        yield from _text(body or "", "after", subject.extent)


def _changed(subject: Subject) -> Iterator[tuple[int, Change]]:
    """The changed blocks of what is shown: a result, or the others of a message; none where it goes as a whole."""
    plan, facts = subject.plan, subject.session.facts
    if plan is None or subject.mark.word not in ("cleared", "truncated", "dropped"):
        return
    rows = [subject.location.block] if subject.location.block >= 0 else subject.rows
    if plan.verdict(subject.location.message).verdict != "kept":
        return
    for row in rows:
        change = plan.changes.get(row)
        if change and (subject.location.block >= 0 or facts.kind[row] != Kind.TOOL_RESULT):
            yield row, change


def _block(subject: Subject, row: int, block: Block, rendering: Rendering) -> Iterator[Part]:
    facts, extent = subject.session.facts, subject.extent
    kind, flags = facts.kind[row], facts.block_flags[row]
    injected = bool(flags & BlockFlag.INJECTED)
    if injected:
        yield Part("injected by the runtime, not typed", "heading")
    if kind == Kind.TEXT and injected:
        yield from _text(str(block.get("text") or ""), "quiet", extent)
    elif kind == Kind.TEXT:
        yield from _prose(str(block.get("text") or ""), "text", extent, rendering)
    elif kind == Kind.THINKING:
        yield from _thinking(block, extent, rendering)
    elif kind == Kind.TOOL_USE:
        yield from _call(block, subject.session.info.cwd, extent, rendering)
    elif kind == Kind.TOOL_RESULT:
        yield from _result(block, bool(flags & BlockFlag.ERROR), extent, rendering, _language(facts, row))
    elif kind == Kind.IMAGE:
        yield Part(f"image: {describe_image(block)}", "heading")
    else:
        yield Part(f"{words_of_unknown(block)}; not estimated", "heading")
        rest = {name: value for name, value in block.items() if name not in ("type", "note", "encrypted_content")}
        if rest:
            yield from _text(_json(rest), "quiet", extent)
    yield Part("")


def _language(facts: Facts, row: int) -> str:
    """The language of the file that a result was read from."""
    use = facts.tool_use_of(row)
    path = facts.path[use] if use >= 0 else -1
    return language_of(facts.paths[path]) if path >= 0 else ""


def _thinking(block: Block, extent: Extent, rendering: Rendering) -> Iterator[Part]:
    thought = str(block.get("thinking") or "")
    if thought:
        yield Part("thinking", "heading")
        yield from _prose(thought, "quiet", extent, rendering)
        return
    hidden = block.get("signature") or block.get("data") or ""
    size = f": {len(str(hidden)):,} encrypted characters" if hidden else ""
    yield Part(f"thinking, hidden by the provider{size}", "heading")


def _call(block: Block, cwd: str, extent: Extent, rendering: Rendering) -> Iterator[Part]:
    name, arguments = str(block.get("name") or "?"), block.get("input")
    yield Part(f"call {call_line(name, arguments, cwd)}", "heading")
    patch, edits, written = patch_in(arguments), edits_in(arguments), written_in(name, arguments)
    if patch is not None or edits or written is not None:
        language = ""
        for key in ("file_path", "path", "notebook_path", "replace_all"):
            if isinstance(arguments, Mapping) and arguments.get(key):
                yield Part(f"{key}: {arguments[key]}", "key")
                language = language or language_of(str(arguments[key]))
        if patch is not None:
            for part in _diff(patch_lines(patch), language, rendering):
                mark = part.mark.strip()
                yield part._replace(mark=mark, under="┊" if mark else "", written=True)
        for old, new in edits if patch is None else ():
            yield from _diff(diff(old, new), language, rendering)
        if written is not None and patch is None and not edits:
            for part in _code(written, language, extent, rendering):
                added = part.look == "text"
                yield part._replace(look="added", mark="+ ", under="+┊", mark_look="mark-added") if added else part
        return
    if isinstance(arguments, Mapping):
        for key, value in arguments.items():
            yield from _argument(line(str(key)), value, extent, rendering)
    elif arguments is not None:
        yield from _text(arguments if isinstance(arguments, str) else _json(arguments), "text", extent)


def _argument(key: str, value: Any, extent: Extent, rendering: Rendering) -> Iterator[Part]:
    text = value if isinstance(value, str) else _json(value)
    language = "json" if not isinstance(value, str) else "bash" if key in ("command", "cmd", "script") else ""
    if "\n" in text:
        yield Part(f"{key}:", "key")
        for part in _code(text, language, extent, rendering):
            yield part._replace(mark="  ", under="  ")
    elif len(text) > CHUNK or rendering.looks is None:
        yield from _text(f"{key}: {text}", "text", extent)
    else:
        shown, at = sanitize(text), len(sanitize(key)) + 2
        spans = (Span(start + at, stop + at, look) for start, stop, look in rendering.looks([shown], language)[0])
        yield Part(f"{key}: {shown}", "text", (Span(0, at - 1, "key"), *spans))


def _diff(lines: Iterable[DiffLine], language: str, rendering: Rendering) -> Iterator[Part]:
    rest = iter(lines)
    first = list(islice(rest, COMPARED)) if rendering.looks and language else []
    texts = [sanitize(each.text) for each in first]
    if rendering.looks and first:
        for each, text, spans in zip(first, texts, rendering.looks(texts, language), strict=True):
            yield _diff_part(each.mark, text, spans)
    yield from (_diff_part(*each) for each in rest)


def _diff_part(mark: str, text: str, spans: Spans = ()) -> Part:
    if mark == "@":
        return Part("⋯", "muted")
    look = _MARKED.get(mark, "text")
    return Part(text, look, spans, f"{mark} ", f"{mark}┊" if mark.strip() else "  ", f"mark-{look}")


def _result(block: Block, error: bool, extent: Extent, rendering: Rendering, language: str) -> Iterator[Part]:
    if error:
        yield Part("the tool reported an error", "warning")
        language = ""
    content = block.get("content")
    if isinstance(content, list):
        for each in content:
            if isinstance(each, Mapping) and each.get("type") == "image":
                yield Part(f"image: {describe_image(each)}", "heading")
            elif isinstance(each, Mapping) and each.get("type") == "text":
                yield from _output(str(each.get("text") or ""), language, extent, rendering)
            else:
                yield from _text(_json(each), "quiet", extent)
    elif isinstance(content, Mapping):
        yield from _code(_json(content), "json", extent, rendering)
    elif content in (None, ""):
        yield Part("empty result", "muted")
    else:
        yield from _output(result_text(content), language, extent, rendering)


def _output(text: str, language: str, extent: Extent, rendering: Rendering) -> Iterator[Part]:
    """What a tool answered: code where a file was read, or where it is plain to see; the rest stays as it is."""
    language = language or looks_like(text)
    if language == "diff" and rendering.looks:
        start = extent.of(text).start
        yield from _marked(_text(text, "text", extent), start > 0 and text[start - 1] != "\n")
    else:
        yield from _code(text, language, extent, rendering, numbered=True)


def _marked(parts: Iterable[Part], goes_on: bool) -> Iterator[Part]:
    """The lines of a diff; only the first chunk of one has a mark. With *goes_on* they begin within a line."""
    look = "text"
    for part in parts:
        if part.look == "text":
            mark = "" if goes_on or part.text.startswith(("+++", "---")) else part.text[:1]
            if not goes_on:
                look = _MARKED.get(mark, "key" if part.text.startswith("@@") else "text")
            goes_on = part.goes_on
            if look not in ("added", "removed"):
                part = part._replace(look=look)
            elif mark:
                part = Part(part.text[1:], look, (), mark, "┊", f"mark-{look}", part.goes_on, written=True)
            else:
                part = Part(part.text, look, (), "┊", "┊", f"mark-{look}", part.goes_on)
        yield part


def _json(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "nested too deeply to show"


def _prose(text: str, look: str, extent: Extent, rendering: Rendering) -> Iterator[Part]:
    """What somebody wrote: its beginning as markdown, the rest as it is."""
    end = _head(text, RENDERED, extent)
    if rendering.markdown is None or rendering.looks is None or not end:
        yield from _text(text, look, extent)
        return
    yield from rendering.markdown(sanitize(text[:end]), look, rendering.width, rendering.looks)
    if end < len(text):
        yield Part("as it was written, from here on", "muted")
    yield from _text(text, look, extent, end)


def _code(text: str, language: str, extent: Extent, rendering: Rendering, *, numbered: bool = False) -> Iterator[Part]:
    """Code: its beginning highlighted, the rest as it is; with *numbered*, numbers of lines stand apart."""
    end = _head(text, highlights.LIMIT, extent) if language and rendering.looks else 0
    if end and rendering.looks:
        lines = sanitize(text[:end]).removesuffix("\n").split("\n")
        numbers = numbers_of(lines) if numbered else [0] * len(lines)
        written = numbered and not _ADDED.match(text)
        code = [each[number:] for each, number in zip(lines, numbers, strict=True) if number or not numbers[0]]
        looks = iter(rendering.looks(code, language))
        for each, number in zip(lines, numbers, strict=True):
            spans = next(looks) if number or not numbers[0] else ()
            yield Part(each[number:], "text", spans, each[:number], " " * number, "muted", written=written)
    yield from _text(text, "text", extent, end)


def _head(text: str, limit: int, extent: Extent) -> int:
    """Where the lines end that a text begins with, of so many characters at most; 0 where it is not shown there."""
    shown = extent.of(text)
    if shown.start or shown.stop <= limit:
        return 0 if shown.start or shown.stop < len(text) else len(text)
    return text.rfind("\n", 0, limit) + 1


def _text(text: str, look: str, extent: Extent, at: int = 0) -> Iterator[Part]:
    """The shown part of a text line by line, each in chunks, with notes on what is before and behind it."""
    shown = extent.of(text)
    if shown.start:
        yield Part(f"… {shown.start:,} characters before this; g goes to the start", "warning")
    at, end = max(at, shown.start), shown.stop
    while at < end:
        stop = text.find("\n", at, end)
        stop = end if stop < 0 else stop
        for start in range(at, max(stop, at + 1), CHUNK):
            yield Part(text[start : min(start + CHUNK, stop)], look, goes_on=start + CHUNK < stop)
        at = stop + 1
    if len(text) > end:
        yield Part(f"… {len(text) - end:,} more characters; press x to show more", "warning")
