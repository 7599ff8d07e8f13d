"""Bad calls and bad files as a person makes them: each is one line that names it, exit 2, no traceback."""

from __future__ import annotations

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.data import descriptors
from flyrun.ground.numerics import compiled  # noqa: F401  chooses its cache folder before these tests change FLYRUN_CACHE

MNIST = "experiment=mnist_logreg only=regular"
ROBUST = "model=student_t sampler=slice protocol=smoke"
TABLE = f"dataset=table dataset.path={{tmp}}/a.csv dataset.target=y {ROBUST}"
CEP = f"dataset=opv_cep dataset.path={{tmp}}/a.csv {ROBUST}"
EDGES = "dataset=edge_list dataset.path={tmp}/a.csv model=ising sampler=gibbs protocol=smoke"
UAI = "dataset=uai dataset.path={tmp}/a.uai model=factor_graph sampler=gibbs protocol=smoke"
GRID = "dataset=grid model=ising sampler=gibbs"
EXPANDED = "dataset=toy_2d model=logistic sampler=pcn bound=none protocol=smoke"
MOVED = "dataset=toy_2d model=logistic sampler=surrogate_transition bound=none protocol=smoke"
FIELD = "dataset=precision model=gaussian_field"

CALLS = {
    # a value out of range, or of another type
    f"{FIELD} sampler=hogwild sampler.processors=13": "choose sampler.processors=12",
    f"{FIELD} sampler=gibbs": "with this model choose hogwild and hogwild_shares",
    "dataset=grid model=ising sampler=chromatic": "sampler=chromatic: every pair of variables has a factor",
    "experiment=opv_robust only=regular model.nu=0": "model.nu=0: must be a finite number in [0.001, 1e+09]",
    "experiment=opv_robust only=regular model.nu=-1": "model.nu=-1: must",
    "experiment=opv_robust only=regular model.scale=nan": "model.scale=nan: must",
    "experiment=opv_robust only=regular sampler.width=0": "sampler.width=0: must",
    "experiment=opv_robust only=regular sampler.most_widenings=-1": "sampler.most_widenings=-1: must",
    "experiment=opv_robust only=regular dataset.split=train": "dataset.split=train: must be all or held_out",
    "experiment=cifar_softmax only=regular dataset.codes=deep": "dataset.codes=deep: must",
    "experiment=cifar_softmax only=regular sampler.target_accept=2": "sampler.target_accept=2: must",
    f"{MNIST} dataset.limit=0": "dataset.limit=0: must",
    f"{MNIST} dataset.limit=1.5": "dataset.limit=1.5: must be a whole number",
    f"{MNIST} dataset.n_components=1000": "dataset.n_components=1000: must",
    f"{MNIST} dataset.classes=[7,7]": "two different digits",
    f"{MNIST} dataset.classes=[7]": "dataset.classes=[7]: must",
    f"{MNIST} prior.grid=[]": "prior.grid=[]: must be a list of numbers in [1e-100, 1e+100], one at least",
    f"{MNIST} prior.scale=true": "prior.scale=true: must",
    f"{MNIST} sampler.step=-0.1": "sampler.step=-0.1: must",
    f"{MNIST} protocol.seeds=[1,1]": "protocol.seeds=[1,1]: must",
    f"{MNIST} protocol.seeds=0": "protocol.seeds=0: must",
    f"{MNIST} protocol.thin=7": "protocol.thin=7: must divide",
    f"{MNIST} protocol.init=mle": "protocol.init=mle: must be prior, map, ep or zero",
    f"{MNIST} protocol.chunk_seconds=0": "protocol.chunk_seconds=0: must",
    f"{MNIST} executor.workers=two": "executor.workers=two: must",
    f"{MNIST} fresh=maybe": "fresh=maybe: must be true or false",
    f"{MNIST} name=a/b": "name=a/b: must be a folder name",
    f"{MNIST} results_dir=": "results_dir=: must be a folder",
    f"{GRID} dataset.side=1": "dataset.side=1: must",
    f"{GRID} model.beta=0": "model.beta=0: must",
    "dataset=grid model=potts model.n_values=0 sampler=gibbs": "model.n_values=0: must",
    "dataset=grid model=ising sampler=min_gibbs sampler.batch=-1": "sampler.batch=-1: must",
    "dataset=grid model=ising sampler=min_gibbs sampler.estimator=best": "sampler.estimator=best: must",
    "dataset=toy_2d dataset.n_data=1 model=logistic sampler=mala": "dataset.n_data=1: must",
    f"{MNIST} acceptance=austerity acceptance.epsilon=0.6": "acceptance.epsilon=0.6: must be a finite",
    f"{MNIST} acceptance=austerity acceptance.epsilon=-0.1": "acceptance.epsilon=-0.1: must",
    f"{MNIST} acceptance=austerity acceptance.batch=1": "acceptance.batch=1: must be a whole number",
    f"{MNIST} acceptance=confidence acceptance.growth=0.5": "acceptance.growth=0.5: must be a finite",
    f"{MNIST} acceptance=confidence acceptance.bound=chernoff": "acceptance.bound=chernoff: must be",
    f"{MNIST} acceptance=confidence acceptance.order=3": "acceptance.order=3: must",
    # choices that do not go together
    "experiment=mnist_logreg only=map_tuned acceptance=austerity": "choose bound=none",
    "dataset=mixture model=mixture sampler=random_walk bound=none acceptance=confidence protocol=smoke": (
        "model=mixture has no bounds on what Taylor polynomials leave out; choose acceptance=exact"
    ),
    "dataset=mixture model=mixture sampler=surrogate_transition protocol=smoke": (
        "choose sampler=pcn acceptance=exact"
    ),
    f"{MNIST} model=normal": "is not for dataset=mnist_7v9; choose dataset=gaussian_toy",
    f"{MNIST} bound=map": "bound=map and brightness=none do not go together",
    f"{MNIST} sampler=gibbs": "sampler=gibbs and model=logistic do not fit",
    f"{MNIST} dataset=grid": "dataset=grid and model=logistic do not fit",
    f"{MNIST} model=ising": "do not fit",
    f"{GRID} prior=gaussian": "prior=gaussian: model=ising has none; drop it",
    f"{GRID} bound=map": "bound=map: model=ising has none; drop it",
    f"{MNIST} model=probit bound=local brightness=per_datum": (
        "model=probit has no such bounds; choose bound=map"
    ),
    "experiment=mnist_logreg only=firefly_hmc bound=local bound.mass_outside=2": "bound.mass_outside",
    "dataset=uai model=ising sampler=gibbs": "dataset=uai and model=ising do not fit",
    "dataset=toy_2d model=student_t sampler=slice": "the model is for numbers",
    "experiment=mnist_logreg only=untuned brightness=per_datum": "bound=untuned do not go together",
    "dataset=mnist_7v9 sampler=mala": "model: none is chosen; add model=NAME",
    f"{EXPANDED} acceptance=tuna acceptance.order=3": "acceptance.order=3: must be a whole number in [0, 2]",
    f"{EXPANDED} acceptance=tuna acceptance.chi=-1": "acceptance.chi=-1: must",
    f"{EXPANDED} acceptance=smh acceptance.bounds=best": "acceptance.bounds=best: must be local, global or",
    f"{EXPANDED} acceptance=mh_ss model=softmax acceptance.order=3": (
        "leave out at that order; choose acceptance.order=1 or acceptance.order=2"
    ),
    "dataset=gaussian_toy model=normal sampler=pcn bound=none acceptance=mh_ss acceptance.bounds=global": (
        "has bounds of its own, one for every datum; choose acceptance.bounds=local"
    ),
    f"{EXPANDED} acceptance=delayed bound=map brightness=implicit": "choose bound=none and brightness=none",
    f"{EXPANDED} sampler.persistence=1": "sampler.persistence=1: must",
    f"{EXPANDED.replace('pcn', 'hmc')} acceptance=mh_ss": "acceptance=mh_ss: sampler=hmc has none; drop it",
    f"{EXPANDED.replace('pcn', 'mala')} acceptance=delayed": (
        "does not serve sampler=mala; choose acceptance=exact, acceptance=smh"
    ),
    f"{MOVED} acceptance=exact": "has no expansion to move on; choose acceptance=smh, acceptance=tuna,",
    f"{MOVED} acceptance=mh_ss acceptance.order=1 prior=laplace": (
        "makes no proper density of prior=laplace for sampler=surrogate_transition to move on; choose "
        "acceptance.order=2"
    ),
    "dataset=toy_2d model=softmax sampler=zigzag protocol.init=map": "choose model=logistic, model=probit",
    # keys, arms and words
    f"{MNIST} arms.tuned.prior.scale=1": "no such arm; choose from regular",
    f"{MNIST} arms.regular.brightness.q=0.1": "brightness=none has no key q",
    f"{MNIST} arms.regular.fresh=true": "belongs to the whole run",
    f"{MNIST} prior@x=gaussian": "@packages are not used",
    f"{MNIST} dataset.skip_bad=true": "dataset.skip_bad: no arm that runs has this key",
    f"{MNIST} prior._target_=os.system": "prior._target_: no",
    f"{MNIST} prior.scale=${{oc.env:HOME}}": "prior.scale=",
    f"{MNIST} prior.scale=${{nothing}}": "nothing",
    f"{MNIST} x[=3": "cannot be read as key=value",
    f"{MNIST} =3": "=3: is not of the form key=value",
    # files that are not there
    "dataset=table model=student_t sampler=slice": "dataset.path=null",
    TABLE.replace("a.csv", "b.csv"): "b.csv: no such file",
    f"dataset=opv_cep {ROBUST}": "dataset.path=null: opv_cep needs a CSV",
    CEP.replace("a.csv", "b.csv"): "b.csv: no such file",
    "dataset=uai model=factor_graph sampler=gibbs": "dataset.path=null",
    UAI: "a.uai: cannot be read (No such file",
    EDGES: "a.csv: cannot be read (No such file",
    "report {tmp}": "no such run",
    "table firefly_table2": "published tables: firefly_table1",
    "publish nothing": "no such run",
    "compare {tmp} {tmp}": "is neither a run nor a table",
    "check mnist": "did you mean mnist_logreg?",
    "data build mnist_7v8": "mnist_7v9",
    f"{MNIST} --config-dir {{tmp}}/nowhere": "nowhere",
    f"{MNIST} protocol=smoke results_dir=/proc/nowhere": "/proc/nowhere",
}

