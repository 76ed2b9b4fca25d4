"""Choosing who writes the summary, and what they may see of the secrets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from context_tui.errors import SummarizerError
from context_tui.summarizing import KINDS, Summarizer, choose
from context_tui.tui.screens.apply.face import ApplyFace
from context_tui.tui.screens.prompts import InputPrompt


class Choosing(ApplyFace):
    """The actions that choose a summarizer, its model and server, and the masking."""

    _model: str | None
    _base_url: str | None
    _environ: Mapping[str, str] | None

    @abstractmethod
    def _enter(self) -> None:
        """Begin with the summarizer that is chosen."""

    def _choose(self, kind: str) -> None:
        self.kind, self._cancelled = kind, ""
        try:
            self.chosen = choose(self.plan, kind, self._model, self._base_url, environ=self._environ)
        except SummarizerError as error:
            self.chosen = error
        self._say("")
        self._enter()

    def action_choose(self, kind: str) -> None:
        """Choose a summarizer; its draft is shown if it has one."""
        if kind != self.kind:
            self._choose(kind)

    def action_next_summarizer(self) -> None:
        """Choose the next summarizer."""
        self._choose(KINDS[(KINDS.index(self.kind) + 1) % len(KINDS)])

    def action_mask(self) -> None:
        """Mask suspected secrets, or not; a draft was made with the other setting and stays."""
        if self.prepared:
            self.prepared = self.prepared.with_masking(not self.prepared.masked)
            self._show_head()
            self._refresh_all()

    def action_model(self) -> None:
        """Ask for the name of a model."""
        now = self.chosen.endpoints[0].model if isinstance(self.chosen, Summarizer) else self._model or ""
        self.app.push_screen(InputPrompt("Model", f"as {self.kind} servers know it", now), self._named_model)

    def _named_model(self, name: str | None) -> None:
        if name is not None:
            self._model = name.strip() or None
            self._choose(self.kind)

    def action_url(self) -> None:
        """Ask for the address of a server."""
        now = self.chosen.endpoints[0].base_url if isinstance(self.chosen, Summarizer) else self._base_url or ""
        hint = "like http://localhost:8080; empty for the usual one"
        self.app.push_screen(InputPrompt("Server", hint, now), self._named_url)

    def _named_url(self, url: str | None) -> None:
        if url is not None:
            self._base_url = url.strip() or None
            self._choose(self.kind)
