"""From a plan to its summary: which prompt, what is told before sending, and who is asked."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.errors import PlanError, SummarizerError
from context_tui.policies.builtin.agent_sdk import SUMMARY_SECTIONS as SDK_SECTIONS
from context_tui.policies.builtin.defect import SUMMARY_SECTIONS as DEFECT_SECTIONS
from context_tui.policies.planning import plan
from context_tui.session.memory import from_messages
from context_tui.summarizer.extract import EXTRACT_LABEL
from context_tui.summarizer.plan_summary import (
    SUMMARIZER_KINDS,
    choose_summarizer,
    find_blocking_checks,
    format_notice,
    format_secret_counts,
    prepare_summary,
    write_summary,
    write_summary_blocking,
)
from tests.formats.recordings import Recording, text
from tests.tui.fakes import ENVIRONMENT, GOOD, SECRET, Server, messages, planned


@pytest.mark.parametrize(
    ("policy", "params", "sections"),
    [
        ("defect-compact", {"threshold": 8_000}, DEFECT_SECTIONS),
        ("manual", {"cut": 20}, DEFECT_SECTIONS),
        ("agent-sdk-compact", {}, SDK_SECTIONS),
        ("chain", {"defect-compact.threshold": 8_000}, DEFECT_SECTIONS),
        ("chain", {"policies": "agent-sdk-prune,agent-sdk-compact"}, SDK_SECTIONS),
    ],
)
def test_the_prompt_follows_the_policy(policy: str, params: dict[str, object], sections: tuple[str, ...]) -> None:
    _, made = planned(policy, **params)
    request = prepare_summary(made).request
    assert request.sections == sections
    if sections is SDK_SECTIONS:
        assert len(request.messages) == 1
        assert not request.tools
    else:
        assert len(request.messages) == made.messages_dropped + 1


@pytest.mark.parametrize(("policy", "key"), [("agent-sdk-compact", ""), ("chain", "agent-sdk-compact.")])
def test_agent_sdk_bounds_its_summary(policy: str, key: str) -> None:
    params = {f"{key}summary_max_tokens": 99} | ({"policies": "agent-sdk-compact"} if key else {})
    _, made = planned(policy, **params)
    assert prepare_summary(made).request.max_tokens == 99


def test_the_head_is_repaired_for_the_provider() -> None:
    broken = messages()
    del broken[2]  # the first result
    made = plan(from_messages(broken), "defect-compact", threshold=8_000)
    prepared = prepare_summary(made)
    assert any("result" in repair for repair in prepared.repairs)
    assert prepared.head == made.messages_to_summarise


def test_secrets_are_masked_in_what_is_sent_and_in_an_extract() -> None:
    _, made = planned()
    prepared = prepare_summary(made)
    assert prepared.masks_secrets
    assert format_secret_counts(prepared.count_secrets("anthropic")) == "10 AWS key id"
    for kind in ("anthropic", "openai"):
        for masked in (True, False):
            server, given = Server(), prepared.with_masking(masked)
            summarizer = choose_summarizer(made, kind, environ={f"{kind.upper()}_BASE_URL": "http://localhost:9"})
            with suppress(SummarizerError):  # it answers in one format only
                asyncio.run(write_summary(summarizer, given, transport=server))
            assert json.dumps(server.bodies[0]).count(SECRET) == (0 if masked else 10)
            assert (SECRET in json.dumps(given.messages)) == (not masked)
            assert given.count_secrets(kind) == {"AWS key id": 10}
    assert prepared.with_masking(False).with_masking(True).request == prepared.request
    typed = from_messages([{"role": "user", "content": f"my key is {SECRET} " + "words " * 99}, *messages(3)])
    cut = plan(typed, "manual", cut=5)
    assert SECRET not in write_summary_blocking(choose_summarizer(cut), prepare_summary(cut)).text
    assert SECRET in write_summary_blocking(choose_summarizer(cut), prepare_summary(cut, mask_secrets=False)).text


def test_an_extract_is_labelled_and_tells_nothing() -> None:
    _, made = planned()
    prepared = prepare_summary(made)
    summarizer = choose_summarizer(made)
    assert summarizer.label == SUMMARIZER_KINDS[0] == "extract"
    assert format_notice(summarizer, prepared) == []
    summary = write_summary_blocking(summarizer, prepared)
    assert summary.text.startswith(EXTRACT_LABEL)
    assert not summary.model
    assert all(check.ok for check in prepared.check_text(summary.text, summary))


@pytest.mark.parametrize("edited", [False, True])
def test_a_models_summary_is_objected_to_and_an_extract_warned_about(edited: bool) -> None:
    _, made = planned()
    prepared = prepare_summary(made)
    extract = write_summary_blocking(choose_summarizer(made), prepared)
    loop = "- the same line\n" * 5
    found = prepared.check_text(loop, extract, edited=edited)
    assert find_blocking_checks(found) == []
    assert [(each.name, each.severity) for each in found if not each.ok] == [("no loop", "warning")]
    assert [
        each.name
        for each in find_blocking_checks(prepared.check_text(loop, extract._replace(model="m"), edited=edited))
    ] == ["no loop"]


def test_what_would_be_sent_is_told_first() -> None:
    _, made = planned("agent-sdk-compact")
    made.context.facts.model = "own"
    summarizer = choose_summarizer(made, "anthropic", environ=ENVIRONMENT)
    told = format_notice(summarizer, prepare_summary(made, mask_secrets=False))
    assert [line.split(" to ")[-1] for line in told[:1]] == ["asked at localhost:9"]
    assert "own at localhost:9" in told[1]
    assert "NOT masked" in told[2]


def test_the_proxy_is_told_too() -> None:
    _, made = planned()
    environ = {"ANTHROPIC_BASE_URL": "http://far.test", "HTTP_PROXY": "http://bob:hush@proxy.test:3128"}
    told = format_notice(choose_summarizer(made, "anthropic", environ=environ), prepare_summary(made))
    assert told[0].endswith(" at far.test through the proxy proxy.test:3128")
    assert "hush" not in "".join(told)


@pytest.mark.parametrize("model", ["", "<synthetic>", "asked"])
def test_there_is_no_fallback_without_another_model(model: str) -> None:
    _, made = planned("agent-sdk-compact")
    made.context.facts.model = model or None
    assert len(choose_summarizer(made, "anthropic", environ=ENVIRONMENT).endpoints) == 1


def test_the_estimate_is_of_what_is_sent() -> None:
    _, made = planned()
    server = Server()
    prepared = prepare_summary(made)
    asyncio.run(write_summary(choose_summarizer(made, "anthropic", environ=ENVIRONMENT), prepared, transport=server))
    assert prepared.tokens == pytest.approx(len(json.dumps(server.bodies[0])) / 4, rel=0.2)


def test_a_models_summary_is_checked_against_what_was_asked() -> None:
    _, made = planned()
    prepared = prepare_summary(made)
    summary = asyncio.run(
        write_summary(choose_summarizer(made, "anthropic", environ=ENVIRONMENT), prepared, transport=Server())
    )
    assert summary.text == GOOD.strip()
    assert all(check.ok for check in prepared.check_text(summary.text, summary))
    lacking = {check.name for check in prepared.check_text("## Goal\n- src/nowhere.py", summary) if not check.ok}
    assert lacking == {"not cut", "sections", "known paths"}


def test_what_cannot_be_is_said() -> None:
    session, _ = planned()
    with pytest.raises(PlanError, match="nothing to summarise"):
        prepare_summary(plan(session, "defect-microcompact"))
    _, made = planned()
    with pytest.raises(SummarizerError, match="no key"):
        choose_summarizer(made, "openai", environ={})
    with pytest.raises(ct.SummarizerError, match="other"):
        choose_summarizer(made, "other")


def test_an_extract_quotes_nothing_that_the_runtime_put_in(tmp_path: Path) -> None:
    recording = Recording()
    recording.user("Caveat: The messages below were generated by the user while running local commands.", isMeta=True)
    recording.user("<command-name>/model</command-name>")
    recording.user([text("Fix the exporter."), text("<system-reminder>It is late.</system-reminder>")])
    recording.assistant(text("It is fixed. " * 40))
    recording.user("<local-command-stdout>Set model</local-command-stdout>")
    recording.user("Now the importer. " * 20)
    recording.assistant(text("Done. " * 200))
    recording.user("Thanks.")
    session = recording.open(tmp_path)
    made = plan(session, "manual", cut=len(session))
    digest = write_summary_blocking(choose_summarizer(made), prepare_summary(made)).text
    assert "## Goal\n- Fix the exporter.\n" in digest
    assert "### User messages\n- Now the importer." in digest
    assert not any(words in digest for words in ("Caveat", "command", "late"))
    assert "Caveat" in json.dumps(made.messages_to_summarise)  # a model is told all


def test_an_extract_quotes_no_words_of_the_preparation() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    history = [{"role": "user", "content": [image, {"type": "text", "text": "Look. " * 40}]}, *messages(3)]
    made = plan(from_messages(history), "manual", cut=5)
    digest = write_summary_blocking(choose_summarizer(made), prepare_summary(made)).text
    assert "image omitted" in json.dumps(made.messages_to_summarise) and "image omitted" not in digest
    assert "## Goal\n- Look." in digest
