"""Test the reading of phrases and reports: which places they name, and that no text causes an error."""

import pytest
from hostile_texts import hostile_texts

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.words import (
    completions,
    load_terms,
    not_understood,
    parse,
    parse_query,
    parse_report,
    suggestions,
)
from AnatomicalEmbedding.words.qualifiers import Qualifier
from AnatomicalEmbedding.words.tokens import MOST_CHARACTERS

BOTH = "*"  # stands for left and right

# Written for this test and labelled by reading: what a radiologist would look for.
SENTENCES = [
    ("Mass in the left adrenal", ["adrenal_gland_left"]),
    ("12th rib on the right", ["rib_right_12"]),
    ("sclerosis from T3 to T6", ["vertebrae_T3", "vertebrae_T4", "vertebrae_T5", "vertebrae_T6"]),
    ("disc narrowing at L3-L4-L5", ["disc_L3_L4", "disc_L4_L5"]),
    (
        "posterobasal segment of the lower lobe of the left lung",
        ["lung_segment_posterior_basal_left"],
    ),
    ("lefft adrenel gland", ["adrenal_gland_left"]),
    ("the lesion measures more than before and there is a change", []),
    ("superior segment of the right lower lobe", ["lung_segment_superior_lower_right"]),
    ("posterior segment of the right upper lobe", ["lung_segment_posterior_upper_right"]),
    (
        "nodule in the right posterior segment, liver normal",
        ["lung_segment_posterior_upper_right", "liver"],
    ),
    ("renal cysts", ["kidney" + BOTH]),
    ("stations 4R and 7", ["node_station_4_right", "node_station_7"]),
    ("left hilar and right axillary lymph nodes", ["node_station_10_left", "nodes_axillary_right"]),
    ("glandula suprarenalis sinistra", ["adrenal_gland_left"]),
    ("perisplenic fluid", ["perisplenic_space"]),
    ("protrusion between the T12 and L1 vertebrae", ["disc_T12_L1"]),
    ("between C1 and C2", ["vertebrae_C1", "vertebrae_C2"]),
    (
        "superior mesenteric artery and vein",
        ["superior_mesenteric_artery", "superior_mesenteric_vein"],
    ),
    ("upper and lower lobes of the left lung", ["lung_upper_lobe_left", "lung_lower_lobe_left"]),
    ("right upper and left lower lobe", ["lung_upper_lobe_right", "lung_lower_lobe_left"]),
    ("head, body and tail of the pancreas", ["pancreas_head", "pancreas_body", "pancreas_tail"]),
    ("liver and splenic flexure", ["liver", "splenic_flexure"]),
    ("celiac and superior mesenteric arteries", ["celiac_artery", "superior_mesenteric_artery"]),
    ("stone in the neck of a distended gallbladder", ["gallbladder_neck"]),
    ("femoral head and neck on the right", ["femoral_head_right", "femoral_neck_right"]),
    ("stone in the left kidney near the pelvis", ["renal_pelvis_left"]),
    ("thrombus at the apex of the left ventricle", ["cardiac_apex"]),
    ("neck of the aneurysm", []),
    ("thickening of the bronchial walls", ["bronchi"]),
]


def names(text: str) -> list[str]:
    found = []
    for mention in parse(text):
        sides = {place.removesuffix("_left").removesuffix("_right") for place in mention.places}
        found.append(
            sides.pop() + BOTH
            if len(mention.places) == 2 and len(sides) == 1
            else mention.places[0]
        )
    return found


@pytest.mark.parametrize(("text", "expected"), SENTENCES, ids=[text for text, _ in SENTENCES])
def test_sentences(text, expected):
    assert names(text) == expected


def test_every_place_is_understood_by_its_own_name_and_words_and_its_side_is_never_turned():
    terms = load_terms().by_name
    assert len(terms) >= 450
    for term in terms.values():
        assert any(term.name in mention.places for mention in parse(term.name.replace("_", " "))), (
            term.name
        )
        places = [
            place for mention in parse(f"{term.side} {term.words[0]}") for place in mention.places
        ]
        assert term.name in places
        other = {"left": "_right", "right": "_left", "": None}[term.side]
        assert not other or not any(place.endswith(other) for place in places), term.name


def test_all_parents_and_recipes_name_places():
    terms = load_terms()
    directions = {
        "left",
        "right",
        "inferior",
        "superior",
        "anterior",
        "posterior",
        "medial",
        "lateral",
    }
    for term in terms.by_name.values():
        assert not term.parent or terms.ancestors(term.name), term.name
        words = [
            word
            for word in term.recipe.split()[1:]
            if not word.replace(".", "").lstrip("-").isdigit()
        ]
        assert set(words) <= directions | terms.by_name.keys(), term.name


