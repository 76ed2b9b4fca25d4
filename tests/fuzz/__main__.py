"""``python -m tests.fuzz [HOW_MANY [FIRST]]``: run mutated sessions by number, and print what breaks.

The first number is drawn and printed if it is not given.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.running import Failure, failures

how_many = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
first = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1_000_000, 2**40)
print(f"{how_many:,} files from number {first}", flush=True)
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
