"""Reports: pages that load nothing, say the numbers of a replay, hide text and secrets, and open in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path, PurePath
from typing import Any

import pytest

from context_tui.batch.workers import find_sources
from context_tui.cli import main
from context_tui.export.report import Report, Section, Table
from context_tui.export.report_page import format_html, format_markdown
from context_tui.tui.app import ContextTuiApp
from context_tui.tui.inspector.screen import InspectorScreen
from tests.formats import recordings
from tests.formats.recordings import call, result, text, usage
from tests.tui.fakes import until

SAMPLES = Path(__file__).parents[1] / "sample_sessions"
SAMPLE, COMPACTED = SAMPLES / "coding-session.jsonl", SAMPLES / "compacted-session.jsonl"
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
VOID = {"meta", "rect", "line", "path"}


class Page(HTMLParser):
    """Page that fails on an open or stray tag and on anything that loads or runs."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open_tags, self.words = list[str](), list[str]()
        self.feed(html)
        assert not self.open_tags

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe")
        assert not any(name in ("src", "href") or name.startswith("on") for name, _ in attrs)
        if tag not in VOID or tag in ("rect", "line", "path"):
            self.open_tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """Text of the page."""
        return " ".join(self.words)


def write(path: Path, *arguments: object) -> str:
    assert main(["report", *map(str, arguments), "-o", str(path)]) == 0
    return path.read_text("utf-8")


def record(folder: Path) -> Path:
    """Write a session whose prompts and tools try to leave their places."""
    made, size = recordings.Recording(), 10_000
    for turn in range(6):
        made.user(f"turn {turn} </table><script>alert(1)</script> {KEY}")
        made.assistant(call(f"c{turn}", "<b>Read|`", file_path=f"{turn}.py"), use=usage(0, read=size))
        made.results(result(f"c{turn}", f"{turn} line of a file\n" * 1_000))
        made.assistant(text("done"), use=usage(0, read=size + 2_000))
        size += 2_020
    return made.write(folder)


def test_the_numbers_are_those_of_the_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Page(write(tmp_path / "page.html", SAMPLE, "-P", "defect-microcompact"))
    capsys.readouterr()
    main(["replay", str(SAMPLE), "-P", "defect-microcompact", "--json"])
    (policy,) = json.loads(capsys.readouterr().out)["policies"]
    words = page.text
    assert f"saves {policy['totals']['saved']:,} tokens" in words
    for firing in policy["firings"]:
        assert f"{firing['before']:,}" in words and f"{firing['after']:,}" in words
    main(["inspect", str(SAMPLE)])
    answer = next(line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("Full to"))
    assert answer.strip().split(". ")[0].rstrip(".") in words
    assert "there is nothing to learn" in words or "evidence" in words or "Recommended" in words


def test_text_is_included_on_request_only_and_masked(tmp_path: Path) -> None:
    session = record(tmp_path)
    arguments = (session, "--window", 30_000, "-P", "defect-microcompact")
    plain, full = (
        Page(write(tmp_path / name, *arguments, *more)) for name, more in (("a.html", ()), ("b.html", ("--with-text",)))
    )
    assert "turn 3" not in plain.text and "turn 3 </table><script>alert(1)</script>" in full.text
    assert KEY not in full.text and "[masked" in full.text
    assert "<b>Read|`" in plain.text  # a tool's name is a name here, no tag
    markdown = write(tmp_path / "c.md", *arguments, "--with-text")
    assert KEY not in markdown and "<script>" not in re.sub(r"\\\\[<>]", "", markdown)
    assert r"\<b\>Read\|\`" in markdown


def test_rows_beyond_the_limit_are_counted_in_the_last_row() -> None:
    rows = [(1, "x"), (2_000, "y"), *[(None, "z")] * 43]
    report = Report("t", [Section("s", ["one"], (), [Table("c", ("a", "b"), rows)])])
    page, markdown = format_html(report), format_markdown(report)
    assert "2,000" in Page(page).text and page.count("<td class") == 40 and "and 5 more</td></tr></tbody>" in page
    assert markdown.startswith("# t\n\n## s\n\none\n\n### c\n\n| a | b |\n| --: | --- |\n| 1 | x |\n| 2,000 | y |\n")
    assert markdown.count("| unknown | z |") == 8 and markdown.endswith("| unknown | z |\n| and 35 more |  |\n")


