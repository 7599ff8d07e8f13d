"""Each family's posterior of its tables against that of a second implementation, into one page.

    python -m tools.truth [--only FAMILY,…] [--kind small,hard,long] [--out FILE]

`flyrun.fit` with its defaults of every table of tools/truth/tables.py, beside tools/truth/reference.py's.
Compared: slopes and intercept, and the logs or log odds of further parameters. Writes <out>.md and <out>.csv,
whose other rows are kept. Exit code 1 where a fit that vouches for itself is off.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import flyrun
from flyrun.families.family import family
from tools.pairs.__main__ import OFF, RATIO, Fit, held, line_of, row_of, whole
from tools.results.published import MEASURED, keep, read_kept
from tools.truth.reference import CHAINS, DRAWS, POINTS, WEIGHTED, stored
from tools.truth.tables import TABLES, Table


def fitted(table: Table) -> Fit:
    """The answer to a table, by term as the references have it; CPU seconds are without the imports."""
    frame, began = table.frame(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = flyrun.fit(frame, table.formula, model=table.family)
    seconds, about = time.process_time() - began, fit.checks()
    tree = fit.posterior
    group = tree["weighted"] if "weighted" in tree.children else tree["posterior"]
    draws = {name: group[name].to_numpy() for name in group.data_vars}
    beta = draws["beta"].reshape(-1, draws["beta"].shape[-1])
    beta_terms = [str(name) for name in group["coefficient"].to_numpy()]
    terms = {name: beta[:, d] for d, name in enumerate(beta_terms)}
    numbers = family(table.family).auxiliary(0, 1.0)
    read = [draws[number.name].ravel() for number in numbers]
    sampled = family(table.family).unread(np.stack(read, axis=-1)).T if numbers else ()
    for number, its in zip(numbers, sampled, strict=True):
        terms[f"{'log' if number.scale == 'log' else 'logit'} {number.name}"] = its
    weight = np.exp(draws["log_weight"] - draws["log_weight"].max()) if "log_weight" in draws else None
    if "sign" in draws:
        weight = weight * draws["sign"]
    mean = {term: float(np.average(x, weights=weight)) for term, x in terms.items()}
    sd = {
        term: float(np.sqrt(np.average((x - mean[term]) ** 2, weights=weight))) for term, x in terms.items()
    }
    chains = 0 if weight is not None else len(tree["posterior"]["chain"])
    summary = fit.summary()
    ess = float(summary["ess_bulk" if "ess_bulk" in summary else "ess"].min())
    for term in beta_terms:  # by all draws, of which some are kept
        mean[term], sd[term] = summary.loc[term, "mean"], summary.loc[term, "sd"]
    return Fit(about["how"], chains, bool(about["agreed"]), mean, sd, ess, seconds)


def page(frame: pd.DataFrame) -> str:
    """Markdown: what was done, a row a table, and which are off."""
    rows = frame.to_dict("records")
    off = [row for row in rows if not held(row["off"], row["sd_ratio"])]
    families = len({row["family"] for row in rows})
    missing = [
        one.name for one in TABLES if (one.family, one.kind) not in {(r["family"], r["table"]) for r in rows}
    ]
    words = f"""\
{families} families on generated tables (tools/truth/tables.py): small ones, hard ones, and ones of 10⁶ rows.
`flyrun.fit` had its defaults. References are a second implementation's, under the same priors
(tools/truth/second.py): of small and hard tables NumPyro's NUTS, {CHAINS} chains of {DRAWS:,} draws, and
{WEIGHTED:,} draws about its moments, weighted; of 10⁶ rows {POINTS} to 256 Sobol' points about its mode,
which all rows weight. "Mean off": the largest difference of a mean, in the reference's sds. "sd ratio":
flyrun's sd by the reference's, the one farthest from 1. Both are of coefficients, and of logs or
log odds of further parameters, as kept draws have them (at most 20,000), for few draws decide the moments
of a long tail. Asked for: means within {OFF:g} sd and sds within {100 * RATIO:g} %. {
        len(rows) - len(off)
    } of {len(rows)} tables
keep to both."""
    told = [line_of(row) for row in off]
    if missing:
        told.append(f"- Not compared yet: {', '.join(missing)}.")
    return whole("Families: `flyrun fit` against a second implementation", words, "Tables", rows, told)


def main() -> int:
    """Fit, print a line for each, write page and table after each."""
    parser = argparse.ArgumentParser(prog="python -m tools.truth", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=lambda text: text.split(","), help="families")
    parser.add_argument("--kind", type=lambda text: text.split(","), default=["small", "hard", "long"])
    parser.add_argument("--out", type=Path, default=MEASURED / "families")
    asked = parser.parse_args()
    out = asked.out.with_suffix(".csv")
    known = read_kept(out).to_dict("records") if out.exists() else []
    rows = {(row["family"], row["table"]): row for row in known}
    references, wrong = stored(), []
    for one in TABLES:
        wanted = not asked.only or one.family in asked.only
        if not wanted or one.kind.partition(":")[0] not in asked.kind or one.name not in references:
            continue
        fit = fitted(one)
        row = row_of(one.kind, one.family, one.rows, fit, references[one.name])
        rows[one.family, one.kind] = row
        fine = held(row["off"], row["sd_ratio"])
        said = f"{row['way']}, {row['effective']:,.0f} effective, {row['seconds']:.1f} s"
        said += f", off {row['off']:.3f}, sd {row['sd_ratio']:.3f}{'' if fine else '  OFF'}"
        print(f"{one.name}: {said}", flush=True)
        if not fine and fit.agreed:
            wrong.append(one.name)
        order = [rows[key] for each in TABLES if (key := (each.family, each.kind)) in rows]
        keep(out, pd.DataFrame(order), page)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
