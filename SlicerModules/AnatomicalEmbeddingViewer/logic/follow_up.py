"""Follow-up of a patient's lesions: prior and current study, the lesion that the user is at, and its findings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from AnatomicalEmbeddingLib.followup import ActionRules as Rules
from AnatomicalEmbeddingLib.followup.AxisLines import axisLines
from AnatomicalEmbeddingLib.followup.FollowUpLogic import FollowUpLogic
from AnatomicalEmbeddingLib.followup.LesionChoice import LesionChoice
from AnatomicalEmbeddingLib.followup.LesionImport import importRecord
from AnatomicalEmbeddingLib.followup.Pairing import Pairing
from AnatomicalEmbeddingLib.followup.StudyOrder import Patient, patients, setDate

from .follow_up_page import page_of

if TYPE_CHECKING:
    from AnatomicalEmbedding.followup.record import FollowUp

    from .session import Session
    from .views import Views

_LONGEST_TEXT = 60


class FollowUps:
    """Publishes `follow`, all that its page shows. While the page is open, prior and current alone are shown."""

    def __init__(self, session: Session, views: Views) -> None:
        self._session, self._views = session, views
        self.logic = FollowUpLogic(session.scene, session.store)
        self.choice = LesionChoice(self.logic)
        self.pairing = Pairing(self.logic)
        self.patients: list[Patient] = []
        self.patient: Patient | None = None
        self.prior = self.current = None  # volume nodes
        self.open = self._dirty = self._picked = False  # picked: prior and current are the user's choice
        self._acts = Rules.actions(self.logic, self.choice)
        self._doing = ""
        self.logic.reported.connect(session.say)
        for signal in (self.logic.changed, self.logic.placing.changed, self.pairing.changed):
            signal.connect(self._on_changed)
        self.choice.changed.connect(self._on_choice)
        session.store.changed.connect(lambda _volume_id: self._on_changed())
        session.scans_changed.connect(self.follow)
        session.at_end(self._close)
        self.follow()

    # -- what is worked on -------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Patients and studies are those of the session's scans, in the order of their dates."""
        scans, found = self._session.scans, []
        for each in patients(self._session.scene):
            studies = tuple(study for study in each.studies if study.volume in scans)
            if studies:
                found.append(replace(each, studies=studies))
        self.patients = found
        key = None if self.patient is None else self.patient.key
        self.patient = next((each for each in found if each.key == key), None) or next(
            (each for each in found if len(each.studies) > 1), found[0] if found else None
        )
        self._settle()

    def _settle(self) -> None:
        """Prior and current are studies of the patient: the first and the last until the user picks others."""
        patient = self.patient
        volumes = [] if patient is None else patient.volumes
        self._picked = self._picked and self.prior in volumes and self.current in volumes
        if not self._picked:
            self.prior, self.current = (None, None) if patient is None else patient.usualPair
        self.logic.setPatient(patient)
        self.logic.setShown([self.prior, self.current])
        prior, current = (self.logic.studyOf(volume) for volume in (self.prior, self.current))
        self.choice.usual = current or prior
        self.pairing.setStudies(prior, current)
        self._show_pair()
        self._on_changed()

    def _show_pair(self) -> None:
        pair = [volume for volume in (self.prior, self.current) if volume is not None]
        self._views.show_only(pair if self.open and pair else None)
        self.logic.showInOwnViews()

    # -- what the user does ------------------------------------------------------------------------------------------

    def set_open(self, is_open: bool) -> None:
        """Is the page of the follow-up in front?"""
        if is_open != self.open:
            self.open = is_open
            self.logic.placing.stop()
            self._show_pair()
            self._jump()

    def choose_patient(self, key: str) -> None:
        found = next((each for each in self.patients if each.key == key), None)
        if found is not None:
            self.patient = found
            self._settle()

    def set_date(self, scan_id: str, text: str) -> None:
        """YYYY-MM-DD; "" goes back to what DICOM says."""
        scan = self._session.scan(scan_id)
        if scan is None:
            return
        try:
            setDate(scan, str(text)[:_LONGEST_TEXT])
        except ValueError as error:
            self._session.say(str(error))
        self.follow()

    def set_prior(self, scan_id: str) -> None:
        """One that is the current study becomes the prior, and the other way round."""
        self._set_pair(self._session.scan(scan_id), self.current)

    def set_current(self, scan_id: str) -> None:
        self._set_pair(self.prior, self._session.scan(scan_id))

    def _set_pair(self, prior, current) -> None:
        if None not in (prior, current):
            changes_places = prior is current
            self.prior, self.current = (self.current, self.prior) if changes_places else (prior, current)
            self._picked = True
            self._settle()
            self._jump()

    def choose(self, lesion: str, study: str = "") -> None:
        """Be at a lesion in a study, and show it in all views."""
        if self._has(lesion) and (study == "" or study in {each.key for each in self.logic.record.studies}):
            self.choice.choose(lesion, study)
            self._jump()

    def act(self, action: str) -> None:
        """One of the actions of ActionRules, with the lesion that the user is at; says why where it cannot be done."""
        if action not in self._acts:
            return
        reason = Rules.whyNot(self.logic, action, self.choice.lesion, self.choice.study)
        if reason:
            self._session.say(reason)
        else:
            self._doing = action
            self._acts[action]()

    @property
    def placing(self) -> str:
        """The action that the next click in a view is for, or ""."""
        return self._doing if self.logic.placing.active else ""

    def merge(self, into: str) -> None:
        """In this study the chosen lesion is one with another."""
        lesion, study = self.choice.lesion, self.choice.study
        if lesion and into in Rules.mergeChoices(self.logic, lesion, study):
            self.logic.merge(lesion, study, into)

    def describe(self, what: str, value: str | bool) -> None:
        """Name, site, target, nodal or split_from of the chosen lesion."""
        if not self.choice.lesion:
            return
        if what in ("name", "site"):
            self.logic.describe(self.choice.lesion, **{what: " ".join(str(value).split())[:_LONGEST_TEXT]})
        elif what in ("target", "nodal"):
            self.logic.describe(self.choice.lesion, **{what: bool(value)})
        elif what == "split_from" and (value == "" or self._has(value)):
            self.logic.describe(self.choice.lesion, split_from=value)

    def undo(self) -> None:
        self.logic.undo()

    def redo(self) -> None:
        self.logic.redo()

    def close_up(self) -> None:
        """Look closely at the place that is shown, or at all of the scans again."""
        self._views.set_close_up(not self._views.close_up)
        self._jump()

    def take_in(self, record: FollowUp, name: str) -> list[str]:
        """Add findings of an earlier session; those made here stay. name: of the file. Returns sentences on what
        has come, and raises AnatomicalEmbeddingError where there is no scan that it is about.
        """
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        if self.patient is None:
            raise AnatomicalEmbeddingError("Add the scans first, then load their follow-up.")
        sentences = importRecord(self.logic, record, name)
        self.follow()
        return sentences

    def _has(self, lesion: object) -> bool:
        return lesion in [each.id for each in self.logic.record.lesions]

    def _on_choice(self) -> None:
        """The user is at another lesion, or in another study, which is then the current one."""
        volume = self.logic.volumes.get(self.choice.study)
        if volume is not None and volume not in (self.prior, self.current):
            self.current, self._picked = volume, True
            self._settle()
        self._jump()
        self._dirty = True

    def _jump(self) -> None:
        if self.open and self.choice.lesion:
            self.logic.jumpTo(self.choice.lesion)

    # -- for the page --------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        if self.open:  # else nobody can do anything to lesions, and points and crosshair need the time
            self.logic.poll()

    def publish(self, state) -> None:
        if self._dirty:
            self._dirty = False
            state.follow = page_of(self)

    def _on_changed(self) -> None:
        self._dirty = True
        for line in axisLines(self._session.scene):  # sizes are in the table: their letters would lie on the lesion
            line.node.GetDisplayNode().SetPropertiesLabelVisibility(False)

    def _close(self) -> None:
        self.pairing.close()
        self.choice.close()
        self.logic.close()