@pytest.mark.parametrize(
    ("text", "qualifier", "place"),
    [
        ("upper pole of the right kidney", Qualifier("zone", "upper"), "kidney_right"),
        ("right kidney lower pole", Qualifier("zone", "lower"), "kidney_right"),
        ("medial third of the left clavicle", Qualifier("zone", "medial"), "clavicula_left"),
        ("mass anterior to the sternum", Qualifier("before"), "sternum"),
        ("left kidney", None, "kidney_left"),
        ("cyst of the lt. kidney", None, "kidney_left"),
    ],
)
def test_parts_and_relations(text, qualifier, place):
    (mention,) = parse(text)
    assert (mention.qualifier, mention.places[0]) == (qualifier, place)
    assert "_" not in place or mention.places == (place,)


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("A cyst in the liver, with or without contrast, is not seen", ["finding"]),
        ("No hydronephrosis of the right kidney", ["finding"]),
        ("No lesion in the spleen, but a cyst in the liver", ["finding", ""]),
        ("Pleural effusion was not detected", ["finding"]),
        ("The right kidney is not seen", ["place"]),
        ("non-calcified nodule in the left lung", [""]),
        ("The pancreas is not enlarged", [""]),
        ("No focal lesion in the spleen, the liver shows a metastasis", ["finding", ""]),
        ("No lesion in the spleen and the liver is enlarged", ["finding", ""]),
        ("No lesion in the spleen, liver or kidneys is seen", ["finding", "finding", "finding"]),
        (
            "The lungs are clear, and no nodule, mass or effusion is seen in the heart",
            ["", "finding"],
        ),
        ("The liver, the spleen and the pancreas are not seen", ["finding", "finding", "place"]),
        ("Without contrast, the liver shows a cyst", [""]),
        ("Not only the liver but also the spleen", ["", ""]),
    ],
)
def test_a_denied_finding_is_not_a_missing_place(text, denied):
    mentions = parse(text)
    assert [mention.denied for mention in mentions] == denied
    assert all(("missing" in mention.remark) == (mention.denied == "place") for mention in mentions)


@pytest.mark.parametrize(
    ("text", "place", "unused"),
    [
        ("SMA origin", "superior_mesenteric_artery", "origin"),
        ("left L4 pedicle", "vertebrae_L4", "left, pedicle"),
        ("right hepatic vein", "hepatic_vein", "right"),
        ("right lobe of the liver", "liver_lobe_right", ""),
        ("upper pole of the left kidney", "kidney_left", ""),
        ("pancreatic tial", "pancreas", "tial"),
        ("scapular neck on the left", "scapula_left", "neck"),
    ],
)
def test_words_about_a_place_count_or_are_said_not_to(text, place, unused):
    (mention,) = parse(text)
    assert (mention.places, ", ".join(mention.unused)) == ((place,), unused)
    assert bool(unused) == (f"not taken into account: {unused}" in mention.remark)


@pytest.mark.parametrize(
    ("text", "understood", "missed"),
    [
        ("linke Niere; Leber; left kidney", ["kidney_left"], ["linke Niere", "Leber"]),
        ("linke Niere, Leber and left kidney", ["kidney_left"], ["linke Niere", "Leber"]),
        ("T9, T10 and L1", ["vertebrae_T9", "vertebrae_T10", "vertebrae_L1"], []),
        ("mass in the left adrenal, hypodense", ["adrenal_gland_left"], []),
        ("qwerty", [], ["qwerty"]),
        ("", [], []),
    ],
)
def test_each_part_of_a_query_is_a_place_or_not_understood(text, understood, missed):
    parts = parse_query(text)
    assert [
        name for part in parts for mention in part.mentions for name in mention.places
    ] == understood
    assert [part.text for part in parts if not part.mentions] == missed


def test_words_of_a_report_are_read_as_they_are_written():
    report = "Segmental bronchi are open; frosted glass; pancraes. " * 5
    assert {name for mention in parse(report) for name in mention.places} == {"bronchi"}


def test_a_typed_text_is_completed_at_its_end():
    assert "left adrenal gland" in suggestions("left adr")
    assert suggestions("") == []
    assert completions("mass in the left adr") == ["mass in the left adrenal gland"]
    assert completions("left kidney ") == completions("") == []
    assert "did you mean" in not_understood("pancr")


HOSTILE = (
    *("", " ", "\n", "\x00", "🫀🫁🧠", "הכבד מימין", "肝脏", "(a+)+$" * 50, "L3-L4-" * 40),
    *("T" * 5000, "ribs " + "1," * 1000, "segment " + "5/" * 1000, "left " * 2000),
)


def test_any_text_gets_places_or_a_sentence_and_mentions_say_where_they_stand():
    for kind, text in [*(("", text) for text in HOSTILE), *hostile_texts(14, seed=21)]:
        assert all(offer.startswith(text[:1]) for offer in completions(text)), kind
        assert len(not_understood(text)) < 300
        if len(text) > MOST_CHARACTERS:
            with pytest.raises(
                AnatomicalEmbeddingError, match=f"the text has {len(text):,} characters"
            ):
                parse(text)
            continue
        for part in [*parse_query(text), *parse_report(text)]:
            assert text[part.start : part.end] == part.text
            for mention in part.mentions:
                assert mention.places
                assert text[mention.start : mention.end] == mention.text
