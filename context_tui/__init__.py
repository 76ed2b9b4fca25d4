"""See where the context of a recorded agent session went, and what a compaction policy would drop."""

from __future__ import annotations

__version__ = "0.1.0"
