"""Shared by the tests of cohorts: files with parts of synthetic patients, and a run without Dask."""

from functools import cache
from pathlib import Path

import numpy as np

from AnatomicalEmbedding.cohort.engine import choose_weights
from AnatomicalEmbedding.cohort.store import Store
from AnatomicalEmbedding.cohort.work import Plan, embed_scan
from AnatomicalEmbedding.phantom import Phantom, make_phantom
from AnatomicalEmbedding.scan.geometry import transform_points

TORSO_MM = (190.0, 330.0)


@cache
def torso(seed: int) -> Phantom:
    """The upper abdomen of a synthetic patient, on a coarse grid."""
    return make_phantom(seed, spacing=(4, 4, 5), coverage_mm=TORSO_MM)


def write_torsos(folder: Path, seeds: range) -> dict[str, Phantom]:
    """Scans of several patients, by the path of each."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {str(folder / f"torso_{seed}.nii.gz"): torso(seed) for seed in seeds}
    for path, phantom in made.items():
        phantom.volume.write(path)
    return made


def write_parts(folder: Path, count: int) -> list[Path]:
    """Scans of equal size and different content: one torso with other noise."""
    folder.mkdir(parents=True, exist_ok=True)
    volume = torso(0).volume
    paths = []
    rng = np.random.default_rng(0)
    for number in range(count):
        voxels = (volume.voxels + rng.normal(0, 8, volume.shape)).astype(np.int16)
        paths.append(folder / f"part_{number}.nii")
        type(volume)(voxels, volume.ijk_to_ras).write(paths[-1])
    return paths


def embed_waiting(store: Store, weights: str | Path, memory_bytes: int = 0) -> None:
    """What a run does, in this process."""
    plan = Plan(str(weights), "cpu", memory_bytes=memory_bytes)
    plan = choose_weights(store, plan)
    for row in map(store.manifest.row, store.manifest.due()):
        found = embed_scan(str(store.folder), row, plan, store.manifest.weights_hash)
        store.manifest.finish(row.id, found.pop("state"), found.pop("reason", ""), **found)


def make_store(scans: Path, folder: Path) -> Path:
    """A cohort with the maps of all scans in a folder. Returns its folder."""
    with Store(folder, create=True) as store:
        store.add([scans])
        embed_waiting(store, "auto")
    return folder


def voxels_ras(phantom: Phantom, structure: str) -> np.ndarray:
    """(n, 3) RAS mm of the voxels of a structure."""
    number = next(number for number, name in phantom.label_names.items() if name == structure)
    ijk = np.argwhere(phantom.labels == number)[:, ::-1]
    return transform_points(phantom.volume.ijk_to_ras, ijk)


def true_box(phantom: Phantom, structure: str) -> np.ndarray:
    """(2, 3) RAS mm, the box of the centres of a structure's voxels."""
    voxels = voxels_ras(phantom, structure)
    return np.stack([voxels.min(axis=0), voxels.max(axis=0)])


def states(store: Store) -> dict[str, str]:
    """The state of each scan, by the name of its file or folder."""
    return {Path(row.scan).name: row.state for row in store.manifest.rows()}


def checksums(store: Store) -> dict[str, str]:
    return {scan_hash: sha256 for scan_hash, (sha256, _) in store.manifest.map_files().items()}
