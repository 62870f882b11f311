"""What chapters use besides the models: glued numbers, claims, stored results, and the package's own source.

Needs IPython, which every notebook has. Nothing else in the package imports this module.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

from IPython.display import Markdown, display

from d2lbert.data.published import published
from d2lbert.data.recipes import recipe as find_recipe
from d2lbert.data.registry import SampleDataWarning
from d2lbert.errors import UserError
from d2lbert.storage.places import home
from d2lbert.zoo.table import find_entry

_RESULTS = Path("results")
# How a line about sample data begins in a notebook; tools/run_notebook.py makes a box of it in the page.
TOY = "Toy data. "


class ClaimError(AssertionError):
    """A sentence of a page that the numbers of the page do not bear out."""


def glue(name: str, value: Any) -> None:
    """Store ``value`` under ``name`` in the notebook's output, for ``{glue:text}`` in the prose.

    Prints nothing. The format is that of ``myst_nb.glue``, written out here so that a notebook also runs on Colab,
    where MyST-NB is not installed.
    """
    plain = repr(value.item() if hasattr(value, "item") else value)
    bundle = {"application/papermill.record/text/plain": plain}
    display(bundle, raw=True, metadata={"scrapbook": {"name": name, "mime_prefix": "application/papermill.record/"}})


def claim(sentence: str, holds: Any, **numbers: Any) -> None:
    """Hold a sentence of the page to the page's own numbers. Shows nothing; a false claim stops the run.

    Args:
        sentence: as it stands in the prose, in a caption or in an alternative text, word for word.
        holds: whether it is true, computed from the numbers.
        numbers: what it is about, for the message.

    Where a page runs at a size that nobody reads, its numbers mean nothing: ``D2LBERT_CLAIMS=off`` lets it run on.

    Raises:
        ClaimError: the sentence is false here.
    """
    if not bool(holds) and os.environ.get("D2LBERT_CLAIMS") != "off":
        told = ", ".join(f"{name} = {value!r}" for name, value in numbers.items())
        raise ClaimError(f"the page says {sentence!r}, and its numbers do not: {told or 'none given'}")


def source(*objects: Any) -> Markdown:
    """Show the source text of functions or classes of the package, as a highlighted block."""
    blocks = [f"```python\n{inspect.getsource(item).rstrip()}\n```" for item in objects]
    return Markdown("\n\n".join(blocks))


def results(name: str) -> dict[str, Any]:
    """Read ``results/<name>.json`` from the checkout that holds the notebook, or else from the installed package.

    Raises:
        UserError: the benchmark has not been run.
    """
    relative = _RESULTS / f"{name}.json"
    for folder in (Path.cwd(), *Path.cwd().parents, home()):
        if (folder / relative).is_file():
            loaded: dict[str, Any] = json.loads((folder / relative).read_text(encoding="utf-8"))
            return loaded
    raise UserError(f"no stored result {relative}: run its benchmark, a script of benchmarks/")


# Model -> the result of its ledger, what it is given, and its score.
_LEDGERS = {
    "classifier": ("deployment/ledger", "sentences", "accuracy"),
    "answers": ("deployment/ledger_answers", "questions", "F1"),
}


def ledger(chapter: str, model: str = "classifier") -> Markdown:
    """Show what each step of the book so far has made of one model; the rows of a chapter are bold.

    The rows are those of ``results/deployment/ledger.json`` or ``ledger_answers.json``. What was not measured stays
    empty. Below the table stands where it was measured, whether anything else ran beside it, and which rows were timed
    by another call than most: in another hour the machine may be faster or slower.

    Args:
        chapter: its slug.
        model: ``"classifier"`` of sentences, or ``"answers"``, which finds answers to questions.

    Raises:
        UserError: there is no such model, its ledger was not measured, or has no row of this chapter.
    """
    if model not in _LEDGERS:
        raise UserError(f"no ledger of {model!r}: give {' or '.join(_LEDGERS)}")
    name, things, score = _LEDGERS[model]
    stored = results(name)
    chapters = [row["chapter"] for row in stored["metrics"].values()]
    if not chapter or chapter not in chapters:
        known = ", ".join(sorted({*chapters} - {""}))
        raise UserError(f"the ledger has no row of {chapter!r}: give the slug of {known}")
    last = len(chapters) - chapters[::-1].index(chapter)
    shown = dict(list(stored["metrics"].items())[:last])
    lines = [_ledger_line(step, row, things, score, row["chapter"] == chapter) for step, row in shown.items()]
    beside = "nothing else ran" if stored["quiet"] else "other programs ran beside it, so the speeds are provisional"
    below = (
        f"{stored['data']}; {stored['device']['processor']}, {stored['threads']} of {stored['device']['cores']} cores; "
        f"{beside}. ms: one text of about {stored['tokens']} tokens, median and 95th percentile. Logits: largest "
        f"difference to the first row. $: a million {things} at {stored['dollars_per_hour']} dollars an hour."
    )
    if others := _timed_apart(shown):
        below += f" Timed in another hour, so speeds compare less well: {', '.join(f'“{name}”' for name in others)}."
    return Markdown(f"{table(lines).data}\n\n{below}")


def _timed_apart(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Return the names of the rows that were measured by another call than most."""
    calls = {name: str(row.get("measured")) for name, row in rows.items()}  # each row has the stamp of its call
    (usual, _), *_ = Counter(calls.values()).most_common(1)
    return [name for name, call in calls.items() if call != usual]


