"""SWE-agent, a research agent that resolves GitHub issues.

A session is a trajectory, a JSON file ``INSTANCE.traj`` with the conversation in ``history``. Its configuration shows
which observations were elided from requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from context_tui.formats.base import Claim, SessionFile
from context_tui.formats.kit import document_scanner, documents, heads, message_builder
from context_tui.formats.kit.values import as_list, as_object, list_objects, parse_id
from context_tui.formats.mini_swe_agent import find_task_title
from context_tui.formats.openai.reader import OpenAIShape
from context_tui.session.jsontext import try_loads
from context_tui.session.values import Role
from context_tui.text.sanitize import truncate_name

ELISION_PROCESSOR = "last_n_observations"


class Elision(NamedTuple):
    """Parameters of SWE-agent's ``LastNObservations``, which elides all observations but the first and the last ``n``.

    The elided part grows in steps of ``polling`` observations. Observations with a tag in ``keeps`` are never elided,
    those with a tag in ``removes`` always. Source: SWE-agent, sweagent/agent/history_processors.py.
    """

    n: int
    polling: int = 1
    keeps: frozenset[str] = frozenset({"keep_output"})
    removes: frozenset[str] = frozenset({"remove_output"})


class _Observation(NamedTuple):
    key: str
    tags: frozenset[str]


def format_totals(info: Any) -> str:
    """Return a note on a trajectory's recorded totals, or "" if it has none."""
    stats = as_object(as_object(info).get("model_stats"))
    labels = {"api_calls": "calls", "tokens_sent": "tokens sent", "tokens_received": "tokens received"}
    sizes = [(stats.get(name), label) for name, label in labels.items()]
    totals = [f"{size:,} {label}" for size, label in sizes if isinstance(size, int) and size > 0]
    return f"the file tells of {', '.join(totals)} in all" if totals else ""


class SweAgentShape(document_scanner.DocumentShape):
    """Parser for a history (Chat Completions with ``agent``, ``message_type`` and ``is_demo``) or for steps."""

    def __init__(self) -> None:
        self._chat_shape = OpenAIShape()
        self._agent: Any = None
        self._task_place = -1  # the element that holds the task
        self._elision: Elision | None = None
        self._observations: list[_Observation] = []
        self._last_place = -1  # the last element that was read
        self._first_recent = 1  # the first observation that is too recent to be elided
        self._checked_count = 0  # number of observations whose tags were checked
        self._elided: set[int] = set()
        self._elided_by_request: dict[int, tuple[str, ...]] = {}  # by element: elided from its request on

    title = staticmethod(find_task_title)

    def read_metadata(self, run: documents.Run, builder: message_builder.MessageBuilder) -> None:
        """Read the model, and the rule by which observations are elided, from the configuration."""
        builder.facts.input_includes_cache = True
        config = run.get("replay_config")
        agent = as_object(as_object(try_loads(config) if isinstance(config, str) else config).get("agent"))
        if isinstance(name := as_object(agent.get("model")).get("name"), str):
            builder.facts.model = truncate_name(name)
        self._elision = _parse_elision(agent)

    def parse(self, value: Any, place: int) -> message_builder.ParsedRecord:
        """Parse a message. A message of another agent in the same file becomes metadata."""
        if not isinstance(value, dict):
            raise ValueError("not a message: not a JSON object")
        if "role" not in value and "response" in value:
            return self._parse_step(value)
        self._agent = value.get("agent") if self._agent is None else self._agent
        if value.get("agent", self._agent) != self._agent:
            return message_builder.MetadataRecord()
        record = self._chat_shape.parse(value, place)
        if record.role == Role.ASSISTANT and not value.get("is_demo"):
            cleared_keys = self._find_elided(place)
            clearing = message_builder.MicroCompactionRecord(ELISION_PROCESSOR, cleared_keys=cleared_keys)
            return message_builder.group_records(clearing, record) if cleared_keys else record
        if record.role != Role.USER:
            return record
        if value.get("is_demo"):
            return replace(record, is_injected=True)
        if self._task_place < 0 and not record.has_results:
            self._task_place = place
        if record.has_results:
            call_ids, [result] = as_list(value.get("tool_call_ids")), record.blocks
            call = parse_id(call_ids[0] if call_ids else value.get("tool_call_id"))
            record = replace(record, blocks=[{**result, "tool_use_id": call}])
        key = f"element {place}"  # ids of calls repeat in replayed trajectories
        if place > self._last_place:
            self._last_place = place
            self._observations.append(_Observation(key, _parse_tags(value.get("tags"))))
        return replace(record, key=key, is_injected=not record.has_results and place != self._task_place)

    def _parse_step(self, value: dict[str, Any]) -> message_builder.ParsedRecord:
        texts = (str(value.get(name) or "") for name in ("response", "observation"))
        response, observation = ({"type": "text", "text": text} for text in texts)
        observed_record = message_builder.MessageRecord(Role.USER, [observation], is_injected=True)
        return message_builder.group_records(message_builder.MessageRecord(Role.ASSISTANT, [response]), observed_record)

    def _find_elided(self, place: int) -> tuple[str, ...]:
        """Return the observations first elided in the request to which the message at *place* is the reply."""
        if self._elision is None:
            return ()
        if place > self._last_place:
            self._last_place = place
            rule, observations = self._elision, self._observations
            end = len(observations) // rule.polling * rule.polling - rule.n
            old_numbers = range(self._first_recent, max(self._first_recent, end))
            new_numbers = range(self._checked_count, len(observations))
            self._first_recent, self._checked_count = old_numbers.stop, len(observations)
            tags = {number: observations[number].tags for number in old_numbers}
            elided = {number for number, each in tags.items() if not each & rule.keeps or each & rule.removes}
            elided |= {number for number in new_numbers if observations[number].tags & rule.removes}
            elided -= self._elided
            self._elided |= elided
            if elided:
                self._elided_by_request[place] = tuple(observations[number].key for number in sorted(elided))
        return self._elided_by_request.get(place, ())


