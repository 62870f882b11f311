"""BERT in a reader's browser: exported models, the page with its sizes, and its parts in chapters.

``site/extra`` holds the page and ONNX Runtime Web; the models are made from what the checkout and the packages
hold. So the site is built without a network, and needs none. Where a chapter or the front page says
``<!-- demo: gap -->``, which no notebook shows, the site has that demonstration.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from d2lbert.deploy.browser.export import export_for_browser
from d2lbert.storage.files import sha256_of, write_text
from d2lbert.storage.locks import locked
from d2lbert.zoo.folders import encoder_folder, locate

# Folder of the site -> its models, and the format.
MODELS = {
    "tiny": ({"tiny": "d2lbert-tiny"}, "onnx-web"),
    "minilm": (
        {"sentiment": "minilm-sst2", "entities": "minilm-wnut17", "answers": "minilm-squad"},
        "onnx-web-int8",
    ),
}
_SECTION = re.compile(r'<section aria-labelledby="\w+-title">\s*<h2[^>]*>(.+?)</h2>(.+?)</section>', flags=re.DOTALL)
_MARK = re.compile(r"^<!-- demo: (\w+) -->$", flags=re.MULTILINE)
_RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm.gz")


def write_demo(root: Path, extra: Path, cache: Path) -> None:
    """Complete the copy of ``site/extra``: models, JavaScript, and the page with its numbers.

    Args:
        root: of the checkout.
        extra: the copy, which has the page and the runtime.
        cache: where exported models are kept; one is exported again when what it is made of has changed.
    """
    for path in (root / "d2lbert" / "deploy" / "browser" / "js").glob("*.js"):
        shutil.copy2(path, extra / "browser" / path.name)
    for name in MODELS:
        shutil.copytree(exported(root, name, cache), extra / "models" / name)
    page = extra / "browser" / "index.html"
    text = page.read_text(encoding="utf-8")
    for name, size in download_sizes(extra).items():
        text = text.replace(f"{{{{{name}}}}}", f"{size / 1e6:.1f} MB")
    write_text(page, text)


def demonstrations(page: Path) -> dict[str, str]:
    """Return the demonstrations of the completed page, by name, each as HTML without an empty line."""
    found = {}
    for title, content in _SECTION.findall(page.read_text(encoding="utf-8")):
        lines = "\n".join(line for line in content.splitlines() if line.strip())
        head = f'<div class="bert-demo" role="group" aria-label="{title}">\n<p><strong>{title}</strong></p>'
        form = lines[lines.index("data-demo=") :].split('"')[1]
        found[form] = f"{head}\n{lines}\n</div>"
    return found


def fill_demos(text: str, demos: dict[str, str], up: str) -> str:
    """Return the text of a page with the demonstrations that it asks for.

    Args:
        text: Markdown.
        demos: as ``demonstrations`` returns them.
        up: the way from the page to the root of the site, such as ``../../``.

    Raises:
        KeyError: there is no demonstration of that name.
    """
    script = f'<script type="module" src="{up}browser/demo.js"></script>'
    return _MARK.sub(lambda found: f"{demos[found[1]]}\n{script}", text)


def download_sizes(extra: Path) -> dict[str, int]:
    """Return the bytes that a browser downloads for each model, and for each task alone, the runtime included."""
    modules = sum(path.stat().st_size for path in (extra / "browser").glob("*.js"))
    runtime = modules + sum((extra / "onnxruntime" / name).stat().st_size for name in _RUNTIME)
    sizes = {}
    for name in MODELS:
        manifest = json.loads((extra / "models" / name / "browser.json").read_text(encoding="utf-8"))
        encoder = runtime + manifest["graph"]["bytes"] + manifest["vocabulary"]["bytes"]
        adapters = {task: (content["adapter"] or {"bytes": 0})["bytes"] for task, content in manifest["tasks"].items()}
        sizes |= {task: encoder + adapter for task, adapter in adapters.items()}
        sizes[name] = encoder + sum(adapters.values())
    return sizes


def exported(root: Path, name: str, cache: Path) -> Path:
    """Return the folder of exported models, from the cache where nothing has changed.

    Args:
        root, cache: as for ``write_demo``.
        name: one of ``MODELS``.
    """
    (sources, format), folder = MODELS[name], cache / name
    digest = hashlib.sha256(json.dumps([sources, format]).encode())
    for path in _dependencies(root, sources):
        digest.update(f"{path.name} {sha256_of(path)} ".encode())
    made = folder / digest.hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):  # a build and a test may come here at once
        if not made.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            export_for_browser(sources, made, format)
    return made


def _dependencies(root: Path, sources: dict[str, str]) -> Iterator[Path]:
    folders = [locate(source) for source in sources.values()]
    for folder in sorted({*folders, *map(encoder_folder, folders)}):
        yield from sorted(path for path in folder.iterdir() if path.is_file())
    yield from sorted((root / "d2lbert" / "deploy").rglob("*.py"))
    yield from sorted((root / "d2lbert" / "torch").rglob("*.py"))
    yield root / "requirements" / "lock.txt"
