"""Test prepared scans: they are made from files and phantoms, saved, and read again unchanged."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training_scans import frame, linear_scan, same, with_field

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.structures.label_names import structure_name
from AnatomicalEmbedding.training.scans import (
    PreparedScan,
    prepare_phantom,
    prepare_volume,
)

GRID_MM = (4.0, 4.0, 4.0)


# One scan


@pytest.mark.parametrize("field", [False, True])
def test_saved_scan_comes_back_as_it_was(field, tmp_path):
    guess = frame((1, 0.97, 1.013), (1 / 3, -2.5, 700.1), (0.08, 0.08, 0.03), (8.0, 30.0, 10.0))
    scan = linear_scan("a scan (1)", guess=guess, made="label map" if field else "scan")
    if field:
        scan = with_field(scan, lambda ras: ras * 1.1 + 7)
        scan = replace(scan, labels=(scan.hu % 3).to(torch.uint8), label_names=("liver", "spleen"))
    path = tmp_path / "scan.safetensors"
    scan.save(path)
    same(PreparedScan.load(path), scan)
    assert [p.name for p in tmp_path.iterdir()] == ["scan.safetensors"]


@pytest.mark.parametrize("content", [None, b"", b"\x10\0\0\0\0\0\0\0 damaged"])
def test_damaged_prepared_scan_is_named(content, tmp_path):
    path = tmp_path / "scan.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(
        AnatomicalEmbeddingError, match=r"scan\.safetensors: .*delete this file and run again"
    ):
        PreparedScan.load(path)


def test_prepared_volume_is_the_scan_on_the_grid_without_the_couch(phantom_pair):
    phantom = phantom_pair[0]
    scan = prepare_volume(phantom.volume, {300.0: -500.0}, GRID_MM)
    assert scan.name == phantom.volume.name
    assert scan.hu.dtype == torch.int16
    assert scan.body.shape == scan.hu.shape
    assert scan.origin == "scan"
    assert (scan.hu[~scan.body] == -1000).all()
    np.testing.assert_array_equal(scan.grid_to_ras[:3, :3], np.diag(GRID_MM))
    k, j, i = (axis.numpy() for axis in torch.nonzero(scan.body[2:-2], as_tuple=True))
    ras = np.stack([i, j, k + 2], axis=1) * GRID_MM + scan.grid_to_ras[:3, 3]
    error = scan.hu[2:-2][scan.body[2:-2]].numpy() - phantom.volume.sample(ras)
    assert np.median(np.abs(error)) < 1  # both interpolate linearly
    body = phantom.labels > 0
    assert scan.body.sum() == pytest.approx(body.sum(), rel=0.05)
    assert scan.frame.apply(np.array([[0.0, 0.0, -500.0]]))[0, 2] == pytest.approx(300)


def test_prepared_phantom_carries_its_exact_coordinates(phantom_pair):
    phantom = phantom_pair[1]
    scan = prepare_phantom(phantom, "exact", GRID_MM)
    nodes = scan.field_nodes_ras().reshape(-1, 3)
    exact = phantom.to_body(nodes)
    np.testing.assert_allclose(scan.body_field.flatten(1).T.numpy(), exact, atol=1e-3)
    assert scan.origin == "phantom"
    kji = np.argwhere(scan.body.numpy())[::53]
    there = transform_points(scan.grid_to_ras, kji[:, ::-1])
    ijk = np.rint(transform_points(phantom.volume.ras_to_ijk, there)).astype(int)
    i, j, k = np.clip(ijk, 0, np.array(phantom.labels.shape[::-1]) - 1).T
    theirs = [structure_name(phantom.label_names[n]) for n in phantom.labels[k, j, i].tolist()]
    ours = [("background", *scan.label_names)[n] for n in scan.labels[tuple(kji.T)].tolist()]
    assert len(set(ours)) > 3
    assert np.mean(np.array(ours) == theirs) > 0.97
    np.testing.assert_array_equal(scan.frame.shift_sd_mm, 0)
    # its frame is the field's mean: enough to tell which stretch of the body it shows
    np.testing.assert_allclose(scan.frame.apply(nodes).mean(axis=0), exact.mean(axis=0))
