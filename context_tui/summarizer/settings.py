"""Settings of an endpoint, from flags, the environment, the configuration file and defaults, in this order.

Keys come from the environment only. In the configuration file (:mod:`context_tui.app.config`)::

    [summarizer.anthropic]
    model = "claude-haiku-4-5"
    base_url = "http://localhost:8080"
    read_timeout = 600      # seconds without a byte until the server counts as hung
    total_timeout = 3600    # seconds until the call is abandoned
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlsplit

from context_tui.app.config import ConfigError, find_config_path, read_tables, require_table
from context_tui.errors import SummarizerError
from context_tui.summarizer import endpoint

_FILE_KEYS = ("model", "base_url", "read_timeout", "total_timeout")
_SECRET_KEYS = ("key", "api_key", "apikey", "token", "auth_token", "secret", "password")
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def resolve_endpoint(
    kind: str, model: str | None = None, base_url: str | None = None, *, environ: Mapping[str, str] | None = None
) -> endpoint.Endpoint:
    """Build the endpoint that the flags, the environment and the configuration file describe.

    A URL that is set but empty is an error, so that nothing is sent to the default service by mistake.

    Raises SummarizerError if the kind is unknown, a setting is empty or invalid, or a key is missing.

    Args:
        kind: name of the API in ``APIS``.
        environ: the environment variables, which also select the configuration file; by default those of the process.
    """
    api = endpoint.APIS.get(kind)
    if api is None:
        raise SummarizerError(f"unknown summarizer {kind!r}; available: {', '.join(endpoint.APIS)}")
    environ = os.environ if environ is None else environ
    table = _read_config_table(find_config_path(environ)).get(kind, {})
    prefix = kind.upper()
    if model is not None and not model.strip():
        raise SummarizerError("the name of the model is empty; give one, or omit --model")
    explicit_url = _resolve_url(base_url, environ, f"{prefix}_BASE_URL") or table.get("base_url")
    url = _check_url(explicit_url or api.base_url)
    variable, key = _find_key(api, environ)
    if key is None and explicit_url is None:
        variables = " or ".join(reversed([*api.key_headers]))
        raise SummarizerError(f"no key for {api.base_url}; set {variables}, or give another server with --base-url")
    return endpoint.Endpoint(
        kind=kind,
        base_url=url,
        model=model or _read_variable(environ, f"{prefix}_MODEL") or table.get("model") or api.default_model,
        key=key,
        read_timeout=float(table.get("read_timeout", endpoint.READ_TIMEOUT)),
        total_timeout=float(table.get("total_timeout", endpoint.TOTAL_TIMEOUT)),
        bearer=key is not None and api.key_headers[variable] == endpoint.BEARER_HEADER,
        proxy=find_proxy(url, environ),
    )


def _resolve_url(flag: str | None, environ: Mapping[str, str], variable: str) -> str:
    for name, url in (("--base-url", flag), (variable, environ.get(variable))):
        if url is not None:
            if not url.strip():
                remedy = f"give an address like http://localhost:8080, or omit {name}"
                raise SummarizerError(f"{name} is empty; {remedy}")
            return url
    return ""


def _read_variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _find_key(api: endpoint.Api, environ: Mapping[str, str]) -> tuple[str, endpoint.ApiKey | None]:
    for name in api.key_headers:
        if value := _read_variable(environ, name):
            # httpx would quote an invalid header value, and so the key, in its error.
            if not (value.isascii() and value.isprintable()):
                raise SummarizerError(f"{name} contains characters that are invalid in a key; set it again")
            return name, endpoint.ApiKey(value)
    return "", None


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
        parts = urlsplit("")
    if "@" in parts.netloc or ("@" in url and not valid):  # may be a password: do not quote it
        remedy = "remove it, and set the key in the environment"
        raise SummarizerError(f"the base URL contains a user or a password; {remedy}")
    if not valid or not url.isprintable() or " " in url.strip() or "\\" in url:
        raise SummarizerError(f"invalid base URL {url!r}; use one like http://localhost:8080")
    return url.strip()


def _read_config_table(path: Path) -> dict[str, dict[str, Any]]:
    try:
        data = read_tables(path)
        for name in data:  # other tables belong to other parts of the program
            if name != "summarizer" and get_close_matches(name, ["summarizer"], cutoff=0.8):
                _raise_unknown(path, name, ["summarizer"])
        table = require_table(path, "summarizer", data.get("summarizer", {}))
        for name, value in table.items():
            if name not in endpoint.APIS:
                _raise_unknown(path, f"summarizer.{name}", [f"summarizer.{kind}" for kind in endpoint.APIS])
            table_name = f"summarizer.{name}"
            _check_endpoint_table(path, endpoint.APIS[name], table_name, require_table(path, table_name, value))
    except ConfigError as error:
        raise SummarizerError(str(error)) from None
    return table


def _check_endpoint_table(path: Path, api: endpoint.Api, table_name: str, table: dict[str, Any]) -> None:
    for name, value in table.items():
        if name.lower().replace("-", "_") in _SECRET_KEYS:
            remedy = f"remove it and set {[*api.key_headers][-1]}"
            raise SummarizerError(f"{path}: {table_name}.{name}: keys are never read from a file; {remedy}")
        if name not in _FILE_KEYS:
            _raise_unknown(path, f"{table_name}.{name}", [f"{table_name}.{key}" for key in _FILE_KEYS])
        if name in ("read_timeout", "total_timeout"):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise SummarizerError(f"{path}: {table_name}.{name} must be a number of seconds above 0; fix it")
        elif not isinstance(value, str) or not value.strip():
            raise SummarizerError(f"{path}: {table_name}.{name} must be a string; put it in quotes")


def _raise_unknown(path: Path, name: str, known_names: list[str]) -> NoReturn:
    matches = get_close_matches(name, known_names, n=1, cutoff=0.0)
    hint = f"did you mean {matches[0]}?" if matches else f"available: {', '.join(known_names)}"
    raise SummarizerError(f"{path}: unknown setting {name}; {hint}")


# The proxy, by the rules of ``urllib.request``


def find_proxy(url: str, environ: Mapping[str, str]) -> endpoint.Proxy | None:
    """Return the proxy for requests to *url*, or None for loopback addresses and hosts listed in ``NO_PROXY``.

    The variable of the URL's scheme (``HTTP_PROXY``, ``HTTPS_PROXY``) takes precedence over ``ALL_PROXY``, and lower
    case over upper case.

    Raises SummarizerError if the variable does not hold the address of a proxy.
    """
    names = {name.lower(): name for name in sorted(environ) if environ[name].strip()}  # lower case sorts last
    parts = urlsplit(url)
    name = names.get(f"{parts.scheme}_proxy") or names.get("all_proxy")
    if name is None or _is_loopback(parts.hostname or ""):
        return None
    if "no_proxy" in names and _is_bypassed(parts, environ[names["no_proxy"]]):
        return None
    value = environ[name].strip()
    return endpoint.Proxy(_check_proxy_url(name, value if "://" in value else f"http://{value}"))


def _check_proxy_url(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _PROXY_SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0 and url.isprintable()
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
