"""What the guide and the docstrings say of the source is so."""

from __future__ import annotations

import ast
import pkgutil
import re
from pathlib import Path

import context_tui.summarizer

ROOT = Path(__file__).parent.parent


def test_the_table_of_what_is_where_names_what_is_there() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("hard to find by name:")[1].split("\n\n")[1]
    named = re.findall(r"`(\S+\.py)` `(\w+)`", table)
    assert len(named) >= table.count("\n") - 1
    for path, name in named:
        source = (ROOT / "context_tui" / path).read_text()
        assert re.search(rf"^\s*(?:async )?(?:def|class) {name}\b", source, re.MULTILINE), f"{path}: no {name}"


def test_the_summarizers_docstring_names_modules_that_exist() -> None:
    there = {module.name for module in pkgutil.iter_modules(context_tui.summarizer.__path__)}
    assert {*re.findall(r"``(\w+)``", context_tui.summarizer.__doc__ or "")} <= there


def test_docstrings_are_sentences_of_the_field() -> None:
    odd = [
        f"{path.relative_to(ROOT)}:{node.lineno} {text.splitlines()[0]}"
        for path in (ROOT / "context_tui").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (text := ast.get_docstring(node))
        if re.match(r"(What|Who|How|Those|Of|Where) ", text) or (text.startswith("Whether ") and not is_property(node))
    ]
    assert not odd, "begin with a verb (functions) or a noun (classes, properties)"


def is_property(node: ast.AST) -> bool:
    """Return whether a definition is a property."""
    return any("property" in ast.unparse(each) for each in getattr(node, "decorator_list", []))
