"""Select the facts of a session without its abandoned branches, or the facts of one abandoned branch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Protocol

from context_tui.errors import UnreadableSession
from context_tui.session.facts import Branch, Facts
from context_tui.session.selection import Selection
from context_tui.session.session import SessionInfo

BRANCH_PREFIX = "branch-"
"""Start of the ids of abandoned branches, which are numbered from 1 in file order.

Branches are known only once the session is read, so the scanner checks ids and raises UnreadableSession.
"""


def find_branch(main: SessionInfo, session_id: str) -> SessionInfo | None:
    """Return the abandoned branch of *main* named *session_id*, or None if that is not the id of a branch."""
    is_branch = session_id.startswith(BRANCH_PREFIX)
    return replace(main, id=session_id, title=session_id, parent=main.path) if is_branch else None


class MessageTree(Protocol):
    """The tree of a file's messages, which forks where a user went back and continued from an earlier message."""

    @property
    def revision(self) -> int:
        """A number that changes whenever earlier messages may have been abandoned or replaced."""

    @property
    def replaced_messages(self) -> Collection[int] | None:
        """The messages that were replaced by others.

        If None, the messages before the first one on a branch's path belong to earlier contexts, and the facts of the
        branch include them.
        """

    @property
    def parents(self) -> Sequence[int]:
        """For each message, the message that it follows, or -1 if it follows none."""

    @property
    def event_positions(self) -> Mapping[tuple[str, int], int]:
        """The message before each microcompaction or clear, keyed like the events of a :class:`Selection`."""

    def find_abandoned_branches(self) -> list[set[int]]:
        """Return one set of message numbers for each abandoned branch, in file order."""


class BranchFacts:
    """The facts of a session without its abandoned branches, or the facts of the one branch that *info* names.

    The selection grows as the file is read, and is rebuilt when a branch is abandoned. Ids of branches begin with
    *session_id*, if it is given: ``SESSION/branch-1``.
    """

    def __init__(self, facts: Facts, tree: MessageTree, info: SessionInfo, session_id: str = "") -> None:
        self._all_facts, self._tree, self._info = facts, tree, info
        self._prefix = f"{session_id}/{BRANCH_PREFIX}" if session_id else BRANCH_PREFIX
        self._revision = 0
        self._abandoned: list[set[int]] = []
        self._removed_messages: set[int] = set()
        self._removed_events: set[tuple[str, int]] = set()
        self._selection: Selection | None = None  # None: all facts
        self._branch_of: dict[int, int] = {}  # index of the abandoned branch, keyed by message
        self._branch_requests: list[int] = []  # counted requests on each abandoned branch
        self._counted_requests = 0

    def select_facts(self) -> Facts:
        """Return the facts read so far, or raise UnreadableSession if the file has no such branch."""
        if self._info.id.startswith(BRANCH_PREFIX):
            return self._select_branch()
        if self._update_abandoned() or (self._selection is not None and not self._selection.is_current()):
            self._branch_requests, self._counted_requests = [0] * len(self._abandoned), 0
            self._selection = None
            if self._removed_messages:
                self._selection = Selection(self._all_facts, self._removed_messages, self._removed_events)
        elif self._selection is not None:
            self._selection.update()
        if self._selection is None:
            return self._all_facts
        request_messages = self._all_facts.request_message
        for row in range(self._counted_requests, len(request_messages)):
            if (index := self._branch_of.get(request_messages[row])) is not None:
                self._branch_requests[index] += 1
        self._counted_requests = len(request_messages)
        selection, facts = self._selection, self._selection.facts
        facts.branches = []
        for number, (branch, requests) in enumerate(zip(self._abandoned, self._branch_requests, strict=True), 1):
            name, first = f"{self._prefix}{number}", selection.get_number(min(branch))
            facts.branches.append(Branch(name, len(branch), requests, self._is_at_summary(branch), first))
        return facts

    def _is_at_summary(self, branch: set[int]) -> bool:
        """Return whether a branch exists only because a summary was requested, as happens in logs of requests."""
        facts = self._all_facts
        if not facts.holds_requests:
            return False
        last = max(branch)
        row = bisect_right(facts.request_message, last)
        next_reply = facts.request_message[row] if row < len(facts.request_message) else len(facts)
        first = bisect_right(facts.compactions, last, key=attrgetter("message"))
        return first < len(facts.compactions) and facts.compactions[first].message <= next_reply + 1

    def find_first_changed(self, message: int | None) -> int | None:
        """Convert *message*, the first changed message in the file, to its number in the facts that were selected last.

        Returns 0 if the abandoned branches may have changed, and None if nothing has changed.
        """
        if self._revision != self._tree.revision or self._info.id.startswith(BRANCH_PREFIX):
            return 0
        return message if message is None or self._selection is None else self._selection.get_number(message)

    def _update_abandoned(self) -> bool:
        if self._revision == self._tree.revision:
            return False
        old_state = self._abandoned, self._removed_messages, self._removed_events
        self._revision, self._abandoned = self._tree.revision, self._tree.find_abandoned_branches()
        self._removed_events = self._find_removed_events(set().union(*self._abandoned))
        self._removed_messages = set(self._tree.replaced_messages or ()).union(*self._abandoned)
        self._branch_of = {message: index for index, branch in enumerate(self._abandoned) for message in branch}
        return old_state != (self._abandoned, self._removed_messages, self._removed_events)

    def _select_branch(self) -> Facts:
        branches, replaced = self._tree.find_abandoned_branches(), self._tree.replaced_messages
        number = self._info.id.removeprefix(BRANCH_PREFIX)
        if not number.isdecimal() or not 1 <= int(number) <= len(branches):
            available = f"available: {BRANCH_PREFIX}1" if branches else "it has no branches"
            available += f" to {BRANCH_PREFIX}{len(branches)}" if len(branches) > 1 else ""
            raise UnreadableSession(f"{self._info.path}: unknown session {self._info.id!r}; {available}")
        branch = set(branches[int(number) - 1])
        root = min(branch)
        while (parent := self._tree.parents[root]) >= 0:
            root = parent
            branch.add(root)
        first_removable = root if replaced is None else 0
        removed = set(range(first_removable, len(self._all_facts))) - (branch - set(replaced or ()))
        return Selection(self._all_facts, removed, self._find_removed_events(removed)).facts

    def _find_removed_events(self, removed: Collection[int]) -> set[tuple[str, int]]:
        return {event for event, message in self._tree.event_positions.items() if message in removed}
