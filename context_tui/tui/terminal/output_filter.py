"""Line filter for safe and readable output, in ASCII on request.

Widgets sanitize their texts; this filter makes sure that no control character reaches the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from context_tui.tui.terminal.cells import to_ascii
from context_tui.tui.terminal.contrast import ContrastAdjuster

_CONTROL_RANGES = range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A)
_CONTROL_REPLACEMENTS = {code: "·" for codes in _CONTROL_RANGES for code in codes}
_NO_STYLE = Style.null()
_CONTROL_REPLACEMENTS |= {code: "·" for code in (0x200E, 0x200F, 0x061C, 0x2028, 0x2029)}
_MAX_CACHED_SEGMENTS = 8192


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
        self._make_safe_cached = lru_cache(_MAX_CACHED_SEGMENTS)(self._make_safe)

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
        adjusted = self.contrast(style or _NO_STYLE, text, background)
        return segment if text is segment.text and adjusted is style else Segment(text, adjusted)
