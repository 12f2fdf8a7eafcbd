"""Prepare the CTs of folders for training, without duplicates. If wanted, a model aligns them with the body frame."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.coverage import apply_affine, body_points, robust_affine
from ..embedding.inference import Model, load_model
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError, VolumeError
from ..files import TEMPORARY, require_folder, write_table
from ..scan.sources import Source, find_scans
from ..structures.labelled_scans import load_case
from .frames import SETTLED_SCALE_SD, SETTLED_SHIFT_SD_MM, FrameGuess, LevelTable, frame_from_map
from .sampler import start_worker
from .scans import PreparedScan, Report, Spacing, as_field, prepare_volume, with_labels

REPORT = "report.csv"
# of the smoothing of targets; 12 mm were hardly different (LOG, Body coordinates and training)
_SIGMA_MM = 30.0
_LEAST_SCALE = 0.3  # along S, of a scan that can be aligned; by hand
# weight of a zero displacement in each weighted mean; a reliable cell has weight 1
_PRIOR_CELLS = 4.0
_THUMBNAIL = 6  # side, in voxels, of the blocks whose means are compared to find equal scans
_SAME_HU = 0.5  # block means that differ by less than this are equal up to rounding
_Scan = tuple[str, Source]  # name of the scan, and where it is stored


def align_scan(scan: PreparedScan, embedding: EmbeddingMap) -> PreparedScan:
    """Return the scan with a body field: a grid of body coordinates, fitted to the coordinates in the scan's map.

    The field is a robust affine fit plus a smooth displacement. Raises AnatomicalEmbeddingError if the coordinates of
    the map are not mm of the common body frame. Raises VolumeError if 1 mm of the scan along the body is less than 0.3
    or more than 3.3 mm of body height, as in maps of badly trained weights.
    """
    ras, body = body_points(embedding)
    affine, weight = robust_affine(ras, body)
    nodes = scan.field_nodes_ras()
    residual = body - apply_affine(affine, ras)
    field = apply_affine(affine, nodes.reshape(-1, 3)).reshape(nodes.shape)
    field = field + _smooth(embedding, residual, weight, nodes)
    # a line along each axis, for programs that need no field
    scale, shift = np.transpose(
        [np.polyfit(ras[:, a], body[:, a], 1, w=np.sqrt(weight)) for a in range(3)]
    )
    if not _LEAST_SCALE <= scale[2] <= 1 / _LEAST_SCALE:
        raise VolumeError(
            f"{scan.name}: the body heights in its map cannot be true; use weights that were trained longer."
        )
    frame = FrameGuess(scale, shift, SETTLED_SCALE_SD, SETTLED_SHIFT_SD_MM)
    return replace(scan, frame=frame, body_field=as_field(field))


def _smooth(
    embedding: EmbeddingMap, residual: np.ndarray, weight: np.ndarray, nodes: np.ndarray
) -> np.ndarray:
    """Return the errors `residual` (n, 3), mm, of n body cells, smoothed and read at `nodes` (k, j, i, 3), RAS mm."""
    grid = np.zeros((*embedding.body.shape, 4))
    i, j, k = embedding.body_index.numpy().T
    grid[k, j, i] = np.column_stack([residual, np.ones(len(residual))]) * weight[:, None]
    # along: weights (nodes, cells) of a Gaussian, for each axis. Residuals and weights are summed together.
    along = []
    for axis, line in enumerate((nodes[0, 0, :, 0], nodes[0, :, 0, 1], nodes[:, 0, 0, 2])):
        index = np.arange(embedding.body.shape[2 - axis])
        cell_ras = embedding.cell_to_ras[axis, 3] + embedding.cell_mm[axis] * index
        along.append(np.exp(-((line[:, None] - cell_ras) ** 2) / (2 * _SIGMA_MM**2)))
    summed = np.einsum("xi,yj,zk,kjic->zyxc", *along, grid, optimize=True)
    return summed[..., :3] / (summed[..., 3:] + _PRIOR_CELLS)


@dataclass(frozen=True)
class Outcome:
    """The result of preparing one scan.

    prepared: file of the prepared scan; None if the scan is left out. reason: why the scan is left out.
    thumbnail: mean HU of blocks of voxels, to find equal scans.
    """

    name: str
    source: Source
    prepared: Path | None
    thumbnail: torch.Tensor | None = None
    reason: str = ""


def prepare_set(
    folders: Sequence[Path],
    spacing_mm: Spacing,
    destination: Path,
    *,
    levels: LevelTable | None = None,
    model: str | None = None,
    align: str | None = None,
    jobs: int = 1,
    report: Report = lambda line: None,
) -> list[Path]:
    """Prepare every CT of the folders; scans prepared before are reused.

    A scan that cannot be used, or that equals another scan, is left out. `report` and the file report.csv in the folder
    `destination` state the reason.

    Args:
        levels: level readings: RAS z of known levels in each scan. They place the scan in the common body frame.
        model: name or file of weights. A scan without level readings is placed with the map that these weights make.
            If None, scans without level readings are left out.
        align: name or file of weights. Every scan, once placed by `levels` or `model`, gets body coordinates fitted to
            the map that these weights make (see `align_scan`). Its earlier body coordinates are replaced. A scan with
            level readings keeps its earlier body coordinates if the map cannot be true.
        jobs: number of scans that are prepared at the same time, in processes of their own.

    Returns the prepared files, sorted by name. Raises AnatomicalEmbeddingError if no scan can be used.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        require_folder(folder, "CTs")
    scans = sorted(find_scans(folders, report).items())
    work = partial(
        _prepare,
        spacing_mm=spacing_mm,
        destination=destination,
        levels=levels,
        model=model,
        align=align,
    )
    outcomes: list[Outcome] = []
    try:
        for outcome in _in_processes(work, scans, jobs):
            twin = next((o.source.label for o in outcomes if _same_scan(o, outcome)), None)
            if twin is not None:
                outcome.prepared.unlink()
                reason = f"{outcome.source.label}: is the same scan as {twin}."
                outcome = replace(outcome, prepared=None, reason=reason)
            outcomes.append(outcome)
            is_used = outcome.prepared is not None
            report(f"prepared {outcome.name}" if is_used else f"skipped: {outcome.reason}")
    finally:
        # left by a killed process
        for half_written in destination.glob(TEMPORARY.format(name="*.safetensors")):
            half_written.unlink(missing_ok=True)
    _write_report(outcomes, destination / REPORT)
    prepared = [outcome.prepared for outcome in outcomes if outcome.prepared is not None]
    if not prepared:
        where = ", ".join(map(str, folders))
        raise AnatomicalEmbeddingError(
            f"{where}: no scan can be used for training; correct the problems listed above."
        )
    return prepared


