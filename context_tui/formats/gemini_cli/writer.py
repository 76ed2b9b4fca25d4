"""Write sessions that Gemini CLI (since 0.39) can resume, as JSON Lines with results next to their calls."""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from context_tui.formats.gemini_cli.paths import CHAT_PREFIX, compute_project_hash, find_projects_folder
from context_tui.formats.gemini_cli.reader import SETUP_START, SUMMARY_START, is_command
from context_tui.formats.kit import files, heads, values, writing
from context_tui.formats.kit.blocks import Block
from context_tui.formats.kit.size_note import SIZE_NOTE, build_size_note
from context_tui.session.blocks import is_block_list
from context_tui.session.facts import Usage
from context_tui.session.losses import Losses
from context_tui.session.memory import collect_models, collect_usage
from context_tui.session.session import Session
from context_tui.session.values import MessageFlag

Record = dict[str, Any]
SUMMARY_END = "</state_snapshot>"


def write_session(session: Session, path: Path) -> Losses:
    """Write the metadata and a record for each message, and return the losses."""
    losses = Losses()
    writing.write_lines(_Writer(session, losses).build_records(), path)
    writing.note_omitted_request_parts(session, losses, "Gemini CLI")
    return losses


def build_resume_command(session: Session, written_session: Path, out_path: Path) -> str:
    """Return a shell command that resumes the session, or "" if the ``chats`` folder of its project is unknown.

    Gemini CLI finds a session by its id among the chats of the current project.
    """
    header = heads.read_first_object(written_session)
    session_id, start_time = header.get("sessionId"), header.get("startTime")
    if not isinstance(session_id, str) or not isinstance(start_time, str):
        return ""
    resume = f"{writing.build_change_folder(session.info.cwd)}gemini --resume {shlex.quote(session_id)}"
    if out_path.absolute().parent.name == "chats":
        return resume
    chats = Path(session.info.path).absolute().parent
    if chats.name != "chats":
        chats = find_projects_folder(os.environ) / compute_project_hash(session.info.cwd) / "chats"
        if not session.info.cwd or not os.path.isdir(chats):
            return ""
    name = f"{CHAT_PREFIX}{start_time[:16].replace(':', '-')}-{session_id[:8]}.jsonl"
    return f"cp -n {shlex.quote(str(out_path))} {shlex.quote(str(chats / name))} && {resume}"


