"""Every file of a folder of recordings, format by format: what was read, what was not, and how far estimates are off.

``python scripts/agreement.py FOLDER`` prints it, ``--write`` puts it into ``docs/agreement.md``. Figures only: no text
of a recording is in it, and no names but those of files.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from context_tui.errors import Error  # noqa: E402
from context_tui.formats.base import scan  # noqa: E402
from context_tui.formats.opening import make_scanner, sessions_in  # noqa: E402
from context_tui.session.session import Session  # noqa: E402
from context_tui.session.values import RecordKind  # noqa: E402
from context_tui.tokens.accounting import estimate_prompt, find_last_usage  # noqa: E402
from context_tui.tokens.calibration import calibrate  # noqa: E402
from context_tui.tokens.context_index import index_context  # noqa: E402

PAGE = ROOT / "docs" / "agreement.md"


@dataclass(frozen=True)
class Read:
    """A session that was read.

    Attributes:
        name: of the file in the folder, with the session's id.
        format: the reader.
        records, messages, problems: how many; records are message records, metadata and problems.
        turns, requests, compactions: how many; requests are those with a recorded size.
        recorded: recorded tokens of the last request; None where none is recorded.
        estimated: ``bytes/4`` of the context of that request, as far as it is in the file.
        error: median held-out error of calibrated sizes, and that of ``bytes/4``; None where that cannot be tested.
    """

    name: str
    format: str
    records: int
    messages: int
    problems: int
    turns: int
    requests: int
    compactions: int
    recorded: int | None
    estimated: int
    error: tuple[float, float] | None


@dataclass(frozen=True)
class Refused:
    """A file that holds nothing to read, and why."""

    name: str
    why: str


def read(folder: Path) -> Iterator[Read | Refused]:
    """Every session of every file below *folder*, by name; what several files list is told once."""
    known = set[str]()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = path.relative_to(folder).as_posix()
        try:
            infos = sessions_in(path)
            for info in infos:
                if f"{info.path}#{info.id}" in known:
                    continue
                known.add(f"{info.path}#{info.id}")
                session = scan(make_scanner(info))
                own = Path(info.path).relative_to(folder).as_posix() if Path(info.path).is_relative_to(folder) else name
                yield _read(f"{own}#{info.id}" if info.id else own, info.format, session)
        except Error as error:
            yield Refused(name, str(error).removeprefix(f"{path}: ").replace(str(folder), ""))


def _read(name: str, form: str, session: Session) -> Read:
    facts = session.facts
    at = facts.request_message[-1] if facts.requests else len(session)
    context = session.context_at(min(at, len(session)))
    usage = facts.requests[-1] if facts.requests else find_last_usage(context)
    tested = [each for each in calibrate(facts) if each.error and each.error_bytes4]
    error = None
    if tested:
        most = max(tested, key=lambda each: each.requests)
        assert most.error and most.error_bytes4
        error = most.error.median, most.error_bytes4.median
    return Read(
        name,
        form,
        len(facts.record_kind),
        len(session),
        sum(kind == RecordKind.PROBLEM for kind in facts.record_kind),
        session.turns,
        len(facts.requests),
        len(facts.compactions) + sum(bool(drop.cleared_blocks) for drop in session.drops),
        usage.context if usage else None,
        index_context(context).total + estimate_prompt(facts),
        error,
    )


def page(found: Sequence[Read | Refused]) -> str:
    """The page as Markdown."""
    rows = sorted((each for each in found if isinstance(each, Read)), key=lambda each: (each.format, each.name))
    refused = [each for each in found if isinstance(each, Refused)]
    lines = [
        "# Real recordings, format by format",
        "",
        f"{_files(rows):,} files with {len(rows):,} sessions were read, and {len(refused):,} files refused with "
        "a reason. Made by `make agreement`; figures only.",
        "",
        "*Recorded* is the size of the last request as the provider reported it, *estimated* bytes / 4 of its context,",
        "as far as it is in the file: system prompts and tools mostly are not, nor is hidden thinking. *Off* is the",
        "median error of the sizes of requests, over the half of a session that the factors were not fitted on:",
        "calibrated, and by bytes / 4 with what is not in the file.",
        "",
        "| format | files | sessions | records | messages | problems | turns | requests | compactions "
        "| off, calibrated | off, bytes / 4 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for form, group in groupby(rows, key=lambda each: each.format):
        own = list(group)
        sums = [sum(getattr(row, name) for row in own) for name in _SUMS]
        errors = [row.error for row in own if row.error]
        off = [f"{median(error[at] for error in errors):.1%}" if errors else "not tested" for at in (0, 1)]
        lines.append(_row([form, _files(own), len(own), *sums, *off]))
    lines += ["", "## Each session", ""]
    lines.append("| session | format | records | messages | problems | requests | recorded | estimated | ratio | off |")
    lines.append("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for each in rows:
        ratio = f"{each.estimated / each.recorded:.2f}" if each.recorded else ""
        recorded = each.recorded if each.recorded is not None else "none"
        error = f"{each.error[0]:.1%}" if each.error else ""
        sizes = [each.records, each.messages, each.problems, each.requests, recorded, each.estimated, ratio, error]
        lines.append(_row([_shown(each.name), each.format, *sizes]))
    lines += ["", "## Refused", "", "| files | why |", "|--:|---|"]
    why = Counter(each.why for each in refused)
    lines += [_row([count, text]) for text, count in sorted(why.items(), key=lambda item: -item[1])]
    return "\n".join(lines) + "\n"


def _files(rows: Sequence[Read]) -> int:
    return len({row.name.partition("#")[0] for row in rows})


_SUMS = ("records", "messages", "problems", "turns", "requests", "compactions")


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in cells)} |"


def _shown(name: str) -> str:
    """A name that leaves room for the numbers: of long parts their beginning."""
    return "/".join(part if len(part) <= 44 else f"{part[:40]}…" for part in name.split("/")[-2:]).replace("|", "/")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of recordings")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    text = page(list(read(given.folder)))
    if given.write:
        PAGE.write_text(text, "utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