GOOD_UAI = "MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n"
SIX = "x,y\n1,1.5\n2,2.5\n3,3.5\n4,5.5\n5,4.5\n6,6.5\n"

#: name -> (file, its content, command, what is said)
FILES = {
    "no such column": ("a.csv", SIX, TABLE.replace("target=y", "target=z"), "no column 'z'"),
    "no target": ("a.csv", SIX, TABLE.replace("dataset.target=y ", ""), "dataset.target=null"),
    "one value lacks": ("a.csv", SIX + ",3\n", TABLE, "row 6 (line 8 of the file), column x has no value"),
    "infinite": ("a.csv", SIX + "inf,3\n", TABLE, "row 6 (line 8 of the file), column x is inf"),
    "constant feature": ("a.csv", "x,y\n1,2\n1,3\n1,4\n", TABLE, "column x is 1 in every row"),
    "constant target": ("a.csv", "x,y\n1,2\n2,2\n", TABLE, "target y is 2 in every row"),
    "one class": (
        "a.csv",
        "x,y\n1,a\n2,a\n",
        TABLE.replace(ROBUST, "model=softmax sampler=mala"),
        "target y is a in every row",
    ),
    "target of words": ("a.csv", "x,y\n1,a\n2,b\n3,c\n", TABLE, "holds text ('a')"),
    "feature is target": ("a.csv", SIX, f"{TABLE} dataset.features=[y]", "is the target"),
    "ragged": ("a.csv", SIX + "1,2,3\n", TABLE, "Expected 2 fields in line 8, saw 3"),
    "empty": ("a.csv", "", TABLE, "a.csv"),
    "header alone": ("a.csv", "x,y\n", TABLE, "no row"),
    "not text": ("a.csv", b"x,y\n\xff\xfe,1\n", TABLE, "utf-8"),
    "another kind": ("a.xls", SIX, TABLE.replace("a.csv", "a.xls"), "no kind that can be read"),
    "npz cut short": ("a.npz", b"PK\x03\x04zzzz", TABLE.replace("a.csv", "a.npz"), "cannot be read"),
    "parquet that is none": ("a.parquet", b"PAR1x", TABLE.replace("a.csv", "a.parquet"), "a.parquet"),
    "no SMILES": ("a.csv", "smile,gap\nC,1\n", CEP, "has no column smiles"),
    "no gap": ("a.csv", "smiles,pce\nC,1\n", CEP, "has no column gap"),
    "no molecule": ("a.csv", "smiles,gap\n", CEP, "has no row below its header"),
    "SMILES": ("a.csv", "smiles,gap\nC,1\nbad,2\nCC,3\n", CEP, "row 1, SMILES 'bad' cannot be parsed"),
    "gap": ("a.csv", "smiles,gap\nC,1\nCC,high\n", CEP, "row 1, gap is no finite number"),
    "skips all": ("a.csv", "smiles,gap\nbad,1\n", f"{CEP} --skip-bad", "no row has both"),
    "BAYES": ("a.uai", GOOD_UAI.replace("MARKOV", "BAYES"), UAI, "line 1: begins with 'BAYES'"),
    "UAI cut short": ("a.uai", GOOD_UAI[:-4], UAI, "line 7: ends before entry"),
    "UAI zero": ("a.uai", GOOD_UAI.replace("3 4", "0 4"), UAI, "has an entry 0"),
    "UAI negative": ("a.uai", GOOD_UAI.replace("3 4", "-3 4"), UAI, "negative"),
    "UAI size": ("a.uai", GOOD_UAI.replace("\n4\n", "\n5\n"), UAI, "has 5 entries"),
    "self-loop": ("a.csv", "0,1,1\n2,2,1\n", EDGES, "line 2: edge 2,2 joins a variable with itself"),
    "twice": ("a.csv", "0,1,1\n1,0,1\n", EDGES, "stands in line 1 already"),
    "weight": ("a.csv", "0,1,heavy\n", EDGES, "line 1: weight 'heavy'"),
    "two cells": ("a.csv", "0,1\n", EDGES, "line 1: has 2 cells"),
    "run.json": ("run.json", "{", "report {tmp}", "run.json"),
    "run.json, to publish": ("run.json", "[]", "publish {tmp}", "run.json"),
    "table": ("a.csv", SIX, "compare {tmp}/a.csv {tmp}/a.csv", "has no column arm"),
    "stored values": (
        "toy_flymc.json",
        "{",
        "check toy_flymc values={tmp}",
        "toy_flymc.json: cannot be read",
    ),
    "results in a file": ("a.csv", SIX, f"{MNIST} protocol=smoke results_dir={{tmp}}/a.csv", "a.csv"),
    "protocol's YAML": ("protocol/own.yaml", "name: [", f"{MNIST} protocol=own --config-dir {{tmp}}", "YAML"),
    "protocol's key": (
        "protocol/own.yaml",
        "name: own\niteration: 5\n",
        f"{MNIST} protocol=own --config-dir {{tmp}}",
        "protocol.iteration: no such key",
    ),
    "a class by path": (
        "prior/own.yaml",
        "name: gaussian\n_target_: os.system\n",
        f"{MNIST} prior=own --config-dir {{tmp}}",
        "prior._target_: no such key",
    ),
    "experiment's arms": (
        "experiment/own.yaml",
        "# @package _global_\narms: [a]\n",
        "experiment=own --config-dir {tmp}",
        "own",
    ),
}


