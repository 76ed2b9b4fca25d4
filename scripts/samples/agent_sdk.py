"""`agent-sdk-request.json`: an Anthropic Messages request with its response, as an agent built on an SDK sends it.

The secrets in it are the documented example keys of their services; they are here to show the masking.
"""

from __future__ import annotations

import json
from typing import Any

from scripts.samples.claude import BYTES_A_TOKEN, tokens

Message = dict[str, Any]

SYSTEM = """\
You are the night watch of a small web site. (A sample of context-tui: written by hand, nobody's real work.)

You are called when a job has failed. Find out why, repair what you may repair, and report in three sentences.
- You may read everything below /srv/site and run commands that change nothing.
- You may edit files below /srv/site/jobs. Nothing else is yours.
- Never restart a service. Never print a secret into the report.
- Say what you are not sure of.
"""

TOOLS = [
    {
        "name": "Bash",
        "description": "Run a command on the host. Output is cut at 30,000 characters.",
        "input_schema": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "timeout_s": {"type": "integer", "default": 30}},
            "required": ["command"],
        },
    },
    {
        "name": "Read",
        "description": "Read a text file, with line numbers.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "first_line": {"type": "integer"}},
            "required": ["path"],
        },
    },
    {
        "name": "Edit",
        "description": "Replace one occurrence of a text in a file.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}},
            "required": ["path", "old", "new"],
        },
        "cache_control": {"type": "ephemeral"},
    },
]

ENV = """\
# Example values. The real ones come from the vault at start.
AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE
AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
BACKUP_BUCKET=site-backups
BACKUP_KEEP_DAYS=14
"""

SCRIPT = """\
#!/bin/sh
# Nightly: dump the database, pack the uploads, send both to the bucket, drop what is older than two weeks.
set -eu
. /srv/site/jobs/backup.env
day=$(date +%F)
work=$(mktemp -d /tmp/backup.XXXXXX)
trap 'rm -rf "$work"' EXIT

pg_dump --format=custom --file="$work/site.dump" site
tar --create --zstd --file="$work/uploads.tar.zst" --directory=/srv/site uploads

for file in site.dump uploads.tar.zst; do
    aws s3 cp --only-show-errors "$work/$file" "s3://$BACKUP_BUCKET/$day/$file"
done

aws s3 ls "s3://$BACKUP_BUCKET/" | awk '{print $2}' | sort | head -n "-$BACKUP_KEEP_DAYS" | while read -r old; do
    aws s3 rm --only-show-errors --recursive "s3://$BACKUP_BUCKET/$old"
done
echo "backup of $day done"
"""


