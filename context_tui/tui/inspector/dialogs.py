"""Dialogs of the inspector, and the handling of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from context_tui.app.config import ConfigError, SavedSettings, save_settings, validate_name
from context_tui.errors import Error
from context_tui.library.overview import find_subagent_sessions
from context_tui.policies.parameters import format_assignments
from context_tui.policies.registry import POLICIES
from context_tui.tui.inspector.filter_screen import (
    FilterChoice,
    FilterCounts,
    FilterScreen,
    build_filter_lines,
    find_possible_verdicts,
)
from context_tui.tui.timeline.marks import RowMarker
from context_tui.tui.timeline.rows import Location
from context_tui.tui.view import format_policy_tooltip
from context_tui.tui.widgets.dialogs import (
    ChoicePrompt,
    InputPrompt,
    build_quit_prompt,
    build_unchanged_prompt,
    parse_message_number,
    parse_window_tokens,
)

if TYPE_CHECKING:
    from context_tui.session.session import Session
    from context_tui.tui.inspector.screen import InspectorScreen

WINDOW_SOURCE_LABELS = {
    "given": "set by you",
    "file": "from the file",
    "model": "by the model",
    "inferred": "inferred from recorded sizes",
    "assumed": "assumed",
}


def list_policy_commands(inspector: InspectorScreen) -> Iterator[tuple[str, Callable[[], None], str]]:
    """Yield (number and name, command, description) for each policy, beginning with those on the scoreboard."""
    names = dict.fromkeys((*inspector.view.listed_policies, *POLICIES))
    for number, name in enumerate(names, 1):
        choose = partial(inspector.action_policy, name)
        yield f"{number} {name}", choose, format_policy_tooltip(name, POLICIES[name])


async def go_to_message(inspector: InspectorScreen) -> None:
    """Ask for a message number and go to that message, unless the user cancels or the session is empty."""
    last = len(inspector.view.session) - 1
    if last < 0:
        inspector.show_notification("No messages in this session")
        return
    prompt = InputPrompt("Go to message", f"Enter 0 to {last:,}", check=lambda text: parse_message_number(text, last))
    if answer := await inspector.app.push_screen_wait(prompt):
        inspector.go_to(Location(parse_message_number(answer, last)))


async def set_window(inspector: InspectorScreen) -> None:
    """Ask for the size of the context window, and plan with it unless the user cancels."""
    window = inspector.view.window
    sizes = " or ".join(f"{tokens:,}" for tokens in window.alternatives)
    current = f"Now {window.tokens:,}{f' (or {sizes})' if sizes else ''}, {WINDOW_SOURCE_LABELS[window.source]}"
    hint = f"{current}; enter a size such as 200k or 1m, or nothing for the size in the file"
    prompt = InputPrompt("Context window in tokens", hint, str(window.tokens), check=parse_window_tokens)
    if (answer := await inspector.app.push_screen_wait(prompt)) is not None:
        inspector.run_command(inspector.controller.set_window, parse_window_tokens(answer))


async def save_policy_settings(inspector: InspectorScreen) -> None:
    """Ask for a name and save the policy's settings under it, for use with ``-P NAME`` on the command line."""
    policy = inspector.view.policy
    saved = SavedSettings(policy, tuple(format_assignments(inspector.view.get_settings(policy))))
    hint = "letters, digits, points and dashes; settings saved under this name are replaced"
    prompt = InputPrompt(f"Save the settings of {policy} as", hint, check=lambda name: validate_name(name, [*POLICIES]))
    name = await inspector.app.push_screen_wait(prompt)
    if name is None:
        return
    name = name.strip()
    try:
        path = save_settings(name, saved)
    except ConfigError as error:
        inspector.show_notification(str(error), warn=True)
    else:
        inspector.show_notification(f"Saved: -P {name} ({path})")


def choose_filter(inspector: InspectorScreen) -> None:
    """Open the filter dialog, and add or remove the condition that the user chooses there."""
    view, controller = inspector.view, inspector.controller
    rows, marker = controller.rows, RowMarker(view.context, None) if controller.is_reading else controller.marker
    verdicts = find_possible_verdicts(marker, len(rows.first))
    lines = list(build_filter_lines(view.session.facts, view.filter, verdicts, view.policy, applied=bool(view.applied)))

    def apply_filter(choice: FilterChoice | None) -> None:
        if choice is not None:
            inspector.run_command(controller.toggle_filter, *choice)

    counts = FilterCounts(rows, marker, view.filter.path)
    inspector.app.push_screen(FilterScreen(lines, counts, view.filter), apply_filter)


async def apply_plan(inspector: InspectorScreen) -> None:
    """Open the apply screen for the current plan and, if the user applies it, show the resulting copy."""
    plan = inspector.run_command(inspector.controller.get_applicable_plan)
    if plan is None:
        return
    from context_tui.tui.apply.screen import ApplyScreen

    table = inspector.controller.token_table
    screen = ApplyScreen(inspector.view.session, plan, drafts=inspector.drafts, token_table=table)
    copy: Session | None = await inspector.app.push_screen_wait(screen)
    if copy is not None and copy is not inspector.view.session:
        inspector.run_command(inspector.controller.show_applied_copy, plan, copy)
        if not inspector.query_one("#left").display:
            inspector.action_close_detail()  # the result is shown above the timeline, which is hidden


async def export_session(inspector: InspectorScreen) -> bool:
    """Open the export screen, offering to apply the plan if none is applied; return whether a file was written."""
    from context_tui.tui.export.screen import ExportScreen

    if not inspector.view.session.origin:
        plan = inspector.view.plan
        answer = await inspector.app.push_screen_wait(build_unchanged_prompt(bool(plan and plan.has_changes)))
        if answer == "apply":
            await apply_plan(inspector)
        if answer is None or (answer == "apply" and not inspector.view.session.origin):
            return False
    result = await inspector.app.push_screen_wait(ExportScreen(inspector.view.session))
    if result is not None:
        inspector.controller.mark_exported()
    return result is not None


async def confirm_close(inspector: InspectorScreen, prompt: ChoicePrompt) -> bool:
    """Show *prompt*, export the session if the user asks for it, and return whether the session may be closed."""
    answer = await inspector.app.push_screen_wait(prompt)
    return await export_session(inspector) if answer == "export" else answer == "quit"


async def leave(inspector: InspectorScreen) -> None:
    """Exit the program, asking first if any open session has a copy or drafts that would be lost."""
    drafts = inspector.drafts.unaccepted_count
    for screen in reversed(inspector.app.screen_stack):
        if isinstance(screen, type(inspector)):
            unexported = screen.view.is_unexported
            prompt = build_quit_prompt(unexported, drafts) if unexported or drafts else None
            if prompt is not None and not await confirm_close(screen, prompt):
                return
            drafts = 0  # ask only once about the drafts of all sessions
    inspector.app.exit()


def request_subagents(inspector: InspectorScreen, message: int) -> bool:
    """Post a request to open the subagent sessions that *message* started; return False if there are none."""
    if message >= len(inspector.view.session):
        return False
    try:
        infos = find_subagent_sessions(inspector.view.session, message)
    except Error as error:
        inspector.show_notification(str(error), warn=True)
        return False
    if infos:
        inspector.post_message(inspector.SubagentsRequested(infos, inspector))
    return bool(infos)
