"""``python -m tests.fuzz [HOW_MANY [FIRST]]``: run mutated sessions by number, and print what breaks."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.running import Failure, failures

how_many, first = (*map(int, sys.argv[1:3]), 2_000, 0)[:2] if len(sys.argv) != 2 else (int(sys.argv[1]), 0)
kinds = Counter[str]()
read, begun = 0, time.monotonic()
with tempfile.TemporaryDirectory() as folder:
    for outcome in failures(range(first, first + how_many), Path(folder)):
        if isinstance(outcome, Failure):
            said, _, where = outcome.error.partition("\n")
            kind = f"{where.partition(' < ')[0]}: {re.sub(r'[0-9]+', '0', said)[:60]}"
            if not kinds[kind]:
                print(outcome, flush=True)
            kinds[kind] += 1
        else:
            read += bool(outcome)
print(f"{how_many} files, {read} of them readable, {sum(kinds.values())} failures, {time.monotonic() - begun:.0f} s")
for kind, count in kinds.most_common():
    print(f"{count:6} {kind.strip()}")
sys.exit(bool(kinds))
