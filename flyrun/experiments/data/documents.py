"""Documents as counts of words, what topic models read: checked once, and parted for document completion."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flyrun.ground.errors import DataError


class Corpus(NamedTuple):
    """D documents: the distinct words of document d, and how often, stand at first[d] to first[d + 1]."""

    first: np.ndarray  # (D + 1,) int64
    word: np.ndarray  # (E,) int32, from 0
    repeats: np.ndarray  # (E,) int32, at least 1

    @property
    def n_documents(self) -> int:
        """D."""
        return len(self.first) - 1

    @property
    def n_tokens(self) -> int:
        """Words in all documents, repeated ones as often as they stand there."""
        return int(self.repeats.sum())

    @property
    def document(self) -> np.ndarray:
        """(E,) int64: whose words they are."""
        return np.repeat(np.arange(self.n_documents), np.diff(self.first))

    def some(self, rows: np.ndarray) -> "Corpus":
        """These documents, numbers (n,), in this order."""
        sizes = np.diff(self.first)[rows]
        ends = np.cumsum(sizes)
        places = np.arange(sizes.sum()) + np.repeat(self.first[:-1][rows] - (ends - sizes), sizes)
        return Corpus(np.append(0, ends), self.word[places], self.repeats[places])


class Halves(NamedTuple):
    """Documents in two parts each: θ is learnt from `observed`, `held` is predicted. Either may be empty."""

    observed: Corpus
    held: Corpus


class Corpora(NamedTuple):
    """What a loader returns. valid: to choose settings on.  vocabulary: V words, or none where not known.

    topics: (V, K), p(word | topic), where the documents are generated from known ones.
    """

    train: Corpus
    valid: Halves
    test: Halves
    n_words: int
    vocabulary: tuple[str, ...] = ()
    topics: np.ndarray | None = None


def corpus(terms: Sequence[np.ndarray], counts: Sequence[np.ndarray], n_words: int, what: str) -> Corpus:
    """Documents from words and counts of each, (L,). DataError naming `what` and the first that is none."""
    for row, (word, count) in enumerate(zip(terms, counts, strict=True)):
        if problem := _problem(np.asarray(word), np.asarray(count), n_words):
            raise DataError(f"{what}: document {row} {problem}; mend or drop it (documents count from 0)")
    if not len(terms):
        raise DataError(f"{what}: holds no document; give at least one")
    first = np.append(0, np.cumsum([len(word) for word in terms]))
    word, repeats = (np.concatenate(parts).astype(np.int32) for parts in (terms, counts))
    return Corpus(first.astype(np.int64), word, repeats)


def _problem(word: np.ndarray, count: np.ndarray, n_words: int) -> str:
    if word.size == 0:
        return "is empty"
    if word.shape != count.shape:
        return f"has {word.size} words and {count.size} counts"
    if not all(np.issubdtype(array.dtype, np.integer) for array in (word, count)):
        return "holds numbers that are not whole"
    if word.min() < 0 or word.max() >= n_words:
        outside = word[(word < 0) | (word >= n_words)][0]
        return f"holds word {outside}; words are numbered from 0 to {n_words - 1}"
    if count.min() < 1:
        return f"has a count of {count.min()}; counts are at least 1"
    return ""


def of_tokens(document: np.ndarray, word: np.ndarray, n_documents: int) -> Corpus:
    """Documents from single words, (n,) each: whose they are, and which. Some documents may be empty."""
    most = int(word.max(initial=0)) + 1
    pairs, count = np.unique(document.astype(np.int64) * most + word, return_counts=True)
    owner, distinct = np.divmod(pairs, most)
    first = np.searchsorted(owner, np.arange(n_documents + 1))
    return Corpus(first.astype(np.int64), distinct.astype(np.int32), count.astype(np.int32))


def halved(whole: Corpus, seed: int = 0) -> Halves:
    """Each document's tokens dealt out at random into two halves, the larger one observed."""
    document, word = (np.repeat(values, whole.repeats) for values in (whole.document, whole.word))
    order = np.lexsort([np.random.RandomState(seed).random_sample(len(word)), document])
    document, word = document[order], word[order]
    sizes = np.bincount(document, minlength=whole.n_documents)
    place = np.arange(len(word)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    seen = 2 * place < sizes[document]
    return Halves(*(of_tokens(document[part], word[part], whole.n_documents) for part in (seen, ~seen)))
