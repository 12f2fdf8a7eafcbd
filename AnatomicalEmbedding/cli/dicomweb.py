"""anatemb priors: find a place in the CTs of a patient on a DICOMweb server. anatemb store: send files to a server."""

import argparse

from ..errors import AnatomicalEmbeddingError
from . import arguments, console
from .scans import Scans

COLUMNS = (
    "date",
    "place",
    "status",
    "probability",
    "r",
    "a",
    "s",
    "slice",
    "image_uid",
    "series_uid",
    "study_uid",
)
_URL_HELP = "address of the DICOMweb server, such as https://server/dicom-web"


def add_to(commands: argparse._SubParsersAction) -> None:
    priors = commands.add_parser(
        "priors",
        help="find which CTs of a patient on a DICOMweb server show a place",
        description='Downloads the CT series of a patient, and finds the place that WORDS name ("left adrenal") in '
        "each series. Prints, for each series, whether it shows the place, and the slice on which the place lies. The "
        "newest study comes first.",
    )
    priors.add_argument("url", metavar="URL", help=_URL_HELP)
    priors.add_argument("patient", metavar="PATIENT", help="DICOM Patient ID")
    priors.add_argument("words", metavar="WORDS", help="name of the place")
    arguments.complete(priors, run_priors)
    store = commands.add_parser("store", help="send DICOM files to a DICOMweb server")
    store.add_argument("url", metavar="URL", help=_URL_HELP)
    arguments.add_path(store, "files", "FILE", "DICOM files, such as results of --dicom", nargs="+")
    arguments.complete(store, run_store, model=False, json=False)


def run_priors(options: argparse.Namespace) -> None:
    """Download the CT series of a patient, and print where each shows the place."""
    from ..dicom.dicomweb import Server
    from ..dicom.source import source_of
    from ..words import PlaceFinder, not_understood, parse_query, shipped_atlas

    mentions = [mention for part in parse_query(options.words) for mention in part.mentions]
    if not mentions:
        raise AnatomicalEmbeddingError(not_understood(options.words))
    server = Server(options.url)
    listed = server.series_of_patient(options.patient)
    if not listed:
        raise AnatomicalEmbeddingError(
            f"{server.url}: has no CT of this patient; check the Patient ID."
        )
    model = console.open_model(options)
    atlas = shipped_atlas(model.weights_hash, model.path)
    folder = console.download_folder()
    rows = []
    for series in listed:
        server.download(series, folder)
    scans = Scans(options, list(dict.fromkeys(str(folder / series.study_uid) for series in listed)))
    for _, name, volume, embedding in scans.embedded(model):
        with scans.skipping():
            source = source_of(scans.sources[name])
            finder = PlaceFinder(embedding, volume, atlas)
            header = source.slices[0]
            uids = header.SeriesInstanceUID, header.StudyInstanceUID
            places = [place for mention in mentions for place in finder.find(mention)]
            for place in places:
                point = console.coordinates(place.point_ras)
                slice_facts = ["", ""]
                if place.point_ras is not None:
                    image = source.nearest(place.point_ras)
                    slice_facts = [image.get("InstanceNumber", ""), image.SOPInstanceUID]
                facts = [header.StudyDate, place.name, place.status, round(place.probability, 3)]
                rows.append([*facts, *point, *slice_facts, *uids])
    table = [[*row[:8], row[9]] for row in rows]
    scans.finish(
        {"priors": console.as_records(COLUMNS, rows)}, ((*COLUMNS[:8], COLUMNS[9]), table), []
    )


def run_store(options: argparse.Namespace) -> None:
    from ..dicom.dicomweb import Server

    Server(options.url).store(options.files)
    console.say(f"stored {len(options.files)} files")
