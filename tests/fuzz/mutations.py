"""Mutated session files, each made from one whole number: the same number gives the same file everywhere."""

from __future__ import annotations

import copy
import json
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.seeds import DOCUMENT, FOLDER, KODA_SCHEMA, LINES, ROWS, SEEDS, TABLES, TEXT
from tests.fuzz.seeds import SCHEMAS as DATABASES

Dice = random.Random
Slot = tuple[Any, Any]
"""A list or an object, and the index or key of a value in it."""

DEPTHS = (5, 100, 195, 199, 200, 201, 205, 340, 600, 800, 1_000, 5_000, 100_000)
"""How deep values are nested; from some 900 on it depends on the caller's depth whether they can be decoded at all."""
_HOLE = "@@literal:{}@@"


class Literals:
    """JSON text that the ``json`` module would not write, by the string that stands in its place until then."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def hole(self, literal: str) -> str:
        """A string that becomes *literal* in the file."""
        self._texts.append(literal)
        return _HOLE.format(len(self._texts) - 1)

    def fill(self, text: str) -> str:
        """The text with literals in their places, also where it is a string inside a string."""
        for number, literal in enumerate(self._texts):
            hole = _HOLE.format(number)
            text = text.replace(f'"{hole}"', literal).replace(f'\\"{hole}\\"', literal.replace('"', '\\"'))
        return text


def odd_value(dice: Dice, literals: Literals) -> Any:
    """A value that a reader may not expect where it is put."""
    match dice.randrange(12):
        case 0:
            return dice.choice([[], {}, None, True, False, "", "\0", [[]], [None], [1, "a", {}], {"": None}])
        case 1:
            return dice.choice([-1, 0, 1, 10**9, 10**9 + 1, 2**31, 2**53, 2**63, 2**64, 2**70, -(2**70)])
        case 2:
            return dice.choice([0.5, -0.0, 12.0, 1e16, -3.5, 1e308, 253402300800.0, 10**15, 10**12])
        case 3:
            digits = dice.choice([400, 4_299, 4_301, 9_000])
            return literals.hole(dice.choice(["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * digits, "-1e-999"]))
        case 4:
            return dice.choice(["\ud800", "a\udc00b", "\ufeff", "\x1b[31m", "é" * 3, "\u2028", "a\nb", "\u202e"])
        case 5:
            return dice.choice("x/ \0é") * dice.choice([255, 256, 1_000, 5_000])
        case 6 | 7:
            depth = dice.choice(DEPTHS if dice.random() < 0.3 else DEPTHS[:10])
            opened, closed = dice.choice([("[", "]"), ('{"a":', "}"), ('[{"type":"text","content":', "}]")])
            return literals.hole(opened * depth + dice.choice(['""', "1", "[]"]) + closed * depth)
        case 8:
            names = ["text", "tool_use", "tool_result", "thinking", "image", "user", "assistant", "system", "tool"]
            return dice.choice([*names, "attachment", "compact_boundary", "microcompact_boundary", "summary", "nobody"])
        case 9:
            return dice.choice(["0001-01-01T00:00:00Z", "9999-12-31T23:59:59+00:00", "2026-01-01", "1e3", "not a time"])
        case 10:
            return {"type": dice.choice([["x"], {"a": 1}, None, 7, True]), "text": dice.choice([None, ["a"], {"b": 1}])}
        case _:
            return [{"type": dice.choice(["text", "image", ["text"], None]), "text": dice.choice([1, None, "a", []])}]


def slots_in(value: Any) -> Iterator[Slot]:
    """Every place in a value where another could stand."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key, inner in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            yield holder, key
            if isinstance(inner, dict | list):
                waiting.append(inner)


def _replace(root: Any, dice: Dice, literals: Literals) -> str:
    holder, key = dice.choice(list(slots_in(root)))
    holder[key] = odd_value(dice, literals)
    return f"{key!r} = {str(holder[key])[:60]!r}"


def _delete(root: Any, dice: Dice, literals: Literals) -> str:
    holder, key = dice.choice(list(slots_in(root)))
    del holder[key]
    return f"without {key!r}"


