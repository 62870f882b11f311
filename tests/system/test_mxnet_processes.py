"""MXNet in several processes and several threads: forked and new ones, workers that load data, threads at once.

Each test is a program in a process of its own, since a fork inherits all that a process has computed before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

# A model, inputs for it, and what it answers; the batches have unequal lengths.
PROGRAM = """
import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import d2lbert.mxnet
from mxnet import autograd, gluon, nd

from d2lbert.config import BertConfig
from d2lbert.mxnet import BertModel
from d2lbert.mxnet.runtime import seed_everything

seed_everything(0)
sizes = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40)
model = BertModel(BertConfig(vocab_size=60, max_position_embeddings=40, **sizes))
generator = np.random.default_rng(0)
inputs = [generator.integers(0, 60, (3, 5 + number)) for number in range(8)]


def answer(number):
    return model(nd.array(inputs[number])).sequence.asnumpy()


def same(one, two):
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def train(seed):
    layer = gluon.nn.Dense(3, in_units=5)
    layer.initialize(init="ones")
    layer.hybridize()
    trainer = gluon.Trainer(layer.collect_params(), "adam", {"learning_rate": 0.1}, kvstore=None)
    x = nd.array(np.random.default_rng(seed).standard_normal((4, 5)))
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = (layer(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asnumpy())
    return losses
"""


def _run(script: str, tmp_path: Path, root: Path) -> str:
    """Run a program to its end. One that waits for ever is stopped, and fails."""
    path = tmp_path / "program.py"
    lines = "".join(f"    {line}\n" for line in script.split("\n"))
    path.write_text(f"{PROGRAM}\n\nif __name__ == '__main__':\n{lines}")
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=400
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_a_pool_of_processes(kind: str, tmp_path: Path, root: Path) -> None:
    """With fork the children have the model that the parent has used; with spawn each makes its own, from the seed."""
    script = f"""expected = [answer(number) for number in range(8)]
unfinished = nd.dot(nd.ones((500, 500)), nd.ones((500, 500)))  # MXNet still computes when the children begin
with multiprocessing.get_context("{kind}").Pool(2) as pool:
    print(same(pool.map(answer, range(8)), expected), same(pool.map(train, range(3)), map(train, range(3))))
print(unfinished[0, 0].asscalar(), same(map(answer, range(8)), expected))"""
    assert _run(script, tmp_path, root).split() == ["True", "True", "500.0", "True"]


@pytest.mark.parametrize("hybridize", [False, True])
def test_threads_that_answer_at_once(hybridize: bool, tmp_path: Path, root: Path) -> None:
    """One model for all of them, as in a server. Gluon records the graph in the first call, which must be alone."""
    script = f"""expected = [answer(number) for number in range(8)]
if {hybridize}:
    model.hybridize()
    answer(0)
with ThreadPoolExecutor(4) as pool:
    print(all(same(pool.map(answer, range(8)), expected) for _ in range(10)))"""
    assert _run(script, tmp_path, root) == "True"


def test_threads_that_train_at_once(tmp_path: Path, root: Path) -> None:
    """Each its own model: what one records is not in the graph of another."""
    script = """expected = [train(seed) for seed in range(6)]
with ThreadPoolExecutor(3) as pool:
    for _ in range(3):
        print(all(same(one, two) for one, two in zip(pool.map(train, range(6)), expected, strict=True)))"""
    assert _run(script, tmp_path, root).split() == ["True"] * 3


@pytest.mark.parametrize("thread_pool", [False, True], ids=["forked workers", "threads"])
def test_workers_of_gluon_load_data(thread_pool: bool, tmp_path: Path, root: Path) -> None:
    script = f"""answer(0)
data = gluon.data.ArrayDataset(np.arange(22, dtype="float32"), np.arange(22, dtype="float32") ** 2)
plain, loaded = (
    gluon.data.DataLoader(data, 4, num_workers=workers, thread_pool={thread_pool}) for workers in (0, 2)
)
for _ in range(2):
    pairs = [(x.asnumpy(), y.asnumpy()) for x, y in loaded]
    print(len(pairs), all(same(one, (x.asnumpy(), y.asnumpy())) for one, (x, y) in zip(pairs, plain, strict=True)))
print(answer(1).shape)"""
    assert _run(script, tmp_path, root) == "6 True\n6 True\n(3, 6, 24)"


def test_forked_workers_of_torch_compute_with_mxnet(tmp_path: Path, root: Path) -> None:
    script = """import torch
expected = [answer(number) for number in range(8)]
print(torch.ones(300, 300).mm(torch.ones(300, 300)).sum().item())
class Answers(torch.utils.data.Dataset):
    def __len__(self):
        return len(inputs)
    def __getitem__(self, number):
        return torch.from_numpy(answer(number))
loader = torch.utils.data.DataLoader(Answers(), batch_size=None, num_workers=2, multiprocessing_context="fork")
print(same([row.numpy() for row in loader], expected))"""
    assert _run(script, tmp_path, root) == "27000000.0\nTrue"
