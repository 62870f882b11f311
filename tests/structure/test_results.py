"""Results and benchmarks are one to one, a result says how to repeat it, and the scripts that are named exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = {str(path.relative_to(ROOT / "benchmarks").with_suffix("")) for path in ROOT.glob("benchmarks/*/*.py")}
RESULTS = {str(path.relative_to(ROOT / "results").with_suffix("")): path for path in ROOT.glob("results/**/*.json")}
# Scripts whose result is not there, and why.
NOT_MEASURED = {
    "finetuning/official": "needs a network and hours on a GPU",
}
# Results of a comparison that lack what the others have, and why.
WITHOUT_QUARTILES = {"translation/training_speed": "measured when the range was kept instead"}
KINDS = {"command": str, "date": str, "commit": str, "device": dict, "versions": dict, "seeds": list, "seconds": float}
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")),
    *sorted(ROOT.glob("data/checkpoints/*/README.md")),
    *sorted(ROOT.glob("chapters/*/*.ipynb")),
]


def pairing_problems(scripts: set[str], results: set[str], not_measured: set[str]) -> list[str]:
    """Scripts and results, by ``topic/run``, that have no partner."""
    problems = [f"results/{name}.json: no script of this name writes it" for name in sorted(results - scripts)]
    problems += [f"benchmarks/{name}.py: no result" for name in sorted(scripts - results - not_measured)]
    return problems + [f"{name}: an exception that is none" for name in sorted(not_measured - (scripts - results))]


def record_problems(name: str, content: dict[str, Any]) -> list[str]:
    """What a result lacks to be judged and repeated."""
    problems = [f"{key} is no {kind.__name__}" for key, kind in KINDS.items() if type(content.get(key)) is not kind]
    words = str(content.get("command")).split()
    if words[:3] != ["python", "-m", "benchmarks." + name.replace("/", ".")]:
        problems.append(f"the command is not that of benchmarks/{name}.py")
    return problems + [f"the command names a place on one machine: {word}" for word in words if word.startswith("/")]


def comparisons(found: Any) -> Iterator[dict[str, Any]]:
    """All that :func:`benchmarks.timing.compare` returned, wherever it stands."""
    if isinstance(found, dict):
        if "ratio" in found:
            yield found
        for value in found.values():
            yield from comparisons(value)


def comparison_problems(found: dict[str, Any], quartiles: bool = True) -> list[str]:
    """What a comparison of speeds lacks: speeds by side, and for each pair of sides the median and the quartiles."""
    speeds = [value for key, value in found.items() if key.endswith("_per_second")]
    if len(speeds) != 1 or not all(set(speed) & {"total", "median"} for speed in speeds[0].values()):
        return ["no speeds of the sides"]
    needed = {"median", "quartiles"} if quartiles else {"median"}
    problems = [f"{pair}: lacks {needed - set(one)}" for pair, one in found["ratio"].items() if needed - set(one)]
    pairs = {f"{one} to {other}" for one in speeds[0] for other in speeds[0]}
    return problems + [f"{pair}: no such sides" for pair in found["ratio"] if pair not in pairs]


def named_scripts(text: str) -> set[str]:
    """The scripts and modules of ``benchmarks/`` that a text names, as ``topic/run`` or ``module``."""
    found = set(re.findall(r"benchmarks/([\w/]+)\.py", text))
    found |= {name.replace(".", "/") for name in re.findall(r"-m benchmarks\.([\w.]*\w)", text) if "." in name}
    found |= set(re.findall(r"""notebook\.benchmark\(\\?["']([\w/]+)""", text))
    for names, topic in re.findall(r"for name in ([^;]+); do \$\(RUN\) -m benchmarks\.(\w+\.)?\$\$name", text):
        found |= {(topic + name).replace(".", "/") for name in names.split()}
    return found


def told_seeds(text: str) -> int | None:
    """How many seeds the first line of a script tells, if it does."""
    found = re.search(r"\b(one|two|three) seeds?\b", text.split("\n")[0])
    return ["one", "two", "three"].index(found[1]) + 1 if found else None


def test_results_and_benchmarks_are_one_to_one() -> None:
    assert not pairing_problems(SCRIPTS, set(RESULTS), set(NOT_MEASURED))


def test_a_missing_partner_is_seen() -> None:
    assert pairing_problems({"a/x"}, set(), set())
    assert pairing_problems(set(), {"a/x"}, set())
    assert pairing_problems({"a/x"}, {"a/x"}, {"a/x"})
    assert not pairing_problems({"a/x", "a/y"}, {"a/x"}, {"a/y"})


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_result_can_be_repeated_and_judged(name: str) -> None:
    content = json.loads(RESULTS[name].read_text())
    problems = record_problems(name, content)
    for found in comparisons(content["metrics"]):
        problems += comparison_problems(found, name not in WITHOUT_QUARTILES)
        if name in WITHOUT_QUARTILES:
            assert comparison_problems(found), "an exception that is none"
    assert not problems


def test_a_script_tells_as_many_seeds_as_its_result_has() -> None:
    told = {name: told_seeds((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")) for name in RESULTS}
    wrong = {
        name: count
        for name, count in told.items()
        if count and count != len(json.loads(RESULTS[name].read_text())["seeds"])
    }
    assert told["finetuning/trec"] == 2
    assert not wrong


def test_incomplete_results_are_seen() -> None:
    good = json.loads(RESULTS["bert/wic"].read_text())
    assert not record_problems("bert/wic", good)
    assert record_problems("bert/other", good)
    for key in KINDS:
        assert record_problems("bert/wic", {name: value for name, value in good.items() if name != key})
    assert record_problems("bert/wic", good | {"command": good["command"] + " --model /home/me/model"})


def test_incomplete_comparisons_are_seen() -> None:
    ratio = {"ours to reference": {"median": 2.0, "quartiles": [1.0, 3.0]}}
    speeds = {"ours": {"total": 2.0}, "reference": {"median": 1.0}}
    assert list(comparisons({"a": {"b": {"ratio": ratio}}})) == [{"ratio": ratio}]
    assert not comparison_problems({"tokens_per_second": speeds, "ratio": ratio})
    assert comparison_problems({"tokens_per_second": {"ours": {}}, "ratio": ratio})
    assert comparison_problems({"tokens_per_second": speeds, "ratio": {"ours to reference": {"median": 2.0}}})
    assert comparison_problems({"tokens_per_second": speeds, "ratio": {"ours to loop": ratio["ours to reference"]}})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts_that_are_named_exist(page: Path) -> None:
    named = named_scripts(page.read_text(encoding="utf-8"))
    assert not {name for name in named if not (ROOT / "benchmarks" / f"{name}.py").is_file()}


def test_names_of_scripts_are_found() -> None:
    text = "`benchmarks/a/x.py`, python -m benchmarks.a.y --seed 0; notebook.benchmark('a/z') benchmarks/timing.py"
    assert named_scripts(text) == {"a/x", "a/y", "a/z", "timing"}
    loops = "for name in a.x b.y; do $(RUN) -m benchmarks.$$name; done for name in z; do $(RUN) -m benchmarks.c.$$name"
    assert named_scripts(loops) == {"a/x", "b/y", "c/z"}
