"""The little program that two of the sample sessions work on: files of an imagined project."""

from __future__ import annotations


def numbered(body: str) -> str:
    """A file as the Read tool shows it."""
    return "\n".join(f"{number:6}\u2192{line}" for number, line in enumerate(body.splitlines(), 1))


README = """\
# ledger

A double-entry ledger in one text file.

## Use

    python -m ledger add 2026-09-01 -12.40 "bakery"
    python -m ledger report

## Rules

- Amounts are decimals with two places. Nothing is ever rounded.
- The file is plain text, sorted by date; git is the history.
"""

MODEL = '''\
"""Entries and the ledger that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path


@dataclass(frozen=True, order=True)
class Entry:
    """One booking. Its key is all of it: the same day, amount and text is the same booking."""

    day: date
    amount: Decimal
    text: str

    def __post_init__(self) -> None:
        if self.amount.as_tuple().exponent != -2:
            raise ValueError(f"{self.amount}: an amount has two places")

    def line(self) -> str:
        return f"{self.day.isoformat()}  {self.amount:>12}  {self.text}"


@dataclass
class Ledger:
    """All entries, by date."""

    entries: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.entries.sort()

    def __contains__(self, entry: Entry) -> bool:
        return entry in set(self.entries)

    def balance(self, amount: Decimal) -> bool:
        return sum((e.amount for e in self.entries), Decimal(0)) == amount

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)


def load(path: Path) -> Ledger:
    """Read a ledger from its file."""
    ledger = Ledger()
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            day, amount, text = line.split(None, 2)
            ledger.entries.append(Entry(date.fromisoformat(day), Decimal(amount), text))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return ledger


def save(ledger: Ledger, path: Path) -> None:
    """Write a ledger to its file, in one go."""
    partial = path.with_suffix(".part")
    partial.write_text("".join(entry.line() + "\\n" for entry in sorted(ledger)), "utf-8")
    partial.replace(path)
'''

IMPORTER = '''\
"""Bank statements as CSV: semicolons, a decimal comma, latin-1."""

from __future__ import annotations

import csv
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from ledger.model import Entry, Ledger

COLUMNS = ("Buchungstag", "Betrag", "Text")


def parse_amount(value: str) -> Decimal:
    """An amount as the bank writes it."""
    return Decimal(value.replace(",", "."))


def read_statement(path: Path) -> list[Entry]:
    """The entries of one export.

    Raises:
        ValueError: the file is not such an export.
    """
    with path.open(encoding="latin-1", newline="") as file:
        rows = csv.DictReader(file, delimiter=";")
        if not set(COLUMNS) <= set(rows.fieldnames or ()):
            raise ValueError(f"{path}: expected the columns {', '.join(COLUMNS)}")
        return [
            Entry(
                datetime.strptime(row["Buchungstag"], "%d.%m.%Y").date(),
                parse_amount(row["Betrag"]),
                " ".join(row["Text"].split()),
            )
            for row in rows
        ]


def import_statement(path: Path, ledger: Ledger) -> None:
    """Add what is new; an entry that is there already is skipped."""
    added = 0
    for entry in read_statement(path):
        if entry not in ledger:
            ledger.add(entry)
'''

IMPORTER_FIXED = 'Decimal(value.replace(".", "").replace(",", "."))'

TESTS = '''\
"""The importer of bank statements."""

from decimal import Decimal
from pathlib import Path

from ledger.importer import import_statement, parse_amount, read_statement
from ledger.model import Ledger

EXPORT = "Buchungstag;Betrag;Text\\n02.09.2026;-12,40;BAECKEREI\\n"


def test_reads_an_export(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(EXPORT, "latin-1")
    [entry] = read_statement(path)
    assert entry.amount == Decimal("-12.40")


def test_thousands_dot() -> None:
    assert parse_amount("1.234,50") == Decimal("1234.50")


def test_importing_twice_adds_nothing(tmp_path: Path) -> None:
    path, ledger = tmp_path / "s.csv", Ledger()
    path.write_text(EXPORT, "latin-1")
    import_statement(path, ledger)
    import_statement(path, ledger)
    assert len(ledger.entries) == 1
'''
