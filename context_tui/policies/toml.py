"""Reading of policies from TOML files, whether presets or written by users; errors name the line in the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from context_tui.errors import PlanError
from context_tui.policies.base import Policy, get_bounds
from context_tui.policies.parts.rules import PolicySpec
from context_tui.policies.rule_policy import PolicyLookup, RulePolicy
from context_tui.text.files import read_settings_file
from context_tui.text.sanitize import sanitize_line, truncate_name

_TABLE_PATTERN = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY_PATTERN = re.compile(r"\s*([\w.\"'-]+)\s*=")
_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
}
_UNION_TAGS = ("parts", "policy")
"""Tags that pydantic inserts in the path of an error for the kind of a rule."""


def read_policy(path: Path, find_policy: PolicyLookup) -> Policy:
    """Read the policy in a TOML file, resolving the policies that its rules run with *find_policy*.

    Raises PlanError if the file holds no valid policy.
    """
    try:
        data = read_settings_file(path)
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PlanError(f"{path}:{line}: is not UTF-8 text; save it as UTF-8") from None
    return parse_policy(text, str(path), find_policy)


def parse_policy(text: str, label: str, find_policy: PolicyLookup) -> Policy:
    """Parse a policy from TOML text; *label* stands for the file name in errors."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        message = str(error)
        match = re.search(r"line (\d+)", message)
        line = int(match.group(1)) if match else text.count("\n") + 1
        description = re.sub(r" \(at .*\)$", "", message)
        raise PlanError(f"{label}:{line}: is not valid TOML: {description}") from None
    try:
        return RulePolicy(PolicySpec(**tables), find_policy)
    except ValidationError as error:
        raise PlanError(_format_validation_error(error, text, label)) from None
    except TypeError:
        raise PlanError(f"{label}:1: is not valid: keys must be names") from None
    except PlanError as error:
        raise PlanError(f"{label}:{_find_line(text, _find_rule_path(error, tables))}: {error}") from None


# Errors and their lines


def _format_validation_error(error: ValidationError, text: str, label: str) -> str:
    first = min(error.errors(), key=lambda details: _find_line(text, _strip_union_tags(details["loc"])))
    path = _strip_union_tags(first["loc"])
    model, key = _find_model(path[:-1]), str(path[-1]) if path else ""
    description = _describe_error(first, model, key)
    path_text = _format_path(path)
    return sanitize_line(f"{label}:{_find_line(text, path)}: {f'{path_text}: ' if path_text else ''}{description}")


def _strip_union_tags(loc: Sequence[int | str]) -> tuple[int | str, ...]:
    pairs = zip(("", *loc), loc, strict=False)
    return tuple(key for before, key in pairs if key not in _UNION_TAGS or not isinstance(before, int))


def _format_path(path: Sequence[int | str]) -> str:
    if len(path) > 1 and path[0] == "rules":
        inner = ".".join(map(str, path[2:]))
        return f"rule {int(path[1]) + 1}{f', {inner}' if inner else ''}"
    return ".".join(map(str, path))


def _find_model(path: Sequence[int | str]) -> type[BaseModel] | None:
    model: type[BaseModel] | None = PolicySpec
    for key in path:
        if isinstance(key, int) or model is None:
            continue
        field = model.model_fields.get(key)
        model = _find_part_type(field.annotation) if field is not None else None
    return model


def _find_part_type(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for argument in get_args(annotation) if (model := _find_part_type(argument)) is not None), None)


def _describe_error(error: Any, model: type[BaseModel] | None, key: str) -> str:
    kind, value = str(error["type"]), truncate_name(repr(error.get("input")))
    if kind == "extra_forbidden" and model is not None:
        matches = get_close_matches(key, model.model_fields, 1)
        hint = f"did you mean {matches[0]}?" if matches else f"allowed: {', '.join(model.model_fields)}"
        return f"unknown key; {hint}"
    if kind == "missing":
        return "is missing; set it"
    if kind in ("greater_than_equal", "less_than_equal") and model is not None:
        return f"{value} is out of range; {_format_range(model, key)}"
    if kind == "literal_error":
        return f"{value} is not allowed; use {error['ctx']['expected']}"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return f"{value} is not a table; write [{key}] with keys below it" if key else f"{value} is not a table"
    if kind.startswith(("too_short", "too_long")):
        return "at least one is needed" if kind == "too_short" else "there are too many"
    if kind.startswith(("string_too", "string_pattern")):
        return f"{value} is not allowed; {str(error['msg']).removeprefix('String ')}"
    type_name = _TYPE_NAMES.get(kind.partition("_")[0])
    return f"{value} is not {type_name}" if type_name else str(error["msg"]).removeprefix("Value error, ")


def _format_range(model: type[BaseModel], key: str) -> str:
    low, high = get_bounds(model.model_fields[key])
    return f"allowed: {low:,} or more" if high is None else f"allowed: {low:,} to {high:,}"


def _find_rule_path(error: PlanError, tables: Mapping[str, Any]) -> tuple[int | str, ...]:
    for number, rule in enumerate(tables.get("rules", ())):
        if "policy" in rule and str(rule["policy"]) in str(error):
            return ("rules", number, "policy")
    return ()


def _find_line(text: str, path: Sequence[int | str]) -> int:
    lines = dict(_iterate_lines(text))
    for length in range(len(path), 0, -1):
        if (line := lines.get(tuple(path[:length]))) is not None:
            return line
    return 1


def _iterate_lines(text: str) -> Iterator[tuple[tuple[int | str, ...], int]]:
    table: tuple[int | str, ...] = ()
    counts: dict[tuple[int | str, ...], int] = {}
    open_quotes = ""  # of a multi-line string
    for number, line in enumerate(text.split("\n"), 1):
        if open_quotes:
            open_quotes = "" if open_quotes in line else open_quotes
            continue
        if match := _TABLE_PATTERN.match(line):
            table = _build_table_path(tuple(_split_key(match.group(2))), counts, match.group(1) == "[[")
            yield table, number
        elif match := _KEY_PATTERN.match(line):
            yield (*table, *_split_key(match.group(1))), number
            for quotes in ('"""', "'''"):
                if line.count(quotes) == 1:
                    open_quotes = quotes


def _split_key(dotted_key: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted_key.split(".")]


def _build_table_path(
    names: tuple[str, ...], counts: dict[tuple[int | str, ...], int], element: bool
) -> tuple[int | str, ...]:
    path: tuple[int | str, ...] = ()
    for number, name in enumerate(names):
        path = (*path, name)
        if element and number == len(names) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path
