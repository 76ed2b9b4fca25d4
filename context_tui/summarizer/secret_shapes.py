"""Shapes of well-known secrets: a table with one row per kind of key or token.

Repetitions in the patterns are bounded, so that the search takes linear time.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_WORD_CHAR = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"
_END = "(?![A-Za-z0-9])"
_HEX = "[a-f0-9]"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_BASE64 = "[A-Za-z0-9+/]"

# Kind, prefixes (separated by spaces), and the pattern of the rest.
_PREFIX_SHAPES = (
    # Models
    ("Anthropic key", "sk-ant-", _WORD_CHAR + "{20,300}"),
    ("OpenAI key", "sk-proj- sk-svcacct- sk-admin- sk-None-", _WORD_CHAR + "{20,300}"),
    ("OpenAI key", "sess-", _ALNUM + "{40}" + _END),
    ("OpenAI key", "sk-", _ALNUM + "{20,200}(?![A-Za-z0-9-])"),
    ("OpenRouter key", "sk-or-v1-", _WORD_CHAR + "{20,300}"),
    ("Langfuse key", "sk-lf-", _UUID),
    ("Cerebras key", "csk-", "[a-z0-9]{40,64}" + _END),
    ("ElevenLabs key", "sk_", _HEX + "{48}" + _END),
    ("Cursor key", "key_", _HEX + "{64}"),
    ("E2B key", "e2b_", _HEX + "{40}"),
    ("Firecrawl key", "fc-", _HEX + "{32}" + _END),
    ("Fireworks key", "fw_", "(?=[A-Za-z]{0,40}[0-9])" + _ALNUM + "{22,40}" + _END),
    ("Groq key", "gsk_", _ALNUM + "{40,80}"),
    ("Hugging Face token", "hf_ api_org_", _ALNUM + "{30,64}" + _END),
    ("Jina key", "jina_", _WORD_CHAR + "{40,80}"),
    ("LangSmith key", "lsv2_pt_ lsv2_sk_", _HEX + "{32}_" + _HEX + "{10}"),
    ("LlamaCloud key", "llx-", _ALNUM + "{40,60}"),
    ("NVIDIA key", "nvapi-", _WORD_CHAR + "{40,100}"),
    ("Perplexity key", "pplx-", _ALNUM + "{32,64}"),
    ("Pinecone key", "pcsk_", "[A-Za-z0-9_]{40,100}"),
    ("RunPod key", "rpa_", _ALNUM + "{40,60}"),
    ("Replicate token", "r8_", _ALNUM + "{30,50}" + _END),
    ("Tavily key", "tvly-", _WORD_CHAR + "{24,64}"),
    ("Together key", "tgp_v1_", _WORD_CHAR + "{30,80}"),
    ("xAI key", "xai-", _WORD_CHAR + "{40,120}"),
    # Clouds and hosting
    ("Alibaba key id", "LTAI", _ALNUM + "{17,24}" + _END),
    ("AWS key id", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}" + _END),
    ("AWS key", "ABSK", _BASE64 + "{100,200}={0,2}"),
    ("AWS key", "amzn.mws.", _UUID),
    ("Azure key", "AccountKey= SharedAccessKey=", "([A-Za-z0-9+/%]{32,100}={0,2})"),
    ("Cloudflare key", "v1.0-", _HEX + "{24}-" + _HEX + "{140,150}"),
    ("Databricks token", "dapi", _HEX + r"{32}(?:-\d)?" + _END),
    ("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", _HEX + "{64}"),
    ("Docker token", "dckr_pat_ dckr_oat_", _WORD_CHAR + "{24,64}"),
    ("Doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", r"(?:[a-z0-9_-]{2,35}\.)?" + _ALNUM + "{40,44}"),
    ("Fly.io token", "fm1_ fm2_ fo1_", "[A-Za-z0-9+/=_-]{40,2000}"),
    ("Google key", "AIza", _WORD_CHAR + "{35}"),
    ("Google secret", "GOCSPX-", _WORD_CHAR + "{20,40}"),
    ("Google token", "ya29. 1//0", _WORD_CHAR + "{20,300}"),
    ("Heroku key", "HRKU-", _WORD_CHAR + "{36,80}"),
    ("Neon key", "napi_", "[a-z0-9]{60,70}"),
    ("Netlify token", "nfp_", _ALNUM + "{36,64}"),
    ("PlanetScale token", "pscale_tkn_ pscale_pw_ pscale_oauth_", "[A-Za-z0-9=._-]{32,64}"),
    ("Prefect key", "pnu_ pnb_", _ALNUM + "{36}" + _END),
    ("Pulumi token", "pul-", _HEX + "{40}"),
    ("Render key", "rnd_", _ALNUM + "{28,40}" + _END),
    ("signed URL", "X-Amz-Signature= X-Goog-Signature=", "([0-9a-fA-F]{64,512})"),
    ("Supabase key", "sbp_", _HEX + "{40}"),
    ("Supabase key", "sb_secret_", _WORD_CHAR + "{20,60}"),
    ("Tailscale key", "tskey-", "[a-z]{3,10}-[A-Za-z0-9-]{16,80}"),
    ("Tencent key id", "AKID", _ALNUM + "{32}" + _END),
    ("Vault token", "hvs. hvb. hvr.", _WORD_CHAR + "{20,300}"),
    ("Vault token", "s.", "(?=(?:[A-Za-z]{0,23}[0-9]){2})" + _ALNUM + r"{24}(?![\w.-])"),
    # Code and packages
    ("Artifactory key", "AKCp", _ALNUM + "{60,80}"),
    ("Bitbucket token", "ATBB", _ALNUM + "{24,40}" + _END),
    ("Buildkite token", "bkua_ bkaj_ bkct_", _HEX + "{40}"),
    ("CircleCI token", "CCIPAT_", _WORD_CHAR + "{40,80}"),
    ("Clojars token", "CLOJARS_", "[a-z0-9]{60}"),
    ("crates.io token", "cio", "(?=[A-Za-z]{0,32}[0-9])" + _ALNUM + "{32}" + _END),
    ("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", _ALNUM + "{36,255}"),
    ("GitHub token", "github_pat_", "[A-Za-z0-9_]{22,255}"),
    (
        "GitLab token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glsoat- glimt- glagent- gloas-",
        _WORD_CHAR + "{20,300}",
    ),
    ("npm token", "npm_", _ALNUM + "{36}" + _END),
    ("NuGet key", "oy2", "[a-z0-9]{43}" + _END),
    ("PyPI token", "pypi-", _WORD_CHAR + "{50,500}"),
    ("RubyGems key", "rubygems_", _HEX + "{48}"),
    ("SonarQube token", "sqp_ squ_ sqa_", _HEX + "{40}"),
    ("Sourcegraph token", "sgp_", "(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}"),
    # Messages and mail
    ("Brevo key", "xkeysib- xsmtpsib-", _HEX + "{64}-" + _ALNUM + "{16}"),
    ("Mailgun key", "key-", _HEX + "{32}" + _END),
    ("Resend key", "re_", "(?=[A-Za-z]{0,7}[0-9]|[0-9])" + _ALNUM + "{8}_" + _ALNUM + "{24}" + _END),
    ("SendGrid key", "SG.", _WORD_CHAR + r"{16,32}\." + _WORD_CHAR + "{30,64}"),
    (
        "Slack token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xoxb- xoxe.xoxp-",
        "[A-Za-z0-9-]{10,250}",
    ),
    ("Slack token", "xapp-", "[0-9]-[A-Za-z0-9-]{10,250}"),
    ("Slack webhook", "https://hooks.slack.com/", "(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,100}"),
    (
        "Discord webhook",
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
        r"\d{15,22}/(" + _WORD_CHAR + "{40,100})",
    ),
    ("Zapier webhook", "https://hooks.zapier.com/hooks/catch/", "[0-9]{4,12}/[A-Za-z0-9]{5,20}"),
    ("Twilio key", "SK", _HEX + "{32}" + _END),
    # Payments and shops
    ("Braintree token", "access_token$", "(?:production|sandbox)[$][0-9a-z]{16}[$]" + _HEX + "{32}"),
    ("EasyPost key", "EZAK EZTK", _ALNUM + "{54}" + _END),
    ("Flutterwave key", "FLWSECK-", "[A-Za-z0-9-]{12,80}"),
    ("Plaid token", "access-production- access-sandbox- access-development-", _UUID),
    ("Razorpay key", "rzp_live_ rzp_test_", _ALNUM + "{14,40}"),
    ("Shippo token", "shippo_live_ shippo_test_", _HEX + "{40}"),
    ("Shopify token", "shpat_ shpss_ shpca_ shppa_ shpua_", "[a-fA-F0-9]{32}"),
    ("Square token", "sq0atp- sq0csp- sq0idp-", _WORD_CHAR + "{22,60}"),
    ("Square token", "EAAA", _WORD_CHAR + r"{56,64}(?![\w-])"),
    ("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", _ALNUM + "{16,250}"),
    ("Stripe secret", "whsec_", _BASE64 + "{24,100}={0,2}"),
    # Tools
    ("1Password token", "ops_eyJ", "[A-Za-z0-9+/=]{60,3000}"),
    ("Airtable token", "pat", _ALNUM + r"{14}\." + _HEX + "{64}"),
    ("Atlassian token", "ATATT3 ATCTT3", "[A-Za-z0-9_=-]{60,300}"),
    ("Contentful token", "CFPAT-", _WORD_CHAR + "{40,60}"),
    ("Dropbox token", "sl.", r"(?:u\.)?" + _WORD_CHAR + "{100,1500}"),
    ("Dynatrace token", "dt0c01. dt0s01. dt0s16.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("Facebook token", "EAA", _ALNUM + "{90,300}"),
    ("Figma token", "figd_", _WORD_CHAR + "{38,60}"),
    ("Grafana token", "glc_", _BASE64 + "{32,400}={0,2}"),
    ("Grafana token", "glsa_", _ALNUM + "{32}_" + _HEX + "{8}"),
    ("HubSpot token", "pat-na1- pat-na2- pat-eu1-", _UUID),
    ("Infura key", "infura.io/v3/", "(" + _HEX + "{32})"),
    ("JWT", "eyJ", _WORD_CHAR + r"{10,4000}\.eyJ" + _WORD_CHAR + r"{5,8000}\." + _WORD_CHAR + "{10,2000}"),
    ("LaunchDarkly key", "sdk- api-", _UUID),
    ("Linear key", "lin_api_ lin_oauth_", _ALNUM + "{32,64}"),
    ("Mapbox token", "sk.eyJ", _WORD_CHAR + r"{20,200}\." + _WORD_CHAR + "{20,60}"),
    ("New Relic key", "NRAK- NRJS- NRII- NRRA-", "[A-Za-z0-9-]{19,40}"),
    ("Notion token", "ntn_", _ALNUM + "{40,60}"),
    ("Notion token", "secret_", _ALNUM + "{43}" + _END),
    ("PostHog key", "phx_", _ALNUM + "{40,60}"),
    ("Postman key", "PMAK-", _HEX + "{24}-" + _HEX + "{34}"),
    ("Sentry token", "sntrys_ sntryu_", "[A-Za-z0-9+/=_-]{40,300}"),
    ("Typeform token", "tfp_", _WORD_CHAR + "{40,80}"),
    ("wallet key", "xprv", _ALNUM + "{100,120}"),
    # Private keys: in the clear, of PuTTY, of age, and in base64 (as clusters are configured)
    (
        "private key",
        "-----BEGIN ",
        "[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,20000}"
        "(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    ("private key", "---- BEGIN SSH2 ", "[A-Z ]{0,20}PRIVATE KEY ----(?:[^-]|-(?!---)){0,20000}"),
    ("private key", "Private-Lines: ", r"\d{1,4}\s{1,2}((?:[A-Za-z0-9+/=]{20,80}\s{1,2}){1,100})"),
    ("private key", "AGE-SECRET-KEY-1", "[A-Z0-9]{50,70}"),
    ("private key", "LS0tLS1CRUdJTi", "(?:BQUklW|BSU0Eg|BFQyBQ|BPUEVO|BFTkNS|BEU0Eg)" + _BASE64 + "{40,20000}={0,2}"),
    # Hashes of passwords
    ("password hash", "$2a$ $2b$ $2y$", r"\d\d[$][./A-Za-z0-9]{53}"),
    ("password hash", "$argon2id$ $argon2i$", r"[A-Za-z0-9$=,./+-]{40,200}"),
    ("password hash", "$apr1$ $1$", r"[./A-Za-z0-9]{1,8}[$][./A-Za-z0-9]{22}"),
    ("password hash", "$y$", r"[./A-Za-z0-9]{1,12}[$][./A-Za-z0-9]{1,86}[$][./A-Za-z0-9]{43}"),
    ("password hash", "$6$", r"(?:rounds=\d{1,9}[$])?[./A-Za-z0-9]{1,16}[$][./A-Za-z0-9]{86}"),
)

# Secrets without a fixed prefix: kind, text that each one contains, and pattern.
_PATTERN_SHAPES = (
    ("Asana token", "/", r"(?<![\w/.])[12]/\d{13,19}(?:/\d{13,19})?:[0-9a-f]{32}" + _END),
    ("Azure secret", "Q~", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![\w~-])"),
    ("Azure signature", "sig=", r"(?<![A-Za-z0-9_])sig=([A-Za-z0-9+/%_-]{32,100}={0,2})"),
    ("Cloudflare token", "cf", r"cf(?<![\w-]cf)(?:ut|at|k)_[A-Za-z0-9_-]{36,80}"),
    ("Vercel token", "vc", r"vc(?<![\w-]vc)[aikpr]_[A-Za-z0-9]{40,70}" + _END),
    (
        "Discord token",
        ".",
        r"(?<![A-Za-z0-9_.-])[MNO](?=[A-Za-z_-]{0,27}[0-9])[A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"
        r"(?![\w-])",
    ),
    ("Firebase key", ":APA91b", r"(?<![\w-])AAAA[\w-]{7}:APA91b[\w-]{100,170}"),
    ("Mailchimp key", "-us", r"(?<![A-Za-z0-9])[0-9a-f]{32}-us\d{1,2}" + _END),
    ("Teams webhook", ".webhook.office.com", r"\.webhook\.office\.com/webhookb2/([A-Za-z0-9@/_-]{40,300})"),
    ("Telegram token", ":AA", r"(?<![A-Za-z0-9_])(?:bot)?\d{8,10}:AA[A-Za-z0-9_-]{32,34}(?![\w-])"),
    ("password", ":5432:", r":5432:[^\s:]{1,60}:[^\s:]{1,60}:([^\s:\"']{3,100})(?![\w:])"),
    ("Terraform token", ".atlasv1.", r"(?<![A-Za-z0-9_-])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}"),
)


class SecretShape(NamedTuple):
    """Shape of a kind of secret.

    Attributes:
        fixed: text that each such secret contains, in a run of 15 or more characters other than spaces and brackets
            (unless ``fixed`` contains a space); the pattern is tried only on texts that contain it.
        pattern: matches the secret with its group, or as a whole if there is no group.
    """

    kind: str
    fixed: str
    pattern: re.Pattern[str]


def _build_prefix_shape(kind: str, prefix: str, pattern: str) -> SecretShape:
    """Build a shape with a literal prefix, for a fast search; a word character may not precede the prefix."""
    literal = re.escape(prefix)
    return SecretShape(kind, prefix, re.compile(rf"{literal}(?<![A-Za-z0-9_-]{literal}){pattern}"))


SECRET_SHAPES = (
    *(
        _build_prefix_shape(kind, start, pattern)
        for kind, starts, pattern in _PREFIX_SHAPES
        for start in ([starts] if starts.endswith(" ") else starts.split(" "))
    ),
    *(SecretShape(kind, fixed, re.compile(pattern)) for kind, fixed, pattern in _PATTERN_SHAPES),
)
