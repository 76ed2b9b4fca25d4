"""Read the lines of a growing file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from context_tui.formats.kit.files import open_regular


class LineTail:
    """Reads the lines of a growing file. An incomplete last line is left for later."""

    def __init__(self, path: Path) -> None:
        self.path, self.end, self._inode = path, 0, 0

    def is_replaced(self) -> bool:
        """Return whether the file was replaced or shortened. If so, the next read starts again."""
        status = os.stat(self.path)
        is_replaced = self.end > 0 and (status.st_ino != self._inode or status.st_size < self.end)
        self.end, self._inode = 0 if is_replaced else self.end, status.st_ino
        return is_replaced

    def read_on(self) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the bytes of each new line."""
        with open_regular(self.path) as file:
            file.seek(self.end)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.end += len(line)
                if line.strip():
                    yield self.end - len(line), line