@pytest.mark.parametrize("name", ["a.md", "a.html"])
def test_the_answer_comes_first_and_each_section_says_something(tmp_path: Path, name: str) -> None:
    sessions = record(tmp_path), SAMPLE
    page = write(tmp_path / name, *sessions, "-P", "defect-microcompact", "--window", 30_000)
    answers = ["## s.jsonl", "Full to", "defect-microcompact fires", "## coding-session.jsonl", "## Which setting of"]
    tables = ["## Details of s.jsonl", "### What fills", "### What defect-microcompact would have done"]
    texts = [*answers, *tables]
    if name == "a.md":
        assert "| --" not in page[: page.index("## Details")]
        assert not re.search(r"^### .*\n+#", page, re.MULTILINE)
    else:
        texts = [re.sub("^(#+) ", lambda hashes: f"<h{len(hashes[1])}>", each) for each in texts]
        assert "<table>" not in page[: page.index("<h2>Details")]
    places = [page.replace("\\_", "_").index(each) for each in texts]
    assert places == sorted(places)


def test_markdown_has_the_sizes_as_lines_of_signs(tmp_path: Path) -> None:
    page = write(tmp_path / "a.md", record(tmp_path), "-P", "defect-microcompact", "--window", 30_000)
    (block,) = re.findall("```text\n(.*?)\n```", page, re.DOTALL)
    recorded, policy = block.split("\n")
    assert re.fullmatch("[▁-█]{12}  recorded, at most 22,100", recorded)
    assert re.match("[▁-█]{12}  defect-microcompact.*, at most", policy) and policy[:12] < recorded[:12]
    assert "█ being 30,000 tokens" in page


@pytest.mark.parametrize("name", ["a.md", "a.html"])
def test_recorded_compactions_are_listed_with_sizes_and_trigger(tmp_path: Path, name: str) -> None:
    page = write(tmp_path / name, COMPACTED)
    rows = {each.group(1): re.findall(r"[\w,]+", each.group()) for each in re.finditer(r"[|>] ?\\?#(\d+)\b.*", page)}
    if name == "a.md":
        assert rows == {
            "18": "18 micro auto 16,469 16,472 15,138".split(),
            "24": "24 full manual 15,395 15,397 14,820".split(),
        }
    for number in (
        "before, recorded + estimate",
        "before, by the agent",
        "16,469",
        "15,138",
        "manual",
        "15,395",
        "14,820",
    ):
        assert number in page


def test_equal_lines_and_events_at_one_call_have_one_label(tmp_path: Path) -> None:
    made, size = recordings.Recording(), 10_000
    for turn in range(6):
        if turn in (2, 4):
            trigger: Any = "auto" if turn == 2 else None
            made.boundary(size, trigger=trigger)
            made.summary()
            size = 10_000
        made.user("go on " * (4_000 if turn == 2 else 1))
        made.assistant(call(f"c{turn}", "Read", file_path="a.py"), use=usage(0, read=size))
        made.results(result(f"c{turn}", "line of a file\n" * 2_000))
        made.assistant(text("done"), use=usage(0, read=size + 4_000))
        size += 4_020
    session = made.write(tmp_path)
    page = write(
        tmp_path / "a.html", session, "-P", "defect-microcompact", "-P", "claude-code-micro", "--recorded", "keep"
    )
    assert "<title>recorded, the same under defect-microcompact, the same under claude-code-micro</title>" in page
    assert page.count("<polyline") == 1
    assert "<title>call 9: recorded full compaction</title>" in page and "None" not in page

    undone = session, "--window", 30_000, "-P", "claude-code-auto", "-p", "trigger_reserve=7500", "--recorded", "undo"
    page = write(tmp_path / "b.html", *undone)
    titles = re.findall("<polyline[^>]*><title>([^<]*)", page)
    assert titles[:2] == ["recorded", "without its recorded compactions (hypothetical)"] and len(titles) == 3
    assert re.search("<title>call 5: recorded auto full compaction; claude-code-auto: [^<]*summarised", page)
    assert "with the recorded compactions undone, fires" in page
    assert "ompared with no policy and without the recorded compactions (hypothetical): saves" in page
    kept = write(tmp_path / "c.md", *undone[:-1], "keep")
    assert "with the recorded compactions kept, adds no firing" in kept.replace("\\", "")
    assert re.search("fires \\d times? in 1 of 1 session, sub-agents included, recorded compactions undone", kept)
    assert "hypothetical" not in kept


