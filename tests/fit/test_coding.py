"""How a column of two values is written does not change the model."""

import numpy as np
import pandas as pd
import pytest

from flyrun.experiments import data
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.models import problem
from flyrun.fitting import engine, question
from flyrun.fitting.column_scales import Scales
from flyrun.fitting.request import Request
from flyrun.tables.layout import Layout
from flyrun.tables.options import Table

N = 80
CODINGS = {
    "0/1": (0, 1),
    "1/2": (1, 2),
    "-1/1": (-1, 1),
    "0/100": (0.0, 100.0),
    "truth": (False, True),
    "words": ("no", "yes"),
}


def coded(folder, coding, rare=0.05):
    """A table with a rare event written in some way, and its options."""
    rng = np.random.default_rng(3)
    event, x = rng.random(N) < rare, rng.normal(size=N)
    y = rng.random(N) < 1.0 / (1.0 + np.exp(-x - event))
    path = folder / "mine.csv"
    pd.DataFrame({"event": np.array(CODINGS[coding])[event.astype(int)], "x": x, "y": y}).to_csv(
        path, index=False
    )
    return Table(path=str(path), target="y")


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("coding", CODINGS)
def test_rows_and_differences_are_those_of_a_category(coding, tmp_path):
    """A coding that changes the model: any two values give the rows, and prior, of two words."""
    wanted = data.load(coded(tmp_path, "words"))
    found = data.load(coded(tmp_path, coding))
    np.testing.assert_array_equal(found.features, wanted.features)
    layout = Layout.from_dict(found.info["layout"])
    beta = Scales.of(layout).apply(np.array([0.5, -1.0, 0.25]))
    low, high = (float(one) if coding != "words" else one == "yes" for one in CODINGS[coding])
    # what is predicted for an event and for none is the same, on whatever scale the column is
    assert beta[0] * (high - low) == pytest.approx(0.5)
    mean, sd = layout.features[1].mean, layout.features[1].sd
    assert beta[2] + beta[0] * low == pytest.approx(0.25 + mean / sd)


def test_draws_are_the_same_in_every_coding(tmp_path):
    draws = []
    for coding in ("0/1", "truth", "words"):
        asked = question.of(Request(coded(tmp_path, coding).path, "y"))
        draws.append(engine.answer(asked).weighted["beta"])
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])
    assert np.ptp(draws[0], axis=0).min() > 0.0


def test_numbers_of_a_target_and_what_is_not_standardised_keep_their_own_scale(tmp_path):
    table = coded(tmp_path, "1/2")
    whole = data.load(Table(path=table.path, target="event", features=("x",), task="regression"))
    assert whole.target.std() == pytest.approx(1.0)
    own = data.load(Table(path=table.path, target="y", standardize=False))
    assert set(own.features[:, 0]) == {1.0, 2.0}


def test_a_mode_is_not_recalled_once_tables_are_encoded_otherwise(tmp_path, monkeypatch):
    """What is kept from one version to the next is keyed by the code that made it: here, the loader's."""
    words = [f"dataset.path={coded(tmp_path, '0/1').path}", "dataset.target=y", "model=logistic"]
    arm = compose_job(["dataset=table", *words, "sampler=hmc"]).arms[0]
    asked = []
    monkeypatch.setattr(problem.code_digest, "of_modules", lambda names, *_: asked.extend(names) or "")
    problem.bind(arm, tmp_path / "other", needs_map=True)
    assert "flyrun.tables.loader" in asked
