"""Response by RECIST 1.1 (Eisenhauer et al., Eur J Cancer 45:228, 2009). Only confirmed measurements are used.

Target lesions and new lesions decide the response. Non-target lesions can only prevent a complete response. The
radiologist must decide whether non-target lesions have unequivocally grown.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..anatomy.codes import code_of
from .lesions import Lesion
from .record import FollowUp
from .timeline import Measured, News, Timeline, diameter_mm, is_normal, sentences, timeline_of

BASELINE = "baseline"
COMPLETE = "CR"
PARTIAL = "PR"
STABLE = "SD"
PROGRESSIVE = "PD"
NOT_EVALUABLE = "not evaluable"

# least diameters at baseline: of a target lesion; of a target lymph node
_LEAST_MM = 10.0
_LEAST_NODE_MM = 15.0
_MOST_TARGETS, _MOST_OF_A_SITE = 5, 2  # largest number of targets in all, and in one organ
# progression: the sum has grown by this factor and by this many mm since the nadir
_GROWN = 1.2
_GROWN_MM = 5.0
_SHRUNK = 0.7  # the response is partial if the sum is at most this fraction of the sum at baseline
_ROUNDING_MM = 1e-6  # tolerance, because lengths are computed from the ends of axes
_NO_TARGET = "no target lesion is marked and measured; mark a target lesion, and draw its axis."


@dataclass(frozen=True)
class Response:
    """The response at one study.

    study: study key. category: BASELINE, COMPLETE, PARTIAL, STABLE, PROGRESSIVE or NOT_EVALUABLE. sum_mm: sum of the
    diameters of all targets, mm; None if a diameter is unknown. nadir_mm: the smallest earlier sum, mm. from_baseline,
    from_nadir: change of the sum since the baseline and since the nadir, percent. new: ids of new lesions. missing:
    sentences about entries that a person must still make. notes: remarks.
    """

    study: str
    category: str
    sum_mm: float | None = None
    nadir_mm: float | None = None
    from_baseline: float | None = None
    from_nadir: float | None = None
    new: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def responses(record: FollowUp) -> list[Response]:
    """Compute the response at each study, in order of time. All scans of one visit have the same response.

    The class `Timeline` explains which visit is the baseline. A lesion that split from a target is counted from the
    first visit in which it was seen. Lesions that have merged are counted once.
    """
    timeline = timeline_of(record)
    results = []
    for number in range(len(timeline.record.studies)):
        if timeline.baseline is None or number < timeline.baseline:
            results.append(_not_judged(timeline, number))
        elif number == timeline.baseline:
            results.append(_baseline(timeline))
        else:
            results.append(_judged(timeline, number, results[timeline.baseline :]))
    answers = []
    for study in record.studies:
        number = timeline.number_of(study.key)
        notes = results[number].notes
        scans = timeline.scans[number]
        if len(scans) > 1:
            names = " and ".join(scan.name for scan in scans)
            notes += (f"{names}: have the same date or DICOM study, so they count as one visit.",)
        answers.append(replace(results[number], study=study.key, notes=notes))
    return answers


def _not_judged(timeline: Timeline, number: int) -> Response:
    """Return the response at a visit before the baseline: progression if a lesion is new, otherwise not evaluable."""
    study = timeline.record.studies[number]
    news = News()
    missing: tuple[str, ...]
    # from the start, the first visit with a lesion, up to the baseline, in which all targets are measured
    if timeline.start is not None and number >= timeline.start:
        news = timeline.news(number)
        missing = (*_lacking(timeline, number), *sentences(news.unclear))
    elif study in timeline.clean:
        missing = (
            "no lesion was seen in this visit; only a later visit that shows a lesion can be the baseline.",
        )
    else:
        missing = (_NO_TARGET,)
    category = PROGRESSIVE if news.new else NOT_EVALUABLE
    return Response(study.key, category, new=news.new, missing=missing, notes=sentences(news.notes))


def _lacking(timeline: Timeline, number: int) -> tuple[str, ...]:
    """Return sentences on why visit `number` cannot be the baseline.

    Either the first visit with a lesion comes before it and has no target, or sizes are missing in one of the two
    visits, or no lesion is a target at all.
    """
    if not timeline.counting(timeline.start) and number > timeline.start:
        label = timeline.first.label
        return (
            f"no target lesion is marked in {label}, the first study with a lesion; mark a target in it.",
        )
    missing = timeline.sizes(number).missing or timeline.sizes(timeline.start).missing
    return sentences(missing) or (_NO_TARGET,)


def _baseline(timeline: Timeline) -> Response:
    """Return the row of the baseline, with remarks on the choice of targets and on earlier visits."""
    study = timeline.record.studies[timeline.baseline]
    sizes = timeline.sizes(timeline.baseline)
    notes = tuple(_choice_notes(sizes, timeline.counting(timeline.baseline)))
    if timeline.baseline > timeline.start:
        reason = f"this is the baseline, because not all targets were measured in {timeline.first.label}."
        notes = (reason, *sentences(timeline.sizes(timeline.start).missing), *notes)
    if timeline.clean:
        clean = " and ".join(clean_study.label for clean_study in timeline.clean)
        notes = (f"no lesion was seen in {clean}, so the baseline is later.", *notes)
    missing = sentences(timeline.news(timeline.baseline).unclear)
    return Response(study.key, BASELINE, sizes.total, missing=missing, notes=notes)


def _judged(timeline: Timeline, number: int, before: list[Response]) -> Response:
    """Return the response at visit `number`. before: the responses from the baseline to the visit before."""
    sizes = timeline.sizes(number)
    news = timeline.news(number)
    base_mm = before[0].sum_mm
    total = sizes.total
    nadir_mm = min(response.sum_mm for response in before if response.sum_mm is not None)
    least_mm = max(_GROWN * nadir_mm, nadir_mm + _GROWN_MM)  # of progression
    has_grown = sizes.at_least >= least_mm - _ROUNDING_MM
    was_complete = any(response.category == COMPLETE for response in before)
    returned = sizes.present if was_complete else ()
    missing = sentences((*sizes.missing, *news.unclear, *timeline.called_new(number)))
    notes = sentences(news.notes)
    if news.new or has_grown or returned:
        category = PROGRESSIVE
        if sizes.missing and has_grown:
            notes += ("the sum of the measured targets alone has grown enough for progression.",)
        if returned:
            notes += (f"{', '.join(returned)}: seen again after a complete response.",)
    elif missing:
        category = NOT_EVALUABLE
    elif sizes.is_cleared:
        remaining = sentences(_others_left(timeline, number))
        category = PARTIAL if remaining else COMPLETE
        notes += remaining
    else:
        category = PARTIAL if total <= _SHRUNK * base_mm + _ROUNDING_MM else STABLE
    return Response(
        timeline.record.studies[number].key,
        category,
        total,
        nadir_mm,
        _percent(total, base_mm),
        _percent(total, nadir_mm),
        news.new,
        missing,
        notes,
    )


def _percent(total: float | None, base: float) -> float | None:
    """Return the change from `base` to `total`, percent; None if it is unknown."""
    return None if total is None or base <= 0 else 100 * (total - base) / base


# -- remarks ----------------------------------------------------------------------------------------------------------


def _others_left(timeline: Timeline, number: int) -> Iterator[tuple[str, str]]:
    """Yield (id, remark) of each lesion seen up to this visit that may still exist and is not in the sum of sizes."""
    record = timeline.record
    key = record.studies[number].key
    keys = {visit.key for visit in record.studies[: number + 1]}  # up to this visit
    visible_lesions = [lesion for lesion in record.lesions if keys & lesion.visible.keys()]
    in_sum = {record.stands_for(lesion.id, key) for lesion in timeline.counting(number)}
    visible_ids = [record.stands_for(lesion.id, key) for lesion in visible_lesions]
    for lesion_id in dict.fromkeys(visible_ids):
        lesion = record.lesion(lesion_id)
        finding = lesion.findings.get(key)
        if lesion_id in in_sum or is_normal(lesion, diameter_mm(lesion, finding)):
            continue
        yield (
            lesion_id,
            "may still exist but is not in the sum, so the response is incomplete; review the lesion.",
        )


def _choice_notes(sizes: Measured, targets: list[Lesion]) -> Iterator[str]:
    """Yield a sentence for each rule of RECIST 1.1 that the choice of targets breaks. sizes: at baseline."""
    if len(targets) > _MOST_TARGETS:
        yield f"{len(targets)} targets are marked; RECIST 1.1 allows at most {_MOST_TARGETS}."
    for organ, count in Counter(map(_organ, targets)).items():
        if organ and count > _MOST_OF_A_SITE:
            yield f"{count} targets are marked in {organ}; RECIST 1.1 allows at most {_MOST_OF_A_SITE} in one organ."
    for lesion, size in sizes.lesions:
        least, axis = (_LEAST_NODE_MM, "short axis") if lesion.nodal else (_LEAST_MM, "long axis")
        if size < least - _ROUNDING_MM:
            yield f"{lesion.id}: its {axis} is {size:.1f} mm at baseline; RECIST 1.1 asks for {least:.0f} mm or more."


def _organ(lesion: Lesion) -> str:
    """Return the organ of a lesion without the side of the body; "lymph nodes" for each lymph node. For an unknown
    organ, this is the site in lower case."""
    code = code_of(lesion.site)
    organ = lesion.site.strip() if code is None else code[2]
    organ = organ.casefold()
    return "lymph nodes" if lesion.nodal or organ.endswith("lymph node") else organ
