"""Command line: ``python -m scripts.agents install|run|judge|serve``; see the package."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from context_tui.errors import Error
from scripts.agents.agent import Agent
from scripts.agents.back import can_write, resume_exports
from scripts.agents.drive import DriveError, drive
from scripts.agents.drivers import AGENTS
from scripts.agents.judge import format_judgement, judge_scenario
from scripts.agents.programs import ROOT, ProgramError, check_node
from scripts.agents.scenarios import Scenario, build_scenarios
from scripts.agents.scripted_model import Action, ScriptedModel
from scripts.agents.server import serve
from scripts.agents.table import PAGE, AgentResult, find_lost_goals, format_page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.agents", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    everything = commands.add_parser("all", help="install, drive, judge, resume; print the page of figures")
    everything.add_argument("--write", action="store_true", help=f"write the page to {PAGE.relative_to(ROOT)}")
    everything.add_argument("--keep", action="store_true", help="judge what was driven last, without driving again")
    install = commands.add_parser("install", help="install the programs")
    run = commands.add_parser("run", help="drive agents through scenarios")
    judge = commands.add_parser("judge", help="judge what was driven last, without driving again")
    judge.add_argument("--scenario", action="append", help="default: all")
    judge.add_argument("-v", "--verbose", action="store_true", help="print each difference")
    back = commands.add_parser("back", help="resume what we export of the sessions that were driven last")
    for each in (everything, install, run, judge, back):
        each.add_argument("agents", nargs="*", choices=[*AGENTS, []], help="default: all")
    run.add_argument("--scenario", action="append", help="default: all")
    run.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="add to the environment")
    server = commands.add_parser("serve", help="serve the scripted model alone, until interrupted")
    server.add_argument("--port", type=int, default=0)
    server.add_argument("--log", type=Path, required=True, help="folder of the requests")
    server.add_argument("--agent", choices=list(AGENTS), required=True)
    server.add_argument("--calls", type=int, default=10, help="tool calls before a final text")
    server.add_argument("--lines", type=int, default=700, help="lines that each call prints")
    options = parser.parse_args(arguments)
    if options.command == "serve":
        return _serve(AGENTS[options.agent], options)
    agents = [AGENTS[name] for name in options.agents or AGENTS]
    if options.command == "install":
        return _install(agents)
    if options.command == "all":
        return _measure_all(agents, options)
    if options.command == "judge":
        return _judge(agents, options.scenario, options.verbose)
    if options.command == "back":
        for agent in filter(can_write, agents):
            for resumed in resume_exports(agent):
                print(f"{agent.name} {resumed.plan}: {resumed.difference or 'as planned'}", flush=True)
        return 0
    return _run(agents, options.scenario, dict(each.split("=", 1) for each in options.env))


def _install(agents: Sequence[Agent]) -> int:
    check_node()
    failures = 0
    for agent in agents:
        try:
            agent.program.install()
            print(f"{agent.name} {agent.program.version}: {agent.program.path}")
        except ProgramError as error:
            failures += 1
            print(f"{agent.name}: {error}", file=sys.stderr)
    return 1 if failures else 0


def _run(agents: Sequence[Agent], names: Sequence[str] | None, env: dict[str, str]) -> int:
    failures = 0
    for agent in agents:
        agent.program.install()
        for scenario in list_scenarios(agent, names):
            start = time.monotonic()
            try:
                recorded = drive(agent, scenario, env)
            except DriveError as error:
                failures += 1
                print(f"{agent.name} {scenario.name}: {error}", file=sys.stderr)
                continue
            seconds = time.monotonic() - start
            kinds = [entry["kind"] for entry in recorded.requests]
            counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
            print(f"{agent.name} {scenario.name}: {counts}; {seconds:.0f} s; {recorded.folder}", flush=True)
    return 1 if failures else 0


def _measure_all(agents: Sequence[Agent], options: argparse.Namespace) -> int:
    """Drive and judge agents; print or write the page. Return 1 where a goal is missed that was met before."""
    check_node()
    results = []
    for agent in agents:
        results.append(_measure(agent, options.keep))
        print(f"{agent.name}: {format_judgement(results[-1].judgement)}", file=sys.stderr, flush=True)
    page = format_page(results)
    lost_goals = find_lost_goals(PAGE.read_text(encoding="utf-8"), page) if PAGE.exists() else []
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    else:
        print(page, end="")
    for goal in lost_goals:
        print(f"missed, and met before: {goal}", file=sys.stderr)
    return 1 if lost_goals else 0


def _measure(agent: Agent, keep: bool) -> AgentResult:
    result = AgentResult(agent)
    try:
        agent.program.install()
    except ProgramError as error:
        result.failures["all"] = str(error)
        return result
    for scenario in list_scenarios(agent):
        try:
            if not keep:
                drive(agent, scenario)
            result.judgement.add(judge_scenario(agent, scenario))
            result.scenarios.append(scenario.name)
        except (DriveError, Error) as error:
            result.failures[scenario.name] = str(error)
    if can_write(agent) and "resume" in result.scenarios:
        result.resumed = {resumed.plan: resumed.difference for resumed in resume_exports(agent)}
    return result


def _judge(agents: Sequence[Agent], names: Sequence[str] | None, verbose: bool) -> int:
    for agent in agents:
        for scenario in list_scenarios(agent, names):
            try:
                judgement = judge_scenario(agent, scenario)
            except (DriveError, Error) as error:
                print(f"{agent.name} {scenario.name}: {error}")
                continue
            print(f"{agent.name} {scenario.name}: {format_judgement(judgement)}")
            if verbose:
                print(*(f"    {line}" for line in judgement.details), sep="\n")
    return 0


def list_scenarios(agent: Agent, names: Sequence[str] | None = None) -> list[Scenario]:
    """Return the scenarios of an agent, or those of these names."""
    scenarios = build_scenarios(agent.calls_to_compact, agent.lines_to_compact, agent.turns_to_compact)
    supported = (scenario for scenario in scenarios if scenario.name not in agent.unsupported)
    return [scenario for scenario in supported if not names or scenario.name in names]


def _serve(agent: Agent, options: argparse.Namespace) -> int:
    model = ScriptedModel(agent.translate, classify=agent.classify)
    starts = range(1, options.calls * options.lines + 1, options.lines)
    model.queue((Action("command", f"seq {start} {start + options.lines - 1}"),) for start in starts)
    with serve(model, options.log, options.port) as server:
        print(f"{server.base_url} (requests go to {options.log}); Ctrl+C stops it", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
