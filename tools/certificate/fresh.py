"""Whether any answer of `flyrun fit` that is not marked is wrong: random tables against tempered particles.

    python -m tools.certificate.fresh [--first K] [--tables N] [--seed S] [--only F,…] [--resume] [--out FILE]

A tenth of the tables have a column of which few rows tell, and these disagree. Each goes through the engine
of `flyrun fit`, fallback and checks included, to its draws of even weight. References come from the prior
(tempered.py). An answer that is not marked is wrong where a mean is OFF sds, or the log of an sd WIDENED,
beyond what the reference leaves open, and a second, longer one too. Exit code 1 where one is. A number is
one table, whichever families are asked for. Writes <out>.csv, a table a row, and <out>.md.
"""

import argparse
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flyrun.families.family import family, names
from flyrun.fitting import engine, question
from flyrun.fitting.column_scales import own_scales
from flyrun.fitting.request import Budget, Clock, Request
from flyrun.ground.errors import FlyrunError
from flyrun.ground.page.render import View, markdown
from flyrun.tables import frames
from tools.certificate import tempered
from tools.certificate.__main__ import highest_rate
from tools.results.published import MEASURED, keep, read_kept

OFF, WIDENED = 0.12, 0.08
_BUDGET_S = 240.0
_FEW = 10  # one table of so many has a column of which few rows tell


def table(number: int, seed: int, only: list[str]) -> tuple[str, pd.DataFrame, bool]:
    """A family, a table whose target is y, and whether few rows tell of a column."""
    rng, few = np.random.default_rng([seed, number]), number % _FEW == 0
    while True:
        name = str(rng.choice(only))
        if few and rng.random() < 0.6 and "student_t" in only:
            name = "student_t"
        one = family(name)
        n, width = int(rng.integers(10, 120)), int(rng.integers(1, 4))
        x = pd.DataFrame({f"x{k}": _column(rng, n) for k in range(width)})
        if few:
            x["x0"] = (rng.permutation(n) < rng.integers(1, 7)).astype(float)
        levels = int(rng.integers(3, 5)) if one.target in ("ordered", "classes") else 0
        spread = rng.choice([0.3, 1.0, 3.0])
        standard = ((x - x.mean()) / x.std(ddof=0).clip(lower=1e-9)).to_numpy()
        eta = [
            standard @ (spread * rng.normal(size=width) / math.sqrt(width)) for _ in range(one.linear(levels))
        ]
        if one.link == "log":
            eta = [np.clip(each + rng.normal(), -4.0, 4.0) for each in eta]
        aux = [auxiliary.prior.draw(rng) for auxiliary in one.auxiliary(levels, 1.0)]
        trials = rng.integers(1, 9, n) if one.target == "successes" else np.ones(n, int)
        y = np.asarray(one.draw(rng, trials, [*eta, *aux]), float)
        if few:
            _disagree(one.target, x["x0"].to_numpy() > 0, y, trials, rng)
        if one.target == "regression":
            y = y * 10.0 ** rng.integers(-3, 4) + rng.normal() * 10.0
        counted = len(np.unique(y)) >= max(levels, 2) and (one.target != "counts" or y.max() < 1e6)
        positive = one.target != "positive" or (y.min() > 1e-9 and y.max() < 1e9)
        if counted and positive and np.isfinite(y).all() and (x.nunique() > 1).all():
            frame = x.assign(y=y)
            return name, frame.assign(trials=trials) if one.target == "successes" else frame, few


def _column(rng: np.random.Generator, n: int) -> np.ndarray:
    kind = rng.integers(4)
    if kind == 0:
        return (rng.random(n) < rng.uniform(0.05, 0.5)).astype(float)
    if kind == 1:
        return np.exp(1.5 * rng.normal(size=n))
    return rng.normal(size=n) * 10.0 ** rng.integers(-3, 4) + (kind == 2) * 50.0


