"""The size of the context window, and where the number comes from."""

from __future__ import annotations

from dataclasses import dataclass

from context_tui.session.facts import Facts

KNOWN_SIZES = (8_192, 16_384, 32_768, 65_536, 128_000, 200_000, 256_000, 400_000, 1_000_000)
ASSUMED = 200_000

# Published context windows by the start of a model's name, longest match first; as of November 2026.
MODEL_WINDOWS = {
    "claude-": 200_000,
    "gpt-4.1": 1_047_576,
    "gpt-4o": 128_000,
    "gpt-4-turbo": 128_000,
    "gpt-5": 400_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    "gemini-2.5": 1_048_576,
    "gemini-1.5-pro": 2_097_152,
    "deepseek": 65_536,
    "glm-4": 128_000,
    "qwen3": 131_072,
    "llama-3": 128_000,
    "mistral-large": 128_000,
}


@dataclass(frozen=True)
class Window:
    """A context window of ``tokens``; ``source`` is given, file, model, inferred or assumed."""

    tokens: int
    source: str

    @property
    def known(self) -> bool:
        """Whether anything but a guess stands behind the number; runtimes use their own fallback otherwise."""
        return self.source != "assumed"


def window_of(facts: Facts, given: int | None = None) -> Window:
    """The window: given by the user, else the file's, else the model's, corrected by what was recorded."""
    if given:
        return Window(given, "given")
    if facts.window:
        window = Window(facts.window, "file")
    else:
        name = (facts.model or "").lower().rpartition("/")[2]
        prefix = max((p for p in MODEL_WINDOWS if name.startswith(p)), key=len, default=None)
        window = Window(MODEL_WINDOWS[prefix], "model") if prefix else Window(ASSUMED, "assumed")
        if "[1m]" in name:
            window = Window(1_000_000, "model")
    peak = max((usage.context for usage in facts.requests), default=0)
    if peak > window.tokens:
        return Window(next((size for size in KNOWN_SIZES if size >= peak), peak), "inferred")
    return window
