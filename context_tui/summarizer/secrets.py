"""Secrets in recorded text: found by their well-known shapes, or by the name they are assigned to.

Every pattern takes linear time: repetitions are bounded, and as no match begins inside a word, a long run of word
characters is not looked at from each of its positions.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from context_tui.summarizer.request import Message, json_text


def _shape(kind: str, start: str, rest: str) -> tuple[str, re.Pattern[str]]:
    """A pattern that begins with literal text, which is searched for fast, and not inside a longer word."""
    return kind, re.compile(rf"{start}(?<![A-Za-z0-9_-]{start}){rest}")


_SHAPES = (
    _shape(
        "private key",
        "-----BEGIN ",
        r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,20000}"
        r"(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    _shape("Anthropic key", "sk-ant-", r"[A-Za-z0-9_-]{20,300}"),
    _shape("OpenAI key", "sk-", r"(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{20,300}"),
    _shape("OpenAI key", "sk-", r"[A-Za-z0-9]{20,200}(?![A-Za-z0-9-])"),
    _shape("GitHub token", "gh", r"[pousr]_[A-Za-z0-9]{36,255}"),
    _shape("GitHub token", "github_pat_", r"[A-Za-z0-9_]{22,255}"),
    _shape("GitLab token", "glpat-", r"[A-Za-z0-9_-]{20,64}"),
    _shape("AWS key id", "A", r"(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("Slack token", "xox", r"[abeoprs]-[A-Za-z0-9-]{10,250}"),
    _shape("Slack webhook", r"https://hooks\.slack\.com/services/", r"[A-Za-z0-9/_-]{20,100}"),
    _shape("Google key", "AIza", r"[A-Za-z0-9_-]{35}"),
    _shape("Google key", r"ya29\.", r"[A-Za-z0-9_-]{20,300}"),
    _shape("Stripe key", "sk_", r"(?:live|test)_[A-Za-z0-9]{16,250}"),
    _shape("Stripe key", "rk_", r"(?:live|test)_[A-Za-z0-9]{16,250}"),
    _shape("npm token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _shape("JWT", "eyJ", r"[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{5,8000}\.[A-Za-z0-9_-]{10,2000}"),
)

_URL = re.compile(r"://[^\s/:@\"'<>]{0,100}:([^\s/@\"'<>]{3,200})@")
_AUTHORIZED = re.compile(r"[Bb](?i:earer|asic)\s{1,4}([A-Za-z0-9._~+/=-]{16,4000})")
_PASSWORD = r"passwords?|passwd|passphrase|pwd"
_SECRET = (
    r"secrets?|secret[_-]?(?:access[_-]?)?key|tokens?|credentials?|(?:api|access|auth|private|encryption)[_-]?keys?"
    r"|[_-]keys?"
)
# An assignment is looked at from its sign, of which there are few: the name before it, then the value behind.
_SIGN = re.compile(r":=|=>|[:=]")
_BEFORE = re.compile(
    rf"(?:(?P<password>{_PASSWORD})|{_SECRET})(?![A-Za-z0-9])\\?[\"']?\]?[ \t]{{0,8}}\Z", re.IGNORECASE
)
_VALUE = re.compile(
    r"[ \t]{0,8}(?:\\?[\"'](?P<quoted>[^\s\"'\\]{4,500})(?=\\?[\"'])|(?P<bare>[^\s\"'\\,;<>(){}\[\]]{4,500}))"
)
_NAMED = re.compile(rf".{{0,60}}?(?:(?P<password>{_PASSWORD})|{_SECRET})", re.IGNORECASE)
_HARMLESS = re.compile(
    r"[*x.•]+|(?:none|null|true|false|undefined|required|optional|string|str|bytes|password|redacted|hidden)"
    r"|[$%\[/~].*|.*(?:os\.environ|process\.env|getenv|\$\{).*",
    re.IGNORECASE,
)
_STRUCTURE = frozenset({"type", "id", "tool_use_id", "name", "signature", "source"})
_NAME_LENGTH = 40  # of a name, its quotes and the spaces before the sign
_DEPTH = 40  # deeper than this, JSON is masked as the text that it is


class Secret(NamedTuple):
    """Something that looks like a secret: its kind, where it stands, and what may be shown of it."""

    kind: str
    start: int
    end: int
    preview: str


def find(text: str) -> list[Secret]:
    """What looks like a secret in *text*, in order, without overlaps. Of assignments, only the value."""
    found = [(kind, *match.span()) for kind, pattern in _SHAPES for match in pattern.finditer(text)]
    found += [("password in a URL", *m.span(1)) for m in _URL.finditer(text) if not _HARMLESS.fullmatch(m.group(1))]
    found += [("authorization", *m.span(1)) for m in _AUTHORIZED.finditer(text) if _random(m.group(1))]
    found += _assigned(text)
    secrets: list[Secret] = []
    for kind, start, end in sorted(found, key=lambda entry: (entry[1], -entry[2])):
        if not secrets or start >= secrets[-1].end:
            secrets.append(Secret(kind, start, end, _preview(text[start:end])))
    return secrets


def _assigned(text: str) -> Iterator[tuple[str, int, int]]:
    """Kind, start and end of each value that is assigned to the name of a secret."""
    for sign in _SIGN.finditer(text):
        name = _BEFORE.search(text, max(0, sign.start() - _NAME_LENGTH), sign.start())
        if name and (value := _VALUE.match(text, sign.end())):
            kind, group = _kind(name), "quoted" if value["quoted"] else "bare"
            if _plausible(kind, value[group], quoted=group == "quoted"):
                yield kind, *value.span(group)


def mask(messages: list[Message]) -> tuple[list[Message], dict[str, int]]:
    """The messages with ``[masked KIND]`` for each secret, and how many of each kind there were.

    Texts, tool arguments and results are masked at any depth; ids, names, signatures, image data and the structure
    stay. What has no secret is the same object as before.
    """
    counts: Counter[str] = Counter()
    return [_masked_block(message, counts) for message in messages], dict(counts)


def mask_text(text: str) -> tuple[str, dict[str, int]]:
    """The text with ``[masked KIND]`` for each secret, and how many of each kind there were."""
    counts: Counter[str] = Counter()
    return _masked_text(text, counts), dict(counts)


def _masked_block(block: dict[str, Any], counts: Counter[str]) -> dict[str, Any]:
    """A message or block: its own fields are structure or text, only arguments and results are JSON of any shape."""
    new = {}
    for key, value in block.items():
        if key in _STRUCTURE or key == "role":
            new[key] = value
        elif key == "content" and isinstance(value, list) and all(isinstance(b, dict) and "type" in b for b in value):
            new[key] = _same_if_equal([_masked_block(part, counts) for part in value], value)
        else:
            new[key] = _masked_json(value, "", counts, 0)
    return new if any(new[key] is not block[key] for key in block) else block


def _masked_json(value: Any, key: str, counts: Counter[str], depth: int) -> Any:
    """Any JSON; *key* is the name that it has in its object."""
    if isinstance(value, dict | list) and depth > _DEPTH:
        return _masked_text(json_text(value), counts)
    if isinstance(value, dict):
        new = {k: _masked_json(v, k if isinstance(k, str) else "", counts, depth + 1) for k, v in value.items()}
        return new if any(new[k] is not value[k] for k in value) else value
    if isinstance(value, list):
        return _same_if_equal([_masked_json(item, key, counts, depth + 1) for item in value], value)
    if not isinstance(value, str):
        return value
    name = _NAMED.fullmatch(key)
    if name and len(value) >= 4 and not any(c.isspace() for c in value) and _plausible(_kind(name), value, quoted=True):
        counts[_kind(name)] += 1
        return f"[masked {_kind(name)}]"
    return _masked_text(value, counts)


def _same_if_equal(new: list[Any], old: list[Any]) -> list[Any]:
    return new if any(a is not b for a, b in zip(new, old, strict=True)) else old


def _masked_text(text: str, counts: Counter[str]) -> str:
    secrets = find(text)
    if not secrets:
        return text
    parts, end = [], 0
    for secret in secrets:
        parts += [text[end : secret.start], f"[masked {secret.kind}]"]
        end = secret.end
        counts[secret.kind] += 1
    return "".join([*parts, text[end:]])


def _kind(match: re.Match[str]) -> str:
    return "password" if match["password"] else "secret"


def _plausible(kind: str, value: str, *, quoted: bool) -> bool:
    """Whether an assigned value is one: most things after ``token:`` are types, calls and counts."""
    if _HARMLESS.fullmatch(value) or value.startswith("[masked"):
        return False
    if kind == "password":
        return quoted or (len(value) >= 6 and _mixed(value))
    return _random(value)


def _mixed(value: str) -> bool:
    return not value.isalpha() and not value.isdecimal() and not re.fullmatch(r"[\w.]+\.[A-Za-z_]+", value)


def _random(value: str) -> bool:
    """Long, of several kinds of characters, and without much repetition: 3 bits of entropy a character and more."""
    if len(value) < 16 or not re.search(r"[0-9]", value) or not re.search(r"[A-Za-z]", value):
        return False
    if re.fullmatch(r"[A-Za-z_.]+[0-9]{0,2}", value):  # a name with a number
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= 3.0


def _preview(value: str) -> str:
    return f"{value[:4] if len(value) >= 20 else ''}… ({len(value)} characters)"