def _duplicate(root: Any, dice: Dice, literals: Literals) -> str:
    lists = [(holder, key) for holder, key in slots_in(root) if isinstance(holder, list)]
    if not lists:
        return _replace(root, dice, literals)
    holder, key = dice.choice(lists)
    holder.insert(dice.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
    return f"element {key} twice"


def _swap(root: Any, dice: Dice, literals: Literals) -> str:
    (first, one), (second, two) = dice.choice(found := list(slots_in(root))), dice.choice(found)
    first[one], second[two] = copy.deepcopy(second[two]), copy.deepcopy(first[one])
    return f"{one!r} and {two!r} change places"


def _wrap(root: Any, dice: Dice, literals: Literals) -> str:
    holder, key = dice.choice(list(slots_in(root)))
    holder[key] = dice.choice([[holder[key]], {"a": holder[key]}, str(holder[key])])
    return f"{key!r} wrapped"


IDS = ("id", "uuid", "parentUuid", "tool_use_id", "tool_call_id", "headUuid", "tailUuid", "leafUuid", "agentId", "type")


def _same_id(root: Any, dice: Dice, literals: Literals) -> str:
    """Ids of another record: duplicates, cycles, answers to nothing."""
    found = [(holder, key) for holder, key in slots_in(root) if key in IDS]
    if len(found) < 2:
        return _replace(root, dice, literals)
    (first, one), (second, two) = dice.sample(found, 2)
    first[one] = copy.deepcopy(second[two])
    return f"{one!r} is another's {two!r}"


NUMBERS = (
    *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "preTokens"),
    *(
        "tokensSaved",
        "prompt_tokens",
        "completion_tokens",
        "cache_read_tokens",
        "context_window",
        "timestamp",
        "created",
    ),
    *("usage", "cache_creation", "offset", "limit", "numLines", "created_at", "compacted_at", "cached_tokens", "id"),
)
MEMBERS = (
    *("type", "content", "text", "input", "name", "role", "message", "attachment", "source", "tool_calls", "arguments"),
    *("function", "cwd", "sessionId", "model", "compactMetadata", "preservedSegment", "preservedMessages", "uuids"),
    *("toolUseResult", "origin", "tools", "system", "messages", "thinking", "signature", "data", "is_error", "version"),
    *("isSidechain", "isMeta", "isCompactSummary", "subtype", "compactedToolIds", "file_path", "image_url", "url"),
)


def _known_member(root: Any, dice: Dice, literals: Literals) -> str:
    """A member that readers look at gets another value, or is put where there was none."""
    objects = [holder for holder, _ in slots_in(root) if isinstance(holder, dict)]
    if not objects:
        return _replace(root, dice, literals)
    name = dice.choice(NUMBERS if dice.random() < 0.4 else MEMBERS)
    having = [holder for holder in objects if name in holder]
    holder = dice.choice(having if having and dice.random() < 0.8 else objects)
    holder[name] = odd_value(dice, literals)
    return f"{name} = {str(holder[name])[:60]!r}"


def _inside_text(root: Any, dice: Dice, literals: Literals) -> str:
    """JSON that stands in a string is mutated where it stands."""
    texts = [(holder, key) for holder, key in slots_in(root) if str(holder[key])[:1] in ("{", "[")]
    texts = [(holder, key) for holder, key in texts if isinstance(holder[key], str)]
    if not texts:
        return _replace(root, dice, literals)
    holder, key = dice.choice(texts)
    with suppress(ValueError):
        inner = [json.loads(holder[key])]
        what = _replace(inner, dice, literals)
        holder[key] = json.dumps(inner[0], separators=(",", ":"))
        return f"in the text of {key!r}: {what}"
    return "nothing"


def _repeat(root: Any, dice: Dice, literals: Literals) -> str:
    """An element many times, one after the other or all over its list."""
    lists = [(holder, key) for holder, key in slots_in(root) if isinstance(holder, list)]
    if not lists:
        return _replace(root, dice, literals)
    holder, key = dice.choice(lists)
    element, count = holder[key], dice.choice([2, 9, 60, 250])
    for number in range(count):
        holder.insert(dice.choice([key, number % len(holder)]), copy.deepcopy(element))
    return f"element {key} {count} times"


