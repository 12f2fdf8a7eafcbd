"""A search for the places of words in a scene, used as by a user."""

from polling import poll_until

from AnatomicalEmbeddingLib.words.WordSearch import WordSearch


class WordBench:
    """A search with its store. reported: its sentences."""

    def __init__(self, scene, store) -> None:
        self.scene = scene
        self.store = store
        self.search = WordSearch(scene, store)
        self.reported: list[str] = []
        self.search.reported.connect(self.reported.append)

    def settle(self, seconds: float = 60.0) -> None:
        """Poll until all scans are embedded and everything that was asked is answered."""
        poll_until(
            lambda: not (self.store.busy or self.search.busy),
            self.store.poll,
            self.search.poll,
            seconds=seconds,
        )

    def find(self, text: str) -> None:
        self.search.find(text)
        self.settle()

    def name_at(self, node, world) -> str:
        self.search.nameAt(node, world)
        self.settle()
        return self.search.name

    def regions(self) -> list:
        """Segmentations of the scene."""
        found = self.scene.GetNodesByClass("vtkMRMLSegmentationNode")
        found.UnRegister(None)
        return list(found)
