r"""Detection of secrets in recorded text by their shape, by the name that they are assigned to, or by context.

JSON escapes (``\n`` in a private key, ``\"`` around a password) are resolved first, however often they were escaped.
Text with escape sequences of a terminal is also searched without them, since they may precede or divide a secret.
The search takes linear time: repetitions are bounded, no match begins inside a word, and the pieces searched by
several patterns do not overlap.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from context_tui.text.files import read_toml


class Secret(NamedTuple):
    """A suspected secret: its kind, and its start and end in the text."""

    kind: str
    start: int
    end: int


def find_secrets(text: str) -> list[Secret]:
    """Return the suspected secrets in *text* in order, merging overlaps; of an assignment, only the value is secret."""
    if len(text) < _MIN_TEXT_LENGTH:
        return []
    plain, place = _replace_matches(_ESCAPE, _resolve_escape, text) if "\\" in text else (text, int)
    matches = [*_find_matches(plain)]
    if any(start in plain for start in _SEQUENCE_STARTS):
        for replace in (lambda _: "", lambda _: " "):  # a sequence may divide a secret, or end the word before it
            bare, plain_place = _replace_matches(_TERMINAL_SEQUENCE, replace, plain)
            matches += [(kind, plain_place(start), plain_place(end)) for kind, start, end in _find_matches(bare)]
    secrets: list[Secret] = []
    for kind, start, end in sorted(matches, key=lambda match: (match[1], -match[2], match[0] == "password")):
        if not secrets or start >= secrets[-1].end:
            secrets.append(Secret(kind, start, end))
        elif end > secrets[-1].end:
            secrets[-1] = secrets[-1]._replace(end=end)
    return [Secret(kind, place(start), place(end)) for kind, start, end in secrets]


def mask_text(text: str) -> tuple[str, dict[str, int]]:
    """Return the text with each secret replaced by ``[masked KIND]``, and the number of secrets of each kind."""
    secrets = find_secrets(text)
    if not secrets:
        return text, {}
    parts, end = [], 0
    for secret in secrets:
        parts += [text[end : secret.start], f"[masked {secret.kind}]"]
        end = secret.end
    return "".join([*parts, text[end:]]), dict(Counter(secret.kind for secret in secrets))


def classify_named_value(name: str, value: str) -> str:
    """Return the kind of secret that a value under the key *name* seems to be, or an empty string if it is none."""
    if len(value) < 4 or any(c.isspace() for c in value):
        return ""
    if name.lower() in ("auth", "_auth"):
        return "authorization" if _is_user_and_password(value) else ""
    match = _NAME_END.search(name[-_NAME_LENGTH:].lower())
    kind = _classify_match(match) if match else ""
    return kind if match and _is_plausible(kind, value, is_certain=match[0] != "pwd") else ""


_SecretMatch = tuple[str, int, int]  # kind, start and end
_MIN_TEXT_LENGTH = 8  # characters of the shortest secret with its name or command, such as ``PSK=abcd``
# End of a line, with the prefix of the next one in listings: a file name, a line number, or the sign of a diff.
_LINE_BREAK = r"[ \t]{0,4}\n(?:[\w./-]{1,80}[:-])?[ \t]{0,8}(?:\d{1,6}[:|→\t-]|[+>-])?[ \t]{0,40}"
_TABLE = read_toml("context_tui.summarizer", "secret_shapes.toml")


def _build_alternatives(words: Iterable[str]) -> str:
    """Return a pattern for the longest of the words, which is faster than one that lists them."""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[:1], []).append(word[1:])
    branches = [re.escape(first) + _build_alternatives(rest) for first, rest in rests.items() if first]
    return f"(?:{'|'.join([*branches, ''] if '' in rests else branches)})" if branches else ""


_SPACE = rf"(?:{_LINE_BREAK}|\s{{1,9}})"
_SHAPES = tuple(
    (prefix, kind, re.compile(rest.replace("{SPACE}", _SPACE)))
    for kind, prefixes, rest in _TABLE["prefixes"]
    for prefix in prefixes.split("|")
)
# The shapes that begin with a prefix or a part of it, with the lengths of those parts.
_SHAPES_BY_PREFIX = {
    prefix: [(kind, len(part), rest) for part, kind, rest in _SHAPES if prefix.startswith(part)]
    for prefix, *_ in _SHAPES
}
_FIRST = re.escape("".join(sorted({prefix[0] for prefix in _SHAPES_BY_PREFIX})))
# In a diff, a line may begin with ``-``.
_PREFIX = re.compile(rf"[^A-Za-z0-9_](?=[{_FIRST}])(?<![^\n]-)(?=({_build_alternatives(_SHAPES_BY_PREFIX)}))")
_PATTERNS = tuple((kind, fixed, re.compile(pattern)) for kind, fixed, pattern in _TABLE["patterns"])


def _find_matches(text: str) -> Iterator[_SecretMatch]:
    lower = _lowercase(text)
    yield from _find_shapes(text)
    yield from _find_assigned_values(text, lower)
    if "Secret" in text:
        yield from _find_in_manifests(text)
    yield from _find_in_urls(text)
    yield from _find_in_headers(text, lower)
    yield from _find_in_cookies(text, lower)
    yield from _find_in_commands(text, lower)


def _find_shapes(text: str) -> Iterator[_SecretMatch]:
    """Find what has the shape of a known secret, or stands where a command or a definition has its password."""
    matches: list[tuple[str, re.Match[str], int]] = []  # with the start of the shape
    ends: dict[re.Pattern[str], int] = {}
    for prefix in _PREFIX.finditer("\n" + text):  # as at the start of a line
        start = prefix.start()
        for kind, length, rest in _SHAPES_BY_PREFIX[prefix[1]]:
            if start >= ends.get(rest, 0) and (match := rest.match(text, start + length)):
                ends[rest] = match.end()
                matches.append((kind, match, start))
    for kind, fixed, pattern in _PATTERNS:
        if fixed in text:
            matches += [(kind, match, match.start()) for match in pattern.finditer(text)]
    for kind, match, start in matches:
        value = match.span(1) if match.lastindex else (start, match.end())
        if kind != "password" or not _HARMLESS_VALUE.fullmatch(text, *value):
            yield kind, *value


def _lowercase(text: str) -> str:
    """Convert to lower case without moving any character; searching the result is faster than ignoring case."""
    lower = text.lower()
    return lower if len(lower) == len(text) else re.sub("[A-Z]+", lambda match: match[0].lower(), text)


def _find_positions(word: str, text: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


# -- Escapes

_ESCAPE = re.compile(r"\\(?<!\\\\)\\*+(?:u00([0-9a-fA-F]{2})|([nrt\"'/]))")
_ESCAPED_CHARS = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "/": "/"}
# Control sequences (colours), also as programs and `cat -v` spell them, and other escapes.
_SEQUENCE_STARTS = ("\x1b", "\x9b", "x1b[", "x1B[", "33[", "\\e[", "^[[")
_TERMINAL_SEQUENCE = re.compile(
    r"(?:(?:\x1b|(?<!\\)\\++(?:x1[bB]|0?33|e)|\^\[)\[|\x9b)[0-?]{0,200}+[ -/]{0,20}+[@-~]?|\x1b[ -/]{0,20}+[0-~]?"
)


def _resolve_escape(match: re.Match[str]) -> str:
    return _ESCAPED_CHARS.get(match[2]) or chr(int(match[1], 16))


def _replace_matches(
    pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str
) -> tuple[str, Callable[[int], int]]:
    """Replace all matches; return the text and a function that maps its positions to the original."""

    @cache  # needed only if there are secrets
    def map_places() -> tuple[list[int], list[int]]:
        ends, shifts = [0], [0]  # positions in the new text after each replacement, and the distances to the old ones
        for match in pattern.finditer(text):
            ends.append(match.start() - shifts[-1] + len(replace(match)))
            shifts.append(match.end() - ends[-1])
        return ends, shifts

    def find_place(place: int) -> int:
        ends, shifts = map_places()
        return place + shifts[bisect_right(ends, place) - 1]

    return pattern.sub(replace, text), find_place


# -- Assignments

# Matched in lower case; each name contains one of the words.
_NAME_WORDS = ("pass", "pwd", "psk", "secret", "token", "credential", "key", "_pat", "kennwort", "schlüssel")
_NAME = (
    "(?:(?P<password>passwords?|passwd|pass[_-]?phrase|passworts?|kennworts?|pwd|(?<=[_-])pass|(?<![a-z])psk)"
    "|secrets?(?:[_ -]?(?:access[_ -]?)?keys?)?(?:_base)?|tokens?|credentials?|_pat|(?<=[_-])schlüssel"
    "|(?:(?<=[_-])|(?<=api)|(?<=access)|(?<=api )|(?<=access )|(?<=auth)|(?<=private)"
    "|(?<=encryption)|(?<=signing)|(?<=account)|(?<=master)|(?<=shared)|(?<=primary)"
    "|(?<=secondary)|(?<=subscription)|(?<=secret))keys?"
    "|(?<=secret_)key_base)(?![a-z0-9])"
)
_NAMED = re.compile(_NAME)
_NAME_END = re.compile(rf"{_NAME}\Z")
_NAME_LENGTH = 40
# Also with a type, and before a string of bytes.
_ASSIGNMENT_SIGN = re.compile(
    r"[\"']?\]?[ \t]{0,8}(?:=>|[:?|]{0,2}={1,3}|:(?:[ \t]?[sS]tr(?:ing)?\??[ \t]{1,4}=)?)[ \t]{0,8}(?:b(?=[\"']))?"
)
_VALUE_FIELD = re.compile(rf"[\"']?,?(?:{_LINE_BREAK}|[ \t]{{1,4}})[\"']?[vV]alue[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}")
_NEXT_ARGUMENT = re.compile(r"[\"'][ \t]{0,4},[ \t]{0,4}(?=[\"'])")
_NEXT_WORD = re.compile(r"[ \t]{1,4}(?=\S)")
_DEFINITION = re.compile(
    r"(?:define|[gs]et_?(?:env|var)|environ\.get|setdefault|putenv)\([ \t]?[\"'][\w.-]{0,60}\Z", re.IGNORECASE
)
_SETTING_COMMAND = re.compile(
    r"\b(?:config add-auth|(?:ENV|setenv|setx|SetEnv|(?:config(?:ure)?|variable|secrets?) set(?: --[a-z]{1,12})?)"
    r"[ \t]{1,4}[\w./:-]{0,90})\Z"
)
# ``is`` after a name, in prose; up to five words may stand between them.
_COPULA = re.compile(r"(?:[ \t](?!is\b|ist\b)[^\s.:;,]{1,30}){0,5}[ \t](?:is|ist|lautet|was|war|=)\b[ \t:]{1,3}")
_QUOTED_VALUE = re.compile(r"[\"'`]([^\s\"'`\\]{4,4000}|(?:[a-z]{4} ){3}[a-z]{4})(?=[\"'`])")
# Unquoted. The character set of secrets is smaller than that of passwords, so that values in a run do not overlap.
_BARE_PASSWORD = re.compile(r"([^\s\"'\\,;<>(){}\[\]]{4,200})")
_BARE_SECRET = re.compile(r"([^\s\"'\\,;<>(){}\[\]&=:]{4,4000}(?::[^\s\"'\\,;<>(){}\[\]&=:]{4,500})?={0,2})")
_NEXT_PARAMETER = re.compile(r"&[A-Za-z_]\w{0,30}=")
_XML_VALUE = re.compile(r">([^<>\s]{4,500})</")
_SQL_VALUE = re.compile(r"\s{1,3}'([^'\s]{3,200})'")
_SQL_IDENTIFIED = re.compile(r"(?i:identified (?:with [\w'\"]{1,60} )?by)\s{1,3}'([^'\s]{3,200})'")
_SECRET_MANIFEST = re.compile(r"kind[\"']?: ?[\"']?Secret\b")
_MANIFEST_DATA = re.compile(r"\b(?:data|stringData)[\"']?:[ \t]?\{?")
_MANIFEST_ENTRY = re.compile(
    rf"(?:{_LINE_BREAK}|,?[ \t]?(?=\"))[\"']?[\w.-]{{1,80}}[\"']?:[ \t]{{1,4}}[\"']?([^\s\"'#,}}|>]{{4,4000}})[\"']?,?"
)


def _find_assigned_values(text: str, lower: str) -> Iterator[_SecretMatch]:
    """Find values assigned to the name of a secret: after an assignment sign, in an XML element, or in SQL."""
    end = 0
    for place in sorted(place for word in _NAME_WORDS if word in lower for place in _find_positions(word, lower)):
        if place < end or not (name := _NAMED.match(lower, place)):
            continue
        kind = _classify_match(name)
        sign = _ASSIGNMENT_SIGN.match(text, name.end()) or _VALUE_FIELD.match(text, name.end())
        if not sign and (argument := _NEXT_ARGUMENT.match(text, name.end())):
            sign = argument if _DEFINITION.search(text[max(0, place - 80) : place]) else None
        elif not sign and (word := _NEXT_WORD.match(text, name.end())):
            if copula := _COPULA.match(text, name.end()):
                yield from _find_in_sentences(kind, text, copula.end())
                continue
            sign = word if _SETTING_COMMAND.search(text[max(0, place - 80) : place]) else None
        if sign:
            bare = _BARE_PASSWORD if kind == "password" else _BARE_SECRET
            quoted = _QUOTED_VALUE.match(text, sign.end())
            value = quoted or bare.match(text, sign.end())
            is_literal = (sign[0] == "=" or sign[0][-1:] in " \t") and (
                text[name.start() : name.end()].isupper() or text[place - 2 : place] == "--"
            )
            is_value = (bool(quoted) or is_literal) and name[0] != "pwd"  # more often a directory
        else:
            is_xml = text.startswith(">", name.end())
            pattern = _XML_VALUE if is_xml else _SQL_VALUE if kind == "password" else None
            value, is_value = (pattern.match(text, name.end()) if pattern else None), True
        if not value:
            continue
        start, stop = value.span(1)
        if name[0] == "_pat" and not value[1].isalnum():  # a regular expression
            continue
        if "&" in value[1] and (after := _NEXT_PARAMETER.search(text, start, stop)):  # the next field of a form
            stop = after.start()
        if _is_plausible(kind, text[start:stop], is_certain=is_value):
            yield kind, start, stop
            end = stop
    for place in _find_positions("identified ", lower):
        if (value := _SQL_IDENTIFIED.match(text, place)) and not _HARMLESS_VALUE.fullmatch(value[1]):
            yield "password", *value.span(1)


def _find_in_sentences(kind: str, text: str, place: int) -> Iterator[_SecretMatch]:
    """Find the secret in a sentence such as ``The password is …``; without quotes, it must have a digit or a sign."""
    quoted = _QUOTED_VALUE.match(text, place)
    value = quoted or (_BARE_PASSWORD if kind == "password" else _BARE_SECRET).match(text, place)
    is_word = kind == "password" and not quoted and value and _SAID_WORD.fullmatch(value[1])
    if value and not is_word and _is_plausible(kind, value[1], is_certain=False):
        yield kind, *value.span(1)


def _find_in_manifests(text: str) -> Iterator[_SecretMatch]:
    place = 0  # end of the text searched so far
    for manifest in _SECRET_MANIFEST.finditer(text):
        start = max(text.rfind("---", place, manifest.start()), manifest.start() - 4000, place)
        next_document = text.find("\n---", manifest.end(), manifest.end() + 4000)
        end = next_document if next_document >= 0 else manifest.end() + 4000
        for block in _MANIFEST_DATA.finditer(text, start, end):
            place = max(place, block.end())
            while entry := _MANIFEST_ENTRY.match(text, place):
                place = entry.end()
                if not _HARMLESS_VALUE.fullmatch(entry[1]):
                    yield "secret", *entry.span(1)
        place = max(place, min(end, len(text)))


# -- Addresses, headers and commands

_URL_PASSWORD = re.compile(
    r"://[^\s/:@\"'<>]{0,100}:(?!\d{1,5}[/?#])((?:(?!://)[^\s@\"'<>]){3,200})@(?!sha256:)(?=[A-Za-z0-9\[$])"
)
_URL_TOKEN = re.compile(r"://([A-Za-z0-9_-]{20,200})@")
_AUTH_SCHEME = re.compile(r"(?i:bearer|basic)\s{1,4}([A-Za-z0-9._~+/=-]{8,4000})")
_AUTHORIZATION = re.compile(
    r"(?i:authorization)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:(?i:token|apikey|api-key|key|ssws|splunk|geniekey)[\s=]{1,4})?[\"']?([A-Za-z0-9._~+/-]{16,4000}={0,2})"
)
_REGISTRY_AUTH = re.compile(r"auth[\"']?\s{0,4}[:=]\s{0,4}[\"']?([A-Za-z0-9+/]{8,400}={0,2})")
_COOKIE_HEADER = re.compile(r"cookie(?:[\"']?\s{0,2}:\s{0,2}|(?<=--cookie)[ =])[\"']?")
_COOKIE_OPTION = re.compile(r"\s-b[ =]?[\"']?")
_COOKIE = re.compile(r"\s{0,2}([\w.%-]{1,80})=([^\s;,\"'<>{}]{0,4000}+);?")
_COOKIE_NAME = re.compile("sess|auth|token|sid|jwt|csrf|xsrf|login|remember", re.IGNORECASE)
_USER_OPTION = re.compile(r"-(?<=\s-)(?:[uU]|-user|-proxy-user)[ =]?[\"']?([^\s:\"'$<{]{1,64}):([^\s\"'$<{]{3,100})")
_HTTP_CLIENTS = ("curl", "wget", "http")
_SECRET_OPTION = re.compile(
    r"--(?:[a-z0-9]{1,20}-){0,3}(?:(?P<password>password|passwd|passphrase|pass)|token|secret"
    r"|(?:api|access|account|auth|secret|setup|license|encryption)-?key)"
    r"[ \t]{1,4}[\"']?([^\s\"'<>$,;()]{4,4000})"
)


def _find_in_urls(text: str) -> Iterator[_SecretMatch]:
    if "://" not in text:
        return
    for match in _URL_PASSWORD.finditer(text):
        if not _HARMLESS_VALUE.fullmatch(match[1]) and ("/" not in match[1] or _is_mixed(match[1])):
            yield "password in a URL", *match.span(1)
    for match in _URL_TOKEN.finditer(text):
        if _is_random(match[1]):
            yield "token in a URL", *match.span(1)


def _find_in_headers(text: str, lower: str) -> Iterator[_SecretMatch]:
    for scheme in ("bearer", "basic"):
        for place in _find_positions(scheme, lower):
            match = _AUTH_SCHEME.match(text, place)
            if match and (_is_random(match[1]) or _is_user_and_password(match[1])):
                yield "authorization", *match.span(1)
    for place in _find_positions("auth", lower):
        if (match := _AUTHORIZATION.match(text, place)) and _is_random(match[1]):
            yield "authorization", *match.span(1)
        if (match := _REGISTRY_AUTH.match(lower, place)) and _is_user_and_password(text[slice(*match.span(1))]):
            yield "authorization", *match.span(1)


def _find_in_cookies(text: str, lower: str) -> Iterator[_SecretMatch]:
    headers = (_COOKIE_HEADER.match(lower, place) for place in _find_positions("cookie", lower))
    starts = [match.end() for match in headers if match]
    if "curl" in lower:
        options = _COOKIE_OPTION.finditer(text)
        starts += [match.end() for match in options if "curl" in _read_line_before(text, match.start())]
    end = 0
    for start in sorted(starts):
        if start < end:
            continue
        end = start
        while pair := _COOKIE.match(text, end):
            end = pair.end()
            name, value = pair.groups()
            secret = len(value) >= 8 and _is_mixed(value) and _COOKIE_NAME.search(name)
            if (secret or _is_random(value)) and not _HARMLESS_VALUE.fullmatch(value):
                yield "cookie", *pair.span(2)


def _read_line_before(text: str, place: int) -> str:
    return text[max(0, place - 300) : place].rpartition("\n")[2]


def _find_in_commands(text: str, lower: str) -> Iterator[_SecretMatch]:
    """Find passwords in the options and configuration of commands, where no assignment sign precedes them."""
    if any(caller in lower for caller in _HTTP_CLIENTS):
        for match in _USER_OPTION.finditer(text):
            line_before = _read_line_before(text, match.start() - 1)
            if any(caller in line_before for caller in _HTTP_CLIENTS) and not _HARMLESS_VALUE.fullmatch(match[2]):
                yield "password", *match.span(2)
    if "--" in text:
        for match in _SECRET_OPTION.finditer(text):
            kind, value = _classify_match(match), match[match.lastindex or 0]
            if _is_plausible(kind, value, is_certain=False):
                yield kind, *match.span(match.lastindex or 0)


# -- Plausibility

# Statements about passwords in general: ``base64-encoded``, ``SHA256``, ``config.password``, ``8-character``.
_SAID_WORD = re.compile(
    r"[^\d!@#$%^&*~+?]+[.!?]*|[A-Za-z]*\d*(?:-[a-z]+)+[.!?]?|[A-Z]{2,}-?\d+[.!?]?|[\w-]+(?:\.[\w-]+)+|\d+[a-z]*[.!?]?"
)
_MIN_SECRET_LENGTH = 16  # characters of a secret identified by its name alone

_HARMLESS_VALUE = re.compile(
    r"[\W_]+|[*x.•]+|(?:none|null|true|false|undefined|required|optional|string|str|bytes|password|redacted|hidden)"
    r"|[$%\[].*|[/~][\w.@+/-]*|.*(?:os\.environ|process\.env|getenv|\$\{).*|<.*|\{.*|your[_-].*|[^\x20-\x7e]+",
    re.IGNORECASE,
)


def _classify_match(match: re.Match[str]) -> str:
    return "password" if match["password"] else "secret"


def _is_plausible(kind: str, value: str, *, is_certain: bool) -> bool:
    """Return whether an assigned value may be a secret, unlike the types, calls or counts often found after ``token:``.

    A password may be any word if it is *is_certain* to be a value and not code.
    """
    if len(value) < 4 or value.startswith("[masked") or _HARMLESS_VALUE.fullmatch(value):
        return False
    if kind == "password":
        return is_certain or (len(value) >= 6 and _is_mixed(value))
    return _is_random(value)


def _is_mixed(value: str) -> bool:
    return not value.isalpha() and not value.isdecimal() and not re.fullmatch(r"[\w.]+\.[A-Za-z_]+", value)


def _is_random(value: str) -> bool:
    """Return whether a value looks random: long, mixed, and with at least 3 bits of entropy per character."""
    if len(value) < _MIN_SECRET_LENGTH or len(set(value)) < 8:
        return False
    if not re.search(r"[0-9]", value) or not re.search(r"[A-Za-z]", value):
        return False
    if re.fullmatch(r"[A-Za-z_.]+[0-9]{0,2}", value):  # a name with a number
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= 3.0


def _is_user_and_password(value: str) -> bool:
    """Return whether a value is base64 of ``user:password``, as in HTTP basic authentication."""
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return data.isascii() and data.decode("ascii", "replace").isprintable() and 0 < data.find(b":") < len(data) - 1