def _reorder(root: Any, dice: Dice, literals: Literals) -> str:
    """The elements of a list in another order: answers before calls, children before parents."""
    lists = [inner for holder, key in slots_in([root]) if isinstance(inner := holder[key], list) and len(inner) > 1]
    if not lists:
        return _replace(root, dice, literals)
    elements = dice.choice(lists)
    if dice.random() < 0.5:
        elements.reverse()
    else:
        dice.shuffle(elements)
    return f"{len(elements)} elements in another order"


_TIME_NAMES = (
    "timestamp",
    "created",
    "created_at",
    "createdAt",
    "time",
    "ts",
    "time_created",
    "completed_at",
    "updated_at",
)


def _times(root: Any, dice: Dice, literals: Literals) -> str:
    """Times that are all the same, run backwards, or are of several kinds."""
    slots = [(holder, key) for holder, key in slots_in(root) if key in _TIME_NAMES]
    if not slots:
        return _replace(root, dice, literals)
    style = dice.randrange(4)
    for number, (holder, key) in enumerate(slots):
        seconds = {0: 1_772_359_200, 1: 1_772_359_200 - 40_000 * number, 2: 10 ** dice.randrange(16), 3: -number}[style]
        iso = f"2026-03-{28 - number % 28:02}T10:00:00{dice.choice(['Z', '+14:00', '', '.123456789Z'])}"
        holder[key] = dice.choice([seconds, seconds * 1_000, float(seconds), iso, str(seconds)])
    return f"{len(slots)} times in style {style}"


def _one_id(root: Any, dice: Dice, literals: Literals) -> str:
    """One id for everything, or ids of another type."""
    slots = [(holder, key) for holder, key in slots_in(root) if key in IDS[:-1]]
    if not slots:
        return _replace(root, dice, literals)
    value = dice.choice([holder[key] for holder, key in slots] + ["", 0, "a" * 400, None, ["a"], "\n"])
    share = dice.choice([0.1, 0.5, 1.0])
    for holder, key in slots:
        if dice.random() < share:
            holder[key] = copy.deepcopy(value)
    return f"{share:.0%} of {len(slots)} ids are {str(value)[:40]!r}"


STRUCTURAL = (
    *(_known_member,) * 5,
    *(_replace,) * 4,
    *(_delete, _duplicate, _swap, _wrap, _same_id, _same_id, _inside_text, _repeat, _reorder, _times, _one_id),
)


def _byte_mutation(data: bytes, dice: Dice) -> tuple[bytes, str]:
    """What storage, other programs and people do to files."""
    at = dice.randrange(len(data) + 1)
    match dice.randrange(12):
        case 0 | 1:
            return data[:at], f"cut at {at}"
        case 2:
            return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :], f"byte {at} changed"
        case 3:
            return data[:at] + b"\0" * dice.choice([1, 50]) + data[at:], f"NUL at {at}"
        case 4:
            bad = dice.choice([b"\xff", b"\xed\xa0\x80", b"\xc3", b"\\ud800", b"\xe2\x80\xa8"])
            return data[:at] + bad + data[at:], f"{bad!r} at {at}"
        case 5:
            return b"\xef\xbb\xbf" + data, "a byte-order mark"
        case 6:
            return data.replace(b"\n", b"\r\n"), "CRLF"
        case 7:
            return data.replace(b"\n", b"", dice.randrange(1, 9)), "several records on a line"
        case 8:
            return data.replace(b"\n", b" ", dice.randrange(1, 9)), "several records on a line, apart"
        case 9:
            end = min(len(data), at + dice.randrange(1, 400))
            return data[:at] + data[end:], f"without {at} to {end}"
        case 10:
            return data + data[at:], f"once more from {at}"
        case _:
            return data.replace(b":", b": ").replace(b",", b", "), "spaced"


