"""What the inspector's keys do to its view: each action makes a new view and has it shown."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from context_tui.policies.registry import POLICIES
from context_tui.sanitize import visible
from context_tui.tui.filters import EVERYTHING
from context_tui.tui.jumps import Jump, next_jump
from context_tui.tui.screens.background import Background
from context_tui.tui.text import Reader, plural
from context_tui.tui.view import Spot, View


class Steering(Background):
    """Actions that need nothing but the view."""

    view: View
    reader: Reader
    reading: bool
    said = False

    @abstractmethod
    def show(self, view: View) -> None:
        """Draw a view."""

    @property
    @abstractmethod
    def spot(self) -> Spot:
        """What is selected."""

    @property
    @abstractmethod
    def points(self) -> list[Jump]:
        """The points to jump between."""

    @abstractmethod
    def tell(self, words: str) -> None:
        """Say something unusual in the line above the timeline."""

    def filter_by(self, kind: str, value: str | int) -> None:
        """List only what meets another condition; no kind lists everything."""
        self.show(replace(self.view, filter=self.view.filter.with_(kind, value) if kind else EVERYTHING))

    def say(self, words: str, *, warn: bool = False) -> None:
        """Tell something in passing, in place of what was told before; nothing in it is taken for markup."""
        self.hush()
        self.said = True
        self.notify(visible(words), severity="warning" if warn else "information", markup=False, timeout=4)

    def hush(self) -> None:
        """Take back what was told in passing: it was about a view that is not on screen any more."""
        if self.said:
            self.said = False
            self.app.clear_notifications()

    def action_policy(self, number: int) -> None:
        """Choose a policy by its number."""
        self.show(self.view.with_policy(list(POLICIES)[number - 1]))

    def action_as_of(self) -> None:
        """Plan as of the selected message, or as of the end again."""
        here = self.spot.message
        if self.view.at == here:
            self.show(self.view.with_point(None))
        else:
            self.show(self.view.with_point(here))

    def action_jump(self, step: int) -> None:
        """Plan as of the next or previous point of interest."""
        found = next_jump(self.points, self.view.point, step)
        if found is None:
            only = f"this is the only point to jump to: {self.points[0].why}" if self.points else ""
            self.say(only or f"nowhere to go: no usage, no recorded compaction, and {self.view.policy} fires nowhere")
            return
        cursor = Spot(min(found.at, max(len(self.view.session) - 1, 0)))
        self.show(replace(self.view.with_point(found.at), cursor=cursor))

    def action_sort(self) -> None:
        """Largest first, or in the order of the file."""
        self.show(replace(self.view, by_size=not self.view.by_size))

    def action_unfilter(self) -> None:
        """List everything again."""
        self.show(replace(self.view, filter=EVERYTHING, by_size=False))

    def action_mark(self) -> None:
        """Mark the selected result to be cleared by hand, or no longer."""
        if self.spot.block < 0:
            self.say("only tool results can be cleared: select one", warn=True)
        elif self.view.session.facts.block_message[self.spot.block] not in self.view.context.order:
            self.say("this result is not in the context here", warn=True)
        else:
            self.show(self.view.marked(self.spot))

    def action_cut(self) -> None:
        """Mark a cut before the selected message, or take it away."""
        if self.spot.message not in self.view.context.order:
            self.say("this message is not in the context here", warn=True)
        else:
            self.show(self.view.cut_at(self.spot.message))

    def action_undo(self) -> None:
        """Go back to before the last applied plan."""
        before = self.view.undone()
        if before is None:
            self.say("nothing was applied yet")
            return
        self.show(before)
        self.say(f"back to {plural(len(before.session), 'message')}; U does it again")

    def action_redo(self) -> None:
        """Do again what was undone."""
        after = self.view.redone()
        if after is None:
            self.say("nothing was undone")
            return
        self.show(after)
