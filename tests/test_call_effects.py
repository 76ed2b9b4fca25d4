"""Tables of what calls do and of what content is recognised by: commands of shells, arguments of tools, lines, names.

The answers stand in ``data/call_effects.json``; ``python -m tests.test_call_effects`` writes it anew after an intended
change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_tui.lab.regret.needles import (
    collect_strings,
    cut_excerpt,
    extract_block_text,
    find_lines,
    find_paths,
    find_tokens,
    is_distinctive_line,
    is_distinctive_token,
)
from context_tui.lab.regret.tool_calls import (
    CallEffect,
    analyze_call,
    extract_powershell_script,
    find_powershell_reads,
    get_command_line,
    is_same_file,
)

ANSWERS = Path(__file__).parent / "data" / "call_effects.json"
COMMANDS = [
    *("cat a.py", "cat -n src/a.py b.py", "head -n 20 a.py", "head -20 a.py", "tail -c 9 log.txt", "nl -ba a.py"),
    *(
        "sed -n '1,20p' a.py",
        "sed -n 5p a.py b.py",
        "sed -e s/a/b/ a.py",
        "sed -i 's/old_name_of_it/new_name/' a.py b.py",
    ),
    *(
        "sed --in-place 's|old_name_of_it|new_name|g; s/short/x/' a.py",
        "sed -f script.sed a.py",
        "sed 's/a/b/' a.py > b.py",
    ),
    *(
        "grep -rn needle src",
        "grep -e needle a.py",
        "grep -A 3 -n needle a.py 2>/dev/null",
        "grep -c needle a.py",
        "grep --regexp=needle a.py",
        "tail -f log.txt",
        "cat -e a.py",
        "rg needle -g '*.py' src",
    ),
    *("rg -n needle", "jq .a data.json", "ls -la src", "find . -name '*.py'", "find . -delete", "find . -exec rm {} +"),
    *("cd src && cat a.py", "cd src; cd sub && cat ../a.py | head -5", "cat a.py | sort | uniq -c", "wc -l a.py"),
    *("git show HEAD:a.py", "git -C /p log --oneline", "git status", "git diff", "git --no-pager blame a.py", "git"),
    *("ls | xargs cat", "ls | xargs rm", "xargs -n 1 head", "xargs", "make", "make --help", "python x.py", "true", ""),
    *("echo hi > out.txt", "echo hi >> out/log.txt 2>&1", "cat a.py && rm a.py", "cat `which x`", "cat $(which x)"),
    *(
        "cat ${HOME}/a.py",
        "cat a.py 2>&1 | less",
        "cat <in.txt",
        "cat 'unfinished",
        "cat a.py &> /dev/null",
        "bat 7 a.py",
    ),
    "cat > new.py <<'EOF'\nline one\nline two\nEOF\necho done",
    "cat <<EOF > new.py\nline one\nEOF",
    "cat <<-END >> deep/new.py\nx\nEND\nmake",
    "cat <<EOF\nonly shown\nEOF",
    "cat a.py\ncat b.py",
    "apply_patch <<'E'\n*** Begin Patch\n*** Update File: src/a.py\n@@\n-old line\n+new line\n same\n*** End Patch\nE",
    "cat " + "a" * 1_995,
    "cat " + "a" * 1_996,
    "cat " + "a" * 1_997,
]
POWERSHELL = [
    *(
        "Get-Content a.txt",
        "Get-Content -Path src\\a.txt, b.txt",
        "gc .\\a.txt | Select-String needle",
        "sls needle a.txt",
    ),
    *(
        "Select-String -Pattern needle -Path a.txt",
        "cd src; type a.txt",
        "Set-Location src\\; cat a.txt C:\\b.txt /c.txt",
    ),
    *(
        "Get-ChildItem -Recurse *.py",
        "Get-Content a.txt -Wait",
        "Get-Content a.txt | Out-File b.txt",
        "Remove-Item a.txt",
    ),
    *("gc a.txt -TotalCount 5", "gc -LiteralPath a.txt -Raw", "Get-Content $(x)", "gc a.txt > b.txt", "gc 'open"),
    *("dir | sort | select -First 3", "sls -Quiet needle a.txt,b.txt", "-", "Get-Content @x", "gc *.txt"),
]
INVOCATIONS = [
    *('powershell -Command "Get-Content a.txt"', "powershell.exe -NoProfile -ExecutionPolicy Bypass -Command gc a.txt"),
    *(
        "pwsh -c 'dir'",
        '"C:\\Windows\\System32\\cmd.exe" /c type a.txt',
        "cmd /c dir",
        "bash -c dir",
        "x; Get-Content a.txt",
    ),
    *("powershell -File a.ps1", 'pwsh -c "\'"', '  CMD /C "type a.txt"'),
]
CALLS: list[tuple[str, object]] = [
    *(("Bash", {"command": command}) for command in COMMANDS),
    *(("PowerShell", {"command": script}) for script in POWERSHELL),
    *(
        ("shell", {"command": command.split("|")})
        for command in ("bash|-lc|cat a.py", "cat|a.py", "cmd|/c|type a.txt", "-c|cat a.py")
    ),
    *(
        ("shell", {"command": ["PowerShell", "-NoProfile", "-Command", "gc a.txt"]}),
        ("run_commands", {"commands": ["cat a.py", "cat b.py"]}),
    ),
    *(
        ("exec_command", {"cmd": "cat a.py"}),
        ("local_shell_call", {"args": {"command": "cat a.py"}}),
        ("terminal", {"script": 7}),
    ),
    *(
        ("Read", {"file_path": "a.py"}),
        ("Read", {"file_path": "a.py", "offset": 3, "limit": 9}),
        ("Read", {"file_path": " "}),
    ),
    *(
        ("read_file", {"path": "src\\a.py", "view_range": [2, -1]}),
        ("read_file", {"file": "a.py", "line_ranges": ["1-9"]}),
    ),
    *(("read_file", {"target_file": "a.py", "line_number": 7}), ("view", {"url": "https://e.org/x"}), ("open", "a.py")),
    *(
        ("read_many_files", {"paths": ["a.py", "b.py", "a.py"]}),
        ("read_files", {"files": [{"path": "a.py", "offset": 2}, "b.py"]}),
    ),
    *(
        ("read_files", {"file_path": ["a.py"]}),
        ("mcp__fs__read_file", {"path": "a.py"}),
        ("NotebookRead", {"notebook_path": "n.ipynb"}),
    ),
    *(
        ("Edit", {"file_path": "a.py", "old_string": "old", "new_string": "new"}),
        ("Write", {"file_path": "a.py", "content": "text"}),
    ),
    *(
        (
            "MultiEdit",
            {"file_path": "a.py", "edits": [{"old_string": "o1", "new_string": "n1"}, {"old_string": "o2"}, 7]},
        ),
    ),
    *(("write_to_file", {"path": "a.py", "content": ["x"]}), ("create", {"path": "a.py", "file_text": "text"})),
    *(("replace_in_file", {"path": "a.py", "diff": "<<<<<<< SEARCH\nold\nlines\n=======\nnew\n>>>>>>> REPLACE\n"}),),
    *(
        (
            "apply_diff",
            {"path": "a.py", "diff": "<<<<<<< SEARCH\n:start_line:3\n-------\nold\n=======\nnew\n>>>>>>> REPLACE"},
        ),
    ),
    *(
        ("apply_diff", {"path": "a.py", "diff": "<<<<<<< SEARCH\nnever ended"}),
        ("editor", {"path": "a.py", "search": "o", "replace": "n"}),
    ),
    *(
        (
            "apply_patch",
            {"input": "*** Begin Patch\n*** Add File: new.py\n+one\n*** Delete File: old.py\n*** End Patch"},
        ),
    ),
    *(("apply_patch", "*** Begin Patch\n*** Update File: a.py\n-x\n+y\n*** End Patch"),),
    *(
        ("str_replace_editor", {"command": name, "path": "a.py", "old_str": "o", "new_str": "n"})
        for name in ("view", "str_replace", "undo_edit", "x")
    ),
    *(
        ("Grep", {"pattern": "x", "path": "src"}),
        ("Glob", {"pattern": "*.py"}),
        ("mcp__db__query", {"sql": "select 1"}),
    ),
    *(
        ("fetch_issue", {"id": 1}),
        ("get_task_output", {"id": 1}),
        ("TodoWrite", {"todos": []}),
        ("runShell", {"command": "cat a.py"}),
    ),
    *(
        ("openDocument", {"path": "a.py"}),
        ("updatePage", {"path": "a.py", "new_text": "n"}),
        ("unknown", {"path": "a.py"}),
        ("run_tests", {}),
    ),
]
TOKENS = [
    *(
        "session_reader",
        "sessionReader",
        "sessions",
        "session_",
        "_private",
        "short_x",
        "a_b_c_d",
        "x" * 81,
        "a_" * 40,
        "9session_x",
    ),
    *(
        "prompt_cache_reader",
        "PromptCacheReader",
        "addEventListener",
        "assert_called_once_with",
        "long_name_of_two",
        "HTTPServerName",
    ),
    *(
        "12345",
        "1234",
        "12000",
        "11111",
        "11211",
        "98765",
        "deadbeef",
        "deadbee1",
        "dead1",
        "dead123",
        "1" * 90,
        "g123456",
        "a1" * 32,
        "a1" * 33,
    ),
    *(
        "--dry-run",
        "--verbose",
        "me@work.org",
        "me@example.org",
        "git@host.org",
        "noreply@host.org",
        "1.2345",
        "127.0.0.1",
        "0.0.12345",
    ),
    *(
        "10.23.45.67",
        "v12.3.4567",
        "#1234",
        "#12345",
        "a-b2c",
        "a-b2c-x9y9",
        "12ab34-x",
        "web-2x2y",
        "plain-words",
        "a@b",
    ),
]
PATHS = [
    *(
        "src/reader.py",
        "reader.py",
        "config.json",
        "src/config.json",
        "./config.json",
        "../config.json",
        "~/config.json",
        "/config.json",
    ),
    *(
        "README.md",
        "docs/README.md",
        "LICENSE",
        "a.b",
        "deep/in/short.ts",
        "short.ts",
        "sixsix.ts",
        "fivee.ts",
        "x/NOTES.md",
        "noext",
        "a.exe",
    ),
    *("trailing/reader.py/", "package-lock.json", "web/package-lock.json", ".env", "src/.env", "sub/mod.GO"),
]
TEXTS = [
    "\n".join(lines)
    for lines in (
        (
            "def find_the_session(self):\n    class SessionReader:\n  async loadSession(path) {",
            "function parseThePolicy() {\n12:MAX_TOKENS_OF_X=5",
        ),
        (
            "  -n, --dry-run-first  does nothing\n  --all-sessions\nfunc (r *Reader) ReadSessions(x int)",
            "const shortName = 1\nlet longEnoughName = 2",
        ),
        (
            "    12→    value = compute_the_sum(of, all, parts)",
            "src/a.py:12:    value = compute_the_sum(of, all, parts)",
            "- old line that is long enough here\n+ new",
        ),
        (
            "<returncode>0</returncode>\nHere's the result of running `cat -n` on a file",
            "<b>not a frame but a line of text</b>\nimport os.path as something_else\n",
        ),
        (
            'import a.long.module.name as x\n# include a comment that is a long line\n"""A docstring of a module.',
            "1234567890 1234567890 1234567890\nnospacesbutalongline_of_text\n",
        ),
        (
            f"see C:\\src\\reader.py and C:\\new\\table.rs, src/lib/reader.py; {'x' * 401}.py",
            f"/{'d' * 380}/reader_of_x.py #1234 v1.2.3456 12345 deadbee1 me@work.org a-b2c-x9y9",
        ),
    )
]
BLOCKS: list[dict[str, Any]] = [
    {"type": "tool_result", "content": "text<system-reminder>no</system-reminder> more<system-reminder>open"},
    {"type": "tool_result", "content": '{"output": "inner", "metadata": 1}'},
    {"type": "tool_result", "content": '{"output":"inner","metadata":1}'},
    {"type": "tool_result", "content": '{"output": broken'},
    {"type": "tool_result", "content": '{"output":broken'},
    {"type": "tool_use", "input": {"a": ["x", 7, True, None, {"b": 1.5}], "c": "y"}},
    {"type": "thinking", "thinking": "t"},
    {"type": "thinking"},
    {"type": "text", "text": "t"},
    {"type": "text"},
    {"type": "image", "source": {}},
]