def _disagree(
    target: str, few: np.ndarray, y: np.ndarray, trials: np.ndarray, rng: np.random.Generator
) -> None:
    """Targets of few rows that contradict each other, in place."""
    (which,) = np.nonzero(few)
    side = np.where(rng.random(len(which)) < 0.5, 1.0, -1.0)
    if target == "regression":
        y[which] = y[~few].mean() + side * rng.choice([5.0, 20.0, 300.0]) * y[~few].std() + y[which]
    elif target == "counts":
        y[which] = np.where(side > 0, 40.0 + np.floor(y[which]), 0.0)
    elif target == "positive":
        y[which] *= np.exp(4.0 * side)
    elif target == "successes":
        y[which] = np.where(side > 0, trials[which], 0.0)
    elif target == "binary":
        y[which] = side > 0


def row_of(number: int, seed: int) -> dict[str, Any]:
    """What is answered of a table, and how far that is off."""
    name, frame, few = table(number, seed, names())
    row: dict[str, Any] = {"seed": seed, "number": number, "family": name, "few": few, "rows": len(frame)}
    features = tuple(c for c in frame.columns if c.startswith("x"))
    settings: dict[str, Any] = {"features": features, "numeric": features}
    if name in ("logistic", "probit", "softmax", "ordinal"):
        codes = frame["y"].astype(int)
        frame["y"] = pd.Categorical(
            [f"c{k}" for k in codes], [f"c{k}" for k in sorted(set(codes))], ordered=True
        )
    elif "trials" in frame:
        settings["trials"] = "trials"
    began = time.monotonic()
    with frames.held(frame) as path:
        request = Request(path, "y", model=name, table=settings, budget=Budget(_BUDGET_S))
        asked = question.of(request)
        try:
            made = engine.answer(asked, Clock().spent(request.budget))
        except FlyrunError as error:
            return row | {"outcome": "refused", "marked": False, "why": str(error)}
        row["seconds"] = time.monotonic() - began
        known = tempered.sample(asked.posterior)
        judged = _judged(asked, made, known)
        if judged["outcome"] == "wrong":  # is it the reference that is?
            judged = _judged(asked, made, tempered.again(asked.posterior, known))
    return row | judged | {"marked": bool(made.doubt), "why": made.how}


def _judged(asked: question.Question, made: engine.Answer, known: tempered.Settled) -> dict[str, Any]:
    """How far an answer is from a reference, and what follows of it."""
    above_0 = {number.name for number in asked.posterior.auxiliary if number.scale == "log"}
    truth = _numbers(own_scales(asked.posterior, known.x, asked.layout), above_0)
    if made.weighted:
        whole = _numbers(made.weighted, above_0)
        weights = np.exp(made.weighted["log_weight"] - made.weighted["log_weight"].max())
        mean = np.average(whole, axis=0, weights=weights)
        sd = np.sqrt(np.average((whole - mean) ** 2, axis=0, weights=weights))
    else:
        flat = {name: draws.reshape(-1, *draws.shape[2:]) for name, draws in made.even.items()}
        even = _numbers(flat, above_0)
        mean, sd = even.mean(axis=0), even.std(axis=0)
    off = float((np.abs(mean - truth.mean(axis=0)) / truth.std(axis=0)).max())
    wide = float(np.abs(np.log(sd / truth.std(axis=0))).max())
    spare = max(known.error, 0.03)
    wrong = off > OFF + spare or wide > WIDENED + spare
    outcome = "unsettled" if known.error > 2 * tempered.ERROR else "wrong" if wrong else "right"
    return {"outcome": outcome, "off": off, "wide": wide, "error": known.error}


def _numbers(draws: dict[str, np.ndarray], above_0: set[str]) -> np.ndarray:
    """(S, P) of draws (S, …) by name; of numbers above 0 the logs, for few draws decide moments of a tail."""
    return np.column_stack(
        [
            (np.log(each) if name in above_0 else each).reshape(len(each), -1)
            for name, each in draws.items()
            if name not in ("log_weight", "sign")
        ]
    )


