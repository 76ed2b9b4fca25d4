"""Encoding of request bodies, with suspected secrets masked."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from context_tui.errors import SummarizerError
from context_tui.session.jsontext import try_loads
from context_tui.summarizer.endpoint import APIS, Endpoint
from context_tui.summarizer.request import SummaryRequest, format_json
from context_tui.summarizer.secrets import classify_named_value, find_secrets, mask_text

_IDENTIFIER_KEYS = frozenset({"id", "name", "tool_use_id", "tool_call_id"})
# Below these keys is arbitrary JSON, where ``id`` is a normal key.
_DATA_KEYS = frozenset({"input", "input_schema", "parameters"})
# The values of these keys belong to the enclosing key.
_NAMED_VALUE_KEYS = frozenset({"default", "const", "example", "examples", "enum", "value"})
_SCHEMA_CHOICE_KEYS = frozenset({"anyof", "oneof", "allof", "items"})  # schemas of the enclosing key
_IMAGE_PREFIXES = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "JVBERi0")  # PNG, JPEG, GIF, WebP and PDF in base64
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}+={0,2}")
_MAX_DEPTH = 100  # deeper JSON is masked as text


def mask_body(body: Any) -> tuple[Any, dict[str, int]]:
    """Mask the suspected secrets in a copy of a request body, and return it with the number of secrets of each kind.

    The body is a request in either wire format as JSON data, or a part of one, and stays valid. In texts and values,
    ``[masked KIND]`` replaces a secret. An identifier or key with a secret becomes ``masked_N`` wherever it occurs, so
    that calls, results and tools still match. Strings of JSON remain JSON. Image data is unchanged.
    """
    masker = _Masker()
    return masker.mask_value(body, "", False, 0), dict(masker.counts)


class _Masker:
    """Masker of one body, with the counts of secrets and the renamed identifiers."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._identifiers: dict[str, str] = {}

    def mask_value(self, value: Any, name: str, data: bool, depth: int) -> Any:
        """Return a JSON value with secrets masked; *name* is its key, and *data* is true within inputs and schemas."""
        if isinstance(value, str):
            return self._mask_string(value, name, depth)
        if not isinstance(value, dict | list):
            return value
        if depth > _MAX_DEPTH:
            text = format_json(value)
            masked = self._mask_text(text)
            return value if masked == text else masked
        if isinstance(value, list):
            if name == "required":  # the items are names of properties, and therefore keys
                return [self._mask_identifier(item) if isinstance(item, str) else item for item in value]
            return [self.mask_value(item, name, data, depth + 1) for item in value]
        return {self._mask_identifier(key): self._mask_field(value, key, name, data, depth) for key in value}

    def _mask_field(self, fields: dict[str, Any], key: str, name: str, data: bool, depth: int) -> Any:
        value = fields[key]
        if key in _IDENTIFIER_KEYS and not data and isinstance(value, str):
            return self._mask_identifier(value)
        if (lower := key.lower()) in _NAMED_VALUE_KEYS or lower in _SCHEMA_CHOICE_KEYS:
            # ``{"name": "DB_PASSWORD", "value": "…"}``, or the default of a property named ``password``.
            names = ("name", "key", "Name", "Key", "NAME", "KEY") if lower == "value" else ()
            name_value = next((fields[each] for each in names if fields.get(each)), None)
            key = name_value if isinstance(name_value, str) else name or key
        return self.mask_value(value, key, data or key in _DATA_KEYS, depth + 1)

    def _mask_string(self, text: str, name: str, depth: int) -> str:
        if _is_image(text):
            return text
        if kind := classify_named_value(name, text):
            self.counts[kind] += 1
            return f"[masked {kind}]"
        if text[:1] in ("{", "[") and text[-1:] in ("}", "]") and depth <= _MAX_DEPTH:
            count_before = self.counts.total()
            masked = self.mask_value(try_loads(text), "", True, depth + 1)
            if self.counts.total() > count_before:
                return format_json(masked)
        return self._mask_text(text)  # JSON too: of two fields with one name, the parser returns only the last

    def _mask_text(self, text: str) -> str:
        masked, counts = mask_text(text)
        self.counts.update(counts)
        return masked

    def _mask_identifier(self, text: str) -> str:
        secrets = find_secrets(text)
        if not secrets:
            return text
        self.counts.update(secret.kind for secret in secrets)
        return self._identifiers.setdefault(text, f"masked_{len(self._identifiers) + 1}")


def _is_image(text: str) -> bool:
    data_start = text.find(";base64,", 0, 100) + 8 if text.startswith("data:") else 0
    return text.startswith(_IMAGE_PREFIXES, data_start) and _BASE64.fullmatch(text, data_start) is not None


def build_payload(endpoint: Endpoint, request: SummaryRequest, limit_field: str = "") -> bytes:
    """Encode the body of a call to the exact bytes that are sent.

    Raises SummarizerError if the body is nested too deeply.

    Args:
        endpoint: the endpoint to call; its model's name is not masked.
        limit_field: name of the field for the output limit; by default the first that the API lists.
    """
    body = endpoint.api.build_body(request, limit_field or endpoint.api.limit_fields[0])
    return encode_body({"model": endpoint.model, **(mask_body(body)[0] if request.mask_secrets else body)})


def count_suspected_secrets(kind: str, request: SummaryRequest) -> dict[str, int]:
    """Count the suspected secrets of each kind in the body of a call, whether or not they are masked."""
    return mask_body(APIS[kind].build_body(request, APIS[kind].limit_fields[0]))[1]


def encode_body(body: dict[str, Any]) -> bytes:
    """Encode a body as JSON with lone surrogates as ``?``, raising SummarizerError if it is nested too deeply."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    except RecursionError:
        raise SummarizerError("the history holds JSON nested too deeply to be sent; use the extract instead") from None
