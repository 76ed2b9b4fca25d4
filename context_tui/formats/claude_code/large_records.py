"""Decode records of many megabytes in a separate process, with long texts truncated, so that no thread is blocked.

``python -m context_tui.formats.claude_code.large_records DESCRIPTOR START LENGTH`` first prints one line for the record
without its blocks. Then it prints one line for each block: the block with long text truncated, and its full size.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from context_tui.formats.claude_code import parsing
from context_tui.formats.claude_code.parsing import Record
from context_tui.formats.kit.lines import LineFile
from context_tui.session.facts import BlockSize, Facts
from context_tui.session.jsontext import compact_json, loads
from context_tui.session.values import Role

MAX_TEXT_LENGTH = 4_000
"""Characters to which a text is truncated: enough to recognise markers and markup."""
WHOLE_MEMBERS = ("id", "tool_use_id", "name")
"""Members of a block that are not truncated."""
POLL_INTERVAL_S = 0.005
"""Seconds between two checks of the other process; reading may be stopped at each check."""


@dataclass
class RecordOutline:
    """A large record with truncated blocks. ``sizes`` maps the ``id()`` of each block to its full size."""

    record: Record
    blocks: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[int, BlockSize] = field(default_factory=dict)


def decode_outline(file: LineFile, start: int, length: int) -> Generator[bool, None, RecordOutline]:
    """Decode a record in another process. Yield True while the process runs; return the outline or raise ValueError."""
    # -P: import nothing from the working directory.
    descriptor, null = file.descriptor, subprocess.DEVNULL
    argv = [sys.executable, "-P", "-m", __name__, str(descriptor), str(start), str(length)]
    try:
        process = subprocess.Popen(argv, stdin=null, stdout=subprocess.PIPE, stderr=null, pass_fds=(descriptor,))
    except OSError as error:
        raise ValueError(str(error)) from None
    assert process.stdout is not None
    outline: RecordOutline | None = None
    buffer = bytearray()  # start of an incomplete line
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if selector.select(POLL_INTERVAL_S):
                    if not (data := os.read(process.stdout.fileno(), 1 << 16)):
                        break
                    buffer += data
                    *lines, buffer = buffer.split(b"\n") if b"\n" in data else (buffer,)
                    for line in lines:
                        if outline is None:
                            outline = RecordOutline(parsing.parse_line(bytes(line)))
                        else:
                            block, measures = loads(bytes(line))
                            outline.blocks.append(block)
                            outline.sizes[id(block)] = BlockSize(*measures)
                yield True
        exit_code = process.wait()
    finally:  # also when the caller stops early
        process.kill()
        process.stdout.close()
        process.wait()
    if exit_code or outline is None:
        raise ValueError("could not be decoded")
    return outline


def format_outline_lines(line: bytes) -> Iterator[bytes]:
    """Yield the lines to print for a record. Raises ValueError if *line* is not a JSON object."""
    record = parsing.parse_line(line)
    blocks = parsing.extract_blocks(record)
    if record.message is not None:
        record.message.content = msgspec.Raw(b"null")
    if not parsing.is_clear(record):
        record.data = msgspec.Raw(b"null")
    record.attachment, record.rendered = _truncate_texts(record.attachment), _truncate_texts(record.rendered)
    yield compact_json(record)
    facts = Facts()
    message = facts.add_message(Role.ASSISTANT)
    for block in blocks:
        row = facts.add_block(message, block)
        names = {name: block[name] for name in WHOLE_MEMBERS if name in block}
        yield compact_json([_truncate_texts(block) | names, facts.get_block_size(row)])


def _truncate_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value[:MAX_TEXT_LENGTH]
    if isinstance(value, list):
        return [*map(_truncate_texts, value)]
    return {key: _truncate_texts(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def main() -> None:
    """Print the outline of the record named on the command line, or exit with code 1 if it cannot be decoded."""
    descriptor, start, length = map(int, sys.argv[1:])
    line = os.pread(descriptor, length, start)
    try:
        for each in format_outline_lines(line):
            sys.stdout.buffer.write(each + b"\n")
    except ValueError:
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
