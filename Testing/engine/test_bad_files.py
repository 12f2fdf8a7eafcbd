"""Test that the reader and the command refuse each kind of bad file in one line that names the file."""

import pytest
from bad_files import SAYS
from cli_runs import assert_refused

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.scan.volume import Volume


@pytest.mark.parametrize("kind", SAYS)
def test_a_bad_file_is_refused_in_one_line(bad_files, kind, capfd):
    with pytest.raises(VolumeError) as refusal:
        Volume.read(bad_files[kind])
    message = str(refusal.value)
    assert str(bad_files[kind]) in message
    assert SAYS[kind] in message
    assert "\n" not in message
    assert message.endswith(".")
    printed = capfd.readouterr()
    # SimpleITK's libraries must not add lines of their own
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.parametrize("role", ["template", "target"])
def test_a_bad_scan_ends_a_command_and_nothing_is_written(
    anatemb, place, bad_files, tmp_path, role
):
    bad = bad_files["mr.nrrd"]
    scans = {"template": place.template, "target": place.target} | {role: bad}
    words = (scans["template"], place.points, scans["target"], "-o", tmp_path / "out")
    assert_refused(anatemb("match", *words, *place.model), bad)
    assert not (tmp_path / "out").exists()
