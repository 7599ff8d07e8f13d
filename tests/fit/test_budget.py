"""A budget is all that a person waits for; an exit code says whether what was written is to be trusted."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting import coefficients, weighted_draws
from flyrun.fitting.groups.normal_noise import Sums
from flyrun.fitting.rows_posterior import Posterior
from flyrun.ground.exit_codes import UNTRUSTED


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A file of two columns."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    pd.DataFrame({"x": x, "y": x + rng.normal(size=80)}).to_csv("mine.csv", index=False)
    return ["mine.csv", "--target", "y", "--workers", "1"]


@pytest.mark.thorough
@pytest.mark.parametrize(("ess_asked", "code"), [(1.0, 0), (1e9, UNTRUSTED)])
def test_exit_codes_say_whether_the_chains_agree(ess_asked, code, mine, monkeypatch, capsys):
    """What is written and not to be trusted was told from what is only in words."""
    monkeypatch.setattr(coefficients, "ESS", ess_asked)
    monkeypatch.setattr(coefficients, "RHAT", 1.1)
    monkeypatch.setattr(weighted_draws, "doubts", lambda found: "this is a test")
    assert main(["fit", *mine, "--budget", "700"]) == code
    printed = capsys.readouterr().out
    assert "weighted draws are not used, because this is a test" in printed
    assert "Hamiltonian Monte Carlo on all rows" in printed
    assert json.loads(Path("results/runs/mine/fit.json").read_text())["agreed"] == (code == 0)
    assert Path("results/runs/mine/posterior.nc").is_file()


TICK = 0.5  # seconds that the fake clock takes for each evaluation of a posterior


@pytest.fixture
def slow(monkeypatch):
    """A machine on which each evaluation of a posterior, of however many points, takes half a second."""
    now = {"wall": 0.0}
    monkeypatch.setattr("flyrun.fitting.request.time.monotonic", lambda: now["wall"])
    monkeypatch.setattr("flyrun.fitting.request.time.process_time", lambda: now["wall"])
    for name in ("log_density", "value_and_slope", "likelihood_at"):
        for of in (Posterior, Sums):
            if (once := of.__dict__.get(name)) is not None:

                def taking(self, *given, once=once):
                    now["wall"] += TICK
                    return once(self, *given)

                monkeypatch.setattr(of, name, taking)
    return now


def hard(kind):
    """A table, a formula and a model whose draws need every phase."""
    rng = np.random.default_rng(5)
    if kind == "softmax":
        return pd.DataFrame(
            {"x": rng.normal(size=6), "z": rng.normal(size=6), "y": list("abcabc")}
        ), "y ~ x + z"
    x = rng.normal(size=(62, 4))
    frame = pd.DataFrame(x, columns=list("abcd")).assign(g=[f"g{k}" for k in np.repeat(np.arange(31), 2)])
    noise = rng.standard_t(1.5, 62)
    y = {"student_t": x[:, 0] + noise, "gamma": np.exp(noise / 4), "gaussian": x[:, 0] + noise}
    frame["y"] = y.get(kind, rng.poisson(np.exp(0.3 * x[:, 0])))
    if kind == "modes":
        frame["y"] = np.append(rng.normal(size=60), [30.0, -28.0])
        frame["a"] = np.repeat([0.0, 1.0], [60, 2])
        return frame, "y ~ a"
    return frame, "y ~ a + b + c + d" + (" + (1 | g)" if kind in ("poisson", "gaussian") else "")


MODELS = {"modes": "student_t"}


@pytest.mark.thorough(but="gaussian-10")
@pytest.mark.parametrize("budget", [10, 30, 60, 300])
@pytest.mark.parametrize(
    "kind", ["softmax", "student_t", "modes", "negative_binomial", "gamma", "poisson", "gaussian"]
)
def test_a_budget_holds_in_every_phase(kind, budget, slow, mine, capsys):
    """Softmax of six rows took 124 s of 60, student_t of 62 rows 122: the check by chains knew no clock."""
    frame, formula = hard(kind)
    frame.to_csv("hard.csv", index=False)
    words = ["fit", "hard.csv", formula, "--model", MODELS.get(kind, kind), "--budget", f"{budget}s"]
    code = main(words)
    # the mode, one round of draws and the check of what is written are made, however little time there is
    assert slow["wall"] < budget + 30.0
    out = capsys.readouterr()
    assert code in (0, UNTRUSTED) or ("--budget" in out.err or "effective" in out.err)
    if code == UNTRUSTED:
        assert "budget" in out.out


@pytest.mark.thorough
def test_a_check_that_the_budget_cut_short_is_told(slow, mine, capsys):
    """Draws that were not held against chains are not to be trusted; the remedy checks them."""
    hard("gamma")[0].to_csv("hard.csv", index=False)
    words = ["fit", "hard.csv", "y ~ a + b + c + d", "--model", "gamma"]
    assert main([*words, "--budget", "60s"]) == UNTRUSTED
    told = " ".join(capsys.readouterr().out.split())
    assert "chains that check these draws did not end within the --budget; a longer --budget checks" in told
    assert not json.loads(Path("results/runs/hard/fit.json").read_text())["agreed"]
    assert main([*words, "--budget", "2h", "--fresh"]) == 0
