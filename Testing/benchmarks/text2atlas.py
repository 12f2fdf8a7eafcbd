"""Compare the text network of Grujicic et al. 2020 with our dictionary. Both give points in the body frame.

python Testing/benchmarks/text2atlas.py WORK [--seeds 3] [--uberon FILE.obo] [--lesanet FILE.json] [--reports FILE.csv]

The script trains the networks that the folder WORK does not contain yet, then prints tables in Markdown. The files of
the options are data of other projects, and are used only for measuring.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from AnatomicalEmbedding.anatomy.names import SIDES
from AnatomicalEmbedding.papers.text2atlas.network import words_of
from AnatomicalEmbedding.papers.text2atlas.organs import Organs, shipped_organs
from AnatomicalEmbedding.papers.text2atlas.run import FILE, TextRecipe, load_text, train_text
from AnatomicalEmbedding.papers.text2atlas.sentences import (
    NamedSentence,
    SentenceMaker,
    sentences_of,
)
from AnatomicalEmbedding.words import load_terms, parse

# never trained on
HELD_OUT: dict[str, tuple[str, ...]] = {
    "question": ("where would I look for the {place}?", "please show me her {place}", "jump to {place}"),
    "history": (
        "known {finding}, {place}, for follow-up", "patient complains of pain around the {place} since last week",
        "status after surgery at the {place} for {finding}",
    ),
    "impression": (
        "impression: suspicious {adjective} {finding}; biopsy advised",
        "conclusion: findings in keeping with {finding} arising from the {place}",
        "in addition, the {place} contains a {finding} ({size}), which abuts the {near}",
    ),
}  # fmt: skip
VARIANTS = {
    "SOD": TextRecipe(),
    "SOD, names masked": TextRecipe(mask=0.5),
}
ON_REPORTS = "SOD, names masked, own reports"
_SENTENCES = 1500
_HIT_MM = 10.0  # the paper's own rule: so near counts as inside
_PAPER = """
Grujicic 2020, table 1 (another atlas, 27 organs, abstracts of articles, hits within 10 mm; not to be compared):
SOD 89.4 %, 8 mm, 25 mm.
Self-supervised, table 4: SOD 79.7 %, 16 mm, 51 mm; with masks 83.2 %, 12 mm, 39 mm."""

Placer = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True)
class Score:
    """ior, ior_10: share of points inside, and within 10 mm, of a place that the text names, %. nvd: mean distance to
    the nearest such place, 0 inside, mm; nvd_o: over those outside alone."""

    ior: float
    ior_10: float
    nvd: float
    nvd_o: float


def score(place: Placer, examples: Sequence[NamedSentence], organs: Organs) -> Score:
    points = place([example.text for example in examples])
    mm = np.array([organs.distance(p, e.organs) for p, e in zip(points, examples, strict=True)])
    missed = mm[mm > 0]
    return Score(
        100 * float((mm == 0).mean()), 100 * float((mm < _HIT_MM).mean()), float(mm.mean()),
        float(missed.mean()) if len(missed) else 0.0,
    )  # fmt: skip


def dictionary(organs: Organs) -> Placer:
    """Where the smallest place that a text names is most often; the middle of all places where it names none."""
    middle = organs.best.mean(axis=0)

    def place(texts: Sequence[str]) -> np.ndarray:
        named = [
            [organs.index[n] for m in parse(text) for n in m.places if n in organs.index]
            for text in texts
        ]
        smallest = [min(of, key=lambda n: len(organs.cells[n])) if of else None for of in named]
        return np.array([middle if n is None else organs.best[n] for n in smallest])

    return place


def most_frequent(organs: Organs, examples: Sequence[NamedSentence]) -> Placer:
    """Always where the place that most examples name is most often."""
    name, _ = Counter(name for example in examples for name in example.organs).most_common(1)[0]
    return lambda texts: np.repeat(organs.best[[organs.index[name]]], len(texts), axis=0)


def misspelt(example: NamedSentence, rng: np.random.Generator) -> NamedSentence:
    """With two slips (a letter wrong, missing, added, or two swapped) in the longest word of each place's name."""
    text = example.text
    for start, end in sorted(example.spans, reverse=True):
        word = max(re.findall(r"[^\W_]+", text[start:end]), key=len, default="")
        if len(word) >= 4 and word not in SIDES:
            at = text.index(word, start)
            text = text[:at] + _slip(_slip(word, rng), rng) + text[at + len(word) :]
    return replace(example, text=text)


def _slip(word: str, rng: np.random.Generator) -> str:
    at = int(rng.integers(1, len(word) - 1))
    letter = chr(rng.integers(ord("a"), ord("z") + 1))
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    changes = (
        word[:at] + letter + word[at + 1 :],
        word[:at] + word[at + 1 :],
        word[:at] + letter + word[at:],
        swapped,
    )
    return changes[rng.integers(len(changes))]


