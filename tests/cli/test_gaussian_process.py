"""Gaussian processes as a person runs them: a small run with its report, and bad calls of one line each."""

import csv
import json

import pytest

from flyrun.cli.main import main

CURVE = "dataset=noisy_curve dataset.n_data=40 model=gaussian_process protocol=smoke"
PMD = f"{CURVE} sampler=pmd_inducing sampler.inducing=5"
CALLS = {
    f"{CURVE} sampler=pmd_inducing sampler.inducing=41": "sampler.inducing=41: must be at most the number of",
    f"{CURVE} sampler=svi_gp sampler.inducing=100": "sampler.inducing=100: must be at most",
    f"{CURVE} sampler=smc_inducing": "sampler.inducing=128: must be at most",
    f"{CURVE} sampler=subset_of_data sampler.inducing=41": "sampler.inducing=41: must be at most",
    f"{PMD} sampler.inducing=0": "sampler.inducing=0: must be a whole number at least 1",
    f"{PMD} sampler.particles=0": "sampler.particles=0: must be a whole number at least 1, such as 16",
    f"{PMD} sampler.batch=0": "sampler.batch=0: must",
    f"{PMD} sampler.decay=0": "sampler.decay=0: must be a finite number in (0, 1]",
    f"{PMD} sampler.decay=1.5": "sampler.decay=1.5: must be a finite number in (0, 1]",
    f"{PMD} sampler.delay=-1": "sampler.delay=-1: must",
    f"{PMD} sampler.batches=passes": "sampler.batches=passes: must be epochs or replacement",
    f"{PMD} model.noise=0": "model.noise=0: must be a finite number in [1e-100, 1e+100], such as 0.1",
    f"{PMD} model.length=0": "model.length=0: must",
    f"{PMD} dataset.noise=-1": "dataset.noise=-1: must",
    f"{PMD} prior=gaussian": "prior=gaussian: model=gaussian_process has none; drop it",
    f"{CURVE} sampler=hmc": "do not fit in arm regular: with this model choose pmd_inducing, svi_gp",
    "dataset=toy_2d model=logistic prior=gaussian sampler=svi_gp": "sampler=svi_gp and model=logistic",
    "dataset=grid model=gaussian_process sampler=exact_gp": "dataset=grid and model=gaussian_process",
    "dataset=toy_2d model=gaussian_process sampler=exact_gp protocol=smoke": "is for numbers, not",
    "dataset=two_modes model=gaussian_process sampler=exact_gp protocol=smoke": "there are none; take",
}


@pytest.fixture(autouse=True)
def apart(tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


@pytest.mark.parametrize("line", CALLS)
def test_bad_calls(line, capsys):
    code = main(line.split(" "))
    printed = capsys.readouterr()
    errors = [one for one in printed.err.splitlines() if one.startswith("flyrun: error: ")]
    assert (code, len(errors)) == (2, 1), printed
    assert CALLS[line] in errors[0]
    assert "Traceback" not in printed.err + printed.out


@pytest.mark.thorough
@pytest.mark.figures
def test_the_experiment_ends_with_a_report_of_predictions(tmp_path):
    words = ["experiment=pmd_gp", "protocol=smoke", "protocol.seeds=1", "protocol.iterations=20"]
    words += ["only=[pmd,pmd_60,svi,subset_of_data,exact_gp]", "arms.pmd_60.sampler.particles=10"]
    assert main([*words, f"results_dir={tmp_path}", "executor.workers=1"]) == 0
    run = tmp_path / "runs/pmd_gp"
    rows = {row["arm"]: row for row in csv.DictReader((run / "table.csv").open())}
    value = {
        arm: {name: float(row[name] or "nan") for name in ("rmse", "off", "sd_ratio", "equal_rmse")}
        for arm, row in rows.items()
    }
    assert rows["exact_gp"]["exact"] == "True"
    assert rows["exact_gp"]["off"] == ""
    assert rows["pmd"]["exact"] == "False"
    assert float(rows["pmd"]["queries"]) == 50 * float(rows["pmd"]["visits"]) == 50 * 1_000
    assert value["pmd"]["rmse"] < 1.25 * value["exact_gp"]["rmse"] < value["subset_of_data"]["rmse"] / 4
    assert value["pmd_60"]["off"] < value["pmd"]["off"] < value["subset_of_data"]["off"]
    assert 0.9 < value["pmd_60"]["sd_ratio"] < 1.1 < value["pmd"]["sd_ratio"]
    assert value["pmd"]["equal_rmse"] > 0
    figures = {path.stem for path in (run / "figures").glob("*.svg")}
    assert figures == {
        "prediction_errors", "predicted_function", "posterior_by_steps", "posterior_convergence"
    }  # fmt: skip
    text = " ".join((run / "figures/posterior_by_steps.svg").read_text().split())
    assert all(f"<!-- after {steps} -->" in text for steps in ("0 steps", "1 step", "5 steps", "20 steps"))
    assert all(f"<!-- {name} -->" in text for name in ("input", "function", "the truth"))
    page = (run / "report.html").read_text()
    assert "weights' effective number" in page or "weights&#39; effective number" in page
    assert json.loads((run / "table.json").read_text())["rows"]
