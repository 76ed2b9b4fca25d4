"""LangChain middleware as a policy for context-tui: ``--policy-command "python langchain_policy.py my_module:build"``.

``my_module:build`` names a middleware, or a function that builds one, whose defaults become the parameters. It runs
where LangChain is installed, and calls the middleware as an agent does: ``before_model`` changes the state
(``SummarizationMiddleware``), ``wrap_model_call`` only the request (``ContextEditingMiddleware``). A summary that
contains ``{summary}`` stands for one that context-tui prices. Async-only middleware is not called.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any
from uuid import uuid4

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

Message = dict[str, Any]


class MiddlewareRun:
    """Middleware along one context: the state of its agent, and the messages of the last request.

    A message of LangChain has the id ``MESSAGE/BLOCK``, because each result is a message of its own there.
    """

    def __init__(self, middleware: Any) -> None:
        self._middleware = middleware
        self._state: list[Any] = []
        self._sent: list[Any] = []
        self._names: dict[int, list[str]] = {}  # by message, the id in LangChain of each block that remains
        self._call_places: dict[tuple[str, str], int] = {}

    def answer(self, messages: Sequence[Message]) -> list[Message]:
        """Append messages, call the middleware, and return its changes to the last request as edits."""
        for message in messages:
            names = self._names[message["id"]] = []
            for converted, blocks in convert_message(message):
                names += [converted.id] * len(blocks)
                self._state.append(converted)
                self._sent.append(converted)
            calls = ((at, block) for at, block in enumerate(message["content"]) if block.get("type") == "tool_use")
            self._call_places |= {(f"{message['id']}/0", block.get("id")): at for at, block in calls}
        update = self._middleware.before_model({"messages": self._state}, None)
        if update and "messages" in update:
            self._state = [each for each in update["messages"] if not isinstance(each, RemoveMessage)]
            for each in self._state:
                each.id = each.id or str(uuid4())  # as the reducer of LangGraph does
        sent: list[list[Any]] = [self._state]
        if type(self._middleware).wrap_model_call is not AgentMiddleware.wrap_model_call:

            def call_model(request: Any) -> Any:
                sent.append(request.messages)
                return ModelResponse(result=[AIMessage("")])

            self._middleware.wrap_model_call(ModelRequest(model=None, messages=list(self._state)), call_model)
        edits = list(self._compare(sent[-1]))
        self._sent = list(sent[-1])
        return edits

    def _compare(self, messages: Sequence[Any]) -> Iterator[Message]:
        old, new = {each.id: each for each in self._sent}, {each.id for each in messages}
        for number in dict.fromkeys(_get_number(name) for name in old if name not in new):
            names = self._names.get(number, []) if isinstance(number, int) else []
            remaining = [name for name in names if name in new]
            if not remaining:
                yield {"drop": number}
            else:
                yield from ({"remove": number, "block": at} for at, name in enumerate(names) if name not in new)
            self._names[number] = remaining  # type: ignore[index]
        inserted: list[Any] = []
        for message in messages:
            if message.id not in old:
                inserted.append(message)
                continue
            yield from (_build_insert(each, _get_number(message.id)) for each in inserted)
            inserted.clear()
            yield from self._compare_message(old[message.id], message)
        yield from (_build_insert(each, None) for each in inserted)

    def _compare_message(self, old: Any, new: Any) -> Iterator[Message]:
        number = _get_number(new.id)
        if isinstance(new, ToolMessage) and old.content != new.content:
            block = self._names[number].index(new.id)  # type: ignore[index]
            yield {"clear": number, "block": block, "text": new.text}
        for before, after in zip(getattr(old, "tool_calls", ()), getattr(new, "tool_calls", ()), strict=True):
            if before["args"] != after["args"]:
                yield {"clear": number, "block": self._call_places[new.id, after["id"]], "input": after["args"]}


def convert_message(message: Message) -> Iterator[tuple[Any, list[Message]]]:
    """Yield the messages of LangChain that stand for one message, each with the blocks that it holds."""
    number, content = message["id"], message["content"]
    if message["role"] == "assistant":
        calls = [
            {"type": "tool_call", "name": block.get("name"), "args": block.get("input") or {}, "id": block.get("id")}
            for block in content
            if block.get("type") == "tool_use"
        ]
        texts = "".join(str(block.get("text") or "") for block in content if block.get("type") == "text")
        yield AIMessage(texts, tool_calls=calls, id=f"{number}/0"), content
        return
    others: list[Message] = []
    for at, block in enumerate(content):
        if block.get("type") != "tool_result":
            others.append(block)
        if others and (block.get("type") == "tool_result" or at == len(content) - 1):
            end = at + (block.get("type") != "tool_result")
            yield HumanMessage(_convert_content(others), id=f"{number}/{end - len(others)}"), others
            others = []
        if block.get("type") == "tool_result":
            body, call = _convert_content(block.get("content")), str(block.get("tool_use_id") or "")
            yield ToolMessage(body, tool_call_id=call, id=f"{number}/{at}"), [block]


def _convert_content(content: Any) -> Any:
    """Return texts joined, the blocks where images stand among them, and any other content as JSON."""
    if isinstance(content, str) or not content:
        return content or ""
    types = {block.get("type") for block in content if isinstance(block, dict)} if isinstance(content, list) else {None}
    if types <= {"text"} and all(isinstance(block, dict) for block in content):
        return "".join(str(block.get("text") or "") for block in content)
    return content if types <= {"text", "image"} else json.dumps(content)


def _get_number(name: str) -> int | str:
    """Return the number of the message, or the name of a message that the middleware has inserted."""
    number, slash, _ = name.partition("/")
    return int(number) if slash else name


def _build_insert(message: Any, before: int | str | None) -> Message:
    role = "assistant" if isinstance(message, AIMessage) else "user"
    inserted = {"id": message.id, "role": role, "content": message.text, "summary": "{summary}" in message.text}
    return {"insert": inserted, "before": before}


def describe(build: Callable[..., Any], name: str) -> Message:
    """Describe the policy; its parameters are the arguments of *build* that have a default."""
    arguments = inspect.signature(build).parameters.values()
    params = {each.name: {"default": each.default} for each in arguments if each.default is not each.empty}
    for spec in params.values():
        spec |= {"min": 0} if type(spec["default"]) in (int, float) else {}
    return {"protocol": 1, "name": name.lower().replace("_", "-"), "about": "LangChain middleware", "params": params}


def main() -> None:
    """Answer the questions on standard input; what the middleware prints goes to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    sys.path.insert(0, os.getcwd())
    module, _, name = (sys.argv[1:] or [""])[0].partition(":")
    target = getattr(import_module(module), name)
    build = (lambda: target) if isinstance(target, AgentMiddleware) else target
    run = None
    for line in sys.stdin:
        question = json.loads(line)
        if question["type"] == "describe":
            answer = describe(build, name)
        else:
            if run is None or question.get("reset"):
                run = MiddlewareRun(build(**question["params"]))
            answer = {"edits": run.answer(question["messages"])}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
