"""Real agents as judges: drive their own programs against a scripted model, and compare requests with sessions.

Requires Node.js 20, npm and the development environment. Everything runs on loopback with an empty HOME for each
agent; programs, sessions and requests are kept in ``.agents/`` (or ``$AGENTS_CACHE``), which is never committed.

``make agents`` installs the programs, drives them and writes ``docs/agents.md``. The parts alone::

    python -m scripts.agents install claude-code codex
    python -m scripts.agents run claude-code --scenario plain
    python -m scripts.agents judge claude-code
    python -m scripts.agents serve --port 8123 --log /tmp/requests --agent claude-code --calls 40

``serve`` starts the model server alone: it answers *calls* requests with a tool call of that agent, then with a text.
``run`` prints the folder that holds the HOME and the requests. Its ``--env NAME=VALUE`` adds variables to the agent's
environment, so Claude Code writes its own request logs with::

    python -m scripts.agents run claude-code --scenario compact --env CLAUDE_CODE_ENABLE_TELEMETRY=1 \\
        --env OTEL_LOGS_EXPORTER=console --env OTEL_LOG_RAW_API_BODIES=file:/tmp/bodies
"""
