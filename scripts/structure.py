"""The structure of the package, read from its imports: counts, circles, and the picture in ``docs/architecture.svg``.

``python scripts/structure.py`` prints the counts and exits with 1 where the structure breaks a rule: an import circle
between modules or between siblings of a folder, more than two loose modules or sixteen folders at the root.
``--write`` draws the picture. Imports inside functions count; those for type checkers alone do not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "context_tui"
PICTURE = ROOT / "docs" / "architecture.svg"

ENTRANCES = {"__init__", "__main__", "errors"}
"""Modules at the root that every package has; others there are loose."""
MOST_LOOSE, MOST_FOLDERS = 2, 16
SMALL = 70
"""Lines up to which a module counts as small."""

Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Structure:
    """Modules of a package by dotted name, below the package: their syntax trees, lines and imports of each other."""

    trees: Mapping[str, ast.Module]
    lines: Mapping[str, int]
    folders: frozenset[str]

    @classmethod
    def read(cls, package: Path) -> Structure:
        """Parse every module below a folder."""
        trees, lines = {}, {}
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package).with_suffix("").parts
            text = path.read_text("utf-8")
            name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
            trees[name], lines[name] = ast.parse(text), len(text.splitlines())
        folders = {".".join(path.relative_to(package).parts) for path in package.rglob("*") if list(path.glob("*.py"))}
        return cls(trees, lines, frozenset(folders - {""}))

    @cached_property
    def imports(self) -> Graph:
        """By module, the modules that it imports."""
        return {name: set(self._imports_of(name)) for name in self.trees}

    def _imports_of(self, name: str) -> Iterator[str]:
        for node in _runtime_nodes(self.trees[name]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
                base = (node.module or "").partition(".")[2]
                for alias in node.names:
                    full = f"{base}.{alias.name}" if base else alias.name
                    target = full if full in self.trees else base or "__init__"
                    if target != name:
                        yield target

    def siblings(self, folder: str) -> Graph:
        """The children of a folder, modules and folders as one each, and which imports which."""
        depth = folder.count(".") + 1 if folder else 0
        graph: dict[str, set[str]] = {}
        for name, targets in self.imports.items():
            child = _child(name, folder, depth)
            if child:
                children = {_child(target, folder, depth) for target in targets}
                graph.setdefault(child, set()).update(children - {"", child})
        return graph

    @property
    def functions(self) -> int:
        """Functions and methods."""
        return sum(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for tree in self.trees.values()
            for node in ast.walk(tree)
        )


def _child(name: str, folder: str, depth: int) -> str:
    """Return the child of *folder* that a module is or is in; empty where it is in none."""
    if folder and not name.startswith(f"{folder}."):
        return ""
    return name.split(".")[depth]


def _runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """List the nodes of a tree, without what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _runtime_nodes(node)


