"""The scene as a bundle (.mrb) for Slicer, in two parts: one while the scene holds still, one while the page goes on.

`begin` writes, at once, the scene's description and all that is small: points, boxes, tables. The function that it
returns writes the voxels and packs the bundle, which takes nearly all of the time; it may run in another thread. It
touches no node. It reads the voxels in place, not from a copy: nothing in the viewer changes a voxel of a scan that is
there, and numpy keeps the memory of one that has gone meanwhile.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import slicer.util

from AnatomicalEmbeddingLib.shared.SceneNodes import nodesOf
from AnatomicalEmbeddingLib.shared.VolumeNodes import hasVoxels, ijkToRas

from .session import file_name

_REFUSED = "could not be written; check the space on the disk."
_NAME = "scene"  # of the folder in the bundle, and of the description in it


def begin(scene, folder: Path, files: Mapping[str, bytes] | None = None) -> Callable[[Callable[[str], None]], BinaryIO]:
    """Write the first part into a new folder below `folder`; returns what writes the second and gives the bundle, a
    file that goes when it is closed. The function takes `report`, which receives what is being written.

    files: by node ID, what is to be the file of a node that VTK would take seconds to write.

    Raises AnatomicalEmbeddingError, as the function does, when something cannot be written.
    """
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
    from AnatomicalEmbedding.scan.volume import Volume

    work = Path(tempfile.mkdtemp(prefix="bundle-", dir=folder))
    top, volumes, contents = work / _NAME, [], []
    (top / "Data").mkdir(parents=True)
    try:
        with _stored_below(scene, top) as stored:
            for node, path in stored:
                if files and node.GetID() in files:
                    contents.append((files[node.GetID()], path))
                elif node.IsA("vtkMRMLScalarVolumeNode") and hasVoxels(node):
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
            for content, path in contents:
                path.write_bytes(content)
            for number, (volume, path) in enumerate(volumes, 1):
                report(f"writing scan {number} of {len(volumes)} for Slicer")
                volume.write(path)
            report("packing the scene for Slicer")
            return _packed(top, folder)
        except (OSError, VolumeError) as error:
            raise AnatomicalEmbeddingError(f"The scene {_REFUSED}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)

    return finish


@contextmanager
def _stored_below(scene, top: Path) -> Iterator[list]:
    """Nodes with data of their own, and the file of each below `top`; inside, the scene believes to be stored there."""
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


def _packed(top: Path, folder: Path) -> BinaryIO:
    """The folder as an archive; the volumes in it are compressed already."""
    bundle = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115, the caller closes it
    try:
        with zipfile.ZipFile(bundle, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(top.rglob("*")):
                archive.write(path, path.relative_to(top.parent))
    except BaseException:
        bundle.close()
        raise
    bundle.seek(0)
    return bundle
