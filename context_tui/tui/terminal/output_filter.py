"""Line filter for safe and readable output, in ASCII on request, with a minimum contrast of text.

Widgets sanitize their texts; this filter makes sure that no control character reaches the terminal.

The final styles are adjusted, as only these have the colours that a terminal with 256 or 16 colours shows. Text with
too little contrast gets the nearest readable colour; bars, borders and shades stay as they are.

A terminal with 16 colours gets a background from its palette, as its default is unknown. Without colours, only bold,
dim, underline and reverse remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import dist

from rich.color import Color as RichColor
from rich.color import ColorSystem, ColorType, blend_rgb
from rich.color_triplet import ColorTriplet
from rich.palette import Palette
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from context_tui.tui.terminal.cells import DRAWING_CHARACTERS, to_ascii

MIN_TEXT_CONTRAST, MIN_DIM_CONTRAST = 4.5, 3.0
"""Minimum contrast by WCAG of text, and of text that the terminal dims, with its background."""


_BLACK, _WHITE = ColorTriplet(0, 0, 0), ColorTriplet(255, 255, 255)
_DEFAULT_COLOUR, _MAX_CACHED_STYLES = RichColor.default(), 4096
_XTERM_PALETTE = Palette(
    [
        *((0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205)),
        *((229, 229, 229), (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255)),
        *((255, 0, 255), (0, 255, 255), (255, 255, 255)),
    ]
)
_ANSI_COLOURS = [RichColor.parse(f"color({number})") for number in range(16)]


@lru_cache(maxsize=1024)
def compute_luminance(colour: ColorTriplet) -> float:
    """Return a colour's relative luminance as WCAG defines it, from 0 to 1."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def compute_contrast(one: ColorTriplet, other: ColorTriplet) -> float:
    """Return the contrast between two colours as WCAG defines it, from 1 to 21."""
    dark, light = sorted((compute_luminance(one), compute_luminance(other)))
    return (light + 0.05) / (dark + 0.05)


