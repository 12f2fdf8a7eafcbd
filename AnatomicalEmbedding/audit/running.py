"""Audits the scans of a data set one after another or on Dask workers; a stopped audit continues in its folder."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..anatomy.names import whole_name
from ..anatomy.terms import load_terms
from ..cohort.engine import local_client
from ..cohort.work import Plan
from ..embedding.cache import MapCache, default_folder
from ..embedding.inference import Model, load_model
from ..embedding.models.registry import find_weights
from ..errors import AnatomicalEmbeddingError, ProgressCallback, VolumeError, require
from ..files import parse_json, write_text
from ..structures.labelled_scans import patient_of
from .checks import check_grids, check_labels, check_map, check_overlaps, check_tissue
from .dataset import TEST, TRAINING, LabelledScan, read_entry_labels, read_scan
from .findings import AuditFinding, FindingCanvas
from .measuring import MeasuredLabel, measure_labels
from .relations import Relations, relate
from .usual import load_usual

Record = dict[str, Any]
_FEWEST_SCANS = 5  # a structure is missed only if at least this many other scans should show it
_USUALLY = 0.8  # least share of these scans that have the label
# a scan that lacks more labels, and a larger share, has labels of another kind
_MOST_MISSING, _MOST_SHARE = 2, 0.2
_SCORE_MISSING = 0.55, 0.9  # if just enough scans have the label; if all have it


def audit(
    entries: Sequence[LabelledScan],
    folder: Path,
    plan: Plan,
    labels_only: bool,
    progress: ProgressCallback,
) -> list[Record]:
    """Audit all entries, each alone and then together. Returns their records, sorted by name; see `audit_scan`.

    Records are written to `folder`/scans. An entry whose record is there, and whose files did not change, is not
    audited again.

    Args:
        plan: weights, device and workers.
        labels_only: whether scans are not read.
        progress: called after each scan with the share of finished scans and the name of the scan.

    Raises:
        WeightsError: the weights are unknown.
    """
    model = "" if labels_only else plan.model
    settings = [__version__, find_weights(model).sha256 if model else ""]
    task = partial(
        _stored_record, folder=folder / "scans", settings=settings, model=model, device=plan.device
    )
    records = []
    for record in _run(task, entries, plan):
        records.append(record)
        progress(len(records) / len(entries), record["name"])
    records.sort(key=itemgetter("name"))
    _check_across([record for record in records if not record["error"]])
    return records


def _run(
    task: Callable[[LabelledScan], Record], entries: Sequence[LabelledScan], plan: Plan
) -> Iterator[Record]:
    """Yield the result of the task for each entry, in any order."""
    if plan.workers == 1:
        yield from map(task, entries)
        return
    require("distributed", "Dask distributed", "large audits run with", "cohort")
    from distributed import as_completed

    with local_client(plan, len(entries)) as client:
        names = {client.submit(task, entry, pure=False, retries=2): entry.name for entry in entries}
        for future in as_completed(names):
            fault = future.exception()
            if fault is None:
                yield future.result()
            else:
                error = f"the worker failed ({fault})"
                yield {"name": names[future], "findings": [], "error": error}


def _stored_record(
    entry: LabelledScan, folder: Path, settings: list[str], model: str, device: str
) -> Record:
    """Return the record of an entry in `folder`. If there is none, or if a file changed, audit the entry."""
    path = folder / f"{entry.name}.json"
    state = [*settings, *entry.state]
    with suppress(OSError, ValueError, KeyError, TypeError):  # the record is missing or damaged
        record = parse_json(path.read_text(encoding="utf-8"))
        if record["state"] == state:
            return record
    record = {"state": state} | audit_scan(entry, model, device)
    write_text(path, json.dumps(record))
    return record


def audit_scan(entry: LabelledScan, model: str, device: str) -> Record:
    """Audit one entry.

    Args:
        entry: the entry.
        model: name of the weights for the scan's map, or "" if the scan is not read.
        device: where the network runs.

    Returns a record that can be written as JSON. name, part: of the entry. findings: see `AuditFinding.card`. error:
    why the entry could not be audited, or "". Without an error also: patient; held: names of labelled structures;
    expected: names of structures that the scan should show -> place in the overview; hashes: of the voxels of labels
    and scan; overview: pictures of the scan.
    """
    record: Record = {"name": entry.name, "part": entry.part, "findings": [], "error": ""}
    try:
        labels = read_entry_labels(entry)
    except AnatomicalEmbeddingError as error:
        return record | {"error": str(error)}
    measured = measure_labels(labels)
    hashes = [_hash(labels.voxels)] if measured else []
    findings = check_overlaps(labels.overlaps(), measured)
    patient = patient_of(entry.name)
    volume = None
    embedding = None
    if entry.scan is not None and model:
        try:
            volume = read_scan(entry.scan)
            hashes.append(_hash(volume.voxels))
            patient = volume.patient_id or patient
            findings += check_grids(volume, labels) or check_tissue(volume, labels, measured)
            embedding = _model(model, device).embed(volume)
            findings += check_map(embedding)
        except VolumeError as error:
            findings.append(AuditFinding("geometry", 0.97, f"the scan cannot be used: {error}"))
    canvas = FindingCanvas(labels, volume)
    relations = None
    expected: dict[str, Any] = {}
    if any(label.name in load_usual().index for label in measured):
        relations = relate(measured, load_usual(), embedding)
        findings += check_labels(relations)
        places = relations.expected_places(labels.ijk_to_ras, labels.voxels.shape)
        expected = {name: canvas.mark(place) for name, place in places}
    return record | {
        "findings": _cards(findings, canvas, relations),
        "patient": patient,
        "held": _structures_in(measured),
        "expected": expected,
        "hashes": hashes,
        "overview": canvas.draw(AuditFinding("geometry", 0.0, "")),
    }


def _cards(
    findings: list[AuditFinding], canvas: FindingCanvas, relations: Relations | None
) -> list[dict[str, Any]]:
    """Return findings as JSON with pictures; of findings of one problem at one place, that of the highest score."""
    distinct = {
        (finding.label, finding.problem, str(finding.point_ras)): finding
        for finding in sorted(findings, key=lambda finding: finding.score)
    }
    cards = []
    for finding in distinct.values():
        place = None
        if relations and finding.labels:
            place = relations.expected_ras(finding.labels[0].name)
        cards.append(finding.card(canvas.draw(finding, place)))
    return cards


def _structures_in(measured: Sequence[MeasuredLabel]) -> list[str]:
    """Return the names of the labelled structures, of organs of which they are parts, and of what contains these."""
    terms = load_terms()
    names = {name for label in measured for name in (label.name, whole_name(label.text))}
    return sorted(names.union(*(terms.ancestors(name) for name in names if name in terms.by_name)))


def _hash(voxels: np.ndarray) -> str:
    """Return a hash of voxels and shape, by which equal scans are recognised."""
    content = str(voxels.shape).encode() + np.ascontiguousarray(voxels).tobytes()
    return hashlib.sha256(content).hexdigest()[:32]


@lru_cache(maxsize=1)
def _model(name: str, device: str) -> Model:
    """Load weights; those that were used last stay in memory."""
    return load_model(name, device, MapCache(default_folder()))


def _check_across(records: Sequence[Record]) -> None:
    """Add findings that need all scans: missing labels, the same scan twice, a patient in two lists."""
    shares = _shares_of_labels(records)
    # patient -> name of a training scan
    trained = {
        record["patient"]: record["name"] for record in records if record["part"] == TRAINING
    }
    first: dict[str, str] = {}  # hash -> name of the first scan with these voxels
    for record in records:
        twins = [first[voxels] for voxels in record["hashes"] if voxels in first]
        patient = record["patient"]
        duplicate = None
        if twins:
            duplicate = AuditFinding("duplicate", 0.99, f"has the same voxels as {twins[0]}")
        elif record["part"] == TEST and patient in trained:
            text = f"the patient {patient} is in the training list too, as {trained[patient]}"
            duplicate = AuditFinding("duplicate", 0.95, text)
        if duplicate is not None:
            record["findings"].append(duplicate.card(record["overview"]))
        first = dict.fromkeys(record["hashes"], record["name"]) | first  # the first name stays
        record["findings"] += _missing_labels(record, shares)


def _missing_labels(record: Record, shares: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the cards of the labels that a scan lacks. shares: of scans with the label, by name; see below."""
    places = record["expected"]
    expected = shares.keys() & places.keys()
    missing = sorted(expected - set(record["held"]))
    if len(missing) > max(_MOST_MISSING, _MOST_SHARE * len(expected)):
        return []  # the scan has labels of another kind
    cards = []
    for name in missing:
        score = float(np.interp(shares[name], [_USUALLY, 1], _SCORE_MISSING))
        text = f"{load_terms()[name].title} has no label; {shares[name]:.0%} of scans that show its place have it"
        pictures = [picture | {"expected": places[name]} for picture in record["overview"]]
        cards.append(AuditFinding("missing", score, text, name).card(pictures))
    return cards


def _shares_of_labels(records: Sequence[Record]) -> dict[str, float]:
    """Return name -> share of the scans that should show a structure that have its label; only if most have it."""
    # of each scan that should show the structure
    is_labelled: dict[str, list[bool]] = defaultdict(list)
    for record in records:
        for name in record["expected"]:
            is_labelled[name].append(name in record["held"])
    shares = {}
    for name, labelled in is_labelled.items():
        if sum(labelled) >= max(_FEWEST_SCANS, _USUALLY * len(labelled)):
            shares[name] = float(np.mean(labelled))
    return shares