@pytest.fixture(autouse=True)
def apart(tmp_path, tmp_path_factory, monkeypatch):
    """A folder and a cache of its own; random numbers stand in for descriptors, NaN for those of "bad"."""

    def compute(smiles, names, echo):
        values = np.random.default_rng(1).normal(size=(len(smiles), len(names)))
        values[[text == "bad" for text in smiles]] = np.nan
        return values

    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(descriptors, "rdkit_version", lambda: "0")
    monkeypatch.setattr(descriptors, "compute", compute)


def refused(line, tmp_path, capsys) -> str:
    code = main(line.replace("{tmp}", str(tmp_path)).split(" "))
    printed = capsys.readouterr()
    errors = [one for one in printed.err.splitlines() if one.startswith("flyrun: error: ")]
    assert code == 2, printed
    assert len(errors) == 1, printed
    assert "Traceback" not in printed.err + printed.out
    assert "unexpected" not in printed.err
    return errors[0]


@pytest.mark.parametrize("line", CALLS)
def test_bad_calls(line, tmp_path, capsys):
    assert CALLS[line] in refused(line, tmp_path, capsys)


@pytest.mark.parametrize(("name", "content", "line", "text"), FILES.values(), ids=FILES)
def test_bad_files(name, content, line, text, tmp_path, capsys):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert text in refused(line, tmp_path, capsys)


def test_there_are_as_many_as_promised():
    assert len(CALLS) + len(FILES) >= 60
