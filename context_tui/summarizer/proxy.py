"""Proxy of the environment for an address, by the same variables as other programs."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from context_tui.errors import SummarizerError

_SCHEMES = ("http", "https", "socks5", "socks5h")


@dataclass(frozen=True)
class Proxy:
    """A proxy; its address may hold a password and is not shown."""

    url: str = field(repr=False)

    @property
    def host(self) -> str:
        """Host and port, for display."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


def find_proxy(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for requests to *url*; None for this machine, and for the exceptions of ``NO_PROXY``.

    ``HTTP_PROXY`` or ``HTTPS_PROXY`` (by the scheme of *url*) goes before ``ALL_PROXY``, lower case before upper.

    Raises:
        SummarizerError: the variable holds no address of a proxy.
    """
    parts = urlsplit(url)
    if _is_loopback(parts.hostname or "") or _is_excepted(parts, _read_variable(environ, "no_proxy")[1]):
        return None
    for wanted in (f"{parts.scheme}_proxy", "all_proxy"):
        name, value = _read_variable(environ, wanted)
        if value:
            return Proxy(_check_proxy_url(name, value if "://" in value else f"http://{value}"))
    return None


def _read_variable(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the name in the case that is set, and its value."""
    for each in (name, name.upper()):
        if value := environ.get(each, "").strip():
            return each, value
    return name, ""


def _check_proxy_url(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0 and url.isprintable()
    except ValueError:
        valid = False
    if not valid:  # perhaps with a password in it: not to be repeated
        raise SummarizerError(f"{name} is not the address of a proxy; use one like http://proxy:3128, or unset it")
    return url


def _is_loopback(host: str) -> bool:
    host = host.removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _parse_address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse the address of a host; also in forms that systems still accept (``127.1``), or as IPv6 wraps it."""
    try:
        address = ipaddress.ip_address(host)
        return getattr(address, "ipv4_mapped", None) or address
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def _is_excepted(parts: SplitResult, exceptions: str) -> bool:
    """Return whether a list of hosts, domains, networks and ``*`` covers the address; each may name a port."""
    host, address = parts.hostname or "", _parse_address(parts.hostname or "")
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    for entry in re.split(r"[,\s]+", exceptions.lower()):
        name, colon, number = entry.rpartition(":")
        if colon and number.isdecimal() and (":" not in name or name.endswith("]")):
            if int(number[:6]) != port:
                continue
            entry = name
        entry = entry.strip("[]").removeprefix("*").lstrip(".") if entry != "*" else entry
        if entry == "*" or (entry and (host == entry or host.endswith(f".{entry}"))):
            return True
        if address is not None and "/" in entry and _is_in_network(address, entry):
            return True
    return False


def _is_in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
