"""Films of one synthetic patient, taken with two beams, as Slicer loads films. The true places are known exactly."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import slicer
import slicer.util

from AnatomicalEmbedding.films.projection import Beam, Tissue, film_of, random_beam, straight_beam
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Volume

# from the middle of the chest
PLACES_MM = ((0, 0, 0), (60, 0, 20), (-60, 0, 40), (30, 0, -50), (-40, 0, -30))
# the matrix that Slicer gives to a picture without geometry
AXIAL = np.diag([-1.0, -1.0, 1.0, 1.0])


@dataclass(frozen=True, eq=False)
class Filmed:
    """ct: the chest of a patient. points_ras: (5, 3) RAS mm in it. films: two films of it, and beams: their rays."""

    ct: Volume
    points_ras: np.ndarray
    films: tuple[Volume, Volume]
    beams: tuple[Beam, Beam]

    def pixels(self, number: int) -> np.ndarray:
        """The pixels (5, 3) of the points in a film: x, y, 0."""
        return transform_points(
            self.films[number].ras_to_ijk, self.beams[number].to_film(self.points_ras)
        )


@cache
def filmed() -> Filmed:
    patient = make_phantom(90_010, (4.0, 4.0, 4.0), (330, 600))
    tissue = Tissue.of(patient.volume)
    beams = straight_beam(tissue), random_beam(tissue, np.random.default_rng(5))
    films = (
        film_of(tissue, beams[0], "first"),
        film_of(tissue, beams[1], "second", np.random.default_rng(5)),
    )
    return Filmed(patient.volume, tissue.box_ras.mean(axis=0) + np.array(PLACES_MM), films, beams)


def add_picture(values: np.ndarray, name: str, matrix: np.ndarray = AXIAL, colours: int = 1):
    """A picture (j, i) as Slicer loads it: a scalar volume with one slice; with several colours, a vector volume."""
    kind = "vtkMRMLScalarVolumeNode" if colours == 1 else "vtkMRMLVectorVolumeNode"
    node = slicer.mrmlScene.AddNewNodeByClass(kind, name)
    voxels = values[None] if colours == 1 else np.stack([values[None]] * colours, axis=-1)
    slicer.util.updateVolumeFromArray(node, voxels)
    node.SetIJKToRASMatrix(slicer.util.vtkMatrixFromArray(matrix))
    return node


def add_film(number: int, name: str, colours: int = 1):
    """A film of the patient, with the right size of its pixels, in the axial plane."""
    film = filmed().films[number]
    grey = np.rint(film.voxels[0] / 16).astype(np.uint8)
    return add_picture(grey, name, np.diag([-film.spacing[0], -film.spacing[1], 1.0, 1.0]), colours)


def places_in(node, number: int) -> np.ndarray:
    """The true places (5, 3) of the points in film `number`, world mm, by the node's own matrix."""
    matrix = slicer.util.vtkMatrixFromArray(np.eye(4))
    node.GetIJKToRASMatrix(matrix)
    return transform_points(slicer.util.arrayFromVTKMatrix(matrix), filmed().pixels(number))
