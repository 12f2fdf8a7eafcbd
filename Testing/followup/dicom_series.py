"""Write the CT of a synthetic patient as a DICOM series, with the attributes that a scanner writes."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from pydicom import dcmread
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from AnatomicalEmbedding.scan.volume import Volume


def write_ct_series(folder: Path, volume: Volume, **tags: object) -> list[Path]:
    """One file a slice, named at random. tags: DICOM keywords for every slice; None leaves an attribute out."""
    folder.mkdir(parents=True, exist_ok=True)
    axes = volume.ijk_to_ras[:3, :3] * [[-1], [-1], [1]]
    row = axes[:, 0] / volume.spacing[0]
    column = axes[:, 1] / volume.spacing[1]
    everywhere = {
        "SOPClassUID": CTImageStorage,
        "Modality": "CT",
        "ImageType": ["ORIGINAL", "PRIMARY", "AXIAL"],
        "PatientName": "Test^Patient",
        "PatientID": "P1",
        "PatientBirthDate": "19600101",
        "PatientSex": "F",
        "StudyInstanceUID": generate_uid(),
        "StudyDate": "20240115",
        "StudyTime": "101500",
        "StudyID": "1",
        "AccessionNumber": "A1",
        "ReferringPhysicianName": "",
        "SeriesInstanceUID": generate_uid(),
        "SeriesNumber": 2,
        "FrameOfReferenceUID": generate_uid(),
        "ImageOrientationPatient": [f"{value:.8f}" for value in (*row, *column)],
        "PixelSpacing": [volume.spacing[1], volume.spacing[0]],
        "RescaleSlope": 1,
        "RescaleIntercept": -1024,
    } | tags
    paths = []
    for k, plane in enumerate(volume.voxels):
        first = (volume.ijk_to_ras @ (0, 0, k, 1))[:3] * (-1, -1, 1)
        paths.append(_write_slice(folder, k, plane, first, everywhere))
    return paths


def import_slices(node, paths: Iterable[Path]) -> dict[str, str]:
    """Note on a volume node, as the DICOM module does, which files it shows; returns UID -> path."""
    uids = {str(dcmread(path, stop_before_pixels=True).SOPInstanceUID): str(path) for path in paths}
    node.SetAttribute("DICOM.instanceUIDs", " ".join(uids))
    return uids


def _write_slice(
    folder: Path, k: int, plane: np.ndarray, first: np.ndarray, everywhere: dict
) -> Path:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = everywhere["SOPClassUID"]
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    dataset.InstanceNumber = k + 1
    for keyword, value in everywhere.items():
        if value is not None:
            setattr(dataset, keyword, value)
    dataset.ImagePositionPatient = [f"{value:.6f}" for value in first]
    dataset.Rows, dataset.Columns = plane.shape
    dataset.SamplesPerPixel = 1
    dataset.PhotometricInterpretation = "MONOCHROME2"
    dataset.BitsAllocated = 16
    dataset.BitsStored = 16
    dataset.HighBit = 15
    dataset.PixelRepresentation = 1
    dataset.PixelData = (plane.astype(np.int32) + 1024).astype("<i2").tobytes()
    path = folder / f"{generate_uid().rsplit('.', 1)[1]}.dcm"
    dataset.save_as(path, enforce_file_format=True)
    return path
