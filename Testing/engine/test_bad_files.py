"""Each kind of bad file is refused in one readable line that names it."""

from __future__ import annotations

import pytest
from bad_files import SAYS

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.scan.volume import Volume


def test_every_kind_is_expected(bad_files):
    assert bad_files.keys() == SAYS.keys()


@pytest.mark.parametrize("kind", SAYS)
def test_bad_file_is_refused_in_one_line(bad_files, kind, capfd):
    path = bad_files[kind]
    with pytest.raises(VolumeError) as refusal:
        Volume.read(path)
    message = str(refusal.value)
    assert str(path) in message
    assert SAYS[kind] in message
    assert "\n" not in message
    assert message.endswith(".")
    printed = capfd.readouterr()
    # SimpleITK's libraries must not add lines of their own.
    assert (printed.out, printed.err) == ("", "")