def test_the_answer_and_the_recommendation_judge_the_same_replay(tmp_path: Path) -> None:
    made, size = recordings.Recording(), 10_000
    for turn in range(8):
        if turn in (3, 6):
            made.boundary(size)
            made.summary()
            size = 10_000
        made.user("go on")
        made.assistant(call(f"c{turn}", "Grep", pattern=f"line_{turn % 2}_name"), use=usage(0, read=size))
        made.results(
            result(f"c{turn}", "".join(f"part_{turn % 2}/line_{turn % 2}_name.py: {n} of a file\n" for n in range(700)))
        )
        made.assistant(text("done"), use=usage(0, read=size + 9_000))
        size += 9_020
    session = made.write(tmp_path)
    page = write(tmp_path / "a.md", session, "--window", 85_000).replace("\\", "")
    answer, _, recommendation = page[: page.index("## Details")].partition("## Which setting")
    (own,) = re.findall("^claude-code-auto .*with the recorded compactions undone, fires.*", answer, re.MULTILINE)
    (needed,) = re.findall(r"needed later \(([\d,]+) tokens\)", own)
    assert needed != "0" and f"(today {needed})" in recommendation
    assert own.endswith("Its cost is not judged: the recording ran it.") and "$" not in own and " pay" not in own
    (heads,) = re.findall(r"would have done\n\n(\| before message.*)", page)
    assert heads == "| before message | change | tokens before | after |"
    page = write(
        tmp_path / "b.md", session, "--window", 85_000, "-P", "claude-code-auto", "-p", "trigger_reserve=30000"
    )
    assert "not judged" not in page and "without the recorded compactions (hypothetical): saves" in page


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "unheard-of"])
def test_costs_that_are_not_in_dollars_are_said_to_be_in_tokens(tmp_path: Path, model: str) -> None:
    session = record(tmp_path)
    session.write_bytes(session.read_bytes().replace(b"claude-sonnet-4-5", model.encode()))
    page = write(tmp_path / "a.md", session, "--window", 30_000, "-P", "defect-microcompact")
    answer, _, recommendation = page[: page.index("## Details")].partition("## Which setting")
    assert ("Costs are in input tokens, because no price of unheard-of is known" in answer) == (model == "unheard-of")
    assert ("Costs are in input tokens" in recommendation) == (model == "unheard-of")
    assert ("$" in answer) == ("$" in recommendation) == (model != "unheard-of")


def test_dropped_blocks_are_named_by_tool_and_file(tmp_path: Path) -> None:
    arguments = SAMPLE, "-P", "defect-microcompact", "--window", 30_000
    page = write(tmp_path / "a.md", *arguments)
    assert "| \\#52 | Read breakdown.py |" in page and "/breakdown.py" not in page
    assert "/breakdown.py |" in write(tmp_path / "b.md", *arguments, "--with-text")


def test_folders_are_taken_as_by_tune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sessions"
    (folder / "b").mkdir(parents=True)
    for name in ("b/two.jsonl", "one.jsonl"):
        (folder / name).write_bytes(COMPACTED.read_bytes())
    (folder / "three.jsonl").write_text('{"type": "user"')
    page = write(tmp_path / "a.md", folder, "-P", "defect-microcompact")
    names = [PurePath(each.name).name for each in find_sources([folder]).sources]
    assert re.findall("^## Details of (.*)$", page.replace("\\", ""), re.MULTILINE) == names and len(names) == 4
    assert page.startswith("# The context of 4 sessions\n")
    (tmp_path / "empty").mkdir()
    capsys.readouterr()
    assert main(["report", str(tmp_path / "empty"), "-o", str(tmp_path / "b.md")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1 and not (tmp_path / "b.md").exists()
    assert main(["report", "--help"]) == 0
    assert "folders of sessions" in " ".join(capsys.readouterr().out.split())


def test_an_existing_file_is_kept_and_other_names_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.html").write_text("mine")
    assert main(["report", str(SAMPLE), "-o", str(tmp_path / "a.html")]) == 1
    assert (tmp_path / "a.html").read_text() == "mine" and "--force" in capsys.readouterr().err
    assert main(["report", str(SAMPLE), "-o", str(tmp_path / "a.pdf")]) == 2


async def test_a_key_writes_the_report_of_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from context_tui.formats.opening import choose_session

    monkeypatch.chdir(tmp_path)
    app = ContextTuiApp([choose_session(SAMPLE)])
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen) and not app.screen.controller.is_reading)
        for name in ("coding-session-report.html", "coding-session-report-2.html"):
            await pilot.press("ctrl+e")
            await until(pilot, (tmp_path / name).exists)
    assert "What claude-code-auto" in Page((tmp_path / "coding-session-report.html").read_text()).text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium to open the page with")
def test_a_browser_opens_the_page(tmp_path: Path) -> None:
    write(tmp_path / "page.html", SAMPLE, "-P", "defect-microcompact")
    arguments = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*arguments, f"file://{tmp_path / 'page.html'}"], capture_output=True, text=True, timeout=120, check=True
    )
    assert "What defect-microcompact would have done" in done.stdout and "polyline" in done.stdout
