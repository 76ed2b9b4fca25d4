"""``context-tui policies``: list the policies and describe their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from context_tui.app.config import read_config
from context_tui.cli.options import CommandParser, load_policy_files
from context_tui.cli.output import build_plugin_report, pick_fields, print_lines, print_table, write_json
from context_tui.errors import ExitCode
from context_tui.policies.agent_settings import AgentSettings, build_agent_settings, format_setting_lines
from context_tui.policies.base import Policy
from context_tui.policies.parameter_space import build_params, list_parameters
from context_tui.policies.parameters import format_value, parse_assignments
from context_tui.policies.registry import POLICIES, PRESETS, find_policy
from context_tui.policies.versions import list_version_params
from context_tui.session.window import Window

if TYPE_CHECKING:
    from context_tui.policies.parts.rules import PolicySpec


def run(arguments: Sequence[str]) -> int:
    """List the policies or describe one of them, and return the exit code."""
    parser = CommandParser("policies")
    options = parser.parse(arguments)
    load_policy_files(options.policy_file)
    if options.param and not options.name:
        parser.error("-p sets a parameter of one policy; name the policy")
    policies = [find_policy(options.name)] if options.name else list(POLICIES.values())
    saved_settings = {} if options.name else read_config().settings
    native = None
    if options.name:  # the agent's own configuration with these parameters
        params = build_params(policies[0], parse_assignments(options.param))
        native = build_agent_settings(policies[0].name, params, Window(options.window, "given"))
    if options.json:
        reports = [{**_build_policy_report(p), "params": build_parameter_reports(p)} for p in policies]
        if native is not None:
            native_settings = [each._asdict() for each in native.settings]
            reports[0]["native"] = {"settings": native_settings, "fixed": list(native.constant_params)}
        broken = [] if options.name else [build_plugin_report(each) for each in POLICIES.broken]
        saved_reports = [{"name": name, **each._asdict()} for name, each in saved_settings.items()]
        write_json({"schema": "context-tui.policies/1", "policies": reports, "broken": broken, "saved": saved_reports})
        return ExitCode.DONE
    for policy in policies:
        lines = [policy.about, *_format_policy_lines(policy, limits=bool(options.name))]
        print_lines(policy.name, *(f"  {line}" for line in lines))
        rows = []
        for each in build_parameter_reports(policy):
            default = "" if each["default"] in (None, {}) else format_value(each["default"])
            default += " in the newest version" if each["name"] in list_version_params(policy.name) else ""
            rows.append((each["name"], default, _format_range(each), each["unit"], each["about"]))
        print_table("", ("parameter", "default", "range", "unit", "meaning"), rows)
        if native is not None:
            _print_native(native, options.window)
        print_lines("")
    if saved_settings:
        print_lines("saved settings")
        saved_rows = [(name, each.policy, " ".join(each.params)) for name, each in saved_settings.items()]
        print_table("", ("name", "policy", "parameters"), saved_rows)
    return ExitCode.DONE


def _print_native(native: AgentSettings, window: int) -> None:
    rows = [(each.file, each.key, each.value, each.note) for each in native.settings]
    title = f"in the agent's own configuration, for a window of {window:,}"
    print_table(title, ("where", "key", "value", "note"), rows)
    print_lines(*(f"  {line}" for line in format_setting_lines(native)[len(rows) :]))


def _build_policy_report(policy: Policy) -> dict[str, Any]:
    spec = _get_spec(policy)
    source, version, limits = (spec.source, spec.version, list(spec.limits)) if spec else ("", "", [])
    report = {"name": policy.name, "about": policy.about, "origin": _find_origin(policy)}
    return {**report, "source": source, "version": version, "limits": limits}


def _get_spec(policy: Policy) -> PolicySpec | None:
    return cast("PolicySpec | None", getattr(policy, "spec", None))


def _find_origin(policy: Policy) -> str:
    return "preset" if policy.name in PRESETS else POLICIES.get_origin(policy.name)


def _format_policy_lines(policy: Policy, *, limits: bool) -> Iterator[str]:
    if (origin := _find_origin(policy)) != "built in":
        yield f"from: {origin}"
    if (spec := _get_spec(policy)) is None:
        return
    if spec.source:
        yield f"source: {spec.source} ({spec.version})" if spec.version else f"source: {spec.source}"
    if limits:
        yield from (f"limit: {limit}" for limit in spec.limits)


def build_parameter_reports(policy: Policy) -> list[dict[str, Any]]:
    """Build the JSON reports on a policy's parameters: name, type, default, range, unit and meaning of each."""
    return [
        {
            **pick_fields(each, ("name", "type")),
            "default": list(each.default) if isinstance(each.default, tuple) else each.default,
            "min": each.low,
            "max": each.high,
            **pick_fields(each, ("unit", "about")),
        }
        for each in list_parameters(policy)
    ]


def _format_range(param: dict[str, Any]) -> str:
    low, high = param["min"], param["max"]
    return "" if low is None else f"{low:,} or more" if high is None else f"{low:,} to {high:,}"
