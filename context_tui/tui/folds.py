"""Which turns of the timeline are folded to their heads. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class TurnFolds:
    """Folded are the turns with these numbers; with ``inverted`` all but these, those that are still to be read too."""

    turns: frozenset[int] = frozenset()
    inverted: bool = False

    def __bool__(self) -> bool:
        return bool(self.turns) or self.inverted

    def __contains__(self, turn: int) -> bool:
        return (turn in self.turns) != self.inverted

    def toggle(self, turn: int) -> TurnFolds:
        """The same with a turn folded that was not, or the other way about."""
        return replace(self, turns=self.turns ^ {turn})

    def unfold(self, turn: int) -> TurnFolds:
        """The same with a turn not folded."""
        return self.toggle(turn) if turn in self else self


NO_FOLDS, ALL_FOLDED = TurnFolds(), TurnFolds(inverted=True)