@dataclass(frozen=True)
class Case:
    """One mutated session: ``steps`` are the seeds of its mutations."""

    seed: int
    format: str
    steps: tuple[int, ...]

    @property
    def suffix(self) -> str:
        """The suffix of its file."""
        return {"koda": ".db", "claude-code": ".jsonl"}.get(self.format, ".json")

    def write(self, path: Path) -> list[str]:
        """Write the file; returns what was done to it, in words."""
        dice = Dice(f"base {self.seed}")
        layout, make = dice.choice(SEEDS[self.format])
        root, literals, words = copy.deepcopy(make()), Literals(), list[str]()
        bytewise: list[Dice] = []
        for step in self.steps:
            own = Dice(f"step {step}")
            if own.random() < 0.25:
                bytewise.append(own)
            elif next(slots_in(root), None):
                words.append(own.choice(STRUCTURAL)(root, own, literals))
        if layout == ROWS:
            words += _write_database(root, literals, path, bytewise)
            return words
        if layout == TABLES:
            return [*words, *_write_tables(DATABASES[self.format], root, literals, path, bytewise)]
        if layout == FOLDER:
            return [*words, *_write_folder(root, literals, path, bytewise, dice)]
        data = _text(root, layout, literals, dice).encode("utf-8", "surrogatepass")
        for own in bytewise:
            data, what = _byte_mutation(data, own)
            words.append(what)
        path.write_bytes(data)
        return words


def _text(root: Any, layout: str, literals: Literals, dice: Dice) -> str:
    ascii_only = dice.random() < 0.5
    separators = dice.choice([(",", ":"), (",", ":"), (", ", ": ")])

    def dumped(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, separators=separators)

    if layout == TEXT:
        return literals.fill("\n".join(each if isinstance(each, str) else dumped(each) for each in root))
    if layout == DOCUMENT or not isinstance(root, list):
        return literals.fill(dumped(root))
    assert layout == LINES
    return literals.fill("".join(dumped(value) + "\n" for value in root))


def _write_folder(root: Any, literals: Literals, path: Path, bytewise: list[Dice], dice: Dice) -> list[str]:
    """Each member as a file; mutations of bytes are of one of them, or take one away."""
    files = {
        name: _text(value, LINES if isinstance(value, list) else DOCUMENT, literals, dice).encode(
            "utf-8", "surrogatepass"
        )
        for name, value in (root.items() if isinstance(root, dict) else ())
    }
    words = list[str]()
    for own in bytewise:
        if not files:
            break
        name = own.choice(sorted(files))
        if own.random() < 0.3:
            del files[name]
            words.append(f"no {name}")
        else:
            files[name], what = _byte_mutation(files[name], own)
            words.append(f"{name}: {what}")
    path.mkdir(exist_ok=True)
    for number, (name, data) in enumerate(files.items()):
        with suppress(OSError, ValueError):  # a name that no file can have
            (path / name).write_bytes(data)
            changed = 1_790_000_000 + 5 * number
            os.utime(path / name, (changed, changed))
    return words


SCHEMAS: tuple[Callable[[str], str], ...] = (
    lambda schema: schema.replace("CREATE TABLE sessions", "CREATE TABLE others"),
    lambda schema: schema.replace("CREATE TABLE session_metadata", "CREATE TABLE meta"),
    lambda schema: schema.replace("id INTEGER PRIMARY KEY AUTOINCREMENT", "id"),
    lambda schema: schema.replace("tool_call_id,", "tool_call_id INTEGER,").replace("content,", "content BLOB,"),
    lambda schema: schema.replace(" title)", " title PRIMARY KEY)"),
    lambda schema: schema.replace("session_id, role", "session_id INTEGER, role REAL"),
    lambda schema: (
        schema.replace("CREATE TABLE messages", "CREATE TABLE rows") + "CREATE VIEW messages AS SELECT * FROM rows;"
    ),
)
_DROPPED = ("tool_calls", "completed_at", "prompt_tokens", "thinking_content", "compacted_at", "created_at", "role")


