"""A call's arguments: JSON in a string on one side, an object (Anthropic's ``input``) on the other.

An object becomes the input. Any other text is kept, to the letter, as ``{"_raw": text}``, and so is an object with
``_raw`` as its only member: writing always gives the same arguments back.
"""

from __future__ import annotations

from typing import Any

from context_tui.session.jsontext import compact_text, is_nested_deeper, loads

RAW_ARGUMENTS_KEY = "_raw"


def parse_arguments(arguments: Any) -> dict[str, Any]:
    """The object that some arguments are."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        return {RAW_ARGUMENTS_KEY: compact_text(arguments)}
    try:
        value = loads(arguments)
    except ValueError:
        return {RAW_ARGUMENTS_KEY: arguments}
    fits = isinstance(value, dict) and list(value) != [RAW_ARGUMENTS_KEY] and not is_nested_deeper(value)
    return value if fits else {RAW_ARGUMENTS_KEY: arguments}


def format_arguments(value: Any) -> str:
    """The arguments that became an input."""
    if (
        isinstance(value, dict)
        and list(value) == [RAW_ARGUMENTS_KEY]
        and isinstance(text := value[RAW_ARGUMENTS_KEY], str)
    ):
        return text
    return compact_text({} if value is None else value)
