"""Audits the scans of a data set one after another or on Dask workers; a stopped audit continues in its folder."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..anatomy.names import whole_name
from ..anatomy.terms import load_terms
from ..cohort.engine import open_client
from ..cohort.work import Plan
from ..embedding.cache import MapCache, default_folder
from ..embedding.inference import Model, load_model
from ..embedding.models.registry import find_weights
from ..errors import AnatomicalEmbeddingError, VolumeError, require
from ..files import parse_json, write_text
from ..structures.labelled_scans import patient_of
from .checks import check_grids, check_labels, check_map, check_overlaps, check_tissue
from .dataset import TEST, TRAINING, LabelledScan, read_labels, read_scan
from .findings import Canvas, Finding, card
from .measuring import measure_labels
from .relations import Relations, load_usual

Record = dict[str, Any]
_FEWEST_SCANS = 5  # a structure is missed only if at least this many other scans should show it
_USUALLY = 0.8  # least share of these scans that have the label
_MOST_MISSING, _MOST_SHARE = 2, 0.2  # a scan that lacks more labels, and a larger share, has labels of another kind
_SCORE_MISSING = 0.55, 0.9  # if just enough scans have the label; if all have it


def audit(
    entries: Sequence[LabelledScan], folder: Path, plan: Plan, labels_only: bool,
    progress: Callable[[float, str], None],
) -> list[Record]:  # fmt: skip
    """Audit all entries, each alone and then together. Returns their records in the same order; see `audit_scan`.

    Records are written to `folder`/scans. An entry whose record is there, and whose files did not change, is not
    audited again.

    Args:
        plan: weights, device, workers and scheduler.
        labels_only: whether scans are not read.
        progress: called after each scan with the share of finished scans and the name of the scan.

    Raises:
        WeightsError: the weights are unknown.
    """
    settings = [__version__, "" if labels_only else find_weights(plan.model).sha256]
    states: dict[str, list[object]] = {entry.name: [*settings, *entry.state] for entry in entries}
    paths = {entry.name: folder / "scans" / f"{entry.name}.json" for entry in entries}
    records = {name: _read_record(path, states[name]) for name, path in paths.items()}
    due = [entry for entry in entries if not records[entry.name]]
    for n, record in enumerate(_audited(due, plan, labels_only), start=len(entries) - len(due) + 1):
        name = record["name"]
        records[name] = {"state": states[name]} | record
        write_text(paths[name], json.dumps(records[name]))
        progress(n / len(entries), name)
    _check_across([record for record in records.values() if not record["error"]])
    return list(records.values())


def _read_record(path: Path, state: list[object]) -> Record:
    """Read a record; {} if it is missing, damaged or of another state."""
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
        return record if record["state"] == state else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _audited(due: Sequence[LabelledScan], plan: Plan, labels_only: bool) -> Iterator[Record]:
    model = "" if labels_only else plan.model
    if not due or (not plan.scheduler and plan.workers == 1):
        yield from (audit_scan(entry, model, plan.device) for entry in due)
        return
    require("distributed", "Dask distributed", "large audits run with", "cohort")
    from distributed import as_completed

    with open_client(plan, len(due)) as client:
        futures = {client.submit(audit_scan, each, model, plan.device, pure=False, retries=2): each for each in due}
        for future in as_completed(futures):
            fault, name = future.exception(), futures[future].name
            failed = {"state": "to be repeated", "name": name, "findings": [], "error": f"the worker failed ({fault})"}
            yield failed if fault is not None else future.result()


def audit_scan(entry: LabelledScan, model: str = "", device: str = "auto") -> Record:
    """Audit one entry. model: name of the weights for the scan's map, or "" if the scan is not read.

    Returns:
        A record that can be written as JSON. name, part: of the entry. findings: see `card`. error: why the entry could
        not be audited, or "". Without an error also: patient; held: names of labelled structures; expected: names of
        structures that the scan should show -> place in the overview; hashes: of the voxels of labels and scan;
        overview: pictures of the scan.
    """
    record: Record = {"name": entry.name, "part": entry.part, "findings": [], "error": ""}
    try:
        labels = read_labels(entry)
    except AnatomicalEmbeddingError as error:
        return record | {"error": str(error)}
    measured = measure_labels(labels.voxels, labels.ijk_to_ras, labels.texts)
    hashes, found = [_hash(labels.voxels)] if measured else [], check_overlaps(labels, measured)
    patient, volume, embedding, expected, relations = patient_of(entry.name), None, None, {}, None
    if entry.scan is not None and model:
        try:
            volume = read_scan(entry.scan)
            hashes.append(_hash(volume.voxels))
            patient = volume.patient_id or patient
            found += check_grids(volume, labels) or check_tissue(volume, labels, measured)
            embedding = _model(model, device).embed(volume)
            found += check_map(embedding)
        except VolumeError as error:
            found.append(Finding("geometry", 0.97, f"the scan cannot be used: {error}"))
    canvas, terms = Canvas(labels, volume), load_terms()
    if any(each.name in load_usual().index for each in measured):
        relations = Relations(measured, load_usual(), embedding)
        found += check_labels(relations)
        places = relations.expected_places(labels.ijk_to_ras, labels.voxels.shape)
        expected = {name: canvas.mark(place) for name, place in places}
    for each in {(f.label, f.problem, str(f.point_ras)): f for f in sorted(found, key=lambda f: f.score)}.values():
        place = relations.expected_ras(each.labels[0].name) if relations and each.labels else None
        record["findings"].append(card(each.label, each.problem, each.score, each.detail, canvas.draw(each, place)))
    names = {name for each in measured for name in (each.name, whole_name(each.text))}
    held = names.union(*(terms.ancestors(name) for name in names if name in terms.by_name))
    overview = canvas.draw(Finding("geometry", 0.0, ""))
    return record | {
        "patient": patient, "held": sorted(held), "expected": expected, "hashes": hashes, "overview": overview
    }  # fmt: skip


def _hash(voxels: np.ndarray) -> str:
    return hashlib.sha256(str(voxels.shape).encode() + np.ascontiguousarray(voxels).tobytes()).hexdigest()[:32]


@lru_cache(maxsize=1)
def _model(name: str, device: str) -> Model:
    return load_model(name, device, MapCache(default_folder()))


def _check_across(records: Sequence[Record]) -> None:
    """Add findings that need all scans: missing labels, the same scan twice, a patient in two lists."""
    shows: dict[str, list[bool]] = defaultdict(list)  # name -> for each scan that should show it, whether it is there
    for record in records:
        for name in record["expected"]:
            shows[name].append(name in record["held"])
    shares = {name: float(np.mean(of)) for name, of in shows.items() if sum(of) >= _FEWEST_SCANS}
    usual = {name for name, share in shares.items() if share >= _USUALLY}
    trained = {record["patient"]: record["name"] for record in records if record["part"] == TRAINING}
    first: dict[str, str] = {}
    for record in records:
        found, overview = record["findings"], record["overview"]
        if twins := [first[each] for each in record["hashes"] if each in first]:
            found.append(card("", "duplicate", 0.99, f"has the same voxels as {twins[0]}", overview))
        elif record["part"] == TEST and record["patient"] in trained:
            text = f"the patient {record['patient']} is in the training list too, as {trained[record['patient']]}"
            found.append(card("", "duplicate", 0.95, text, overview))
        first = dict.fromkeys(record["hashes"], record["name"]) | first
        expected = usual & record["expected"].keys()
        missing = sorted(expected - set(record["held"]))
        # a scan that lacks more labels has labels of another kind
        for name in missing if len(missing) <= max(_MOST_MISSING, _MOST_SHARE * len(expected)) else ():
            score = float(np.interp(shares[name], [_USUALLY, 1], _SCORE_MISSING))
            shown = f"has no label, but {shares[name]:.0%} of the scans that show its place have it"
            pictures = [each | {"expected": record["expected"][name]} for each in overview]
            found.append(card(name, "missing", score, f"{load_terms()[name].title} {shown}", pictures))
