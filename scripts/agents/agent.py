"""An agent to drive: its program, its configuration, its commands, its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from scripts.agents.programs import Program
from scripts.agents.prompt import Api, Prompt
from scripts.agents.scenarios import Scenario
from scripts.agents.scripted_model import Action, RequestKind, Step, classify_request

STUB = "stub-model"
"""Name of the scripted model."""
LARGE_WINDOW = 1_000_000
"""Context window in scenarios without compaction."""


@dataclass(frozen=True)
class Setup:
    """Where an agent runs: an empty ``home``, a ``project``, the model server, and its limits.

    Attributes:
        home: the agent's HOME.
        project: its working directory.
        url: base URL of the model server.
        window: context window of the model; None where the scenario does not compact.
        env: variables that a user adds to the environment.
    """

    home: Path
    project: Path
    url: str
    window: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dialogue:
    """A program that is told what to do by lines of JSON: each is sent, and its output read up to a text."""

    command: Sequence[str]
    exchanges: Sequence[tuple[Mapping[str, Any], str]]


@dataclass(frozen=True)
class Typing:
    """A program in a terminal: each line is typed once its screen rests. An empty line chooses what is marked."""

    command: Sequence[str]
    lines: Sequence[str]


Run = Sequence[str] | Dialogue | Typing
"""How a program is run: by a command alone, or by more."""


class Agent:
    """An agent: subclasses say how its program is configured and called."""

    name: ClassVar[str]
    label: ClassVar[str]
    program: ClassVar[Program]
    api: ClassVar[Api]
    format: ClassVar[str]
    model: ClassVar[str] = STUB
    window: ClassVar[int] = 60_000
    """Context window in the scenario that compacts."""
    calls_to_compact: ClassVar[int] = 40
    """Calls in the scenario that compacts twice."""
    lines_to_compact: ClassVar[int] = 700
    """Lines that each of these calls prints."""
    turns_to_compact: ClassVar[int] = 1
    """Prompts over which these calls are spread, for agents that compact between prompts only."""
    final_step: ClassVar[Step] = ()
    """The calls by which a run ends; none where it ends with a text."""
    preset: ClassVar[str] = ""
    """Name of our preset of its policy; empty where there is none."""
    headless: ClassVar[str] = ""
    """Shell command that takes the arguments of the command that we print to resume, and answers ``{prompt}``; empty
    where we write no sessions of it."""
    unsupported: ClassVar[Mapping[str, str]] = {}
    """Scenarios that it cannot do, each with the reason."""
    deletes_rewound: ClassVar[bool] = False
    """Whether a prompt that is taken back is deleted from its files, with all that follows it."""
    differences: ClassVar[Mapping[str, str]] = {}
    """Goals that it cannot meet, each with the reason."""

    def configure(self, setup: Setup) -> dict[str, str]:
        """Write the configuration, and return the variables of the environment."""
        raise NotImplementedError

    def prepare_commands(self, setup: Setup) -> list[Sequence[str]]:
        """Return the commands that are run once, before a session is started."""
        return []

    def start_command(self, setup: Setup, prompt: str) -> Sequence[str]:
        """Return the command that starts a session."""
        raise NotImplementedError

    def resume_command(self, setup: Setup, session: Path, prompt: str) -> Run:
        """Return the run that resumes the session."""
        raise NotImplementedError

    def compact_command(self, setup: Setup, session: Path) -> Run:
        """Return the run that compacts the session by hand."""
        raise NotImplementedError

    def clear_command(self, setup: Setup, session: Path, prompt: str) -> Run:
        """Return the run that empties the context and answers a prompt."""
        raise NotImplementedError

    def rewind_command(self, setup: Setup, session: Path, prompt: str) -> Run:
        """Return the run that takes the newest prompt back and answers another."""
        raise NotImplementedError

    def compute_window(self, scenario: Scenario) -> int | None:
        """Return the context window of a scenario; None where nothing is to be compacted."""
        return int(self.window * scenario.window_share) if scenario.window_share else None

    def get_preset_limits(self, window: int) -> tuple[Mapping[str, Any], int | None]:
        """Return the parameters of the preset with which a scenario with this window configures the agent, and the
        window that the preset is told; None where the session file tells it.
        """
        return {}, window

    def find_sessions(self, setup: Setup) -> list[Path]:
        """Return the files of its main sessions, oldest first."""
        raise NotImplementedError

    def translate(self, action: Action, names: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
        """Return the tool and the arguments for an action; None where it has no such tool."""
        raise NotImplementedError

    def classify(self, prompt: Prompt) -> RequestKind:
        """Return the kind of a request."""
        return classify_request(prompt)


def write_file(path: Path, text: str) -> None:
    """Write a file, in a folder that may not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def configure_litellm(setup: Setup) -> dict[str, str]:
    """Return the variables by which LiteLLM calls the scripted model."""
    return {
        "OPENAI_API_KEY": "anything",
        "OPENAI_API_BASE": f"{setup.url}/v1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def list_by_time(files: Sequence[Path]) -> list[Path]:
    """Return files, oldest first."""
    return sorted(files, key=lambda file: (file.stat().st_mtime, file.name))
