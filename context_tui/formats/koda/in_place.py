"""Clear tool results in koda's own database, with the statement that koda uses.

koda's microcompaction is ``UPDATE messages SET content = ? WHERE id IN (...)``, for 100 rows at a time. It changes no
other column or table (koda-core, ``microcompact.rs`` and ``db/queries.rs``). Here one transaction covers all batches.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping
from contextlib import closing
from itertools import chain
from pathlib import Path

from context_tui.errors import Error
from context_tui.formats.base import SessionCheck, scan
from context_tui.formats.kit.databases import BACKUP_SUFFIX, LockedDatabase, decode_text
from context_tui.formats.kit.entry_scanner import EntryContent
from context_tui.formats.koda.reader import KodaRow, KodaSource, build_entry, make_koda_scanner
from context_tui.session.markers import RESULT_STUB
from context_tui.session.session import Session
from context_tui.session.values import Kind
from context_tui.text.files import move_to_free_name, private_folder

BATCH_ROWS = 100


def clear_rows(session: Session, texts: Mapping[int, str], check: SessionCheck) -> Path:
    """Back up the database, clear the given results, and return the backup's path (see ``Format.edit_in_place``)."""
    content = session.content
    if not isinstance(content, EntryContent) or not isinstance(source := content.entry_pass.source, KodaSource):
        raise Error("the session was not read from a database; open the database itself")
    if any(new != RESULT_STUB for new in texts.values()):
        raise Error(f"koda clears results to {RESULT_STUB!r}, and the plan to something else; choose koda-microcompact")
    entry_pass = content.entry_pass
    facts, ids = session.facts, set[int]()
    for message in sorted({facts.block_message[block] for block in texts}):
        blocks, records = list(facts.blocks_of(message)), list(facts.iterate_records(message))
        if len(blocks) != len(records) or any(facts.kind[block] != Kind.TOOL_RESULT for block in blocks):
            raise Error(f"message {message}: does not have one row per result; it cannot be changed in place")
        pairs = zip(blocks, records, strict=True)
        ids |= {int(content.get_entry_id(record)) for block, record in pairs if block in texts}
    path = Path(os.path.realpath(source.path))
    source.database.close()  # else this program itself has it open
    with closing(LockedDatabase(path)) as database:
        expected = _compute_expected_checksums(KodaSource(database, source.session_id), entry_pass.checksums, ids)
        backup = _back_up(database, path)
        with database.transaction() as connection:
            old_changes = connection.total_changes
            ordered = sorted(ids)
            for start in range(0, len(ids), BATCH_ROWS):
                batch = ordered[start : start + BATCH_ROWS]
                marks = ", ".join("?" * len(batch))
                connection.execute(f"UPDATE messages SET content = ? WHERE id IN ({marks})", (RESULT_STUB, *batch))
            reread = scan(make_koda_scanner(database, session.info))
            new = reread.content
            is_expected = isinstance(new, EntryContent) and new.entry_pass.checksums == expected
            if not is_expected or connection.total_changes - old_changes != len(ids):  # such as by a trigger
                raise Error(f"{path}: more would change than the cleared results; nothing was changed")
            check(reread)
    return backup


def _compute_expected_checksums(source: KodaSource, old_checksums: array[int], ids: set[int]) -> array[int]:
    """Return the checksums that the rows will have after the change, or raise an Error if they have already changed."""
    current, expected = array("I"), array("I")
    all_ids = source.list_ids()
    batches = (all_ids[start : start + BATCH_ROWS] for start in range(0, len(all_ids), BATCH_ROWS))
    for entry in chain.from_iterable(map(source.read_entries, batches)):
        current.append(entry.checksum)
        if int(entry.id) in ids:
            row = KodaRow._make(entry.columns) if entry.columns else None
            if row is None or decode_text(row.role) != "tool" or row.compacted_at is not None:
                raise Error(f"{source.path}: row {entry.id} is no result in the context; nothing was changed")
            entry = build_entry(row._replace(content=RESULT_STUB.encode()))
        expected.append(entry.checksum)
    if current != old_checksums:
        raise Error(f"{source.path}: has changed since it was read; nothing was changed; run the command again")
    return expected


def _back_up(database: LockedDatabase, path: Path) -> Path:
    name = path.name + BACKUP_SUFFIX
    with private_folder(path.parent, name) as folder:
        backup = folder / name
        os.close(os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        database.back_up(backup)
        return move_to_free_name(backup, path.with_name(name))
