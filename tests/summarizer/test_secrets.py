"""Secrets: the well-known shapes are found, everyday text is left alone, masking keeps the structure."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_tui.summarizer.secrets import find_secrets, mask_text

from .secret_kinds import KINDS

# Put together here, so that no scanner of repositories takes them for real ones.
RANDOM = "q7Zk2Lx9Vb4Nw8Rt1Ys6Hd3Jf5Gp0Mc"
SECRETS = {
    "AWS key id": "AKIA" + "IOSFODNN7EXAMPLE",
    "GitHub token": "ghp_" + RANDOM + "abcde",
    "Anthropic key": "sk-ant-" + "api03-" + RANDOM,
    "OpenAI key": "sk-" + "proj-" + RANDOM,
    "Slack token": "xoxb-" + "1234567890-" + RANDOM,
    "Google key": "AIza" + RANDOM + "abcd",
    "GitLab token": "glpat-" + RANDOM[:20],
    "Stripe key": "sk_live_" + RANDOM,
    "npm token": "npm_" + RANDOM + "abcde",
    "JWT": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + RANDOM,
    "private key": "-----BEGIN " + "RSA PRIVATE KEY-----\nProc-Type: 4\n" + RANDOM + "\n-----END RSA PRIVATE KEY-----",
}


def masked(text: str) -> str:
    return mask_text(text)[0]


@pytest.mark.parametrize("kind", SECRETS)
def test_shapes(kind: str) -> None:
    secret = SECRETS[kind]
    for around in ("{}", "before {} after", '"{}"', "X={}\n", "({})"):
        text = around.format(secret)
        (found,) = find_secrets(text)
        assert (found.kind, text[found.start : found.end]) == (kind, secret)
        assert masked(text) == around.format(f"[masked {kind}]")


@pytest.mark.parametrize("colour", ["\x1b[01;31m\x1b[K", "\\u001b[1m", "\\x1b[31m", "\\033[0;31m", "^[[32m", "\x1b(B"])
def test_escape_sequences_are_boundaries(colour: str) -> None:
    for kind in ("GitHub token", "Stripe key", "AWS key id"):
        secret = SECRETS[kind]
        divided = f"{secret[:9]}{colour}{secret[9:]}"
        for text in (f"{colour}{secret}{colour}", f"error{colour}{secret}", f"x: {colour}{divided}{colour} y", divided):
            assert f"[masked {kind}]" in masked(text)
            assert secret not in masked(text) and secret[9:] not in masked(text)
    assert "hunter2" not in masked(f"{colour}password{colour}={colour}hunter2{colour}")
    assert masked(f"{colour}plain{colour} text") == f"{colour}plain{colour} text"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=hunter2", "password=[masked password]"),
        ("DB_PASSWORD: 'hunter'", "DB_PASSWORD: '[masked password]'"),
        ('{"password": "hunter2", "x": 1}', '{"password": "[masked password]", "x": 1}'),
        ('\\"passwd\\": \\"hunter2\\"', '\\"passwd\\": \\"[masked password]\\"'),
        (f"api_key = {RANDOM}", "api_key = [masked secret]"),
        (f"export SERVICE_KEY={RANDOM};", "export SERVICE_KEY=[masked secret];"),
        (f"client_secret => '{RANDOM}'", "client_secret => '[masked secret]'"),
        (f"aws_secret_access_key={RANDOM}", "aws_secret_access_key=[masked secret]"),
        (f"Authorization: Bearer {RANDOM}", "Authorization: Bearer [masked authorization]"),
        ("postgres://bob:s3cret@db.test/x", "postgres://bob:[masked password in a URL]@db.test/x"),
        ("redis://:s3cret@db.test", "redis://:[masked password in a URL]@db.test"),
    ],
)
def test_assignments(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(("kind", "around", "secret"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_common_kinds(kind: str, around: str, secret: str) -> None:
    text = around.format(secret)
    (found,) = find_secrets(text)
    assert text[found.start : found.end] == secret
    for quoted in (json.dumps({"note": text}), json.dumps(json.dumps({"note": text}))):
        assert secret not in _meaning(masked(quoted))


def _meaning(text: str) -> str:
    """The text of a JSON string in which there may be JSON."""
    inner = json.loads(text)
    return _meaning(inner) if isinstance(inner, str) else str(inner["note"])


def test_enough_kinds() -> None:
    assert len(KINDS) >= 71


def test_escapes_hide_nothing() -> None:
    token = SECRETS["GitHub token"]
    for text in (
        token.replace("_", "\\u005f"),
        json.dumps(json.dumps(token.replace("_", "\\u005f"))),
        "password\\u003dhunter2x",
        json.dumps(SECRETS["private key"]),
    ):
        assert len(find_secrets(text)) == 1, text
    assert masked("password=a\\nb") == "password=a\\nb"  # two lines


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 8192, tokens=1234567890123456789",
        "password: string",
        "password = None",
        "password: str = Field(...)",
        "password = getpass.getpass()",
        "password=os.environ['DB_PASSWORD']",
        "password: ${DB_PASSWORD}",
        "password=********",
        "token = get_token_from_the_environment()",
        "token: Optional[SecretStr]",
        "PWD=/home/someone/project1",
        "primary_key=True, foreign_key = user_account_id",
        "tokenizer = cl100k_base_with_extra_tokens_2",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "git@github.com:owner/repo.git and https://host.test:8080/a@b",
        "http://user@host.test/",
        "task-management-system-with-a-long-name sk-learn-contrib-and-more",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "token=aaaaaaaaaaaaaaaaaaaaaaaa1111, api_key=1a1a1a1a1a1a1a1a1a1a1a1a",
        "The password must be at least 12 characters.",
        "Basic understanding-of-the-matter is enough",
        "[masked password] password=[masked password]",
        "docker run -u node:node image and chown -u bob:users",
        "docker://alpine:3.18@sha256:9f86d081",
        "https://host.test:8080/npm/@types/node",
        "Set-Cookie: theme=dark; Path=/; Max-Age=31536000",
        "Cookie: name=value",
        "machine learning login page password reset",
        "the --password option, --token TOKEN and --api-key <key>",
        "set PASSWORD=... and TOKEN=<token>",
        "password: your_password, password: 'пароль', pwd: \"src01\"",
        "obj.MyVeryLongIdentifier.method.anotherVeryLongIdentifierOfCode",
        "Authorization: Bearer YOUR_TOKEN_GOES_HERE",
        "<password></password> <token>string</token>",
        "The password is required and case-sensitive. The password is SHA256. The password is base64-encoded",
        "the password for the user is 8-character; the token is expired; my api key is invalid",
        "Das Passwort ist falsch, das Kennwort lautet anders",
        "ENV PASSWORD\nENV PATH /usr/local/bin:$PATH\nsetenv TOKEN $1",
        'os.environ.get("DB_PASSWORD", "") or getenv("API_TOKEN", "none")',
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: shop-credentials-1a2b3c",
        "kind: Secret\nmetadata:\n  name: shop-1a2b3c\n  namespace: default",
        'HEX_PAT = "[0-9A-Fa-f]{1,4}:(?:[0-9]{1,3})"',
        "openssl req -x509 -keyout key.pem; zip -r out.zip folder",
        "ConvertTo-SecureString $plain -AsPlainText -Force",
        "requests.get(url, auth=(user, password)); auth = ('user', '$PASSWORD'); PASSWORD('$1')",
        "echo $TOKEN | gh secret set TOKEN; mc alias set local http://localhost:9000 admin $PASSWORD",
        "cat a | git hash-object --stdin; pulumi config set --secret dbPassword; ngrok config add-authtoken $TOKEN",
        '{"name": "title", "value": "hello", "domain": "x.test"}, {"kty": "RSA", "e": "AQAB"}',
        "password: ['min:8'], token == b, key ||= value, password ?= b, setPassword(value), apiKey: String = name",
        "login: admin, password: required; user pass, reset-password/token, ssh-keygen -N '' -f key, cmdkey /list",
        "/hooks/authentication and https://x.test/a?Signature=none&secret_id=db",
    ],
)
def test_everyday_text(text: str) -> None:
    assert find_secrets(text) == []


def test_secrets_begin_lines_that_a_diff_removes_but_not_parts_of_words() -> None:
    token = SECRETS["GitHub token"]
    for line in (token, "mysql -u root -phunter2x shop", "echo 'hunter2x' | sudo -S true"):
        for before in ("-", "a\n-", "+", "a\n "):
            assert len(find_secrets(before + line)) == 1, before + line
        for before in ("a-", "a\n--", "x", "0", "_"):
            assert find_secrets(before + line) == [], before + line


def test_a_prefix_may_begin_another() -> None:
    for text in ("sk-" + RANDOM, "mysqldump -u root -phunter2x shop", "-passin pass:hunter2x", "-passwd hunter2x"):
        assert len(find_secrets(text)) == 1, text


def test_overlapping_finds_are_one() -> None:
    text = f"ANTHROPIC_API_KEY={SECRETS['Anthropic key']}"
    assert [secret.kind for secret in find_secrets(text)] == ["Anthropic key"]
    both = f"Bearer {RANDOM}.1234567890" + ":AA" + (RANDOM + "xyz")[:33]  # the second begins inside the first
    assert masked(both) == "Bearer [masked authorization]"
    url = f"postgres://bob:pw{SECRETS['Slack token']}@db.test"
    assert masked(url) == "postgres://bob:[masked password in a URL]@db.test"
    assert masked(f"Cookie: sid={RANDOM}AccountKey={RANDOM * 2}==") == "Cookie: sid=[masked cookie]"


@given(
    st.lists(st.sampled_from([*SECRETS.values(), " ", "x", "password=", '"', "\n", "id", ": ", "終"]), max_size=8).map(
        "".join
    )
)
def test_finds_are_in_order_and_masking_removes_them(text: str) -> None:
    found = find_secrets(text)
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    assert all(0 <= secret.start < secret.end <= len(text) for secret in found)
    result, counts = mask_text(text)
    assert sum(counts.values()) == len(found)
    assert result.count("[masked ") == len(found)
    assert json.loads(json.dumps(result)) == result
