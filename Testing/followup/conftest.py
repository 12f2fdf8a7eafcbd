"""Fixtures: a patient with three studies and no lesions, and a patient whose follow-up is in structured reports."""

from pathlib import Path

import pytest
from record_steps import STUDIES
from reported_patient import CURRENT, PRIOR, patient_record

from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.scan.volume import Volume


@pytest.fixture
def empty() -> FollowUp:
    return FollowUp().with_studies(STUDIES)


@pytest.fixture(scope="session")
def volumes(phantom_pair) -> dict[str, Volume]:
    """Scans of the patient who is reported, by study key."""
    return {"prior": phantom_pair[0].volume, "current": phantom_pair[1].volume}


@pytest.fixture(scope="session")
def series(volumes, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of DICOM slices by study key."""
    from dicom_series import write_ct_series

    folder = tmp_path_factory.mktemp("dicom")
    for study in (PRIOR, CURRENT):
        day = study.date.strftime("%Y%m%d")
        write_ct_series(
            folder / study.key, volumes[study.key], StudyDate=day, StudyDescription=study.name
        )
    return {study.key: folder / study.key for study in (PRIOR, CURRENT)}


@pytest.fixture(scope="session")
def record(volumes) -> FollowUp:
    """What is reported of the patient."""
    return patient_record(volumes["prior"], volumes["current"])
