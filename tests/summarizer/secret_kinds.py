"""Made-up secrets of common kinds, in the places where they usually stand.

They are put together here, so that no scanner of repositories takes them for real ones.
"""

from __future__ import annotations

import base64
import hashlib

_DIGEST = hashlib.sha512(b"not a secret").digest() + hashlib.sha512(b"nor this").digest()
HEX = _DIGEST.hex()
ALNUM = "".join(c for c in base64.b64encode(_DIGEST * 2).decode() if c.isalnum())  # over 300 letters and digits
_B64 = base64.b64encode(_DIGEST).decode()
_UUID = f"{HEX[:8]}-{HEX[8:12]}-{HEX[12:16]}-{HEX[16:20]}-{HEX[20:32]}"


def _token(start: str, length: int, of: str = ALNUM) -> str:
    return start + of[:length]


_PEM = "-----BEGIN " + "{0}PRIVATE KEY-----\n" + _B64[:64] + "\n" + _B64[64:100] + "\n-----END {0}PRIVATE KEY-----"

# What it is, the text around it with {} in its place, and the secret itself.
KINDS: tuple[tuple[str, str, str], ...] = (
    # Models
    ("Anthropic", "{}", _token("sk-" + "ant-api03-", 80)),
    ("OpenAI, old", "OPENAI={}", _token("sk" + "-", 48)),
    ("OpenAI, project", "key {} is", _token("sk-" + "proj-", 100)),
    ("OpenRouter", "{}", _token("sk-or-" + "v1-", 64, HEX)),
    ("Groq", "{}", _token("gs" + "k_", 52)),
    ("xAI", "{}", _token("xa" + "i-", 80)),
    ("Perplexity", "{}", _token("ppl" + "x-", 48)),
    ("Hugging Face", "{}", _token("h" + "f_", 34)),
    ("Replicate", "{}", _token("r" + "8_", 37)),
    ("NVIDIA", "{}", _token("nv" + "api-", 64)),
    ("Cohere, by name", "CO_API_KEY={}", ALNUM[:40]),
    ("Mistral, by name", "export MISTRAL_API_KEY='{}'", ALNUM[7:39]),
    # Code
    ("GitHub, personal", "{}", _token("gh" + "p_", 36)),
    ("GitHub, application", "{}", _token("gh" + "s_", 36)),
    ("GitHub, fine-grained", "{}", _token("github" + "_pat_", 22) + "_" + ALNUM[:59]),
    ("GitLab", "{}", _token("gl" + "pat-", 20)),
    ("Bitbucket", "{}", _token("AT" + "BB", 32)),
    ("Atlassian", "{}", _token("AT" + "ATT3x", 180)),
    ("npm", "{}", _token("np" + "m_", 36)),
    ("npm, configuration", "//registry.npmjs.org/:_authToken={}", _UUID),
    ("PyPI", "{}", _token("py" + "pi-AgEIcHlwaS5vcmc", 120)),
    ("RubyGems", "{}", _token("ruby" + "gems_", 48, HEX)),
    ("crates.io", "{}", _token("c" + "io", 32)),
    ("Docker Hub", "{}", _token("dckr" + "_pat_", 27)),
    ("Docker registry", '{{"auths": {{"x.test": {{"auth": "{}"}}}}}}', base64.b64encode(b"bob:hunter2").decode()),
    ("docker login", "docker login -u bob -p {} x.test", "hunter2"),
    # Clouds
    ("AWS key id", "{}", _token("AK" + "IA", 16, "Q7ZK2LX9VB4NW8RT")),
    ("AWS, temporary key id", "{}", _token("AS" + "IA", 16, "Q7ZK2LX9VB4NW8RT")),
    ("AWS secret", "aws_secret_access_key = {}", _B64[:18] + "/" + ALNUM[:21]),
    ("AWS session", "AWS_SESSION_TOKEN={}", _B64[:120]),
    ("AWS signed URL", "https://b.test/x?X-Amz-Date=1&X-Amz-Signature={}", HEX[:64]),
    ("Google API", "{}", _token("AI" + "za", 35)),
    ("Google OAuth secret", "{}", _token("GOC" + "SPX-", 28)),
    ("Google access", "{}", _token("ya" + "29.", 120)),
    ("Google refresh", "refresh {}", _token("1/" + "/0", 90)),
    ("Azure storage", "AccountName=x;AccountKey={};EndpointSuffix=y", _B64[:86] + "=="),
    ("Azure service bus", "SharedAccessKeyName=Root;SharedAccessKey={}", _B64[:43] + "="),
    ("Azure SAS", "https://x.test/c?sv=2022-11-02&sig={}&se=1", _B64[:40].replace("/", "%2F") + "%3D"),
    ("Azure client secret", "{}", "Ab1" + "8Q~" + ALNUM[:34]),
    ("DigitalOcean", "{}", _token("dop" + "_v1_", 64, HEX)),
    ("Heroku, by name", "HEROKU_API_KEY={}", _UUID),
    ("Databricks", "{}", _token("da" + "pi", 32, HEX)),
    ("Vault", "{}", _token("hv" + "s.", 90)),
    ("Terraform", "{}", ALNUM[:14] + ".atlas" + "v1." + ALNUM[:67]),
    ("Doppler", "{}", _token("dp." + "pt.", 43)),
    ("Cloudflare, by name", "CLOUDFLARE_API_TOKEN: {}", ALNUM[:40]),
    ("Datadog, by name", "DD_API_KEY={}", HEX[:32]),
    ("Supabase", "{}", _token("sb" + "p_", 40, HEX)),
    ("cluster", "client-key-data: {}", base64.b64encode(_PEM.format("RSA ").encode()).decode()),
    # Messages
    ("Slack, bot", "{}", _token("xo" + "xb-123456789012-", 24)),
    ("Slack, application", "{}", _token("xa" + "pp-1-A0123-", 64)),
    ("Slack webhook", "{}", "https://hooks.slack" + ".com/services/T0123/B0123/" + ALNUM[:24]),
    ("Discord, bot", "{}", _token("M", 23) + "7." + ALNUM[:6] + "." + ALNUM[:38]),
    ("Discord webhook", "https://discord.com/api/webhooks/123456789012345678/{}", ALNUM[:68]),
    ("Telegram", "{}", "1234567890" + ":AA" + ALNUM[:33]),
    ("Twilio", "{}", _token("S" + "K", 32, HEX)),
    ("Twilio, by name", "TWILIO_AUTH_TOKEN={}", HEX[:32]),
    ("SendGrid", "{}", _token("S" + "G.", 22) + "." + ALNUM[:43]),
    ("Mailgun", "{}", _token("ke" + "y-", 32, HEX)),
    ("Mailchimp", "{}", HEX[:32] + "-us" + "14"),
    # Shops
    ("Stripe", "{}", _token("sk" + "_live_", 24)),
    ("Stripe webhook", "{}", _token("wh" + "sec_", 32)),
    ("Square", "{}", _token("sq0" + "atp-", 22)),
    ("Shopify", "{}", _token("shp" + "at_", 32, HEX)),
    # Tools
    ("Linear", "{}", _token("lin" + "_api_", 40)),
    ("Notion", "{}", _token("nt" + "n_", 46)),
    ("Figma", "{}", _token("fi" + "gd_", 40)),
    ("Airtable", "{}", _token("pa" + "t", 14) + "." + HEX[:64]),
    ("Postman", "{}", _token("PM" + "AK-", 24, HEX) + "-" + HEX[:34]),
    ("New Relic", "{}", _token("NR" + "AK-", 27)),
    ("Asana", "{}", "1/1234567890123456:" + HEX[:32]),
    ("Firebase", "{}", "AAAA" + ALNUM[:7] + ":APA" + "91b" + ALNUM[:134]),
    ("subscription", '{{"primaryKey": "{}"}}', HEX[:32]),
    ("Grafana", "{}", _token("gl" + "sa_", 32) + "_" + HEX[:8]),
    ("Sentry", "{}", _token("sn" + "trys_", 80)),
    ("JWT", "{}", "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJ" + ALNUM[:20] + "." + ALNUM[:43]),
    # Keys
    ("RSA", "{}", _PEM.format("RSA ")),
    ("OpenSSH", "{}", _PEM.format("OPENSSH ")),
    ("PKCS 8", "{}", _PEM.format("")),
    ("PGP", "{}", _PEM.format("PGP ").replace("KEY-----", "KEY " + "BLOCK-----")),
    ("age", "{}", "AGE-SECRET" + "-KEY-1" + ALNUM[:58].upper()),
    # Passwords, cookies and headers
    ("variable", "DB_PASSWORD={}", "hunter2x"),
    ("variable of letters", "DB_PASSWORD={}", "swordfish"),
    ("pgpass", "db.test:5432:shop:bob:{}", "hunter2"),
    ("hash", "bob:{}:1", "$2" + "b$12$" + ALNUM[:53]),
    ("Wi-Fi", 'psk="{}"', "hunter22"),
    ("short name", "SMTP_PASS={}", "hunter2x"),
    ("with a slash", "password={}", "pa/ss/w0rd"),
    ("YAML", "password: '{}'", "correct-horse"),
    ("JSON", '{{"password": "{}"}}', "hunter"),
    ("XML", "<dbPassword>{}</dbPassword>", "hunter2"),
    ("SQL", "CREATE USER bob WITH PASSWORD '{}'", "hunter2"),
    ("form", "grant_type=x&client_secret={}&scope=all", ALNUM[:32]),
    ("URL", "postgres://bob:{}@db.test:5432/x", "s3cret"),
    ("URL with a slash", "postgres://bob:{}@db.test/x", "s3/cr/et"),
    ("URL, token alone", "https://{}@git.test/a.git", ALNUM[:40]),
    ("netrc", "machine git.test login bob password {}", "hunter2"),
    ("curl", "curl -s -u bob:{} https://x.test", "hunter2"),
    ("curl, cookie", "curl -s -b 'sid={}' https://x.test", ALNUM[:32]),
    ("flag with a sign", "tool --password={} --now", "swordfish"),
    ("curl, long", "curl --user 'bob:{}' https://x.test", "hunter2"),
    ("flag", "tool login --password {} --now", "hunter2x"),
    ("mysql", "mysql -u root -p{} shop", "hunter2"),
    ("sshpass", "sshpass -p '{}' ssh bob@x.test", "hunter2"),
    ("Basic", "Authorization: Basic {}", base64.b64encode(b"bob:hunter2").decode()),
    ("Bearer", "authorization: bearer {}", ALNUM[:40]),
    ("header", "X-Api-Key: {}", ALNUM[:32]),
    ("Set-Cookie", "Set-Cookie: sessionid={}; Path=/; HttpOnly", ALNUM[:32]),
    ("Cookie", "cookie: theme=dark; sid={}", "s%3A" + ALNUM[:24]),
    ("one-time passwords", "otpauth://totp/x?secret={}&issuer=y", "JBSWY3DPEHPK3PXP"),
)
