"""The scene as a bundle (.mrb) for 3D Slicer, written in two parts so that the page answers meanwhile.

`begin` writes the scene's description and its small files at once: points, boxes, tables. The function that it returns
writes the voxels and packs the bundle, which takes nearly all of the time, and may run in another thread: it reads no
node. It reads the voxels in place: the viewer never changes the voxels of a scan, and numpy keeps those of a removed
scan.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import slicer.util

from AnatomicalEmbeddingLib.shared.SceneNodes import nodesOf
from AnatomicalEmbeddingLib.shared.VolumeNodes import hasVoxels, ijkToRas

from .session import file_name

_REFUSED = "could not be written; check the space on the disk."
_NAME = "scene"  # of the folder in the bundle, and of the description in it


def begin(scene, folder: Path) -> Callable[[Callable[[str], None]], BinaryIO]:
    """Write the first part below `folder`.

    Returns:
        The function that writes the second part. It gets a function that receives each step as text. It returns the
        bundle, a temporary file that is removed when it is closed.

    Raises:
        AnatomicalEmbeddingError: the disk refuses a file. The returned function raises it too.
    """
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
    from AnatomicalEmbedding.scan.volume import Volume

    work = Path(tempfile.mkdtemp(prefix="bundle-", dir=folder))
    top, volumes = work / _NAME, []
    (top / "Data").mkdir(parents=True)
    try:
        with _stored_below(scene, top) as stored:
            for node, path in stored:
                if node.IsA("vtkMRMLScalarVolumeNode") and hasVoxels(node):
                    voxels = slicer.util.arrayFromVolume(node)
                    volumes.append((Volume(voxels, ijkToRas(node), name=node.GetName()), path))
                elif not node.GetStorageNode().WriteData(node):
                    raise AnatomicalEmbeddingError(f"{node.GetName()}: {_REFUSED}")
            if not scene.Commit(scene.GetURL()):
                raise AnatomicalEmbeddingError(f"The scene {_REFUSED}")
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise

    def finish(report: Callable[[str], None]) -> BinaryIO:
        try:
            for number, (volume, path) in enumerate(volumes, 1):
                report(f"writing scan {number} of {len(volumes)} for Slicer")
                volume.write(path)
            report("packing the scene for Slicer")
            return _pack(top, folder)
        except (OSError, VolumeError) as error:
            raise AnatomicalEmbeddingError(f"The scene {_REFUSED}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)

    return finish


@contextmanager
def _stored_below(scene, top: Path) -> Iterator[list]:
    """Give (node, its file below `top`) of nodes with data; inside, the scene's own path is below `top`."""
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

    stored, before = [], (scene.GetURL(), scene.GetRootDirectory())
    scene.SetURL(str(top / f"{_NAME}.mrml"))
    scene.SetRootDirectory(str(top))
    try:
        for number, node in enumerate(nodesOf(scene, "vtkMRMLStorableNode")):
            if node.GetSaveWithScene() and node.GetDefaultStorageNodeClassName():
                node.AddDefaultStorageNode()
                storage = node.GetStorageNode()
                if storage is None:
                    raise AnatomicalEmbeddingError(f"{node.GetName()}: cannot be stored; remove it, then try again.")
                path = top / "Data" / f"{number}-{file_name(node.GetName())}.{storage.GetDefaultWriteFileExtension()}"
                storage.SetFileName(str(path))
                stored.append((node, path))
        yield stored
    finally:
        for node, _path in stored:
            node.GetStorageNode().SetFileName(None)
        scene.SetURL(before[0] or "")
        scene.SetRootDirectory(before[1] or "")


def _pack(top: Path, folder: Path) -> BinaryIO:
    """Pack the folder `top` without compression, as its volumes are compressed already."""
    packed = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115, the caller closes it
    try:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(top.rglob("*")):
                archive.write(path, path.relative_to(top.parent))
    except BaseException:
        packed.close()
        raise
    packed.seek(0)
    return packed
