"""Registration with elastix, for comparison (Klein et al., IEEE TMI 2010). Needs the optional package itk-elastix."""

from importlib import metadata
from typing import Any

import numpy as np

from AnatomicalEmbedding.scan.geometry import LPS_FROM_RAS, RAS_FROM_LPS, transform_points
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.structures.labelled_scans import Case

_LEVELS = 4


class Elastix:
    """Registers each pair with elastix: affine, and B-spline after it when `deformable`.

    Mutual information of random samples, started with the middles of the two images on each other, four resolutions
    of 300 iterations, control points 16 mm apart at the finest. With `is_aligned` the images start as they lie. The
    template is the fixed image, since elastix maps fixed points to moving ones. No answer (NaN) where a registration
    fails, as when images do not overlap enough.

    Raises importlib.metadata.PackageNotFoundError when itk-elastix is not installed.
    """

    def __init__(
        self,
        deformable: bool = False,
        iterations: int = 300,
        grid_mm: float = 16.0,
        is_aligned: bool = False,
    ) -> None:
        metadata.version("itk-elastix")
        self._deformable = deformable
        self._iterations = iterations
        self._grid_mm = grid_mm
        self._is_aligned = is_aligned

    def prepare(self, case: Case) -> float:
        """Load elastix and read the scan: no work of the method's own."""
        _load_itk()
        _ = case.volume
        return 0.0

    def __call__(self, template: Case, points_ras: np.ndarray, target: Case) -> np.ndarray:
        itk = _load_itk()
        image_type = itk.Image[itk.F, 3]
        method = itk.ElastixRegistrationMethod[image_type, image_type].New()
        method.SetFixedImage(_to_itk(template.volume))
        method.SetMovingImage(_to_itk(target.volume))
        method.SetParameterObject(self._parameters())
        method.SetLogToConsole(False)
        try:
            method.Update()
        except RuntimeError:
            return np.full_like(points_ras, np.nan)
        transform = method.GetCombinationTransform()
        points_lps = transform_points(LPS_FROM_RAS, points_ras)
        moved_lps = [
            list(transform.TransformPoint(itk.Point[itk.D, 3](point.tolist())))
            for point in points_lps
        ]
        return transform_points(RAS_FROM_LPS, np.array(moved_lps))

    def _parameters(self) -> Any:
        parameters = _load_itk().ParameterObject.New()
        affine = parameters.GetDefaultParameterMap("affine", _LEVELS)
        affine["AutomaticTransformInitialization"] = ("false" if self._is_aligned else "true",)
        affine["AutomaticTransformInitializationMethod"] = ("GeometricalCenter",)
        stages = [affine]
        if self._deformable:
            stages.append(parameters.GetDefaultParameterMap("bspline", _LEVELS, self._grid_mm))
        for stage in stages:
            stage["MaximumNumberOfIterations"] = (str(self._iterations),)
            stage["WriteResultImage"] = ("false",)
            parameters.AddParameterMap(stage)
        return parameters


def _load_itk() -> Any:
    """Import itk when it is first needed. Its parts load when touched, which takes longer than a registration."""
    import itk

    _ = itk.ElastixRegistrationMethod, itk.ParameterObject
    return itk


def _to_itk(volume: Volume) -> Any:
    itk = _load_itk()
    ijk_to_lps = LPS_FROM_RAS @ volume.ijk_to_ras
    image = itk.image_from_array(np.ascontiguousarray(volume.voxels, dtype=np.float32))
    image.SetOrigin(ijk_to_lps[:3, 3].tolist())
    image.SetSpacing(list(volume.spacing))
    image.SetDirection(
        itk.matrix_from_array(np.ascontiguousarray(ijk_to_lps[:3, :3] / volume.spacing))
    )
    return image
