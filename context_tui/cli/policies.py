"""`context-tui policies`: what there is, with the parameters of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from context_tui.app.config import SavedSettings, read_config
from context_tui.cli.options import add_policy_file, named, parse, parser, take_policy_files, tokens
from context_tui.cli.output import broken_report, say, table, write_json
from context_tui.errors import ExitCode
from context_tui.policies.base import Policy
from context_tui.policies.native import Native, native
from context_tui.policies.parameters import pairs, parameters_of, params_for, setting
from context_tui.policies.registry import POLICIES, PRESETS, policy_named
from context_tui.session.window import ASSUMED_WINDOW, Window


def run(arguments: Sequence[str]) -> int:
    """List the policies, or tell about one."""
    options = parser("policies", "List the compaction policies and what their parameters mean.")
    options.add_argument("name", nargs="?", type=named, metavar="NAME", help="show only this policy")
    options.add_argument(
        "-p",
        "--param",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a parameter of NAME, whose settings in its agent's own configuration are then told; may be repeated",
    )
    options.add_argument(
        "--window", type=tokens, default=ASSUMED_WINDOW, metavar="N", help="the context window for these"
    )
    options.add_argument("--json", action="store_true", help="print one JSON document")
    add_policy_file(options)
    given = parse(options, arguments)
    take_policy_files(given.policy_file)
    if given.param and not given.name:
        options.error("-p sets a parameter of one policy; name it")
    chosen = [policy_named(given.name)] if given.name else list(POLICIES.values())
    saved = {} if given.name else read_config().settings
    own = _native(chosen[0], given.param, given.window) if given.name else None
    if given.json:
        policies = [{**_known(p), "params": params_of(p)} for p in chosen]
        if own is not None:
            policies[0]["native"] = {"settings": [asdict(each) for each in own.settings], "fixed": list(own.fixed)}
        broken = [] if given.name else [broken_report(each) for each in POLICIES.broken]
        write_json({"schema": "context-tui.policies/1", "policies": policies, "broken": broken, "saved": _saved(saved)})
        return ExitCode.DONE
    for policy in chosen:
        say(policy.name)
        say(f"  {policy.about}")
        for line in _lines(policy, limits=bool(given.name)):
            say(f"  {line}")
        rows = [(p["name"], _shown(p["default"]), _range(p), p["unit"], p["about"]) for p in params_of(policy)]
        table("", ("parameter", "default", "range", "unit", "meaning"), rows)
        if own is not None:
            _show_native(own, given.window)
        say()
    if saved:
        say("saved settings")
        table("", ("name", "policy", "parameters"), [(n, s.policy, " ".join(s.params)) for n, s in saved.items()])
    return ExitCode.DONE


def _native(policy: Policy, texts: Sequence[str], window: int) -> Native | None:
    """What its agent is to be told, with these parameters."""
    return native(policy.name, params_for(policy, pairs(texts)), Window(window, "given"))


def _show_native(own: Native, window: int) -> None:
    rows = [(each.file, each.key, each.value, each.note) for each in own.settings]
    table(f"in its agent's own configuration, for a window of {window:,}", ("where", "key", "value", "note"), rows)
    if own.fixed:
        say(f"  no setting of the agent: {', '.join(own.fixed)}")


def _known(policy: Policy) -> dict[str, Any]:
    """What is to be known of a policy besides its parameters."""
    return {
        "name": policy.name,
        "about": policy.about,
        "origin": _origin(policy),
        "source": policy.source,
        "version": policy.version,
        "limits": list(policy.limits),
    }


def _origin(policy: Policy) -> str:
    """Where a policy is from: ``built in``, ``preset``, ``package NAME``, or the path of a file."""
    return "preset" if policy.name in PRESETS else POLICIES.origin(policy.name)


def _lines(policy: Policy, *, limits: bool) -> Iterator[str]:
    """Where a policy is from, of what it is the rule, and what that leaves out."""
    origin = _origin(policy)
    if origin != "built in":
        yield f"from: {origin}"
    if policy.source:
        yield f"source: {policy.source} ({policy.version})" if policy.version else f"source: {policy.source}"
    if limits:
        yield from (f"limit: {limit}" for limit in policy.limits)


def _saved(saved: Mapping[str, SavedSettings]) -> list[dict[str, Any]]:
    return [{"name": name, "policy": each.policy, "params": list(each.params)} for name, each in saved.items()]


def params_of(policy: Policy) -> list[dict[str, Any]]:
    """Name, type, default, range, unit and meaning of each parameter."""
    return [
        {
            "name": each.name,
            "type": each.type,
            "default": list(each.default) if isinstance(each.default, tuple) else each.default,
            "min": each.low,
            "max": each.high,
            "unit": each.unit,
            "about": each.about,
        }
        for each in parameters_of(policy)
    ]


def _range(param: dict[str, Any]) -> str:
    low, high = param["min"], param["max"]
    return "" if low is None else f"{low:,} or more" if high is None else f"{low:,} to {high:,}"


def _shown(value: Any) -> str:
    return "" if value in (None, {}) else setting(value)
