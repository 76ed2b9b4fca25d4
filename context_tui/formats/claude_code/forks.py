"""Branches of a rewound session: several typed messages with the same parent."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from itertools import groupby

from context_tui.session.facts import Facts


class Forks:
    """Tree of the messages of *facts*, with its abandoned branches. A message with several typed children is a fork.

    ``parents`` holds the parent of each message (-1: none), and ``leaf`` is the newest message. ``revision`` grows
    whenever a branch may have been abandoned.
    """

    replaced = None
    event_positions: Mapping[tuple[str, int], int] = {}

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.parents: list[int] = []
        self.leaf, self.revision = -1, 0
        self._epoch_leaves: list[int] = []  # where each epoch ended
        self._prompts_below: defaultdict[int, list[int]] = defaultdict(list)
        self.forked: set[int] = set()

    def find_parent(self, message: int) -> int:
        return self.parents[message]

    def add_prompt(self, message: int) -> None:
        """Add a message typed by a person."""
        parent = self.parents[message]
        siblings = self._prompts_below[parent]
        siblings.append(message)
        if parent >= 0 and len(siblings) > 1:
            self.forked.update(siblings)
            self.revision += 1

    def move_to(self, message: int) -> None:
        """Make *message* the newest one, which may abandon the previous path or resume an abandoned one."""
        old, new, parents = self.leaf, message, self.parents
        self.leaf = message
        while self.forked and old != new:
            later = max(old, new)
            if later in self.forked:
                self.revision += 1
                return
            old, new = (parents[old], new) if later == old else (old, parents[new])

    def end_epoch(self) -> None:
        """End an epoch, since a new context begins. The current path does not count as abandoned."""
        self._epoch_leaves.append(self.leaf)

    def find_abandoned_branches(self) -> list[set[int]]:
        if not self.forked:
            return []
        forks = [prompts for parent, prompts in self._prompts_below.items() if parent >= 0 and len(prompts) > 1]
        epoch_starts = [epoch.message for epoch in self._facts.epochs]
        path = set[int]()
        for message in (*self._epoch_leaves, self.leaf):
            while message >= 0 and message not in path:
                path.add(message)
                message = self.parents[message]
        branch_by_message: dict[int, set[int]] = {}  # message to its branch
        for prompts in forks:
            for _, group in groupby(prompts, key=lambda message: bisect_right(epoch_starts, message)):
                branches = list(group)
                live = next((message for message in branches if message in path), branches[-1])
                branch_by_message.update((message, {message}) for message in branches if message != live)
        for message, parent in enumerate(self.parents):
            if parent in branch_by_message and message not in branch_by_message and message not in path:
                branch_by_message[message] = branch_by_message[parent]
                branch_by_message[message].add(message)
        return list({id(branch): branch for _, branch in sorted(branch_by_message.items())}.values())
