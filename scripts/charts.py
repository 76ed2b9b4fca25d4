"""Charts as SVG, for pages in ``docs/``: points or lines in a frame with numbered axes and a legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 96, 190, 40, 56
COLOURS = ("#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#000000")
TEXT = 'font-family="sans-serif" font-size="12" fill="#222"'


@dataclass(frozen=True)
class Series:
    """Points of one name, in the units of the axes; ``line`` joins them, ``dots`` marks them."""

    name: str
    points: Sequence[tuple[float, float]]
    line: bool = False
    dots: bool = True


@dataclass(frozen=True)
class Axis:
    """What an axis counts, and the part of it that is drawn: from ``low`` to ``high``."""

    label: str
    low: float
    high: float
    percent: bool = False

    def ticks(self) -> Iterator[float]:
        """Round numbers, four to ten of them."""
        span = self.high - self.low or 1.0
        step = 10 ** floor(log10(span))
        step = next(each for each in (step / 5, step / 2, step, step * 2) if span / each <= 10)
        at = step * -(-self.low // step) + 0.0  # no minus zero
        while at <= self.high + step / 1_000:
            yield at
            at += step

    def told(self, value: float) -> str:
        """A number on the axis in words."""
        if self.percent:
            return f"{value:.0%}" if abs(value) >= 0.01 or not value else f"{value:.1%}"
        return f"{value / 1_000_000:g} M" if abs(value) >= 1_000_000 else f"{value:,g}"


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """An SVG document."""
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(value: float) -> float:
        return LEFT + (value - x.low) / ((x.high - x.low) or 1) * inner_width

    def down(value: float) -> float:
        return TOP + inner_height - (value - y.low) / ((y.high - y.low) or 1) * inner_height

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" font-weight="bold" {TEXT}>{escape(title)}</text>',
    ]
    for at in x.ticks():
        place = across(at)
        parts.append(f'<path d="M{place:.1f} {TOP}V{TOP + inner_height}" stroke="#e4e4e4"/>')
        parts.append(_text(place, TOP + inner_height + 18, x.told(at), "middle"))
    for at in y.ticks():
        place = down(at)
        parts.append(f'<path d="M{LEFT} {place:.1f}H{LEFT + inner_width}" stroke="#e4e4e4"/>')
        parts.append(_text(LEFT - 8, place + 4, y.told(at), "end"))
    parts.append(
        f'<rect x="{LEFT}" y="{TOP}" width="{inner_width}" height="{inner_height}" fill="none" stroke="#888"/>'
    )
    parts.append(_text(LEFT + inner_width / 2, HEIGHT - 14, x.label, "middle"))
    middle = TOP + inner_height / 2
    parts.append(
        f'<text x="18" y="{middle:.1f}" text-anchor="middle" transform="rotate(-90 18 {middle:.1f})" {TEXT}>'
        f"{escape(y.label)}</text>"
    )
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        places = [(across(a), down(b)) for a, b in each.points]
        if each.line and places:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if each.dots:
            parts += [_mark(a, b, colour, number) for a, b in places]
        row = TOP + 12 + number * 18
        parts.append(_mark(WIDTH - RIGHT + 20, row - 4, colour, number))
        parts.append(_text(WIDTH - RIGHT + 32, row, each.name, "start"))
    return "\n".join([*parts, "</svg>", ""])


def _text(across: float, down: float, content: str, anchor: str) -> str:
    return f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}" {TEXT}>{escape(content)}</text>'


def _mark(across: float, down: float, colour: str, number: int) -> str:
    """A mark that differs by its shape too."""
    shape = number % 3
    if shape == 0:
        return f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3.5" fill="{colour}"/>'
    if shape == 1:
        return f'<rect x="{across - 3.5:.1f}" y="{down - 3.5:.1f}" width="7" height="7" fill="{colour}"/>'
    corners = f"{across:.1f},{down - 4.5:.1f} {across - 4.5:.1f},{down + 3.5:.1f} {across + 4.5:.1f},{down + 3.5:.1f}"
    return f'<polygon points="{corners}" fill="{colour}"/>'
