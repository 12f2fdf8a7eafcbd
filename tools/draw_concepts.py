"""Draw the pictures of docs/concepts.md from two synthetic patients and the shipped weights.

    python tools/draw_concepts.py docs/pictures

Both patients are phantoms, so the truth is known exactly and no scan of a person is shown.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from AnatomicalEmbedding import EmbeddingMap, load_model
from AnatomicalEmbedding.phantom import Phantom, make_phantom, map_points

mpl.use("Agg")
from matplotlib import pyplot as plt

TEMPLATE, TARGET = 20_003, 20_008
TEMPLATE_MM, TARGET_MM = (
    (60.0, 600.0),
    (190.0, 790.0),
)  # heights shown: the two scans hold different parts of the body
CUT_MM = (255.0, 790.0)  # cuts the kidneys: some points are missing from it
POINT = "kidney_left_centre"
WINDOW_HU = (-200, 300)
STEP_MM = 2.0
COLOURS = {"matched": "#2ca02c", "uncertain": "#ff9f1c", "absent": "#d62728"}


def coronal(
    phantom: Phantom, a_mm: float
) -> tuple[np.ndarray, np.ndarray, tuple[float, float, float, float]]:
    """Return a coronal slice with the patient's right on the left, as radiologists expect.

    Returns:
        HU (s, r); the points (n, 3) of its pixels, RAS mm; its extent (left, right, lowest, highest) for `Axes.imshow`,
        in which -R mm are to the right and S mm are up.
    """
    (r0, _, s0), (r1, _, s1) = phantom.volume.bounds_ras
    r, s = np.arange(r1 - 1, r0, -STEP_MM), np.arange(s0 + 1, s1, STEP_MM)
    rr, ss = np.meshgrid(r, s)
    points = np.stack([rr.ravel(), np.full(rr.size, a_mm), ss.ravel()], axis=1)
    return phantom.volume.sample(points).reshape(rr.shape), points, (-r1, -r0, s0, s1)


def show(axes: Axes, hu: np.ndarray, extent: tuple[float, float, float, float], title: str) -> None:
    """Draw the HU of a slice. hu, extent: see `coronal`."""
    axes.imshow(
        hu,
        cmap="gray",
        vmin=WINDOW_HU[0],
        vmax=WINDOW_HU[1],
        origin="lower",
        extent=extent,
    )
    axes.set_title(title, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])


def values_at(embedding: EmbeddingMap, points: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Body coordinate (s, r, 3) of a slice, NaN outside the body."""
    found = np.full((len(points), 3), np.nan)
    body = embedding.in_body(points)
    found[body] = embedding.sample(points[body])
    return found.reshape(*shape, 3)


def draw_coordinate(
    folder: Path, phantoms: tuple[Phantom, Phantom], maps: tuple[EmbeddingMap, EmbeddingMap]
) -> None:
    """The height in the common body as bands over two patients that show different parts of it."""
    figure, every = plt.subplots(1, 2, figsize=(8.5, 5.5), constrained_layout=True)
    for axes, phantom, embedding, name in zip(
        every, phantoms, maps, ("scan A", "scan B"), strict=True
    ):
        middle = phantom.points_ras["kidney_left_centre"][1] + 25
        hu, points, extent = coronal(phantom, middle)
        height = values_at(embedding, points, hu.shape)
        show(axes, hu, extent, f"{name}: world height {extent[2]:.0f} to {extent[3]:.0f} mm")
        picture = axes.imshow(
            height[..., 2],
            cmap="turbo",
            vmin=50,
            vmax=800,
            alpha=0.45,
            origin="lower",
            extent=extent,
        )
        grid = (
            np.linspace(extent[0], extent[1], hu.shape[1]),
            np.linspace(extent[2], extent[3], hu.shape[0]),
        )
        lines = axes.contour(
            *grid, height[..., 2], levels=range(100, 800, 100), colors="white", linewidths=1
        )
        axes.clabel(lines, fmt="%d", fontsize=8)
        axes.contour(
            *grid, height[..., 0], levels=[0], colors="black", linewidths=1, linestyles="--"
        )
    figure.colorbar(
        picture, ax=every, label="body coordinate z: mm above the femoral heads", shrink=0.8
    )
    save(figure, folder / "body-coordinate.jpg")


