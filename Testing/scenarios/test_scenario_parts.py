"""What scenarios use that needs no Slicer: reading its log, and comparing counts."""

from collections import Counter

from driver.leaks import growth
from driver.log import complaints

LOG = """[INFO][Python] 22.11.2026 10:00:00 [Python] (a.py:1) - AnatomicalEmbedding is loaded
[WARNING][VTK] 22.11.2026 10:00:01 [] (unknown:0) - a view has no size
[ERROR][Python] 22.11.2026 10:00:02 [Python] (unknown:0) - Traceback (most recent call last):
[ERROR][Python] 22.11.2026 10:00:02 [Python] (unknown:0) -   File "x/AnatomicalEmbeddingLib/shared/Views.py", line 3
[ERROR][Python] 22.11.2026 10:00:02 [Python] (unknown:0) - KeyError: 'red'
[INFO][Stream] 22.11.2026 10:00:03 [] (unknown:0) - done
[ERROR][Qt] 22.11.2026 10:00:04 [] (unknown:0) - of another module
"""


def test_only_warnings_and_errors_of_ours_are_reported_with_their_traceback():
    (one,) = complaints(LOG)
    assert one.splitlines()[-1].endswith("KeyError: 'red'")
    assert "Views.py" in one
    assert complaints("") == []


def test_every_critical_line_is_reported():
    line = "[CRITICAL][Qt] 22.11.2026 10:00:05 [] (unknown:0) - Unable to find subject hierarchy item"
    assert complaints(f"{LOG}{line}\n")[1:] == [line]
    assert complaints("[CRITICAL][FD] 22.11.2026 10:00:05 [] (unknown:0) - \n") == []


def test_a_message_of_several_lines_is_one_complaint():
    (one,) = complaints(
        "[ERROR][Python] now [] (a:1) - LesionFollowUp failed\n  because\n[INFO][Qt] now [] (b:2) - fine"
    )
    assert one.splitlines()[1:] == ["  because"]


def test_growth_names_what_there_is_more_of_but_two_threads():
    before = Counter({"threads": 3, "nodes vtkMRMLTableNode": 1})
    assert growth(before, Counter({"threads": 5, "nodes vtkMRMLTableNode": 1})) == []
    grown = growth(before, Counter({"threads": 6, "nodes vtkMRMLTableNode": 2, "running timers": 1}))
    assert [text.split(":")[0] for text in grown] == ["nodes vtkMRMLTableNode", "running timers", "threads"]


def test_observers_of_new_views_and_of_reloaded_panels_are_not_ours():
    before = Counter({"slice views": 3, "observers of the scene": 20})
    assert growth(before, before + Counter({"observers of the scene": 1}))
    assert growth(before, before + Counter({"observers of the scene": 9, "slice views": 6})) == []
    assert growth(before, before + Counter({"observers of the scene": 9}), reloaded=True) == []
