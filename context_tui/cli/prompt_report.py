"""Report by ``context-tui inspect`` on the start of each request: system prompt, tools, MCP servers, injected texts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import Any

from context_tui.cli.output import print_line, print_table
from context_tui.formats.opening import describe_request_source
from context_tui.session.context import Context
from context_tui.session.markers import split_text
from context_tui.session.session import Session
from context_tui.session.values import BlockFlag, Kind
from context_tui.text.numbers import format_count
from context_tui.text.sanitize import make_visible
from context_tui.tokens.breakdown import measure_prompt
from context_tui.tokens.estimators import bytes4
from context_tui.tokens.measures import TokenTable

MCP_START = "mcp__"
"""Start of the names of tools of MCP servers: ``mcp__SERVER__TOOL``."""


def build_prompt_report(session: Session, context: Context, table: TokenTable | None) -> dict[str, Any]:
    """Build the JSON report on the system prompt, tools and, if the file holds whole requests, injected texts."""
    shares, facts = measure_prompt(context, table), session.facts
    return {
        "exact_requests": facts.holds_requests,
        "tools": [asdict(tool) for tool in shares.tools],
        "system": [asdict(part) for part in shares.system],
        "injected": _build_injected_report(session, context, table) if facts.holds_requests else [],
    }


def _build_injected_report(session: Session, context: Context, table: TokenTable | None) -> list[dict[str, Any]]:
    facts = session.facts
    tokens: dict[str, int] = defaultdict(int)
    counts: dict[str, int] = defaultdict(int)
    for message in context.order:
        rows = list(facts.blocks_of(message))
        if not any(facts.block_flags[row] & BlockFlag.INJECTED and facts.kind[row] == Kind.TEXT for row in rows):
            continue
        for row, block in zip(rows, session.content.blocks(message), strict=False):
            if not facts.block_flags[row] & BlockFlag.INJECTED or facts.kind[row] != Kind.TEXT:
                continue
            text = str(block.get("text") or "")
            size = table.block_tokens(context, row) if table else bytes4(facts, row)
            for name, section in split_text(text):
                tokens[name] += round(size * len(section) / max(len(text), 1))
                counts[name] += 1
    shares = sorted(tokens.items(), key=lambda each: (-each[1], each[0]))
    return [{"part": name, "tokens": size, "count": counts[name]} for name, size in shares]


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
        print_line(
            f"  {format_count(len(unused), 'tool')}, {sum(each['tokens'] for each in unused):,} tokens, never called"
        )
    servers: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in tools:
        if each["name"].startswith(MCP_START):
            servers[each["name"].removeprefix(MCP_START).partition("__")[0]].append(each)
    totals = [
        (make_visible(name), len(schemas), *(sum(each[key] for each in schemas) for key in ("tokens", "calls")))
        for name, schemas in servers.items()
    ]
    print_table(f"MCP servers ({measure})", ("server", "tools", "tokens", "calls"), totals)
    texts = [(make_visible(each["part"]), each["count"], each["tokens"]) for each in injected]
    print_table(f"injected texts in the context ({measure})", ("part", "times", "tokens"), texts)
    if not report["exact_requests"] and (advice := describe_request_source(session)):
        print_line()
        print_line(advice)
