"""Choose what goes on the slides of a chapter, from its executed notebook and its quiz, by plain rules.

* The first slide has the title and what the reader will be able to do; the last one the summary.
* A section shows, in its order, its figures, formulas, short cells of code with their output, tables and lists: one a
  slide. A section that has none of these shows the first sentence of each of its paragraphs.
* Above a figure stands the first sentence of the paragraph before it, and the last one where it leads on, as a
  question does. Below the figure appears what the chapter says of it: the sentences that ``notebook.claim`` holds to
  the numbers, or else the first one of the next paragraph.
* Every paragraph of a section stands whole in the notes of one of its slides.
* A question of the quiz comes after the slides of the section that answers it.
* Where that makes more than ``MOST`` slides, each section keeps its best ones, in turn: figures to play with, other
  figures, formulas, code, tables, lists. What would be higher than a slide loses the sentences around it, or is left
  out.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

import nbformat
from quizzes import Question
from slide_parts import BODY, Part, code_part, formula_part, list_part, output_parts, prose_part, table_part
from slide_text import Block, blocks, items, sentences, width

MOST = 25
_HIDDEN = {"colab", "parameters", "bug", "solution", "check", "checks", "claims", "mxnet", "hide-cell", "remove-cell"}
_ENDS = {"Summary", "Exercises", "Project", "References"}
_RANK = {"play": 0, "figure": 1, "formula": 2, "code": 3, "table": 4, "output": 5, "list": 6, "text": 7}
_LONGEST_TEXT = 4  # sentences of a slide of text
_SHORTEST = 30  # characters of a finding: what is shorter only points at the figure
_LEAST_LEAD = 52  # pixels for a line above


@dataclass
class Slide:
    """A slide.

    Fields:
        kind: title, section, quiz or summary.
        title: its heading.
        parts: what it shows, from top to bottom.
        notes: paragraphs of Markdown for the speaker.
        section: the heading of the chapter's section that it belongs to.
        question: of a quiz.
    """

    kind: str
    title: str
    parts: list[Part] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    section: str = ""
    question: Question | None = None


@dataclass
class _Section:
    """A section of a chapter: its visuals, the paragraphs before each of them and after the last, and its claims."""

    title: str
    headings: list[str]
    visuals: list[list[Part]] = field(default_factory=list)
    prose: list[list[str]] = field(default_factory=lambda: [[]])
    claims: list[str] = field(default_factory=list)

    def show(self, parts: list[Part]) -> None:
        """Add a visual."""
        self.visuals.append(parts)
        self.prose.append([])


def choose(notebook: nbformat.NotebookNode, quiz: list[Question]) -> list[Slide]:
    """Return the slides of a chapter.

    Args:
        notebook: the executed copy as ``portable`` makes it, with its numbers and citations as text.
        quiz: its questions; there may be none.
    """
    sections = _sections(notebook)
    opening, *rest = sections
    ends = {section.title: section for section in rest if section.title in _ENDS}
    taught = [section for section in rest if section.title not in _ENDS]
    summary = _summary(ends["Summary"]) if "Summary" in ends else []
    room = MOST - 1 - len(summary) - len(quiz)
    slides = [_title_slide(opening)]
    asked: list[Question] = []
    for made, section in zip(_kept([_section_slides(section) for section in taught], room), taught, strict=True):
        slides += made
        answered = [question for question in quiz if question.section in section.headings]
        slides += [_quiz_slide(question) for question in answered]
        asked += answered
    slides += [_quiz_slide(question) for question in quiz if question not in asked]
    return [*slides, *summary]


def _sections(notebook: nbformat.NotebookNode) -> list[_Section]:
    """Return the sections of a chapter; the first one is what stands below its title."""
    found: list[_Section] = []
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type == "markdown":
            for block in blocks(cell.source):
                _add_block(block, found)
        elif "claims" in tags and found:
            found[-1].claims += claimed(cell.source)
        elif not tags & _HIDDEN and found:
            _add_cell(cell, tags, found[-1])
    return found


def _add_block(block: Block, found: list[_Section]) -> None:
    if block.kind == "heading" and block.level <= 2:
        found.append(_Section(block.text, [block.text]))
    elif block.kind == "heading":
        found[-1].headings.append(block.text)
    elif block.kind == "paragraph":
        found[-1].prose[-1].append(block.text)
    elif block.kind == "list":
        # A list is told by the speaker where it is not shown.
        found[-1].prose[-1].append(block.text)
        found[-1].show([list_part(items(block.text))])
    elif block.kind == "formula":
        found[-1].show([formula_part(block.text)])
    elif block.kind == "table":
        found[-1].show([table_part(block.text)])
    else:
        found[-1].show([code_part(block.text, block.language or "text")])


def _add_cell(cell: nbformat.NotebookNode, tags: set[str], section: _Section) -> None:
    """Add what a cell shows; code keeps what it prints, and a table of its own where a slide has room for both."""
    outputs = output_parts(cell.outputs)
    if "hide-input" not in tags and not _only_imports(cell.source):
        shown = [code_part(cell.source, "python")]
        while outputs and outputs[0].kind in ("output", "table"):
            if outputs[0].kind == "table" and shown[0].height + outputs[0].height > BODY - _LEAST_LEAD:
                break
            shown.append(outputs.pop(0))
        section.show(shown)
    for part in outputs:
        if part.kind != "output" or "\n" in part.text:  # one printed line is no slide
            section.show([part])


def _only_imports(source: str) -> bool:
    """Say whether a cell is the chapter's list of imports, with a seed or two."""
    lines = [line for line in source.splitlines() if line.strip()]
    return not lines or sum(line.startswith(("import ", "from ")) for line in lines) > len(lines) / 2


