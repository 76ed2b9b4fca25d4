"""Checks of a summary: each passes on a good one and finds the fault it is for."""

from __future__ import annotations

from typing import Any

import pytest

from context_tui.policies.builtin.defect import SUMMARY_SECTIONS as DEFECT_SECTIONS
from context_tui.summarizer.checks.summary_checks import SummaryCheck, check_summary
from context_tui.summarizer.reply import ReplyUsage

HEAD: list[dict[str, Any]] = [
    {"role": "user", "content": "Fix src/auth.py and /srv/app/config/prod.yaml, see https://x.test/a/b/c.html. " * 20},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "1", "name": "Read", "input": {"deep": [{"file_path": "lib/util.ts"}]}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "README.md"}]}],
    },
]
GOOD = """\
## Goal
- Fix `src/auth.py` (see ./src/auth.py) and/or the config

## Constraints & Preferences
- (none)

## Progress
### Done
- none
### In Progress
- (none)
### Blocked
- (none)

## Key Decisions
- Node.js 18.2 and e.g. read/write access, 50/50, auth.py
- [x] done, [docs](https://other.test/made/up.html?from=made/up.py)

## Next Steps
- README.md, /srv/app/config/prod.yaml, lib/util.ts

## Key Context
- None.

## Relevant Files
- config/prod.yaml
"""


def checked(summary: str = GOOD, **more: Any) -> dict[str, SummaryCheck]:
    more = {"usage": ReplyUsage(10, None, None, 100), "stop_reason": "end_turn", "sections": DEFECT_SECTIONS, **more}
    checks = check_summary(summary, HEAD, more["usage"], more["stop_reason"], more["sections"], more.get("max_tokens"))
    return {entry.name: entry for entry in checks}


def failed(summary: str = GOOD, **more: Any) -> dict[str, str]:
    return {name: entry.detail for name, entry in checked(summary, **more).items() if not entry.ok}


def test_a_good_summary_passes_everything() -> None:
    assert failed() == {}
    assert list(checked()) == [
        "not empty",
        "not cut",
        "sections",
        "no loop",
        "no template text",
        "known paths",
        "smaller",
    ]
    assert failed("Fine.", usage=None, stop_reason="", sections=()) == {}


def test_empty() -> None:
    assert failed(" \n", sections=()) == {"not empty": "no text"}


@pytest.mark.parametrize(
    ("more", "detail"),
    [
        ({"stop_reason": "max_tokens"}, "the model was stopped: max_tokens"),
        ({"stop_reason": "length"}, "the model was stopped: length"),
        ({"max_tokens": 100}, "stopped at the limit of 100 tokens"),
    ],
)
def test_cut(more: dict[str, Any], detail: str) -> None:
    assert failed(**more) == {"not cut": detail}
    assert checked(**more)["not cut"].severity == "error"


def test_a_missing_end_is_a_cut() -> None:
    cut = GOOD.partition("## Relevant")[0]
    assert failed(cut) == {"sections": "missing: Relevant Files", "not cut": "ends before the last section"}


def test_another_form_is_no_cut() -> None:
    """A reply that keeps to none of the headings, or skips one, did not break off."""
    assert set(failed(GOOD.replace("## ", "About "))) == {"sections"}


def test_missing_sections() -> None:
    without = GOOD.replace("## Key Decisions", "Key decisions were:")
    assert failed(without) == {"sections": "missing: Key Decisions"}
    assert failed(GOOD.replace("## Key Decisions", "**key decisions:**")) == {}


def test_loops() -> None:
    assert "3 times: - Write the tests" in failed(GOOD + "- Write the tests\n" * 3)["no loop"]
    assert failed(GOOD + "- Write the tests\n" * 2) == {}
    assert "and then it went on" in failed(GOOD + " and then it went on" * 5)["no loop"]
    assert failed(GOOD + "-" * 80) == {}


@pytest.mark.parametrize(
    "text", ["[Insert the goal here]", "[your summary]", "{{goal}}", "<describe the task>", "</previous-summary>"]
)
def test_template_text(text: str) -> None:
    assert failed(f"{GOOD}- {text}\n") == {"no template text": text}
    said: list[dict[str, Any]] = [*HEAD, {"role": "user", "content": text}]
    assert all(entry.ok for entry in check_summary(f"{GOOD}- {text}\n", said))  # it is what they talk about


@pytest.mark.parametrize(
    "path", ["export/retry.py", "/srv/app/other/x", "tests/test_locks.py", "locks.ts", "~/.config/tool/settings.json"]
)
def test_invented_paths(path: str) -> None:
    assert failed(f"{GOOD}- Changed {path}, twice: `{path}`.\n") == {"known paths": f"not in the conversation: {path}"}
    assert checked(f"{GOOD}- {path}\n")["known paths"].severity == "warning"


def test_larger_than_what_it_stands_for() -> None:
    assert "smaller" in failed(GOOD + "\n".join(f"- fact number {index} of many" for index in range(400)))


def test_hostile_text_takes_no_time() -> None:
    for text in (
        "/" * 50_000,
        "a/" * 30_000,
        "a." * 30_000,
        "[insert " * 10_000,
        "<" * 50_000,
        "x-" * 30_000,
        "\n" * 50_000,
    ):
        check_summary(text, HEAD)
