"""How far Gaussian approximations are from their posterior by their own certificate."""

import math

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.metrics import Value, k_hat, table
from flyrun.experiments.report.section import Section
from flyrun.ground.diagnostics.psis import HEAVY
from flyrun.ground.page.metrics import Metric, Row
from flyrun.ground.page.render import NOTHING, known, number

FAR = 25.0  # of 1,000 draws even the best may be nowhere near the posterior, and k̂ knows nothing of it


def _each(arm: ArmResult, name: str) -> np.ndarray:
    """Of every seed, (S,), NaN where its certificate does not tell."""
    values = [info.get("facts", {}).get(f"certificate_{name}", math.nan) for info in arm.infos]
    return np.array(values, float)


def _has(arm: ArmResult) -> bool:
    return any("certificate_variance" in info.get("facts", {}) for info in arm.infos)


def _of_all(name: str) -> Value:
    """Mean over all seeds: NaN where one does not tell, as a mean of the others would flatter."""
    return lambda run, arm: float(_each(arm, name).mean()) if _has(arm) else math.nan


def _error(run: Run, arm: ArmResult) -> float:
    """Of the mean variance: what a certificate does not know, or what seeds differ by where that is more."""
    unknown, each = float(_each(arm, "error").mean()), _each(arm, "variance")
    return max(unknown, float(each.std(ddof=1)) / math.sqrt(len(each))) if len(each) > 1 else unknown


def _largest(run: Run, arm: ArmResult) -> float:
    """k̂ of the worst seed; where weights are about even there is none."""
    return float(np.nanmax(each)) if not np.isnan(each := _each(arm, "k_hat")).all() else math.nan


def _unknown(run: Run, arm: ArmResult) -> int:
    return int(np.isnan(_each(arm, "kl")).sum()) if _has(arm) else 0


def _kl(row: Row) -> str:
    if known(row.get("certificate_kl")):
        return number(row["certificate_kl"], 2)
    unknown = row.get("certificate_kl_unknown")
    return f"unknown of {unknown:.0f} of {row['seeds']:.0f}" if known(unknown) and unknown else NOTHING


METRICS = [
    Metric(
        "certificate_variance", "Var log w", _of_all("variance"),
        "variance of log posterior − log approximation over 1,000 draws of the latter, mean over seeds",
    ),
    Metric(
        "certificate_error", "± se", _error,
        "its standard error, with the spread of seeds; too small where weights have heavy tails", digits=2,
    ),
    Metric(
        "certificate_kl", "KL (nats)", _of_all("kl"), digits=2, text=_kl,
        means="of the approximation from the posterior as far as its draws reach: half of that variance, "
        "where it is below ½ in every seed. A mode that none of its draws has found cannot be seen from them",
    ),
    Metric("certificate_kl_unknown", of=_unknown),
    k_hat("certificate_k_hat", _largest),
    Metric(
        "certificate_queries", "queries", _of_all("queries"),
        "likelihoods that the certificate took, counted nowhere else",
    ),
]  # fmt: skip


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    if not _has(arm):
        return []
    shape, variance = _largest(run, arm), np.max(_each(arm, "variance"))
    if shape > HEAVY:  # weights that are about even have none
        return [f"its certificate's k̂ is {shape:.2f}, above {HEAVY}: it is far from the posterior somewhere."]
    if np.isnan(variance):
        return ["its certificate is no number: how far it is from the posterior is not known."]
    if variance > FAR:
        return [f"Var log w is {number(variance, 2)}, above {FAR:g}: it is far from the posterior."]
    return []


SECTION = Section(
    "certificates", place=190,
    metrics=METRICS, when=lambda run: any(map(_has, run.done)), arm_caveats=_arm_caveats,
    views=lambda rows: [table(
        "How far approximations are, by their own certificate", METRICS,
        [row for row in rows if known(row["certificate_variance"])],
    )],
)  # fmt: skip