def claimed(source: str) -> list[str]:
    """Return the sentences that a cell holds to the numbers, where they stand there as they are."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a line of the notebook's own, such as %pip
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    firsts = [call.args[0] for call in calls if getattr(call.func, "attr", "") == "claim" and call.args]
    return [first.value for first in firsts if isinstance(first, ast.Constant) and isinstance(first.value, str)]


def _title_slide(opening: _Section) -> Slide:
    """Return the first slide: what the reader will be able to do; what is needed goes to the notes."""
    told = [text for prose in opening.prose for text in prose]
    outcomes = [prose_part(text, "lead") for text in told if text.startswith("**You will be able to**")]
    listed = [part for parts in opening.visuals for part in parts if part.kind == "list"]
    return Slide("title", opening.title, [*outcomes[:1], *listed[:1]], told)


def _summary(section: _Section) -> list[Slide]:
    shown = next((parts for parts in section.visuals if parts[0].kind == "list"), [])
    return [Slide("summary", section.title, shown, [text for prose in section.prose for text in prose], section.title)]


def _quiz_slide(question: Question) -> Slide:
    notes = [f"*{choice.text}* {'Right' if choice.right else 'Not so'}: {choice.why}" for choice in question.choices]
    return Slide("quiz", "Check yourself", notes=notes, section=question.section, question=question)


def _section_slides(section: _Section) -> list[Slide]:
    """Return a slide for each visual of a section that fits one, or one of text."""
    told = _join_formulas(section)
    made = []
    for number, parts in enumerate(section.visuals):
        before, after = section.prose[number : number + 2]
        leads = _leads(before, first=number == 0)
        findings = _findings(after, section.claims, last=number == len(section.visuals) - 1)
        shown = _fitted(parts, leads, [sentence for sentence in findings if sentence not in leads])
        made.append(Slide("section", section.title, shown, told[number], section.title))
    if made:
        made[-1].notes += told[-1]
    fitting = [slide for slide in made if slide.parts]
    if fitting:
        _move_notes(made, [bool(slide.parts) for slide in made])
        return fitting
    paragraphs = [text for prose in told for text in prose]
    firsts = [sentences(text)[0] for text in _paragraphs(paragraphs)][:_LONGEST_TEXT]
    texts = _within([prose_part(text, "text") for text in firsts], BODY)
    return [Slide("section", section.title, texts, paragraphs, section.title)] if texts else []


def _join_formulas(section: _Section) -> list[list[str]]:
    """Let a formula share its slide with the formula or the code that comes next, where there is room for both.

    Returns the paragraphs that belong to each visual, those between two that were joined included.
    """
    told = [list(prose) for prose in section.prose]
    number = 0
    while number + 1 < len(section.visuals):
        this, following = section.visuals[number : number + 2]
        between = section.prose[number + 1]
        firsts = [sentences(text)[0] for text in _paragraphs(between)[-1:]]
        texts = (_leads(between, first=False) or firsts)[-1:]
        both = [*this, *(prose_part(text, "lead") for text in texts), *following]
        formulas = this[-1].kind == "formula" and following[0].kind in ("formula", "code")
        if formulas and sum(part.height for part in both) < BODY - _LEAST_LEAD:
            section.visuals[number : number + 2] = [both]
            told[number : number + 2] = [told[number] + between]
            section.prose.pop(number + 1)
        else:
            number += 1
    return told


def _move_notes(slides: list[Slide], kept: list[bool]) -> None:
    """Give the notes of slides that are not kept to the kept one before them, or else to the first."""
    home = slides[kept.index(True)]
    home.notes[:0] = [text for slide in slides[: kept.index(True)] for text in slide.notes]
    for slide, stays in list(zip(slides, kept, strict=True))[kept.index(True) + 1 :]:
        if stays:
            home = slide
        else:
            home.notes += slide.notes


def _leads(before: list[str], *, first: bool) -> list[str]:
    """Return the sentences above a visual: the first of the paragraph before it, and the last where it leads on."""
    before = _paragraphs(before)
    if not before:
        return []
    told = sentences(before[0] if first else before[-1])[:1] if first or len(before) > 1 else []
    last = sentences(before[-1])[-1:] if _leads_on(before[-1]) else []
    return list(dict.fromkeys([*told, *last]))


def _findings(after: list[str], claims: list[str], *, last: bool) -> list[str]:
    """Return what a chapter says of a visual: up to two sentences that it claims, or else the first one.

    A single paragraph between two visuals that leads on is about the second.
    """
    after = _paragraphs(after)
    if not after:
        return []
    told = [sentence for sentence in sentences(after[0]) if width(sentence) >= _SHORTEST and not _leads_on(sentence)]
    held = [sentence for sentence in told if any(claim in sentence or sentence in claim for claim in claims)]
    if held or (len(after) == 1 and not last and _leads_on(after[0])):
        return held[:2]
    return told[:1]


def _leads_on(text: str) -> bool:
    """Say whether a text ends with what follows it: with a question, a colon, or in the middle of a sentence."""
    return not re.search(r"[.!][*_)\"”']*$", text.rstrip())


def _paragraphs(prose: list[str]) -> list[str]:
    """Return what is no list."""
    return [text for text in prose if not re.match(r"[*+-] |\d+[.)] ", text)]


def _fitted(parts: list[Part], leads: list[str], findings: list[str]) -> list[Part]:
    """Return the parts of a slide that fit it: without findings, then without leads, then none at all."""
    above = [prose_part(text, "lead") for text in leads]
    below = [prose_part(text, "finding") for text in findings]
    for shown in ([*above, *parts, *below], [*above[-1:], *parts, *below[:1]], [*above[-1:], *parts], parts, parts[:1]):
        if _within(shown, BODY) == shown:
            return shown
    return []


def _within(parts: list[Part], height: int) -> list[Part]:
    """Return as many of the parts, from the first on, as a height has room for."""
    total = 0
    for number, part in enumerate(parts):
        total += part.height
        if total > height:
            return parts[:number]
    return parts


def _kept(sections: list[list[Slide]], room: int) -> list[list[Slide]]:
    """Return the slides of each section that are kept where there is room for so many in all."""
    order = [sorted(range(len(made)), key=lambda number, made=made: (_rank(made[number]), number)) for made in sections]
    turns = sorted((turn, place) for place, found in enumerate(order) for turn in range(len(found)))
    chosen = {(place, order[place][turn]) for turn, place in turns[:room]}
    kept = []
    for place, made in enumerate(sections):
        keep = [(place, number) in chosen for number in range(len(made))]
        if any(keep):
            _move_notes(made, keep)
        kept.append([slide for slide, stays in zip(made, keep, strict=True) if stays])
    return kept


def _rank(slide: Slide) -> int:
    return min(_RANK.get(part.kind, max(_RANK.values())) for part in slide.parts)
