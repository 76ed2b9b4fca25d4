"""Whether a fact survives, both ways, with the words that prove it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context_tui.summarizer.checks.facts import Fact, FactKind, extract_facts, extract_text_pieces
from context_tui.summarizer.checks.survival import FactMatcher

HISTORY: list[dict[str, Any]] = [
    {"type": "text", "text": "Never change the wire format of the exporter. You must run the linter before a commit."},
    {
        "type": "text",
        "text": "See src/app/export.py, lib/init.py and src/init.py. Wait 30 seconds; port 8080; 1,200 rows.",
    },
    {"type": "text", "text": "It is in commit 36ff9a9c2b, below /srv/web/static/img, not in .../deep/pages/main.css"},
    {"type": "tool_use", "id": "c", "name": "Edit", "input": {"new_string": "def run_export(): ..."}},
    {
        "type": "tool_result",
        "tool_use_id": "c",
        "is_error": True,
        "content": "ImportError: cannot import name 'jwt_decode'",
    },
]
FACTS = extract_facts(extract_text_pieces((place, 0, "user", block, False) for place, block in enumerate(HISTORY)))


def fact(text: str) -> Fact:
    (only,) = (each for each in FACTS if text in each.text)
    return only


@pytest.mark.parametrize(
    ("text", "summary", "kept"),
    [
        ("src/app/export.py", "- `src/app/export.py`: has a retry", True),
        ("src/app/export.py", "changed export.py.", True),
        ("src/app/export.py", "changed /home/me/src/app/export.py:12", True),
        ("src/app/export.py", "changed lib/export.py", False),
        ("src/app/export.py", "changed my_export.py and export.pyc", False),
        ("src/app/export.py", "changed the exporter", False),
        ("lib/init.py", "lib/init.py is new", True),
        ("lib/init.py", "init.py is new", False),  # which one?
        ("/srv/web/static/img", "pictures in static/img", True),
        ("/srv/web/static/img", "web/static/img/logo.png is new", True),
        ("/srv/web/static/img", "img/logo.png and an img", False),
        ("/srv/web/static/img", "see https://static/img/", False),
        ("main.css", "- frontend/deep/pages/main.css: blue", True),
        ("run_export", "`run_export()` retries", True),
        ("run_export", "run_exports and Run_Export", False),
        ("30 seconds", "it waits 30s", True),
        ("30 seconds", "it waits 30 sec.", True),
        ("30 seconds", "30 files, 130 seconds, 30.5 s", False),
        ("8080", "listens on 127.0.0.1:8080", False),
        ("8080", "listens on port 8080.", True),
        ("8080", "18080, 8080.5, 80800", False),
        ("1,200 rows", "1200 lines", True),
        ("36ff9a9c2b", "commit 36ff9a9", True),
        ("36ff9a9c2b", "commit 36ff9aa", False),
        ("Never change", "- The wire format of the exporter must not change", True),
        ("Never change", "- exporter: changing its wire format is forbidden", True),
        ("Never change", "- changed the wire format of the exporter", False),
        ("Never change", "- do not change\n- the format\n- the wire", False),
        ("Never change", "- Do not touch the API", False),
        ("must run", "Run the linter before each commit", True),
        ("must run", "The linter is slow.", False),
        ("ImportError", "failed with ImportError: cannot import name 'jwt_decode'", True),
        ("ImportError", "an ImportError of jwt_decode: the import by that name", True),
        ("ImportError", "an import failed", False),
    ],
)
def test_kept_or_lost(text: str, summary: str, kept: bool) -> None:
    found = FactMatcher(f"## Goal\nUpload faster\n\n## Progress\n{summary}\n").match_fact(fact(text))
    assert found.preserved is kept
    if kept:
        assert found.evidence and found.evidence in summary
    else:
        assert found.evidence.startswith(("no ", "a sentence has"))


def test_a_loss_says_what_is_missing() -> None:
    told = FactMatcher("- changed the wire format of the exporter; see other/init.py")
    assert told.match_fact(fact("lib/init.py")).evidence == "no path ends with lib/init.py"
    assert told.match_fact(fact("run_export")).evidence == "no word run_export"
    assert told.match_fact(fact("8080")).evidence == "no number 8080"
    assert told.match_fact(fact("Never change")).evidence == "a sentence has 4 of its 4 words and forbids nothing"
    assert told.match_fact(fact("must run")).evidence == "no sentence has 3 of its 4 words; at most 0"


def test_nothing_survives_in_nothing_and_all_in_the_history_itself() -> None:
    assert not any(FactMatcher("").match_fact(each).preserved for each in FACTS)
    whole = FactMatcher(
        "\n".join(str(block.get("text") or block.get("content") or block.get("input")) for block in HISTORY)
    )
    assert all(whole.match_fact(each).preserved for each in FACTS)
    assert {each.kind for each in FACTS} == set(FactKind)


@settings(max_examples=300)
@given(st.text(alphabet="ab _/.-*\n0123,:%'\"`sS[]()", max_size=80))
@example("0:0.1")
def test_a_text_has_every_fact_that_it_is_the_history_of(text: str) -> None:
    """What is found in a text is also found again in it, and more text around it takes nothing away."""
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": text},
        {"type": "tool_result", "is_error": True, "content": text},
    ]
    facts = extract_facts(extract_text_pieces((place, 0, "user", block, False) for place, block in enumerate(blocks)))
    for summary in (text, f"## Goal\n\n{text}\n\n- more"):
        told = FactMatcher(summary)
        for each in facts:
            assert told.match_fact(each).preserved, (each, summary)
