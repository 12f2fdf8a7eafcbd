"""The data that the stages of a build use: label images, phantoms, prepared scans, and the scans with known truth."""

from functools import lru_cache, partial
from pathlib import Path

from ..structures.label_names import structure_name
from ..training.label_frames import place
from ..training.label_images import SUFFIX as LABELS
from ..training.label_images import LabelledBody, prepare_label_images, tissue_of, write_label_image
from ..training.organ_targets import follow_organs
from ..training.scans import PreparedScan, prepare_phantoms
from .building import WeightsBuild, read_values
from .data_index import DataEntry, link_files, link_label_maps, spread

# of the label images for calibration and library; training images have seeds from 0
_DRAWING_SEED = 77


@lru_cache(maxsize=1)
def training_images(build: WeightsBuild) -> list[Path]:
    """Make label images and phantoms, if they are missing. Returns their files."""
    spacing = build.recipe.network.spacing_mm
    numbers = build.plan.numbers
    images = build.work / "images"

    report = partial(build.report_progress, 0.0)
    phantoms = prepare_phantoms(numbers["phantoms"], spacing, images, report)
    if not build.label_maps:
        return phantoms
    maps = link_label_maps(build.label_maps, build.work / "label_maps")
    return prepare_label_images(maps, numbers["label_images"], spacing, images, report) + phantoms


def training_set(build: WeightsBuild, name: str) -> list[PreparedScan]:
    """Return the prepared scans of a round, the label images and the phantoms."""
    paths = [*sorted(build.scans_of(name).glob("*.safetensors")), *training_images(build)]
    return follow_organs(list(map(PreparedScan.load, paths)))


def chosen_scans(build: WeightsBuild) -> Path:
    """Return a folder with links to the scans for calibration and library: half of them labelled, if possible."""
    count = build.plan.numbers["calibration_scans"]
    labelled = [entry for entry in build.scans if entry.is_labelled]
    chosen = spread(labelled, (count + 1) // 2)
    remaining = [entry for entry in build.scans if entry not in chosen]
    chosen += spread(remaining, count - len(chosen))
    return link_files(chosen, build.work / "chosen_scans")


def chosen_maps(build: WeightsBuild) -> Path:
    """Return a folder with links to the label maps that name most structures which can be drawn."""

    def drawable(entry: DataEntry) -> int:
        """Return how many structures of a label map can be drawn."""
        names = read_values(entry.label_names).values()
        return sum(tissue_of(structure_name(name)) is not None for name in names)

    ranked = sorted(build.label_maps, key=drawable, reverse=True)
    chosen = ranked[: build.plan.numbers["drawn_scans"]]
    return link_label_maps(chosen, build.work / "chosen_label_maps")


def drawn_scans(build: WeightsBuild) -> Path:
    """Return a folder with labelled scans that were drawn from the chosen label maps."""
    folder = build.work / "drawn_scans"
    folder.mkdir(exist_ok=True)
    bodies = [LabelledBody.read(path) for path in sorted(chosen_maps(build).glob("*" + LABELS))]
    placement = place({body.name: body.points for body in bodies}) if bodies else None
    for body in bodies:
        if body.name in placement.maps and not (folder / f"{body.name}.nii.gz").exists():
            build.report_progress(0.0, f"drawing a scan from {body.name}")
            write_label_image(body, placement, _DRAWING_SEED, folder)
    return folder
