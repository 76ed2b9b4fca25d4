"""Sweeps, which replay many settings along many sessions and find the Pareto front of savings and regret.

>>> result = context_tui.lab.sweep.sweep(sessions, {"defect-microcompact": {"keep_recent_turns": "1..8"}})
>>> result.dominance.frontier, result.dominance.dominated_by
"""

from context_tui.lab.sweep.results import Sweep, sweep

__all__ = ["Sweep", "sweep"]
