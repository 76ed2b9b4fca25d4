"""The agents that are driven, in the order of the table."""

from __future__ import annotations

from scripts.agents.agent import Agent
from scripts.agents.drivers.claude_code import ClaudeCode
from scripts.agents.drivers.codex import Codex

AGENTS: dict[str, Agent] = {agent.name: agent for agent in (ClaudeCode(), Codex())}
"""All agents by name."""
