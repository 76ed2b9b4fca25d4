"""`compacted-session.jsonl`: an earlier summary, cleared results, a branch that was left, an agent's own chain."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from scripts.samples.claude import Call, Recorder, text, thinking
from scripts.samples.ledger import IMPORTER, IMPORTER_FIXED, MODEL, README, TESTS, numbered

CWD = "/home/dev/ledger"

SUMMARY = Path(__file__).with_name("compacted-summary.txt").read_text("utf-8")
AGENT = "a7c41de05b92f3e61"


def tool_output(path: str, body: str) -> Call:
    """A Read of a file of the ledger."""
    file = {"filePath": f"{CWD}/{path}", "content": body, "numLines": body.count("\n") + 1, "startLine": 1}
    tool_result = {"type": "text", "file": file | {"totalLines": file["numLines"]}}
    return Call("Read", {"file_path": f"{CWD}/{path}"}, numbered(body), client_result=tool_result)


def bash(command: str, about: str, out: str, *, error: bool = False) -> Call:
    """A Bash call."""
    tool_result = {"stdout": out, "stderr": "", "interrupted": False, "isImage": False}
    return Call("Bash", {"command": command, "description": about}, out, error, None if error else tool_result)


def edit(path: str, old: str, new: str) -> Call:
    """An Edit of a file."""
    tool_input = {"replace_all": False, "file_path": f"{CWD}/{path}", "old_string": old, "new_string": new}
    result_text = f"The file {CWD}/{path} has been updated successfully."
    return Call(
        "Edit", tool_input, result_text, client_result={"filePath": f"{CWD}/{path}", "oldString": old, "newString": new}
    )


def build() -> bytes:
    """The session."""
    it = Recorder("compacted", datetime(2026, 9, 14, 8, 2, 11), CWD, version="2.1.217", hidden=14_000)
    start = _import(it)
    _agent(it)
    it.turn_ended(start)
    _microcompact(it)
    _rewind(it)
    _compact(it)
    _after(it)
    it.side(type="last-prompt", lastPrompt="And the README, in two lines.", leafUuid=it.parent)
    return it.lines()


def _import(it: Recorder) -> datetime:
    it.prompt(
        "My bank exports statements as CSV. Write an importer for the ledger, and make sure that importing the same "
        "file twice adds nothing.\n\n[A sample session of context-tui: written by hand, nobody's real work.]",
        after=0,
    )
    start = it.now
    it.reply(
        thinking("I should look at the model first: what an entry is decides what a duplicate is."),
        text("I'll look at the model and at what the export looks like."),
        calls=[tool_output("ledger/model.py", MODEL), tool_output("README.md", README)],
    )
    sample = "Buchungstag;Betrag;Text\n02.09.2026;-12,40;BAECKEREI AM MARKT\n03.09.2026;1.234,50;GEHALT SEPTEMBER\n"
    it.reply(
        calls=[
            bash("head -3 statements/2026-09.csv | iconv -f latin1", "Look at the export", sample),
            bash("wc -l statements/*.csv; file statements/*.csv", "Size and encoding of the exports", _EXPORTS),
        ]
    )
    write = Call(
        "Write",
        {"file_path": f"{CWD}/ledger/importer.py", "content": IMPORTER},
        f"File created successfully at: {CWD}/ledger/importer.py",
        client_result={"type": "create", "filePath": f"{CWD}/ledger/importer.py", "content": IMPORTER},
    )
    it.reply(text("Semicolons, a decimal comma and latin-1. The importer:"), calls=[write], seconds=19)
    tests = Call(
        "Write",
        {"file_path": f"{CWD}/tests/test_importer.py", "content": TESTS},
        f"File created successfully at: {CWD}/tests/test_importer.py",
        client_result={"type": "create", "filePath": f"{CWD}/tests/test_importer.py", "content": TESTS},
    )
    it.reply(calls=[tests], seconds=14)
    it.reply(calls=[bash("python -m pytest -q tests/test_importer.py", "Run the new tests", _FAILED, error=True)])
    it.reply(
        thinking("1.234,50: the dot is a thousands separator here. Remove it before the comma is replaced."),
        calls=[edit("ledger/importer.py", 'Decimal(value.replace(",", "."))', IMPORTER_FIXED)],
    )
    it.reply(calls=[bash("python -m pytest -q", "Run all tests", "..........                     [100%]\n10 passed\n")])
    return start


def _agent(it: Recorder) -> None:
    """A call of the Task tool; what the agent did is a chain of its own in the same file."""
    prompt = "List every place in the ledger that compares amounts, and whether it compares Decimal with float."
    answer = "Two places: `Ledger.balance` (model.py:31) and `report.total` (report.py:12). Both compare Decimal only."
    tool_result = {"status": "completed", "agentId": AGENT, "totalToolUseCount": 1, "prompt": prompt}
    call = Call(
        "Task",
        {"description": "Find amount comparisons", "prompt": prompt, "subagent_type": "Explore"},
        [text(answer)],
        client_result=tool_result,
        id=it.id("toolu"),
    )
    parent, context, cached = it.parent, it.context, it.cached
    it.parent, it.sidechain, it.context, it.cached = None, AGENT, 5_000.0, 0
    before = len(it.records)
    it.add(type="user", message={"role": "user", "content": prompt})
    it.count(prompt)
    grep = Call(
        "Grep", {"pattern": "amount.*[<>=]=", "output_mode": "content"}, _GREP, client_result={"mode": "content"}
    )
    it.reply(calls=[grep])
    it.reply(text(answer))
    agents = it.records[before:]
    del it.records[before:]
    it.parent, it.sidechain, it.context, it.cached = parent, "", context, cached
    it.reply(text("Before I call it done I have somebody check the comparisons."), calls=[call], tool_seconds=20)
    it.records[-1:-1] = agents
    it.reply(text("The importer works and skips what is there already: an entry's key is date, amount and text."))


def _microcompact(it: Recorder) -> None:
    """The client clears the first results, with a record of it."""
    ids = [
        record["message"]["content"][0]["tool_use_id"]
        for record in it.records
        if "sourceToolAssistantUUID" in record and not record["isSidechain"]
    ][:3]
    saved_tokens = 1_350
    it.add(
        type="system",
        subtype="microcompact_boundary",
        content="Context microcompacted",
        isMeta=False,
        late={
            "level": "info",
            "microcompactMetadata": {
                "trigger": "auto",
                "preTokens": int(it.context),
                "tokensSaved": saved_tokens,
                "compactedToolIds": ids,
                "clearedAttachmentUUIDs": [],
            },
        },
    )
    it.context -= saved_tokens
    it.cached = it.hidden


def _rewind(it: Recorder) -> None:
    """A prompt, some work, and another prompt from the same place: the first branch is left."""
    fork, context = it.parent, it.context
    it.prompt("Now convert everything to integers of cents.", after=210)
    it.reply(
        text("That touches every amount; I start with the model."),
        calls=[edit("ledger/model.py", "amount: Decimal", "cents: int")],
    )
    it.reply(
        calls=[bash("python -m pytest -q", "Run all tests", "FFFFF.....  [100%]\n5 failed, 5 passed\n", error=True)]
    )
    it.parent, it.context = fork, context
    start = it.now
    it.prompt("No, keep Decimal. But return how many entries were added.", after=95)
    old, new = "ledger.add(entry)\n", "ledger.add(entry)\n            added += 1\n    return added\n"
    it.reply(calls=[edit("ledger/importer.py", old, new), edit("ledger/importer.py", "-> None", "-> int")])
    it.reply(calls=[bash("python -m pytest -q", "Run all tests", "...........                    [100%]\n11 passed\n")])
    it.reply(text("`import_statement` returns the number of new entries now; 0 the second time, and a test says so."))
    it.turn_ended(start)


def _compact(it: Recorder) -> None:
    """`/compact`: a boundary, its summary, and the messages that it preserved (the last answer and its turn's end)."""
    before, tail, total = it.parent, [record["uuid"] for record in it.records[-2:]], int(it.context)
    it.wait(40)
    it.parent = None
    boundary = it.add(
        type="system",
        subtype="compact_boundary",
        content="Conversation compacted",
        isMeta=False,
        logicalParentUuid=before,
        late={"level": "info"},
    )
    at = len(it.records) - 1
    it.wait(31)
    record = {"role": "user", "content": SUMMARY}
    summary = it.add(type="user", message=record, late={"isVisibleInTranscriptOnly": True, "isCompactSummary": True})
    it.context = it.hidden + len(SUMMARY) / 3.6 + 80
    it.cached = 0
    it.records[at]["compactMetadata"] = {
        "trigger": "manual",
        "preTokens": total,
        "durationMs": 31_000,
        "postTokens": int(it.context) - it.hidden,
        "preservedSegment": {"headUuid": tail[0], "anchorUuid": summary, "tailUuid": tail[-1]},
        "preservedMessages": {"anchorUuid": summary, "uuids": tail, "allUuids": tail},
    }
    assert boundary
    attached = {"type": "file", "filename": f"{CWD}/ledger/importer.py", "content": {"type": "text", "file": {}}}
    attached["content"] = {"type": "text", "file": {"filePath": f"{CWD}/ledger/importer.py", "content": IMPORTER}}
    it.add(type="attachment", attachment=attached)
    it.count(IMPORTER)


def _after(it: Recorder) -> None:
    start = it.now
    it.prompt("Next: --dry-run, which prints what would be added and writes nothing.", after=64)
    it.reply(calls=[tool_output("ledger/importer.py", IMPORTER), bash("ls; ls tests", "Look around", _FILES)])
    it.reply(
        thinking("The command line is in __main__. The flag belongs to import only."),
        calls=[edit("ledger/__main__.py", "add.add_argument(", 'add.add_argument("--dry-run", action="store_true")\n')],
    )
    it.reply(calls=[bash("python -m pytest -q", "Run all tests", "............                   [100%]\n12 passed\n")])
    it.reply(text("`ledger import --dry-run FILE` prints each new entry and leaves the ledger as it was."))
    it.turn_ended(start)
    it.prompt("And the README, in two lines.", after=25)
    it.reply(
        calls=[
            edit(
                "README.md",
                "## Use\n",
                "## Use\n\n`ledger import FILE` adds a bank's CSV export;\n`--dry-run` only prints.\n",
            )
        ]
    )
    it.reply(text("Done: two lines under Use."))


_EXPORTS = """\
   41 statements/2026-08.csv
   38 statements/2026-09.csv
   79 total
statements/2026-08.csv: ISO-8859 text
statements/2026-09.csv: ISO-8859 text
"""
_FAILED = """\
Exit code 1
...F                                                                     [100%]
=================================== FAILURES ===================================
_____________________________ test_thousands_dot _______________________________

    def test_thousands_dot():
>       assert parse_amount("1.234,50") == Decimal("1234.50")

tests/test_importer.py:22:
ledger/importer.py:18: in parse_amount
    return Decimal(value.replace(",", "."))
E   decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]
=========================== short test summary info ============================
FAILED tests/test_importer.py::test_thousands_dot - decimal.InvalidOperation
1 failed, 3 passed
"""
_GREP = """\
ledger/model.py:31:        return sum((e.amount for e in self.entries), Decimal(0)) == amount
ledger/report.py:12:    if total.amount != expected.amount:
"""
_FILES = """\
LICENSE
README.md
ledger
statements
tests
__init__.py
test_importer.py
test_model.py
"""
