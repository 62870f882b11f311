"""A corpus prepared on Ray Data: local workers, however many, write the bytes that one process writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data.pretraining.corpus import learn_vocabulary
from d2lbert.data.pretraining.ray import prepare_on_ray, running_ray
from d2lbert.data.pretraining.shards import Preparation, prepare
from d2lbert.text import WordPiece

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="needs ray: pip install 'ray[data]'")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Ray, started once as ``prepare_on_ray`` starts it: that takes longer than the work."""
    with running_ray(4):
        yield


@pytest.fixture(scope="module")
def files(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The sample in five files of unequal size."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = (root / "data" / "samples" / "wikipedia_en" / "train.txt").read_text(encoding="utf-8").split("\n\n")
    paths = []
    for number in range(5):
        paths.append(folder / f"{number}.txt")
        paths[-1].write_text("\n\n".join(texts[number * number :: 5]), encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def tokenizer(files: list[Path]) -> WordPiece:
    return learn_vocabulary(files, 900)


@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_writes_the_bytes_of_one_process(
    files: list[Path], tokenizer: WordPiece, tmp_path: Path, workers: int
) -> None:
    settings = Preparation(dev_share=0.2, shard_characters=20_000)
    local = prepare(files, tmp_path / "one", tokenizer, settings)
    distributed = prepare_on_ray(files, tmp_path / "shared", tokenizer, settings, workers)
    assert distributed.digest() == local.digest()
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(names) > 20
    assert names == sorted(path.name for path in (tmp_path / "shared").iterdir())
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "shared" / name).read_bytes(), name


def test_a_file_that_cannot_be_read_is_one_line(files: list[Path], tokenizer: WordPiece, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\n\xff\n")
    with pytest.raises(UserError, match=r"bad\.txt, line 2: not UTF-8") as error:
        prepare_on_ray([*files, bad], tmp_path / "out", tokenizer, workers=2)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out" / "index.json").exists()
