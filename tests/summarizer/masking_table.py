"""Kinds of secrets, in the contexts in which sessions hold them, with values that are made up anew for each.

``python -m tests.summarizer.masking_table`` prints the share that is masked for each context, and what is not masked.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from context_tui.summarizer.secrets import mask_text

# One kind a line: its name, and a text with the secret between ⟦ and ⟧; ¶ is a line break. «A40» stands for forty
# letters and digits; L is lower case and digits, U upper case and digits, H hex, W letters, digits, - and _, B base64,
# D digits, P a password, G a UUID and E a user and password in base64. Nothing here is a secret.
KINDS = """
Anthropic|⟦sk-ant-api03-«W93»AA⟧
Anthropic OAuth|⟦sk-ant-oat01-«W93»AA⟧
Anthropic admin|⟦sk-ant-admin01-«W93»AA⟧
OpenAI old|⟦sk-«A48»⟧
OpenAI project|⟦sk-proj-«W120»⟧
OpenAI service|⟦sk-svcacct-«W100»⟧
OpenRouter|⟦sk-or-v1-«H64»⟧
Groq|⟦gsk_«A52»⟧
xAI|⟦xai-«A80»⟧
Perplexity|⟦pplx-«A48»⟧
Hugging Face|⟦hf_«A34»⟧
Replicate|⟦r8_«A37»⟧
NVIDIA|⟦nvapi-«W64»⟧
Cerebras|⟦csk-«L48»⟧
Fireworks|⟦fw_«A22»7⟧
Together|⟦tgp_v1_«W43»⟧
ElevenLabs|⟦sk_«H48»⟧
Tavily|⟦tvly-dev-«A32»⟧
LangSmith|⟦lsv2_pt_«H32»_«H10»⟧
Pinecone|⟦pcsk_«A6»_«A60»⟧
Cohere variable|CO_API_KEY=⟦«A40»⟧
Mistral variable|export MISTRAL_API_KEY='⟦«A32»⟧'
DeepSeek|DEEPSEEK_API_KEY=⟦sk-«H32»⟧
Gemini|⟦AIza«W35»⟧
AWS key id|⟦AKIA«U16»⟧
AWS temporary id|⟦ASIA«U16»⟧
AWS secret|aws_secret_access_key = ⟦«B40»⟧
AWS secret JSON|"SecretAccessKey": "⟦«B40»⟧"
AWS session|AWS_SESSION_TOKEN=⟦IQoJb3JpZ2luX2Vj«B700»⟧
AWS session JSON|"SessionToken": "⟦FwoGZXIvYXdzE«B900»⟧"
AWS signed URL|https://b.s3.test/x?X-Amz-Date=20261101T000000Z&X-Amz-Signature=⟦«H64»⟧
AWS configure|aws configure set aws_secret_access_key ⟦«B40»⟧
Azure storage|DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=⟦«B86»==⟧;EndpointSuffix=core.test
Azure service bus|Endpoint=sb://x.test/;SharedAccessKeyName=Root;SharedAccessKey=⟦«B43»=⟧
Azure client secret|⟦«A3»8Q~«A34»⟧
Azure SAS|https://x.test/c?sv=2024-11-04&sig=⟦«A40»%3D⟧&se=2027
Azure DevOps|export AZURE_DEVOPS_EXT_PAT=⟦«L52»⟧
Azure DevOps quoted|AZURE_DEVOPS_EXT_PAT: "⟦«L52»⟧"
Azure OpenAI|AZURE_OPENAI_API_KEY=⟦«H32»⟧
Google OAuth secret|⟦GOCSPX-«W28»⟧
Google access|⟦ya29.a0«W120»⟧
Google refresh|⟦1//0«W90»⟧
Google service account|"private_key": "⟦-----BEGIN PRIVATE KEY-----\\n«B64»\\n«B64»\\n-----END PRIVATE KEY-----\\n⟧"
DigitalOcean|⟦dop_v1_«H64»⟧
Heroku|HEROKU_API_KEY=⟦«G»⟧
Heroku new|⟦HRKU-AA«W58»⟧
Databricks|⟦dapi«H32»⟧
Vault|⟦hvs.«W95»⟧
Terraform cloud|⟦«A14».atlasv1.«W67»⟧
Doppler|⟦dp.st.dev.«A43»⟧
Cloudflare variable|CLOUDFLARE_API_TOKEN: ⟦«W38»a7⟧
Cloudflare user token|⟦cfut_«A48»⟧
Cloudflare account token|⟦cfat_«A48»⟧
Cloudflare global key|⟦cfk_«A48»⟧
Cloudflare header|X-Auth-Key: ⟦«H37»⟧
Datadog|DD_API_KEY=⟦«H32»⟧
Datadog header|DD-APPLICATION-KEY: ⟦«H40»⟧
Supabase|⟦sbp_«H40»⟧
Supabase service|SUPABASE_SERVICE_ROLE_KEY=⟦eyJ«A33».eyJ«A120».«W43»⟧
Neon|⟦napi_«L64»⟧
PlanetScale|⟦pscale_tkn_«W43»⟧
Fly.io|⟦fm2_«A300»⟧
Netlify|⟦nfp_«A36»⟧
Vercel variable|VERCEL_TOKEN=⟦«A24»⟧
Vercel new|⟦vcp_«A56»⟧
Render|⟦rnd_«A28»⟧
Railway variable|RAILWAY_TOKEN=⟦«G»⟧
Pulumi|⟦pul-«H40»⟧
Tailscale|⟦tskey-auth-«A17»-«A32»⟧
Alibaba|ALIBABA_ACCESS_KEY_ID=⟦LTAI5t«A18»⟧
Tencent|⟦AKID«A32»⟧
GitHub personal|⟦ghp_«A36»⟧
GitHub OAuth|⟦gho_«A36»⟧
GitHub server|⟦ghs_«A36»⟧
GitHub fine-grained|⟦github_pat_«A22»_«A59»⟧
GitLab|⟦glpat-«W20»⟧
GitLab routable|⟦glpat-«W27».01.«L9»⟧
GitLab runner|⟦glrt-«W20»⟧
GitLab CI|⟦glcbt-64_«W20»⟧
Bitbucket|⟦ATBB«A32»⟧
Atlassian|⟦ATATT3xFfGF0«W170»=«U8»⟧
npm|⟦npm_«A36»⟧
npmrc|//registry.npmjs.org/:_authToken=⟦«G»⟧
npm config|npm config set //registry.npmjs.org/:_authToken ⟦«G»⟧
PyPI|⟦pypi-AgEIcHlwaS5vcmc«W150»⟧
RubyGems|⟦rubygems_«H48»⟧
crates.io|⟦cio«A31»7⟧
Docker Hub|⟦dckr_pat_«W27»⟧
docker config|{"auths": {"x.test": {"auth": "⟦«E»⟧"}}}
docker login|docker login -u bob -p ⟦«P»⟧ x.test
Sonar|⟦squ_«H40»⟧
CircleCI|⟦CCIPAT_«A22»_«H40»⟧
Buildkite|⟦bkua_«H40»⟧
NuGet|⟦oy2«L43»⟧
Artifactory|⟦AKCp«A69»⟧
Sourcegraph|⟦sgp_«H16»_«H40»⟧
Slack bot|⟦xoxb-«D12»-«D13»-«A24»⟧
Slack user|⟦xoxp-«D12»-«D12»-«D12»-«H32»⟧
Slack app|⟦xapp-1-A«U10»-«D13»-«H64»⟧
Slack webhook|⟦https://hooks.slack.com/services/T«U10»/B«U10»/«A24»⟧
Discord bot|⟦MT«A22»7.«W6».«W38»⟧
Discord webhook|https://discord.com/api/webhooks/«D18»/⟦«W68»⟧
Telegram|⟦«D10»:AA«W33»⟧
Twilio SID key|⟦SK«H32»⟧
Twilio token|TWILIO_AUTH_TOKEN=⟦«H32»⟧
SendGrid|⟦SG.«W22».«W43»⟧
Mailgun|⟦key-«H32»⟧
Mailgun new|MAILGUN_API_KEY=⟦«H32»-«H8»-«H8»⟧
Mailchimp|⟦«H32»-us14⟧
Postmark|X-Postmark-Server-Token: ⟦«G»⟧
Resend|RESEND_API_KEY=⟦re_«A8»_«A24»⟧
Resend alone|⟦re_«A8»_«A24»⟧
Brevo|⟦xkeysib-«H64»-«A16»⟧
Stripe live|⟦sk_live_«A99»⟧
Stripe restricted|⟦rk_live_«A99»⟧
Stripe webhook|⟦whsec_«A32»⟧
Square|⟦EAAA«W60»⟧
Shopify|⟦shpat_«H32»⟧
PayPal|PAYPAL_CLIENT_SECRET=⟦E«W79»⟧
Braintree|⟦access_token$production$«L16»$«H32»⟧
Plaid|PLAID_SECRET=⟦«H30»⟧
Razorpay|⟦rzp_live_«A14»⟧
Linear|⟦lin_api_«A40»⟧
Notion|⟦ntn_«D11»«A35»⟧
Notion old|⟦secret_«A43»⟧
Figma|⟦figd_«W40»⟧
Airtable|⟦pat«A14».«H64»⟧
Postman|⟦PMAK-«H24»-«H34»⟧
New Relic|⟦NRAK-«U27»⟧
Grafana|⟦glsa_«A32»_«H8»⟧
Sentry|⟦sntrys_eyJ«A90»⟧
Sentry DSN|https://⟦«H32»⟧@o1.ingest.test/2
PostHog|⟦phx_«A43»⟧
Algolia|ALGOLIA_ADMIN_KEY=⟦«H32»⟧
Mapbox|⟦sk.eyJ«A80».«W22»⟧
Contentful|⟦CFPAT-«W43»⟧
HubSpot|⟦pat-na1-«G»⟧
Dropbox|⟦sl.u.«W140»⟧
Asana|⟦2/«D16»/«D16»:«H32»⟧
Okta|Authorization: SSWS ⟦00«W40»⟧
PagerDuty|Authorization: Token token=⟦u+«A18»⟧
Snyk|SNYK_TOKEN=⟦«G»⟧
Codecov|CODECOV_TOKEN: ⟦«G»⟧
1Password|⟦ops_eyJ«A250»⟧
JWT|⟦eyJhbGciOiJIUzI1NiJ9.eyJ«A60».«W43»⟧
RSA key|⟦-----BEGIN RSA PRIVATE KEY-----¶«B64»¶«B64»¶-----END RSA PRIVATE KEY-----⟧
OpenSSH key|⟦-----BEGIN OPENSSH PRIVATE KEY-----¶«B70»¶«B70»¶-----END OPENSSH PRIVATE KEY-----⟧
age|⟦AGE-SECRET-KEY-1«U58»⟧
kubeconfig|    client-key-data: ⟦LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ«B300»⟧
kubeconfig token|    token: ⟦eyJhbGciOiJSUzI1NiJ9.eyJ«A200».«W86»⟧
WireGuard|PrivateKey = ⟦«B43»=⟧
bcrypt|⟦$2b$12$«A53»⟧
argon2|⟦$argon2id$v=19$m=65536,t=3,p=4$«A22»$«A43»⟧
variable|DB_PASSWORD=⟦«P»⟧
exported|export PGPASSWORD="⟦«P»⟧"
lower variable|db_password = '⟦«P»⟧'
YAML|  password: ⟦«P»⟧
YAML quoted|  password: "⟦«P»⟧"
JSON|{"user": "bob", "password": "⟦«P»⟧"}
camel|"dbPassword": "⟦«P»⟧",
properties|spring.datasource.password=⟦«P»⟧
XML|<password>⟦«P»⟧</password>
XML attribute|<add key="x" connectionString="Server=db;User Id=sa;Password=⟦«P»⟧;" />
ini|passwd = ⟦«P»⟧
PHP define|define('DB_PASSWORD', '⟦«P»⟧');
PHP define quoted|define( "SMTP_PASSWORD", "⟦«P»⟧" );
PHP define key|define('AUTH_KEY', '⟦«B64»⟧');
PHP array|'password' => '⟦«P»⟧',
Python default|os.environ.get("DB_PASSWORD", "⟦«P»⟧")
Python keyword|connect(host="db", password="⟦«P»⟧")
JavaScript|const client = new Client({ user: 'bob', password: '⟦«P»⟧' })
Dockerfile ENV|ENV DB_PASSWORD ⟦«P»⟧
Dockerfile ENV sign|ENV DB_PASSWORD=⟦«P»⟧
Dockerfile ENV token|ENV GITHUB_TOKEN ⟦«A40»⟧
Dockerfile ARG|ARG NPM_TOKEN=⟦«G»⟧
csh|setenv DB_PASSWORD ⟦«P»⟧
setx|setx DB_PASSWORD "⟦«P»⟧"
Apache|SetEnv DB_PASSWORD ⟦«P»⟧
Kubernetes env|        - name: DB_PASSWORD¶          value: "⟦«P»⟧"
Kubernetes env bare|        - name: API_TOKEN¶          value: ⟦«A40»⟧
Kubernetes env JSON|{"name": "DB_PASSWORD", "value": "⟦«P»⟧"}
ECS environment|      "name": "DB_PASSWORD",¶      "value": "⟦«P»⟧"
Kubernetes Secret|apiVersion: v1¶kind: Secret¶metadata:¶  name: shop¶data:¶  username: Ym9i¶  database: ⟦«E»⟧
Kubernetes Secret first|apiVersion: v1¶data:¶  database: ⟦«E»⟧¶kind: Secret¶metadata:¶  name: shop
Kubernetes stringData|kind: Secret¶type: Opaque¶stringData:¶  connection: ⟦«P»⟧
Kubernetes Secret JSON|{"apiVersion": "v1", "kind": "Secret", "data": {"conn": "⟦«E»⟧"}}
kubectl literal|kubectl create secret generic db --from-literal=password=⟦«P»⟧
Compose|      POSTGRES_PASSWORD: ⟦«P»⟧
Compose list|      - MYSQL_ROOT_PASSWORD=⟦«P»⟧
docker run|docker run -e POSTGRES_PASSWORD=⟦«P»⟧ -d postgres:16
Helm|helm install db ./db --set auth.postgresPassword=⟦«P»⟧
Terraform variable|  password = "⟦«P»⟧"
PowerShell|ConvertTo-SecureString "⟦«P»⟧" -AsPlainText -Force
PowerShell string|$pw = ConvertTo-SecureString -String '⟦«P»⟧' -AsPlainText -Force
PowerShell variable|$env:DB_PASSWORD = "⟦«P»⟧"
openssl -k|openssl enc -aes-256-cbc -in a.txt -out a.enc -k ⟦«P»⟧
openssl -pass|openssl enc -d -aes-256-cbc -in a.enc -pass pass:⟦«P»⟧
zip|zip -r -P ⟦«P»⟧ out.zip folder
unzip|unzip -P ⟦«P»⟧ out.zip
7z|7z a -p⟦«P»⟧ out.7z folder
curl user|curl -s -u bob:⟦«P»⟧ https://x.test/api
curl header|curl -H "Authorization: Bearer ⟦«A40»⟧" https://x.test
curl key|curl -H 'X-Api-Key: ⟦«A32»⟧' https://x.test
mysql|mysql -h db -u root -p⟦«P»⟧ shop
psql URL|psql postgres://bob:⟦«P»⟧@db.test:5432/shop
MongoDB|mongodb+srv://bob:⟦«P»⟧@cluster0.test/shop
Redis|redis://:⟦«P»⟧@cache.test:6379/0
AMQP|amqp://bob:⟦«P»⟧@mq.test/vhost
git remote|git clone https://bob:⟦«A40»⟧@git.test/a.git
redis-cli|redis-cli -h cache -a ⟦«P»⟧ ping
sshpass|sshpass -p '⟦«P»⟧' ssh bob@x.test
flag|deploy --user bob --password ⟦«P»⟧ --now
flag token|tool login --token ⟦«A40»⟧
netrc|machine git.test login bob password ⟦«P»⟧
netrc lines|machine git.test¶  login bob¶  password ⟦«P»⟧
pgpass|db.test:5432:shop:bob:⟦«P»⟧
SQL|CREATE USER bob WITH PASSWORD '⟦«P»⟧';
SQL identified|CREATE USER 'bob'@'%' IDENTIFIED BY '⟦«P»⟧';
JDBC|jdbc:postgresql://db.test/shop?user=bob&password=⟦«P»⟧
ODBC|Driver={x};Server=db;Uid=bob;Pwd=⟦«P»⟧;
said|The password is ⟦«P»⟧, please use it.
said for|the password for the staging database is ⟦«P»⟧
said quoted|The password is "⟦«P»⟧".
said key|my API key: ⟦«A32»⟧
said key is|my api key is ⟦«A32»⟧
said secret key|The secret key is ⟦«A40»⟧
said German|Das Passwort ist ⟦«P»⟧
said German lautet|das Passwort lautet: ⟦«P»⟧
said German colon|Passwort: ⟦«P»⟧
said German Kennwort|Mein Kennwort ist ⟦«P»⟧.
said German key|mein API-Schlüssel: ⟦«A32»⟧
said German key is|Der API-Key lautet ⟦«A32»⟧
Basic|Authorization: Basic ⟦«E»⟧
Cookie|Cookie: theme=dark; sessionid=⟦«L32»⟧
Set-Cookie|Set-Cookie: connect.sid=⟦s%3A«A32».«A43»⟧; Path=/; HttpOnly
TOTP|otpauth://totp/x?secret=⟦JBSWY3DP«U24»⟧&issuer=y
Rails|secret_key_base: ⟦«H128»⟧
Django|SECRET_KEY = 'django-insecure-⟦«A50»⟧'
Laravel|APP_KEY=base64:⟦«B43»=⟧
JWT secret|JWT_SECRET=⟦«A48»⟧
encryption key|ENCRYPTION_KEY=⟦«H64»⟧
Wi-Fi|    psk="⟦«P»⟧"
"""

# Made up before their author had read the rules, to score them: 2,153 of 3,186 values of these were masked then.
UNSEEN_KINDS = r"""
Vault service token env|export VAULT_TOKEN="⟦hvs.CAESI«W90»⟧"
Consul token|consul_http_token: ⟦«G»⟧
Nomad token header|X-Nomad-Token: ⟦«G»⟧
Vault unseal|Unseal Key 1: ⟦«B44»⟧
Vault root line|Initial Root Token: ⟦hvs.«A24»⟧
Kafka JAAS|sasl.jaas.config=org.apache.kafka.common.plain.PlainLoginModule required username="app" password="⟦«P»⟧";
Keystore|ssl.keystore.password=⟦«P»⟧
keytool|keytool -genkey -alias app -keystore app.jks -storepass ⟦«P»⟧
Maven settings|<server><id>nexus</id><username>ci</username><password>⟦«P»⟧</password></server>
Gradle properties|ossrhPassword=⟦«P»⟧
Gradle signing|signing.password=⟦«P»⟧
pip index|pip install --index-url https://ci:⟦«A40»⟧@pypi.corp.test/simple acme
poetry|poetry config http-basic.corp ci ⟦«P»⟧
twine|twine upload -u ci -p ⟦«P»⟧ dist/*
bundler|bundle config set --global gems.corp.test ci:⟦«A32»⟧
composer|{"http-basic": {"repo.corp.test": {"username": "ci", "password": "⟦«P»⟧"}}}
cargo credentials|[registry]¶token = "⟦«A36»⟧"
hub config|github.com:¶    user: bob¶    oauth_token: ⟦gho_«A36»⟧
git credential store|https://bob:⟦«P»⟧@git.corp.test
git extraheader|git -c http.extraheader="AUTHORIZATION: basic ⟦«E»⟧" fetch
Jenkins curl|curl -X POST https://bob:⟦11«H32»⟧@ci.corp.test/job/x/build
Ansible var|ansible_become_pass: ⟦«P»⟧
Ansible inventory|web1 ansible_host=10.0.0.5 ansible_user=root ansible_ssh_pass=⟦«P»⟧
Ansible extra vars|ansible-playbook site.yml -e "db_pass=⟦«P»⟧"
ldapsearch|ldapsearch -x -H ldap://ad.corp.test -D "cn=admin,dc=corp" -w ⟦«P»⟧ -b dc=corp
LDAP config|bind_credentials: "⟦«P»⟧"
smbclient|smbclient //nas/share -U bob%⟦«P»⟧
mount cifs|mount -t cifs //nas/share /mnt -o username=bob,password=⟦«P»⟧
net use|net use Z: \\nas\share ⟦«P»⟧ /user:bob
chpasswd|echo "bob:⟦«P»⟧" | chpasswd
sudo stdin|echo '⟦«P»⟧' | sudo -S apt-get update
mysqldump|mysqldump --user=root --password=⟦«P»⟧ shop > shop.sql
sqlcmd|sqlcmd -S db.corp.test -U sa -P ⟦«P»⟧ -Q "select 1"
mongosh|mongosh --host db -u admin -p ⟦«P»⟧ --authenticationDatabase admin
PGPASSWORD inline|PGPASSWORD=⟦«P»⟧ psql -h db -U bob shop
ADO.NET|"Server=tcp:shop.database.test,1433;Initial Catalog=shop;User ID=app;Password=⟦«P»⟧;Encrypt=True;"
Oracle|sqlplus scott/⟦«P»⟧@db.corp.test:1521/XE
Snowflake|snowflake.connector.connect(user="app", account="ab123", password="⟦«P»⟧")
SQLAlchemy|SQLALCHEMY_DATABASE_URI = "mysql+pymysql://app:⟦«P»⟧@db/shop"
Elasticsearch|elastic user password: ⟦«A20»⟧
Elasticsearch API key|Authorization: ApiKey ⟦«B60»==⟧
RabbitMQ ctl|rabbitmqctl add_user app ⟦«P»⟧
SMTP|EMAIL_HOST_PASSWORD = '⟦«P»⟧'
htpasswd|htpasswd -cb .htpasswd bob ⟦«P»⟧
htpasswd file|bob:⟦$apr1$«A8»$«A22»⟧
shadow|root:⟦$6$«A16»$«A86»⟧:19700:0:99999:7:::
Firebase server key|⟦AAAA«W7»:APA91b«W134»⟧
Azure function key|https://app.azurewebsites.test/api/run?code=⟦«W54»==⟧
Azure Cosmos|AccountEndpoint=https://x.documents.test:443/;AccountKey=⟦«B86»==⟧;
Azure ACR|az acr login -n corp -u corp -p ⟦«B52»⟧
Azure SP login|az login --service-principal -u «G» -p ⟦«A3»8Q~«A34»⟧ --tenant «G»
Slack signing|SLACK_SIGNING_SECRET=⟦«H32»⟧
GitHub webhook secret|webhook_secret: ⟦«H40»⟧
GitHub app refresh|⟦ghr_«A76»⟧
Teams webhook|https://corp.webhook.office.com/webhookb2/«G»@«G»/IncomingWebhook/⟦«H32»⟧/«G»
Zoom|ZOOM_CLIENT_SECRET=⟦«A32»⟧
Auth0|AUTH0_CLIENT_SECRET=⟦«W64»⟧
OAuth form|grant_type=client_credentials&client_id=app&client_secret=⟦«A40»⟧
OAuth reply|{"access_token":"⟦«A64»⟧","token_type":"bearer","expires_in":3600}
OAuth refresh reply|"refresh_token": "⟦«A48»⟧"
SAML cookie|Cookie: _session_id=⟦«H64»⟧
CSRF header|X-CSRF-Token: ⟦«B86»==⟧
laravel session|Cookie: laravel_session=⟦eyJpdiI6«A180»⟧
PuTTY key|PuTTY-User-Key-File-3: ssh-ed25519¶Private-Lines: 1¶⟦«B48»⟧¶Private-MAC: «H64»
PGP|⟦-----BEGIN PGP PRIVATE KEY BLOCK-----¶¶«B64»¶«B64»¶-----END PGP PRIVATE KEY BLOCK-----⟧
Ethereum|PRIVATE_KEY=⟦0x«H64»⟧
Seed phrase|mnemonic: "⟦legal winner thank year wave sausage worth useful legal winner thank yellow⟧"
Restic|RESTIC_PASSWORD=⟦«P»⟧ restic -r s3:x backup /home
rclone|[remote]¶type = sftp¶user = bob¶pass = ⟦«W32»⟧
borg|BORG_PASSPHRASE='⟦«P»⟧'
gpg passphrase|gpg --batch --passphrase "⟦«P»⟧" -d secrets.gpg
Compose secret file|printf '⟦«P»⟧' | docker secret create db_password -
kubectl bearer|kubectl --token=⟦eyJhbGciOiJSUzI1NiJ9.eyJ«A200».«W86»⟧ get pods
Terraform env|export TF_VAR_db_password=⟦«P»⟧
tfvars map|db = { user = "app", password = "⟦«P»⟧" }
Vagrant|config.ssh.password = "⟦«P»⟧"
TOML|[database]¶password = "⟦«P»⟧"
Rust env|std::env::set_var("API_TOKEN", "⟦«A40»⟧");
Go const|const apiKey = "⟦«A32»⟧"
Java field|private static final String PASSWORD = "⟦«P»⟧";
C# field|public string ApiSecret { get; set; } = "⟦«A32»⟧";
Swift|let clientSecret = "⟦«A40»⟧"
Ruby hash|:password => "⟦«P»⟧",
Rails credentials|aws:¶  secret_access_key: ⟦«B40»⟧
Python dict|"PASSWORD": "⟦«P»⟧",
Flask|app.config["SECRET_KEY"] = "⟦«H48»⟧"
Kotlin|val password = "⟦«P»⟧"
argparse default|parser.add_argument("--password", default="⟦«P»⟧")
said login|log in as bob with password ⟦«P»⟧
said pw|user: bob pw: ⟦«P»⟧
said creds|credentials: bob / ⟦«P»⟧
said token|here is my token: ⟦«A40»⟧
said passphrase|The passphrase is "⟦«P»⟧"
said French|Le mot de passe est ⟦«P»⟧
said Spanish|La contraseña es ⟦«P»⟧
Wi-Fi nmcli|nmcli dev wifi connect Home password ⟦«P»⟧
hostapd|wpa_passphrase=⟦«P»⟧
VNC|x11vnc -passwd ⟦«P»⟧ -display :0
rsync daemon|RSYNC_PASSWORD=⟦«P»⟧ rsync -a bob@nas::data .
lftp|lftp -u bob,⟦«P»⟧ ftp.corp.test
ftp URL|ftp://bob:⟦«P»⟧@ftp.corp.test/pub
wget|wget --user=bob --password=⟦«P»⟧ https://x.test/a
httpie|http -a bob:⟦«P»⟧ https://x.test/api
curl form|curl -d 'username=bob&password=⟦«P»⟧' https://x.test/login
curl JSON|curl -d '{"username":"bob","password":"⟦«P»⟧"}' https://x.test/login
aws sts output|export AWS_SECRET_ACCESS_KEY=⟦«B40»⟧
aws credentials file|[default]¶aws_access_key_id = AKIA«U16»¶aws_secret_access_key = ⟦«B40»⟧
GCP API in URL|https://maps.googleapis.test/maps/api/js?key=⟦AIza«W35»⟧
YouTrack|⟦perm:«A8».«A10».«A28»⟧
Gitea variable|GITEA_TOKEN=⟦«H40»⟧
Drone|DRONE_RPC_SECRET=⟦«H32»⟧
Mattermost|MM_ACCESSTOKEN=⟦«L26»⟧
Matrix|access_token: ⟦syt_«A12»_«A20»_«A6»⟧
Spotify|SPOTIPY_CLIENT_SECRET='⟦«H32»⟧'
OpenWeather|https://api.openweather.test/data?q=x&appid=⟦«H32»⟧
Etherscan|&apikey=⟦«U34»⟧
"""

# Made up likewise, from what tools print: 2,672 of 3,564 values of these were masked then, and of the kinds from
# ``hcloud`` on, made up later, 2,157 of 2,835. Left out are eight kinds, most of them the
# whole output of a command.
TOOL_KINDS = r"""
gcloud access|$ gcloud auth print-access-token¶⟦ya29.c.c0«W180»⟧
aws sts|export AWS_SESSION_TOKEN=⟦IQoJb3JpZ2luX2VjE«B400»==⟧
aws export keys|{"Credentials": {"AccessKeyId": "ASIA«U16»", "SecretAccessKey": "⟦«B40»⟧", "SessionToken": "x"}}
aws rds token|export PGPASSWORD="db.x.rds.test:5432/?Action=connect&DBUser=app&X-Amz-Signature=⟦«H64»⟧"
aws ecr login|aws ecr get-login-password | docker login --username AWS --password ⟦eyJ«A300»⟧ 1.dkr.ecr.test
az account token|{¶  "accessToken": "⟦eyJ0eXAiOiJKV1QiLCJh.eyJ«A200».«W86»⟧",¶  "expiresOn": "2026-05-01"¶}
az sp create|{¶  "appId": "«G»",¶  "displayName": "ci",¶  "password": "⟦«A3»8Q~«A34»⟧",¶  "tenant": "«G»"¶}
az storage keys|az storage account keys list¶[{"keyName": "key1", "permissions": "FULL", "value": "⟦«B86»==⟧"}]
az storage account key|az storage blob upload --account-name shop --account-key ⟦«B86»==⟧ -f a
gh auth token|$ gh auth token¶⟦gho_«A36»⟧
gh actions env|env:¶    GH_TOKEN: ⟦ghs_«A36»⟧
glab|glab auth login --hostname git.corp.test --token ⟦glpat-«W20»⟧
doctl|doctl auth init --access-token ⟦dop_v1_«H64»⟧
heroku config|=== shop Config Vars¶DATABASE_URL: postgres://u1:⟦p«H64»⟧@ec2.test:5432/d1
heroku auth|heroku auth:token¶⟦HRKU-«G»⟧
vercel env|VERCEL_OIDC_TOKEN="⟦eyJhbGciOiJSUzI1NiJ9.eyJ«A200».«W86»⟧"
supabase status|         anon key: eyJx¶service_role key: ⟦eyJhbGciOiJIUzI1NiJ9.eyJ«A120».«W43»⟧
supabase secret|      Secret key: ⟦sb_secret_«W31»⟧
supabase jwt|      JWT secret: ⟦super-secret-jwt-token-with-at-least-32-characters-long«D4»⟧
stripe cli|> Ready! Your webhook signing secret is ⟦whsec_«H64»⟧ (^C to quit)
ngrok|ngrok config add-authtoken ⟦2«A26»_«A21»⟧
ngrok yml|authtoken: ⟦2«A26»_«A21»⟧
cloudflared|cloudflared tunnel run --token ⟦eyJhIjoi«A150»⟧
wrangler secret|echo "⟦«A40»⟧" | npx wrangler secret put API_TOKEN
kubectl config|kubectl config set-credentials bob --token=⟦«A40»⟧
kubectl create docker|kubectl create secret docker-registry r --docker-username=bob --docker-password=⟦«P»⟧
kubeadm|kubeadm join 10.0.0.1:6443 --token ⟦«L6».«L16»⟧ --discovery-token-ca-cert-hash sha256:«H64»
k3s|K3S_TOKEN=⟦K10«H64»::server:«H32»⟧
docker swarm|docker swarm join --token ⟦SWMTKN-1-«L50»-«L25»⟧ 10.0.0.1:2377
argocd|argocd login cd.test --username admin --password ⟦«P»⟧
helm repo|helm repo add corp https://x.test --username bob --password ⟦«P»⟧
terraform plan|  + master_password = "⟦«P»⟧"
terraform output|db_password = "⟦«P»⟧"
terraform credentials|credentials "app.terraform.io" {¶  token = "⟦«A14».atlasv1.«W67»⟧"¶}
pulumi config|pulumi config set --secret dbPassword ⟦«P»⟧
pulumi passphrase|PULUMI_CONFIG_PASSPHRASE=⟦«P»⟧
compose command|    command: redis-server --requirepass ⟦«P»⟧
compose grafana|      - GF_SECURITY_ADMIN_PASSWORD=⟦«P»⟧
compose minio|      MINIO_ROOT_PASSWORD: ⟦«P»⟧
mc alias|mc alias set local http://localhost:9000 admin ⟦«P»⟧
compose healthcheck|      test: ["CMD", "mysqladmin", "ping", "-uroot", "-p⟦«P»⟧"]
npm legacy|//registry.corp.test/:_password=⟦«B24»⟧
npm auth|_auth = ⟦«E»⟧
yarn|npmAuthToken: "⟦npm_«A36»⟧"
pip conf|extra-index-url = https://__token__:⟦pypi-AgEIcHlwaS5vcmc«W150»⟧@pypi.corp.test/simple
uv publish|uv publish --token ⟦pypi-AgEIcHlwaS5vcmc«W150»⟧
cargo login|cargo login ⟦cio«A31»7⟧
nuget push|dotnet nuget push a.nupkg --api-key ⟦oy2«L43»⟧ --source x
nuget cleartext|<add key="ClearTextPassword" value="⟦«P»⟧" />
maven cli|mvn deploy -Dserver.password=⟦«P»⟧
gradle cli|./gradlew publish -PmavenPassword=⟦«P»⟧
gem push|GEM_HOST_API_KEY=⟦rubygems_«H48»⟧ gem push a.gem
mongo atlas|MONGODB_URI="mongodb+srv://app:⟦«P»⟧@cluster0.ab12.test/?retryWrites=true"
clickhouse|clickhouse-client --host x --user default --password ⟦«P»⟧ --secure
clickhouse URL|https://x.test:8443/?user=default&password=⟦«P»⟧&query=x
psql conninfo|psql "host=db user=bob password=⟦«P»⟧ dbname=shop sslmode=require"
mssql URL|mssql+pyodbc://sa:⟦«P»⟧@db.test/shop?driver=x
EF Core|"DefaultConnection": "Server=db;Database=shop;User Id=sa;Password=⟦«P»⟧;TrustServerCertificate=true"
Redis TLS|rediss://default:⟦A«A50»⟧@x.upstash.test:6379
Upstash REST|UPSTASH_REDIS_REST_TOKEN="⟦A«A60»⟧"
Turso|TURSO_AUTH_TOKEN=⟦eyJhbGciOiJFZERTQSJ9.eyJ«A120».«W86»⟧
Neon URL|postgresql://neondb_owner:⟦npg_«A12»⟧@ep-x.neon.test/neondb?sslmode=require
Kafka CLI|kcat -b x:9092 -X security.protocol=SASL_SSL -X sasl.username=k -X sasl.password=⟦«P»⟧ -L
Nats|nats --server nats://bob:⟦«P»⟧@nats.test:4222 sub x
MQTT|mosquitto_pub -h mq.test -u bob -P ⟦«P»⟧ -t a -m b
OAuth device|{"access_token": "⟦gho_«A36»⟧", "token_type": "bearer", "scope": "repo"}
OAuth id token|"id_token": "⟦eyJhbGciOiJSUzI1NiJ9.eyJ«A200».«W86»⟧",
OAuth code curl|curl -d client_secret=⟦«A40»⟧ -d grant_type=authorization_code https://x.test/token
OAuth refresh|refresh_token=⟦«W60»⟧&grant_type=refresh_token
Express cookie|< set-cookie: connect.sid=⟦s%3A«A32».«A43»⟧; Path=/; HttpOnly
next-auth|Cookie: __Secure-next-auth.session-token=⟦eyJhbGciOiJkaXIi..«W16».«W200».«W22»⟧
Playwright storage|{"name": "session", "value": "⟦«A40»⟧", "domain": "x.test", "path": "/", "httpOnly": true}
GCS signed|https://storage.test/b/o?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature=⟦«H256»⟧
CloudFront signed|https://d1.cloudfront.test/a?Expires=1&Signature=⟦«W340»__⟧&Key-Pair-Id=K1
Azure SAS URL|https://x.blob.test/c/a?sp=r&sv=2024-11-04&sr=b&sig=⟦«A40»%3D⟧
n8n|N8N_ENCRYPTION_KEY=⟦«A32»⟧
Mattermost hook|https://chat.corp.test/hooks/⟦«L26»⟧
Google chat hook|https://chat.googleapis.com/v1/spaces/A/messages?key=AIza«W35»&token=⟦«W43»⟧
Lark hook|https://open.feishu.cn/open-apis/bot/v2/hook/⟦«G»⟧
DingTalk hook|https://oapi.dingtalk.com/robot/send?access_token=⟦«H64»⟧
Telegram URL|curl https://api.telegram.org/bot⟦«D10»:AA«W33»⟧/getMe
Slack config|xoxe.xoxp-1-⟦«A146»⟧
basic auth header|> authorization: Basic ⟦«E»⟧
requests auth|requests.get(url, auth=("bob", "⟦«P»⟧"))
httpx headers|headers = {"x-api-key": "⟦«A40»⟧"}
fetch bearer|headers: { Authorization: `Bearer ⟦«A48»⟧` },
websocat|wss://x.test/stream?token=⟦«A40»⟧
ed25519 PKCS8|⟦-----BEGIN PRIVATE KEY-----¶MC4CAQAwBQYDK2VwBCIEI«B43»¶-----END PRIVATE KEY-----⟧
EC key|⟦-----BEGIN EC PRIVATE KEY-----¶«B64»¶«B64»¶-----END EC PRIVATE KEY-----⟧
encrypted key|⟦-----BEGIN ENCRYPTED PRIVATE KEY-----¶«B64»¶«B64»¶-----END ENCRYPTED PRIVATE KEY-----⟧
env one line key|PRIVATE_KEY="⟦-----BEGIN RSA PRIVATE KEY-----\n«B64»\n«B64»\n-----END RSA PRIVATE KEY-----⟧"
JWK|{"kty":"RSA","n":"«W86»","e":"AQAB","d":"⟦«W86»⟧"}
tailscale up|tailscale up --authkey=⟦tskey-auth-«A17»-«A32»⟧
netbird|netbird up --setup-key ⟦«G»⟧
wg conf|PresharedKey = ⟦«B43»=⟧
rclone obscure|rclone config create r sftp user=bob pass=⟦«P»⟧
restic env|export RESTIC_PASSWORD=⟦«P»⟧
sops age|SOPS_AGE_KEY=⟦AGE-SECRET-KEY-1«U58»⟧
vault kv|vault kv put secret/db password=⟦«P»⟧
vault login|vault login ⟦hvs.«A24»⟧
vault approle|vault write auth/approle/login role_id=«G» secret_id=⟦«G»⟧
bitwarden|export BW_SESSION="⟦«B86»==⟧"
doppler run|DOPPLER_TOKEN=⟦dp.st.prd.«A43»⟧ doppler run
sentry cli|sentry-cli --auth-token ⟦sntrys_eyJ«A90»⟧ releases new x
Datadog agent|api_key: ⟦«H32»⟧
Honeycomb|x-honeycomb-team: ⟦«A22»⟧
OTLP headers|OTEL_EXPORTER_OTLP_HEADERS="authorization=Basic ⟦«E»⟧"
Grafana cloud|GRAFANA_API_KEY=⟦glc_eyJ«A100»⟧
Anthropic env|ANTHROPIC_AUTH_TOKEN=⟦sk-ant-oat01-«W93»AA⟧
OpenAI client|client = OpenAI(api_key="⟦sk-proj-«W120»⟧")
Bedrock|AWS_BEARER_TOKEN_BEDROCK=⟦ABSK«B128»⟧
Azure OpenAI curl|curl -H "api-key: ⟦«H32»⟧" https://x.openai.azure.test
Ollama cloud|OLLAMA_API_KEY=⟦«H32».«W24»⟧
Jenkins log|+ curl -u ci:⟦11«H32»⟧ https://ci.test/job
GitLab CI job|git clone https://gitlab-ci-token:⟦glcbt-64_«W20»⟧@git.corp.test/a.git
GitHub checkout|git remote set-url origin https://x-access-token:⟦ghs_«A36»⟧@github.test/a/b
Ansible vault|ANSIBLE_VAULT_PASSWORD=⟦«P»⟧
Ansible task|      login_password: "⟦«P»⟧"
SSH expect|expect "password:" { send "⟦«P»⟧\r" }
useradd|echo ⟦«P»⟧ | passwd --stdin bob
mysql SQL|ALTER USER 'root'@'localhost' IDENTIFIED WITH mysql_native_password BY '⟦«P»⟧';
SET PASSWORD|SET PASSWORD FOR 'bob'@'%' = PASSWORD('⟦«P»⟧');
Postgres role|ALTER ROLE app LOGIN PASSWORD '⟦«P»⟧';
mongo createUser|db.createUser({user: "app", pwd: "⟦«P»⟧", roles: ["readWrite"]})
Redis ACL|ACL SETUSER app on >⟦«P»⟧ ~* +@all
curl form again|curl -F 'username=bob' -F 'password=⟦«P»⟧' https://x.test/login
JSON login|curl -d '{"email":"b@x.test","password":"⟦«P»⟧"}' https://x.test/login
hcloud|hcloud context create prod¶Token: ⟦«A64»⟧
scaleway|SCW_SECRET_KEY=⟦«G»⟧
linode|export LINODE_CLI_TOKEN=⟦«H64»⟧
ovh|application_secret=⟦«H32»⟧
oci config|key_file=~/.oci/k.pem¶pass_phrase=⟦«P»⟧
ibmcloud|ibmcloud login --apikey ⟦«W44»⟧ -r eu-de
gcp json line|"client_id": "«D21»", "private_key": "⟦-----BEGIN PRIVATE KEY-----\n«B64»\n-----END PRIVATE KEY-----\n⟧"
firebase ci|firebase deploy --token "⟦1//0«W90»⟧"
flyctl|fly secrets set SESSION_SECRET=⟦«A40»⟧
fly auth|$ fly auth token¶⟦fm2_«B300»⟧
railway|railway variables --set "JWT_SECRET=⟦«A40»⟧"
netlify cli|netlify deploy --auth ⟦nfp_«A40»⟧ --prod
vercel cli|vercel --token ⟦«A24»⟧ --prod
heroku set|heroku config:set SECRET_KEY=⟦«A50»⟧ -a shop
cf env|CF_API_KEY: ⟦«H37»⟧
wrangler toml|[vars]¶API_SECRET = "⟦«A40»⟧"
dotenv rails|RAILS_MASTER_KEY=⟦«H32»⟧
dotenv django|DJANGO_SECRET_KEY="⟦«A50»⟧"
dotenv next|NEXTAUTH_SECRET=⟦«B43»=⟧
dotenv clerk|CLERK_SECRET_KEY=⟦sk_live_«A40»⟧
dotenv supabase|SUPABASE_DB_URL=postgresql://postgres:⟦«P»⟧@db.ab.test:5432/postgres
dotenv algolia|ALGOLIA_WRITE_API_KEY=⟦«H32»⟧
dotenv pusher|PUSHER_APP_SECRET=⟦«H20»⟧
dotenv livekit|LIVEKIT_API_SECRET=⟦«A43»⟧
dotenv cloudinary|CLOUDINARY_URL=cloudinary://«D15»:⟦«W27»⟧@shop
dotenv s3|S3_SECRET_ACCESS_KEY="⟦«B40»⟧"
dotenv sentry|SENTRY_AUTH_TOKEN=⟦sntryu_«H64»⟧
dotenv mail|MAIL_PASSWORD=⟦«L16»⟧
dotenv gmail|SMTP_PASS="⟦abcd efgh ijkl mnop⟧"
dotenv twilio|TWILIO_API_KEY_SECRET=⟦«A32»⟧
dotenv langfuse|LANGFUSE_SECRET_KEY=⟦sk-lf-«G»⟧
dotenv exa|EXA_API_KEY=⟦«G»⟧
dotenv brave|BRAVE_API_KEY=⟦BSA«W28»⟧
dotenv serper|SERPER_API_KEY=⟦«H40»⟧
dotenv voyage|VOYAGE_API_KEY=⟦pa-«W43»⟧
dotenv assembly|ASSEMBLYAI_API_KEY=⟦«H32»⟧
dotenv deepgram|DEEPGRAM_API_KEY=⟦«H40»⟧
dotenv github app|GITHUB_CLIENT_SECRET=⟦«H40»⟧
GitHub log|##[debug]token: ⟦ghs_«A36»⟧
GitLab variable|glab variable set DEPLOY_KEY ⟦«A40»⟧
gh secret body|gh secret set NPM_TOKEN --body "⟦npm_«A36»⟧"
CircleCI API|curl -H "Circle-Token: ⟦CCIPAT_«A22»_«H40»⟧" https://circleci.test
Jenkins crumb|Jenkins-Crumb: ⟦«H64»⟧
Sonar run|sonar-scanner -Dsonar.login=⟦«H40»⟧
Sonar new|sonar-scanner -Dsonar.token=⟦sqp_«H40»⟧
codecov cli|codecov -t ⟦«G»⟧
docker build arg|docker build --build-arg NPM_TOKEN=⟦«G»⟧ .
docker env file|docker run --env DB_PASS=⟦«P»⟧ app
kustomize|secretGenerator:¶- name: db¶  literals:¶  - password=⟦«P»⟧
helm values|postgresql:¶  auth:¶    postgresPassword: "⟦«P»⟧"
traefik|- "traefik.http.middlewares.a.basicauth.users=bob:⟦$apr1$«A8»$«A22»⟧"
nginx proxy|proxy_set_header Authorization "Basic ⟦«E»⟧";
Caddy|basic_auth { bob ⟦$2a$14$«A53»⟧ }
Postgres dump|postgres://u:⟦«P»⟧@h/d -f dump.sql
mysql cnf|[client]¶user=root¶password=⟦«P»⟧
Cassandra|cqlsh -u cassandra -p ⟦«P»⟧ db.test
InfluxDB|influx config create --token ⟦«W86»==⟧ --org x
Neo4j|cypher-shell -u neo4j -p ⟦«P»⟧
Elasticsearch URL|https://elastic:⟦«P»⟧@es.test:9200
CouchDB|http://admin:⟦«P»⟧@127.0.0.1:5984/_all_dbs
Airflow|AIRFLOW__CORE__FERNET_KEY=⟦«W43»=⟧
Spark|spark.hadoop.fs.s3a.secret.key ⟦«B40»⟧
dbt|      password: ⟦«P»⟧¶      schema: x
Snowflake CLI|snow connection add --password ⟦«P»⟧
Tableau|tabcmd login -s https://t.test -u bob -p ⟦«P»⟧
Jira API|curl -u bob@x.test:⟦ATATT3xFfGF0«W170»=«U8»⟧ https://x.atlassian.test
Confluence PAT|Authorization: Bearer ⟦«B43»⟧
Zendesk|curl -u bob@x.test/token:⟦«A40»⟧ https://x.zendesk.test
Intercom|INTERCOM_ACCESS_TOKEN=⟦dG9rO«B55»=⟧
Segment|SEGMENT_WRITE_KEY=⟦«A32»⟧
Mixpanel|MIXPANEL_API_SECRET=⟦«H32»⟧
SSH agent|SSH_PASSPHRASE=⟦«P»⟧ ssh-add
gpg loop|gpg --batch --pinentry-mode loopback --passphrase ⟦«P»⟧ -s a
p12|openssl pkcs12 -export -in a.pem -out a.p12 -passout pass:⟦«P»⟧
ssh-keygen|ssh-keygen -t ed25519 -N "⟦«P»⟧" -f key
security add|security add-generic-password -a bob -s x -w ⟦«P»⟧
runas|cmdkey /add:srv /user:bob /pass:⟦«P»⟧
PSCredential|New-Object PSCredential("bob", (ConvertTo-SecureString "⟦«P»⟧" -AsPlainText -Force))
wget again|wget --http-user=bob --http-password=⟦«P»⟧ https://x.test
aria2|aria2c --http-passwd=⟦«P»⟧ https://x.test
httpie bearer|http https://x.test Authorization:"Bearer ⟦«A40»⟧"
httpie -A|http -A bearer -a ⟦«A40»⟧ https://x.test
grpcurl|grpcurl -H 'authorization: Bearer ⟦«A40»⟧' x.test:443 list
Postman env|{"key": "apiKey", "value": "⟦«A40»⟧", "type": "secret"}
OAuth redirect|https://x.test/cb#access_token=⟦«W60»⟧&token_type=bearer
magic link|https://x.test/auth/verify?token=⟦«H64»⟧
reset link|https://x.test/reset-password/⟦«H64»⟧
Stripe setup|"client_secret": "⟦seti_«A24»_secret_«A24»⟧"
GraphQL|mutation { login(email: "b@x.test", password: "⟦«P»⟧") { token } }
Rust struct|Config { user: "bob".into(), password: "⟦«P»⟧".into() }
Go struct|&redis.Options{Addr: "x:6379", Password: "⟦«P»⟧"}
Java setter|config.setPassword("⟦«P»⟧");
Kotlin again|val apiKey = "⟦«A40»⟧"
Swift again|let apiKey: String = "⟦«A40»⟧"
C#|var client = new Client(apiKey: "⟦«A40»⟧");
Ruby|ENV["API_TOKEN"] ||= "⟦«A40»⟧"
PHP putenv|putenv('API_TOKEN=⟦«A40»⟧');
Elixir|config :app, secret_key_base: "⟦«B64»⟧"
Flask again|app.secret_key = b'⟦«H32»⟧'
chat German|Zugangsdaten: admin / ⟦«P»⟧
chat login|login: admin, pass: ⟦«P»⟧
chat pw|user bob, pw ⟦«P»⟧
"""

PASSWORDS = ("Tr0ub4dor&3x", "kestrel-Fjord77", "Zw1tscher!maschine", "b7Lantern_oak", "9Mangos4Ilse", "gr8Wall?0fSoup")
VALUES = 3
_ALPHABETS = {
    "A": string.ascii_letters + string.digits,
    "L": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + "234567",
    "H": "0123456789abcdef",
    "W": string.ascii_letters + string.digits + "-_",
    "B": string.ascii_letters + string.digits + "+/",
    "D": string.digits,
}


def _prefix_lines(*prefixes: str) -> Callable[[str], str]:
    def build(text: str) -> str:
        lines = ["x = 1", *text.split("\n"), "y = 2"]
        return "\n".join(prefixes[n % len(prefixes)].format(n=n + 11) + line for n, line in enumerate(lines))

    return build


CONTEXTS: dict[str, Callable[[str], str]] = {
    "alone": lambda text: text,
    "a message": lambda text: f"I had this in my notes:\n\n{text}\n\nCan you check it?",
    "Markdown": lambda text: f"Run it as follows:\n\n```\n{text}\n```\n",
    "JSON": lambda text: json.dumps({"stdout": f"{text}\n", "code": 0}),
    "JSON in JSON": lambda text: json.dumps({"body": json.dumps({"stdout": text})}),
    "a diff": _prefix_lines("+"),
    "numbered lines": _prefix_lines("    {n}→"),
    "cat -n": _prefix_lines("    {n}\t"),
    "grep -n": _prefix_lines("conf/app.env:{n}:"),
}


class Case(NamedTuple):
    """A kind of secret in a context: the whole text and the secret in it."""

    kind: str
    context: str
    text: str
    secret: str


def build_cases(seed: int = 0) -> Iterator[Case]:
    """Yield each kind in each context, with values that no other case has."""
    for line in (KINDS + UNSEEN_KINDS.lstrip() + TOOL_KINDS.lstrip()).strip().split("\n"):
        kind, template = line.split("|", 1)
        for context, build in CONTEXTS.items():
            for number in range(VALUES):
                chance = random.Random(f"{seed} {kind} {context} {number}")
                text = re.sub("«(.)(\\d*)»", lambda match, chance=chance: _make_value(match, chance), template)  # type: ignore[misc]
                before, secret, after = re.split("[⟦⟧]", text.replace("¶", "\n"))
                yield Case(kind, context, build(before + secret + after), secret)


def _make_value(match: re.Match[str], chance: random.Random) -> str:
    letter, length = match.groups()
    password = chance.choice(PASSWORDS)
    if letter == "P":
        return password
    if letter == "E":
        return base64.b64encode(f"bob:{password}".encode()).decode()
    if letter == "G":
        return re.sub("x", lambda _: chance.choice("0123456789abcdef"), "xxxxxxxx-xxxx-4xxx-axxx-xxxxxxxxxxxx")
    return "".join(chance.choice(_ALPHABETS[letter]) for _ in range(int(length)))


def is_masked(case: Case) -> bool:
    """Return whether no part of the secret is left: of its lines, not even sixteen characters."""
    masked = mask_text(case.text)[0].replace("\\", "")
    pieces = re.findall(r"[^\n\\]{6,}", case.secret)
    return not any(
        piece[start : start + 16] in masked
        for piece in pieces
        for start in range(0, len(piece), 16)
        if len(piece) - start >= 6
    )


def main() -> None:
    """Print the table."""
    cases = list(build_cases())
    missed = [case for case in cases if not is_masked(case)]
    kinds = len({case.kind for case in cases})
    print(
        f"{len(cases) - len(missed):,} of {len(cases):,} masked: "
        f"{kinds} kinds, {len(CONTEXTS)} contexts, {VALUES} values"
    )
    by_context = Counter(case.context for case in missed)
    for context in CONTEXTS:
        print(f"{context:16}{1 - by_context[context] / (kinds * VALUES):7.1%}")
    for kind, count in Counter(case.kind for case in missed).most_common():
        contexts = sorted({case.context for case in missed if case.kind == kind})
        print(f"{count:4} {kind}: {', '.join(contexts) if len(contexts) < len(CONTEXTS) else 'everywhere'}")


if __name__ == "__main__":
    main()