def unknown_synonyms(path: Path, organs: Organs) -> list[NamedSentence]:
    """Synonyms of an ontology (OBO) of which the dictionary knows the term but not the synonym."""
    known = {w.lower() for term in load_terms().by_name.values() for w in (*term.words, term.title)}
    found = []
    for block in path.read_text(encoding="utf-8").split("[Term]")[1:]:
        name = re.search(r"^name: (.*)$", block, re.MULTILINE)
        if name is None or name[1].lower() not in known:
            continue
        names = tuple(n for mention in parse(name[1]) for n in mention.places if n in organs.index)
        synonyms = dict.fromkeys(re.findall(r'^synonym: "(.*?)" EXACT', block, re.MULTILINE))
        found += [NamedSentence(text, names, ()) for text in synonyms if names and not parse(text)]
    return found


def lesion_phrases(path: Path, organs: Organs) -> list[NamedSentence]:
    """LesaNet's phrases with the smallest place that readers gave them, as our dictionary reads its name."""
    found = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        given = [
            [n for m in parse(term) for n in m.places if n in organs.index]
            for term in entry["expanded_terms"]
        ]
        given = [names for names in given if names]
        if given:
            smallest = min(
                given, key=lambda names: sum(len(organs.cells[organs.index[n]]) for n in names)
            )
            found.append(NamedSentence(" ".join(entry["text"].split()), tuple(smallest), ()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    for name in ("uberon", "lesanet", "reports"):
        parser.add_argument(f"--{name}", type=Path)
    options = parser.parse_args()
    organs = shipped_organs()
    maker = SentenceMaker(organs, HELD_OUT, around=0)
    held = [maker.draw(rng) for rng in map(np.random.default_rng, range(_SENTENCES))]
    slipped = [misspelt(each, np.random.default_rng(n)) for n, each in enumerate(held)]
    tests = {
        "held-out templates": held,
        "the same, misspelt": slipped,
        "of these, not understood by the dictionary": [
            each for each in slipped if not parse(each.text)
        ],
    }
    if options.uberon:
        tests["unknown synonyms"] = unknown_synonyms(options.uberon, organs)
    if options.lesanet:
        phrases = lesion_phrases(options.lesanet, organs)
        found = dictionary(organs)([each.text for each in phrases])
        missed = [organs.distance(p, e.organs) > 0 for p, e in zip(found, phrases, strict=True)]
        tests["lesion phrases"] = phrases
        tests["of these, missed by the dictionary"] = [
            e for e, m in zip(phrases, missed, strict=True) if m
        ]
    own: list[NamedSentence] = []
    if options.reports:
        with options.reports.open(newline="", encoding="utf-8") as file:
            texts = [row["findings"] for row in csv.DictReader(file)]
        own = sentences_of(texts[: len(texts) // 2], organs)
        other = sentences_of(texts[len(texts) // 2 :], organs)[::4]
        rng = np.random.default_rng(0)
        masked = [replace(e, text=e.masked(1.0, rng)) for e in other]
        seen = {tuple(words_of(e.masked(1.0, rng))) for e in own}  # reports repeat themselves
        tests["sentences of other reports, names masked"] = masked
        tests["of these, without those of the training"] = [
            e for e in masked if tuple(words_of(e.text)) not in seen
        ]
    placers: dict[str, list[Placer]] = {"dictionary": [dictionary(organs)]}
    for seed in range(options.seeds):
        for name, recipe in (
            *VARIANTS.items(),
            *([(ON_REPORTS, VARIANTS["SOD, names masked"])] if own else []),
        ):
            folder = options.work / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
            if not (folder / FILE).is_file():
                print(f"training {folder.name}", flush=True)
                train_text(replace(recipe, seed=seed), folder, own if name == ON_REPORTS else ())
            placers.setdefault(name, []).append(load_text(folder).place)
    if own:
        placers["most frequent place"] = [most_frequent(organs, own)]
    for title, examples in tests.items():
        print(f"\n{title} ({len(examples)})\n")
        print("| model | IOR % | within 10 mm % | NVD mm | NVD-O mm |\n|---|---|---|---|---|")
        for name, of in placers.items():
            scores = np.array([list(vars(score(place, examples, organs)).values()) for place in of])
            mean = scores.mean(axis=0)
            spread = np.ptp(scores[:, 0]) / 2
            of_seeds = f" ± {spread:.1f}" if len(of) > 1 else ""
            print(
                f"| {name} | {mean[0]:.1f}{of_seeds} | {mean[1]:.1f} | {mean[2]:.1f} | {mean[3]:.1f} |",
                flush=True,
            )
    print(_PAPER)


if __name__ == "__main__":
    main()
