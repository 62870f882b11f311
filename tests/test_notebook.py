"""What chapters use: glued numbers, source text, stored results, benchmarks, tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from d2lbert import UserError, notebook
from d2lbert.data import SampleDataWarning
from d2lbert.data.recipes import recipe


def test_a_number_is_glued_in_the_format_of_myst(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr(notebook, "display", lambda *args, **options: shown.append((args, options)))
    notebook.glue("accuracy", np.float32(0.5))
    notebook.glue("word", "bank")
    ((bundle,), options), ((second,), _) = shown
    assert bundle == {"application/papermill.record/text/plain": "0.5"}
    assert options["metadata"]["scrapbook"]["name"] == "accuracy"
    assert second == {"application/papermill.record/text/plain": "'bank'"}


def test_a_true_claim_is_silent_and_a_false_one_stops_with_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    notebook.claim("Words vary.", np.bool_(True), words=2)
    assert not "".join(capsys.readouterr())
    with pytest.raises(
        notebook.ClaimError, match=r"the page says 'Recall rises\.', and its .*: before = 0\.5, after = 0\.4"
    ):
        notebook.claim("Recall rises.", np.float32(0.4) > np.float32(0.5), before=0.5, after=0.4)


def test_claims_can_be_let_go_where_nobody_reads_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_CLAIMS", "off")
    notebook.claim("Recall rises.", False)


def test_sample_data_is_told_in_one_line_and_other_warnings_as_ever(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = []
    monkeypatch.setattr(notebook, "_show_others", lambda *warning: others.append(warning[0]))
    notebook._show_warning(SampleDataWarning("sst2: a sample"), SampleDataWarning, "/some/file.py", 3)
    assert capsys.readouterr().err == "Toy data. sst2: a sample\n"
    notebook._show_warning("else", UserWarning, "/some/file.py", 3)
    assert others == ["else"]
    assert not capsys.readouterr().err


def test_what_tqdm_advises_on_widgets_is_not_shown() -> None:
    """By itself, too, where no tool of the book runs the notebook: nbval compares what comes to the error stream."""
    program = "import warnings\nfrom d2lbert import notebook\n"
    program += "for text in ('IProgress not found. Please update jupyter', 'look'): warnings.warn(text)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "IProgress" not in run.stderr.partition("Warning: look")[0]
    assert "UserWarning: look" in run.stderr


def test_source_is_shown_as_it_stands() -> None:
    text = notebook.source(notebook.results, notebook.table).data
    assert text.startswith("```python\ndef results(name: str)")
    assert text.count("```") == 4
    assert "def table(" in text


def test_a_result_of_the_checkout_around_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results" / "some").mkdir(parents=True)
    (tmp_path / "results" / "some" / "run.json").write_text(json.dumps({"metrics": {"f1": 0.5}}))
    (tmp_path / "chapters").mkdir()
    monkeypatch.chdir(tmp_path / "chapters")
    assert notebook.results("some/run") == {"metrics": {"f1": 0.5}}


def ledger_file(folder: Path, **changes: object) -> None:
    """A ledger of five rows: two of one chapter, one whose speed is not known, one of a later chapter."""
    row = {"words": "w", "parameters": 22_700_000, "bytes": 90_900_000, "accuracy": 0.885}
    times = {"milliseconds": {"p50": 41.2, "p95": 50.7}, "sentences_per_second": 310.4}
    known = {**row, **times, "largest_difference_of_logits": 0.0312, "dollars_per_million": 0.241}
    unknown = {**row, **dict.fromkeys([*times, "largest_difference_of_logits", "dollars_per_million"])}
    rows = {
        "start": ("", known),
        "student": ("b", unknown),
        "a": ("c", known),
        "too": ("c", known),
        "end": ("d", known),
    }
    content = {
        "data": "sst2 dev",
        "device": {"processor": "P", "cores": 4},
        "threads": 2,
        "tokens": 256,
        "dollars_per_hour": 0.5,
        "quiet": True,
        "metrics": {name: {"chapter": chapter, **own} for name, (chapter, own) in rows.items()},
        **changes,
    }
    path = folder / "results" / "deployment" / "ledger.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))


def test_the_ledger_grows_and_marks_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    lines = notebook.ledger("c").data.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == ["| start: w", "| student: w", "| **a: w**", "| **too: w**"]
    assert rows[0][1:] == ["22.7", "90.9", "41, 51", "310", "88.5", "0.031", "0.24 |"]
    assert rows[1][1:] == ["22.7", "90.9", "", "", "88.5", "", " |"]
    assert rows[2][3] == "**41, 51**"
    assert "P, 2 of 4 cores; nothing else ran. " in lines[-1]
    second = notebook.ledger("b").data
    assert "**student: w**" in second
    assert "****" not in second  # what was not measured stays empty


def test_the_ledger_of_answers_has_its_own_things_and_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger_file(tmp_path, data="xquad")
    path = tmp_path / "results" / "deployment" / "ledger.json"
    renamed = path.read_text().replace("sentences_per_second", "questions_per_second").replace("accuracy", "f1")
    path.with_name("ledger_answers.json").write_text(renamed.replace("0.885", "0.631"))
    monkeypatch.chdir(tmp_path)
    found = notebook.ledger("c", "answers").data
    assert found.startswith("| step | million parameters | MB | ms | questions a second | F1, % | logits | $ |")
    assert "| start: w | 22.7 | 90.9 | 41, 51 | 310 | 63.1 | 0.031 | 0.24 |" in found
    assert "xquad; P, " in found
    assert "a million questions at 0.5 dollars" in found


def test_a_row_of_another_hour_is_named_where_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger_file(tmp_path)
    path = tmp_path / "results" / "deployment" / "ledger.json"
    content = json.loads(path.read_text())
    for name, row in content["metrics"].items():
        row["measured"] = {"command": "--steps a" if name == "a" else "all", "commit": "1", "date": "2026-01-01"}
    path.write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    told = "dollars an hour. Timed in another hour, so speeds compare less well: “a”."
    assert notebook.ledger("c").data.endswith(told)
    assert notebook.ledger("b").data.endswith("dollars an hour.")


def test_a_model_without_a_ledger_is_refused() -> None:
    with pytest.raises(UserError, match=r"^no ledger of 'gpt': give classifier or answers$"):
        notebook.ledger("pruning", "gpt")


def test_a_provisional_ledger_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger_file(tmp_path, quiet=False)
    monkeypatch.chdir(tmp_path)
    assert "so the speeds are provisional." in notebook.ledger("b").data


@pytest.mark.parametrize("chapter", ["e", ""])
def test_a_chapter_without_a_row_is_refused(chapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"^the ledger has no row of '{chapter}': give the slug of b, c, d$"):
        notebook.ledger(chapter)


def test_table_rounds_and_aligns() -> None:
    text = notebook.table([{"model": "a|b", "accuracy": 0.98765, "words": 12345}], digits=2).data
    assert text.splitlines() == ["| model | accuracy | words |", "|---|---:|---:|", "| a\\|b | 0.99 | 12,345 |"]


def test_missing_result_says_where_to_run() -> None:
    with pytest.raises(Exception, match=r"no stored result results/nothing\.json: run its benchmark"):
        notebook.results("nothing")


def test_a_benchmark_of_the_checkout_runs_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "benchmarks" / "topic").mkdir(parents=True)
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "shared.py").write_text("NAME = 'written'")
    (tmp_path / "chapters").mkdir()
    script = (
        "import pathlib, sys\nfrom benchmarks.shared import NAME\n"
        "pathlib.Path(NAME).write_text(' '.join(sys.argv[1:]))\nsys.exit('bad' in sys.argv)"
    )
    (tmp_path / "benchmarks" / "topic" / "some.py").write_text(script)
    monkeypatch.chdir(tmp_path / "chapters")
    notebook.benchmark("topic/some", "--sets", "rte")
    assert (tmp_path / "written").read_text() == "--sets rte"
    with pytest.raises(UserError, match=r"benchmarks/topic/some\.py failed"):
        notebook.benchmark("topic/some", "bad")
    with pytest.raises(UserError, match=r"no benchmarks/topic/other\.py here"):
        notebook.benchmark("topic/other")


def test_what_an_encoder_read_before_is_shown() -> None:
    text = notebook.seen_before("minilm").data
    assert "| Quora, duplicate questions | 103,663 | QQP |" in text
    with pytest.raises(UserError, match="nothing is known of what d2lbert-tiny met before"):
        notebook.seen_before("d2lbert-tiny")


def test_a_published_table_is_shown_with_its_title() -> None:
    text = notebook.board("swag").data
    assert text.startswith("**SWAG.** Accuracy.")
    assert "| BERT-base | 81.6 |  |" in text


def test_a_recipe_has_a_row_for_each_encoder_and_for_each_symptom() -> None:
    shown = notebook.recipe("tagging").data
    found = recipe("tagging")
    assert shown.startswith("**Recipe: tagging.**")
    assert shown.count("\n|") + shown.count("\n\n|") >= len(found.starts) + len(found.symptoms)
    assert all(start.rate in shown for start in found.starts)
    assert all(symptom.cure in shown for symptom in found.symptoms)
    assert found.letters in shown
