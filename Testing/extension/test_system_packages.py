"""What the system lacks for the tests is named once, in a line to type, and is no error."""

import os
import subprocess
import sys

from stage_install import ROOT


def test_programs_that_are_missing_are_named_in_a_line_to_type(tmp_path) -> None:
    environment = os.environ | {"PATH": str(tmp_path)}  # neither apt-get nor the programs
    command = [sys.executable, ROOT / "tools/system_packages.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    *_, line = done.stdout.splitlines()
    assert line.startswith("  sudo apt-get install ")
    assert line.endswith(" chromium dicom3tools")
