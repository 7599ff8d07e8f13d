"""Other libraries' samplers: what they are given, what they report, and what is said where they are missing.

The libraries are no part of a development install: their tests run where the extra `peers` is.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import flyrun_peers
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError

PEERS = {
    "nuts_numpyro": flyrun_peers.NutsNumpyro,
    "nuts_nutpie": flyrun_peers.NutsNutpie,
    "mclmc_blackjax": flyrun_peers.MclmcBlackjax,
    "pathfinder_blackjax": flyrun_peers.PathfinderBlackjax,
}
TOY = ["dataset=toy_2d", "model=logistic"]


def arm_of(*words):
    (arm,) = compose_job(["protocol=smoke", "protocol.burn_in=60", "protocol.thin=2", *words]).arms
    return arm


def needs(name):
    for library in ("jax", PEERS[name].library):
        pytest.importorskip(library)


@pytest.mark.parametrize("name", PEERS)
def test_where_the_library_is_missing_one_line_says_how_to_get_it(name, monkeypatch):
    monkeypatch.setattr(flyrun_peers, "find_spec", lambda library: None)
    with pytest.raises(ConfigError, match=r"is not installed; type `pip install 'flyrun\[peers\]'`"):
        arm_of(*TOY, f"sampler={name}")


@pytest.mark.parametrize(
    ("model", "prior"), [("logistic", "gaussian"), ("student_t", "laplace"), ("softmax", "gaussian")]
)
def test_peers_are_given_the_posterior_in_whitened_coordinates(model, prior, tmp_path):
    needs("nuts_numpyro")
    import jax

    x = np.random.default_rng(0).normal(size=(60, 3))
    y = {
        "logistic": x[:, 0] > 0.3,
        "student_t": x[:, 0] + x[:, 2] ** 3,
        "softmax": np.digitize(x[:, 0], [-0.5, 0.5]),
    }
    rows = np.column_stack([x, y[model]])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c,y", comments="")
    table = ["dataset=table", f"dataset.path={tmp_path / 'rows.csv'}", "dataset.target=y"]
    made = prepare(arm_of(*table, f"model={model}", f"prior={prior}", "sampler=nuts_numpyro"), tmp_path)
    w, coordinates = np.random.default_rng(1).normal(size=made.n_params), made.coordinates
    _, slope = jax.value_and_grad(made.log_density)(w.astype(np.float32))
    exact = coordinates.root.T @ made.density.gradient(coordinates.theta(w[None]))[0]
    assert np.allclose(slope, exact, rtol=1e-3, atol=1e-3 * np.abs(exact).max())
    assert np.allclose(coordinates.white(coordinates.theta(w[None])[0]), w)


@pytest.mark.parametrize(
    "words",
    [
        ["sampler=nuts_numpyro"],
        ["sampler=nuts_nutpie"],
        ["sampler=nuts_nutpie", "sampler.low_rank=true"],
        ["sampler=pathfinder_blackjax"],
        ["sampler=mclmc_blackjax", "sampler.tuning=100"],
        ["sampler=mclmc_blackjax", "sampler.adjusted=true", "sampler.tuning=100"],
    ],
    ids=" ".join,
)
def test_the_same_bits_wherever_they_are_cut_and_queries_of_all_data(words, tmp_path):
    needs(words[0].partition("=")[2])
    arm = arm_of(*TOY, *words)
    made = prepare(arm, tmp_path)
    _, whole = made.advance(made.init(3), 100)
    state, parts = made.init(3), []
    for n in (1, 70, 29):
        state, records = made.advance(state, n)
        parts.append(records)
    for name, values in whole.items():
        assert np.array_equal(values, np.concatenate([part[name] for part in parts])), name
    again = prepare(arm, tmp_path).advance(state, 20)[1]  # as another process that goes on
    for name, values in made.advance(state, 20)[1].items():
        assert np.array_equal(values, again[name]), name
    assert (whole["queries"] % made.n_data == 0).all()
    assert (whole["queries"] >= made.n_data).all()


def test_our_posterior_in_their_samplers_as_the_text_has_it():
    for library in ("jax", "blackjax", "numpyro", "nutpie"):
        pytest.importorskip(library)
    text = (Path(__file__).parents[2] / "docs/extending.md").read_text("utf-8")
    part = text.partition("## Our posteriors in your sampler")[2].partition("\n## ")[0]
    scope, counts = {}, []
    for block in re.findall(r"```python\n(.*?)```", part, re.DOTALL):
        exec(block, scope)
        counts.append(scope["posterior"].queries)
    assert len(counts) == 4
    assert (np.diff(counts) > 0).all()  # each sampler's reads are counted


@pytest.mark.parametrize(
    "words", [["nuts_numpyro"], ["mclmc_blackjax"], ["mclmc_blackjax", "sampler.adjusted=true"]]
)
def test_queries_are_the_gradients_that_libraries_tell_of(words, tmp_path, monkeypatch):
    """The meter inside of compiled loops, beside each library's own count of its steps."""
    needs(words[0])
    tuning = ["sampler.tuning=100"] if "mclmc" in words[0] else []
    method = prepare(arm_of(*TOY, f"sampler={words[0]}", *words[1:], *tuning), tmp_path)
    inner = method.step

    def step(key, state):
        state, values = inner(key, state)
        return state, values | {"told": method.told(state)}

    if words[0] == "nuts_numpyro":
        method.told = lambda state: state.num_steps
    elif len(words) == 1:
        method.told = lambda state: 2  # gradients of an integrator's step
    else:
        kept = []
        kernel = method._kernel()

        def counted(*given, **named):
            state, info = kernel(*given, **named)
            kept.append(2 * info.num_integration_steps)
            return state, info

        monkeypatch.setattr(method, "_kernel", lambda: counted)
        method.told = lambda state: kept.pop()
    monkeypatch.setattr(method, "step", step)
    monkeypatch.setattr(type(method), "records", ("accepted", "told"))
    _, records = method.advance(method.init(2), 80)
    queries, told = records["queries"], records["told"]
    assert queries[1:].tolist() == (method.n_data * told[1:]).astype(int).tolist()
    assert queries[0] > method.n_data * told[0]  # the start's
