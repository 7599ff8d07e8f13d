"""A budget is all that a person waits for; an exit code says whether what was written is to be trusted."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.cli.verbs.fit import parse
from flyrun.diagnostics import ess
from flyrun.exit_codes import UNTRUSTED
from flyrun.fitting import choose, coefficients, rounds
from flyrun.fitting.groups.normal_noise import Sums
from flyrun.fitting.request import Clock
from flyrun.fitting.rows_posterior import Posterior
from flyrun.report.sections import ess as ess_section
from tests.fit.test_fit_pieces import LAYOUT


class ReachedError(Exception):
    """Where a test ends."""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A file of two columns."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    pd.DataFrame({"x": x, "y": x + rng.normal(size=80)}).to_csv("mine.csv", index=False)
    return ["mine.csv", "--target", "y", "--workers", "1"]


def begun(monkeypatch, words, passed, computed=None):
    """A request's rounds, `passed` seconds after it was typed, of which this process computed `computed`."""
    now = {"wall": 1000.0, "cpu": 50.0}
    monkeypatch.setattr(rounds.time, "monotonic", lambda: now["wall"])
    monkeypatch.setattr(rounds.time, "process_time", lambda: now["cpu"])
    request, clock = parse(words), Clock()
    task = choose.problem(request)
    now["wall"] += passed
    now["cpu"] += passed if computed is None else computed
    screen = SimpleNamespace(console=None, warn=print, failures=print, tell=print)
    other = SimpleNamespace(ask=lambda work, *given: work(*given), begin=print)
    return rounds._Rounds(request, task, clock, screen, other)


def stops(monkeypatch, started):
    """Seconds that the first round's chains are given."""
    given = []

    def run(job, console, prepare, stop_after_s, **how):
        given.append(stop_after_s)
        raise ReachedError

    monkeypatch.setattr(rounds, "run", run)
    with pytest.raises(ReachedError):
        started.to_end()
    return given[0]


def test_time_is_kept_back_for_what_follows_the_draws(mine, monkeypatch):
    """Judging, files and the report, which came after the budget's end."""
    total = 4500  # as long as the first round is
    started = begun(monkeypatch, [*mine, "--budget", "10m"], 20.0)
    given = stops(monkeypatch, started)
    numbers = 4 * 4000 * 3
    assert given < 600.0 - 20.0 - rounds._REPORT_S
    # and more of it for wider tables, and where judging proved slow
    wide = begun(monkeypatch, [*mine, "--budget", "10m"], 20.0)
    wide.task.__dict__["n_params"] = 3000
    wider = stops(monkeypatch, wide)
    assert wider < given - 10.0
    assert wide._judging(total) == pytest.approx(0.05 * 600.0)  # at most, however wide
    assert started._judging(total) == pytest.approx(7e-7 * numbers * 2 / 3)
    wide.pace = 3.0
    once = 0.05 * 600.0 + rounds._REPORT_S + wide._numbers(total) * rounds._WRITTEN_S
    assert stops(monkeypatch, wide) == pytest.approx(wider - 2.0 * once)


def test_no_round_is_begun_that_would_end_too_late(mine, monkeypatch):
    started = begun(monkeypatch, [*mine, "--budget", "60s"], 50.0)
    started.rate = 0.001
    rows = [{"ess_bulk": 10.0}]
    following = started._next(4500, rows)
    assert 4500 < following <= 4500 + 8.0 / 0.001  # 10 s are left, of which the report takes 2
    started = begun(monkeypatch, [*mine, "--budget", "60s"], 58.0)
    started.rate = 0.001
    assert started._next(4500, rows) is None


def test_a_busy_machine_keeps_back_more(mine, monkeypatch):
    """30 s took 34: a report was foreseen at the pace of a free core."""
    free = stops(monkeypatch, begun(monkeypatch, [*mine, "--budget", "30s"], 8.0))
    busy = stops(monkeypatch, begun(monkeypatch, [*mine, "--budget", "30s"], 8.0, computed=2.0))
    numbers = 4 * 4000 * 2
    once = rounds._REPORT_S + numbers * (rounds._WRITTEN_S + rounds._JUDGED_S)
    assert free == pytest.approx(30.0 - 8.0 - once)
    assert busy == pytest.approx(30.0 - 8.0 - 4 * once)


