"""Branches of a session that were left by a rewind: the facts of what is not on one, or of one of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from context_tui.errors import UnreadableSession
from context_tui.session.facts import Branch, Facts
from context_tui.session.selection import Selection
from context_tui.session.session import SessionInfo

BRANCH = "branch-"
"""Ids of the branches of a session that were left begin so, and count from 1 in the order of the file. They are found
by reading the session, not listed: the scanner of one raises UnreadableSession where there is none.
"""


def branch_of(main: SessionInfo, session_id: str) -> SessionInfo | None:
    """A branch of the session *main*, by its id; None where that is not the id of one."""
    return replace(main, id=session_id, title=session_id, parent=main.path) if session_id.startswith(BRANCH) else None


class Tree(Protocol):
    """How the messages in a file hang below one another, and which of them were left."""

    @property
    def turns(self) -> int:
        """A number that is another one whenever others of the messages that there were may be left or replaced."""

    @property
    def replaced(self) -> Collection[int] | None:
        """Messages in whose place there are others. Where it is given, a branch that hangs below nothing has nothing
        before it; else what stands there is of earlier contexts.
        """

    @property
    def happened(self) -> Mapping[tuple[str, int], int]:
        """The message behind which a microcompaction or a clear happened, as :class:`Selection` names it."""

    def left(self) -> list[set[int]]:
        """The messages of each branch that was left, in the order of the file."""

    def parent(self, message: int) -> int:
        """The message that one hangs below, -1 for none."""


class LiveBranch:
    """The facts of a session without the branches that were left, or of the one that *info* names.

    They are made anew when others are left. Until then they grow with those of the file, by what is new.
    """

    def __init__(self, facts: Facts, tree: Tree, info: SessionInfo) -> None:
        """Of all *facts* in a file, and how its messages hang together."""
        self._all, self._tree, self._info = facts, tree, info
        self._turns = 0
        self._left: list[set[int]] = []
        self._gone: set[int] = set()
        self._undone: set[tuple[str, int]] = set()
        self._shown: Selection | None = None  # None: all of them are
        self._asked: list[int] = []  # requests on each branch that was left, of those that were counted
        self._counted = 0

    def facts(self) -> Facts:
        """Those that there are now.

        Raises:
            UnreadableSession: there is no such branch.
        """
        if self._info.id.startswith(BRANCH):
            return self._only()
        if self._others_left() or (self._shown is not None and not self._shown.is_current()):
            self._begin()
        elif self._shown is not None:
            self._shown.update()
        if self._shown is None:
            return self._all
        self._count_requests()
        found = self._shown.facts
        found.branches = [
            Branch(f"{BRANCH}{number}", len(branch), requests)
            for number, (branch, requests) in enumerate(zip(self._left, self._asked, strict=True), 1)
        ]
        return found

    def first_changed(self, message: int | None) -> int | None:
        """The number that *message*, the first that has changed, had when the facts were last asked for.

        Returns:
            0 where others have been left since; None where nothing has changed.
        """
        if self._turns != self._tree.turns or self._info.id.startswith(BRANCH):
            return 0
        return message if message is None or self._shown is None else self._shown.number_of(message)

    def _others_left(self) -> bool:
        """Whether others are left than before."""
        if self._turns == self._tree.turns:
            return False
        before = self._left, self._gone, self._undone
        self._turns, self._left = self._tree.turns, self._tree.left()
        self._undone = _undone(self._tree.happened, set().union(*self._left))
        self._gone = set(self._tree.replaced or ()).union(*self._left)
        return before != (self._left, self._gone, self._undone)

    def _begin(self) -> None:
        self._asked, self._counted = [0] * len(self._left), 0
        self._shown = Selection(self._all, self._gone, self._undone) if self._gone else None

    def _count_requests(self) -> None:
        asked = self._all.request_message
        for row in range(self._counted, len(asked)):
            for number, branch in enumerate(self._left):
                self._asked[number] += asked[row] in branch
        self._counted = len(asked)

    def _only(self) -> Facts:
        """The facts of the branch that is asked for."""
        left, parent, replaced = self._tree.left(), self._tree.parent, self._tree.replaced
        number = self._info.id.removeprefix(BRANCH)
        if not number.isdecimal() or not 1 <= int(number) <= len(left):
            raise UnreadableSession(f"{self._info.path}: unknown session {self._info.id!r}; {_count_of(left)}")
        kept = set(left[int(number) - 1])
        at = min(kept)
        while (above := parent(at)) >= 0:
            at = above
            kept.add(at)
        first = at if replaced is None else 0
        beside = set(range(first, len(self._all))) - (kept - set(replaced or ()))
        return Selection(self._all, beside, _undone(self._tree.happened, beside)).facts


def _undone(happened: Mapping[tuple[str, int], int], gone: Collection[int]) -> set[tuple[str, int]]:
    """What happened behind messages that are gone."""
    return {what for what, message in happened.items() if message in gone}


def _count_of(branches: Sequence[object]) -> str:
    if not branches:
        return "it has no branches"
    return f"available: {BRANCH}1" if len(branches) == 1 else f"available: {BRANCH}1 to {BRANCH}{len(branches)}"
