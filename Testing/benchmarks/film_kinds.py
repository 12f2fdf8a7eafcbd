"""Count the films of right and wrong kinds that `check_film` refuses, and those that get no answer.

    python Testing/benchmarks/film_kinds.py DATA [--model FILE] [--only jsrt|projections]

Right kinds: JSRT's chest films and, of the 50 tests of `films.py` and every third other film, cut parts. Wrong kinds:
the same films turned, upside down, mirrored and inverted; noise; and projections: chests from the side, abdomens,
pelves, heads, and parts of the ICRP reference bodies. Projections of whole chests from the front are listed, too.
A film that is not refused gets no answer if all landmarks of the first template of JSRT are absent in it.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import SimpleITK as sitk
from films import Jsrt

from AnatomicalEmbedding.embedding.coverage import body_points
from AnatomicalEmbedding.embedding.inference import Model, load_model
from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.films.projection import Beam, Tissue, film_of, straight_beam
from AnatomicalEmbedding.matching.status import ABSENT
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.registration.films import FilmPair
from AnatomicalEmbedding.scan.film import film_matrix
from AnatomicalEmbedding.scan.geometry import rotations
from AnatomicalEmbedding.scan.volume import Film, Volume

CHESTS = (
    "dev/segthor_05", "dev/segthor_10", "dev/segthor_35", "dev/mirp_LUNG1-001", "train/rjs_chest", "train/lung1_141",
    "train/segthor_04", "train/ricord000082",
)  # fmt: skip
LOWER = (
    "dev/ts_example", "dev/ircad_p01", "dev/pelvicref002", "train/crlm1004", "train/hcc002", "train/aapm_L067",
    "train/tcga_BC-A10X", "train/waw1211_ap",
)  # fmt: skip
HEADS = tuple(f"dev/kbp_pt_{n}" for n in (4, 34, 60, 82))
PIXEL_MM = 2.0
# body heights
PARTS_MM = {"abdomen": (110.0, 375.0), "pelvis": (-120.0, 140.0), "head": (620.0, 900.0)}
LEAST_MM = 120.0  # a part of a CT must have at least this height
PHANTOMS = range(91_000, 91_004)
# parts of the ICRP bodies: a word of the labels around which the part lies, words of the labels that are kept; margin
ICRP_PARTS = {
    "hand": ("wrists and hand", (" arms", "wrists and hand", "ulnae")),
    "lower leg": ("patellae", ("",)), "foot": ("ankles and foot", ("",)), "skull": ("cranium", ("",)),
}  # fmt: skip
ICRP_MARGIN_MM = 30.0
ICRP_HU = {
    "cortical,teeth": 900,
    "spongiosa": 200,
    "lung": -750,
    "air ,trachea,bronchi": -1000,
    "adipose,residual": -80,
}
Kinds = Iterator[tuple[str, Film]]


def jsrt_kinds(data: Jsrt) -> Kinds:
    rng = np.random.default_rng(0)
    for number in range(len(data.images)):
        film = data.film(number)
        image = film.voxels[0]
        of = "JSRT, tests" if number in data.tests else "JSRT, others"

        def as_film(pixels: np.ndarray, like: Film = film) -> Film:
            matrix = film_matrix(pixels.shape, (like.spacing[0], like.spacing[1]))
            return replace(like, voxels=np.ascontiguousarray(pixels)[None], ijk_to_ras=matrix)

        rows, columns = image.shape
        yield f"{of}: whole", film
        if number not in data.tests and number % 3:
            continue
        yield f"{of}: upper two thirds", as_film(image[: 2 * rows // 3])
        yield f"{of}: lower two thirds", as_film(image[rows // 3 :])
        yield f"{of}: left half", as_film(image[:, columns // 2 :])
        yield f"{of}: right half", as_film(image[:, : columns // 2])
        yield (
            f"{of}: middle, 3/4 of each side",
            as_film(image[rows // 8 : -rows // 8, columns // 8 : -columns // 8]),
        )
        yield f"{of}: inverted", as_film(image.max() - image)
        yield f"{of}: upside down (180 degrees)", as_film(image[::-1, ::-1])
        yield f"{of}: turned by 90 degrees", as_film(np.rot90(image))
        yield f"{of}: turned by 270 degrees", as_film(np.rot90(image, 3))
        yield f"{of}: mirrored", as_film(image[:, ::-1])
        yield f"{of}: mirrored, upside down", as_film(image[::-1])
        if number % 2 == 0:
            yield "noise", as_film(rng.normal(size=image.shape).astype(np.float32))


def projected_kinds(data: Path) -> Kinds:
    placing = load_model("ct-open")
    for name in CHESTS:
        tissue = Tissue.of(Volume.read(data / f"{name}.nii.gz"))
        yield from chest_kinds("CT", tissue)
    for seed in PHANTOMS:
        yield from chest_kinds(
            "phantom", Tissue.of(make_phantom(seed, (3, 3, 3), (330, 600)).volume)
        )
        for part, heights in PARTS_MM.items():
            tissue = Tissue.of(make_phantom(seed, (3, 3, 3), heights).volume)
            yield from two_films(f"phantom: {part}, front", tissue, straight_beam(tissue), seed)
    for name in (*LOWER, *HEADS):
        volume = Volume.read(data / f"{name}.nii.gz")
        for part in part_names(name):
            tissue = cut_part(volume, placing, PARTS_MM[part])
            if tissue is not None:
                yield from two_films(f"CT: {part}, front", tissue, straight_beam(tissue), len(name))
    for sex in ("AF", "AM"):
        yield from icrp_kinds(data / "labelmaps" / f"icrp110_{sex}")


def part_names(name: str) -> tuple[str, ...]:
    return ("head",) if name in HEADS else ("abdomen", "pelvis")


def chest_kinds(of: str, tissue: Tissue) -> Kinds:
    yield from two_films(f"{of}: chest, front", tissue, straight_beam(tissue), 0)
    yield from two_films(f"{of}: chest, side", tissue, side_beam(tissue, 90), 1)


def two_films(kind: str, tissue: Tissue, beam: Beam, seed: int) -> Kinds:
    """Yield a plain film, and one of another exposure, processing and collimation."""
    yield kind, film_of(tissue, beam, kind, None, PIXEL_MM)
    yield kind, film_of(tissue, beam, kind, np.random.default_rng(seed), PIXEL_MM)


def side_beam(tissue: Tissue, degrees: float) -> Beam:
    low, high = tissue.box_ras
    film_a = (high[0] - low[0]) / 2 + 25.0
    turn = rotations(np.radians([0.0, 0.0, degrees]))[2]
    return Beam((low + high) / 2, turn, np.array([0.0, film_a - 1800.0, 0.0]), film_a, np.zeros(2))


def cut_part(volume: Volume, placing: Model, heights_mm: tuple[float, float]) -> Tissue | None:
    """Return the part of a CT between two body heights; None if it is too short."""
    points, body = body_points(placing.embed(volume))
    layers = np.unique(points[:, 2].round(3))
    height = np.array([np.median(body[points[:, 2].round(3) == z, 2]) for z in layers])
    held = layers[(heights_mm[0] <= height) & (height <= heights_mm[1])]
    if not len(held) or np.ptp(held) < LEAST_MM:
        return None
    tissue = Tissue.of(volume)
    z = tissue.grid_to_ras[2, 3] + tissue.grid_to_ras[2, 2] * np.arange(tissue.values.shape[2])
    rows = np.flatnonzero((held.min() <= z) & (z <= held.max()))
    matrix = tissue.grid_to_ras.copy()
    matrix[2, 3] = z[rows[0]]
    return Tissue(tissue.values[:, :, rows[0] : rows[-1] + 1], matrix)


def icrp_kinds(path: Path) -> Kinds:
    """Yield films of parts of a reference body; each tissue of its label map gets a usual HU."""
    labels = {
        int(n): name.lower()
        for n, name in json.loads(Path(f"{path}.labels.json").read_text()).items()
    }
    image = sitk.ReadImage(f"{path}.seg.nii.gz")
    hu = np.full(256, -1000, dtype=np.int16)
    for n, name in labels.items():
        hu[n] = next(
            (
                value
                for words, value in ICRP_HU.items()
                if any(word in name for word in words.split(","))
            ),
            40,
        )
    values = sitk.GetArrayFromImage(image)
    for part, (word, kept) in ICRP_PARTS.items():
        index = np.argwhere(np.isin(values, [n for n, name in labels.items() if word in name]))
        if part != "skull":  # one side
            index = index[index[:, 2] < values.shape[2] / 2]
        margin = ICRP_MARGIN_MM / np.array(image.GetSpacing())[::-1]
        low = np.maximum(index.min(0) - margin, 0).astype(int)
        high = np.minimum(index.max(0) + margin + 1, values.shape).astype(int)
        cut = image[
            tuple(slice(int(a), int(b)) for a, b in zip(low[::-1], high[::-1], strict=True))
        ]
        shown = np.isin(
            np.arange(256), [n for n, name in labels.items() if any(each in name for each in kept)]
        )
        body = sitk.GetImageFromArray(np.where(shown, hu, -1000)[sitk.GetArrayFromImage(cut)])
        body.CopyInformation(cut)
        tissue = Tissue.of(Volume.from_sitk(body, part))
        yield from two_films(f"ICRP: {part}, front", tissue, straight_beam(tissue), 1)
        yield from two_films(f"ICRP: {part}, side", tissue, side_beam(tissue, 90), 2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="film-open")
    parser.add_argument("--only", nargs="*", choices=("jsrt", "projections"))
    options = parser.parse_args()
    model = load_model(options.model)
    data = Jsrt(options.data / "xray/jsrt170.npz")
    template = model.embed(data.film(data.templates[0]))
    points = np.nan_to_num(data.landmarks(data.templates[0]))
    refused = dict[str, list[bool]]()
    silent = dict[str, list[bool]]()
    sources = {
        "jsrt": lambda: jsrt_kinds(data),
        "projections": lambda: projected_kinds(options.data),
    }
    for source in options.only or sources:
        for kind, film in sources[source]():
            try:
                # projections would not be checked
                target = model.embed(replace(film, is_projection=False))
                found = FilmPair(template, target).points(points)
                refused.setdefault(kind, []).append(False)
                silent.setdefault(kind, []).append((found.status == ABSENT).all())
            except VolumeError:
                refused.setdefault(kind, []).append(True)
                silent.setdefault(kind, []).append(True)
    print("| kind | films | refused | refused, or no answer |\n|---|---|---|---|")
    for kind, of in sorted(refused.items()):
        print(f"| {kind} | {len(of)} | {np.mean(of):.0%} | {np.mean(silent[kind]):.0%} |")


if __name__ == "__main__":
    main()
