"""A message as it is read in full: what becomes of it, then its blocks, as pieces of text with a look each.

Pieces come one after another, so that only what is scrolled to is wrapped. Of a long text a part is shown, with a note:
its beginning, or where what was searched for stands in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from context_tui.compaction.changes import Change
from context_tui.compaction.plan import Plan
from context_tui.session.bodies import text_in
from context_tui.session.facts import BlockFlag, Kind
from context_tui.session.session import Session
from context_tui.tui.diffs import diff, edits_in, patch_in, patch_lines, written_in
from context_tui.tui.finding import find
from context_tui.tui.images import describe_image
from context_tui.tui.marks import ABOUT, CHANGED, PARTS, Mark
from context_tui.tui.text import call_line, line, result_text
from context_tui.tui.view import Location
from context_tui.tui.widgets.reading_pane import Part

LIMIT = 200_000
"""Characters of one text that are shown at first."""
CHUNK = 4_000
"""Characters of a line that are handed out at once, where a text has no line breaks."""


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

    @property
    def rows(self) -> list[int]:
        """Rows of the blocks, in the order of ``blocks``."""
        return list(self.session.facts.blocks_of(self.location.message))


def pieces(subject: Subject) -> Iterator[Part]:
    """The whole document."""
    facts = subject.session.facts
    yield from (Part(text, "rule") for text in subject.events)
    yield from _fate(subject)
    for text in filter(None, (subject.note, subject.belief)):
        yield Part(text, "muted")
    if subject.note or subject.belief:
        yield Part("")
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
        yield from _block(subject, row, block)


def _fate(subject: Subject) -> Iterator[Part]:
    mark = subject.mark
    if mark.word == "kept" and not mark.reason:
        return
    changed = list(_changed(subject))
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
    for row, change in changed:
        body = change.body.text
        if body is None and change.render and row in subject.rows and subject.blocks:
            body = change.render(text_in(subject.blocks[subject.rows.index(row)]))
        what = "nothing" if change.body.removed else f"est. {change.body.tokens:,} tokens"
        of = "" if subject.location.block >= 0 else f" of its {PARTS[Kind(subject.session.facts.kind[row])]}"
        yield Part(f"after{of}, {what}", "heading")
        yield from _text(body or "", "after", subject.extent) if not change.body.removed else ()
        yield Part("")
    yield Part("before", "heading") if changed else Part("")


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


def _block(subject: Subject, row: int, block: Block) -> Iterator[Part]:
    facts = subject.session.facts
    kind, flags = facts.kind[row], facts.block_flags[row]
    if flags & BlockFlag.INJECTED:
        yield Part("injected by the runtime, not typed", "heading")
    if kind == Kind.TEXT:
        yield from _text(
            str(block.get("text") or ""), "quiet" if flags & BlockFlag.INJECTED else "text", subject.extent
        )
    elif kind == Kind.THINKING:
        yield from _thinking(block, subject.extent)
    elif kind == Kind.TOOL_USE:
        yield from _call(block, subject.session.info.cwd, subject.extent)
    elif kind == Kind.TOOL_RESULT:
        yield from _result(block, bool(flags & BlockFlag.ERROR), subject.extent)
    elif kind == Kind.IMAGE:
        yield Part(f"image: {describe_image(block)}", "heading")
    else:
        yield Part(f"{line(str(block.get('type') or 'unknown block'))}: not estimated", "heading")
        yield from _text(_json(block), "quiet", subject.extent)
    yield Part("")


def _thinking(block: Block, extent: Extent) -> Iterator[Part]:
    thought = str(block.get("thinking") or "")
    if thought:
        yield Part("thinking", "heading")
        yield from _text(thought, "quiet", extent)
        return
    hidden = block.get("signature") or block.get("data") or ""
    size = f": {len(str(hidden)):,} encrypted characters" if hidden else ""
    yield Part(f"thinking, hidden by the provider{size}", "heading")


def _call(block: Block, cwd: str, extent: Extent) -> Iterator[Part]:
    name, arguments = str(block.get("name") or "?"), block.get("input")
    yield Part(f"call {call_line(name, arguments, cwd)}", "heading")
    patch, edits, written = patch_in(arguments), edits_in(arguments), written_in(name, arguments)
    if patch is not None or edits or written is not None:
        for key in ("file_path", "path", "notebook_path", "replace_all"):
            if isinstance(arguments, Mapping) and arguments.get(key):
                yield Part(f"{key}: {arguments[key]}", "key")
        lines = patch_lines(patch) if patch is not None else iter(())
        yield from (_diff_part(*each) for each in lines)
        for old, new in edits if patch is None else ():
            yield from (_diff_part(*each) for each in diff(old, new))
        if written is not None and patch is None and not edits:
            yield from (_diff_part("+", each.text) for each in _text(written, "text", extent))
        return
    if isinstance(arguments, Mapping):
        for key, value in arguments.items():
            text = value if isinstance(value, str) else _json(value)
            if "\n" in text:
                yield Part(f"{line(str(key))}:", "key")
                yield from (Part("  " + each.text, each.look) for each in _text(text, "text", extent))
            else:
                yield from _text(f"{line(str(key))}: {text}", "text", extent)
    elif arguments is not None:
        yield from _text(arguments if isinstance(arguments, str) else _json(arguments), "text", extent)


def _diff_part(mark: str, text: str) -> Part:
    look = {"+": "added", "-": "removed", "@": "muted"}.get(mark, "text")
    return Part("⋯" if mark == "@" else f"{mark} {text}", look)


def _result(block: Block, error: bool, extent: Extent) -> Iterator[Part]:
    if error:
        yield Part("the tool reported an error", "warning")
    content = block.get("content")
    if isinstance(content, list):
        for each in content:
            if isinstance(each, Mapping) and each.get("type") == "image":
                yield Part(f"image: {describe_image(each)}", "heading")
            elif isinstance(each, Mapping) and each.get("type") == "text":
                yield from _text(str(each.get("text") or ""), "text", extent)
            else:
                yield from _text(_json(each), "quiet", extent)
    elif isinstance(content, Mapping):
        yield from _text(_json(content), "text", extent)
    elif content in (None, ""):
        yield Part("empty result", "muted")
    else:
        yield from _text(result_text(content), "text", extent)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "nested too deeply to show"


def _text(text: str, look: str, extent: Extent) -> Iterator[Part]:
    """The shown part of a text line by line, each in chunks, with notes on what is before and behind it."""
    shown = extent.of(text)
    at, end = shown.start, shown.stop
    if at:
        yield Part(f"… {at:,} characters before this; g goes to the start", "warning")
    while at < end:
        stop = text.find("\n", at, end)
        stop = end if stop < 0 else stop
        for start in range(at, max(stop, at + 1), CHUNK):
            yield Part(text[start : min(start + CHUNK, stop)], look)
        at = stop + 1
    if len(text) > end:
        yield Part(f"… {len(text) - end:,} more characters; press x to show more", "warning")
