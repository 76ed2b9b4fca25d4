"""Builder of key bindings."""

from __future__ import annotations

from textual.binding import Binding


def build_binding(
    keys: str,
    action: str,
    description: str,
    name: str,
    tooltip: str,
    display: str | None = None,
    *,
    prefix: str = "",
    show: bool | None = None,
) -> Binding:
    """Build a binding, whose id is *prefix* followed by *name*.

    Args:
        keys: keys, separated by commas; characters such as ``?`` stand for themselves.
        display: keys as the footer shows them.
        show: whether to show the binding in the footer; by default, if it has a *display*.
    """
    in_footer = display is not None if show is None else show
    return Binding(keys, action, description, show=in_footer, key_display=display, id=prefix + name, tooltip=tooltip)
