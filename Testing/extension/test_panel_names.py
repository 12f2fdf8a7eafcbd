"""A file's name says whether it uses Qt."""

from static_checks import Extension, Source
from static_checks.scopes import qt_outside_panels


def test_only_panels_tables_forms_and_modules_import_qt(extension: Extension) -> None:
    assert qt_outside_panels(Source("AnatomicalEmbeddingLib/boxes/Sample.py", "def f():\n    import qt"))
    assert qt_outside_panels(Source("AnatomicalEmbeddingLib/boxes/Sample.py", "from ctk import ctkPathLineEdit"))
    assert not qt_outside_panels(Source("AnatomicalEmbeddingLib/boxes/SamplePanel.py", "import qt"))
    assert not qt_outside_panels(Source("Sample.py", "import qt"))
    assert [problem for source in extension.sources for problem in qt_outside_panels(source)] == []
