"""Files for the rows of a sweep: a journal from which a killed sweep resumes, and CSV and Parquet tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from context_tui import __version__
from context_tui.batch.workers import SweepSource
from context_tui.errors import Error
from context_tui.lab.sweep.rows import SweepRow, build_row_report, flatten_row, parse_row_report
from context_tui.lab.sweep.session_sweep import SweepOptions
from context_tui.text.files import open_regular_file, private_folder

SCHEMA = "context-tui.sweep/1"


class SweepFileError(Error):
    """Raised if a file for the rows of a sweep cannot be read, written or resumed."""


class SweepJournal:
    """Append-only file of a sweep's rows: a header that records the options, then one JSON object per line.

    Each line is complete before the next begins, so a killed sweep loses at most the last. ``rows`` are the recorded
    rows that are still valid because their sessions have not changed.
    """

    def __init__(
        self, path: Path, options: SweepOptions, sources: Iterable[SweepSource], *, resume: bool, force: bool
    ) -> None:
        """Create a journal, or open an existing one to resume the sweep.

        Raises SweepFileError if the file exists (without *resume* or *force*), or is not a journal that can be written.
        """
        self.path, self.rows = path, dict[tuple[str, str], SweepRow]()
        self._header: dict[str, Any] = {"schema": SCHEMA, "version": __version__, "how": asdict(options)}
        self._sources = {place.name: place for place in sources}
        is_resumed = resume and path.exists()
        if path.exists() and not resume and not force:
            raise SweepFileError(f"{path} already exists; continue it with --resume or replace it with --force")
        try:
            end = self._read_rows() if is_resumed else 0
            self._file: IO[str] = path.open("r+" if is_resumed else "w", encoding="ascii")
            self._file.truncate(end)
            self._file.seek(end)
        except OSError as error:
            raise SweepFileError(f"{path} cannot be written: {error.strerror}") from None
        if not end:
            self._write_lines([self._header])

    def _read_rows(self) -> int:
        end = 0
        with open_regular_file(self.path) as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    break  # incomplete line of a killed sweep
                try:
                    record = json.loads(line)
                    self._append_recorded_row(record) if number else self._check_header(record)
                except (ValueError, KeyError, TypeError, RecursionError):
                    problem = f"line {number + 1} is not a row of a sweep; name another file"
                    raise SweepFileError(f"{self.path}: {problem}") from None
                end += len(line)
        return end

    def _check_header(self, header: Any) -> None:
        if not isinstance(header, dict) or header.get("schema") != SCHEMA:
            raise SweepFileError(f"{self.path}: not a sweep file; name another one")
        if header != self._header:
            raise SweepFileError(f"{self.path}: made with other options or another version; start over with --force")

    def _append_recorded_row(self, line: dict[str, Any]) -> None:
        file, place = line.pop("file"), self._sources.get(line["session"])
        row = parse_row_report(line)
        if place is not None and file == _describe_file(place):
            self.rows[row.session, row.setting] = row

    def append_rows(self, source: SweepSource, rows: Iterable[SweepRow]) -> None:
        self._write_lines({**build_row_report(row), "file": _describe_file(source)} for row in rows)

    def _write_lines(self, lines: Iterable[Mapping[str, Any]]) -> None:
        try:
            _write_json_lines(self._file, lines)
            self._file.flush()
        except OSError as error:
            raise SweepFileError(f"{self.path} cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Close the file, from which the sweep can be resumed later."""
        with suppress(OSError):
            self._file.close()

    def write_sorted_rows(self, rows: Iterable[SweepRow]) -> None:
        """Replace the rows in the journal with the sorted rows of the whole sweep."""
        self.close()

        lines = ({**build_row_report(row), "file": _describe_file(self._sources[row.session])} for row in rows)
        _replace_file(self.path, lambda file: _write_json_lines(file, [self._header, *lines]))


def _write_json_lines(file: IO[str], lines: Iterable[Mapping[str, Any]]) -> None:
    file.writelines(json.dumps(line, ensure_ascii=True) + "\n" for line in lines)


def _describe_file(source: SweepSource) -> dict[str, int]:
    return {"bytes": source.file_size, "modified": source.modified_ns}


def _replace_file(path: Path, write: Callable[[IO[str]], object]) -> None:
    try:
        with private_folder(path.absolute().parent, path.name) as folder:
            new = folder / path.name
            with new.open("x", encoding="utf-8", newline="") as file:
                write(file)
            new.replace(path)
    except OSError as error:
        raise SweepFileError(f"{path} cannot be written: {error.strerror}") from None


def _collect_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def write_csv(path: Path, rows: Iterable[SweepRow]) -> None:
    """Write rows as a CSV table with a header line."""
    lines = [flatten_row(row) for row in rows]

    def write(file: IO[str]) -> None:
        writer = csv.DictWriter(file, _collect_columns(lines))
        writer.writeheader()
        writer.writerows(lines)

    _replace_file(path, write)


def require_pyarrow() -> None:
    """Raise SweepFileError if pyarrow is not installed; called before a sweep, so that none runs in vain."""
    if find_spec("pyarrow") is None:
        raise SweepFileError(PARQUET_MISSING_TEXT)


def write_parquet(path: Path, rows: Iterable[SweepRow]) -> None:
    """Write rows as a Parquet table, for which pyarrow must be installed."""
    require_pyarrow()
    import pyarrow
    from pyarrow import parquet

    lines = [flatten_row(row) for row in rows]
    table = pyarrow.Table.from_pydict({name: [line.get(name) for line in lines] for name in _collect_columns(lines)})

    def write(file: IO[str]) -> None:
        assert isinstance(file, TextIOWrapper)
        parquet.write_table(table, file.buffer)

    _replace_file(path, write)


PARQUET_MISSING_TEXT = "Parquet needs pyarrow; install it with `pip install 'context-tui[parquet]'`, or write --csv"
