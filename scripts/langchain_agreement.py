"""Compare LangChain's own middleware with the presets of it, at calls of real sessions.

``python scripts/langchain_agreement.py FOLDER`` prints the page, ``--write`` writes ``docs/langchain.md``. It needs
LangChain (``requirements-langchain.txt``). The middleware gets the recorded context before a call, in the shape that
LangChain's model of Anthropic uses: the blocks of a reply are its content, and each result is a message.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import langchain  # noqa: E402
from langchain.agents.middleware import ClearToolUsesEdit, SummarizationMiddleware  # noqa: E402
from langchain_core.language_models.fake_chat_models import FakeListChatModel  # noqa: E402
from langchain_core.messages import AIMessage, RemoveMessage  # noqa: E402
from langchain_core.messages.utils import count_tokens_approximately  # noqa: E402

import context_tui as ct  # noqa: E402
from context_tui.batch.workers import find_sources  # noqa: E402
from context_tui.compaction.plan import Plan  # noqa: E402
from context_tui.errors import Error  # noqa: E402
from context_tui.lab.replay.recording import Recording  # noqa: E402
from context_tui.policies.planning import plan  # noqa: E402
from context_tui.session.context import Context  # noqa: E402
from scripts.pages import build_page_parser, print_or_write_page  # noqa: E402

PAGE = ROOT / "docs" / "langchain.md"
ADAPTER = ROOT / "docs" / "examples" / "policy-command" / "langchain_policy.py"
MAX_CALLS = 60
"""Calls compared in each session, evenly spaced."""
KEEP_MESSAGES = 20


class Outcome(NamedTuple):
    """The changes by the middleware and by the preset before one call.

    Attributes:
        langchain, preset: places of cleared results, or numbers of removed messages; empty if it does not act.
        distance: difference of the preset's size and the trigger, as a share of the trigger.
    """

    langchain: frozenset[Any]
    preset: frozenset[Any]
    distance: float

    @property
    def verdict(self) -> str:
        """The comparison: the same, only one of them acts, or both act on other content."""
        if self.langchain == self.preset:
            return "same"
        if not self.langchain:
            return "only the preset"
        return "other content" if self.preset else "only LangChain"


class Contexts:
    """The contexts of a session as messages of LangChain; each message is converted once."""

    def __init__(self, session: ct.Session, convert: Callable[[dict[str, Any]], Iterator[Any]]) -> None:
        self.session, self._convert = session, convert
        self._converted: dict[int, list[Any]] = {}

    def build(self, context: Context) -> list[Any]:
        """Return copies of the messages in a context; a message with replaced content is converted anew."""
        replaced = {context.facts.block_message[row] for row in context.replacements}
        messages: list[Any] = []
        for number in context.order:
            if number in replaced:
                messages += self._convert_message(context, number)
                continue
            if number not in self._converted:
                self._converted[number] = self._convert_message(context, number)
            messages += self._converted[number]
        return [message.model_copy() for message in messages]

    def _convert_message(self, context: Context, number: int) -> list[Any]:
        [message] = self.session.messages_in(context, [number])
        if message["role"] != "assistant":
            return [each for each, _ in self._convert({"id": number, **message})]
        [(reply, _)] = self._convert({"id": number, **message})
        content = [block for block in message["content"] if isinstance(block, dict)]
        return [AIMessage(content, tool_calls=reply.tool_calls, id=reply.id)]


def compare_clearing(contexts: Contexts, at: int, trigger: int) -> Outcome:
    """Compare what ``ClearToolUsesEdit`` and ``langchain-clear`` clear, without results that were cleared before."""
    context = contexts.session.context_at(at)
    messages = contexts.build(context)
    ClearToolUsesEdit(trigger=trigger).apply(messages, count_tokens=count_tokens_approximately)
    cleared = {each.id for each in messages if each.response_metadata.get("context_editing", {}).get("cleared")}
    planned = plan(contexts.session, "langchain-clear", at=at, trigger_tokens=trigger)
    changed = {_name_block(context, row) for row in planned.changes} if planned.trigger.fires else set()
    earlier = {_name_block(context, row) for row in context.replacements}
    return Outcome(frozenset(cleared - earlier), frozenset(changed - earlier), _measure_distance(planned, trigger))


def compare_summarizing(contexts: Contexts, at: int, trigger: int) -> Outcome:
    """Compare which messages ``SummarizationMiddleware`` and ``langchain-summarize`` replace by a summary."""
    context = contexts.session.context_at(at)
    messages = contexts.build(context)
    model = FakeListChatModel(responses=["a summary"])
    middleware = SummarizationMiddleware(model, trigger=("tokens", trigger), keep=("messages", KEEP_MESSAGES))
    update = middleware.before_model({"messages": messages}, None)
    removed: set[int] = set()
    if update is not None:
        remaining = {each.id for each in update["messages"] if not isinstance(each, RemoveMessage)}
        numbers = {each.id: int(each.id.partition("/")[0]) for each in messages}
        removed = set(numbers.values()) - {numbers[name] for name in remaining if name in numbers}
    planned = plan(contexts.session, "langchain-summarize", at=at, trigger_tokens=trigger, keep_messages=KEEP_MESSAGES)
    dropped = (
        {context.order[place] for span in planned.dropped_ranges for place in span} if planned.trigger.fires else set()
    )
    return Outcome(frozenset(removed), frozenset(dropped), _measure_distance(planned, trigger))


def _name_block(context: Context, row: int) -> str:
    message = context.facts.block_message[row]
    return f"{message}/{[*context.facts.blocks_of(message)].index(row)}"


def _measure_distance(planned: Plan, trigger: int) -> float:
    return abs((planned.trigger.value or 0) / trigger - 1)


COMPARISONS = [
    ("langchain-clear", compare_clearing, 20_000),
    ("langchain-clear", compare_clearing, 100_000),
    ("langchain-summarize", compare_summarizing, 20_000),
    ("langchain-summarize", compare_summarizing, 100_000),
]
TEXT = """\
# LangChain against its presets

