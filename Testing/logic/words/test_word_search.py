"""Test the places of words in scans of a scene: the place, the shaded region, and the message if nothing is found."""

from dataclasses import replace

import numpy as np
import pytest
import slicer
from scans import patient

from AnatomicalEmbedding.scan.volume import transform_points
from AnatomicalEmbeddingLib.boxes.Segments import extremesIn, segmentIds


def labels_at(number: int, world) -> str:
    """Name of the structure of a patient at a place."""
    phantom = patient(number)
    i, j, k = np.rint(transform_points(phantom.volume.ras_to_ijk, np.array([world]))[0]).astype(int)
    return phantom.label_names[int(phantom.labels[k, j, i])]


def box_of(number: int, label: str) -> np.ndarray:
    phantom = patient(number)
    value = next(value for value, name in phantom.label_names.items() if name == label)
    ras = transform_points(phantom.volume.ijk_to_ras, np.argwhere(phantom.labels == value)[:, ::-1])
    return np.array([ras.min(axis=0), ras.max(axis=0)])


def test_words_are_found_in_every_scan_and_their_region_is_shaded(bench, pair):
    bench.find("mass in the liver")
    assert bench.search.title == "liver"
    for number, node in enumerate(pair):
        assert labels_at(number, bench.search.found(node).world).startswith("liver")
        assert bench.search.found(node).text.startswith("found (")
        region = bench.search.regions.of(node)
        half, most = (extremesIn(node, region, each)[0] for each in segmentIds(region))
        assert (most[0] <= half[0]).all()
        assert (most[1] >= half[1]).all()
        liver = box_of(number, "liver")
        overlap = np.clip(
            np.minimum(most[1], liver[1]) - np.maximum(most[0], liver[0]), 0, None
        ).prod()
        assert overlap > 0.5 * np.ptp(liver, axis=0).prod()


def test_an_uncertain_place_is_not_called_found(bench, pair):
    bench.find("liver")
    found = bench.search.found(pair[0])
    doubtful = replace(
        found, place=replace(found.place, status="uncertain", probability=0.48, levels="L3 or L4")
    )
    assert doubtful.text == "not certain (48 %): the level is not certain: L3 or L4"


def test_an_answer_that_comes_late_is_not_shown_for_the_next_place(bench, pair):
    bench.find("liver")
    bench.search.find("liver; spleen")
    while not bench.search.steps:
        bench.search.poll()
    bench.search.step()  # while the liver is being looked for
    bench.settle()
    assert {node.GetName() for node in bench.regions()} == {"spleen"}


def test_parts_that_are_not_understood_are_named_and_the_others_found(bench, pair):
    bench.find("linke Niere; liver")
    assert "'linke Niere' names no place that is known" in bench.reported[-1]
    assert bench.search.title == "liver"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("xyzzy", "names no place that is known"),
        ("liver " * 30_000, "characters; give a text of at most"),
    ],
    ids=["unknown", "too long"],
)
def test_what_is_not_understood_is_a_sentence(bench, pair, text, said):
    bench.find(text)
    assert said in bench.reported[-1]
    assert bench.search.steps == []
    assert not bench.store.busy


def test_changed_voxels_take_the_answer_with_them(bench, pair):
    bench.find("liver")

    slicer.util.arrayFromVolume(pair[0])[:] = -1000
    slicer.util.arrayFromVolumeModified(pair[0])
    bench.store.request([pair[0]])
    assert bench.search.found(pair[0]) is None
    assert bench.search.regions.of(pair[0]) is None
    bench.settle()
    assert "the image is empty" in dict(bench.search.answers())["Prior"]
    assert bench.search.found(pair[1]) is not None


def test_deleting_a_scan_takes_its_region_and_closing_the_scene_all(bench, pair):
    bench.find("liver")
    bench.scene.RemoveNode(pair[0])
    bench.search.volumes = pair[1:]
    bench.search.poll()
    assert len(bench.regions()) == 1
    bench.search.find("spleen")
    bench.scene.Clear(0)
    bench.settle()
    assert bench.regions() == []
    assert (bench.search.title, bench.search.answers()) == ("", [])


def test_a_report_is_read_and_its_sentences_are_looked_for(bench, pair, tmp_path):
    (tmp_path / "report.txt").write_text(
        "The liver is enlarged. No change. Cyst of the spleen.", encoding="utf-8"
    )
    bench.search.openReport(str(tmp_path / "report.txt"))
    bench.settle()
    named = [each for each in bench.search.sentences if each.mentions]
    assert [each.text for each in named] == ["The liver is enlarged.", "Cyst of the spleen."]
    bench.search.findMentions(named[1].text, named[1].mentions)
    bench.settle()
    assert bench.search.title == "spleen"
    bench.search.openReport(str(tmp_path / "none.txt"))
    bench.settle()
    assert "no such file" in bench.reported[-1]


def test_a_point_has_a_name_once_the_mouse_rests(bench, pair):
    bench.find("liver")
    place = bench.search.found(pair[1]).world
    told = []
    bench.search.named.connect(lambda: told.append(bench.search.name))
    assert bench.name_at(pair[1], place).startswith("liver, ")
    bench.search.nameAt(pair[1], place)
    assert bench.search.name == ""
    assert bench.name_at(pair[1], (0.0, 0.0, 9e3)) == ""
    assert told[1] == ""
