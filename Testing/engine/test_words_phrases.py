"""Words to places: what phrases and report sentences mean, and that no text breaks the reading."""

import pytest
from hostile_texts import hostile_texts

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.phantom.tissues import LABEL_ID
from AnatomicalEmbedding.words import (
    completions,
    load_terms,
    not_understood,
    parse,
    parse_query,
    parse_report,
    suggestions,
)
from AnatomicalEmbedding.words.organ_parts import whole_name
from AnatomicalEmbedding.words.spelling import Spelling, distance
from AnatomicalEmbedding.words.tokens import MOST_CHARACTERS

BOTH = "*"  # stands for left and right

# Written for this test and labelled by reading: what a radiologist would look for.
SENTENCES = [
    ("Mass in the left adrenal", ["adrenal_gland_left"]),
    ("12th rib on the right", ["rib_right_12"]),
    ("subcarinal node", ["node_station_7"]),
    ("fracture of the fifth and sixth left ribs", ["rib_left_5", "rib_left_6"]),
    ("ribs 3 to 5 on the left are broken", ["rib_left_3", "rib_left_4", "rib_left_5"]),
    ("T12", ["vertebrae_T12"]),
    ("compression of TH7", ["vertebrae_T7"]),
    ("D8 vertebral body", ["vertebrae_T8"]),
    ("metastases in T9, T10 and L1", ["vertebrae_T9", "vertebrae_T10", "vertebrae_L1"]),
    ("sclerosis from T3 to T6", ["vertebrae_T3", "vertebrae_T4", "vertebrae_T5", "vertebrae_T6"]),
    ("disc narrowing at L4/5", ["disc_L4_L5"]),
    ("L5-S1 protrusion", ["disc_L5_S1"]),
    ("right upper lobe nodule", ["lung_upper_lobe_right"]),
    ("LLL consolidation", ["lung_lower_lobe_left"]),
    ("nodule in the lower lobe of the left lung, 2 cm", ["lung_lower_lobe_left"]),
    ("left lung upper lobe lingular segment", ["lingula"]),
    ("superior segment of the right lower lobe", ["lung_segment_superior_lower_right"]),
    ("cyst in segment VIII of the liver", ["liver_segment_8"]),
    ("lesions in hepatic segments 5 and 6", ["liver_segment_5", "liver_segment_6"]),
    ("segment 4a", ["liver_segment_4a"]),
    ("posterior segment right lobe of liver", ["liver_posterior_segment"]),
    ("right hepatic lobe, posterior segment", ["liver_posterior_segment"]),
    ("posterior segment of the right upper lobe", ["lung_segment_posterior_upper_right"]),
    ("nodule in the right posterior segment, liver normal", ["lung_segment_posterior_upper_right", "liver"]),
    ("renal cysts", ["kidney" + BOTH]),
    ("a hepatic and a splenic lesion", ["liver", "spleen"]),
    ("enlarged node at station 4R", ["node_station_4_right"]),
    ("stations 4R and 7", ["node_station_4_right", "node_station_7"]),
    ("bilateral hilar adenopathy", ["node_station_10" + BOTH]),
    ("left hilar and right axillary lymph nodes", ["hilum_left", "nodes_axillary_right"]),
    ("external iliac lymph node, left", ["nodes_external_iliac_left"]),
    ("glandula suprarenalis sinistra", ["adrenal_gland_left"]),
    ("hepatic flexure", ["hepatic_flexure"]),
    ("fluid in the pouch of Douglas", ["cul_de_sac"]),
    ("pancreatic head mass", ["pancreas_head"]),
    ("right SI joint", ["sacroiliac_joint_right"]),
    ("left atrium", ["heart_atrium_left"]),
    ("left lung, lower lobe", ["lung_lower_lobe_left"]),
    ("both kidneys are normal", ["kidney" + BOTH]),
    ("porta hepatis adenopathy", ["nodes_periportal"]),
    ("perisplenic fluid", ["perisplenic_space"]),
    ("the left lung is clear and the liver is normal", ["lung_left", "liver"]),
    ("metal in the right femur", ["femur_right"]),
    ("L2 and L3 vertebrae", ["vertebrae_L2", "vertebrae_L3"]),
    ("12 mm nodule", []),
    ("clinical correlation is recommended", []),
]


def names(text: str) -> list[str]:
    found = []
    for mention in parse(text):
        sides = {place.removesuffix("_left").removesuffix("_right") for place in mention.places}
        found.append(sides.pop() + BOTH if len(mention.places) == 2 and len(sides) == 1 else mention.places[0])
    return found