def find_circle(graph: Graph) -> list[str]:
    """Return one circle of a graph; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def find_faults(structure: Structure) -> list[str]:
    """List the rules that a structure breaks."""
    faults = []
    if circle := find_circle(structure.imports):
        faults.append(f"modules in a circle: {' → '.join(circle)}")
    for folder in ("", *sorted(structure.folders)):
        if circle := find_circle(structure.siblings(folder)):
            faults.append(f"children of {folder or PACKAGE} in a circle: {' → '.join(circle)}")
    if len(loose := loose_modules(structure)) > MOST_LOOSE:
        faults.append(f"more than {MOST_LOOSE} loose modules at the root: {', '.join(loose)}")
    if len(folders := root_folders(structure)) > MOST_FOLDERS:
        faults.append(f"more than {MOST_FOLDERS} folders at the root: {len(folders)}")
    return faults


def loose_modules(structure: Structure) -> list[str]:
    """List the modules right at the root, but those that every package has."""
    return [name for name in structure.trees if "." not in name and name not in structure.folders | ENTRANCES]


def root_folders(structure: Structure) -> list[str]:
    """List the folders right at the root."""
    return sorted(folder for folder in structure.folders if "." not in folder)


def format_counts(structure: Structure) -> str:
    """Return the counts of a structure, one on a line."""
    rooms = {room: targets for room, targets in structure.siblings("").items() if room not in ENTRANCES}
    small = sum(lines <= SMALL for lines in structure.lines.values())
    rows = {
        "modules": len(structure.trees),
        f"of {SMALL} lines or fewer": small,
        "functions": structure.functions,
        "lines": sum(structure.lines.values()),
        "folders at the root": len(root_folders(structure)),
        "loose modules there": len(loose_modules(structure)),
        "floors": max(_floors(rooms).values(), default=0) if not find_circle(rooms) else 0,
        "arrows between rooms": sum(len(targets & rooms.keys()) for targets in rooms.values()),
    }
    return "\n".join(f"{name:<24}{count:>7,}" for name, count in rows.items())


def _floors(graph: Graph) -> dict[str, int]:
    """Return by room its floor: one above the highest that it imports, from 1."""
    floors: dict[str, int] = {}
    for room in TopologicalSorter(graph).static_order():
        floors[room] = 1 + max((floors[target] for target in graph.get(room, ())), default=0)
    return floors


def _direct(graph: Graph) -> dict[str, set[str]]:
    """Return the arrows that no longer way implies."""
    reach: dict[str, set[str]] = {}
    for room in TopologicalSorter(graph).static_order():
        targets = graph.get(room, set())
        reach[room] = targets.union(*(reach[each] for each in targets))
    return {
        room: {each for each in targets if not any(each in reach[other] for other in targets - {each})}
        for room, targets in graph.items()
    }


WIDTH, HEIGHT, GAP, FLOOR, MARGIN = 190, 58, 34, 108, 24


def draw(structure: Structure) -> str:
    """Return the picture of the rooms as SVG: each above what it imports, arrows where no longer way implies them."""
    rooms = {
        room: {each for each in targets if each not in ENTRANCES}
        for room, targets in structure.siblings("").items()
        if room not in ENTRANCES
    }
    floors = _floors(rooms)
    by_floor = [
        [room for room in sorted(rooms) if floors[room] == floor] for floor in range(max(floors.values()), 0, -1)
    ]
    width = max(len(row) for row in by_floor) * (WIDTH + GAP) - GAP + 2 * MARGIN
    places: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(by_floor):
        free = width - len(row) * (WIDTH + GAP) + GAP
        for index, room in enumerate(row):
            places[room] = free / 2 + index * (WIDTH + GAP), MARGIN + number * FLOOR
    height = MARGIN * 2 + (len(by_floor) - 1) * FLOOR + HEIGHT
    shapes = [*_arrows(_direct(rooms), places), *_boxes(structure, rooms, places)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="sans-serif">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#7a8599"/></marker></defs>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def _arrows(graph: Graph, places: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    for room, targets in sorted(graph.items()):
        for target in sorted(targets):
            (x1, y1), (x2, y2) = places[room], places[target]
            start, end = (x1 + WIDTH / 2, y1 + HEIGHT), (x2 + WIDTH / 2, y2)
            bend = (end[1] - start[1]) / 2
            path = f"M{start[0]:g},{start[1]:g} C{start[0]:g},{start[1] + bend:g} {end[0]:g},{end[1] - bend:g} "
            yield (
                f'<path d="{path}{end[0]:g},{end[1] - 1:g}" fill="none" stroke="#7a8599" stroke-width="1.3" '
                'marker-end="url(#head)"/>'
            )


def _boxes(structure: Structure, rooms: Iterable[str], places: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    for room in sorted(rooms):
        x, y = places[room]
        children = sorted({name.split(".")[1] for name in structure.folders if name.startswith(f"{room}.")})
        lines = sum(count for name, count in structure.lines.items() if name.split(".")[0] == room)
        caption = " · ".join(children) if len(" · ".join(children)) <= 20 else f"{len(children)} folders"
        yield (
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="7" fill="#eef3fb" stroke="#35507a"/>'
            f'<text x="{x + WIDTH / 2:g}" y="{y + 24:g}" text-anchor="middle" font-size="16" font-weight="bold" '
            f'fill="#17233a">{escape(room)}/</text>'
            f'<text x="{x + WIDTH / 2:g}" y="{y + 44:g}" text-anchor="middle" font-size="11" fill="#44546e">'
            f"{escape(caption)}{' · ' if caption else ''}{round(lines, -2) / 1000:.1f}k lines</text>"
        )


def main(arguments: list[str]) -> int:
    """Print the counts and what breaks a rule; with ``--write`` draw the picture. Returns the exit code."""
    structure = Structure.read(ROOT / PACKAGE)
    faults = find_faults(structure)
    print(format_counts(structure))
    print("\n".join(faults) or "no circle, no rule broken")
    if "--write" in arguments and not faults:
        PICTURE.write_text(draw(structure), "utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
