"""Nearly all secrets are masked, in every context, and nothing in real text; hostile text costs linear time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from context_tui.summarizer.secrets import find_secrets

from .masking_table import CONTEXTS, VALUES, build_cases, is_masked

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_nearly_all_are_masked(seed: int) -> None:
    cases = list(build_cases(seed))
    kinds = {case.kind for case in cases}
    assert len(kinds) >= 200 and len(CONTEXTS) == 9 and len(cases) == len(kinds) * 9 * VALUES
    missed = Counter(case.kind for case in cases if not is_masked(case))
    assert missed.total() <= 0.03 * len(cases), missed
    assert all(count < 9 * VALUES for count in missed.values()), missed  # no kind is missed everywhere


def _read_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _read_strings(each)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recordings here")
def test_real_text_is_left_alone() -> None:
    length, false = 0, set()
    for path in sorted(CORPUS.rglob("*.json*")):
        text = path.read_text("utf-8", "replace")
        strings: set[str] = set()
        for part in text.splitlines() if path.suffix == ".jsonl" else [text]:
            with suppress(ValueError):
                strings.update(_read_strings(json.loads(part)))
        length += sum(map(len, strings))
        for each in strings:
            false |= {(secret.kind, each[max(0, secret.start - 40) : secret.end]) for secret in find_secrets(each)}
    assert length > 10_000_000
    assert len(false) <= 5 * length / 20_000_000, false
