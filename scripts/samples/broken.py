"""`broken-on-purpose.jsonl`: what recordings look like after crashes, full disks and newer programs than the reader."""

from __future__ import annotations

from datetime import datetime

from scripts.samples.claude import Call, Recorder, line, text

CWD = "/home/dev/notes"


def build() -> bytes:
    """The session."""
    it = Recorder("broken", datetime(2026, 8, 21, 17, 5, 40), CWD, version="2.1.62", hidden=9_000)
    it.prompt("Count the words of each note.\n\n[A sample session of context-tui, broken on purpose.]", after=0)
    listing = Call("Glob", {"pattern": "*.md"}, f"{CWD}/garden.md\n{CWD}/plans.md\n{CWD}/recipes.md", client_result={})
    count = Call("Bash", {"command": "wc -w *.md"}, "  212 garden.md\n   78 plans.md\n  530 recipes.md\n  820 total\n")
    it.reply(text("Let me look."), calls=[listing, count])
    it.reply(text("garden.md 212, plans.md 78, recipes.md 530: 820 words."))
    it.prompt("And the one in \ud83d-quotes? The file name has half an emoji in it.", after=50)
    odd = Call("Bash", {"command": "ls | cat -v"}, "garden.md\nplans.md\nrecipes.md\n\ud83d.txt\n")
    it.reply(calls=[odd])
    it.reply(text("There is `\ud83d.txt`; it is empty. Its name holds half of a surrogate pair."))
    return _break([line(record) for record in it.records], it)


def _break(lines: list[bytes], it: Recorder) -> bytes:
    """The lines with everything wrong that this sample is there for."""
    it.add(type="hologram", content="a record type from the future", level="info")
    unknown = line(it.records[-1])
    orphan = {"tool_use_id": "toolu_01NobodyMadeThisCallAtAll", "type": "tool_result", "content": "42 files changed"}
    it.add(type="user", message={"role": "user", "content": [orphan]}, late={"toolUseResult": "42 files changed"})
    orphaned = line(it.records[-1])
    it.prompt("Thanks. Remove the empty one.", after=30)
    prompt = line(it.records[-1])
    remove = {"type": "tool_use", "id": it.id("toolu"), "name": "Bash", "input": {"command": "rm -- ./?.txt"}}
    usage = {
        "input_tokens": 9,
        "cache_creation_input_tokens": 220,
        "cache_read_input_tokens": 9_410,
        "output_tokens": 31,
    }
    message = {"model": it.model, "id": it.id("msg"), "type": "message", "role": "assistant", "content": [remove]}
    it.add(message=message | {"stop_reason": "tool_use", "usage": usage}, type="assistant")
    torn = line(it.records[-1])[:-90]  # the disk was full, or the program is still writing
    two_on_a_line = lines[1].rstrip(b"\n") + lines[2]
    garbage = bytes(range(128, 192)) + b"\x00\xff\xfe{\n"
    lines_after = [lines[0], two_on_a_line, b"\n", *lines[3:6], b"   \n", garbage, *lines[6:], unknown, orphaned]
    not_an_object = b'["a list", "is not a record"]\n'
    half = lines[3][: len(lines[3]) // 2] + b"\n"
    return b"".join([*lines_after, not_an_object, half, prompt, torn])
