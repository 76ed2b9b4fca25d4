"""Replay of a policy along a recorded session: when it fires, and the size of the context at each call.

>>> result = context_tui.lab.replay.replay(session, "defect-microcompact", keep_recent_turns=2)
>>> result.totals.saved, result.firings[0].message
"""

from context_tui.lab.replay.recording import Recording
from context_tui.lab.replay.walk import replay

__all__ = ["Recording", "replay"]