@pytest.mark.parametrize(("text", "expected"), SENTENCES, ids=[text for text, _ in SENTENCES])
def test_sentences(text, expected):
    assert names(text) == expected


def test_every_place_is_understood_by_its_own_name_and_words():
    terms = load_terms().by_name
    assert len(terms) >= 450
    for term in terms.values():
        assert any(term.name in mention.places for mention in parse(term.name.replace("_", " "))), term.name
        assert any(term.name in mention.places for mention in parse(f"{term.side} {term.words[0]}")), term.name


def test_all_parents_and_recipes_name_places():
    terms = load_terms()
    for term in terms.by_name.values():
        assert not term.parent or terms.ancestors(term.name), term.name
        for word in term.recipe.split()[1:]:
            plain = word.replace("_", "").isalnum() and not word.replace(".", "").lstrip("-").isdigit()
            direction = word in ("left", "right", "inferior", "superior", "anterior", "posterior", "medial", "lateral")
            assert not plain or direction or word == "medial_left" or word in terms.by_name, (term.name, word)


def test_labels_of_synthetic_patients_are_places():
    spread = {"background", "body_other", "subcutaneous_fat", "visceral_fat", "muscle"}
    for label in LABEL_ID.keys() - spread:
        assert whole_name(label) in load_terms().by_name, label


def test_layers_of_an_organ_are_the_organ():
    assert whole_name("Kidney, left, cortex") == "kidney_left"
    assert whole_name("Stomach wall") == "stomach"
    assert whole_name("Transverse colon wall, left") == whole_name("transverse_colon") == "transverse_colon"
    assert whole_name("Muscle, trunk") == "background"


@pytest.mark.parametrize(
    ("text", "kind", "detail", "place"),
    [
        ("upper pole of the right kidney", "zone", "upper", "kidney_right"),
        ("right kidney lower pole", "zone", "lower", "kidney_right"),
        ("medial third of the left clavicle", "zone", "medial", "clavicula_left"),
        ("mass anterior to the sternum", "before", "", "sternum"),
        ("posterior segment of the spleen", "zone", "posterior", "spleen"),
        ("behind the bladder", "behind", "", "urinary_bladder"),
        ("between the liver and the right kidney", "between", "kidney_right", "liver"),
        ("supraumbilical hernia", "above", "", "umbilicus"),
    ],
)
def test_qualifiers(text, kind, detail, place):
    (mention,) = parse(text)
    assert (mention.qualifier.kind, mention.qualifier.detail, mention.places[0]) == (kind, detail, place)


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("No mass in the liver", [True]),
        ("Pleural effusion was not detected", [True]),
        ("No lesion in the spleen, but a cyst in the liver", [True, False]),
        ("The pancreas is not enlarged", [False]),
        ("Without contrast. Cyst in the left kidney", [False]),
    ],
)
def test_negation(text, negated):
    assert [mention.negated for mention in parse(text)] == negated


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("No hydronephrosis of the right kidney", "finding"),
        ("No mass in the liver", "finding"),
        ("No liver lesion", "finding"),
        ("No hepatic or splenic lesion", "finding"),
        ("No pericardial or pleural effusion", "finding"),
        ("A mass in both lungs was not detected", "finding"),
        ("No gallbladder", "place"),
        ("The right kidney is not seen", "place"),
        ("the spleen is surgically absent", "place"),
        ("There is no left kidney in its usual place", "place"),
        ("free fluid in the pelvis", ""),
        ("non-calcified nodule in the left lung", ""),
        ("The pancreas is not enlarged", ""),
    ],
)
def test_a_finding_that_is_denied_is_not_the_place(text, denied):
    mentions = parse(text)
    assert {mention.denied for mention in mentions} == {denied}
    assert all(("missing" in mention.remark) == (mention.denied == "place") for mention in mentions)


@pytest.mark.parametrize(
    ("text", "places", "unused"),
    [
        ("SMA origin", ["superior_mesenteric_artery"], "origin"),
        ("origin of the SMA", ["superior_mesenteric_artery"], "origin"),
        ("left ventricle apex", ["heart_ventricle_left"], "apex"),
        ("left L4 pedicle", ["vertebrae_L4"], "left, pedicle"),
        ("medial part of the liver", ["liver"], "medial"),
        ("right hepatic vein", ["hepatic_vein"], "right"),
        ("right hepatic", ["liver_lobe_right"], ""),
        ("left hepatic cyst", ["liver_lobe_left"], ""),
        ("liver, right lobe", ["liver_lobe_right"], ""),
        ("pancreas, head", ["pancreas_head"], ""),
        ("left kidney: cortex", ["renal_cortex_left"], ""),
        ("right lobe of the liver", ["liver_lobe_right"], ""),
        ("upper pole of the left kidney", ["kidney_left"], ""),
    ],
)
def test_words_about_a_place_count_or_are_said_not_to(text, places, unused):
    (mention,) = parse(text)
    assert list(mention.places) == places
    assert ", ".join(mention.unused) == unused
    assert bool(unused) == (f"not taken into account: {unused}" in mention.remark)


