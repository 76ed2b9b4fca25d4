"""The proxy of the environment: named, never used for this machine, and left out where ``NO_PROXY`` says so."""

from __future__ import annotations

import pytest

from context_tui.errors import SummarizerError
from context_tui.summarizer.endpoint import Endpoint
from context_tui.summarizer.settings import find_proxy, resolve_endpoint

PROXY = "http://proxy.test:3128"


def used(url: str, **environ: str) -> str:
    """The address of the proxy for *url*, empty for none."""
    proxy = find_proxy(url, environ)
    return proxy.url if proxy else ""


def test_which_variable_wins() -> None:
    assert used("https://x.test/v1") == ""
    assert used("https://x.test/v1", HTTP_PROXY=PROXY) == ""
    assert used("https://x.test/v1", HTTPS_PROXY=PROXY, ALL_PROXY="http://other.test") == PROXY
    assert used("http://x.test/v1", ALL_PROXY=PROXY) == PROXY
    assert used("http://x.test/v1", http_proxy=PROXY, HTTP_PROXY="http://other.test") == PROXY
    assert used("http://x.test/v1", HTTP_PROXY=" ", ALL_PROXY="") == ""
    assert used("http://x.test/v1", HTTP_PROXY="proxy.test:3128") == PROXY


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "llm.localhost", "127.0.0.1:9", "127.8.9.1", "[::1]:8080", "0.0.0.0:80"]
)
def test_never_for_this_machine(host: str) -> None:
    assert used(f"http://{host}/v1", HTTP_PROXY=PROXY, ALL_PROXY=PROXY) == ""


@pytest.mark.parametrize(
    ("exceptions", "url", "expected"),
    [
        ("*", "http://x.test", False),
        ("x.test", "http://x.test", False),
        ("a.test, x.test", "http://api.x.test", False),
        (".x.test", "http://api.x.test", False),
        ("*.X.test", "http://api.x.test", False),
        ("x.test:8080", "http://x.test:8080", False),
        ("x.test:8080", "http://x.test", True),
        ("x.test:443", "https://x.test", False),
        ("ax.test", "http://x.test", True),
        ("x.test", "http://ax.test", True),
        ("10.0.0.0/8", "http://10.1.2.3", False),
        ("10.0.0.0/8", "http://11.1.2.3", True),
        ("10.1.2.3", "http://10.1.2.3:99", False),
        ("fd00::/8", "http://[fd00::1]:99", False),
        ("[fd00::1]:99", "http://[fd00::1]:99", False),
        ("nonsense/x, :, ,99999999999999:1", "http://10.1.2.3", True),
    ],
)
def test_exceptions(exceptions: str, url: str, expected: bool) -> None:
    environ = {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}
    assert bool(used(url, **environ)) is expected


@pytest.mark.parametrize("value", ["nonsense://x", "http://", "http://x:99999", "http://[x", "http://x\n"])
def test_what_is_no_proxy(value: str) -> None:
    with pytest.raises(SummarizerError, match="ALL_PROXY is not the address of a proxy"):
        used("http://x.test", ALL_PROXY=value.replace("\n", "\x00y"))


def test_the_password_of_a_proxy_is_not_shown() -> None:
    environ = {"HTTPS_PROXY": "http://bob:hush@proxy.test:3128", "OPENAI_API_KEY": "x"}
    endpoint = resolve_endpoint("openai", environ=environ)
    assert endpoint.destination == "api.openai.com through the proxy proxy.test:3128"
    assert "hush" not in repr(endpoint) + str(endpoint.proxy)
    assert Endpoint("openai", "http://x.test", "m").destination == "x.test"


@pytest.mark.parametrize(
    "host", ["127.1", "2130706433", "0x7f.1", "localhost.", "[::ffff:127.0.0.1]", "api.localhost."]
)
def test_this_machine_by_any_of_its_names(host: str) -> None:
    assert find_proxy(f"http://{host}:8080", {"ALL_PROXY": "http://proxy:3128"}) is None
