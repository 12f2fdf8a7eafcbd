"""Take a record of an earlier session over into a follow-up without lesions."""

from collections.abc import Mapping
from dataclasses import replace

from ..errors import AnatomicalEmbeddingError
from .lesions import Lesion
from .record import FollowUp
from .study_inputs import in_order, same_studies


def adopt_record(record: FollowUp, earlier: FollowUp) -> FollowUp:
    """Return the lesions and studies of both records.

    A study that both records contain has its key in `record`, and a date in `record` is kept.

    Raises:
        AnatomicalEmbeddingError: `record` already has lesions.
    """
    if record.lesions:
        raise AnatomicalEmbeddingError(
            "this follow-up already has lesions; import the record before you mark lesions, or remove the lesions."
        )
    keys = same_studies(record.studies, earlier.studies)
    dates = {keys[study.key]: study.date for study in earlier.studies if study.key in keys}
    studies = [replace(study, date=study.date or dates.get(study.key)) for study in record.studies]
    absent = (study for study in earlier.studies if study.key not in keys)
    lesions = tuple(_with_keys(lesion, keys) for lesion in earlier.lesions)
    return FollowUp(lesions=lesions).with_studies(in_order(studies, absent)[0])


def _with_keys(lesion: Lesion, keys: Mapping[str, str]) -> Lesion:
    """Replace the study keys in a lesion. keys: old -> new; other keys are kept."""
    findings = {}
    for key, finding in lesion.findings.items():
        guess = finding.guess
        if guess is not None:
            guess = replace(guess, source=keys.get(guess.source, guess.source))
        findings[keys.get(key, key)] = replace(finding, guess=guess)
    return replace(lesion, findings=findings)
