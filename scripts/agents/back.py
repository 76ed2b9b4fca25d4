"""And back: sessions that we export, resumed by the agents' own programs with the very command that we print."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import context_tui as ct
from context_tui.cli import main as run_context_tui
from context_tui.formats.registry import FORMATS
from context_tui.session.session import Session
from scripts.agents.agent import Agent, Setup
from scripts.agents.drive import DriveError, load_recorded, run_program, stop_daemons
from scripts.agents.judge import classify_text, find_session, identify_part, parse_sent
from scripts.agents.prompt import Part, Prompt, parse_prompt
from scripts.agents.scripted_model import PROMPT_MARK, ScriptedModel
from scripts.agents.server import serve

SCENARIO = "resume"
"""The scenario whose session is exported: it has two prompts."""
PROMPT = f"{PROMPT_MARK} go on, please."
PLANS = ("clear", "truncate", "summarise", "cut")


@dataclass(frozen=True)
class Resumed:
    """Export that was resumed: the plan, and what differs between the plan and the first request; empty if nothing."""

    plan: str
    difference: str


def can_write(agent: Agent) -> bool:
    """Return whether we write the sessions of an agent."""
    return agent.format in FORMATS and FORMATS[agent.format].writable and bool(agent.headless)


def resume_exports(agent: Agent) -> Iterator[Resumed]:
    """Export a driven session after each plan, and resume it."""
    for plan in PLANS:
        try:
            difference = _resume_export(agent, plan)
        except (DriveError, ct.Error) as error:
            difference = str(error)
        yield Resumed(plan, difference)


def _resume_export(agent: Agent, plan: str) -> str:
    recorded = load_recorded(agent, SCENARIO)
    source = find_session(recorded)
    folder = recorded.folder.parent / f"back-{plan}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = ScriptedModel(agent.translate, classify=agent.classify, final_step=agent.final_step)
    home, project = recorded.folder / "home", recorded.folder / "project"
    session = ct.open_session(source)
    policy, params = _build_plan(session, plan)
    with serve(model, folder / "requests") as server, stop_daemons(home):
        setup = Setup(home, project, server.base_url)
        variables = agent.configure(setup)
        out = folder / f"export{Path(source.partition('#')[0]).suffix if agent.format != 'opencode' else '.json'}"
        report = _export(source, policy, params, out, {"HOME": str(home), **variables})
        if not report["resume"]:
            return "no command to resume was printed"
        for number, command in enumerate(agent.prepare_commands(setup)):
            run_program(command, setup, variables, folder / f"prepare-{number}.txt")
        path = f"{_write_shim(agent, folder)}:{os.environ.get('PATH', '')}"
        run_program(["sh", "-c", report["resume"]], setup, {**variables, "PATH": path}, folder / "output.txt")
    lines = (folder / "requests" / "requests.jsonl").read_text(encoding="utf-8").splitlines() if model.counts else []
    entries = [entry for entry in map(json.loads, lines) if entry["kind"] == "main"]
    if not entries:
        return "the program sent no request"
    planned = ct.plan(session, policy, **params)
    after = ct.apply(session, planned, summary=(report.get("summary") or {}).get("text"))
    body = json.loads((folder / "requests" / entries[0]["body"]).read_bytes())
    held = parse_prompt("anthropic", {"messages": after.to_messages()})
    sent = parse_sent(agent, body)
    return compare_prompts(held, sent) and compare_prompts(_pair(held), sent)


def _pair(prompt: Prompt) -> Prompt:
    """Return a prompt without calls and results that have no counterpart, and without second results of a call.

    An export leaves these out.
    """
    ids = {part.id for part in prompt.get("call")} & {part.id for part in prompt.get("result")}
    parts = list[Part]()
    known_ids = set[str]()
    for part in prompt.parts:
        is_second = part.kind == "result" and part.id in known_ids
        if part.kind not in ("call", "result") or (part.id in ids and not is_second):
            parts.append(part)
        known_ids |= {part.id} if part.kind == "result" else set()
    return replace(prompt, parts=tuple(parts))


def _build_plan(session: Session, plan: str) -> tuple[str, dict[str, Any]]:
    """Return the policy and the parameters of a plan, which changes something in the first turn."""
    if plan == "clear":
        blocks = ((message, session.content.blocks(message)) for message in session.context_at().order)
        places = [
            f"{message}:{number}"
            for message, each in blocks
            for number, block in enumerate(each)
            if block["type"] == "tool_result"
        ]
        return "manual", {"clear": ",".join(places[:2])}
    if plan == "truncate":
        return "agent-sdk-prune", {"max_chars": 500, "preserve_tail": 1}
    if plan == "summarise":
        turns = [
            message
            for message in range(1, len(session))
            if any(PROMPT_MARK in block.get("text", "") for block in session.content.blocks(message))
        ]
        return "manual", {"cut": turns[-1]}
    return "roo-truncate", {}


def _export(source: str, policy: str, params: Mapping[str, Any], out: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Export by the command line, with the environment of the agent; return what it reports."""
    options = [f"--param={name}={value}" for name, value in params.items()]
    text, errors = io.StringIO(), io.StringIO()
    before = dict(os.environ)
    os.environ.update(env)
    try:
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(errors):
            status = run_context_tui(["apply", source, "-P", policy, *options, "-o", str(out), "--json"])
    finally:
        os.environ.clear()
        os.environ.update(before)
    if status or not out.exists():
        raise DriveError(f"not exported: {errors.getvalue().strip()}")
    report: dict[str, Any] = json.loads(text.getvalue())
    return report


def _write_shim(agent: Agent, folder: Path) -> Path:
    """Write a program with the agent's name that calls the agent headless, and return its folder."""
    shim = folder / "bin" / agent.program.executable
    shim.parent.mkdir()
    quoted = {"program": shlex.quote(str(agent.program.path)), "prompt": shlex.quote(PROMPT), "model": agent.model}
    shim.write_text(f"#!/bin/sh\n{agent.headless.format(**quoted)}\n", encoding="utf-8")
    shim.chmod(0o755)
    return shim.parent


def compare_prompts(held: Prompt, sent: Prompt) -> str:
    """Return how the calls, results and texts of a planned context differ from those of a request; empty if not.

    Texts that the agent adds are no difference.
    """
    for kind in ("call", "result"):
        planned = Counter(identify_part(part) for part in held.parts if part.kind == kind)
        actual = Counter(identify_part(part) for part in sent.parts if part.kind == kind)
        if planned != actual:
            common = (planned & actual).total()
            return f"{kind}s: {planned.total()} planned, {actual.total()} sent, {common} of them the same"
    shown = "\0".join(part.text for part in sent.get("text", "system"))
    missing = [part for part in held.get("text") if part.text.strip() and part.text.strip() not in shown]
    kinds = Counter(classify_text(part) for part in missing)
    return "texts not sent: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()) if kinds else ""
