"""Compare our numbers with the recorded ones of real Claude Code files, and explain the differences.

``python scripts/recordings.py FOLDER`` prints the table, ``--write`` writes ``docs/recordings.md``. The table contains
figures only, and no text of a recording.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from context_tui.errors import UnreadableSession  # noqa: E402
from context_tui.formats.opening import detect_format, open_session  # noqa: E402
from context_tui.policies.trigger_points import iterate_runtime_states  # noqa: E402
from context_tui.session.session import Session  # noqa: E402
from context_tui.session.token_factors import estimate_content  # noqa: E402
from context_tui.tokens.estimate_check import EstimateCheck, check_estimate  # noqa: E402
from scripts.pages import build_page_parser, print_or_write_page  # noqa: E402

PAGE = ROOT / "docs" / "recordings.md"
FAR = 0.1
"""Error of a request, as a share of its recorded size, above which it is listed."""
USUAL_RATIO = 2.0
"""Maximum of the recorded tokens per estimated token that tokenizers were observed to need."""


@dataclass(frozen=True)
class Off:
    """Believed and recorded size of a request, and the reason why they differ."""

    message: int
    believed: int
    recorded: int
    why: str

    @property
    def share(self) -> float:
        """|believed - recorded| / recorded."""
        return abs(self.believed - self.recorded) / self.recorded


@dataclass(frozen=True)
class Row:
    """Row of a file. ``unbased`` counts the requests without an earlier recorded size in their context."""

    file: str
    requests: int
    epochs: str
    drops: str
    offs: tuple[Off, ...] = field(default=(), repr=False)
    unbased: int = 0
    fit: EstimateCheck | None = None

    @property
    def median(self) -> float | None:
        """Median error over the requests."""
        return median(off.share for off in self.offs) if self.offs else None

    @property
    def p95(self) -> float | None:
        """95th percentile of the error over the requests."""
        shares = sorted(off.share for off in self.offs)
        return shares[min(len(shares) - 1, int(0.95 * len(shares)))] if shares else None

    @property
    def far(self) -> list[Off]:
        """Requests whose error is above ``FAR``."""
        return [off for off in self.offs if off.share > FAR]


def find_rows(folder: Path) -> Iterator[Row]:
    """Yield a row for each Claude Code file below *folder*, by name."""
    for path in sorted(folder.rglob("*.jsonl")):
        try:
            if detect_format(path).name == "claude-code":
                yield build_row(path.relative_to(folder).as_posix(), open_session(path))
        except UnreadableSession:
            continue


def build_row(name: str, session: Session) -> Row:
    """Build the row of a session."""
    facts = session.facts
    offs, unbased = _find_errors(session)
    return Row(
        name,
        len(facts.requests),
        ", ".join(f"{epoch.message} {epoch.cause}" for epoch in facts.epochs),
        ", ".join(f"{drop.message}: −{drop.tokens:,} {drop.explained_by or 'unexplained'}" for drop in session.drops),
        tuple(offs),
        unbased,
        check_estimate(session, session.context_at()) if len(session) else None,
    )


def _find_errors(session: Session) -> tuple[list[Off], int]:
    """Return the errors of the requests with an earlier recorded size, and the number of other requests."""
    facts, offs, unbased = session.facts, [], 0
    row_at = {message: row for row, message in enumerate(facts.request_message)}
    for state in iterate_runtime_states(session, frozenset({"before_call"})):
        row = row_at.get(state.at)
        if row is None or not facts.requests[row].context:
            continue
        if state.recorded_usage is None:
            unbased += 1
            continue
        recorded = facts.requests[row].context
        offs.append(
            Off(
                state.at,
                state.believed_tokens,
                recorded,
                _explain_error(session, row, state.believed_tokens - recorded),
            )
        )
    return offs, unbased


def _explain_error(session: Session, row: int, off: int) -> str:
    """Explain an error by the content between a request and the one before it."""
    facts, message = session.facts, session.facts.request_message[row]
    drop = next((drop for drop in session.drops if drop.message == message), None)
    if drop is not None:
        return f"drop, {drop.explained_by or 'unexplained'}"
    before = facts.request_message[row - 1]
    content = estimate_content(facts, range(before, message))
    growth = facts.requests[row].context - facts.requests[row - 1].context
    if content.images:
        return "images, which count by their bytes"
    ratio = growth / max(sum(content.tokens), 1)
    if off < 0:
        return "tokenizer" if ratio <= USUAL_RATIO else "injected without a record"
    return "tokenizer" if ratio >= 0.5 else "less was sent than the file holds"


def format_page(reports: Iterable[Row]) -> str:
    """Format the page: a description of the columns, the table, and totals."""
    file_rows = list(reports)
    lines = [_HEAD, _COLUMNS, "|---|--:|---|---|--:|---|---|"]
    for row in file_rows:
        off = f"{row.median:.2%}, {row.p95:.2%}" if row.offs else "–"
        far = ", ".join(f"{each.message}: {each.believed:,} for {each.recorded:,}, {each.why}" for each in row.far[:5])
        more = f" and {len(row.far) - 5} more" if len(row.far) > 5 else ""
        cells = (row.file, row.requests, row.epochs, row.drops, off, far + more, _format_fit(row.fit))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    medians = [row.median for row in file_rows if row.median is not None]
    requests, based = sum(row.requests for row in file_rows), sum(len(row.offs) for row in file_rows)
    lines += [
        "",
        f"{len(file_rows)} files, {requests:,} requests, {based:,} of them after a recorded size in the same context.",
    ]
    if medians:
        lines.append(f"Median of the sessions' median errors: {median(medians):.2%}.")
    return "\n".join(lines) + "\n"


def _format_fit(fit: EstimateCheck | None) -> str:
    if fit is None:
        return "nothing recorded"
    return f"{fit.relative_error:+.0%}" + (f": {fit.causes_text}" if fit.causes_text else "")


_HEAD = """# Our numbers compared with recorded ones

All Claude Code files of a folder of real recordings. `make recordings` computes this page; it contains figures only.

- **contexts begin**: the messages at which a context begins, each with the reason.
- **drops**: the messages at which the recorded context fell by 2,000 tokens or more between two requests of one
  context, each with the size of the drop and its explanation. An explanation is given only if it accounts for the size.
- **believed off**: the median and the 95th percentile of |believed − recorded| / recorded, over the requests with an
  earlier recorded size in their context. The believed size is that earlier size plus bytes / 4 of the content since.
- **far off**: the requests at which this error is above 10 %, each with the likely reason.
- **fit**: the difference of estimated + not in the file from the last recorded size; from 15 % on with its causes. The
  size of each cause is computed independently, from recorded differences; *unattributed* is the remainder.
"""
_COLUMNS = "| file | requests | contexts begin | drops | believed off | far off | fit |"


def main() -> int:
    """Print the table, or write it."""
    options = build_page_parser(__doc__, PAGE).parse_args()
    print_or_write_page(PAGE, format_page(find_rows(options.folder)), options.write)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
