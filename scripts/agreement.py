"""Read every file of a folder of recordings, and report by format which were read and the errors of the estimates.

``python scripts/agreement.py FOLDER`` prints the page, ``--write`` writes ``docs/agreement.md``. The page contains
figures and file names only, and no text of a recording.
"""

from __future__ import annotations

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
from scripts.pages import build_page_parser, print_or_write_page  # noqa: E402

PAGE = ROOT / "docs" / "agreement.md"


@dataclass(frozen=True)
class Read:
    """Figures of a session.

    Attributes:
        name: path of the file in the folder, with the id of the session.
        format: name of the format.
        records, messages, problems: counts; records are message records, metadata and problems.
        turns, requests, compactions: counts; requests are those with a recorded size.
        recorded: recorded tokens of the last request; None if none are recorded.
        estimated: ``bytes/4`` of the context of that request, as far as it is in the file.
        error: median held-out error of calibrated sizes, and that of ``bytes/4``; None if it cannot be tested.
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
    """File that cannot be read, and the reason."""

    name: str
    why: str


def read_sessions(folder: Path) -> Iterator[Read | Refused]:
    """Yield the sessions of the files below *folder*, by name; a session listed by several files is yielded once."""
    known_names = set[str]()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = path.relative_to(folder).as_posix()
        try:
            infos = sessions_in(path)
            for info in infos:
                if f"{info.path}#{info.id}" in known_names:
                    continue
                known_names.add(f"{info.path}#{info.id}")
                session = scan(make_scanner(info))
                own_name = (
                    Path(info.path).relative_to(folder).as_posix() if Path(info.path).is_relative_to(folder) else name
                )
                yield _build_report(f"{own_name}#{info.id}" if info.id else own_name, info.format, session)
        except Error as error:
            yield Refused(name, str(error).removeprefix(f"{path}: ").replace(str(folder), ""))


def _build_report(name: str, form: str, session: Session) -> Read:
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


def format_page(reports: Sequence[Read | Refused]) -> str:
    """Format the page as Markdown."""
    rows = sorted((each for each in reports if isinstance(each, Read)), key=lambda each: (each.format, each.name))
    refused = [each for each in reports if isinstance(each, Refused)]
    lines = [
        "# Real recordings, format by format",
        "",
        f"{_count_files(rows):,} files with {len(rows):,} sessions were read, and {len(refused):,} files were refused. "
        "`make agreement` computes this page; it contains figures only.",
        "",
        "- **recorded**: the size of the last request, as reported by the provider.",
        "- **estimated**: bytes / 4 of the context of that request, as far as it is in the file. Hidden thinking is",
        "  never in a file, and system prompts and tools rarely are. *Ratio* is estimated / recorded.",
        "- **off**: the median error of request sizes over the half of a session that the calibration was not fitted",
        "  on; for calibrated sizes, and for bytes / 4 plus the tokens that are not in the file.",
        "",
        "| format | files | sessions | records | messages | problems | turns | requests | compactions "
        "| off, calibrated | off, bytes / 4 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for form, group in groupby(rows, key=lambda each: each.format):
        group_rows = list(group)
        sums = [sum(getattr(row, name) for row in group_rows) for name in _SUMS]
        errors = [row.error for row in group_rows if row.error]
        off = [f"{median(error[at] for error in errors):.1%}" if errors else "not tested" for at in (0, 1)]
        lines.append(_format_row([form, _count_files(group_rows), len(group_rows), *sums, *off]))
    lines += ["", "## Each session", ""]
    lines.append("| session | format | records | messages | problems | requests | recorded | estimated | ratio | off |")
    lines.append("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for each in rows:
        ratio = f"{each.estimated / each.recorded:.2f}" if each.recorded else ""
        recorded = each.recorded if each.recorded is not None else "none"
        error = f"{each.error[0]:.1%}" if each.error else ""
        sizes = [each.records, each.messages, each.problems, each.requests, recorded, each.estimated, ratio, error]
        lines.append(_format_row([_shorten_name(each.name), each.format, *sizes]))
    lines += ["", "## Refused", "", "| files | reason |", "|--:|---|"]
    why = Counter(each.why for each in refused)
    lines += [_format_row([count, text]) for text, count in sorted(why.items(), key=lambda item: -item[1])]
    return "\n".join(lines) + "\n"


def _count_files(rows: Sequence[Read]) -> int:
    return len({row.name.partition("#")[0] for row in rows})


_SUMS = ("records", "messages", "problems", "turns", "requests", "compactions")


def _format_row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in cells)} |"


def _shorten_name(name: str) -> str:
    """Shorten the long parts of a name, so that there is room for the numbers."""
    return "/".join(part if len(part) <= 44 else f"{part[:40]}…" for part in name.split("/")[-2:]).replace("|", "/")


def main() -> int:
    options = build_page_parser(__doc__, PAGE).parse_args()
    print_or_write_page(PAGE, format_page(list(read_sessions(options.folder))), options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