def wrong(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of answers that are not marked and not right."""
    return frame[(frame["outcome"] == "wrong") & ~frame["marked"]]


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of answers that are not marked, and whose reference settled."""
    return frame[frame["outcome"].isin(["right", "wrong"]) & ~frame["marked"]]


def page(frame: pd.DataFrame) -> str:
    """Markdown: what was done, a row a kind and a row a family, and which are wrong."""
    kinds = frame["few"].map({True: "few rows tell of a column", False: "others"})
    header = ("", "tables", "refused", "marked", "worst log of an sd's ratio", "worst mean off", "wrong")
    views = [
        View(title, header, tuple(_line(str(name), part) for name, part in frame.groupby(by)))
        for title, by in (("Kinds", kinds), ("Families", frame["family"]))
    ]
    count, accepted, faults = frame["outcome"].value_counts(), len(judged(frame)), wrong(frame)
    most = highest_rate(len(faults), accepted)
    words = f"""\
{len(frame)} random tables of 10 to 119 rows, of {frame["family"].nunique()} families
(tools/certificate/fresh.py). Each is answered as `flyrun fit` does, with chains where weights are refused, in
{_BUDGET_S:g} s at most; and by particles that go from the prior to the posterior
(tools/certificate/tempered.py), in two runs that should differ by less than {tempered.ERROR:g} sds.
Refused (exit code 2): {count.get("refused", 0)}. Marked as not to be trusted yet (exit code 3):
{frame["marked"].sum()}, {count.get("wrong", 0) - len(faults)} of which are off.
Of {accepted} others, whose reference settled, {len(faults)} are wrong
(at 95 % the rate is below {100 * most:.2g} %): a mean more than {OFF:g} sds, or the log of an sd more than
{WIDENED:g}, beyond what the reference leaves open."""
    told = [
        f"- Wrong: {row.family} {row.number}, {row.wide:.3f}, {row.off:.3f}." for row in faults.itertuples()
    ]
    left = frame[(frame["outcome"] == "unsettled") & ~frame["marked"]]
    told += [f"- Reference did not settle: {row.family} {row.number}." for row in left.itertuples()]
    tables = [markdown(view).strip() for view in views]
    title = "# Random small tables: what `flyrun fit` answers against tempered particles"
    return "\n".join([title, "", words, "", "\n\n".join(tables), *([""] if told else []), *told, ""])


def _line(name: str, frame: pd.DataFrame) -> tuple[str, ...]:
    seen, refused = judged(frame), (frame["outcome"] == "refused").sum()
    worst = [f"{seen[key].max():.3f}" if len(seen) else "–" for key in ("wide", "off")]
    return name, f"{len(frame)}", f"{refused}", f"{frame['marked'].sum()}", *worst, f"{len(wrong(frame))}"


def main() -> int:
    """All tables; exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the number of the first table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","), default=names(), help="families")
    parser.add_argument("--resume", action="store_true", help="leave out tables that FILE has")
    parser.add_argument("--out", type=Path, default=MEASURED / "certificate_fresh")
    args = parser.parse_args()
    out = args.out.with_suffix(".csv")
    rows = read_kept(out).to_dict("records") if args.resume and out.exists() else []
    known = {(row["seed"], row["number"]) for row in rows}
    for number in range(args.first, args.first + args.tables):
        if (args.seed, number) in known or table(number, args.seed, names())[0] not in args.only:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = row_of(number, args.seed)
        print({key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()}, flush=True)
        rows = sorted([*rows, row], key=lambda row: (row["seed"], row["number"]))
        keep(out, pd.DataFrame(rows), page)
    keep(out, frame := pd.DataFrame(rows), page)
    return 1 if len(wrong(frame)) else 0


if __name__ == "__main__":
    sys.exit(main())
