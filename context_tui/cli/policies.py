"""`context-tui policies`: what there is, with the parameters of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_origin

from pydantic.fields import FieldInfo

from context_tui.cli.options import named, parse, parser
from context_tui.cli.output import say, table, write_json
from context_tui.errors import ExitCode
from context_tui.policies.base import Policy
from context_tui.policies.registry import POLICIES, policy_named
from context_tui.policies.values import setting


def run(arguments: Sequence[str]) -> int:
    """List the policies, or tell about one."""
    options = parser("policies", "The compaction policies, and what their parameters mean.")
    options.add_argument("name", nargs="?", type=named, metavar="NAME", help="only this one")
    options.add_argument("--json", action="store_true", help="as one JSON document")
    given = parse(options, arguments)
    chosen = [policy_named(given.name)] if given.name else list(POLICIES.values())
    if given.json:
        policies = [{"name": p.name, "about": p.about, "params": params_of(p)} for p in chosen]
        write_json({"schema": "context-tui.policies/1", "policies": policies})
        return ExitCode.DONE
    for policy in chosen:
        say(policy.name)
        say(f"  {policy.about}")
        rows = [(p["name"], _shown(p["default"]), _range(p), p["unit"], p["about"]) for p in params_of(policy)]
        table("", ("parameter", "default", "range", "unit", "about"), rows)
        say()
    return ExitCode.DONE


def params_of(policy: Policy) -> list[dict[str, Any]]:
    """Name, type, default, range, unit and meaning of each parameter."""
    return [
        {
            "name": name,
            "type": _type(field),
            "default": list(field.default) if isinstance(field.default, tuple) else field.default,
            "min": _bound(field, "ge"),
            "max": _bound(field, "le"),
            "unit": str((field.json_schema_extra or {}).get("unit", ""))
            if isinstance(field.json_schema_extra, dict)
            else "",
            "about": field.description or "",
        }
        for name, field in policy.Params.model_fields.items()
    ]


def _type(field: FieldInfo) -> str:
    kind: Any = field.annotation
    names: dict[Any, str] = {int: "integer", float: "number", bool: "boolean", int | None: "integer or null"}
    return names.get(kind, "list" if get_origin(kind) is tuple else "object")


def _bound(field: FieldInfo, name: str) -> float | int | None:
    return next((getattr(part, name) for part in field.metadata if hasattr(part, name)), None)


def _range(param: dict[str, Any]) -> str:
    low, high = param["min"], param["max"]
    return "" if low is None else f"{low:,} or more" if high is None else f"{low:,} to {high:,}"


def _shown(value: Any) -> str:
    return "" if value in (None, {}) else setting(value)
