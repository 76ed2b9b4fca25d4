"""Parts of the README and of ``docs/`` that the program writes: outputs of commands, tables of policies, formats, keys.

Without arguments it reports whether they are up to date; ``--write`` rewrites them between their markers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from textual.binding import Binding  # noqa: E402
from textual.keys import format_key  # noqa: E402

from context_tui.cli.policies import build_parameter_reports  # noqa: E402
from context_tui.formats.registry import FORMATS  # noqa: E402
from context_tui.policies.registry import POLICIES, list_policy_names  # noqa: E402

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_PART = re.compile(r"<!-- (?P<what>run: .*?|keys|policies|formats) -->\n.*?<!-- end -->", re.DOTALL)


def list_parts(text: str) -> list[str]:
    """List the generated parts of a page: ``run: COMMAND``, or the name of a table."""
    return [match["what"] for match in _PART.finditer(text)]


def rewrite_page(text: str) -> str:
    """Replace each generated part of a page by its current text."""
    return _PART.sub(lambda match: f"<!-- {match['what']} -->\n{build_part(match['what'])}\n<!-- end -->", text)


def build_part(command: str) -> str:
    """Build a generated part by its name."""
    tables: dict[str, Callable[[], str]] = {"keys": keys, "policies": policies, "formats": formats}
    return tables[command]() if command in tables else console(command.removeprefix("run: "))


def console(command: str) -> str:
    """Run a command without a terminal, and return it with its output, 80 columns wide."""
    process = run(command, ROOT)
    return f"```console\n$ {command}\n{process.stdout.rstrip()}\n```"


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line with ``context-tui`` in it, run by this interpreter in *folder*; its standard output as text."""
    environment = {name: value for name, value in os.environ.items() if "API_KEY" not in name and "TOKEN" not in name}
    environment |= {"COLUMNS": "80", "PYTHONPATH": str(ROOT), "TZ": "UTC", "PYTHONIOENCODING": "utf-8"}
    shell = f'context-tui() {{ "{sys.executable}" -m context_tui "$@"; }}\n{command}'
    return subprocess.run(
        ["bash", "-c", shell], cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    lines = [list(columns), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def policies() -> str:
    """Each policy and its parameters."""
    tables = []
    for name in list_policy_names():
        policy = POLICIES[name]
        rows = [
            (f"`{p['name']}`", shown(p["default"]), ranged(p["min"], p["max"], p["unit"]), p["about"])
            for p in build_parameter_reports(policy)
        ]
        about = policy.about
        tables.append(f"**`{name}`**: {about}\n\n" + table(("parameter", "default", "range", "meaning"), rows))
    return "\n\n".join(["", *tables, ""]).strip("\n")


def shown(value: object) -> str:
    """A default."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else "" if value in (None, {}) else str(value)


def ranged(low: float | None, high: float | None, unit: str) -> str:
    """A range with its unit."""
    numbers = "" if low is None else f"{low:,} or more" if high is None else f"{low:,} to {high:,}"
    return f"{numbers} {unit}".strip()


def formats() -> str:
    """The formats there are."""
    rows = [(f"`{each.name}`", "yes" if each.writable else "no", each.about) for each in FORMATS.values()]
    return table(("format", "written", "what it is"), rows)


def keys() -> str:
    """The inspector's keys, from its bindings; a key that the session has is not told again for what is in it."""
    from context_tui.tui.inspector.screen import build_bindings as inspector_keys
    from context_tui.tui.inspector.timeline import Timeline
    from context_tui.tui.widgets.parameter_rows import ParameterRows

    rows: dict[str, tuple[str, str]] = {}
    for place, bindings in (
        ("", inspector_keys()),
        ("timeline: ", Timeline.BINDINGS),
        ("parameters: ", ParameterRows.BINDINGS),
    ):
        for binding in bindings:
            if isinstance(binding, Binding) and not (binding.id or "").startswith("policy-"):
                about = binding.tooltip or binding.description
                about = f"{place}{about[0].lower()}{about[1:]}" if place else about
                rows.setdefault(key_names(binding), (about, f"`{binding.id}`"))
    policies = {"`1` to `9`": ("Plan with the policy of this number in the list", "")}
    return table(("key", "what it does", "name"), ((keys, *cells) for keys, cells in (policies | rows).items()))


def key_names(binding: Binding) -> str:
    """The keys of a binding."""
    return ", ".join(f"`{key_name(key)}`" for key in binding.key.split(","))


def key_name(key: str) -> str:
    """A key as it is written on a keyboard."""
    *modifiers, last = key.split("+")
    return "+".join([*modifiers, format_key(last)])


def main(arguments: list[str]) -> int:
    """Check the pages, or rewrite them with ``--write``; returns the exit code."""
    outdated = []
    for page in PAGES:
        text = page.read_text("utf-8")
        new = rewrite_page(text)
        if "--write" in arguments:
            page.write_text(new, "utf-8", newline="\n")
        elif new != text:
            outdated.append(str(page.relative_to(ROOT)))
    if outdated:
        print(f"{', '.join(outdated)}: not what the program says; scripts/readme.py --write", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