class _Writer:
    def __init__(self, session: Session, losses: Losses) -> None:
        self._session, self._losses = session, losses
        self._facts = session.facts
        self._usages, self._models = collect_usage(session), collect_models(session)

    def build_records(self) -> Iterator[Record]:
        times = [time for time in self._facts.time if time >= 0]
        yield {
            "sessionId": str(uuid.uuid4()),
            "projectHash": compute_project_hash(self._session.info.cwd or str(files.find_working_folder())),
            "startTime": writing.format_iso_time(min(times, default=-1)),
            "lastUpdated": writing.format_iso_time(max(times, default=-1)),
            "kind": "main",
        }
        context = self._session.context_at()
        pairs = list(zip(context.order, self._session.messages_in(context), strict=True))
        answered: dict[str, Block] = {}
        replies = (block for _, each in pairs if each["role"] == "assistant" for block in each["content"])
        closed_calls = {str(block.get("id")) for block in replies if block.get("type") == "tool_use"}
        for place, (index, message) in enumerate(pairs):
            blocks = message["content"]
            if message["role"] == "assistant":
                following = (each["content"] for _, each in pairs[place + 1 : place + 2] if each["role"] == "user")
                results = [block for block in next(following, []) if block.get("type") == "tool_result"]
                answered = {str(block.get("tool_use_id")): block for block in results}
                if len(answered) < len(results):
                    answered = {}
                call_ids = {str(block.get("id")) for block in blocks if block.get("type") == "tool_use"}
                answered = {call_id: result for call_id, result in answered.items() if call_id in call_ids}
                closed_calls = (closed_calls - call_ids) | answered.keys()
                yield self._build_record("gemini", index, **self._build_reply(index, blocks, answered))
                continue
            remaining = [block for block in blocks if not self._is_answer(block, answered)]
            for block in (block for block in remaining if self._is_answer(block, closed_calls)):
                self._losses.omit("results left out that are not the first after their call", block)
            remaining = [block for block in remaining if not self._is_answer(block, closed_calls)]
            self._losses.add("messages with results and text split into two", 0 < len(remaining) < len(blocks))
            written_results = (block for block in remaining if block.get("type") == "tool_result")
            closed_calls |= {str(block["tool_use_id"]) for block in written_results if block.get("tool_use_id")}
            if remaining or not blocks:
                yield from self._build_user_records(index, remaining)
            answered = {}
        has_replies = any(message["role"] == "assistant" for _, message in pairs)  # only they have a place for a model
        model = {"model": self._facts.model} if self._facts.model and not has_replies else {}
        if note := build_size_note(self._facts, self._losses).get(SIZE_NOTE, {}) | model:
            yield {"$set": {SIZE_NOTE: note}}

    @staticmethod
    def _is_answer(block: Block, call_ids: Container[str]) -> bool:
        return block.get("type") == "tool_result" and str(block.get("tool_use_id")) in call_ids

    def _build_record(self, kind: str, index: int, **members: Any) -> Record:
        timestamp = writing.format_iso_time(self._facts.time[index])
        return {"id": str(uuid.uuid4()), "timestamp": timestamp, "type": kind, **members}

    def _build_reply(self, index: int, blocks: list[Block], answered: dict[str, Block]) -> Record:
        thoughts, content, calls = list[Record](), list[Record](), list[Record]()
        order = [block.get("type") for block in blocks]
        kinds = ("thinking", "text", "tool_use")
        known_kinds = [kind for kind in order if kind in kinds]
        self._losses.add("replies whose blocks were put in order", known_kinds != sorted(known_kinds, key=kinds.index))
        for block in blocks:
            match block.get("type"):
                case "thinking" if block.get("thinking"):
                    unsigned = {"type": "thinking", "thinking": block["thinking"]}
                    if block.get("signature"):
                        self._losses.replace(block, unsigned, "signatures of thinking left out")
                    thoughts.append({"subject": "", "description": block["thinking"]})
                case "text":
                    content.append({"text": block.get("text") or ""})
                case "tool_use":
                    calls.append(self._build_call(index, block, answered.get(str(block.get("id")))))
                case other:
                    self._losses.omit(f"blocks of type {other} left out, which Gemini CLI cannot hold", block)
        usage, model = self._usages.get(index), self._models.get(index) or self._facts.model
        return {
            "content": content,
            "thoughts": thoughts,
            "tokens": _format_usage(usage) if usage else None,
            **({"model": model} if model else {}),
            **({"toolCalls": calls} if calls else {}),
        }

    def _build_call(self, index: int, call: Block, result: Block | None) -> Record:
        call_id, name = str(call.get("id") or ""), str(call.get("name") or "")
        arguments = writing.convert_arguments(call, self._losses)
        time = writing.format_iso_time(self._facts.time[index])
        members = {"id": call_id, "name": name, "args": arguments, "timestamp": time}
        if result is None:
            return {**members, "result": None, "status": "cancelled"}
        status = "error" if result.get("is_error") else "success"
        return {**members, "result": [self._build_function_response(result, name)], "status": status}

    def _build_function_response(self, result: Block, name: str) -> Record:
        body, parts = result.get("content"), list[Record]()
        if isinstance(body, dict) and list(body) not in (["output"], ["error"]):
            response = body
        else:
            text: str = ""
            if is_block_list(body) and len(body) != 1:
                loss = "results whose images cannot be held"
                parts = writing.convert_body_blocks(result, _build_part, self._losses, loss)
            else:
                text = writing.convert_body_to_text(result, self._losses)
            response = {"error" if result.get("is_error") else "output": text}
        members: Record = {"id": str(result.get("tool_use_id") or ""), "name": name, "response": response}
        return {"functionResponse": {**members, **({"parts": parts} if parts else {})}}

    def _build_user_records(self, index: int, blocks: list[Block]) -> Iterator[Record]:
        results, texts = writing.split_results(blocks)
        if results:
            responses = [self._build_function_response(result, "unknown") for result in results]
            yield self._build_record("user", index, content=responses)
        self._losses.add("messages with results and text split into two", bool(results and texts))
        if not texts and results:
            return
        content = writing.convert_blocks(texts, _build_part, self._losses, "Gemini CLI")
        first_text_part = next((part for part in content if "text" in part), {"text": ""})
        start = first_text_part["text"].lstrip()
        if self._facts.flags[index] & MessageFlag.SUMMARY and not start.startswith(SUMMARY_START):
            first_text_part["text"] = f"{SUMMARY_START}\n{first_text_part['text']}\n{SUMMARY_END}"
            self._losses.add("summaries put between the tags that Gemini CLI's stand in")
        elif is_command(start):
            for block in filter(_build_part, texts):
                self._losses.omit("blocks of messages left out that begin like a command", block)
            return
        elif not start.startswith(SETUP_START):
            rows = self._session.context_at().blocks_of(index)
            self._losses.add(writing.INJECTED_LOSS, sum(writing.list_injected(self._facts, rows)))
        yield self._build_record("user", index, content=content)


def _build_part(block: Block) -> Record | None:
    if block.get("type") == "text":
        return {"text": block.get("text") or ""}
    source = values.as_object(block.get("source"))
    kind, data = str(source.get("media_type") or "image/png"), source.get("data")
    is_image = block.get("type") == "image" and isinstance(data, str) and kind.startswith("image/")
    return {"inlineData": {"mimeType": kind, "data": data}} if is_image else None


def _format_usage(usage: Usage) -> Record:
    sizes = {"input": usage.context, "output": usage.output, "cached": usage.cache_read, "thoughts": 0, "tool": 0}
    return {**sizes, "total": usage.context + usage.output}
