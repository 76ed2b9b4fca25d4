"""Selection of a proxy from environment variables by the rules of ``urllib.request``."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from context_tui.errors import SummarizerError

_SCHEMES = ("http", "https", "socks5", "socks5h")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Proxy:
    """A proxy server, whose URL is not displayed because it may hold a password."""

    url: str = field(repr=False)

    @property
    def host(self) -> str:
        """Host and port of the proxy, for display."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


def find_proxy(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for requests to *url*, or None for loopback addresses and hosts listed in ``NO_PROXY``.

    The variable of the URL's scheme (``HTTP_PROXY``, ``HTTPS_PROXY``) takes precedence over ``ALL_PROXY``, and lower
    case over upper case.

    Raises:
        SummarizerError: the variable does not hold the address of a proxy.
    """
    names = {name.lower(): name for name in sorted(environ) if environ[name].strip()}  # lower case sorts last
    parts = urlsplit(url)
    name = names.get(f"{parts.scheme}_proxy") or names.get("all_proxy")
    if name is None or _is_loopback(parts.hostname or ""):
        return None
    if "no_proxy" in names and _is_bypassed(parts, environ[names["no_proxy"]]):
        return None
    value = environ[name].strip()
    return Proxy(_check_proxy_url(name, value if "://" in value else f"http://{value}"))


def _check_proxy_url(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0 and url.isprintable()
    except ValueError:
        valid = False
    if not valid:  # the value may hold a password: do not quote it
        raise SummarizerError(f"{name} is not the address of a proxy; use one like http://proxy:3128, or unset it")
    return url


def _is_loopback(host: str) -> bool:
    host = host.removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _parse_address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address, including the short forms that systems accept (``127.1``) and IPv4 mapped to IPv6."""
    try:
        address = ipaddress.ip_address(host)
        return getattr(address, "ipv4_mapped", None) or address
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def _is_bypassed(parts: SplitResult, no_proxy: str) -> bool:
    """Return whether ``NO_PROXY`` covers an address.

    ``urllib`` matches names, domains and ports; networks (``10.0.0.0/8``) and bare IPv6 addresses are matched here.
    """
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # slow, rarely needed

    entries = [entry.removeprefix("*.") for entry in re.split(r"[,\s]+", no_proxy)]
    host = parts.hostname or ""
    netloc = f"[{host}]" if ":" in host else host
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    if "*" in entries or proxy_bypass_environment(f"{netloc}:{port}", {"no": ",".join(entries)}):
        return True
    address = _parse_address(host)
    return address is not None and any(_is_in_network(address, entry.strip("[]")) for entry in entries)


def _is_in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