class Log:
    """The messages while they are written."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._calls = 0

    def user(self, text: str) -> None:
        """What the person or the scheduler says."""
        self.messages.append({"role": "user", "content": text})

    def step(self, reply: str, *calls: tuple[str, dict[str, Any], str], error: bool = False) -> None:
        """An answer with tool calls, and the user message with their results."""
        content: list[Message] = [{"type": "text", "text": reply}] if reply else []
        results: list[Message] = []
        for name, tool_input, result_text in calls:
            self._calls += 1
            call_id = f"toolu_01NightWatch{self._calls:012}"
            content.append({"type": "tool_use", "id": call_id, "name": name, "input": tool_input})
            result: Message = {"type": "tool_result", "tool_use_id": call_id, "content": result_text}
            results.append(result | {"is_error": True} if error else result)
        self.messages.append({"role": "assistant", "content": content})
        if results:
            self.messages.append({"role": "user", "content": results})


def build() -> bytes:
    """The request and its response."""
    log = Log()
    _first(log)
    _second(log)
    answer = (
        "The backup failed because /tmp (2.0 GB) was full: an export from 12 November had left 1.7 GB there. "
        "backup.sh now works in /srv/site/work, which has 38 GB, and checks the space before it starts. "
        "I am not sure why the export did not clean up after itself; its log ends without an error."
    )
    request = {
        "model": "claude-haiku-4-5-20251001",
        "max_tokens": 4096,
        "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
        "tools": TOOLS,
        "messages": log.messages,
    }
    total = tokens(request)
    usage = {
        "input_tokens": 212,
        "cache_creation_input_tokens": 640,
        "cache_read_input_tokens": total - 852,
        "output_tokens": int(len(answer) / BYTES_A_TOKEN),
    }
    response = {"id": "msg_01NightWatch", "type": "message", "role": "assistant", "model": request["model"]}
    response |= {"content": [{"type": "text", "text": answer}], "stop_reason": "end_turn", "usage": usage}
    logged = {"timestamp": "2026-11-14T03:21:09Z", "request": request, "response": response}
    return json.dumps(logged, ensure_ascii=False, indent=1).encode() + b"\n"


def _first(log: Log) -> None:
    log.user("Job `backup` failed on host web-2 at 03:10 (exit code 1). Its log is /srv/site/jobs/log/backup.log.")
    log.step(
        "I start with the log and the job itself.",
        ("Bash", {"command": "tail -60 /srv/site/jobs/log/backup.log"}, _job_log()),
        ("Read", {"path": "/srv/site/jobs/backup.sh"}, SCRIPT),
    )
    log.step(
        "tar could not write. Which file system is full, and with what?",
        ("Bash", {"command": "df -h"}, _DF),
        ("Bash", {"command": "du -xh /tmp --max-depth=2 | sort -h | tail -40"}, _disk_use()),
    )
    log.step("", ("Bash", {"command": "cat /srv/site/jobs/backup.env"}, ENV))
    log.step("", ("Bash", {"command": "ls -la /tmp/export.Qb81xz | head -80"}, _listing()))
    log.step("", ("Bash", {"command": "rm -rf /tmp/export.Qb81xz"}, "refused: this command changes files"), error=True)
    log.step(
        "I may not remove it, so the job has to work elsewhere. /srv has room.",
        (
            "Edit",
            {"path": "/srv/site/jobs/backup.sh", "old": "/tmp/backup.XXXXXX", "new": "/srv/site/work/backup.XXXXXX"},
            "ok",
        ),
        ("Bash", {"command": "sh -n /srv/site/jobs/backup.sh && echo fine"}, "fine\n"),
    )
    log.step("The job works below /srv/site/work now. The leftover in /tmp needs somebody with rights to remove it.")


def _second(log: Log) -> None:
    log.user("Thanks. Make it check the free space first, so that it says so itself next time.")
    log.step(
        "",
        ("Read", {"path": "/srv/site/jobs/backup.sh"}, SCRIPT.replace("/tmp/backup", "/srv/site/work/backup")),
        ("Bash", {"command": "journalctl -u site-export --since '3 days ago' --no-pager | tail -50"}, _journal()),
    )
    check = "free=$(df --output=avail /srv/site/work | tail -1)\n"
    check += '[ "$free" -gt 8000000 ] || { echo "no space" >&2; exit 1; }\n'
    log.step("", ("Edit", {"path": "/srv/site/jobs/backup.sh", "old": "day=$(", "new": check + "day=$("}, "ok"))
    log.step(
        "", ("Bash", {"command": "sh -n /srv/site/jobs/backup.sh && df -h /srv/site/work"}, _DF.splitlines()[-1] + "\n")
    )


def _job_log() -> str:
    lines = [
        f"2026-11-{day:02} 03:{10 + day % 3}:{day * 7 % 60:02} backup of 2026-11-{day:02} done" for day in range(1, 13)
    ]
    lines += [
        f"2026-11-13 03:10:{second:02} tar: uploads/{second:04}.jpg: Cannot write: No space left on device"
        for second in range(4, 50)
    ]
    return "\n".join([*lines, "2026-11-13 03:10:50 tar: Error is not recoverable: exiting now"]) + "\n"


def _disk_use() -> str:
    parts = [f"{4 + number * 44}M\t/tmp/export.Qb81xz/part-{number:03}" for number in range(36)]
    return "\n".join([*parts, "1.7G\t/tmp/export.Qb81xz", "1.9G\t/tmp"]) + "\n"


def _listing() -> str:
    return "total 1782104\n" + "".join(
        f"-rw-r--r-- 1 export export {46_137_344 + number * 211:>10} Nov 12 23:{number:02} part-{number:03}.csv\n"
        for number in range(40)
    )


def _journal() -> str:
    return "".join(
        f"Nov 12 23:{number:02}:07 web-2 export[4121]: part-{number:03}.csv: {46_137_344 + number * 211} bytes\n"
        for number in range(40)
    )


_DF = """\
Filesystem      Size  Used Avail Use% Mounted on
/dev/vda2        40G   22G   16G  58% /
tmpfs           2.0G  2.0G     0 100% /tmp
/dev/vdb1        64G   23G   38G  38% /srv
"""
