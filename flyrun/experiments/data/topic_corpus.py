"""Documents generated from known topics (Blei, Ng & Jordan 2003, §3): any size, and the truth is known.

φ_k ~ Dirichlet(beta), θ_d ~ Dirichlet(alpha), n_d ~ Poisson(length) and at least 2, words by topics by θ_d.
"""

import json

import numpy as np

from flyrun.experiments.config import dataset as options
from flyrun.experiments.data.documents import Corpora, Corpus, halved, of_tokens
from flyrun.ground import archive


def load(config: options.document_data.TopicCorpus) -> Corpora:
    """n_documents to learn from, n_valid to choose settings on, n_test, all of the same topics."""
    rng = np.random.RandomState(config.seed)  # whose streams are frozen for good
    topics = rng.dirichlet(np.full(config.n_words, config.beta), config.n_topics)
    train, valid, test = (
        _documents(rng, config, topics, n) for n in (config.n_documents, config.n_valid, config.n_test)
    )
    return Corpora(train, halved(valid), halved(test), config.n_words, topics=np.ascontiguousarray(topics.T))


def fingerprint(config: options.document_data.TopicCorpus) -> str:
    """Digest of the recipe's numbers."""
    return archive.sha256(json.dumps(config.settings(), sort_keys=True).encode())


def _documents(
    rng: np.random.RandomState, config: options.document_data.TopicCorpus, topics: np.ndarray, n: int
) -> Corpus:
    lengths = np.maximum(rng.poisson(config.length, n), 2)
    shares = rng.dirichlet(np.full(config.n_topics, config.alpha), n)
    tokens = np.array([rng.multinomial(*draw) for draw in zip(lengths, shares, strict=True)])
    document = [np.repeat(np.arange(n), tokens[:, k]) for k in range(config.n_topics)]
    word = [rng.choice(config.n_words, len(d), p=topics[k]) for k, d in enumerate(document)]
    return of_tokens(np.concatenate(document), np.concatenate(word), n)
