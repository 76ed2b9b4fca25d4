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


def test_docstrings_name_the_parameters_that_there_are() -> None:
    """Entries of Args and Attributes, and *names* in the text, are parameters or attributes of what they describe."""
    stale = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {name}"
        for path in (ROOT / "context_tui").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for name in find_described_names(node) - find_defined_names(node)
    ]
    assert not stale


def find_described_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """Find the names in a docstring: the entries of Args and Attributes, and for a function *names* in the text."""
    text = ast.get_docstring(node) or ""
    sections = re.findall(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
    entries = re.findall(r"^    (\w+(?:, \w+)*): ", "".join(sections), re.MULTILINE)
    names = {name for entry in entries for name in entry.split(", ")}
    return names if isinstance(node, ast.ClassDef) else names | {*re.findall(r"(?<![\w*])\*([a-z]\w*)\*(?!\*)", text)}


def find_defined_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """Find the parameters of a function, or the attributes, properties and parameters of a class."""
    if not isinstance(node, ast.ClassDef):
        return {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    names = set[str]()
    for each in ast.walk(node):
        match each:
            case ast.Attribute(attr=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.Name(id=name):
                names.add(name)
    return names


def is_property(node: ast.AST) -> bool:
    """Return whether a definition is a property."""
    return any("property" in ast.unparse(each) for each in getattr(node, "decorator_list", []))
