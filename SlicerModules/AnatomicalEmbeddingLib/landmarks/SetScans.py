"""Opens a landmark set in the template, and saves the points of all scans as a landmark set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import vtk

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.landmarks.markups import QUANTITIES
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED
from AnatomicalEmbedding.resources import resource

from ..shared.Colours import errorText
from ..shared.maps.MapStore import MapStore
from ..shared.SceneNodes import nodesOf
from ..shared.VolumeNodes import fromWorld, isFilm, toWorld
from .AnswerList import MOVED, AnswerList, isAnswers
from .ControlPoints import definedIds, fromNode, labelOf, worldOf
from .Edges import edgesOf
from .LandmarkSets import isFromSet, markFromSet, setFile, setSetFile
from .Measurements import markupOf

if TYPE_CHECKING:
    from AnatomicalEmbedding.landmarks.drawing import Drawing
    from AnatomicalEmbedding.landmarks.landmark_set import LandmarkSet
    from AnatomicalEmbedding.landmarks.markups import Markup

_CLASS = "vtkMRMLMarkupsNode"


def openSet(scene, store: MapStore, path: str, template, points=None) -> tuple[list, str]:
    """Place the landmarks of a set in the template.

    Args:
        scene: the scene.
        store: has the map of the template.
        path: a file NAME.landmarks.json.
        template: volume node in which the landmarks are placed.
        points: a point list to which all landmarks are added that it lacks; default: new nodes.

    Returns:
        The nodes of the landmarks: by default a point list, and the lines, angles and curves of the set; and a sentence
        for the user.

    Raises:
        PointsError: the set cannot be read, or the template is not prepared.
        MapError: the set was made with other weights.
    """
    from AnatomicalEmbedding.landmarks.landmark_set import SUFFIX, read_landmark_set

    _check(path, template)
    landmarkSet = read_landmark_set(path)
    embedding = store.map(template)
    if embedding is None:
        raise PointsError(f"{template.GetName()} is not prepared yet; press Prepare scans first.")
    matches = landmarkSet.find(embedding)
    name = Path(path).name.removesuffix(SUFFIX)
    numbers = {label: number for number, label in enumerate(landmarkSet.names)}
    if points is None:
        labelsByNode = _newNodes(scene, name, landmarkSet)
    else:
        present = {labelOf(points, pointId) for pointId in definedIds(points)}
        labelsByNode = {points: [label for label in numbers if label not in present]}
    places = toWorld(template, matches.points_ras)
    absent = []
    uncertain = []
    for node, labels in labelsByNode.items():
        setSetFile(node, str(path))
        for label in labels:
            answer = matches[numbers[label]]
            if answer["status"] == ABSENT:
                absent.append(label)
                continue
            if answer["status"] != MATCHED:
                uncertain.append(label)
            place = vtk.vtkVector3d(*places[numbers[label]])
            index = node.AddControlPointWorld(place, label)
            text = errorText(answer["expected_error_mm"], answer["probability"], embedding.unit_mm)
            markFromSet(node, index, f"{answer['status'] or 'uncertain'}: {text}")
    sentences = [f"{name}: {len(numbers) - len(absent)} of {len(numbers)} points are placed."]
    if uncertain:
        sentences.append(f"Check {', '.join(uncertain)}: uncertain.")
    if absent:
        sentences.append(f"{template.GetName()} does not seem to show {', '.join(absent)}.")
    return list(labelsByNode), " ".join(sentences)


def _newNodes(scene, name: str, landmarkSet: LandmarkSet) -> dict:
    """Create a point list, and the lines, angles and curves of a set. Returns node -> labels of its points."""
    drawn = [markup for markup in landmarkSet.markups if markup.kind in QUANTITIES]
    inMarkups = {label for markup in drawn for label in markup.labels}
    single = [label for label in landmarkSet.names if label not in inMarkups]
    lists = [("Fiducial", name, single)] if single else []
    lists += [(markup.kind, markup.name, markup.labels) for markup in drawn]
    labelsByNode = {}
    for kind, nodeName, labels in lists:
        node = scene.AddNewNodeByClass(f"vtkMRMLMarkups{kind}Node", nodeName)
        node.CreateDefaultDisplayNodes()
        labelsByNode[node] = labels
    return labelsByNode


def saveSet(scene, store: MapStore, path: str, template, points) -> str:
    """Save the user's points in all scans as examples of a landmark set. A set in the file gets further examples.

    Examples are the points that the user has placed, moved or confirmed, in the template and as answers in other scans.

    Args:
        scene: the scene with the point lists, lines, angles and curves of the template, and their answers.
        store: has the maps of the scans.
        path: a file NAME.landmarks.json.
        template: volume node of the points.
        points: the chosen point list, line, angle or curve of the template. All others that have answers count, too.

    Returns:
        A sentence for the user.

    Raises:
        PointsError: there is no point of the user, a map is missing, or the file cannot be read or written.
        MapError: the set in the file was made with other weights.
    """
    from AnatomicalEmbedding.landmarks.landmark_set import (
        LandmarkSet,
        make_landmark_set,
        read_landmark_set,
    )

    _check(path, template)
    if edgesOf(points):
        raise PointsError(
            f"{points.GetName()} is a plane or box; save it beside its scan, and add it with anatemb landmarks add."
        )
    if Path(path).parent == resource("Landmarks"):
        raise PointsError(
            f"{Path(path).name} came with this extension and is not changed; type the path of a file of your own."
        )
    answerLists = [AnswerList(node) for node in nodesOf(scene, _CLASS) if isAnswers(node)]
    answerLists = [answers for answers in answerLists if answers.source and answers.volumeNode]
    sources = _sourcesOf(template, points, answerLists)
    drawings = [_templateDrawing(template, sources)]
    volumes = {answers.volumeNode: None for answers in answerLists}
    drawings += [_targetDrawing(volume, sources, answerLists) for volume in volumes]
    scans = []
    for volume, drawing in zip([template, *volumes], drawings, strict=True):
        if drawing.points.labels:
            if store.map(volume) is None:
                raise PointsError(f"{volume.GetName()} is not prepared yet; press Prepare scans.")
            scans.append((store.map(volume), drawing))
    if not scans:
        raise PointsError("No point is yours; place, move or confirm points before you save them.")
    earlier = read_landmark_set(path) if Path(path).exists() else LandmarkSet()
    make_landmark_set(scans, earlier).write(path)
    count = sum(len(drawing.points.labels) for _embedding, drawing in scans)
    return f"{Path(path).name}: {count} points of {len(scans)} scans were saved as examples."


def _check(path: str, template) -> None:
    """Raise PointsError if the path cannot be that of a landmark set, or if the template is a film."""
    from AnatomicalEmbedding.landmarks.landmark_set import SUFFIX

    if not str(path).endswith(SUFFIX):
        raise PointsError(f"Choose a landmark set: a file called NAME{SUFFIX}.")
    if isFilm(template):
        raise PointsError(f"{template.GetName()} is a film; landmark sets are made of CTs.")


def _sourcesOf(template, points, answerLists: Sequence[AnswerList]) -> list:
    """Return the point lists, lines, angles and curves of a template: the chosen one and those with answers. Planes and
    boxes are left out."""
    ofOthers = {answers.source for answers in answerLists if answers.volumeNode is template}
    sources = dict.fromkeys([points, *(answers.source for answers in answerLists)])
    return [source for source in sources if source not in ofOthers and not edgesOf(source)]


def _templateDrawing(template, sources: Sequence) -> Drawing:
    """Return the user's points in the template, in its own RAS mm, and all markups. sources: the chosen list first."""
    labels = []
    places = []
    markups = []
    for source in sources:
        names = _namesOf(source)
        userPoints = [
            pointId
            for pointId in names
            if not isFromSet(source, pointId)
            and (source is sources[0] or _isIn(template, source, pointId))
        ]
        labels += [names[pointId] for pointId in userPoints]
        places += [worldOf(source, pointId) for pointId in userPoints]
        markup = markupOf(source, tuple(names.values()))
        if markup is not None and len(userPoints) == len(names):
            markups.append(markup)
    return _drawing(labels, fromWorld(template, places), markups)