def build_answers() -> dict[str, list[Any]]:
    """The answers by kind of question."""
    effects = [analyze_call(tool, arguments) for tool, arguments in CALLS]
    needles = ["find_the_session", "reader.py", "value = compute_the_sum(of, all, parts)", "nowhere at all"]
    return {
        "calls": [[field for field in zip(CallEffect._fields, effect, strict=True) if field[1]] for effect in effects],
        "command lines": [get_command_line(arguments) for _, arguments in CALLS if isinstance(arguments, dict)],
        "invocations": [extract_powershell_script(command) for command in INVOCATIONS],
        "scripts": [find_powershell_reads(script) for script in POWERSHELL],
        "tokens": [[token, is_distinctive_token(token)] for token in TOKENS],
        "paths": [[path, [*find_paths(path)]] for path in PATHS],
        "found tokens": [[*find_tokens(text)] for text in TEXTS],
        "found paths": [[*find_paths(text)] for text in TEXTS],
        "lines": [find_lines(text) + find_lines(text, 5) for text in TEXTS],
        "distinctive": [[is_distinctive_line(line) for line in text.splitlines()] for text in TEXTS],
        "blocks": [extract_block_text(block) for block in BLOCKS],
        "strings": [collect_strings(block) for block in BLOCKS],
        "excerpts": [cut_excerpt(text, needle, length) for text in TEXTS for needle in needles for length in (20, 160)],
    }


