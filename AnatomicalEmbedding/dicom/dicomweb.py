"""Exchange DICOM objects with a DICOMweb server (QIDO-RS, WADO-RS, STOW-RS; DICOM PS3.18).

User name and password come from the file ~/.netrc, or from a URL such as https://NAME:PASSWORD@server/dicom-web.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import AnatomicalEmbeddingError, require
from ..files import atomic_path
from .reading import read_whole

if TYPE_CHECKING:
    from pydicom import Dataset

# otherwise each retry would print a traceback
logging.getLogger("retrying").addHandler(logging.NullHandler())
_INPUT = re.compile(
    r"dicomweb:(https?://.+?)/studies/([^/]+)(?:/series/([^/]+)(?:/instances/([^/]+))?)?/?"
)
_UID = re.compile(r"[0-9.]{1,64}")
_STATUS = {
    401: "refused the user name or the password; write both into the file ~/.netrc",
    404: "has nothing at this address; check the address and the UIDs",
    507: "is full; ask its administrator for space",
}


class Series(NamedTuple):
    """One series of a server."""

    study_uid: str
    uid: str


class Server:
    """A DICOMweb server.

    Args:
        url: address of its DICOMweb interface, such as https://server/dicom-web.

    Raises:
        AnatomicalEmbeddingError: dicomweb-client is not installed.
    """

    def __init__(self, url: str) -> None:
        api = require("dicomweb_client.api", "dicomweb-client", "DICOMweb needs", "dicom")
        self.url = _without_password(url)  # for messages
        self._client = api.DICOMwebClient(url.rstrip("/"), timeout=60)
        self._client.set_http_retry_params(max_attempts=3, wait_exponential_multiplier=200)

    def check(self) -> None:
        """Raise AnatomicalEmbeddingError if the server does not answer, or refuses the password."""
        with self._asking():
            self._client.search_for_studies(limit=1)

    def series_of_patient(self, patient_id: str) -> list[Series]:
        """List the CT series of a patient, the newest study first. Raises AnatomicalEmbeddingError: see `check`."""
        with self._asking():
            studies = self._client.search_for_studies(search_filters={"PatientID": patient_id})
        dated_uids = [(_value(study, "00080020"), _value(study, "0020000D")) for study in studies]
        return [
            series
            for _, uid in sorted(dated_uids, reverse=True)
            for series in self.series_of_study(uid, "CT")
        ]

    def series_of_study(self, study_uid: str, modality: str) -> list[Series]:
        """List the series of a study with a modality, such as "CT". Raises AnatomicalEmbeddingError: see `check`."""
        with self._asking():
            answers = self._client.search_for_series(
                study_uid, search_filters={"Modality": modality}
            )
        return [
            Series(study_uid, _value(series, "0020000E"))
            for series in answers
            if _value(series, "00080060") == modality
        ]

    def download(self, series: Series, folder: Path, instance: str = "") -> Path:
        """Download a series, or one instance of it, to FOLDER/STUDY/SERIES. Files that are there already are kept.

        Args:
            series: the series.
            folder: folder for all downloads.
            instance: UID of the instance; "" for the whole series.

        Returns the folder of the series, or the file if the series has one instance or `instance` is given. Raises
        AnatomicalEmbeddingError if the server fails; files that are complete are kept.
        """
        target = folder / _checked(series.study_uid) / _checked(series.uid)
        uids = [uid for uid in self._instances(series) if instance in ("", uid)]
        if not uids:
            raise AnatomicalEmbeddingError(
                f"{self.url}: has no images of the series {series.uid}; check the UIDs."
            )
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # only the user may read it
        target.mkdir(parents=True, exist_ok=True)
        paths = [target / f"{_checked(uid)}.dcm" for uid in uids]
        for count, (uid, path) in enumerate(zip(uids, paths, strict=True)):
            if path.exists():
                continue
            remedy = (
                f"{count} of {len(uids)} files are kept; to continue, give the same command again"
            )
            kinds = (("application/dicom", "*"),)  # in any transfer syntax
            with self._asking(remedy):
                document = self._client.retrieve_instance(
                    series.study_uid, series.uid, uid, media_types=kinds
                )
            with atomic_path(path) as temporary:
                document.save_as(temporary, enforce_file_format=True)
        return paths[0] if len(paths) == 1 else target

    def _instances(self, series: Series) -> list[str]:
        """Return the UIDs of the images of a series, of which a server may list only a part at a time."""
        uids: list[str] = []
        while True:
            with self._asking():
                answers = self._client.search_for_instances(
                    series.study_uid, series.uid, offset=len(uids) or None
                )
            listed = [_value(image, "00080018") for image in answers]
            new = [uid for uid in listed if uid not in uids]
            if not new:
                return uids
            uids += new

    def store(self, paths: Sequence[Path]) -> None:
        """Send files to the server.

        Raises AnatomicalEmbeddingError if the server does not store a file. The message names the files that are left.
        """
        for count, path in enumerate(paths):
            remaining = " ".join(map(str, paths[count:]))
            remedy = f"the files are kept; send them with: anatemb store {self.url} {remaining}"
            document = read_whole(path, "give a DICOM file")
            with self._asking(remedy):
                answer: Dataset = self._client.store_instances([document])
            stored = {
                item.ReferencedSOPInstanceUID for item in answer.get("ReferencedSOPSequence") or ()
            }
            # a full server may list the file neither as stored nor as failed
            if document.SOPInstanceUID not in stored:
                failed = answer.get("FailedSOPSequence") or [{}]
                reason = failed[0].get("FailureReason", 0)
                raise AnatomicalEmbeddingError(
                    f"{self.url}: did not store {path.name} (reason {reason:04X}), perhaps because it is full; {remedy}"
                )

    @contextmanager
    def _asking(self, remedy: str = "") -> Iterator[None]:
        """Convert the errors of a request to AnatomicalEmbeddingError. remedy: added to the message."""
        requests = require("requests", "requests", "DICOMweb needs", "dicom")
        try:
            yield
            return
        except requests.HTTPError as error:
            status = error.response.status_code
            problem = _STATUS.get(status, f"answers with the error {status}; try again later")
        except (requests.ConnectionError, requests.Timeout):
            problem = "does not answer; check the address, and that the server runs"
        except (requests.RequestException, AttributeError, KeyError, TypeError, ValueError):
            problem = "does not answer as a DICOMweb server; check the address"
        advice = f"; {remedy}" if remedy else ""
        raise AnatomicalEmbeddingError(f"{self.url}: {problem}{advice}.")


def download_input(word: str, folder: Path, report: Callable[[str], None]) -> str:
    """Download the scan that an argument such as dicomweb:URL/studies/UID names. Returns the path of the files.

    Of a study without /series/UID, the CT series are downloaded. Another argument is returned unchanged.

    Args:
        word: the argument.
        folder: files are written to FOLDER/STUDY/SERIES; files of an earlier download are used again.
        report: called with a sentence before a series is downloaded.

    Raises:
        AnatomicalEmbeddingError: the argument is incomplete, the study has no CT series, or the server fails.
    """
    if not word.startswith("dicomweb:"):
        return word
    parts = _INPUT.fullmatch(word)
    if parts is None:
        raise AnatomicalEmbeddingError(
            f"{_without_password(word)}: is not complete; write dicomweb:https://SERVER/studies/UID, then"
            " /series/UID if you need one series."
        )
    url, study, uid, instance = parts.groups(default="")
    server = Server(url)
    chosen = [Series(study, uid)] if uid else server.series_of_study(study, "CT")
    if not chosen:
        raise AnatomicalEmbeddingError(
            f"{server.url}: has no CT series in the study {study}; check the UID."
        )
    for series in chosen:
        report(f"reading series {series.uid} from {server.url}")
        path = server.download(series, folder, instance)
    return str(path if uid else folder / study)


def _without_password(url: str) -> str:
    return re.sub(r"//[^/]*@", "//", url)


def _value(answer: dict[str, Any], tag: str) -> str:
    """Return the first value of an attribute in an answer of the server (DICOM JSON); "" if it is missing."""
    return str(next(iter(answer.get(tag, {}).get("Value", ())), ""))


def _checked(uid: str) -> str:
    """Return a UID that can be the name of a file. Raises AnatomicalEmbeddingError for any other text."""
    if not _UID.fullmatch(uid) or set(uid) == {"."}:
        raise AnatomicalEmbeddingError(f"{uid!r} is not a UID; check the address.")
    return uid
