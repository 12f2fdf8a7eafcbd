"""A synthetic patient with lesions, scanned three times: the first study is read, the others are to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .origins import Origin

if TYPE_CHECKING:
    from AnatomicalEmbedding.followup.lesions import Axis
    from AnatomicalEmbedding.followup.record import FollowUp
    from AnatomicalEmbedding.phantom.followup import PhantomFollowUp
    from AnatomicalEmbedding.scan.volume import Volume

    from .follow_up import FollowUps

_SEED = 57
_DATES = ("2024-01-15", "2024-04-11", "2024-07-09")
_NAMES = ("Baseline", "Month 3", "Month 6")
_MOST_TARGETS, _MOST_OF_A_SITE = 5, 2  # of RECIST 1.1
_STEP_MM, _SMOOTH_MM, _REACH = 0.5, 1.5, 1.6  # of what is sampled around a lesion; the reach in radii


def follow_up_patient(follow: FollowUps) -> tuple[str, Callable, Callable[[], None]]:
    """Name, reader, and what to do once its scans are there, for `Scans.read`."""
    made, name = [], "a patient with lesions"

    def read(_cancelled: Callable[[], bool]) -> list[tuple[Volume, Origin]]:
        phantom = make_patient()
        volumes = [replace(volume, name=name) for volume, name in zip(phantom.volumes, _NAMES, strict=True)]
        made.append(first_reading(phantom))
        return [(volume, Origin(given_date=day)) for volume, day in zip(volumes, _DATES, strict=True)]

    def begin() -> None:
        if made and follow.patient is not None:
            follow.take_in(made[0], name)

    return name, read, begin


def make_patient() -> PhantomFollowUp:
    """The patient that is shown."""
    from AnatomicalEmbedding.phantom.followup import make_follow_up

    return make_follow_up(_SEED, len(_DATES))


def first_reading(phantom: PhantomFollowUp) -> FollowUp:
    """What a person would have marked in the first study: lesions, their axes, and which of them are targets."""
    from datetime import date

    from AnatomicalEmbedding.followup.lesions import Study
    from AnatomicalEmbedding.followup.record import FollowUp
    from AnatomicalEmbedding.phantom.followup import VISIBLE

    studies = [Study(f"demo-{n}", name, date.fromisoformat(_DATES[n])) for n, name in enumerate(_NAMES)]
    record, first, sites = FollowUp().with_studies(studies), studies[0].key, Counter()
    for lesion in phantom.lesions:
        state = lesion.states[0]
        if state.state != VISIBLE:
            continue
        lesion_id = record.free_id()
        axes = axes_of(phantom.volumes[0], state.point_ras, float(state.radius_mm))
        record = record.mark(first, tuple(state.point_ras)).measure(lesion_id, first, *axes)
        nodal, site = lesion.kind == "lymph node", lesion.kind.removesuffix(" nodule").removesuffix(" metastasis")
        size = record.finding(lesion_id, first).size
        large = size.short_mm >= 15 if nodal else size.long_mm >= 10
        target = large and sites[site] < _MOST_OF_A_SITE and sites.total() < _MOST_TARGETS
        sites[site] += target
        record = record.describe(lesion_id, site=site, nodal=nodal, target=bool(target))
    return record


def axes_of(volume: Volume, place: Sequence[float], radius_mm: float) -> tuple[Axis, Axis]:
    """The longest diameter of a lesion in the axial plane through its middle, and the longest across it."""
    import SimpleITK as sitk

    steps = np.arange(-_REACH * radius_mm, _REACH * radius_mm + 1e-6, _STEP_MM)
    across = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1)  # (n, n, 2) mm to the right and to the front
    points = np.concatenate([across.reshape(-1, 2), np.zeros((across[..., 0].size, 1))], axis=1) + np.asarray(place)
    sampled = sitk.GetImageFromArray(volume.sample(points).reshape(across.shape[:2]).astype(np.float32))
    hu = sitk.GetArrayFromImage(sitk.SmoothingRecursiveGaussian(sampled, _SMOOTH_MM / _STEP_MM))
    away = np.linalg.norm(across, axis=-1)
    inside, outside = np.median(hu[away < 0.4 * radius_mm]), np.median(hu[away > 1.4 * radius_mm])
    alike = (np.abs(hu - inside) < np.abs(hu - outside)) & (away < 1.2 * radius_mm)
    labels = sitk.GetArrayFromImage(sitk.ConnectedComponent(sitk.GetImageFromArray(alike.astype(np.uint8))))
    shape = across[labels == labels[len(steps) // 2, len(steps) // 2]]
    shape = shape[:: max(1, len(shape) // 1500)]
    gaps = np.linalg.norm(shape[:, None] - shape[None], axis=-1)
    one, other = shape[np.array(np.unravel_index(gaps.argmax(), gaps.shape))]
    along = (other - one) / max(np.linalg.norm(other - one), 1e-9)
    side = (shape - (one + other) / 2) @ np.array([-along[1], along[0]])
    level = (one + other) / 2 + np.outer([side.min(), side.max()], [-along[1], along[0]])
    ends = [tuple(map(float, (*(np.asarray(place)[:2] + end), place[2]))) for end in (one, other, *level)]
    return (ends[0], ends[1]), (ends[2], ends[3])