def draw_descriptor(
    folder: Path, phantoms: tuple[Phantom, Phantom], maps: tuple[EmbeddingMap, EmbeddingMap]
) -> None:
    """Where the target's coordinate is near the point's, where its descriptors are like the point's, and the answer."""
    template, target = phantoms
    point = template.points_ras[POINT][None]
    answer = maps[0].match(point, maps[1])
    truth = map_points(template, target, point)
    near = maps[0].sample(point)
    own, _ = maps[0].describe(point)

    figure, every = plt.subplots(1, 3, figsize=(11, 4.6), constrained_layout=True)
    hu, _, extent = coronal(template, float(point[0, 1]))
    show(every[0], hu, extent, "template: the point")
    every[0].plot(-point[0, 0], point[0, 2], "+", color="#00e5ff", ms=14, mew=2)

    hu, points, extent = coronal(target, float(answer.points_ras[0, 1]))
    distance = np.linalg.norm(values_at(maps[1], points, hu.shape) - near, axis=2)
    show(every[1], hu, extent, "target: how near the coordinate is, mm")
    shown = every[1].imshow(
        distance, cmap="viridis_r", vmax=200, alpha=0.6, origin="lower", extent=extent
    )
    figure.colorbar(shown, ax=every[1], shrink=0.7)

    body = maps[1].in_body(points)
    alike = np.full(len(points), np.nan)
    alike[body] = (maps[1].describe(points[body])[0] @ own[0]).numpy()
    show(every[2], hu, extent, "target: how alike the descriptor is")
    similar = alike.reshape(hu.shape)
    shown = every[2].imshow(
        similar, cmap="magma", vmin=0, vmax=1, alpha=0.7, origin="lower", extent=extent
    )
    figure.colorbar(shown, ax=every[2], shrink=0.7)
    for axes in every[1:]:
        axes.plot(
            -answer.points_ras[0, 0],
            answer.points_ras[0, 2],
            "+",
            color="#00e5ff",
            ms=14,
            mew=2,
            label="answer",
        )
        axes.plot(-truth[0, 0], truth[0, 2], "x", color="white", ms=9, mew=1.5, label="truth")
    every[2].legend(loc="lower right", fontsize=8)
    save(figure, folder / "descriptor.jpg")


def draw_confidence(
    folder: Path, phantoms: tuple[Phantom, Phantom], maps: tuple[EmbeddingMap, EmbeddingMap]
) -> None:
    """Answers with their status and expected error, beside the truth."""
    template, target = phantoms
    names = [name for name in template.points_ras if "vertebra" not in name and "rib" not in name]
    points = np.array([template.points_ras[name] for name in names])
    answers = maps[0].match(points, maps[1])
    truth = map_points(template, target, points)

    figure, every = plt.subplots(1, 2, figsize=(9, 6), constrained_layout=True)
    middles = points[:, 1].mean(), answers.points_ras[:, 1].mean()
    for axes, phantom, middle, title in zip(
        every,
        phantoms,
        middles,
        ("template: points", "target: answers, circles: expected error"),
        strict=True,
    ):
        hu, _, extent = coronal(phantom, float(middle))
        show(axes, hu, extent, title)
        axes.autoscale(False)  # a circle may reach beyond the scan
    for n, status in enumerate(answers.status):
        colour = COLOURS[status]
        every[0].plot(-points[n, 0], points[n, 2], "o", ms=5, color=colour)
        r, _, s = answers.points_ras[n]
        if status == "absent":  # where it would lie is drawn in the template alone
            continue
        every[1].add_patch(
            Circle((-r, s), answers.expected_error_mm[n], fill=False, color=colour, lw=1.3)
        )
        every[1].plot([-r, -truth[n, 0]], [s, truth[n, 2]], "-", color="white", lw=1)
        every[1].plot(-r, s, "o", ms=4, color=colour)
    for status, colour in COLOURS.items():
        every[0].plot(
            [], [], "o", color=colour, label=f"{status} ({(answers.status == status).sum()})"
        )
    every[1].plot([], [], "-", color="white", label="from the answer to the truth")
    every[0].legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, fontsize=9, frameon=False)
    every[1].plot([], [], "o", color="#dddddd", mfc="none", label="expected error")
    every[1].legend(
        loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, fontsize=9, labelcolor="#333333"
    )
    every[1].get_legend().get_frame().set_facecolor("#bbbbbb")
    save(figure, folder / "confidence.jpg")


def save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, dpi=100, bbox_inches="tight", pil_kwargs={"quality": 88})
    plt.close(figure)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = load_model(device="cpu")
    spacing = (STEP_MM, STEP_MM, STEP_MM)
    phantoms = (
        make_phantom(TEMPLATE, spacing, TEMPLATE_MM),
        make_phantom(TARGET, spacing, TARGET_MM),
    )
    maps = tuple(model.embed(phantom.volume) for phantom in phantoms)
    draw_coordinate(folder, phantoms, maps)
    draw_descriptor(folder, phantoms, maps)
    cut = make_phantom(TARGET, spacing, CUT_MM)
    draw_confidence(folder, (phantoms[0], cut), (maps[0], model.embed(cut.volume)))


if __name__ == "__main__":
    main()