def test_a_budget_that_reading_takes_says_so_and_leaves_a_second(mine, monkeypatch, capsys):
    """10 s took 29: reading took 11.7, and the chains got a quarter of the budget all the same."""
    started = begun(monkeypatch, [*mine, "--budget", "10s"], 11.7, computed=5.85)
    assert stops(monkeypatch, started) == 1.0
    (line,) = {line for line in capsys.readouterr().out.splitlines() if "setting up took" in line}
    assert "took 11.7 s" in line
    assert "beyond the budget of 10 seconds: the chains get 1 s" in line
    # the remedy as it is printed
    words = re.search(r"--budget \d+s", line)[0].split()
    assert stops(monkeypatch, begun(monkeypatch, [*mine, *words], 11.7, computed=5.85)) > 1.0
    assert "setting up took" not in capsys.readouterr().out


def test_chains_look_at_the_clock_often_where_the_budget_is_small(mine, monkeypatch):
    """Four chains one after the other that each end two seconds late are late by eight."""
    chunks = []

    def run(job, *rest, **how):
        chunks.append(job.arms[0].protocol.chunk_seconds)
        raise ReachedError

    for budget in ("20s", "10m", "1000"):
        started = begun(monkeypatch, [*mine, "--budget", budget], 2.0)
        monkeypatch.setattr(rounds, "run", run)
        with pytest.raises(ReachedError):
            started.to_end()
    assert chunks == [pytest.approx(0.4), 2.0, 2.0]


def test_r_hat_and_ess_are_worked_out_from_fewer_draws_where_all_take_long(monkeypatch):
    """Numbers that are only looked at must not take longer than making them."""
    seen = []
    summary = ess.summary
    monkeypatch.setattr(
        ess, "summary", lambda draws, **how: seen.append(draws.shape) or summary(draws, **how)
    )
    beta = np.random.default_rng(0).normal(size=(4, 4000, 3))
    whole = coefficients.summarise(beta, LAYOUT)
    few = coefficients.summarise(beta, LAYOUT, 12_000)
    least = coefficients.summarise(beta, LAYOUT, 1.0)
    assert seen == [(4, 4000, 3), (4, 1000, 3), (4, 250, 3)]
    for a, b, c in zip(whole, few, least, strict=True):
        assert (a["mean"], a["sd"], a["q03"]) == (b["mean"], b["sd"], b["q03"])  # from all draws
        assert c["ess_bulk"] < b["ess_bulk"] < a["ess_bulk"]
        assert abs(b["rhat"] - a["rhat"]) < 0.01
    # chains that do not agree are seen as well
    beta[0] += 0.5
    assert not coefficients.agreed(coefficients.summarise(beta, LAYOUT, 1.0))
    assert coefficients.judged(np.zeros((2, 100, 4, 5)), 1.0).shape == (2, 100, 20)


def test_a_fit_works_out_no_diagnostics_that_its_report_leaves_out(mine, monkeypatch):
    """The report judged all draws once more, for tables that a fit does not have."""
    assert main(["fit", *mine, "--budget", "600", "sampler=hmc"]) == UNTRUSTED
    kept = [json.loads(path.read_text()) for path in (choose.Path("results/runs/mine").rglob("summary.json"))]
    assert len(kept) == 4
    assert all("chains" in one and "ess" not in one and "cost" not in one for one in kept)
    monkeypatch.setattr(ess_section, "SECTION", None)
    assert main(["report", "mine"]) == 0


@pytest.mark.parametrize(("ess_asked", "code"), [(1.0, 0), (1e9, UNTRUSTED)])
def test_exit_codes_say_whether_the_chains_agree(ess_asked, code, mine, monkeypatch, capsys):
    """What is written and not to be trusted was told from what is only in words."""
    monkeypatch.setattr(coefficients, "ESS", ess_asked)
    monkeypatch.setattr(coefficients, "RHAT", 1.1)
    assert main(["fit", *mine, "--budget", "700", "sampler=hmc"]) == code
    assert ("the chains agree" in capsys.readouterr().out) == (code == 0)
    assert choose.Path("results/runs/mine/posterior.nc").is_file()


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


def test_a_check_that_the_budget_cut_short_is_told(slow, mine, capsys):
    """Draws that were not held against chains are not to be trusted; the remedy checks them."""
    hard("gamma")[0].to_csv("hard.csv", index=False)
    words = ["fit", "hard.csv", "y ~ a + b + c + d", "--model", "gamma"]
    assert main([*words, "--budget", "60s"]) == UNTRUSTED
    told = " ".join(capsys.readouterr().out.split())
    assert "the chains that check these draws did not end within the --budget; a longer --budget" in told
    assert not json.loads(choose.Path("results/runs/hard/fit.json").read_text())["agreed"]
    assert main([*words, "--budget", "2h", "--fresh"]) == 0
