"""Run the ``context-tui`` command with ``python -m context_tui``."""

from __future__ import annotations

from context_tui.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