def _isIn(template, source, pointId: str) -> bool:
    """Return whether a point was not placed in another volume than the template."""
    volumeId = source.GetNthControlPointAssociatedNodeID(source.GetControlPointIndexByID(pointId))
    placedIn = source.GetScene().GetNodeByID(volumeId or "")
    return placedIn in (None, template) or not placedIn.IsA("vtkMRMLVolumeNode")


def _targetDrawing(volume, sources: Sequence, answerLists: Sequence[AnswerList]) -> Drawing:
    """Return the answers that the user has placed in a target, in its own RAS mm."""
    labels = []
    places = []
    for answers in answerLists:
        if answers.volumeNode is not volume or answers.source not in sources:
            continue
        names = _namesOf(answers.source)
        for pointId, answer in answers.answers.items():
            if answer.status == MOVED and not answer.outdated and pointId in names:
                labels.append(names[pointId])
                places.append(fromNode(answers.node, answer.pointId))
    return _drawing(labels, np.array(places), [])


def _drawing(labels: Sequence[str], places: np.ndarray, markups: Sequence[Markup]) -> Drawing:
    from AnatomicalEmbedding.landmarks.drawing import Drawing
    from AnatomicalEmbedding.scan.points import PointList

    return Drawing(PointList(tuple(labels), places.reshape(-1, 3)), tuple(markups))


def _namesOf(source) -> dict[str, str]:
    """Return, by the ID of a point, its name in a landmark set: its label, or "NAME: 1" in a line, angle or curve."""
    ids = definedIds(source)
    if source.GetMarkupType() == "Fiducial" or setFile(source):
        return {pointId: labelOf(source, pointId) for pointId in ids}
    return {pointId: f"{source.GetName()}: {n}" for n, pointId in enumerate(ids, start=1)}
