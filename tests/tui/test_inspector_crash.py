"""What happens when the program itself is wrong: it ends with an error, without showing session text on the way."""

from __future__ import annotations

import pytest

from context_tui.tui import app as application
from tests.tui.fakes import drawn, until
from tests.tui.inspecting import app, inspector, opened, session


def test_a_crash_is_an_error_and_prints_no_locals(capsys: pytest.CaptureFixture[str]) -> None:
    class Crashes(application.ContextTuiApp):
        CSS_PATH = application.__file__.replace("app.py", "app.tcss")

        def open_first_screen(self) -> None:
            secret = "SECRET of the session"
            raise KeyError(len(secret))

        def run(self, **options: object) -> None:
            super().run(headless=True)

    with pytest.raises(KeyError):
        application.run(Crashes(session()))
    assert "SECRET" not in "".join(capsys.readouterr())


async def test_a_failing_thread_is_told_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_tui.tui.inspector.workers.compute_context_sizes", lambda *_, **__: 1 / 0)
    running = app()
    async with running.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "Could not" in drawn(running))
        assert "Could not compute the breakdown: ZeroDivisionError" in " ".join(drawn(running).split())
        assert inspector(running).is_current and running.is_running