def _parse_tags(value: Any) -> frozenset[str]:
    return frozenset(tag for tag in as_list(value) if isinstance(tag, str))


def _parse_elision(agent: dict[str, Any]) -> Elision | None:
    processors = agent.get("history_processors")
    for processor in processors if isinstance(processors, list) else [agent.get("history_processor")]:
        if isinstance(processor, dict) and processor.get("type") == ELISION_PROCESSOR:
            n, polling = processor.get("n"), processor.get("polling", 1)
            if type(n) is int and n > 0 and type(polling) is int and polling > 0:
                names = {"keeps": "always_keep_output_for_tags", "removes": "always_remove_output_for_tags"}
                values = {member: processor.get(name) for member, name in names.items()}
                tags = {member: _parse_tags(each) for member, each in values.items() if isinstance(each, list)}
                return Elision(n, polling, **tags)
    return None


class SweAgentFormat(document_scanner.DocumentFormat):
    """The format of SWE-agent's trajectories (``.traj``)."""

    name: ClassVar[str] = "swe-agent"
    about: ClassVar[str] = "SWE-agent trajectory (.traj)"
    suffixes: ClassVar[tuple[str, ...]] = (".traj", ".json")
    shape = SweAgentShape

    copy = staticmethod(document_scanner.copy_document)

    def sniff(self, head: bytes, path: Path) -> Claim | None:
        value = as_object(heads.parse_only_value(head))
        message, step = (next(iter(list_objects(value.get(name))), {}) for name in ("history", "trajectory"))
        if "role" in message and "agent" in message:
            return Claim(93, "a history of messages that name their agent")
        if {"action", "observation", "response"} <= set(step):
            return Claim(92, "a trajectory of actions and observations")
        return None

    def find_runs(self, values: list[documents.Element]) -> list[documents.Run]:
        """Return a trajectory's history, or its steps if it has no history, as the only run."""
        members = documents.decode_members(values[0]) if len(values) == 1 else None
        for key in ("history", "trajectory"):
            if members is not None and (elements := documents.decode_items(members.get(key))):
                run = documents.make_run(members, key, elements)
                run.note = format_totals(run.get("info"))
                return [run]
        return []

    def read_title(self, path: Path) -> str:
        return document_scanner.read_document_title(path, SweAgentShape(), self.find_runs)

    def find_sessions(self, environ: Mapping[str, str], cwd: Path) -> Iterable[SessionFile]:
        """Return the files ``USER/RUN/INSTANCE/INSTANCE.traj`` in the folder ``SWE_AGENT_TRAJECTORY_DIR``."""
        if not (configured := environ.get("SWE_AGENT_TRAJECTORY_DIR")):
            return []
        paths = sorted(Path(configured).glob("*/*/*/*.traj"))
        return [SessionFile(path, path.parent.parent.name, False) for path in paths]
