"""The self-test of the modules: it checks that the engine works in this Slicer."""

import time
from unittest import SkipTest

import numpy as np
import slicer
import slicer.util

from ..maps.Engine import Choice, Engine
from ..maps.MapStore import MapStore
from ..maps.SceneRelations import SceneRelations

_READING_MS = 4000  # long enough to read the sentence


class SelfTest:
    """Base class of each module's self-test, which the button Reload and Test runs. A self-test needs no data."""

    def setUp(self) -> None:
        """Empty the scene. Skip the test if packages are missing, as on the servers that build Slicer's extensions."""
        slicer.mrmlScene.Clear()
        missing = Engine.missingPackages()
        if missing:
            self.skipTest(
                f"{', '.join(missing)}: not installed; press Install in the set-up of a module."
            )

    def runTest(self) -> None:
        """Run the test. A skipped test shows its reason for a few seconds instead of Slicer's error dialog."""
        try:
            self.setUp()
            self.test_PointOfOneSyntheticPatientInAnother()
        except SkipTest as why:
            self.messageDelay = _READING_MS  # the user's own setting is shorter, and below 400 ms Slicer shows nothing
            self.delayDisplay(str(why))
        finally:
            self.doCleanups()

    def test_PointOfOneSyntheticPatientInAnother(self) -> None:
        """Embed two synthetic patients, and find the carina of the first in the second within 10 mm."""
        from AnatomicalEmbedding.phantom import make_phantom

        store = MapStore(slicer.mrmlScene, Engine(Choice(device="cpu", cacheFolder=None)))
        self.addCleanup(store.close)
        scans = [
            make_phantom(seed, spacing=(4.0, 4.0, 4.0), coverage_mm=(150.0, 480.0))
            for seed in (71, 72)
        ]
        nodes = [
            slicer.util.addVolumeFromArray(scan.volume.voxels, scan.volume.ijk_to_ras)
            for scan in scans
        ]
        store.request(nodes)
        while store.busy:
            store.poll()
            time.sleep(0.05)
        relations = SceneRelations(slicer.mrmlScene, store)
        (matches,) = relations.match(nodes[0], scans[0].points_ras["carina"][None], nodes[1:])
        self.assertLess(np.linalg.norm(matches.points_ras[0] - scans[1].points_ras["carina"]), 10.0)
