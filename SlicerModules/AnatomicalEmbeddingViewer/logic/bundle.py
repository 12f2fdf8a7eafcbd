"""Write the scene as a bundle (.mrb) for 3D Slicer, in two parts, so that the page does not have to wait.

`begin` writes the scene's description and the small files: points, boxes, tables. It returns a function that writes the
voxels and packs the bundle, which takes nearly all of the time. This function reads no node, so it may run in another
thread. It needs no copy of the voxels: the viewer never changes voxels, and numpy keeps the array if a scan is removed.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import slicer.util

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
from AnatomicalEmbeddingLib.shared.SceneNodes import nodesOf
from AnatomicalEmbeddingLib.shared.VolumeNodes import hasVoxels, ijkToRas

from .session import file_name

_REFUSED = "could not be written; check the space on the disk."
_NAME = "scene"  # name of the folder in the bundle, and of the .mrml file in this folder


def begin(scene, folder: Path) -> Callable[[], BinaryIO]:
    """Write the first part into a new folder below `folder`.

    Returns:
        The function that writes the second part. It returns the bundle as an open temporary file, which is deleted when
        it is closed.

    Raises:
        AnatomicalEmbeddingError: a file could not be written. The returned function raises this error too.
    """
    from AnatomicalEmbedding.scan.volume import Volume

    work = Path(tempfile.mkdtemp(prefix="bundle-", dir=folder))
    top, volumes, storages = work / _NAME, [], []
    (top / "Data").mkdir(parents=True)
    scene.SetURL(str(top / f"{_NAME}.mrml"))
    scene.SetRootDirectory(str(top))
    try:
        for number, node in enumerate(nodesOf(scene, "vtkMRMLStorableNode")):
            if not node.GetSaveWithScene() or not node.GetDefaultStorageNodeClassName():
                continue
            node.AddDefaultStorageNode()
            storages.append(storage := node.GetStorageNode())
            path = top / "Data" / f"{number}-{file_name(node.GetName())}.{storage.GetDefaultWriteFileExtension()}"
            storage.SetFileName(str(path))
            if node.IsA("vtkMRMLScalarVolumeNode") and hasVoxels(node):
                voxels = slicer.util.arrayFromVolume(node)
                volumes.append((Volume(voxels, ijkToRas(node), name=node.GetName()), path))
            elif not storage.WriteData(node):
                raise AnatomicalEmbeddingError(f"{node.GetName()}: {_REFUSED}")
        if not scene.Commit(scene.GetURL()):
            raise AnatomicalEmbeddingError(f"The scene {_REFUSED}")
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    finally:  # remove the temporary paths from the scene
        for storage in storages:
            storage.SetFileName(None)
        scene.SetURL("")
        scene.SetRootDirectory("")

    def finish() -> BinaryIO:
        try:
            for volume, path in volumes:
                volume.write(path)
            return _pack(top, folder)
        except (OSError, VolumeError) as error:
            raise AnatomicalEmbeddingError(f"The scene {_REFUSED}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)

    return finish


def _pack(top: Path, folder: Path) -> BinaryIO:
    """Pack the folder `top` into a zip without compression, because the volumes are compressed already."""
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
