"""What the guide and the docstrings say of the source is so."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import context_tui.summarizer

ROOT = Path(__file__).parent.parent


def test_the_table_of_what_is_where_names_what_is_there() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("Where is what:")[1].split("\n\n")[1]
    named = re.findall(r"`(\S+\.py)` `(\w+)`", table)
    assert len(named) >= table.count("\n") - 1
    for path, name in named:
        source = (ROOT / "context_tui" / path).read_text()
        assert re.search(rf"^\s*(?:async )?(?:def|class) {name}\b", source, re.MULTILINE), f"{path}: no {name}"


def test_the_summarizers_docstring_names_modules_that_exist() -> None:
    there = {module.name for module in pkgutil.iter_modules(context_tui.summarizer.__path__)}
    assert {*re.findall(r"``(\w+)``", context_tui.summarizer.__doc__ or "")} <= there
