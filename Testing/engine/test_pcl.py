"""Test the command of papers/pcl on small random scans. The tests of its loss are in test_losses."""

import numpy as np

from AnatomicalEmbedding.papers.pcl.__main__ import main, read_scan


def write_scans(folder, names, rng):
    for name in names:
        image = rng.integers(0, 255, (4, 60, 90), np.uint8)
        label = rng.integers(0, 4, (4, 60, 90), np.uint8)
        np.savez(folder / f"{name}_frame01.npz", image=image, label=label)


def test_every_start_is_trained_and_its_dice_is_printed(tmp_path, capsys):
    rng = np.random.default_rng(0)
    names = {"train": [f"patient{n}" for n in range(3)], "test": ["patient9"]}
    for part, of in names.items():
        write_scans(tmp_path, of, rng)
        (tmp_path / f"{part}.list").write_text("\n".join(of))
    scan = read_scan(tmp_path / "patient9_frame01.npz")
    assert scan.shape == (4, 5, 80, 80)
    assert 0 <= float(scan.min()) <= float(scan.max()) <= 1
    main([str(tmp_path), "--steps", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        f"{m:2} patients, {start:6} start" for m in (2, 6, 10) for start in ("random", "PCL")
    ]
