"""Nothing goes round the masking of a request, it counts what is sent, and what is left is as valid as before."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.summarizer.endpoint import Endpoint
from context_tui.summarizer.payload import build_payload, count_suspected_secrets, mask_body
from context_tui.summarizer.request import SummaryRequest

from .secret_kinds import ALNUM, HEX, KINDS

TOKEN = "gh" + "p_" + ALNUM[:36]
OTHER = "gh" + "p_" + ALNUM[40:76]
PNG = "iVBORw0KGgo" + "AK" + "IAZZZK2LX9VB4NW8RT" + "AAAA=="
MARK = "[masked GitHub token]"
BOTH: tuple[str, ...] = ("anthropic", "openai")


def request(secret: str = TOKEN, **more: Any) -> SummaryRequest:
    """A request with a secret wherever the recording or the user can put one."""
    call = {"type": "tool_use", "id": secret, "name": secret, "input": {secret: {"a": [secret]}, "id": secret}}
    document = {"type": "document", "title": secret, "source": {"type": "text", "data": secret}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    results = [{"type": "text", "text": secret}, image]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": f"use {secret}"},
        {"role": "assistant", "content": [{"type": "text", "text": secret}, call, {**call, "id": OTHER}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": secret, "content": results},
                {"type": "tool_result", "tool_use_id": OTHER, "content": {secret: secret}},
                document,
                image,
            ],
        },
    ]
    schema = {
        "type": "object",
        "properties": {
            secret: {"type": "string", "description": secret, "default": secret, "enum": [secret]},
            "password": {"type": "string", "default": "hunter"},
        },
        "required": [secret, "password"],
    }
    tools = [{"name": secret, "description": secret, "input_schema": schema}]
    return SummaryRequest(f"system {secret}", messages, tools, 10, **more)


def sent(kind: str, asked: SummaryRequest) -> Any:
    return json.loads(build_payload(Endpoint(kind, "http://x.test", "model"), asked))


@pytest.mark.parametrize("kind", BOTH)
def test_nothing_goes_round_it(kind: str) -> None:
    clear = json.dumps(sent(kind, request()))
    body = sent(kind, request(mask_secrets=True))
    text = json.dumps(body)
    assert TOKEN not in text and OTHER not in text and "hunter" not in text
    assert count_suspected_secrets(kind, request()) == {
        "GitHub token": clear.count(TOKEN) + clear.count(OTHER),
        "password": 1,
    }
    assert count_suspected_secrets(kind, request(mask_secrets=True)) == count_suspected_secrets(kind, request())
    assert body["model"] == "model" and body["stream"] is True and text.count(PNG) == clear.count(PNG) > 0


def test_calls_results_and_tools_still_belong_together() -> None:
    body = sent("anthropic", request(mask_secrets=True))
    first, second = (block for block in body["messages"][1]["content"] if block["type"] == "tool_use")
    results = [block for block in body["messages"][2]["content"] if block["type"] == "tool_result"]
    assert [result["tool_use_id"] for result in results] == [first["id"], second["id"]]
    assert first["id"] != second["id"]
    assert first["name"] == second["name"] == body["tools"][0]["name"] == "masked_1"
    schema = body["tools"][0]["input_schema"]
    assert schema["required"] == list(schema["properties"]) == ["masked_1", "password"]
    assert schema["properties"]["masked_1"] == {"type": "string", "description": MARK, "default": MARK, "enum": [MARK]}
    assert first["input"] == {"masked_1": {"a": [MARK]}, "id": MARK}

    body = sent("openai", request(mask_secrets=True))
    calls = next(message["tool_calls"] for message in body["messages"] if "tool_calls" in message)
    answers = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    assert answers == [call["id"] for call in calls]
    assert {call["function"]["name"] for call in calls} == {body["tools"][0]["function"]["name"]}
    assert json.loads(calls[0]["function"]["arguments"]) == {"masked_1": {"a": [MARK]}, "id": MARK}


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("secret", [secret for _, around, secret in KINDS if around == "{}"])
def test_every_kind_in_every_place(kind: str, secret: str) -> None:
    text = json.dumps(sent(kind, request(secret, mask_secrets=True)))
    assert json.dumps(secret)[1:-1] not in text
    assert secret.translate({ord(character): "_" for character in ".:/$ "}) not in text  # nor made into a name


def test_names_and_values() -> None:
    given = {
        "apiKey": HEX[:32],
        "env": [{"name": "DB_PASSWORD", "value": "hunter"}, {"name": "HOME", "value": "/home/bob"}],
        "auth": "Ym9iOmh1bnRlcjI=",
        "passwords": ["hunter", "string"],
        "max_tokens": "8192",
        "n": 1.5,
        "no": None,
    }
    original = copy.deepcopy(given)
    masked, counts = mask_body(given)
    assert given == original
    assert masked == {
        **given,
        "apiKey": "[masked secret]",
        "env": [{"name": "DB_PASSWORD", "value": "[masked password]"}, {"name": "HOME", "value": "/home/bob"}],
        "auth": "[masked authorization]",
        "passwords": ["[masked password]", "string"],
    }
    assert counts == {"secret": 1, "password": 2, "authorization": 1}
    assert mask_body(masked) == (masked, {})


def test_json_in_strings_stays_json() -> None:
    pem = "-----BEGIN " + 'PRIVATE KEY-----\nMIIE"x\n'  # cut short: it has no end
    inner = json.dumps({"key": pem, "note": "x", "passwd": "hunter"})
    masked, counts = mask_body({"arguments": json.dumps({"text": inner})})
    assert json.loads(json.loads(masked["arguments"])["text"]) == {
        "key": "[masked private key]",
        "note": "x",
        "passwd": "[masked password]",
    }
    assert counts == {"private key": 1, "password": 1}
    twice = f'{{"a": "{TOKEN}", "a": "x"}}'
    assert mask_body(twice) == (f'{{"a": "{MARK}", "a": "x"}}', {"GitHub token": 1})
    assert mask_body('{"a":  1}') == ('{"a":  1}', {})


def test_only_images_are_left_alone() -> None:
    for data in (
        TOKEN,
        f"iVBORw0KGgo {TOKEN}",
        f"data:text/plain,{TOKEN}",
        f"data:image/png;base64,iVBORw0KGgo={TOKEN}",
    ):
        assert TOKEN not in str(mask_body({"source": {"type": "base64", "data": data}, "url": data})[0])
    for data in (PNG, f"data:image/png;base64,{PNG}"):
        assert mask_body({"url": data}) == ({"url": data}, {})


def test_deep_arguments() -> None:
    deep: Any = TOKEN
    for _ in range(800):
        deep = [deep]
    masked, counts = mask_body({"input": {"x": deep}})
    assert counts == {"GitHub token": 1}
    assert TOKEN not in repr(masked)
    plain: Any = "nothing"
    for _ in range(300):
        plain = {"x": plain}
    assert mask_body(plain) == (plain, {})


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from([TOKEN, f"x {OTHER}", "password"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from([TOKEN, "id", "name", "value", "required"]), inner, max_size=3
        )
        | inner.map(json.dumps)
    ),
    max_leaves=8,
)


@given(_JSON)
def test_no_secret_is_left_in_any_json(value: Any) -> None:
    masked, counts = mask_body(value)
    text = json.dumps(masked)
    assert TOKEN not in text and OTHER not in text
    assert (counts == {}) == (masked == value)


@pytest.mark.parametrize(
    "given",
    [
        {"Key": "DB_PASSWORD", "Value": "hunter2Zebra!"},
        {"env": [{"Name": "DB_PASSWORD", "Value": "hunter2Zebra!"}]},
        {"properties": {"password": {"anyOf": [{"const": "hunter2Zebra!"}, {"type": "null"}]}}},
        {"properties": {"passwords": {"type": "array", "items": {"oneOf": [{"enum": ["hunter2Zebra!"]}]}}}},
    ],
)
def test_the_name_of_a_value_may_stand_beside_it_or_above_a_choice(given: Any) -> None:
    masked, counts = mask_body({"input": given})
    assert "hunter2" not in json.dumps(masked) and counts == {"password": 1}