class ContrastAdjuster:
    """A callable that makes styles readable on one terminal, and caches the results.

    ``colour_system`` is None if no colours are shown; *dark* is set if the default background is assumed to be dark.
    """

    def __init__(self, colour_system: ColorSystem | None, *, dark: bool) -> None:
        self.colour_system, self.dark = colour_system, dark
        # Default colours that are assumed, as numbers in the palette.
        self._default_foreground, self._default_background = (7, 0) if dark else (0, 15)
        self._adjusted_styles: dict[object, tuple[Style, Style]] = {}

    def __call__(self, style: Style, text: str, background: Color) -> Style:
        """Return a readable style for *text*; *background* is assumed if the style has no background of its own."""
        key: object = style if style.bgcolor is not None else (style, background)
        styles = self._adjusted_styles.get(key)
        if styles is None:
            if len(self._adjusted_styles) >= _MAX_CACHED_STYLES:
                self._adjusted_styles.clear()
            adapted_style = self._adapt_to_terminal(style, background)
            readable = adapted_style if self.colour_system is None else self._adjust_contrast(adapted_style)
            styles = self._adjusted_styles[key] = adapted_style, readable
        adapted_style, readable = styles
        return readable if readable is adapted_style or text.strip(DRAWING_CHARACTERS + " ") else adapted_style

    def _adapt_to_terminal(self, style: Style, ground: Color) -> Style:
        if self.colour_system is None:
            return self._remove_colours(style)
        if style.bgcolor is None:
            style += Style(bgcolor=ground.rich_color)
        if self.colour_system is ColorSystem.STANDARD:
            foreground, back = style.color or _DEFAULT_COLOUR, style.bgcolor or _DEFAULT_COLOUR
            if foreground.is_default:
                style += Style(color=_ANSI_COLOURS[self._default_foreground])
            if back.is_default:
                style += Style(bgcolor=_ANSI_COLOURS[self._default_background])
        return style

    def _remove_colours(self, style: Style) -> Style:
        """Return the style without colours; a style with a background, such as that of a cursor, is reversed."""
        ground = style.bgcolor
        has_background = not (ground is None or ground.is_default or ground.number == self._default_background)
        plain = style.without_color + Style(reverse=True) if has_background else style.without_color
        return plain + Style.from_meta(style.meta) if style.meta else plain

    def _adjust_contrast(self, style: Style) -> Style:
        ink, ground = style.color or _DEFAULT_COLOUR, style.bgcolor or _DEFAULT_COLOUR
        if ink.is_default and ground.is_default:
            return style
        front_colour = self._resolve_colour(ink, self._default_foreground)
        back_colour = self._resolve_colour(ground, self._default_background)
        if style.dim:
            front, back = (back_colour, front_colour) if style.reverse else (front_colour, back_colour)
            if compute_contrast(blend_rgb(front, back), back) >= MIN_DIM_CONTRAST:
                return style
            style += Style(dim=False)
        if compute_contrast(front_colour, back_colour) >= MIN_TEXT_CONTRAST:
            return style
        return style + Style(color=self._find_readable_colour(ink, front_colour, back_colour))

    def _find_readable_colour(self, ink: RichColor, foreground: ColorTriplet, background: ColorTriplet) -> RichColor:
        """Find the readable colour nearest to *ink*: a lighter or darker one, or a palette colour if *ink* is one."""
        if ink.type is not ColorType.TRUECOLOR or self.colour_system is ColorSystem.STANDARD:
            contrasts = (compute_contrast(_XTERM_PALETTE[number], background) for number in range(16))
            readable = [number for number, contrast in enumerate(contrasts) if contrast >= MIN_TEXT_CONTRAST]
            return _ANSI_COLOURS[min(readable, key=lambda n: dist(_XTERM_PALETTE[n], foreground))]
        contrasting = max(_BLACK, _WHITE, key=lambda colour: compute_contrast(colour, background))
        for step in range(1, 16):
            colour = RichColor.from_triplet(blend_rgb(foreground, contrasting, step / 16))
            resolved = self._resolve_colour(colour, self._default_foreground)
            if compute_contrast(resolved, background) >= MIN_TEXT_CONTRAST:
                return colour
        return RichColor.from_triplet(contrasting)

    def _resolve_colour(self, colour: RichColor, default: int) -> ColorTriplet:
        if self.colour_system is not None:
            colour = colour.downgrade(self.colour_system)
        if colour.is_default:
            return _XTERM_PALETTE[default]
        if colour.number is not None and colour.number < 16:
            return _XTERM_PALETTE[colour.number]
        return colour.get_truecolor()


_CONTROL_RANGES = range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A)
_CONTROL_REPLACEMENTS = {code: "·" for codes in _CONTROL_RANGES for code in codes}
_CONTROL_REPLACEMENTS |= {code: "·" for code in (0x200E, 0x200F, 0x061C, 0x2028, 0x2029)}


class OutputFilter(LineFilter):
    """Line filter that replaces control characters, adjusts the contrast and, with *ascii*, replaces glyphs.

    It also applies Textual's own filters, because Textual would copy each line once per filter. Results are cached by
    segment.
    """

    def __init__(
        self, contrast: ContrastAdjuster, inner_filters: Sequence[LineFilter] = (), *, ascii: bool = False
    ) -> None:
        super().__init__()
        self.inner_filters, self.contrast, self._ascii = tuple(inner_filters), contrast, ascii
        self._make_safe_cached = lru_cache(8192)(self._make_safe)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return segments of the same width with safe and readable text."""
        for inner_filter in self.inner_filters:
            segments = inner_filter.apply(segments, background)
        safe = self._make_safe_cached
        return [segment if segment.control else safe(segment, background) for segment in segments]

    def _make_safe(self, segment: Segment, background: Color) -> Segment:
        text, style, _ = segment
        if not text.isprintable():
            text = text.translate(_CONTROL_REPLACEMENTS)
        if self._ascii and not text.isascii():
            text = to_ascii(text)
        adjusted = self.contrast(style or Style.null(), text, background)
        return segment if text is segment.text and adjusted is style else Segment(text, adjusted)
