"""Only ``client`` and ``connection`` load httpx; only ``plan_summary``, which knows plans, loads pydantic."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import context_tui.summarizer


def test_httpx_is_loaded_for_calls_only() -> None:
    modules = {module.name for module in pkgutil.iter_modules(context_tui.summarizer.__path__)}
    imports = "\n".join(
        f"import context_tui.summarizer.{name}"
        for name in sorted(modules - {"client", "comparison", "connection", "plan_summary"})
    )
    code = f"import sys\n{imports}\nprint({{'httpx', 'textual', 'pydantic'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"
