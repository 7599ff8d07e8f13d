"""Whether weighted draws of small tables that are accepted are right: against long chains, table by table.

    python -m tools.certificate [--only FAMILY,…] [--resume] [--out FILE]

Tables are tools/certificate/cases.py's, references tools/certificate/long_chains.py's. Writes <out>.csv, a
table a row, and <out>.md; other rows of <out>.csv are kept where --only is given.
"""

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta

from flyrun.fitting import weighted_draws
from flyrun.ground.errors import FlyrunError
from flyrun.ground.page.render import View, markdown
from tools.certificate import long_chains
from tools.certificate.cases import FEWEST, KINDS, MOST, Case, cases
from tools.results.published import MEASURED, keep

RATIO, OFF = 0.08, 0.15  # how far an sd's ratio may be from 1; sds that a mean may be off by
_REAL = "rows of real tables"


def row_of(case: Case) -> dict[str, Any]:
    """What weights say of a table, and what long chains do."""
    posterior, began = case.posterior(), time.process_time()
    row = {
        "family": case.family,
        "kind": case.kind,
        "number": case.number,
        "rows": len(posterior.rows),
        "parameters": posterior.size,
    }
    try:
        found = weighted_draws.fit(posterior)
    except FlyrunError as error:
        return row | {"why": str(error)}
    row |= {"k_hat": found.k_hat, "effective": found.effective, "cpu_s": time.process_time() - began}
    known = long_chains.sample(posterior)
    mean, covariance = found.moments()
    ratio = np.sqrt(np.diag(covariance)) / known.sd
    return row | {
        "why": found.why,
        "sd_ratio": float(ratio[np.abs(np.log(ratio)).argmax()]),
        "off": float((np.abs(mean - known.mean) / known.sd).max()),
        "error": known.error,
    }


def usable(row: dict[str, Any]) -> bool:
    """Whether the table was accepted, and its reference settled."""
    return not row["why"] and row["error"] <= long_chains.ERROR


def wrong(row: dict[str, Any]) -> bool:
    """Whether an accepted answer is not the reference's."""
    return usable(row) and (abs(row["sd_ratio"] - 1.0) > RATIO or row["off"] > OFF)


def highest_rate(faults: int, accepted: int) -> float:
    """Below which the rate of faults is at 95 %, of so many that were accepted."""
    return float(beta.ppf(0.95, faults + 1, max(accepted - faults, 1)))


def page(rows: list[dict[str, Any]]) -> str:
    """Markdown: a row a kind, then a row a family."""
    groups = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    groups[_REAL] = [row for row in rows if row["kind"] not in KINDS]
    names = sorted({row["family"] for row in rows})
    families = {name: [row for row in rows if row["family"] == name] for name in names}
    header = ("", "tables", "refused", "worst sd ratio", "worst mean off", "wrong")
    views = [
        View(title, header, tuple(_line(name, some) for name, some in parts.items()))
        for title, parts in (("Kinds", groups), ("Families", families))
    ]
    accepted, faults = sum(map(usable, rows)), [row for row in rows if wrong(row)]
    refused = sum(bool(row["why"]) for row in rows)
    unsettled = [row for row in rows if not row["why"] and not row["error"] <= long_chains.ERROR]
    share = len(faults) / max(accepted, 1)
    most = highest_rate(len(faults), accepted)
    words = f"""\
{len(rows)} of {len(list(cases()))} tables of {FEWEST} to {MOST} rows, made to be hard or drawn of real ones
(tools/certificate/cases.py), in an order that mixes them. Each is answered by `flyrun fit`'s weighted draws
and by {long_chains.CHAINS} long chains of Hamiltonian Monte Carlo from far apart
(tools/certificate/long_chains.py), which go on until the standard errors of means and sds are
{100 * long_chains.ERROR:.2g} %. Refused, and left to chains: {refused}. Of {accepted} that are
accepted {len(faults)} are wrong ({100 * share:.2g} %; at 95 % the rate is below
{100 * most:.2g} %): an sd more than {100 * RATIO:g} %, or a mean more than
{OFF:g} sds, from the chains'."""
    told = [
        f"- Wrong: {_named(row)}, sd ratio {row['sd_ratio']:.3f}, mean {row['off']:.3f}." for row in faults
    ]
    told += [f"- Long chains did not settle: {_named(row)} (error {row['error']:.3f})." for row in unsettled]
    tables = [markdown(view).strip() for view in views]
    lines = ["# Small tables: weighted draws against long chains", "", words, "", "\n\n".join(tables)]
    return "\n".join([*lines, *([""] if told else []), *told, ""])


def _line(name: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    seen = [row for row in rows if usable(row)]
    ratio = max((row["sd_ratio"] for row in seen), key=lambda one: abs(math.log(one)), default=math.nan)
    off = max((row["off"] for row in seen), default=math.nan)
    refused = sum(bool(row["why"]) for row in rows)
    worst = [f"{one:.3f}" if seen else "–" for one in (ratio, off)]
    return name, f"{len(rows)}", f"{refused}", *worst, f"{sum(map(wrong, rows))}"


def _named(row: dict[str, Any]) -> str:
    return f"{row['family']} {row['kind']} {row['number']}"


def read(out: Path) -> list[dict[str, Any]]:
    """Rows of a file that `main` wrote."""
    return pd.read_csv(out, keep_default_na=False, na_values={}).to_dict("records") if out.exists() else []


def main() -> None:
    """Answer every table, print a line for each, write after each."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.certificate", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--only", type=lambda text: text.split(","), help="families; or kinds, or real tables"
    )
    parser.add_argument("--resume", action="store_true", help="leave out tables that FILE has")
    parser.add_argument("--out", type=Path, default=MEASURED / "certificate")
    asked = parser.parse_args()
    out, every = asked.out.with_suffix(".csv"), list(cases())
    kept = {_named(one): one for one in read(out)} if asked.only or asked.resume else {}
    mine = [one for one in every if not asked.only or {one.family, one.kind} & set(asked.only)]
    mine = [one for one in mine if not asked.resume or one.name not in kept]
    for case in sorted(mine, key=lambda one: one.number):
        row = row_of(case)
        print(f"{case.name}: {row['why'] or 'accepted'}; {row.get('sd_ratio', math.nan):.3f}", flush=True)
        kept[case.name] = row
        rows = [kept[one.name] for one in every if one.name in kept]
        keep(out, pd.DataFrame(rows), lambda table: page(read(out)))


if __name__ == "__main__":
    main()
