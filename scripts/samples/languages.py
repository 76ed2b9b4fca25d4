"""`images-and-languages.jsonl`: pictures, Chinese, Arabic and emoji, and a tool result full of terminal control bytes.

The hostile bytes are there to be looked at: an inspector must show them as text and send none of them to the terminal.
"""

from __future__ import annotations

from datetime import datetime

from scripts.samples.claude import Call, Recorder, image, text, thinking
from scripts.samples.ledger import numbered
from scripts.samples.png import bar_chart, dialog

CWD = "/home/dev/weather"

LABELS = """\
{
  "en": {"title": "Rainfall", "unit": "mm", "months": ["Jan", "Feb", "Mar", "Apr", "May", "Jun"]},
  "zh": {"title": "降水量", "unit": "毫米", "months": ["一月", "二月", "三月", "四月", "五月", "六月"]},
  "ar": {"title": "كمية الأمطار", "unit": "مم", "months": ["يناير", "فبراير", "مارس", "أبريل", "مايو", "يونيو"]}
}
"""

HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b[2J\x1b[Hthe screen was just cleared, had this reached the terminal\n"
    "\x1b]0;a new window title\x07\x1b]8;;https://example.invalid/\x1b\\a link\x1b]8;;\x1b\\\n"
    "\x1b]52;c;Y29waWVk\x07 (would have set the clipboard)  \x9b5m (a C1 control)  \x00 (NUL)  \x08\x08\x08 (back)\n"
    "access_level = \u202e\u2066'user' // admin only\u2069\u2066  (bidi controls: what you read is not what is there)\n"
    "pay\u200bpal  e\u0301 vs \u00e9  \ufeffBOM  \u2028line separator  \U000e0041tag\n"
    "[bold]markup of a UI library[/bold] [@click=app.quit]click[/]  {{template}}  %s %n\n"
    "progress 10%\rprogress 55%\rprogress 100%\n"
)

TEST_OUTPUT = """\
tests/test_labels.py ....                                                [ 66%]
tests/test_chart.py .F                                                   [100%]

E       AssertionError: 'ﺮﻄﻣ' != 'مطر'
E         the label was reversed twice: once by us, once by the font engine

1 failed, 5 passed
"""


def bash(command: str, about: str, out: str, *, error: bool = False) -> Call:
    """A Bash call."""
    tool_result = {"stdout": out, "stderr": "", "interrupted": False, "isImage": False}
    return Call("Bash", {"command": command, "description": about}, out, error, None if error else tool_result)


def build() -> bytes:
    """The session."""
    it = Recorder("languages", datetime(2026, 10, 5, 13, 40, 2), CWD, version="2.1.215", hidden=11_000)
    _chinese(it)
    _arabic(it)
    _hostile(it)
    return it.lines()


def _chinese(it: Recorder) -> None:
    chart = bar_chart([6, 9, 14, 22, 30, 27])
    it.prompt(
        [
            text(
                "这是程序画的降水量图表。中文标签显示成了方块 □□,请检查字体和 labels.json,然后修好它。🌧️"
                "\n\n(context-tui 的示例会话,由我们手工编写,并非真实用户的记录。)"
            ),
            image(chart),
        ],
        after=0,
    )
    labels = numbered(LABELS)
    read = Call("Read", {"file_path": f"{CWD}/labels.json"}, labels, client_result={"type": "text", "file": {}})
    fonts = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf: DejaVu Sans:style=Book\n"
    it.reply(
        thinking("图里的方块说明字体没有这些字形。先看标签文件是不是 UTF-8,再看系统里有没有中文字体。"),
        text("我先看标签文件和可用的字体。"),
        calls=[read, bash("fc-list :lang=zh; fc-list | head -1", "列出中文字体", fonts)],
    )
    old, new = 'FONT = "DejaVu Sans"', 'FONTS = ["Noto Sans", "Noto Sans CJK SC", "Noto Naskh Arabic"]'
    tool_input = {"replace_all": False, "file_path": f"{CWD}/chart.py", "old_string": old, "new_string": new}
    it.reply(
        text("标签文件没有问题;只是没有中文字体。我让程序按顺序尝试几种字体。"),
        calls=[Call("Edit", tool_input, f"The file {CWD}/chart.py has been updated successfully.", client_result={})],
    )
    blocks = [text("chart.png (64x40)"), image(bar_chart([6, 9, 14, 22, 30, 27]))]
    view = Call("Read", {"file_path": f"{CWD}/chart.png"}, blocks, client_result={"type": "image", "file": {}})
    it.reply(calls=[view])
    it.reply(text("修好了:一月到六月的标签都能显示,最高的是五月(30 毫米)。☔️👩🏽‍💻🇨🇳"))


def _arabic(it: Recorder) -> None:
    it.prompt(
        [text("الآن العربية: النص في نافذة الإعدادات معكوس. انظر إلى الصورة وأصلح ذلك من فضلك."), image(dialog())],
        after=140,
    )
    it.reply(
        text("سأشغّل الاختبارات أولاً لأرى أين يُعكس النص."),
        calls=[bash("python -m pytest -q tests", "تشغيل الاختبارات", TEST_OUTPUT, error=True)],
    )
    tool_input = {
        "replace_all": False,
        "file_path": f"{CWD}/dialog.py",
        "old_string": "label = get_display(reshape(label))",
        "new_string": "label = reshape(label)  # محرك الخطوط يعكس النص بنفسه",
    }
    it.reply(
        thinking("النص يُعكس مرتين: مرة في get_display ومرة في محرك الخطوط."),
        calls=[Call("Edit", tool_input, f"The file {CWD}/dialog.py has been updated successfully.", client_result={})],
    )
    it.reply(calls=[bash("python -m pytest -q tests", "تشغيل الاختبارات", "......  [100%]\n6 passed\n")])
    it.reply(text("تم الإصلاح ✅ كان النص يُعكس مرتين. «مطر» تظهر الآن كما يجب، والأرقام (30 مم) من اليسار إلى اليمين."))


def _hostile(it: Recorder) -> None:
    it.prompt("One more: `cat logs/terminal.log` makes my terminal go mad. What is in there? 🤔", after=75)
    it.reply(
        calls=[
            bash("cat logs/terminal.log", "Show the log", HOSTILE),
            bash("ls -l logs", "List the logs", "-rw-r--r-- 1 dev dev 742 Oct  5 13:39 terminal.log\n"),
        ]
    )
    it.reply(
        text(
            "Control sequences: it clears the screen, sets the window title and would set the clipboard (OSC 52); "
            "two lines hold bidirectional overrides, so that the text reads differently from what it is. "
            "`cat -v` shows all of that as text. 🧹"
        )
    )
