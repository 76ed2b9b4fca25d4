"""The agents that are driven, in the order of the table."""

from __future__ import annotations

from scripts.agents.agent import Agent
from scripts.agents.drivers.aider import Aider
from scripts.agents.drivers.claude_code import ClaudeCode
from scripts.agents.drivers.cline import Cline
from scripts.agents.drivers.codex import Codex
from scripts.agents.drivers.gemini_cli import GeminiCli
from scripts.agents.drivers.mini_swe_agent import MiniSweAgent
from scripts.agents.drivers.opencode import OpenCode
from scripts.agents.drivers.pi import Pi

_AGENTS: tuple[Agent, ...] = (
    ClaudeCode(),
    Codex(),
    OpenCode(),
    Pi(),
    GeminiCli(),
    Cline(),
    MiniSweAgent(),
    Aider(),
)
AGENTS: dict[str, Agent] = {agent.name: agent for agent in _AGENTS}
"""All agents by name."""
