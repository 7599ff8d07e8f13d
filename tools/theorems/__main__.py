"""What the papers' theorems say, beside what they are on a small graph; into results/measured/theorems.csv.

A graph of three binary variables, an edge of another strength between each two; for Theorem 4 two variables
with one edge; for the survey's Theorem 3.1 a logit on a grid (approximate_test.py); for mirror descent's
Theorem 2 logistic regression on a grid (inexact_prox.py). `make theorems`.
"""

import csv
import io
import math
import sys
from typing import Any

import numpy as np
from scipy import stats

from flyrun.experiments.report.illustrations.mgpmh_gap import mgpmh_bound, recalled_mgpmh_bound
from flyrun.experiments.samplers.chain.acceptance.austerity import austerity
from flyrun.experiments.samplers.chain.acceptance.confidence import confidence
from flyrun.ground import files
from tools.results.published import MEASURED
from tools.theorems import inexact_prox as prox
from tools.theorems import kept_estimates as kept
from tools.theorems.approximate_test import N, stationary, told
from tools.theorems.spectral_gap import SmallGraph, gap, gibbs, mgpmh

TABLE = MEASURED / "theorems.csv"
GRAPH = SmallGraph(3, 2, [((0, 1), 0.7 * np.eye(2)), ((0, 2), 0.3 * np.eye(2)), ((1, 2), 0.4 * np.eye(2))])
PAIR = SmallGraph(2, 2, [((0, 1), np.eye(2))])
DELTA, DOUBT = 0.2, 0.1  # what an estimate may be off by, and how likely it may be off by more
ISING_TOTAL = 416.14  # Ψ of the paper's Ising model
# ε of approximate tests; all but `bounds` are rules of the experiments
LEVELS = {"t_test": 0.01, "bounds": 0.2, "proxies": 0.01}
ROUNDING = 1e-12
XI = 1.5  # where untuned bounds of the logistic likelihood touch
_COLUMNS = ("claim", "value", "claimed", "holds")


def rows() -> list[dict[str, Any]]:
    """A row a claim: what it is here, and what the claim says that it is at most, or at least."""
    plain = gap(gibbs(GRAPH), GRAPH.stationary)
    batch = 4.0 * GRAPH.largest_local**2
    proposing = gap(mgpmh(GRAPH, batch), GRAPH.stationary)
    bounded = kept.two_points(GRAPH, DELTA)
    both = kept.min_gibbs(GRAPH, bounded), kept.double_min(GRAPH, batch, bounded)
    ratios = [gap(one, kept.joint(bounded)) / of for one, of in zip(both, (plain, proposing), strict=True)]
    tilted = [
        (chances, np.array([0.0, 2.0]) * energy)
        for (chances, _), energy in zip(bounded, GRAPH.energy, strict=True)
    ]
    law = kept.of_positions(stationary(kept.min_gibbs(GRAPH, tilted)), tilted)
    said = np.array([chances @ np.exp(values) for chances, values in tilted])
    pair = gap(mgpmh(PAIR, 16.0), PAIR.stationary) / gap(gibbs(PAIR), PAIR.stationary)
    tests = {
        "t_test": told(austerity(N, 100, LEVELS["t_test"])),
        "bounds": told(confidence(N, 20, 2.0, LEVELS["bounds"], "hoeffding_serfling")),
        "proxies": told(confidence(N, 20, 2.0, LEVELS["proxies"], "empirical_bernstein"), proxies=True),
    }
    recurrence, average = prox.worst(prox.lowered)
    found = [
        ("prox_recurrence", recurrence, 1.0),
        ("prox_average", average, 1.0),
        ("prox_by_value", prox.worst(prox.by_value)[0], 1.0),
        ("theorem_1", _apart(law, said / said.sum()), 1e-12),
        ("theorem_1_bias", _apart(law, GRAPH.stationary), 0.0),
        ("lemma_1", _mean_off(kept.poisson_sums(GRAPH, GRAPH.total**2)), 1e-8),
        ("theorem_1_unbiased", _off(both[0], bounded), 1e-12),
        ("theorem_5", _off(both[1], bounded), 1e-12),
        ("theorem_3", _apart(stationary(mgpmh(GRAPH, batch)), GRAPH.stationary), 1e-10),
        ("lemma_2", _beyond(), DOUBT),
        ("firefly_bright", _brightest(), 0.02),
        *((f"theorem_3_1_{name}", one.apart, max(one.claimed, ROUNDING)) for name, one in tests.items()),
        *((f"read_by_{name}", one.read, 0.5) for name, one in tests.items()),
        *((f"level_of_{name}", one.error, LEVELS[name]) for name, one in tests.items()),
    ]
    least = [
        ("theorem_2", ratios[0], math.exp(-6.0 * DELTA)),
        ("theorem_4", pair, recalled_mgpmh_bound(PAIR.largest_local, 16.0)),
        ("theorem_4_derived", pair, mgpmh_bound(PAIR.largest_local, 16.0)),
        ("theorem_6", ratios[1], math.exp(-4.0 * DELTA)),
    ]
    return [
        {"claim": name, "value": value, "claimed": claimed, "holds": value <= claimed}
        for name, value, claimed in found
    ] + [
        {"claim": name, "value": value, "claimed": claimed, "holds": value >= claimed}
        for name, value, claimed in least
    ]


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    """Total variation."""
    return float(0.5 * np.abs(one - other).sum())


def _off(matrix: np.ndarray, laws: kept.Laws) -> float:
    """How far x is from π in the law that a chain over (x, ε) leaves as it is."""
    return _apart(kept.of_positions(stationary(matrix), laws), GRAPH.stationary)


def _mean_off(laws: kept.Laws) -> float:
    """The largest |E e^ε / e^ζ − 1|."""
    means = [chances @ np.exp(values) for chances, values in laws]
    return float(np.abs(np.array(means) / np.exp(GRAPH.energy) - 1.0).max())


def _beyond() -> float:
    """P(|ε − ζ| > 1) of equation (2) with Lemma 2's batch on the paper's Ising model, at the worst energy."""
    total, delta = ISING_TOTAL, 1.0
    batch = max(8.0 * total**2 / delta**2 * math.log(2.0 / DOUBT), 2.0 * total**2 / delta)
    energy = total * np.linspace(0.01, 1.0, 100)
    step, count = math.log1p(total / batch), stats.poisson(batch * energy / total)
    return float((count.cdf((energy - delta) / step) + count.sf((energy + delta) / step)).max())


def _brightest() -> float:
    """The largest P(bright) where 0.1 < L < 0.9, of Jaakkola and Jordan's bound that touches at ξ = 1.5."""
    margin = np.log(np.array([0.1, 0.9]) / np.array([0.9, 0.1]))
    margin = np.linspace(*margin, 10_001)
    slope = -math.tanh(XI / 2.0) / (4.0 * XI)
    log_bound = slope * (margin**2 - XI**2) + (margin + XI) / 2.0 - math.log1p(math.exp(XI))
    return float((1.0 - np.exp(log_bound + np.log1p(np.exp(-margin)))).max())


def text(found: list[dict[str, Any]]) -> str:
    """The table."""
    out = io.StringIO()
    table = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(
        {**row, "value": f"{row['value']:.4g}", "claimed": f"{row['claimed']:.4g}"} for row in found
    )
    return out.getvalue()


if __name__ == "__main__":
    files.write_text(TABLE, text(rows()))
    print(f"wrote {TABLE}")
    sys.exit(0)
