"""`flyrun cite`: each work that an option, an experiment or a data set names has its one entry."""

import functools
import re

import pytest
import yaml

from flyrun.cli.main import main
from flyrun.experiments.config import catalogue
from flyrun.experiments.config.arm import ARM_GROUPS
from flyrun.experiments.data import registry
from flyrun.experiments.report import cite
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import SCHEMAS
from tests.stored import write_run

ROOT = conf_dir().parent


@functools.cache
def texts():
    """Who -> what it says that it is from: options, experiments, data."""
    found = {f"{group}={name}": cite.source(group, name) for group in ARM_GROUPS for name in SCHEMAS[group]}
    found |= {
        f"experiment={name}": str(catalogue.load(path).get("paper", ""))
        for name, path in catalogue.files("experiment").items()
    }
    shipped = {**registry.shipped("registry.yaml"), **registry.shipped("sources.yaml")}
    found |= {f"data {name}": str(entry.get("source", "")) for name, entry in shipped.items()}
    return {who: text for who, text in found.items() if text}


@pytest.mark.parametrize("who", texts())
def test_each_year_that_is_named_has_one_entry(who):
    wrong = [(words, [w.key for w in works]) for words, works in cite.cited(texts()[who]) if len(works) != 1]
    assert wrong == []


def test_each_entry_is_named():
    used = {work.key for text in texts().values() for _, works in cite.cited(text) for work in works}
    assert set(cite.bibliography()) - used == {"flyrun"}


def test_every_sampler_and_acceptance_says_what_it_is_from():
    silent = [
        name for group in ("sampler", "acceptance") for name in SCHEMAS[group] if not cite.source(group, name)
    ]
    assert silent == ["exact"]


def test_the_file_is_bibtex():
    text = (ROOT / "flyrun/experiments/report/bibliography.bib").read_text()
    assert text.count("\n@") == len(cite.bibliography())  # no key twice
    where = ("journal", "booktitle", "publisher", "howpublished")
    for work in cite.bibliography().values():
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", work.bibtex, re.MULTILINE))
        assert work.bibtex.count("\n") == len(fields) + 1, work.key
        assert work.bibtex.count("{") == work.bibtex.count("}"), work.key
        if work.key != "flyrun":
            assert {"author", "title", "year"} < set(fields), work.key
            assert set(fields) & set(where), work.key
            authors = fields["author"].split(" and ")
            assert all(re.fullmatch(r"[\w -]+, (\w\.[ -]?)+", author) for author in authors), work.key


def test_flyruns_own_entry_is_as_the_citation_file_has_it():
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    entry = cite.bibliography()["flyrun"].bibtex
    assert f"title = {{{told['title']}}}" in entry
    assert told["authors"][0]["name"] in entry
    for work in told["references"]:
        names = tuple(author["family-names"] for author in work["authors"])
        assert any(
            names == known.names and str(work["year"]) == known.year for known in cite.bibliography().values()
        )


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("Bardenet, Doucet and Holmes 2014 and 2017, On MCMC", ["bardenet2014", "bardenet2017"]),
        ("after R. Bardenet, A. Doucet and C. Holmes, On Tall Data, 2017", ["bardenet2017"]),
        ("Duane et al. 1987; under FlyMC ours", ["duane1987"]),
        ("N. Ding and others 2014", ["ding2014"]),
        ("SVRG, Johnson and Zhang 2013", ["johnson2013svrg"]),
        ("Johnson, Saunderson and Willsky 2013", ["johnson2013hogwild"]),
        ("of 1,800,000 rows, 2,000 test rows and 0.2013 of them", []),
        ("Nobody 2013", [None]),  # from here on: what the test above must catch
        ("Zhang 2013", [None]),
        ("Johnson et al. 2013", ["johnson2013hogwild"]),
        ("Neal 2004", [None]),
        ("2003", [None]),
    ],
)
def test_a_text_is_read_as_people_write_it(text, keys):
    assert [works[0].key if len(works) == 1 else None for _, works in cite.cited(text)] == keys


def test_two_entries_that_fit_decide_nothing(monkeypatch):
    first = cite.bibliography()["neal2003"]
    both = {"a": first, "b": cite.Work("b", first.names, first.year, first.bibtex)}
    monkeypatch.setattr(cite, "bibliography", lambda: both)
    ((_, works),) = cite.cited("Neal 2003")
    assert len(works) == 2


def run_of(**settings):
    return {"paper": "", "experiment": "x", "arms": [{"name": "a", "settings": settings}]}


def test_a_runs_entries_stand_once_after_who_names_them(tmp_path, capsys):
    one = {
        "sampler": {"name": "slice"},
        "dataset": {"name": "german_credit"},
        "acceptance": {"name": "exact"},
    }
    text = cite.bibtex(run_of(**one))
    assert re.findall(r"^@\w+\{(\w+)", text, re.MULTILINE) == [
        "flyrun",
        "hofmann1994",
        "neal2003",
        "karamanis2021",
    ]
    assert "% dataset=german_credit\n@misc{hofmann1994," in text
    folder = write_run(
        tmp_path / "runs/toy", {"regular": [0]}, paper="R. M. Neal, Slice Sampling, 2003", experiment="x"
    )
    assert folder.is_dir()
    assert main(["cite", "toy", f"--results-dir={tmp_path}"]) == 0
    assert "% experiment=x\n@article{neal2003," in capsys.readouterr().out


def test_what_a_package_names_is_bibtex_of_its_own_or_a_line(monkeypatch):
    own = "@misc{barker,\n  title = {Barker},\n}"
    for name, paper in {"theirs": own, "unknown": "A. Nobody, Something, 1999"}.items():
        cls = type(name, (SCHEMAS["sampler"]["slice"],), {"paper": paper, "name": name})
        monkeypatch.setitem(SCHEMAS["sampler"], name, cls)
    assert f"% sampler=theirs\n{own}" in cite.bibtex(run_of(sampler={"name": "theirs"}))
    text = cite.bibtex(run_of(sampler={"name": "unknown"}))
    assert text.endswith("% sampler=unknown: no entry for A. Nobody, Something, 1999; add it by hand\n")
    text = cite.bibtex(run_of(sampler={"name": "absent"}, protocol={"name": "smoke"}))
    assert text.count("@") == 1
    assert text.endswith("% sampler=absent: is no choice here; install its package to cite what it is from\n")
    monkeypatch.setattr(SCHEMAS["sampler"]["unknown"], "paper", "")
    assert "% sampler=unknown: names no work that it is from\n" in cite.bibtex(
        run_of(sampler={"name": "unknown"})
    )
