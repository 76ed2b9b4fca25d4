"""Follow a session while its agent writes it: wait for changes to its files, and read the new data.

The files are only read, never locked. A file that was truncated or replaced is read from its start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from context_tui.errors import UnreadableSession
from context_tui.formats import opening
from context_tui.formats.base import Advance, Scanner, scan
from context_tui.formats.kit.files import FileChanged, read_file_stamp
from context_tui.formats.registry import FORMATS
from context_tui.session.session import Session, SessionInfo

QUIET_MS = 40
"""Milliseconds without a further change that end a burst of writes. A burst is reported as one change."""
MAX_BURST_MS = 250
"""Milliseconds after which a burst is reported even if it continues."""
POLL_MS = 5_000
"""Milliseconds between two checks of the file itself, since some file systems send no events."""
POLL_RELATED_MS = 1_000
"""Milliseconds between two checks if there are related files: a new folder may change before it is watched."""


class SessionWatch:
    """Watch on a session's file or folder, and on related files such as a database's write-ahead log."""

    def __init__(self, info: SessionInfo, stop: Event | None = None) -> None:
        """Record the current state of the files, in order to detect changes. Setting *stop* ends the watch."""
        self._path, self._form = os.path.realpath(info.path), FORMATS.get(info.format)
        self._stop = stop or Event()
        self._related_files = dict[str, bool]()
        self._related_files = self._find_related_files()
        self._stamp = self._read_stamps()

    def wait_for_changes(self) -> Iterator[None]:
        """Yield after each change to the files until the watch is stopped. Waiting takes no CPU time."""
        while not self._stop.is_set():
            yield from self._wait_for_changes_in(self._list_folders())

    def _wait_for_changes_in(self, folders: list[str]) -> Iterator[None]:
        from watchfiles import watch  # needed only here

        is_folder = os.path.isdir(self._path)
        if self._has_changed():  # changed before the watch began
            yield
        for changes in watch(
            *folders,
            watch_filter=None if is_folder else self._is_own,
            debounce=MAX_BURST_MS,
            step=QUIET_MS,
            rust_timeout=POLL_RELATED_MS if self._related_files else POLL_MS,
            yield_on_timeout=True,
            stop_event=self._stop,
            recursive=is_folder,
            raise_interrupt=True,
        ):
            if self._stop.is_set():
                return
            if changes:
                self._related_files = self._find_related_files()
            if self._has_changed() or (changes and (is_folder or self._related_files)):
                yield
            if folders != self._list_folders():
                return

    def _find_related_files(self) -> dict[str, bool]:
        if self._form is None or not os.path.isfile(self._path):
            return {}
        try:
            paths = [os.path.realpath(each) for each in self._form.related_files(Path(self._path))]
        except UnreadableSession:  # temporarily: it is being written
            return self._related_files
        return {path: os.path.isdir(path) for path in paths}

    def _list_folders(self) -> list[str]:
        if os.path.isdir(self._path):
            return [self._path]
        own_folder = os.path.dirname(self._path)
        places = (path if folder else os.path.dirname(path) for path, folder in self._related_files.items())
        related = dict.fromkeys(places)
        return [own_folder, *(each for each in related if each != own_folder and os.path.isdir(each))]

    def _is_own(self, _: object, path: str) -> bool:
        path = os.path.realpath(path)
        is_related = any(each in self._related_files for each in (path, os.path.dirname(path)))
        return is_related or path.startswith(self._path)

    def _has_changed(self) -> bool:
        stamp, self._stamp = self._stamp, self._read_stamps()
        return stamp != self._stamp

    def _read_stamps(self) -> tuple[object, ...]:
        return tuple(map(read_file_stamp, (self._path, f"{self._path}-wal", *self._related_files)))


@dataclass
class GrowingSession:
    """A session whose file grows while it is read; if the file is replaced, it is read again from its start."""

    info: SessionInfo
    scanner: Scanner | None = None

    def advance(self, budget_s: float | None = None) -> Advance:
        """Read the data added since the last call, or the whole file again if it was truncated or replaced.

        Raises UnreadableSession if that fails.
        """
        if self.scanner is not None:
            with suppress(FileChanged):
                return self.scanner.advance(budget_s)
        self.scanner = opening.make_scanner(self.info)
        step = self.scanner.advance(budget_s)
        return Advance(step.appended, 0, step.end)

    @property
    def progress(self) -> float:
        """Share of the file that has been read so far, from 0 to 1."""
        return self.scanner.progress if self.scanner is not None else 0.0

    def session(self) -> Session:
        """Return the session as far as it has been read."""
        assert self.scanner is not None
        return self.scanner.session()


def follow_session(
    info: SessionInfo, watch: SessionWatch | None = None, notify: Callable[[str], object] = print
) -> Iterator[Session]:
    """Yield the session as it is now, and again after every change, until interrupted or *watch* ends.

    If a file becomes unreadable (while it is replaced, or after it was emptied), *notify* is called once with the
    reason, and the next change is awaited. Raises UnreadableSession if the session is unreadable at the start.
    """
    growing, last_problem = GrowingSession(info), ""
    watch = watch or SessionWatch(info)
    yield scan(growing)
    for _ in watch.wait_for_changes():
        try:
            while not growing.advance().end:
                pass
        except UnreadableSession as error:
            if str(error) != last_problem:
                last_problem = str(error)
                notify(last_problem)
            growing.scanner = None
        else:
            last_problem = ""
            yield growing.session()
