"""The places of a source file that cosmic-ray's operators can mutate, and the source with one of them mutated."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.operators.provider import OperatorProvider

FOLDERS = (
    *("context_tui/policies", "context_tui/compaction", "context_tui/lab/replay", "context_tui/lab/price"),
    *("context_tui/lab/regret", "context_tui/tokens", "context_tui/session"),
)
SKIPPED = re.compile(r"_(Eq_Is|Is_Eq|NotEq_IsNot|IsNot_NotEq)$|^Variable|^RemoveDecorator$")
"""Operators that mostly make equivalent mutants: equal enum members, interned texts and small numbers are identical.

Those of variables need names. A decorator that is removed fails at once, or only a cache is gone.
"""
NODES = {"ReplaceBinaryOperator": "operator", "ReplaceComparisonOperator": "comparison"}
"""Types of the nodes that the many operators of one kind look at."""
PUNCTUATION = {*"()[]{},:.=;@", "->", ":="}


@dataclass(frozen=True)
class Mutant:
    """One mutation: the number of the node in the tree of the file, the operator, and which of its mutations."""

    path: str
    line: int
    node: int
    operator: str
    index: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.operator}"


def load_operators() -> dict[str, Any]:
    """Return cosmic-ray's operators by name, except the skipped ones."""
    provider = OperatorProvider()
    return {name: provider[name]() for name in provider if not SKIPPED.search(name)}


def find_mutants(root: Path, folders: tuple[str, ...] = FOLDERS) -> dict[tuple[str, Any], list[Mutant]]:
    """Return the mutants of every place: a path, and a start and an end in the file."""
    operators = load_operators()
    places = defaultdict(list)
    for file in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        path, text = str(file.relative_to(root)), file.read_text("utf-8")
        annotations = _find_annotations(text)
        for number, node in enumerate(ast_nodes(parso.parse(text))):
            if node.type in ("name", "string", "newline", "endmarker") or getattr(node, "value", "") in PUNCTUATION:
                continue
            for name, operator in operators.items():
                if NODES.get(name.partition("_")[0], node.type) != node.type:
                    continue
                for index, place in enumerate(operator.mutation_positions(node)):
                    # The tool cannot replace an exception of another module among several.
                    if name.endswith("ExceptionReplacer") and "." in _slice_line(text, *place):
                        continue
                    if not any(start <= place[0] < end for start, end in annotations):
                        places[path, place].append(Mutant(path, place[0][0], number, name, index))
    return dict(places)


def _slice_line(text: str, start: tuple[int, int], end: tuple[int, int]) -> str:
    return text.splitlines()[start[0] - 1][start[1] : end[1]]


def sample(root: Path, places: dict[tuple[str, Any], list[Mutant]], count: int, seed: int) -> list[Mutant]:
    """Return one mutant at each of *count* places, all drawn by *seed*.

    A place is drawn by its line, so that a change of other lines draws the others again.
    """
    texts = {path: (root / path).read_text("utf-8").splitlines() for path, _ in places}
    earlier = Counter[tuple[str, str, int]]()
    drawn: list[tuple[int, Mutant]] = []
    for path, (start, end) in sorted(places):
        line = texts[path][start[0] - 1].strip(), start[1]
        earlier[path, *line] += 1
        name = f"{seed} {path} {line} {end[1]} {earlier[path, *line]}"
        draw = int.from_bytes(sha256(name.encode()).digest())
        mutants = places[path, (start, end)]
        drawn.append((draw, mutants[draw % len(mutants)]))
    return [mutant for _, mutant in sorted(drawn, key=itemgetter(0))[:count]]


def mutate(text: str, mutant: Mutant) -> str:
    """Return the source *text* with the mutation."""
    tree = parso.parse(text)
    node = next(node for number, node in enumerate(ast_nodes(tree)) if number == mutant.node)
    siblings = node.parent.children
    position = next(number for number, sibling in enumerate(siblings) if sibling is node)
    mutation = load_operators()[mutant.operator].mutate(node, mutant.index)
    siblings[position : position + 1] = [] if mutation is None else [mutation]
    return str(tree.get_code())


def describe(text: str, mutation: str) -> tuple[str, str]:
    """Return the line that differs, before and after."""
    before, after = text.splitlines(), mutation.splitlines()
    first = next(number for number, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    return before[first].strip(), "" if len(after) < len(before) else after[first].strip()


def find_function_span(text: str, line: int) -> tuple[int, int] | None:
    """Return the first and the last line of the body of the outermost function around *line*, or None."""
    nodes: list[ast.AST] = [ast.parse(text)]
    while nodes:
        for child in ast.iter_child_nodes(nodes.pop()):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                if child.body[0].lineno <= line <= (child.end_lineno or 0):
                    return child.body[0].lineno, child.end_lineno or 0
            elif isinstance(child, ast.ClassDef | ast.If):
                nodes.append(child)
    return None


def _find_annotations(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the spans of annotations and of the imports for them, which nothing evaluates, and of decorators.

    A decorator says how an object is stored or an answer is cached. The ``strict`` of a ``zip`` is a check of lengths
    that are equal unless there is a defect elsewhere.
    """
    spans: list[ast.expr | ast.stmt | None] = []
    for node in ast.walk(ast.parse(text)):
        spans += [getattr(node, "annotation", None), getattr(node, "returns", None)]
        spans += getattr(node, "decorator_list", [])
        spans += [node.value] if isinstance(node, ast.keyword) and node.arg == "strict" else []
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            spans.append(node)
    return [
        ((span.lineno, span.col_offset), (span.end_lineno or 0, span.end_col_offset or 0))
        for span in spans
        if span is not None
    ]
