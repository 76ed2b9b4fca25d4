"""What newer versions of Python have changed or removed is not used, as far as their release notes say.

Python 3.14 refuses ``?1`` with a sequence in ``sqlite3``, warns of jumps out of ``finally``, evaluates annotations late
unless a module says ``from __future__ import annotations``, and has removed or deprecated the names below.
"""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("context_tui", "scripts", "benchmarks", "tests") for path in (ROOT / folder).rglob("*.py")]
SQL = re.compile(r"(?:SELECT|INSERT|UPDATE|DELETE|CASE)\b.*?[ (]\?(?:\d|\{)", re.DOTALL)
REMOVED = {
    *("asyncio.get_child_watcher", "asyncio.set_child_watcher", "asyncio.SafeChildWatcher", "pkgutil.find_loader"),
    *("pkgutil.get_loader", "pkgutil.ImpImporter", "sqlite3.version", "sqlite3.version_info", "pty.master_open"),
    *(
        "ast.Num",
        "ast.Str",
        "ast.Bytes",
        "ast.NameConstant",
        "ast.Ellipsis",
        "urllib.parse.Quoter",
        "locale.resetlocale",
    ),
    *("datetime.utcnow", "datetime.utcfromtimestamp", "datetime.datetime.utcnow", "datetime.datetime.utcfromtimestamp"),
    *("asyncio.iscoroutinefunction", "asyncio.get_event_loop_policy", "asyncio.set_event_loop_policy", "codecs.open"),
    *("importlib.abc.ResourceReader", "importlib.abc.Traversable"),
}
MODULES = {
    *"aifc audioop cgi cgitb chunk crypt imghdr mailcap msilib nis nntplib ossaudiodev pipes sndhdr spwd".split(),
    *"sunau telnetlib uu xdrlib lib2to3 asynchat asyncore smtpd imp distutils".split(),
}


def parse(path: Path) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of the syntax, such as wrong escapes
        return ast.parse(path.read_text("utf-8"), str(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_that_is_removed(path: Path) -> None:
    module = parse(path)
    has_annotations = any(
        getattr(node, "annotation", None) or getattr(node, "returns", None) for node in ast.walk(module)
    )
    assert not has_annotations or "from __future__ import annotations" in path.read_text("utf-8"), path
    for node in ast.walk(module):
        place = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and path != Path(__file__):
            assert not SQL.match(node.value.strip()), f"{place}: numbered placeholder"
        if isinstance(node, ast.Attribute):
            assert ast.unparse(node) not in REMOVED, place
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            assert not MODULES & {name.split(".")[0] for name in names}, place
        if isinstance(node, ast.Try):
            assert not any(map(_find_jumps, node.finalbody)), f"{place}: a jump out of `finally`"


def _find_jumps(node: ast.AST, is_in_loop: bool = False) -> bool:
    """Return whether a statement of a ``finally`` block leaves it, which is a syntax warning from 3.14 on."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return False
    if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not is_in_loop):
        return True
    is_in_loop = is_in_loop or isinstance(node, ast.For | ast.While | ast.AsyncFor)
    return any(_find_jumps(each, is_in_loop) for each in ast.iter_child_nodes(node))
