"""Test that each structure has one name, however labels, libraries, weights and users spell the name."""

import json

import pytest

from AnatomicalEmbedding.anatomy.codes import code_of, name_of_code
from AnatomicalEmbedding.anatomy.names import (
    VERTEBRAE,
    canonical_name,
    choose_names,
    known_name,
    spelling_key,
)
from AnatomicalEmbedding.anatomy.terms import load_terms
from AnatomicalEmbedding.embedding.inference import load_model
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError
from AnatomicalEmbedding.files import file_sha256
from AnatomicalEmbedding.resources import list_weights, weights_file
from AnatomicalEmbedding.scan.boxes import boxes_from_json
from AnatomicalEmbedding.structures.label_files import canonical_names, read_texts
from AnatomicalEmbedding.structures.library import StructureLibrary, shipped_library
from AnatomicalEmbedding.words import shipped_atlas

SPELLINGS = [
    ("rib_5_left", "rib_left_5"),
    ("vertebra_t12", "vertebrae_T12"),
    ("Kidney, left", "kidney_left"),
    ("clavicle_right", "clavicula_right"),
    ("parotid-gland_L", "parotid_gland_left"),
    ("Oesophagus", "esophagus"),
    ("IVC", "inferior_vena_cava"),
]
HASH = file_sha256(weights_file())
OWN = ["LeftParotid", "GTV-1", "Übergang 2", "tumor", "heart_ventricle_left_scar", "", "L"]


@pytest.mark.parametrize(("label", "name"), SPELLINGS)
def test_spellings_of_a_known_structure_are_one_name(label, name):
    assert canonical_name(label) == known_name(label) == name


@pytest.mark.parametrize("label", OWN)
def test_a_label_of_the_users_own_stays_as_it_is_written(label):
    assert known_name(label) is None
    assert canonical_name(f" {label} ") == label


def test_every_term_is_its_own_name_in_all_the_usual_spellings():
    for name in load_terms().by_name:
        for written in (name, name.upper(), name.replace("_", " "), name.replace("_", "-")):
            assert canonical_name(written) == name
    assert {f"vertebrae_{level}" for level in VERTEBRAE} <= load_terms().by_name.keys()


@pytest.mark.parametrize(
    ("label", "value", "meaning"),
    [
        ("kidney_left", "64033007", "Kidney"),
        ("pelvis", "816092008", "Pelvis"),
        ("bladder", "89837001", "Urinary bladder"),
        ("right axillary lymph node", "68171009", "Axillary lymph node"),
    ],
)
def test_codes_are_those_of_dicom(label, value, meaning):
    known = pytest.importorskip("pydicom.sr._concepts_dict").concepts["SCT"].values()
    assert code_of(label) == (value, "SCT", meaning)
    assert any(value in of for of in known)
    assert code_of(name_of_code(code_of(label))) == code_of(label)


def test_a_structure_without_a_code_has_none():
    assert code_of("lingula_of_my_own") is code_of("xyzzy") is code_of("") is None
    assert name_of_code(("1", "SCT", "Unknown")) is None


def test_no_spelling_means_two_structures():
    meant: dict[str, str] = {}
    for term in load_terms().by_name.values():
        for label in (term.name, *term.labels):
            assert meant.setdefault(spelling_key(label), term.name) == term.name


def test_what_ships_has_these_names_whatever_its_files_say():
    library = shipped_library(HASH)
    atlas = shipped_atlas(HASH)
    in_boxes = {
        *library.examples,
        *(organ.name for of in library.examples.values() for e in of for organ in e.organs),
    }
    in_boxes |= {name for name in library.margins.scales if name}
    in_words = {name for name in atlas.occupancies if name in load_terms().by_name}
    network = {
        name for weights in list_weights() for name in load_model(weights).network.organ_names
    }
    for name in in_boxes | in_words | network:
        assert known_name(name) == name
    assert {"vertebrae_L3", "rib_right_12", "clavicula_left"} <= in_boxes & in_words


def test_old_spellings_in_files_are_read_as_the_one_name(tmp_path):
    library = shipped_library(HASH)
    old = StructureLibrary(HASH, {"vertebra_l3": library.examples["vertebrae_L3"]}, "fast")
    old.save(tmp_path / "old.structures.safetensors")
    assert list(StructureLibrary.load(tmp_path / "old.structures.safetensors").examples) == [
        "vertebrae_L3"
    ]
    assert list(boxes_from_json({"clavicle_left": [0, 0, 0, 1, 1, 1]})) == ["clavicula_left"]
    path = tmp_path / "one.labels.json"
    path.write_text(json.dumps({"1": "vertebra_l3", "2": "LeftParotid"}))
    assert canonical_names(read_texts(path), path) == {1: "vertebrae_L3", 2: "LeftParotid"}


@pytest.mark.parametrize(
    "twice", [("ivc", "postcava"), ("Tumor", "tumor"), ("rib_5_left", "Left rib 5")]
)
def test_two_labels_of_one_structure_are_refused(tmp_path, twice):
    path = tmp_path / "one.labels.json"
    path.write_text(json.dumps(dict(enumerate(twice, 1))))
    with pytest.raises(PointsError, match="several labels have the name"):
        canonical_names(read_texts(path), path)


NAMES = [f"rib_left_{n}" for n in range(1, 13)] + [
    "kidney_left",
    "kidney_right",
    "urinary_bladder",
    "liver",
    "My GTV",
]


def test_names_are_chosen_in_any_spelling():
    wanted = ["Left kidney", "rib 3 left", "bladder", "my_gtv", "liver", "LIVER"]
    assert choose_names(wanted, NAMES, "x") == [
        "kidney_left",
        "rib_left_3",
        "urinary_bladder",
        "My GTV",
        "liver",
    ]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            "kidney",
            "kidney: the library has no structure of this name; did you mean kidney_left, kidney_right?",
        ),
        ("livr", "did you mean liver?"),
        ("femur_left", 'of this name; to find its place, use: anatemb find "left femur".'),
    ],
)
def test_an_unknown_name_is_refused_with_near_ones_and_in_one_line(wanted, said):
    with pytest.raises(AnatomicalEmbeddingError) as error:
        choose_names(["liver", wanted], NAMES, "the library")
    assert said in str(error.value)
    assert len(str(error.value)) < 250
