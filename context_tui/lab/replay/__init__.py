"""A policy along a recording: what it would have done at each call, and what the context would have been.

>>> made = context_tui.lab.replay.replay(session, "defect-microcompact", keep_recent_turns=2)
>>> made.totals.saved, made.firings[0].message
"""

from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.walk import replay

__all__ = ["Recording", "replay"]
