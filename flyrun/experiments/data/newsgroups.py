"""20 newsgroups as counts of words, from a folder of yours: nothing of it is kept here.

The folder is the one that Miao, Grefenstette & Blunsom's and Dieng, Ruiz & Blei's topic models (2020) read:
MATLAB files bow_{tr,va,ts_h1,ts_h2}_{tokens,counts}.mat, a row a document. The words themselves are in a
pickle, which is never opened: topics are of numbers.
"""

import hashlib
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from flyrun.experiments.config import dataset as options
from flyrun.experiments.data.documents import Corpora, Corpus, Halves, corpus, halved
from flyrun.ground import sources
from flyrun.ground.errors import ConfigError, DataError

PARTS = ("tr", "va", "ts_h1", "ts_h2")
WHERE = "name the folder with bow_tr_tokens.mat, bow_tr_counts.mat and those of va, ts_h1 and ts_h2"


def load(config: options.document_data.Newsgroups) -> Corpora:
    """Training documents, the few of `va` to choose settings on, test documents in the folder's halves."""
    terms, counts = ({part: _documents(_files(config, part)[k]) for part in PARTS} for k in (0, 1))
    n_words = 1 + max(int(term.max(initial=0)) for part in terms.values() for term in part)
    parts = {part: corpus(terms[part], counts[part], n_words, f"{_files(config, part)[0]}") for part in PARTS}
    if parts["ts_h1"].n_documents != parts["ts_h2"].n_documents:
        raise DataError(f"{_files(config, 'ts_h2')[0]}: has other documents than ts_h1; restore both")
    train, test = _limited(config, parts["tr"]), Halves(parts["ts_h1"], parts["ts_h2"])
    return Corpora(train, halved(parts["va"]), test, n_words)


def fingerprint(config: options.document_data.Newsgroups) -> str:
    """Digest of the files; DataError where one is not there."""
    paths = [path for part in PARTS for path in _files(config, part)]
    return hashlib.sha256("".join(map(sources.sha256_of, paths)).encode()).hexdigest()


def _files(config: options.document_data.Newsgroups, part: str) -> list[Path]:
    if config.path is None:
        raise DataError(f"dataset.path=null: newsgroups needs a folder of yours; {WHERE}")
    paths = [Path(config.path).expanduser() / f"bow_{part}_{kind}.mat" for kind in ("tokens", "counts")]
    for path in paths:
        if not path.is_file():
            raise DataError(f"dataset.path={config.path}: has no {path.name}; {WHERE}")
    return paths


def _documents(path: Path) -> list[np.ndarray]:
    kind = path.stem.rpartition("_")[2]
    try:
        rows = loadmat(path)[kind].ravel()
        return [np.asarray(row).ravel() for row in rows]
    except Exception as error:  # scipy's reader fails in many ways on a damaged file
        reason = " ".join(str(error).split())
        raise DataError(
            f"{path}: cannot be read as MATLAB cells called {kind} ({reason}); restore it"
        ) from error


def _limited(config: options.document_data.Newsgroups, train: Corpus) -> Corpus:
    if config.limit is None:
        return train
    if config.limit > train.n_documents:
        raise ConfigError(f"dataset.limit={config.limit}: there are {train.n_documents} training documents")
    return train.some(np.arange(config.limit))
