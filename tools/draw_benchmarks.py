"""Draw the plots of docs/benchmarks.md from Testing/benchmarks/figures.csv, whose numbers are those of RESULTS.md.

python tools/draw_benchmarks.py docs/pictures
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

FIGURES = Path(__file__).resolve().parents[1] / "Testing" / "benchmarks" / "figures.csv"
OURS, OTHERS = "#1f77b4", "#9e9e9e"
Series = dict[str, dict[str, float]]  # series -> name -> value


def read_figures() -> dict[str, Series]:
    """All numbers, by figure."""
    figures: dict[str, Series] = defaultdict(lambda: defaultdict(dict))
    with FIGURES.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            figures[row["figure"]][row["series"]][row["name"]] = float(row["value"])
    return figures


def draw_bars(series: Series, title: str, unit: str, path: Path) -> None:
    """One panel of horizontal bars for each series, ours coloured."""
    figure, every = plt.subplots(
        1, len(series), figsize=(2.4 * len(series) + 1.6, 2.6), sharey=True, squeeze=False
    )
    for axes, (name, values) in zip(every[0], series.items(), strict=True):
        labels = list(values)
        bars = axes.barh(labels, list(values.values()), color=[_colour(label) for label in labels])
        axes.bar_label(bars, padding=2, fontsize=8)
        axes.margins(x=0.18)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel(unit, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    every[0][0].invert_yaxis()  # shared by all panels
    _save(figure, title, path)


def draw_lines(
    series: Series, title: str, across: str, unit: str, path: Path, numbers: bool
) -> None:
    """One line for each series.

    Args:
        series: series -> name of a point -> value.
        title: title of the plot.
        across: title of the horizontal axis.
        unit: title of the vertical axis.
        path: the file.
        numbers: True if the names of points are numbers, and their places on the horizontal axis.
    """
    figure, axes = plt.subplots(figsize=(7, 3.4))
    for name, values in series.items():
        places = [float(label) for label in values] if numbers else list(values)
        axes.plot(places, list(values.values()), "o-", label=name)
    axes.set_xlabel(across)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    _save(figure, title, path)


def draw_registration(series: Series, path: Path) -> None:
    """Error and time of each method."""
    figure, axes = plt.subplots(figsize=(6.5, 3.6))
    for name, seconds in series["s a pair"].items():
        error = series["mean mm"][name]
        axes.plot(seconds, error, "o", color=_colour(name))
        below = name in ("ours, affine", "elastix affine + ConvexAdam")
        axes.annotate(
            name,
            (seconds, error),
            (0, -13 if below else 7),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_xscale("log")
    axes.set_xlim(0.25, 120)
    axes.set_ylim(0, 7.5)
    axes.set_xlabel("seconds a pair")
    axes.set_ylabel("mean error, mm")
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, "Registration of one patient's lung scans", path)


def _colour(name: str) -> str:
    return OURS if name.startswith("ours") else OTHERS


def _save(figure: plt.Figure, title: str, path: Path) -> None:
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    mpl.rcParams["svg.hashsalt"] = "AnatomicalEmbedding"  # the same numbers, the same file
    mpl.rcParams["svg.fonttype"] = "none"  # letters as text: a tenth of the size
    figures = read_figures()
    draw_bars(figures["landmarks"], "Landmarks: median error", "mm", folder / "landmarks.svg")
    draw_lines(
        figures["effort"],
        "What each effort gains",
        "effort",
        "mean error, mm",
        folder / "effort.svg",
        False,
    )
    title = "The surest answers first"
    across = "answers that are kept, the surest first, %"
    draw_lines(figures["coverage"], title, across, "error, mm", folder / "coverage.svg", True)
    draw_bars(figures["boxes"], "Boxes: mean overlap", "IoU", folder / "boxes.svg")
    draw_registration(figures["registration"], folder / "registration.svg")


if __name__ == "__main__":
    main()