@pytest.mark.parametrize("kind", [*json.loads(ANSWERS.read_text("utf-8"))])
def test_answers_hold(kind: str) -> None:
    answers = json.loads(json.dumps(build_answers()[kind]))
    for number, (answer, expected) in enumerate(
        zip(answers, json.loads(ANSWERS.read_text("utf-8"))[kind], strict=True)
    ):
        assert answer == expected, (kind, number)


def test_paths_of_one_file() -> None:
    assert is_same_file("a.py", "./a.py") and is_same_file("src/a.py", "a.py") and is_same_file("a.py", "/p/src/a.py")
    assert not is_same_file("src/a.py", "lib/a.py") and not is_same_file("ba.py", "a.py")
    effect = CallEffect(read_paths=("src/a.py",), changed_paths=("b.py",))
    assert effect.concerns(["x.py", "a.py"]) and effect.concerns(["p/b.py"]) and not effect.concerns(["c.py"])


if __name__ == "__main__":
    answers = build_answers()
    lines = [
        f' "{kind}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]"
        for kind, rows in answers.items()
    ]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


@pytest.mark.parametrize("program", ["aargh", "go", "make", "yarn", "zsh"])
def test_a_program_that_is_not_known_to_read_only_fetches_nothing_although_its_first_word_is_one_that_does(
    program: str,
) -> None:
    assert not analyze_call("Bash", {"command": f"{program} cat a.py"}).fetch_key
    assert analyze_call("Bash", {"command": "find . | xargs cat a.py"}).fetch_key
