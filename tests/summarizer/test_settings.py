"""Endpoints from flags, environment and file; the key stays out of sight."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

import pytest

from context_tui.app.config import find_config_path
from context_tui.errors import SummarizerError
from context_tui.summarizer.endpoint import ApiKey, Endpoint
from context_tui.summarizer.settings import resolve_endpoint

SECRET = "sk-very-secret"


def test_defaults_need_a_key() -> None:
    endpoint = resolve_endpoint("anthropic", environ={"ANTHROPIC_API_KEY": SECRET})
    assert (endpoint.url, endpoint.host) == ("https://api.anthropic.com/v1/messages", "api.anthropic.com")
    assert (endpoint.model, endpoint.read_timeout, endpoint.bearer) == ("claude-haiku-4-5", 300.0, False)
    assert (endpoint.total_timeout, endpoint.proxy) == (1800.0, None)
    assert endpoint.key is not None
    assert endpoint.key.reveal() == SECRET
    assert (
        resolve_endpoint("openai", environ={"OPENAI_API_KEY": SECRET}).url
        == "https://api.openai.com/v1/chat/completions"
    )
    with pytest.raises(SummarizerError, match="set ANTHROPIC_API_KEY"):
        resolve_endpoint("anthropic", environ={})
    with pytest.raises(SummarizerError, match="set OPENAI_API_KEY"):
        resolve_endpoint("openai", environ={"ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": " "})


def test_a_named_server_needs_no_key() -> None:
    assert resolve_endpoint("openai", base_url="http://localhost:8080", environ={}).key is None
    assert resolve_endpoint("anthropic", environ={"ANTHROPIC_BASE_URL": "http://localhost:8080"}).key is None


def test_a_token_goes_before_a_key() -> None:
    endpoint = resolve_endpoint("anthropic", environ={"ANTHROPIC_API_KEY": "other", "ANTHROPIC_AUTH_TOKEN": SECRET})
    assert endpoint.key is not None
    assert (endpoint.key.reveal(), endpoint.bearer, endpoint.key_name) == (SECRET, True, "ANTHROPIC_AUTH_TOKEN")


def test_precedence(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        "theme = 'dark'\n[summarizer.openai]\nmodel = 'filed'\nbase_url = 'http://filed.test'\n"
        "read_timeout = 5\ntotal_timeout = 60\n",
        "utf-8",
    )
    filed = resolve_endpoint("openai", environ={"CONTEXT_TUI_CONFIG": str(config)})
    assert (filed.model, filed.host, filed.read_timeout, filed.total_timeout) == ("filed", "filed.test", 5.0, 60.0)
    environ = {"CONTEXT_TUI_CONFIG": str(config), "OPENAI_MODEL": "env", "OPENAI_BASE_URL": "http://env.test"}
    named = resolve_endpoint("openai", environ=environ)
    assert (named.model, named.host) == ("env", "env.test")
    flagged = resolve_endpoint("openai", "flag", "http://flag.test", environ=environ)
    assert (flagged.model, flagged.host) == ("flag", "flag.test")
    other = resolve_endpoint("anthropic", environ={"ANTHROPIC_API_KEY": SECRET, "CONTEXT_TUI_CONFIG": str(config)})
    assert (other.host, other.model) == ("api.anthropic.com", "claude-haiku-4-5")


def test_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert find_config_path({"CONTEXT_TUI_CONFIG": "/a/b.toml"}) == Path("/a/b.toml")
    assert find_config_path({}) == Path("/x/context-tui/config.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/h")
    folder = "Library/Application Support" if sys.platform == "darwin" else ".config"
    assert find_config_path({}) == Path("/h", folder, "context-tui/config.toml")
    file = tmp_path / "context-tui" / "config.toml"
    file.parent.mkdir()
    file.write_text("[summarizer.openai]\nbase_url = 'http://filed.test'\n", "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert resolve_endpoint("openai", environ={}).host == "filed.test"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[summarizer.openai]\nmodle = 'x'",
            "unknown setting summarizer.openai.modle; did you mean summarizer.openai.model?",
        ),
        ("[summarizer.opnai]\nmodel = 'x'", "did you mean summarizer.openai?"),
        ("[sumarizer.openai]\nmodel = 'x'", "did you mean summarizer?"),
        ("[summarizer.openai]\napi_key = 'hush'", "keys are never read from a file; remove it and set OPENAI_API_KEY"),
        ("[summarizer.anthropic]\nkey = 'hush'", "remove it and set ANTHROPIC_API_KEY"),
        ("[summarizer.openai]\nread_timeout = 0", "read_timeout must be a number of seconds"),
        ("[summarizer.openai]\nread_timeout = true", "read_timeout must be a number of seconds"),
        ("[summarizer.openai]\ntotal_timeout = '1 h'", "total_timeout must be a number of seconds"),
        ("[summarizer.openai]\nmodel = 4", "model must be a string"),
        ("[summarizer]\nopenai = 'x'", "summarizer.openai must be a table"),
        ("summarizer = 3", "summarizer must be a table"),
        ("not toml", "is not valid TOML"),
    ],
)
def test_mistakes_in_the_file(tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text, "utf-8")
    with pytest.raises(SummarizerError) as caught:
        resolve_endpoint("anthropic", base_url="http://localhost", environ={"CONTEXT_TUI_CONFIG": str(config)})
    assert words in str(caught.value)
    assert str(config) in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "base", "url"),
    [
        ("anthropic", "http://h", "http://h/v1/messages"),
        ("anthropic", "http://h/", "http://h/v1/messages"),
        ("anthropic", "http://h/v1", "http://h/v1/messages"),
        ("anthropic", "http://h/v1/", "http://h/v1/messages"),
        ("anthropic", "http://h/v1/messages", "http://h/v1/messages"),
        ("anthropic", "https://h/anthropic", "https://h/anthropic/v1/messages"),
        ("openai", "http://h:8080", "http://h:8080/v1/chat/completions"),
        ("openai", "http://h:8080/v1/", "http://h:8080/v1/chat/completions"),
        ("openai", "https://h/openai/v1", "https://h/openai/v1/chat/completions"),
        ("openai", "https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
        ("openai", "https://h/api/paas/v4", "https://h/api/paas/v4/chat/completions"),
        ("openai", "https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        ("openai", "https://h/v1?api-version=1", "https://h/v1/chat/completions?api-version=1"),
        ("openai", "http://[::1]:8080", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_base_urls(kind: str, base: str, url: str) -> None:
    assert resolve_endpoint(kind, base_url=base, environ={}).url == url


@pytest.mark.parametrize(
    "base", ["localhost:8080", "ftp://h", "http://", "http://h:99999", "http://[::1", "http://a b", "http://h\n/x", "x"]
)
def test_what_is_no_base_url(base: str) -> None:
    with pytest.raises(SummarizerError, match="invalid base URL") as caught:
        resolve_endpoint("openai", base_url=base, environ={})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("base", ["http://user:hush@h", "user:hush@h", "http://hush@h"])
def test_no_password_in_the_url(base: str) -> None:
    with pytest.raises(SummarizerError, match="contains a user or a password") as caught:
        resolve_endpoint("openai", base_url=base, environ={})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("value", ["sk-with\nline", "sk-é", "sk-\x1b[0m"])
def test_a_key_that_no_header_can_carry(value: str) -> None:
    with pytest.raises(SummarizerError, match="OPENAI_API_KEY contains characters") as caught:
        resolve_endpoint("openai", environ={"OPENAI_API_KEY": value})
    assert "sk-" not in str(caught.value)


def test_unknown_kind() -> None:
    with pytest.raises(SummarizerError, match="'gemini'; available: anthropic, openai"):
        resolve_endpoint("gemini", environ={})


def test_the_key_is_never_shown() -> None:
    endpoint = Endpoint("openai", "http://h", "m", ApiKey(SECRET))
    key = endpoint.key
    for text in (repr(endpoint), str(endpoint), f"{key}", f"{key!r:>20}", repr([key]), repr(vars(endpoint))):
        assert SECRET not in text
        assert "key" in text
    with pytest.raises(TypeError):
        pickle.dumps(endpoint)
    assert not hasattr(key, "__dict__")
    assert copy.copy(endpoint) is not None
    assert endpoint.redact(f"bad {SECRET}!") == "bad [key]!"


@pytest.mark.parametrize("url", ["http://host:0", "http://evil.test\\.localhost"])
def test_a_port_or_a_host_that_cannot_be(url: str) -> None:
    with pytest.raises(SummarizerError, match="invalid base URL"):
        resolve_endpoint("openai", base_url=url, environ={"CONTEXT_TUI_CONFIG": "/nowhere"})