def _write_report(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write a table of all scans, and why some were left out."""
    rows = []
    for outcome in outcomes:
        used = "no" if outcome.prepared is None else "yes"
        source = outcome.source
        rows.append((outcome.name, source.path, source.series, used, outcome.reason))
    write_table(path, ("name", "path", "series", "used", "reason"), rows)


def _same_scan(first: Outcome, second: Outcome) -> bool:
    """Return whether the thumbnails of two scans are equal up to rounding, as for one scan stored in two formats."""
    if first.prepared is None or second.prepared is None:
        return False
    if first.thumbnail.shape != second.thumbnail.shape:
        return False
    return bool((first.thumbnail - second.thumbnail).abs().max() < _SAME_HU)


def _in_processes(
    work: Callable[[_Scan], Outcome], scans: list[_Scan], jobs: int
) -> Iterator[Outcome]:
    """Yield the outcome of each scan, in the order of the scans. `jobs` processes work at the same time."""
    if jobs <= 1 or len(scans) <= 1:
        yield from map(work, scans)
        return
    # a forked process may hang because of torch's threads; a spawned process does not
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(scans)), context, _start_process) as pool:
        try:
            yield from pool.map(work, scans)
        except BrokenProcessPool:
            raise AnatomicalEmbeddingError(
                "preparing scans: the system ended a process, probably because memory ran out; run the same command"
                " with a smaller --jobs. Scans that are prepared already are kept."
            ) from None
        except BaseException:  # after an interruption, do not wait for the scans in progress
            for process in multiprocessing.active_children():
                process.kill()
            raise


def _start_process() -> None:
    start_worker(0)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the end of the parent process, then end this process: a killed parent leaves no worker behind."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _prepare(
    named: _Scan,
    spacing_mm: Spacing,
    destination: Path,
    levels: LevelTable | None,
    model: str | None,
    align: str | None,
) -> Outcome:
    """Prepare one scan, or find it prepared. Errors do not leave the function: they are the reason in the outcome.

    Args:
        named: name and source of the scan.
        spacing_mm, destination, levels, model, align: as for `prepare_set`.
    """
    name, source = named
    target = destination / f"{name}.safetensors"
    try:
        if target.exists() and target.stat().st_mtime_ns >= source.changed_ns:
            scan = PreparedScan.load(target)
        else:
            readings = {} if levels is None else levels.of(name)
            scan = _prepared_scan(named, readings, spacing_mm, model, align)
            scan.save(target)
    except AnatomicalEmbeddingError as error:
        return Outcome(name, source, None, reason=str(error))
    # one unreadable scan must not end a long run
    except (MemoryError, RuntimeError, OSError) as error:
        reason = f"{source.label}: cannot be prepared ({type(error).__name__}: {error})."
        return Outcome(name, source, None, reason=reason)
    thumbnail = F.avg_pool3d(scan.hu[None].float(), _THUMBNAIL, ceil_mode=True)[0]
    return Outcome(name, source, target, thumbnail)


def _prepared_scan(
    named: _Scan,
    readings: dict[float, float],
    spacing_mm: Spacing,
    model: str | None,
    align: str | None,
) -> PreparedScan:
    """Read a scan and prepare it, with its labels if it has some.

    Args:
        named: name and source of the scan.
        readings: body height mm -> RAS z mm; empty without level readings.
        spacing_mm, model, align: as for `prepare_set`.
    """
    name, source = named
    if not readings and model is None:
        raise VolumeError(
            f"{source.label}: has no level reading; add a reading to the level table, or use --place-with."
        )
    volume = source.read()
    # `model` and `align` are often the same weights
    map_of = cache(lambda weights: _model(weights).embed(volume))
    frame = readings or frame_from_map(map_of(model))
    scan = replace(prepare_volume(volume, frame, spacing_mm), name=name)
    case = load_case(Path(source.path)) if source.alone else None
    if case is not None and case.labels is not None:
        scan = with_labels(scan, case.label_map)
    if align is None:
        return scan
    try:
        return align_scan(scan, map_of(align))
    except VolumeError:
        if readings:
            return scan
        raise


@cache
def _model(name: str) -> Model:
    return load_model(name, "cpu")
