"""Who writes the summary: the kind of summarizer that is chosen, its model and server, and whether it can be asked."""

from __future__ import annotations

from collections.abc import Mapping

from context_tui.compaction.plan import Plan
from context_tui.errors import SummarizerError
from context_tui.summarizer.plan_summary import SUMMARIZER_KINDS, Summarizer, choose_summarizer


class SummarizerChoice:
    """The summarizer for a plan; ``summarizer`` is the error where it cannot be asked.

    Args:
        kind, model, base_url: what to begin with, as the command line or the configuration named it.
        environ: the environment that settings and keys come from; the process's own by default.
    """

    def __init__(
        self, plan: Plan, kind: str, model: str | None, base_url: str | None, environ: Mapping[str, str] | None
    ) -> None:
        self._plan, self._environ = plan, environ
        self.kind, self._model, self._base_url = kind, model, base_url
        self.summarizer: Summarizer | SummarizerError = Summarizer()

    def choose(self, kind: str) -> None:
        """Choose a kind; its model and server are those that were named."""
        self.kind = kind
        try:
            self.summarizer = choose_summarizer(self._plan, kind, self._model, self._base_url, environ=self._environ)
        except SummarizerError as error:
            self.summarizer = error

    @property
    def next_kind(self) -> str:
        """The kind after the chosen one, around the end."""
        return SUMMARIZER_KINDS[(SUMMARIZER_KINDS.index(self.kind) + 1) % len(SUMMARIZER_KINDS)]

    @property
    def model(self) -> str:
        """The model that would be asked; empty for the usual one."""
        return self.summarizer.endpoints[0].model if isinstance(self.summarizer, Summarizer) else self._model or ""

    @property
    def base_url(self) -> str:
        """The server that would be asked; empty for the usual one."""
        return self.summarizer.endpoints[0].base_url if isinstance(self.summarizer, Summarizer) else self._base_url or ""

    @property
    def requested_server(self) -> tuple[str | None, str | None]:
        """The model and the server that were named; None for the usual one."""
        return self._model, self._base_url

    def set_model(self, name: str) -> None:
        """Ask another model; nothing is the usual one."""
        self._model = name.strip() or None
        self.choose(self.kind)

    def set_server(self, base_url: str) -> None:
        """Ask another server; nothing is the usual one."""
        self._base_url = base_url.strip() or None
        self.choose(self.kind)
