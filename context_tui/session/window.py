"""Size of the context window, and how the size is known."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cache

from context_tui.session.facts import Facts, PeakSearch
from context_tui.text.files import read_toml

ASSUMED_WINDOW = 200_000
COMMON_WINDOWS = (8_192, 16_384, 32_768, 65_536, 128_000, 200_000, 256_000, 400_000, 1_000_000)
"""Common sizes in tokens, for models without an entry in :func:`load_model_windows`."""


@cache
def load_model_windows() -> dict[str, tuple[int, ...]]:
    """Map prefixes of model names to the models' context windows in tokens, with the usual size first."""
    return {prefix: tuple(sizes) for prefix, sizes in read_toml("context_tui.session", "model_windows.toml").items()}


@dataclass(frozen=True)
class Window:
    """A context window: its size in tokens, and how this is known.

    Attributes:
        source: given, file, model, inferred or assumed.
        alternatives: other sizes that fit the model and the recording.
        full_tokens: the model's own window, if the file records that the agent uses only a part of it.
    """

    tokens: int
    source: str
    alternatives: tuple[int, ...] = ()
    full_tokens: int | None = None

    @property
    def model_tokens(self) -> int:
        """Size of the model's own window, in tokens."""
        return self.full_tokens or self.tokens

    @property
    def is_known(self) -> bool:
        """Whether the size is more than an assumption. Runtimes use their own default in place of an assumed size."""
        return self.source != "assumed"


class Peaks:
    """The largest recorded context of each model, including sizes before full compactions.

    A derived session includes the peaks of its source, as a plan does not change the model's window.
    """

    def __init__(self, facts: Facts, before: Peaks | None = None) -> None:
        self._before = before
        self._model_rows = {model: row for row, model in enumerate(facts.models)}
        if not facts.peak_search.is_current(facts):
            facts.peak_search = PeakSearch()
        facts.peak_search.update(facts)
        self._recorded = facts.peak_search.recorded
        self._compacted: dict[str | None, int] = {}
        for compaction in facts.compactions:
            if compaction.kind == "full":
                model = model_at(facts, compaction.message)
                self._compacted[model] = max(self._compacted.get(model, 0), compaction.pre_tokens or 0)

    def find_peak(self, model: str | None) -> int:
        """Return the largest recorded context of a model in tokens, or 0. None stands for requests without a model."""
        before = self._before.find_peak(model) if self._before else 0
        return max(before, self._recorded.get(self._model_rows.get(model or "", -1), 0), self._compacted.get(model, 0))


def window_at(facts: Facts, at: int, peaks: Peaks, override: int | None = None) -> Window:
    """Return the window at message *at*: given by the user, else recorded in the file, else that of the model in use.

    A model's window is its usual size, or a larger one if a context recorded with the model exceeds that.
    """
    if override:
        return Window(override, "given")
    model = model_at(facts, at)
    peak = peaks.find_peak(model)
    if facts.window:
        window = _choose_window(peak, (facts.window,), "file")
        return replace(window, full_tokens=facts.model_window) if window.tokens == facts.window else window
    name = normalize_model_name(model or "")
    if "[1m]" in name:
        return _choose_window(peak, (1_000_000,), "model")
    prefix = max((p for p in load_model_windows() if name.startswith(p)), key=len, default=None)
    if prefix is None:
        return _choose_window(peak, (ASSUMED_WINDOW,), "assumed")
    larger = (1_000_000,) if prefix.startswith("claude") else COMMON_WINDOWS
    return _choose_window(peak, load_model_windows()[prefix], "model", larger)


def normalize_model_name(model: str) -> str:
    """Return a model's name in lower case and without a gateway's prefix. A Claude model's dots become dashes."""
    name = model.lower().rpartition("/")[2]
    return name[name.find("claude-") :].replace(".", "-") if "claude-" in name else name


def model_at(facts: Facts, at: int) -> str | None:
    """Return the model of the last request before message *at*, else of the first one, else the session's, or None."""
    row = max(bisect_left(facts.request_message, at) - 1, 0)
    model = facts.request_model[row] if facts.requests else -1
    return facts.models[model] if model >= 0 else facts.model


def _choose_window(peak: int, sizes: tuple[int, ...], source: str, larger: tuple[int, ...] = COMMON_WINDOWS) -> Window:
    """Choose the first of *sizes* if *peak* tokens fit, else the next one that fits, else one of *larger*."""
    possible = sorted(size for size in sizes if size >= peak)
    if sizes[0] >= peak:
        return Window(sizes[0], source, tuple(size for size in possible if size != sizes[0]))
    if not possible:
        possible = [next((size for size in larger if size >= peak), peak)]
    return Window(possible[0], "inferred", tuple(possible[1:]))
