"""Whether what an arm hands in can be an answer: finite means and sds, a spread, means that the prior allows.

Every cell is held against this, whatever it answers with, before a page calls an arm exact.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.section import Row, Section
from flyrun.ground.page import words
from flyrun.ground.schema import SCHEMAS

FLAT = 1e-14
"""An sd of so little of its mean: the draws differ by a few roundings."""

UNLIKELY = 1e-15
"""Prior probability of all that is as far out as a mean."""

REACH = {"gaussian": 7.94, "laplace": 34.54}  # scales within which all but UNLIKELY of a coordinate lies


class _Moments(NamedTuple):
    """By coordinate, (D,); spread: whether sds have all their digits."""

    mean: np.ndarray
    sd: np.ndarray
    spread: bool = True


def summarise(draws: Draws) -> Row:
    """infinite: how many coordinates have a mean or an sd that is no finite number.  flat: how many have one
    that rounding makes.  outside: the coordinate whose mean is farthest out in the prior, [name, scales], or
    [] where the prior allows all means.
    """
    with np.errstate(all="ignore"):  # overflow is what is looked for
        moments = _moments(draws)
        if moments is None:
            return {}
        mean, sd, spread = moments
        finite = np.isfinite(mean) & np.isfinite(sd)
        flat = finite & (mean != 0) & (sd <= FLAT * np.abs(mean)) if spread else np.zeros_like(finite)
    return {"infinite": int((~finite).sum()), "flat": int(flat.sum()), "outside": _outside(draws, mean)}


def _moments(draws: Draws) -> _Moments | None:
    """Of what a cell hands in; None where it has no moments."""
    if draws.real():
        flat = draws.positions().reshape(len(draws.positions()), -1)
        return _Moments(flat.mean(axis=0), flat.std(axis=0)) if len(flat) > 1 else None
    theta, log_weight, sign = (draws.values("weighted", name) for name in ("theta", "log_weight", "sign"))
    if theta is not None and log_weight is not None and theta.dtype.kind == "f":
        weight = np.exp(log_weight - log_weight.max())
        weight = weight if sign is None else weight * sign
        flat, weight = theta.reshape(len(theta), -1), weight / weight.sum()
        mean = weight @ flat
        return _Moments(mean, np.sqrt(np.maximum(weight @ (flat - mean) ** 2, 0.0)), spread=False)
    mean, covariance = (draws.values("approximation", name) for name in ("mean", "covariance"))
    if mean is not None and covariance is not None and covariance.shape == (len(mean), len(mean)):
        return _Moments(mean, np.sqrt(np.diag(covariance)))
    mean, square = (draws.values("estimate", name) for name in ("mean", "square"))
    if mean is None or square is None or not len(mean):
        return None
    last, size = np.ravel(mean[-1]), np.ravel(square[-1])
    return _Moments(last, np.where(np.isfinite(size), size, np.nan) * 0.0, spread=False)


def _outside(draws: Draws, mean: np.ndarray) -> list:
    settings, scale = draws.info.get("settings", {}), draws.facts.get("prior_scale")
    chosen, prior = ((settings.get(group) or {}).get("name", "") for group in ("model", "prior"))
    model, reach = SCHEMAS["model"].get(chosen), REACH.get(prior)
    if reach is None or not scale or getattr(model, "auxiliary", True):  # numbers with priors of their own
        return []
    far = np.nan_to_num(np.abs(mean) / scale, nan=0.0)
    worst = int(far.argmax())
    names = draws.facts.get("coordinates") or ()
    name = names[worst] if len(names) == len(mean) else f"theta[{worst}]"
    return [name, float(far[worst])] if far[worst] > reach else []


_ARM_CAVEATS = """
{% if infinite %}
{{ infinite }} of its means or sds are no finite numbers: it has no answer.

{% endif %}
{% if flat %}
{{ flat }} of its sds are below {{ least }} of their means, which is rounding: its draws hardly differ, so
do not trust them.

{% endif %}
{% if name %}
its mean of {{ name }} is {{ scales | spec(".3g") }} prior scales from 0, beyond which the prior leaves less
than {{ unlikely }}: either data and prior contradict each other, or the answer is wrong.
{% endif %}
"""


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    far = [cell.outside for cell in arm.cells if cell.outside]
    name, scales = max(far, key=lambda outside: outside[1], default=("", 0.0))
    return words.lines(
        _ARM_CAVEATS, infinite=int(arm.each("infinite").max()), flat=int(arm.each("flat").max()), least=FLAT,
        name=name, scales=scales, unlikely=UNLIKELY,
    )  # fmt: skip


SECTION = Section(
    "plausible",
    place=20,
    reads=("infinite", "flat", "outside"),
    summarise=summarise,
    arm_caveats=_arm_caveats,
)
