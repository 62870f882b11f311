"""Memory does not grow with the size of the data: of readers, and of the way from a corpus to batches."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from benchmarks.children import used_by
from d2lbert.data.readers import corpora, pairs, sentences, tables, tags

TEXT = "some words of a text that is read and forgotten"
# The lines of a file, before and in what is repeated, and its reader.
LINES: dict[str, tuple[str, str, Callable[[Path], Iterable[object]]]] = {
    "sst2.tsv": ("", f"{TEXT}\tpositive\n", sentences.sst2),
    "glue.tsv": ("sentence\tlabel\n", f"{TEXT}\t1\n", sentences.glue_tsv),
    "cola.tsv": ("", f"gj04\t1\t\t{TEXT}\n", sentences.cola),
    "lines.txt": ("", f"{TEXT}\n", sentences.unlabelled_lines),
    "packed.txt.gz": ("", f"{TEXT}\n", sentences.unlabelled_lines),
    "qnli.tsv": ("index\tquestion\tsentence\tlabel\n", f"1\t{TEXT}\t{TEXT}\tentailment\n", pairs.qnli),
    "corpus.txt": ("", f"{TEXT}\n{TEXT}\n\n", corpora.paragraphs),
    "tags.conll": ("", "John B-PER\nsleeps O\n\n", tags.conll),
    "table.csv": ("text,label\n", f'"{TEXT}",yes\n', lambda path: tables.read_table(path, "csv").rows),
    "table.jsonl": (
        "",
        json.dumps({"text": TEXT, "label": "yes"}) + "\n",
        lambda path: tables.read_table(path, "jsonl").rows,
    ),
}
STEPS = """
import re, sys
from pathlib import Path
from d2lbert.data.pretraining.batches import PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.origin import origin_of
from d2lbert.data.pretraining.shards import Preparation, TokenShards, prepare
from d2lbert.text import WordPiece
step, folder = sys.argv[1], Path(sys.argv[2])
if step == "prepare":
    tokenizer = WordPiece.from_file(folder.parent / "vocab.txt")
    files = [folder / "corpus.txt"]
    prepare(files, folder / "shards", tokenizer, Preparation(shard_characters=200_000), 1, origin_of(files, {}))
if step == "stream":
    data = PretrainingData(TokenShards.open(folder / "shards"), PretrainingSettings(window=2, batch_size=128))
    data.check()
    print(sum(batch.rows.num_tokens for batch, _ in data.epoch(0)))
# The peak since this program began; that of getrusage begins with the memory of pytest, of which it is a fork.
print(int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""
SMALL, LARGE = 2, 12  # megabytes
ALLOWED = 4  # mebibytes


def peak_of(reader: Callable[[Path], Iterable[object]], path: Path) -> int:
    """Return the peak of the memory, in bytes, in which a file is read whose examples nobody keeps."""
    tracemalloc.start()
    try:
        for _ in reader(path):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", LINES)
def test_a_reader_needs_no_more_for_a_larger_file(tmp_path: Path, name: str) -> None:
    before, repeated, reader = LINES[name]
    peaks = []
    for times in (200, 200, 4000):  # the first fills caches
        content = (before + repeated * times).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        peaks.append(peak_of(reader, tmp_path / name))
    assert peaks[2] - peaks[1] < 60_000, peaks
    assert len(repeated) * 3800 > 60_000  # and so would be what is read


def test_a_reader_that_keeps_its_file_is_seen(tmp_path: Path) -> None:
    for times, most in ((200, 100_000), (4000, 1_000_000)):
        (tmp_path / "lines.txt").write_text(f"{TEXT}\n" * times)
        peak = peak_of(lambda path: path.read_text().splitlines(), tmp_path / "lines.txt")
        assert most / 10 < peak < most


@pytest.fixture(scope="module")
def corpora_of_two_sizes(tmp_path_factory: pytest.TempPathFactory, root: Path) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("memory")
    vocabulary = (root / "data" / "checkpoints" / "d2lbert-tiny" / "vocab.txt").read_text(encoding="utf-8")
    (folder / "vocab.txt").write_text(vocabulary, encoding="utf-8")
    pieces = [piece for piece in vocabulary.splitlines() if piece.isalpha()]
    made = {}
    for size in (SMALL, LARGE):
        made[size] = folder / str(size)
        made[size].mkdir()
        written = number = 0
        with (made[size] / "corpus.txt").open("w", encoding="utf-8") as file:
            while written < size * 1_000_000:
                words = [pieces[(number * step + 7) % len(pieces)] for step in range(1, 30)]
                written += file.write(f"The {' '.join(words)}. Then {' '.join(words[::-1])}.\n\n")
                number += 1
    return made


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a program's memory")
def test_preparing_and_streaming_need_no_more_for_a_larger_corpus(corpora_of_two_sizes: dict[int, Path]) -> None:
    peaks: dict[str, dict[int, float]] = {"prepare": {}, "stream": {}}
    tokens = {}
    for step in peaks:
        for size, folder in corpora_of_two_sizes.items():
            *said, peak = used_by(["-c", STEPS, step, str(folder)]).output.split()
            peaks[step][size] = float(peak)
            tokens[size] = int(said[0]) if said else 0
    assert tokens[LARGE] > 5 * tokens[SMALL] > 0
    for step, found in peaks.items():
        assert found[LARGE] - found[SMALL] < ALLOWED, (step, found)
