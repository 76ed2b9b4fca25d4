"""Documents about long sessions hold until a change is meant: sizes, plans, replays, prices, regret and back-tests.

``data/documents.json`` keeps some numbers and a hash of each. After an intended change, write it anew by
``python -m tests.test_documents_hold``; ``scripts/results.py`` shows which numbers have changed. Free text may change.
"""

from __future__ import annotations

import json
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from context_tui.cli import inspect as inspecting
from context_tui.cli import plan as planning
from context_tui.cli import replay as replaying
from context_tui.compaction.next_request import compute_next_request
from context_tui.errors import Error
from context_tui.lab.replay.backtest import run_backtests
from context_tui.lab.study import Lab, Study, StudySettings
from context_tui.policies.parameter_space import build_params
from context_tui.policies.planning import build_plan
from context_tui.policies.registry import POLICIES
from context_tui.tokens.measures import TokenMeasure
from scripts.results import without_free_text
from tests.fuzz.journey import EAGER
from tests.scenarios import NUMBERS, open_scenario

DOCUMENTS = Path(__file__).parent / "data" / "documents.json"
NAMES = sorted(POLICIES)
GROUPS = 8
"""Policies are taken in groups: the shared work of a study is done once for each."""


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: _round(each) for key, each in value.items()}
    return [_round(each) for each in value] if isinstance(value, list | tuple) else value


def _hash(document: Any) -> str:
    plain = _round(without_free_text(json.loads(json.dumps(document, default=str))))
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


def inspect_scenario(number: int, folder: Path) -> dict[str, Any]:
    """What ``inspect`` reports at the end and in the middle, in two measures."""
    session, document = open_scenario(number, folder), dict[str, Any]()
    for at in (None, len(session) // 2):
        for measure in (TokenMeasure.CALIBRATED, TokenMeasure.OWN):
            report = inspecting.build_report(session, at, timeline=True, measure=measure)
            report["session"] = None  # its folder
            document[f"{at} {measure}"] = [report["messages"], _hash(report)]
    drops = [(drop.message, drop.tokens, drop.explained_by, len(drop.cleared_blocks)) for drop in session.drops]
    document["drops"] = [*map(str, drops)]
    return document


def plan_scenario(number: int, group: int, folder: Path) -> dict[str, Any]:
    """The plans of some policies at two points, as they are and as eager as they can be."""
    session, document = open_scenario(number, folder), dict[str, Any]()
    for name in NAMES[group::GROUPS]:
        for at in (None, len(session) * 2 // 3):
            for values in ({}, EAGER.get(name)):
                if values is None:
                    continue
                try:
                    plan = build_plan(
                        session, POLICIES[name], build_params(POLICIES[name], values), at=at, force=bool(values)
                    )
                except Error as error:
                    document[f"{name} {at} {values}"] = [type(error).__name__]
                    continue
                report = planning.build_report(plan, compute_next_request(plan))
                report["session"] = None
                numbers = [plan.tokens_before, plan.tokens_after, len(plan.edits)]
                document[f"{name} {at} {values}"] = [*numbers, _hash(report)]
    return document


def replay_scenario(number: int, group: int, folder: Path) -> dict[str, Any]:
    """The replays of some policies, with and without the recorded compactions, with their prices and regret."""
    lab, document = Lab(open_scenario(number, folder)), dict[str, Any]()
    settings = (
        StudySettings(),
        StudySettings("ignore", summary_tokens=900, delay=1, shares_prefix=True, reuse="anywhere"),
    )
    for name in NAMES[group::GROUPS]:
        for values, each in (({}, settings[0]), (EAGER.get(name, {}), settings[1])):
            try:
                study: Study = lab.run_study(POLICIES[name], build_params(POLICIES[name], values), each)
            except Error as error:
                document[f"{name} {each.recorded}"] = [type(error).__name__]
                continue
            totals, regret = study.replay.totals, study.regret
            numbers = [
                len(study.replay.firings),
                totals.saved,
                round(study.price.cost, 4),
                regret.dropped,
                regret.used_later,
            ]
            document[f"{name} {each.recorded}"] = [*numbers, _hash(replaying.build_policy_report(study))]
    if group == 0:
        study = lab.run_study(POLICIES["none"], build_params(POLICIES["none"], {}))
        report = replaying.build_report(lab, [study], run_backtests(lab.recording))
        report["session"] = None
        document["back-test"] = [len(report["requests"]), len(report["backtest"]), _hash(report)]
    return document


def _build(case: str, folder: Path) -> dict[str, Any]:
    kind, number, group = (*case.split(), "0")[:3]
    if kind == "inspect":
        return inspect_scenario(int(number), folder)
    return (plan_scenario if kind == "plan" else replay_scenario)(int(number), int(group), folder)


CASES = [f"inspect {number}" for number in NUMBERS] + [
    f"{kind} {number} {group}" for kind in ("plan", "replay") for number in NUMBERS for group in range(GROUPS)
]


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on, sums of floats are rounded in another way")
@pytest.mark.parametrize("case", CASES)
def test_a_document_holds(case: str, tmp_path: Path) -> None:
    assert json.loads(json.dumps(_build(case, tmp_path))) == json.loads(DOCUMENTS.read_text("utf-8"))[case]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        documents = {case: _build(case, Path(name)) for case in CASES}
    lines = [
        f" {json.dumps(case)}: {{\n"
        + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in document.items())
        + "\n }"
        for case, document in documents.items()
    ]
    DOCUMENTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