LangChain's own `ContextEditingMiddleware` (`ClearToolUsesEdit`, keeping 3 results) and `SummarizationMiddleware`
(keeping 20 messages), version {version}, get the recorded context before up to {calls} calls of each of {sessions} real
sessions; the presets `langchain-clear` and `langchain-summarize` plan for the same contexts.
`scripts/langchain_agreement.py` computes the page.

| preset | trigger | calls | LangChain acts | same | only LangChain | only the preset | other content | near |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""
NOTES = """
*near* counts the calls with a difference at which the preset's size is within 5 % of the trigger: there, the difference
of the two estimates decides. LangChain counts characters / 4 of texts, roles, ids and whole calls, 3 tokens for each
message and 85 for an image. The preset counts bytes / 4, 5 tokens for each message, 30 for each call with its result,
and 85 for an image. On the session with the largest difference, text outside ASCII makes the preset's size 10 % larger.
*Other content* are calls at which LangChain would cut inside a message of the recording, between a result and the text
behind it, which are two messages there. `SummarizationMiddleware` keeps 20 messages of LangChain, in which each result
of a reply is one of its own (`results_apart` in a policy file).
"""


def main() -> int:
    """Print or write the page."""
    options = build_page_parser(__doc__, PAGE).parse_args()
    spec = importlib.util.spec_from_file_location("langchain_policy", ADAPTER)
    assert spec is not None and spec.loader is not None
    adapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapter)
    outcomes: list[list[Outcome]] = [[] for _ in COMPARISONS]
    sessions = 0
    for source in find_sources([options.folder]).sources:
        try:
            session = ct.open_session(source.name)
        except Error:
            continue
        calls = [call.message for call in Recording(session).calls]
        if len(calls) < 2:
            continue
        sessions += 1
        contexts = Contexts(session, adapter.convert_message)
        for at in calls[:: -(-len(calls) // MAX_CALLS)]:
            for (_, compare, trigger), found in zip(COMPARISONS, outcomes, strict=True):
                found.append(compare(contexts, at, trigger))
    lines = [TEXT.format(version=langchain.__version__, calls=MAX_CALLS, sessions=sessions).rstrip()]
    for (name, _, trigger), found in zip(COMPARISONS, outcomes, strict=True):
        counts = Counter(each.verdict for each in found)
        near = sum(each.verdict != "same" and each.distance <= 0.05 for each in found)
        acts, share = sum(bool(each.langchain) for each in found), counts["same"] / len(found)
        cells = [f"{counts[verdict]:,}" for verdict in ("only LangChain", "only the preset", "other content")]
        lines.append(
            f"| `{name}` | {trigger:,} | {len(found):,} | {acts:,} | {counts['same']:,} ({share:.1%}) "
            f"| {' | '.join(cells)} | {near:,} |"
        )
    print_or_write_page(PAGE, "\n".join([*lines, NOTES]), options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
