"""Many settings along many recordings: what each saves, what of it was used later, and which settings nothing beats.

>>> found = context_tui.lab.sweep.sweep(sessions, {"defect-microcompact": {"keep_recent_turns": "1..8"}})
>>> found.standing.frontier, found.standing.dominated_by
"""

from context_tui.lab.sweep.results import Sweep, sweep

__all__ = ["Sweep", "sweep"]
