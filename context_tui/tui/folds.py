"""Which turns of the timeline are folded to their heads. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Folds:
    """Folded are the turns with these numbers; with ``others`` all but these, those that are still to be read too."""

    turns: frozenset[int] = frozenset()
    others: bool = False

    def __bool__(self) -> bool:
        return bool(self.turns) or self.others

    def __contains__(self, turn: int) -> bool:
        return (turn in self.turns) != self.others

    def toggled(self, turn: int) -> Folds:
        """The same with a turn folded that was not, or the other way about."""
        return replace(self, turns=self.turns ^ {turn})

    def without(self, turn: int) -> Folds:
        """The same with a turn not folded."""
        return self.toggled(turn) if turn in self else self


NONE, ALL = Folds(), Folds(others=True)
