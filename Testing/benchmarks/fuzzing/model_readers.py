"""Readers of weights, of what is made by them (maps, segmenters, cohorts), and of what belongs to them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from random import Random

import numpy as np
import torch
from scan_files import centred_affine
from small_models import analytic_map, small_network

from AnatomicalEmbedding.cohort.facts import make_facts
from AnatomicalEmbedding.cohort.manifest import EMBEDDED
from AnatomicalEmbedding.cohort.search import Search
from AnatomicalEmbedding.cohort.store import MANIFEST_NAME, Store
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.embedding.calibration import OUTCOMES, Calibration, Forest
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.embedding.models.network import EmbeddingNetwork
from AnatomicalEmbedding.embedding.models.registry import find_weights, write_weights
from AnatomicalEmbedding.files import file_sha256
from AnatomicalEmbedding.matching.confidence import EVIDENCE
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.matching.query import Query, StoredQuery
from AnatomicalEmbedding.resources import resource
from AnatomicalEmbedding.scan.sources import Source
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.segmentation.grids import Group
from AnatomicalEmbedding.segmentation.network import UNetSpec
from AnatomicalEmbedding.segmentation.segmenter import EMBEDDING, Segmenter, load_segmenter, new_network, save_segmenter
from AnatomicalEmbedding.structures.library import StructureLibrary
from AnatomicalEmbedding.structures.locating import Example, locate
from AnatomicalEmbedding.structures.margins import TIMES, Margins
from AnatomicalEmbedding.training.recipes import load_recipe
from AnatomicalEmbedding.words.atlas import Atlas, Occupancy
from AnatomicalEmbedding.words.presence import FrameFields
from fuzzing import mutations as change
from fuzzing.reader import TEXT, Files, Reader, one_of, only


def _body() -> Volume:
    """An elliptic cylinder of uneven tissue in air."""
    shape = (26, 28, 30)
    k, j, i = np.indices(shape)
    inside = ((j - 13.5) / 10) ** 2 + ((i - 14.5) / 12) ** 2 < 1
    hu = 40 + 80 * np.sin(k / 4) + 60 * np.cos(j / 3 + i / 5)
    return Volume(np.where(inside, hu, -1000).astype(np.int16), centred_affine(np.diag((5.0, 4.5, 5.0)), shape), "body")


def _make_weights(folder: Path) -> None:
    network = small_network(widths=(4, 4, 4), spacing_mm=(6.0, 6.0, 6.0), global_channels=4, local_channels=4)
    write_weights(network, folder / "own.safetensors", "own", {"recipe": "none"})


def _use_weights(folder: Path) -> object:
    found = find_weights(str(only(folder)))
    embedding = Model(found.network, found.name, found.sha256, budget_bytes=200 << 20).embed(_body())
    assert torch.isfinite(embedding.coordinate).all()
    return found.sha256


def _forest() -> Forest:
    feature = np.array([0, -1, 1, -1, -1, -1], np.int16)
    otherwise = np.array([2, 0, 4, 0, 0, 0], np.int32)
    return Forest(
        np.array([0, 5], np.int32), feature, np.full(6, 0.5, np.float32), otherwise,
        np.linspace(0, 1, 4 * len(OUTCOMES), dtype=np.float32).reshape(4, -1),
    )  # fmt: skip


def _make_calibration(folder: Path) -> None:
    Calibration("ab" * 32, EVIDENCE, {"standard": _forest(), "fast": _forest()}).save(
        folder / "x.calibration.safetensors"
    )


def _use_calibration(folder: Path) -> object:
    found = Calibration.load(only(folder))
    evidence = np.random.default_rng(0).normal(size=(5, len(found.evidence)))
    answers = [forest.predict(evidence) for _, forest in sorted(found.forests.items())]
    assert all(answer.shape == (5, len(OUTCOMES)) and np.isfinite(answer).all() for answer in answers)
    return [answer.tobytes() for answer in answers]


def _map(number: int = 0, described: bool = True) -> EmbeddingMap:
    """A small map with descriptors."""
    plain = analytic_map(lambda p: p * 0.9 + number, (6, 8, 8), (16.0, 16.0, 18.0), name=f"scan {number}")
    if not described:
        return plain
    from dataclasses import replace

    draw = torch.Generator().manual_seed(number)
    local = torch.nn.functional.normalize(torch.randn(4, 12, 16, 16, generator=draw), dim=0).half()
    coarse = torch.nn.functional.normalize(torch.randn(4, 3, 4, 4, generator=draw), dim=0).half()
    return replace(plain, local=local, global_=coarse)


def _make_map(folder: Path) -> None:
    _map().save(folder / "scan.map.safetensors")


def _used_map(embedding: EmbeddingMap) -> object:
    middle = _map().cell_to_ras[:3, 3] + 40.0
    assert np.isfinite(match(_map(), middle, embedding).points_ras).all()
    return torch.nan_to_num(embedding.coordinate).numpy().tobytes()


def _use_map(folder: Path) -> object:
    return _used_map(EmbeddingMap.load(only(folder)))


def _make_cache(folder: Path) -> None:
    MapCache(folder).put(_map())


def _use_cache(folder: Path) -> object:
    found = MapCache(folder).get(_map().provenance)
    return None if found is None else _used_map(found)


def _margins() -> Margins:
    return Margins(np.linspace(0.5, 1.0, len(TIMES)), 100, {"": np.ones(6), "liver": np.full(6, 1.5)})


def _make_library(folder: Path) -> None:
    embedding = _map()
    box = np.array([[-40.0, -30.0, 330.0], [20.0, 20.0, 380.0]])
    corners = np.array([box[n // 4] if n == 0 else np.where([n & 1, n & 2, n & 4], *box) for n in range(8)])
    middle = box.mean(axis=0)
    faces = np.stack([np.where(np.arange(3) == side % 3, box[side // 3], middle) for side in range(6)])
    points = np.vstack([faces, corners])
    query = StoredQuery.of(Query(embedding, points), with_blocks=False)
    examples = {name: [Example(f"scan {n}", box, points, query) for n in range(2)] for name in ("liver", "spleen")}
    library = StructureLibrary(query.weights_hash, examples, "fast", _margins(), _margins(), {"made": "for a test"})
    library.save(folder / "x.structures.safetensors")


def _use_library(folder: Path) -> object:
    library = StructureLibrary.load(only(folder))
    embedding = _map()
    library.check(embedding.provenance.weights_hash)
    found = locate(library.examples, embedding, library.effort)
    assert all(np.isfinite(each.box_ras).all() for each in found.values())
    for margins in (library.margins, library.example_margins):
        for each in found.values() if margins is not None else ():
            margins.box(each, 0.9)
    return sorted(library.examples)


def _make_atlas(folder: Path) -> None:
    share = np.zeros((4, 5, 6), np.uint8)
    share[1:3, 1:4, 1:5] = 200
    weights = np.linspace(-1, 1, 41, dtype=np.float32)
    found = {
        name: Occupancy((30, 20, 40 + n), share, 5, 3, 100.0, weights) for n, name in enumerate(("liver", "spleen"))
    }
    Atlas("ab" * 32, found, {"made": "for a test"}).save(folder / "x.atlas.npz")


def _use_atlas(folder: Path) -> object:
    atlas = Atlas.load(only(folder))
    frame = FrameFields(atlas)
    for name, found in sorted(atlas.occupancies.items()):
        assert np.isfinite(found.centre_mm).all()
        places, weights = found.points_mm(50)
        assert np.isfinite(places).all()
        assert np.isfinite(weights).all()
        assert found.discriminant is None or np.isfinite(found.discriminant).all()
        if name in ("liver", "spleen"):
            assert np.isfinite(frame.field(name).values).all()
    return sorted(atlas.occupancies)


def _make_recipe(folder: Path) -> None:
    shutil.copy(resource("Recipes") / "hybrid.toml", folder / "own.toml")


def _use_recipe(folder: Path) -> object:
    recipe = load_recipe(only(folder))
    with torch.device("meta"):
        EmbeddingNetwork(recipe.network)
    return json.dumps(recipe.to_dict(), sort_keys=True)


def _make_segmenter(folder: Path) -> None:
    group = Group(("liver", "spleen"), 3.0, np.zeros((2, 3)), np.full((2, 3), 50.0))
    spec = UNetSpec(6, 2, 4, (4, 8), 3, True)
    network = new_network(spec, EMBEDDING, 0)
    volumes, shares = {"liver": (1.0, 2.0)}, {"liver": 0.5}
    own = Segmenter("own", "ab" * 32, EMBEDDING, (group,), (network,), volumes, shares, ())
    save_segmenter(folder, own, [])
    path = folder / "segmenter.safetensors"
    embedding = _map()
    embedding.save(folder / "examples" / "one.map.safetensors")
    from safetensors import safe_open
    from safetensors.torch import save_file

    labels = {"0.labels": torch.zeros(2, 4, 4, 4, dtype=torch.uint8), "0.known": torch.ones(2, dtype=torch.bool),
              "0.to_ras": torch.eye(4, dtype=torch.float64)}  # fmt: skip
    save_file(labels, str(folder / "examples" / "one.labels.safetensors"))
    with safe_open(str(path), "pt") as file:
        about = {key: json.loads(text) for key, text in file.metadata().items()}
        weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
    (key,) = about
    about[key]["examples"] = ["one"]
    save_file(weights, str(path), {key: json.dumps(about[key])})


def _use_segmenter(folder: Path) -> object:
    segmenter = load_segmenter(folder, torch.device("cpu"))
    for network in segmenter.networks:
        assert all(torch.isfinite(weights).all() for weights in network.parameters())
    return segmenter.names


def _make_cohort(folder: Path) -> None:
    with Store(folder, create=True) as store:
        store.manifest.set_about({"model": "analytic", "weights_hash": "ab" * 32, "descriptors": "yes"})
        for number in range(2):
            embedding, scan_hash = _map(number), f"{number:040x}"
            source = Source(f"/scans/{number}.nii.gz", "", (), True, 1000, 5)
            store.manifest.add([source])
            (row,) = store.manifest.find(source.path)
            path = store.map_path(scan_hash)
            embedding.save(path)
            facts = make_facts(embedding) | {"scan_hash": scan_hash}
            size = path.stat().st_size
            store.manifest.finish(
                row.id, EMBEDDED, scan_hash=scan_hash, sha256=file_sha256(path), size=size, facts=facts
            )
        Search(store)  # makes the index


def _spoil_cohort(files: Files, draw: Random) -> str:
    """The tables of the manifest, its bytes, a map, or the index."""
    if draw.random() < 0.4:
        folder = Path(tempfile.mkdtemp())
        try:
            path = folder / MANIFEST_NAME
            path.write_bytes(files[MANIFEST_NAME])
            done = _table_changed(path, draw)
            files[MANIFEST_NAME] = path.read_bytes()
            return f"manifest: {done}"
        finally:
            shutil.rmtree(folder)
    name = draw.choice(sorted(files))
    ways = [change.mutated_bytes, change.truncated]
    if name.endswith(".safetensors"):
        ways += [change.safetensors_bytes] * 3
    files[name], done = draw.choice(ways)(files[name], draw)
    return f"{name}: {done}"


def _table_changed(path: Path, draw: Random) -> str:
    with sqlite3.connect(path) as database:
        table = draw.choice(("about", "scans", "maps"))
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        column = draw.choice(columns)
        kind = draw.choice(("value", "value", "value", "json", "empty", "drop"))
        if kind == "drop":
            database.execute(f"DROP TABLE {table}")
        elif kind == "empty":
            database.execute(f"DELETE FROM {table}")
        elif kind == "json" and table == "maps":
            facts = json.loads(database.execute("SELECT facts FROM maps").fetchone()[0])
            facts, _ = change.mutated_json(facts, draw)
            database.execute("UPDATE maps SET facts = ?", (json.dumps(facts),))
        else:
            value = draw.choice((0, -1, 2**62, "", "x" * 10_000, b"\xff\xfe", "nan", "[]", "{}", "null", "../../out"))
            unique = draw.choice(("", " WHERE rowid = 1"))
            try:
                database.execute(f"UPDATE {table} SET {column} = ?{unique}", (value,))
            except sqlite3.IntegrityError:
                return "nothing"
            kind = f"{column} is {value if len(str(value)) < 20 else 'long'!r}"
    database.close()
    return f"{table}: {kind}"


def _use_cohort(folder: Path) -> object:
    with Store(folder) as store:
        counts = store.manifest.counts()
        list(store.manifest.rows())
        list(store.manifest.due())
        store.verify()
        search = Search(store)
        found = search.point(Query(_map(), _map().cell_to_ras[None, :3, 3] + 40.0))
        for row, _ in store.manifest.embedded():
            search.map_of(row)
        assert all(each.point_ras is None or np.isfinite(each.point_ras).all() for each in found)
    return counts


_TENSORS = (change.safetensors_bytes,) * 4 + (change.mutated_bytes, change.truncated)
_NPZ = (change.npz_bytes,) * 4 + (change.mutated_bytes, change.truncated)

READERS = (
    Reader("weights", _make_weights, one_of(*_TENSORS), _use_weights),
    Reader("calibration", _make_calibration, one_of(*_TENSORS), _use_calibration),
    Reader("library", _make_library, one_of(*_TENSORS), _use_library),
    Reader("atlas", _make_atlas, one_of(*_NPZ), _use_atlas),
    Reader("map", _make_map, one_of(*_TENSORS), _use_map),
    Reader("cache", _make_cache, one_of(*_TENSORS), _use_cache),
    Reader("recipe", _make_recipe, one_of(*TEXT), _use_recipe, whole=False),
    Reader("segmenter", _make_segmenter, one_of(*_TENSORS, some=0.1), _use_segmenter),
    Reader("cohort", _make_cohort, _spoil_cohort, _use_cohort, whole=False),
)
