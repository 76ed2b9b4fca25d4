"""What goes over the wire: a request as the body of a call, with its secrets masked, as bytes."""

from __future__ import annotations

import json
from typing import Any

from context_tui.errors import SummarizerError
from context_tui.summarizer.apis import APIS
from context_tui.summarizer.endpoint import Endpoint
from context_tui.summarizer.masking import mask_body
from context_tui.summarizer.request import SummaryRequest


def build_payload(endpoint: Endpoint, request: SummaryRequest, limit_field: str = "") -> bytes:
    """The body of a call, exactly as it is sent; nothing is added to it or changed in it afterwards.

    Args:
        endpoint: who is asked; its model goes out as it is named.
        request: what is asked; ``mask_secrets`` says whether it is masked.
        limit: the API's name for the limit of the reply; its first one by default.

    Raises:
        SummarizerError: something in it is nested too deeply.
    """
    body = endpoint.api.build_body(request, limit_field or endpoint.api.limit_fields[0])
    return encode_body({"model": endpoint.model, **(mask_body(body)[0] if request.mask_secrets else body)})


def count_suspected_secrets(kind: str, request: SummaryRequest) -> dict[str, int]:
    """How many secrets of each kind the body of a call seems to hold: those that are masked, or sent as they are."""
    return mask_body(APIS[kind].build_body(request, APIS[kind].limit_fields[0]))[1]


def encode_body(body: dict[str, Any]) -> bytes:
    """The body as JSON that every server reads: a lone surrogate, which strict parsers refuse, becomes ``?``.

    Raises:
        SummarizerError: something in it is nested too deeply.
    """
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    except RecursionError:
        raise SummarizerError("the history holds JSON nested too deeply to be sent; use the extract instead") from None
