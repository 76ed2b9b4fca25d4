"""Pages of a report: HTML in one file that loads nothing, with charts in SVG, and Markdown for a pull request."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path, PurePath

from context_tui.errors import ExportError
from context_tui.export.report import LIMITS, Bar, Report, SizeChart, Table, build_session_sections
from context_tui.lab.study import Lab, Study
from context_tui.text.files import move_to_free_name, private_folder, write_atomically
from context_tui.text.numbers import format_tokens
from context_tui.text.sanitize import sanitize, sanitize_line

CHART_WIDTH, CHART_HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 860, 240, 56, 5, 22, 10
"""Size of a chart, and its margins for the axes, in the units of its drawing."""
MAX_POINTS = 800
"""Maximum number of points of a line. Calls that share a point show the largest of their sizes."""
MAX_TEXT_POINTS, BLOCKS = 64, "▁▂▃▄▅▆▇█"
"""Maximum number of characters of a line in Markdown, and the characters for sizes, smallest first."""
MAX_ROWS, MAX_TEXT_ROWS = 40, 10
"""Largest number of rows of a table in HTML and in Markdown; further ones are counted."""
HUES = 8
"""Number of colours of parts and lines, which the style sheet names ``c0`` to ``c7``."""


def write_report(report: Report, path: Path) -> None:
    """Write a report in one step, as Markdown if the name ends in ``.md``, else as HTML, or raise ExportError."""
    text = format_markdown(report) if path.suffix == ".md" else format_html(report)
    try:
        write_atomically(path, text)
    except OSError as error:
        raise ExportError(f"{path}: {error.strerror}") from None


def write_session_report(lab: Lab, studies: Sequence[Study], folder: Path, mask: Callable[[str], str]) -> Path:
    """Write the report of one session as HTML to a free name in *folder*, and return its path, or raise ExportError."""
    name = PurePath(lab.session.info.path).stem or "session"
    report = Report(f"The context of {name}", [*build_session_sections(lab, studies), LIMITS])
    try:
        with private_folder(folder, name) as temporary:
            page = temporary / "report.html"
            page.write_text(format_html(report.mask(mask)), "utf-8")
            return move_to_free_name(page, folder / f"{name}-report.html", ".html")
    except OSError as error:
        raise ExportError(f"{folder}: {error.strerror}") from None


def format_html(report: Report) -> str:
    """Format a report as an HTML page that needs no other file and no network, and is dark or light like the system."""
    style = files("context_tui.export").joinpath("report.css").read_text("utf-8")
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_escape(report.title)}</title><style>{style}</style></head><body>"
    )
    return "\n".join([head, *_format_html_body(report), "</body></html>", ""])


def _format_html_body(report: Report) -> Iterator[str]:
    yield f"<h1>{_escape(report.title)}</h1>"
    for section in report.sections:
        yield f"<section><h2>{_escape(section.heading)}</h2>"
        yield from (f"<p>{_escape(sentence)}</p>" for sentence in section.sentences)
        for chart in section.charts:
            yield _draw_bar(chart) if isinstance(chart, Bar) else _draw_sizes(chart)
        for table in section.tables:
            yield f"<h3>{_escape(table.title)}</h3>{_format_html_table(table)}"
        yield "</section>"


def _escape(text: object) -> str:
    return escape(sanitize(str(text)))


def _format_html_table(table: Table) -> str:
    classes = [' class="n"' if table.has_numbers(column) else "" for column in range(len(table.heads))]
    heads = "".join(f"<th{name}>{_escape(head)}</th>" for name, head in zip(classes, table.heads, strict=True))
    rows = (
        "".join(f"<td{name}>{_escape(_format_cell(value))}</td>" for name, value in zip(classes, row, strict=True))
        for row in table.rows[:MAX_ROWS]
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = len(table.rows) - MAX_ROWS
    last = f'<tr><td colspan="{len(table.heads)}">and {more:,} more</td></tr>' if more > 0 else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}{last}</tbody></table>"


def _format_cell(value: object) -> str:
    return "unknown" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


# Charts


def _draw_bar(bar: Bar) -> str:
    """Draw the parts of a context to scale, with the free part of the window, and name them below."""
    size = sum(tokens for _, tokens in bar.parts)
    total = max(bar.window, size, 1)
    x, boxes = 0.0, list[str]()
    for number, (name, tokens) in enumerate(bar.parts):
        width = CHART_WIDTH * tokens / total
        title = f"<title>{_escape(name)} {tokens:,}</title>"
        boxes.append(f'<rect class="c{number % HUES}" x="{x:.1f}" width="{width:.1f}" height="34">{title}</rect>')
        x += width
    keys = _format_keys([f"{name} {format_tokens(tokens)}" for name, tokens in bar.parts])
    free = f" · free {format_tokens(bar.window - size)}" if size < bar.window else ""
    label = "parts of the context to the scale of the window"
    drawing = f'<svg viewBox="0 0 {CHART_WIDTH} 34" role="img" aria-label="{label}">{"".join(boxes)}</svg>'
    return f'<figure class="bar">{drawing}<figcaption>{keys}{free}</figcaption></figure>'


def _format_keys(names: Sequence[str]) -> str:
    keys = (f'<span class="key c{number % HUES}"></span>{_escape(name)}' for number, name in enumerate(names))
    return " &nbsp; ".join(keys)


def _draw_sizes(chart: SizeChart) -> str:
    """Draw the size of the context over the calls: a line for each policy, the window, and a mark for each event."""
    calls = max((len(sizes) for _, sizes in chart.lines), default=0)
    largest = max((max(sizes, default=0) for _, sizes in chart.lines), default=0)
    top = max(largest, chart.window if chart.window <= 2 * largest else 0, 1)

    def place(call: float, tokens: float) -> tuple[float, float]:
        x = LEFT + (CHART_WIDTH - RIGHT - LEFT) * call / max(calls - 1, 1)
        return x, TOP + (CHART_HEIGHT - TOP - BOTTOM) * (1 - tokens / top)

    parts = []
    for share in (0, 0.5, 1):
        x, y = place(0, top * share)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{CHART_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" class="end">{format_tokens(round(top * share))}</text>')
    if chart.window <= top:
        _, y = place(0, chart.window)
        title = f"<title>window {chart.window:,}</title>"
        parts.append(f'<line class="window" x1="{LEFT}" x2="{CHART_WIDTH}" y1="{y:.1f}" y2="{y:.1f}">{title}</line>')
    for number, (name, sizes) in enumerate(chart.lines):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in _downsample(sizes, MAX_POINTS)))
        title = f"<title>{_escape(name)}</title>"
        parts.append(f'<polyline class="line s{number % HUES}" points="{points}">{title}</polyline>')
    for call, text in chart.events:
        x, y = place(call, 0)
        title = f"<title>call {call + 1:,}: {_escape(text)}</title>"
        parts.append(f'<path class="mark" d="M{x:.1f} {y:.1f}l-4 8h8z">{title}</path>')
    end = f'<text x="{CHART_WIDTH}" y="{CHART_HEIGHT - 2}" class="end">call {calls:,}</text>'
    label = "size of the context in tokens at each call"
    drawing = "".join([*parts, end])
    svg = f'<svg viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" role="img" aria-label="{label}">{drawing}</svg>'
    note = " &nbsp; ▲ compaction or firing" if chart.events else ""
    keys = _format_keys([name for name, _ in chart.lines])
    return f'<figure class="sizes">{svg}<figcaption>{label.capitalize()}: {keys}{note}</figcaption></figure>'


def _downsample(sizes: Sequence[int], points: int) -> Iterator[tuple[int, int]]:
    """Yield at most *points* calls with context sizes. Calls that share a point yield the largest of their sizes."""
    step = max(math.ceil(len(sizes) / points), 1)
    for call in range(0, len(sizes), step):
        yield call, max(sizes[call : call + step])


# Markdown


def format_markdown(report: Report) -> str:
    """Format a report as Markdown, with a row of block characters for each line of a size chart."""
    return "\n\n".join(_format_markdown_parts(report)) + "\n"


def _format_markdown_parts(report: Report) -> Iterator[str]:
    yield f"# {_escape_markdown(report.title)}"
    for section in report.sections:
        yield f"## {_escape_markdown(section.heading)}"
        yield from map(_escape_markdown, section.sentences)
        for chart in section.charts:
            if isinstance(chart, SizeChart):
                yield from _format_markdown_sizes(chart)
        for table in section.tables:
            yield f"### {_escape_markdown(table.title)}"
            rule = ["--:" if table.has_numbers(column) else "---" for column in range(len(table.heads))]
            rows = [[_escape_markdown(_format_cell(value)) for value in row] for row in table.rows[:MAX_TEXT_ROWS]]
            if more := len(table.rows) - len(rows):
                rows.append([f"and {more:,} more", *[""] * (len(rule) - 1)])
            yield "\n".join(f"| {' | '.join(cells)} |" for cells in (table.heads, rule, *rows))


def _format_markdown_sizes(chart: SizeChart) -> Iterator[str]:
    top = max([chart.window, 1, *(max(sizes, default=0) for _, sizes in chart.lines)])
    yield f"Size of the context at each call, {BLOCKS[-1]} being {top:,} tokens:"
    lines = list[str]()
    for name, sizes in chart.lines:
        signs = (BLOCKS[(len(BLOCKS) - 1) * size // top] for _, size in _downsample(sizes, MAX_TEXT_POINTS))
        lines.append(f"{''.join(signs)}  {sanitize_line(name)}, at most {max(sizes, default=0):,}")
    yield "\n".join(["```text", *lines, "```"])


def _escape_markdown(text: str) -> str:
    """Escape the characters that Markdown or HTML would interpret, so that names and texts stay as they are."""
    for character in "\\`*_[]<>|#":
        text = text.replace(character, f"\\{character}")
    return sanitize(text).replace("\n", " ")
