"""A table of real Claude Code recordings: how far our numbers are from what they recorded, and why.

``python scripts/recordings.py FOLDER`` prints it, ``--write`` puts it into ``docs/recordings.md``. Figures only: no
text of a recording is in it.
"""

from __future__ import annotations

import argparse
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

PAGE = ROOT / "docs" / "recordings.md"
FAR = 0.1
"""Share of the recorded size from which on a request that is off is explained one by one."""
USUAL_RATIO = 2.0
"""Recorded tokens per estimated one that tokenizers were seen to make of any content, at most."""


@dataclass(frozen=True)
class Off:
    """A request whose recorded size differs from what was believed before it: ``share`` is of the recorded size."""

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
    """What the table says of a file. ``unbased`` are requests before which nothing recorded holds."""

    file: str
    requests: int
    epochs: str
    drops: str
    offs: tuple[Off, ...] = field(default=(), repr=False)
    unbased: int = 0
    fit: EstimateCheck | None = None

    @property
    def median(self) -> float | None:
        """Median over the requests of how far the belief was off."""
        return median(off.share for off in self.offs) if self.offs else None

    @property
    def p95(self) -> float | None:
        """95th percentile of the same."""
        shares = sorted(off.share for off in self.offs)
        return shares[min(len(shares) - 1, int(0.95 * len(shares)))] if shares else None

    @property
    def far(self) -> list[Off]:
        """The requests that are far off."""
        return [off for off in self.offs if off.share > FAR]


def rows(folder: Path) -> Iterator[Row]:
    """A row for each Claude Code file below *folder*, in the order of their names."""
    for path in sorted(folder.rglob("*.jsonl")):
        try:
            if detect_format(path).name == "claude-code":
                yield row_of(path.relative_to(folder).as_posix(), open_session(path))
        except UnreadableSession:
            continue


def row_of(name: str, session: Session) -> Row:
    """What the table says of a session."""
    facts = session.facts
    offs, unbased = _offs(session)
    return Row(
        name,
        len(facts.requests),
        ", ".join(f"{epoch.message} {epoch.cause}" for epoch in facts.epochs),
        ", ".join(f"{drop.message}: −{drop.tokens:,} {drop.explained_by or 'unexplained'}" for drop in session.drops),
        tuple(offs),
        unbased,
        check_estimate(session, session.context_at()) if len(session) else None,
    )


def _offs(session: Session) -> tuple[list[Off], int]:
    """Every request that has something recorded before it, and how many have not."""
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
            Off(state.at, state.believed_tokens, recorded, _why(session, row, state.believed_tokens - recorded))
        )
    return offs, unbased


def _why(session: Session, row: int, off: int) -> str:
    """What a request is off by, as far as what came between it and the one before says."""
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


def table(found: Iterable[Row]) -> str:
    """The page: what the columns are, the table, and the sums under it."""
    listed = list(found)
    lines = [_HEAD, _COLUMNS, "|---|--:|---|---|--:|---|---|"]
    for row in listed:
        off = f"{row.median:.2%}, {row.p95:.2%}" if row.offs else "–"
        far = ", ".join(f"{each.message}: {each.believed:,} for {each.recorded:,}, {each.why}" for each in row.far[:5])
        more = f" and {len(row.far) - 5} more" if len(row.far) > 5 else ""
        cells = (row.file, row.requests, row.epochs, row.drops, off, far + more, _fit(row.fit))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    medians = [row.median for row in listed if row.median is not None]
    requests, based = sum(row.requests for row in listed), sum(len(row.offs) for row in listed)
    lines += ["", f"{len(listed)} files, {requests:,} requests, {based:,} of them with something recorded before them."]
    if medians:
        lines.append(f"Median over the sessions of how far the belief was off: {median(medians):.2%}.")
    return "\n".join(lines) + "\n"


def _fit(fit: EstimateCheck | None) -> str:
    if fit is None:
        return "nothing recorded"
    return f"{fit.relative_error:+.0%}" + (f": {fit.causes_text}" if fit.causes_text else "")


_HEAD = """# Our numbers beside recorded ones

Every Claude Code file of a folder of real recordings, by `make recordings`. Figures only.

- **contexts begin**: at which messages, and why.
- **drops**: where the recorded context fell by 2,000 tokens or more between two requests of one context, by how much,
  and what that is explained by. An explanation is only given where its size is that of what went.
- **believed off**: |believed − recorded| / recorded before each request that has something recorded before it in its
  context, median and 95th percentile. Believed is the last recorded size and bytes / 4 of what came since.
- **far off**: the requests at which that is more than 10 %, each with the reason that its numbers bear.
- **fit**: how far estimated + not in the file is from the last recorded size, with its causes from 15 % on. Each cause
  is sized by itself from recorded differences, and what they leave over is said to be unexplained.
"""
_COLUMNS = "| file | requests | contexts begin | drops | believed off | far off | fit |"


def main() -> int:
    """Print the table, or write it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    given = options.parse_args()
    text = table(rows(given.folder))
    if given.write:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
