"""The session on screen without a screen: every command is a call, and no event loop runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import context_tui as ct
from context_tui.session.values import Kind
from context_tui.tui.controller import Controller, Refused
from context_tui.tui.loading import Failed, Loading, Read
from context_tui.tui.options import Options
from context_tui.tui.rows import HEAD, Rows
from context_tui.tui.view import Location
from tests.tui.inspecting import file_of, session


def opened(window: int | None = None) -> Controller:
    controller = Controller(session(), Options(window=window))
    controller.open(controller.view.session)
    return controller


def read(controller: Controller) -> None:
    def take(report: Read | Failed) -> None:
        assert isinstance(report, Read)
        controller.take(report)

    assert isinstance(controller.loading, Loading)
    controller.loading.read(take, lambda: False)


def results(controller: Controller) -> list[Location]:
    facts = controller.view.session.facts
    rows = range(len(facts.kind))
    return [Location(facts.block_message[row], row) for row in rows if facts.kind[row] == Kind.TOOL_RESULT]


def refused(command: Callable[[], object]) -> str:
    with pytest.raises(Refused) as why:
        command()
    return str(why.value)


def test_the_cursor_stays_at_the_end_of_what_grows_in_several_steps(tmp_path: Path) -> None:
    messages = session().to_messages()

    def grow(number: int, end: bool) -> None:
        rows, longer = Rows(), ct.from_messages(messages[:number])
        rows.grow(longer)
        controller.take(Read(longer, rows, 1.0 if end else 0.5, end))

    controller = Controller(file_of(tmp_path / "s.jsonl", messages[:2]), Options())
    read(controller)
    controller.touched = True
    controller.select(Location(1))
    controller.follow()
    grow(4, end=False)
    grow(5, end=False)
    grow(6, end=True)
    assert controller.view.cursor.message == 5
    grow(7, end=False)
    controller.select(Location(2))
    grow(8, end=True)
    assert controller.view.cursor.message == 2, "it was moved meanwhile"


def test_a_session_is_read_planned_applied_and_taken_back(tmp_path: Path) -> None:
    controller = Controller(file_of(tmp_path / "s.jsonl", session().to_messages()), Options(policy="agent-sdk-prune"))
    controller.reading = True
    assert refused(controller.applicable).startswith("The session is still being read")
    read(controller)
    assert controller.progress == 1 and not controller.reading and controller.loading is not None
    assert controller.view.cursor == Location(len(controller.view.session) - 1), "at the end, where nobody moved it"
    controller.choose("defect-microcompact")
    controller.set("defect-microcompact", "keep_recent_turns", 1)
    plan = controller.applicable()
    controller.changed(1)
    assert controller.view.cursor.block in plan.changes
    controller.took(plan, ct.apply(controller.view.session, plan))
    assert controller.view.applied and controller.recorded is controller.view.undo[0].session
    assert refused(controller.applicable) == "A plan was just applied; choose a policy to plan again"
    assert refused(controller.command).startswith("No command for a copy")
    assert controller.undo() == f"Back to {len(controller.view.session)} messages; press U to redo"
    assert refused(controller.undo).startswith("Nothing to undo")
    assert "keep_recent_turns=1" in controller.command()


def test_what_was_not_read_to_its_end_is_not_exported(tmp_path: Path) -> None:
    controller = Controller(file_of(tmp_path / "s.jsonl", session().to_messages()), Options())
    read(controller)
    assert refused(controller.read_on) == "All of the session has been read"
    controller.progress = 0.4
    assert refused(controller.exportable) == "Only 40 % has been read; press r to read on"
    assert controller.read_on() is controller.loading
    assert refused(controller.read_on) == "The session is being read"


@pytest.mark.parametrize("hide", [Controller.sort, lambda each: each.filter_by("tool", "Bash")])
def test_the_cursor_is_back_when_its_row_is_listed_again(hide: Callable[[Controller], object]) -> None:
    controller = opened()
    controller.select(Location(0, HEAD))  # which is neither sorted nor a tool's
    hide(controller)
    assert controller.view.cursor != Location(0, HEAD)
    assert controller.rows.row_of(*controller.view.cursor) in controller.listed, "what is selected is on screen"
    controller.unfilter()
    assert controller.view.cursor == Location(0, HEAD)
    hide(controller)
    controller.select(results(controller)[-1])
    controller.unfilter()
    assert controller.view.cursor == results(controller)[-1], "it was moved meanwhile"


def test_only_what_has_to_be_drawn_anew_counts() -> None:
    controller = opened()
    revision = controller.revision
    controller.select(Location(3))
    controller.turn(1)
    assert controller.revision == revision and controller.view.cursor.block == HEAD
    controller.fold()
    assert controller.revision == revision + 1
    turn = controller.rows.messages(controller.rows.turn_of(controller.view.cursor.message))
    controller.select(Location(turn[2]))
    assert controller.revision == revision + 2 and not controller.view.folds, "a folded turn opens for what is in it"


def test_commands_that_do_nothing_here_say_why() -> None:
    controller = opened(window=1_000_000)
    controller.select(Location(0))
    assert refused(controller.mark) == "Only tool results can be cleared; select one"
    assert refused(lambda: controller.match(1)) == "Press / to search first"
    assert refused(controller.redo) == "Nothing to redo"
    controller.sort()
    assert refused(controller.fold).startswith("Filtered and sorted rows have no turns")
    controller.unfilter()
    controller.choose("manual")
    assert refused(controller.applicable).startswith("Nothing to apply")
    assert refused(lambda: controller.changed(1)) == "The plan changes no row"
    controller.select(Location(4))
    controller.as_of()
    assert controller.view.at == 4
    controller.select(results(controller)[-1])
    assert refused(controller.mark) == "This result is not in the context; select another one"
    assert refused(controller.cut) == "This message is not in the context; select another one"
    controller.as_of()
    assert controller.view.at is None


def test_the_text_of_what_is_selected_is_copied() -> None:
    controller = opened()
    facts = controller.view.session.facts
    bash = next(at for at in results(controller) if facts.tool_name(at.block) == "Bash")
    controller.select(bash)
    assert controller.text() == "0 passed"
    controller.select(Location(bash.message - 1))
    assert controller.text().startswith("I look at it.") and "pytest -q" in controller.text()


def test_a_row_that_is_not_sorted_stands_for_the_nearest_in_the_file() -> None:
    controller = opened()
    turn = controller.rows.messages(2)
    controller.select(Location(turn.start, HEAD))
    controller.sort()
    assert controller.view.cursor == Location(turn.start), "the first words of the turn whose head was selected"