def _ledger_line(name: str, row: dict[str, Any], things: str, score: str, new: bool) -> dict[str, str]:
    """Return a row of the ledger as the page shows it."""
    times = row["milliseconds"]
    line = {
        "step": f"{name}: {row['words']}",
        "million parameters": f"{row['parameters'] / 1e6:.1f}",
        "MB": f"{row['bytes'] / 1e6:.1f}",
        "ms": f"{times['p50']:.0f}, {times['p95']:.0f}" if times else "",
        f"{things} a second": _number(row[f"{things}_per_second"], 0),
        f"{score}, %": _number(100 * row[score.lower()], 1),
        "logits": _number(row["largest_difference_of_logits"], 3),
        "$": _number(row["dollars_per_million"], 2),
    }
    return {key: f"**{value}**" if new and value else value for key, value in line.items()}


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def benchmark(name: str, *arguments: str) -> None:
    """Run ``benchmarks/<name>.py`` of the checkout that holds the notebook; the script writes ``results/<name>.json``.

    Args:
        name: ``topic/run``, as for :func:`results`.
        arguments: the script's command line; relative paths start at the root of the checkout, where the script runs.

    Raises:
        UserError: the notebook is not in a checkout, or the script failed; its output is shown above.
    """
    relative = Path("benchmarks") / f"{name}.py"
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / relative).is_file():
            module = ".".join(relative.with_suffix("").parts)
            if subprocess.run([sys.executable, "-m", module, *arguments], cwd=folder).returncode:
                raise UserError(f"{relative} failed: its last lines say why")
            return
    raise UserError(f"no {relative} here: run this notebook inside a checkout of d2lbert")


def table(rows: list[dict[str, Any]], digits: int = 3) -> Markdown:
    """Show rows with the same keys as a Markdown table; floats are rounded to ``digits`` decimals."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "|".join(_alignment(rows, name) for name in names) + "|"]
    for row in rows:
        lines.append("| " + " | ".join(_cell(row[name], digits) for name in names) + " |")
    return Markdown("\n".join(lines))


def board(name: str, digits: int = 1) -> Markdown:
    """Show a published table of :func:`d2lbert.data.published.published`, with its title and what it is about.

    Raises:
        UserError: there is no such table.
    """
    shown = published(name)
    return Markdown(f"**{shown.title}.** {shown.about}\n\n{table(shown.rows(), digits).data}")


def recipe(task: str) -> Markdown:
    """Show where to start when an encoder is fine-tuned for a task, what the letters say, and what a symptom means.

    Raises:
        UserError: there is no such task.
    """
    found = find_recipe(task)
    starts = []
    for one in found.starts:
        row = {"encoder": one.encoder, "learning rate": one.rate, "batch": one.batch}
        starts.append({**row, "epochs": one.epochs, "from": one.source})
    symptoms = [{"you see": one.seen, "likely cause": one.cause, "what to try": one.cure} for one in found.symptoms]
    head = f"**Recipe: {task.replace('_', ' ')}.**"
    return Markdown(f"{head}\n\n{table(starts).data}\n\n{found.letters}\n\n{table(symptoms).data}")


def seen_before(model: str) -> Markdown:
    """Show which data sets of the book a model of the zoo met before it is fine-tuned here.

    Raises:
        UserError: there is no such model, or the zoo knows of none.
    """
    seen = find_entry(model).seen
    if not seen:
        raise UserError(f"nothing is known of what {model} met before: leave this table out")
    return table([{"read before": one["source"], "pairs": one["pairs"], "touches": one["touches"]} for one in seen])


def _alignment(rows: list[dict[str, Any]], name: str) -> str:
    numeric = all(isinstance(row[name], int | float) for row in rows)
    return "---:" if numeric else "---"


def _cell(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value).replace("|", "\\|")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Say in one line that a sample stands for a data set; show every other warning as Python does."""
    if issubclass(category, SampleDataWarning):
        print(f"{TOY}{message}", file=sys.stderr)
    else:
        _show_others(message, category, filename, lineno, file, line)


_show_others = warnings.showwarning
warnings.showwarning = _show_warning
# What tqdm advises where its bars would be widgets, at the first import of many a package. The book's bars are text.
warnings.filterwarnings("ignore", message="IProgress not found")
