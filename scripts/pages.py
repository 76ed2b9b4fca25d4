"""Command line of the scripts that print a page of figures, or write it into ``docs``."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build_page_parser(doc: str | None, page: Path, pictures: str = "") -> argparse.ArgumentParser:
    """Build a parser for a folder of recordings and ``--write``; *doc* is the docstring of the script."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of recordings")
    parser.add_argument("--write", action="store_true", help=f"write {page.relative_to(ROOT)}{pictures}")
    return parser


def print_or_write_page(page: Path, text: str, write: bool) -> None:
    """Write the text of a page, or print it."""
    if write:
        page.write_text(text, encoding="utf-8")
    else:
        print(text, end="" if text.endswith("\n") else "\n")
