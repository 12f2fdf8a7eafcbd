"""A file's name says whether it uses Qt."""

from static_checks import Extension, Source
from static_checks.scopes import qt_outside_panels

LATER = ("AnatomicalEmbeddingLib/shared/panels/", "AnatomicalEmbeddingLib/followup/")  # get such names as well


def test_only_panels_tables_forms_and_modules_import_qt(extension: Extension) -> None:
    assert qt_outside_panels(Source("AnatomicalEmbeddingLib/boxes/Sample.py", "def f():\n    import qt"))
    assert qt_outside_panels(Source("AnatomicalEmbeddingLib/boxes/Sample.py", "from ctk import ctkPathLineEdit"))
    assert not qt_outside_panels(Source("AnatomicalEmbeddingLib/boxes/SamplePanel.py", "import qt"))
    assert not qt_outside_panels(Source("Sample.py", "import qt"))
    sources = [source for source in extension.sources if not source.name.startswith(LATER)]
    assert [problem for source in sources for problem in qt_outside_panels(source)] == []