@pytest.mark.parametrize(
    ("text", "understood", "missed"),
    [
        ("linke Niere; Leber; left kidney", ["kidney_left"], ["linke Niere", "Leber"]),
        ("linke Niere, Leber and left kidney", ["kidney_left"], ["linke Niere", "Leber"]),
        ("T9, T10 and L1", ["vertebrae_T9", "vertebrae_T10", "vertebrae_L1"], []),
        ("liver, 2 cm", ["liver"], []),
        ("mass in the left adrenal, hypodense", ["adrenal_gland_left"], []),
        ("left kidney", ["kidney_left"], []),
        ("qwerty", [], ["qwerty"]),
        ("", [], []),
    ],
)
def test_each_part_of_what_is_typed_is_a_place_or_not_understood(text, understood, missed):
    parts = parse_query(text)
    assert [name for part in parts for mention in part.mentions for name in mention.places] == understood
    assert [part.text for part in parts if not part.mentions] == missed
    assert all(text[part.start : part.end] == part.text for part in parts)


def test_slips_of_spelling_are_forgiven_and_plain_words_are_not_changed():
    assert names("lefft adrenel gland") == ["adrenal_gland_left"]
    assert names("pancraes") == ["pancreas"]
    assert names("the lesion measures more than before and there is a change") == []


def test_mentions_say_where_they_stand():
    text = "Normal heart. Cyst in the LEFT KIDNEY."
    for sentence in parse_report(text):
        assert text[sentence.start : sentence.end] == sentence.text
        for mention in sentence.mentions:
            assert text[mention.start : mention.end] == mention.text


def test_the_side_is_never_turned():
    for term in load_terms().by_name.values():
        if term.side:
            other = {"left": "right", "right": "left"}[term.side]
            for mention in parse(f"lesion of the {term.side} {term.words[0]}"):
                assert not any(place.endswith(f"_{other}") for place in mention.places), term.name


def test_suggestions_complete_a_word():
    assert "left adrenal gland" in suggestions("left adr")
    assert suggestions("") == []


def test_what_is_typed_is_completed_at_its_end():
    assert completions("mass in the left adr") == ["mass in the left adrenal gland"]
    assert completions("cyst of liver, T1")[0] == "cyst of liver, T1 vertebra"
    assert completions("mass in ") == completions("") == completions("x" * 1000) == []


def test_every_offer_is_understood():
    for term in load_terms().by_name.values():
        assert any(term.name in mention.places for mention in parse(term.title)), term.title


def test_distance_counts_letters_and_swaps():
    assert distance("liver", "liver") == 0
    assert distance("lievr", "liver") == 1
    assert distance("kidny", "kidney") == 1
    assert Spelling(["kidney", "liver"], ["lover"]).corrected("lover") == "lover"


HOSTILE = [
    *("", " ", "\n", "\x00", "🫀🫁🧠", "הכבד מימין", "肝脏", "'; DROP TABLE scans; --", "(a+)+$" * 50, "{{7*7}}"),
    *("-" * 999, "T" * 5000, "1" * 5000, "ribs " + "1," * 3000, "segment " + "5/" * 3000, "L4-" * 3000, "left " * 5000),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_get_an_answer(text):
    assert isinstance(parse(text), list)


def test_any_text_gets_an_answer_or_a_sentence():
    for kind, text in hostile_texts(150, seed=21):
        assert all(offer.startswith(text[:1]) for offer in completions(text)), kind
        if len(text) > MOST_CHARACTERS:
            with pytest.raises(AnatomicalEmbeddingError, match=f"the text has {len(text):,} characters"):
                parse(text)
            continue
        assert all(0 <= part.start <= part.end <= len(text) for part in parse_query(text)), kind
        for mention in parse(text):
            assert mention.places
            assert 0 <= mention.start <= mention.end <= len(text)
        assert len(not_understood(text)) < 300


def test_a_text_that_is_too_long_is_refused_in_a_sentence():
    with pytest.raises(AnatomicalEmbeddingError, match="characters"):
        parse("liver " * 200_000)
