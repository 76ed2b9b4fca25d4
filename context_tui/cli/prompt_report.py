"""Report by ``context-tui inspect`` on the start of each request: system prompt, tools, MCP servers, injected texts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from context_tui.cli.output import print_line, print_table
from context_tui.formats.opening import describe_request_source
from context_tui.session.context import Context
from context_tui.session.session import Session
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import make_visible
from context_tui.tokens.breakdown import ToolSchema, measure_prompt, measure_servers
from context_tui.tokens.measures import TokenTable


def build_prompt_report(session: Session, context: Context, table: TokenTable | None) -> dict[str, Any]:
    """Build the JSON report on the system prompt, tools and, if the file holds whole requests, injected texts."""
    return {"exact_requests": session.facts.holds_requests, **asdict(measure_prompt(session, context, table))}


def _format_name(name: str, part: dict[str, Any]) -> str:
    return f"{make_visible(name)} (cache breakpoint)" if part["cache_breakpoint"] else make_visible(name)


def print_prompt_report(session: Session, report: dict[str, Any], measure: str) -> None:
    """Print the parts of the prompt or, if the file holds none, how to record them."""
    system, tools, injected = report["system"], report["tools"], report["injected"]
    parts = [(_format_name(each["part"], each), each["tokens"]) for each in system]
    print_table(f"system prompt ({measure})", ("part", "tokens"), parts)
    rows = [
        (
            _format_name(each["name"], each),
            each["tokens"],
            each["calls"],
            "" if each["last_use"] is None else each["last_use"],
        )
        for each in tools
    ]
    print_table(f"tools in each request ({measure})", ("tool", "tokens", "calls", "last use"), rows)
    unused = [each for each in tools if not each["calls"]]
    if unused:
        tokens = sum(each["tokens"] for each in unused)
        print_line(f"  {format_count(len(unused), 'tool')}, {tokens:,} tokens, never called")
    servers = measure_servers(ToolSchema(**each) for each in tools)
    totals = [(make_visible(each.name), each.tools, each.tokens, each.calls) for each in servers]
    print_table(f"MCP servers ({measure})", ("server", "tools", "tokens", "calls"), totals)
    texts = [(make_visible(each["part"]), each["count"], each["tokens"]) for each in injected]
    print_table(f"injected texts in the context ({measure})", ("part", "times", "tokens"), texts)
    if not report["exact_requests"] and (advice := describe_request_source(session)):
        print_line()
        print_line(advice)
