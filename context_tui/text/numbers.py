"""Formatting of sizes, ages, token counts, shares, costs and savings, also for terminals that show only ASCII."""

from __future__ import annotations

ASCII_SIGNS = str.maketrans({"≥": ">=", "≤": "<=", "−": "-"})
"""ASCII replacements of the signs of comparison and subtraction, for output that cannot show these."""


def replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks with ASCII signs or ``?``, as an error handler for :mod:`codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII_SIGNS.get(ord(each), "?") for each in error.object[error.start : error.end]), error.end


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun, as in ``1 turn`` or ``1,200 turns``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_bytes(count: int) -> str:
    """Format a file size in kB or MB, or return an empty string if it is unknown."""
    if count <= 0:
        return ""
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def format_age(seconds: float) -> str:
    """Format an age given in seconds, as in ``3 d`` or ``now``, or return an empty string if it is unknown."""
    if seconds < 0 or seconds > 50 * 365 * 86_400:
        return "" if seconds > 0 else "now"
    for unit, length in (("y", 365 * 86_400), ("mo", 30 * 86_400), ("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"


def format_tokens(tokens: int) -> str:
    """Format a token count in at most five cells, as in ``812``, ``58.5k``, ``112k`` or ``1.25M``."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1_000:.1f}k" if tokens < 99_950 else f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.{2 if tokens < 9_995_000 else 1 if tokens < 99_950_000 else 0}f}M"


def format_percent(share: float) -> str:
    """Format a share as a percentage, with ``<1 %`` or ``>99 %`` for one that would round to 0 or 100."""
    if 0 < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{share:.0%}".replace("%", " %")


def format_cost(
    cost: float, unit: str, *, digits: int | None = None, brief: bool = False, with_unit: bool = False
) -> str:
    """Format a cost, as ``$2.67`` in USD or ``8,095`` in tokens, or ``8.1k`` if *brief*.

    Args:
        digits: number of decimals for a cost in USD; by default 2, or 4 below ten cents.
        with_unit: whether to add the unit to a token count, as in ``8,095 input tokens``.
    """
    amount = abs(cost)
    if unit != "USD":
        text = format_tokens(round(amount)) if brief else f"{amount:,.0f}"
    else:
        text = f"${amount:,.{digits or (4 if 0.00005 <= amount < 0.1 else 2)}f}"
    sign = "−" if cost < 0 and _has_value(text) else ""
    return f"{sign}{text} {unit}" if with_unit and unit != "USD" else f"{sign}{text}"


def format_saving(
    saved: float,
    unit: str,
    *,
    total: float = 0.0,
    digits: int | None = None,
    brief: bool = False,
    with_unit: bool = False,
) -> str:
    """Format a saving (or a loss, if negative), as in ``saves $2.67``, ``costs $2.67 more`` or ``sends 1,234 more``.

    A saving that rounds to zero is ``the same``.

    Args:
        unit: ``USD``, ``input tokens`` (a cost), or ``tokens`` (sent).
        total: the amount before the saving; unless it is 0, the saved share is added, as in ``saves $2.67 (1.9%)``.
        digits: as for :func:`format_cost`, like *brief* and *with_unit*.
    """
    amount = format_cost(abs(saved), unit, digits=digits, brief=brief, with_unit=with_unit)
    text = _format_change(saved, amount, "sends" if unit == "tokens" else "costs")
    return f"{text} ({abs(saved) / total:.1%})" if total and _has_value(amount) else text


def format_saved_share(
    saved: float, total: float, verb: str = "sends", *, digits: int | None = None, brief: bool = False
) -> str:
    """Format a saving as a share of *total*, as in ``saves 3 %``, ``sends 3 % more`` or ``the same``.

    Args:
        digits: number of decimals; by default none.
        brief: format the change of *total* instead: ``−3 %``, ``+3 %`` or ``0 %``.
    """
    share = abs(saved) / total if total else 0.0
    text = format_percent(share) if digits is None else f"{share:.{digits}%}"
    if brief:
        return f"{'−' if saved > 0 else '+' if saved < 0 else ''}{text}"
    return _format_change(saved, text, verb)


def _format_change(saved: float, amount: str, verb: str) -> str:
    if not _has_value(amount):
        return "the same"
    return f"saves {amount}" if saved > 0 else f"{verb} {amount} more"


def _has_value(amount: str) -> bool:
    return any(digit in amount for digit in "123456789")