def _write_database(root: Any, literals: Literals, path: Path, bytewise: list[Dice]) -> list[str]:
    """The rows as a database; bytes, tables and columns are what mutations of bytes become for some of them."""
    schema, words = KODA_SCHEMA, list[str]()
    drops: list[str] = []
    for own in bytewise:
        if own.random() < 0.4 and schema == KODA_SCHEMA:
            number = own.randrange(len(SCHEMAS))
            schema = SCHEMAS[number](schema)
            words.append(f"schema {number}")
        elif own.random() < 0.4:
            drops.append(own.choice(_DROPPED))
            words.append(f"no column {drops[-1]}")
    path.unlink(missing_ok=True)
    table = "rows" if "CREATE TABLE rows" in schema else "messages"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA journal_mode = MEMORY")
        database.executescript("BEGIN;" + schema)
        for values in (
            ("s", "2026-03-01", "koda", "/src", "2026-03-01", "A title"),
            (None, 1, 2.5, b"x", None, b"\xff"),
        ):
            with suppress(sqlite3.Error):
                database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", values)
        columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
        for row in root if isinstance(root, list) else []:
            if isinstance(row, dict):
                kept = {name: _column(value, literals) for name, value in row.items() if name in columns}
                marks = ", ".join("?" * len(kept))
                with suppress(sqlite3.Error, OverflowError, UnicodeError):
                    database.execute(f"INSERT INTO {table} ({', '.join(kept)}) VALUES ({marks})", [*kept.values()])
        for name in drops:
            with suppress(sqlite3.Error):
                database.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        database.execute("COMMIT")
    for own in bytewise:
        if own.random() < 0.3:
            data, what = _byte_mutation(path.read_bytes(), own)
            words.append(what)
            path.write_bytes(data)
    return words


def _write_tables(schema: str, root: Any, literals: Literals, path: Path, bytewise: list[Dice]) -> list[str]:
    """The rows of several tables as a database; some mutations of bytes take a column away."""
    words = list[str]()
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA journal_mode = MEMORY")
        database.executescript("BEGIN;" + schema)
        for table, rows in root.items() if isinstance(root, dict) else ():
            for row in rows if isinstance(rows, list) else ():
                if isinstance(row, dict):
                    kept = {name: _column(value, literals) for name, value in row.items()}
                    names, marks = ", ".join(f'"{name}"' for name in kept), ", ".join("?" * len(kept))
                    with suppress(sqlite3.Error, OverflowError, UnicodeError, ValueError):
                        database.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', [*kept.values()])
        for own in bytewise:
            if own.random() < 0.4:
                columns = [(row[0], row[1]) for row in database.execute(_COLUMNS)]
                table, name = own.choice(columns)
                with suppress(sqlite3.Error):
                    database.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
                    words.append(f"no column {table}.{name}")
        database.execute("COMMIT")
    for own in bytewise:
        if own.random() < 0.5:
            data, what = _byte_mutation(path.read_bytes(), own)
            words.append(what)
            path.write_bytes(data)
    return words


_COLUMNS = """
SELECT m.name, c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c
WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%'
"""


def _column(value: Any, literals: Literals) -> Any:
    """A value as a column may hold it."""
    if isinstance(value, dict | list):
        return literals.fill(json.dumps(value))
    if isinstance(value, str):
        filled = literals.fill(f'"{value}"') if value.startswith("@@") else literals.fill(value)
        return filled.encode("utf-8", "surrogatepass") if any("\ud800" <= c <= "\udfff" for c in filled) else filled
    return value


def case_of(seed: int) -> Case:
    """The case of this number."""
    dice = Dice(seed)
    weights = {**dict.fromkeys(SEEDS, 1), "claude-code": 5, "anthropic": 3, "openai": 3, "koda": 2}
    del weights["claude-requests"]  # came later, and is drawn apart so that the other numbers are still the same files
    name = dice.choices(list(weights), list(weights.values()))[0]
    if Dice(f"requests {seed}").random() < 1 / (1 + sum(weights.values())):
        name = "claude-requests"
    steps = dice.choice([1, 1, 1, 2, 3, 5])
    return Case(seed, name, tuple(dice.randrange(2**32) for _ in range(steps)))
