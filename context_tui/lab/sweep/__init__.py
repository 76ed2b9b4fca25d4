"""Sweeps of many settings over many recordings, with savings, regret and the Pareto front.

>>> result = context_tui.lab.sweep.sweep(sessions, {"defect-microcompact": {"keep_recent_turns": "1..8"}})
>>> result.dominance.frontier, result.dominance.dominated_by
"""

from context_tui.lab.sweep.results import Sweep, sweep

__all__ = ["Sweep", "sweep"]
