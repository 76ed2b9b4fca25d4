"""The panel in which a policy is tuned: its settings on the left, what they would do on the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from textual.message import Message
from textual.widget import Widget

from context_tui.compaction.plan import Plan
from context_tui.policies.moment import Moment
from context_tui.session.context import Context


class ParameterPanel(Widget):
    """One row a setting, the outcome, the difference from the setting before, and a curve."""

    class Changed(Message):
        """A setting was given another value; a chain's are named ``POLICY.NAME``."""

        def __init__(self, policy: str, name: str, value: Any) -> None:
            super().__init__()
            self.policy, self.name, self.value = policy, name, value

    class Selected(Message):
        """Another setting's row was chosen: its curve is wanted."""

        def __init__(self, policy: str, name: str) -> None:
            super().__init__()
            self.policy, self.name = policy, name

    def __init__(self, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ascii = ascii

    @property
    def selected(self) -> str:
        """Name of the setting whose row is chosen; empty when the policy has none."""
        return ""

    def show(
        self,
        policy: str,
        params: BaseModel,
        context: Context,
        moment: Moment,
        plan: Plan | None,
        *,
        first: int | None = None,
        trouble: str = "",
    ) -> None:
        """Show a policy at its settings.

        Args:
            plan: what it would do; None where *trouble* says why there is no plan.
            first: the message at which it first fires in this session, -1 for nowhere, None while that is not known.
        """

    def curve_values(self, name: str) -> list[Any]:
        """At most 60 values over the range of a setting, for which ``show_curve`` is to be given the tokens after."""
        return []

    def show_curve(self, name: str, values: Sequence[Any], tokens_after: Sequence[int]) -> None:
        """Draw the curve of a setting; one that is no longer selected is ignored."""
