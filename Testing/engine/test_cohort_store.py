"""Test the store of a cohort: what it records about good and bad scans."""

import shutil

import numpy as np
import pytest
from bad_files import make_bad_files
from cohort_scans import checksums, embed_waiting, states, torso, write_parts, write_torsos
from scan_files import stack_positions, write_linear_series
from small_models import write_small_weights

from AnatomicalEmbedding.cohort.index import Index
from AnatomicalEmbedding.cohort.store import Store
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return write_small_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store", create=True) as opened:
        yield opened


class TestScansOfAFolder:
    def test_bad_files_are_recorded_with_the_reason_and_stop_nothing(
        self, store, weights, tmp_path
    ):
        bad = make_bad_files(tmp_path / "in" / "bad")
        (good,) = write_parts(tmp_path / "in", 1)
        # by its name the label map of a scan, and none itself
        shutil.copy(good, good.with_name("ct.seg.nii.gz"))
        store.add([tmp_path / "in"])
        embed_waiting(store, weights)
        rows = {row.path: row for row in store.manifest.rows()}
        assert rows.pop(str(good)).state == "embedded"
        assert {row.state for row in rows.values()} == {"unusable"}
        assert all(row.path in row.reason for row in rows.values())
        ignored = {"missing.nii.gz", "text.txt", "folder"}  # no scans at all
        assert {str(path) for kind, path in bad.items() if kind not in ignored} == set(rows)

    def test_a_scan_larger_than_memory_is_named_before_it_is_read(self, store, weights, tmp_path):
        write_parts(tmp_path / "in", 1)
        store.add([tmp_path / "in"])
        embed_waiting(store, weights, memory_bytes=100_000)
        (row,) = store.manifest.rows()
        assert row.state == "failed"
        assert "million voxels" in row.reason
        embed_waiting(store, weights)  # the next run has more
        assert states(store) == {"part_0.nii": "embedded"}

    def test_added_again(self, store, weights, tmp_path):
        paths = write_parts(tmp_path / "in", 2)
        assert store.add([tmp_path / "in"])["new"] == 2
        embed_waiting(store, weights)
        before = checksums(store)
        shutil.copy(paths[0], tmp_path / "in" / "later.nrrd.nii")
        torso(1).volume.write(paths[1])  # another scan under the same name
        count = store.add([tmp_path / "in"])
        assert (count["known"], count["new"], count["changed"]) == (1, 1, 1)
        embed_waiting(store, weights)
        store.clean()
        assert states(store) == {
            "part_0.nii": "embedded",
            "part_1.nii": "embedded",
            "later.nrrd.nii": "duplicate",
        }
        assert len(set(before) & set(checksums(store))) == 1
        assert {path.name.split(".")[0] for path in store.folder.glob("maps/*/*")} == set(
            checksums(store)
        )


class TestKeeping:
    def test_no_name_of_a_patient(self, store, weights, tmp_path):
        slices = stack_positions((-40, -40, 0), (0, 0, 3.5), range(20))
        tags = {
            "PatientName": "Muster^Erika",
            "PatientID": "4711-0815",
            "PatientBirthDate": "19640812",
        }
        write_linear_series(tmp_path / "in", slices, StudyDescription="Muster", **tags)
        store.add([tmp_path / "in"])
        embed_waiting(store, weights)
        store.manifest.close()
        content = b"".join(path.read_bytes() for path in store.folder.rglob("*") if path.is_file())
        assert not any(word in content for word in (b"Muster", b"Erika", b"4711-0815", b"19640812"))

    def test_a_damaged_and_a_lost_map_are_found_and_embedded_again(self, store, weights, tmp_path):
        write_parts(tmp_path / "in", 3)
        store.add([tmp_path / "in"])
        embed_waiting(store, weights)
        before = checksums(store)
        assert store.verify() == []
        damaged, lost, _ = (store.map_path(scan_hash) for scan_hash in before)
        content = bytearray(damaged.read_bytes())
        content[-5] ^= 1
        damaged.write_bytes(content)
        lost.unlink()
        problems = [fault.problem for fault in store.verify()]
        assert len(problems) == 2
        assert sum("is damaged" in each for each in problems) == 1
        assert sum("is missing" in each for each in problems) == 1
        store.verify(repair=True)
        assert sorted(states(store).values()) == ["embedded", "waiting", "waiting"]
        embed_waiting(store, weights)
        assert checksums(store) == before
        assert store.verify() == []

    def test_a_removed_original_leaves_its_place_to_the_duplicate(self, store, weights, tmp_path):
        paths = write_parts(tmp_path / "in", 2)
        shutil.copy(paths[0], tmp_path / "in" / "z.nii")
        store.add([tmp_path / "in"])
        embed_waiting(store, weights)
        assert [row.path for row in store.remove([str(paths[0])])] == [str(paths[0])]
        assert states(store) == {"part_1.nii": "embedded", "z.nii": "embedded"}
        assert len(checksums(store)) == 2
        shutil.copy(tmp_path / "in" / "z.nii", paths[0])
        store.add([tmp_path / "in"])
        embed_waiting(store, weights)
        assert states(store)["part_0.nii"] == "duplicate"
        shutil.copy(paths[1], tmp_path / "in" / "z.nii")  # the original has another content now
        store.add([tmp_path / "in"])
        assert states(store)["part_0.nii"] == "embedded"
        store.remove([str(tmp_path / "in")])
        assert states(store) == {}
        assert list(store.folder.glob("maps/*/*")) == []
        assert len(list((tmp_path / "in").iterdir())) == 3

    def test_only_one_run_at_a_time(self, store):
        refused = pytest.raises(AnatomicalEmbeddingError, match="another run")
        with store.locked(), Store(store.folder) as second, refused, second.locked():
            pass
        with store.locked():
            pass

    def test_a_folder_of_other_things_is_no_store(self, tmp_path):
        (tmp_path / "letter.txt").write_text("dear reader")
        with pytest.raises(AnatomicalEmbeddingError, match="neither a cohort nor empty"):
            Store(tmp_path, create=True)
        with pytest.raises(AnatomicalEmbeddingError, match="is not a cohort"):
            Store(tmp_path)


def test_the_index_follows_the_store(store, weights, tmp_path):
    write_torsos(tmp_path / "in", range(2))
    store.add([tmp_path / "in"])
    embed_waiting(store, weights)
    assert len(Index(store).scans) == 2
    paths = list(write_torsos(tmp_path / "in", range(3)))
    store.add([tmp_path / "in"])
    embed_waiting(store, weights)
    hits = {hit.row.path: hit for hit in Index(store).nearest(np.zeros(3))}
    assert set(hits) == set(paths)
    for hit in hits.values():
        coordinates = EmbeddingMap.load(store.map_path(hit.row.scan_hash)).body_cells[1].numpy()
        assert hit.distance_mm == pytest.approx(np.linalg.norm(coordinates, axis=1).min(), abs=0.1)
    store.remove([paths[0]])
    assert {hit.row.path for hit in Index(store).nearest(np.zeros(3))} == set(paths[1:])
    next((store.folder / "index").iterdir()).write_bytes(b"damaged")
    assert {hit.row.path for hit in Index(store).nearest(np.zeros(3))} == set(paths[1:])
