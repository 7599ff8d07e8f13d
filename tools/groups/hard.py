"""Whether any answer of `flyrun fit` to a hard table with groups is accepted and wrong: against many
chains.

    python -m tools.groups.hard [--only KIND,…] [--families FAMILY,…] [--first 0] [--last N] [--resume]
        [--budget 600] [--references FOLDER] [--out FILE]

Kinds: two groups; three of three rows each; effects of sd 0; of sd 4 with three rows a group, most of which
are all alike; slopes that are ± the intercepts; one row a group. Each with (1 | g), (x | g), (x || g), a
crossed and a nested factor, where such a term can be. Compared: coefficients, further numbers, sds,
correlations and some effects (tools/groups/beside.py). Writes <out>.csv, a table a row, and <out>.md. Exit
code 1 where an accepted answer is wrong. Takes an hour.
"""

import argparse
import math
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

from flyrun.families.family import family
from flyrun.ground import environment
from flyrun.ground.page.render import View, markdown
from tools.groups.beside import ALLOWED, ERROR, FURTHER, OFF, WIDENED, Bar, Case, row_of
from tools.groups.many_chains import CHAINS
from tools.results.published import MEASURED, keep, read_kept

KINDS = ("two groups", "three by three", "sd 0", "separated", "correlation 1", "a row each")
FAMILIES = ("gaussian", "logistic", "poisson", "negative_binomial", "gamma", "student_t", "ordinal")
_SEPARATED = ("logistic", "poisson", "negative_binomial", "ordinal")  # whose rows of a group may be all alike
TERMS = {
    "intercepts": (Bar("g"),),
    "slopes": (Bar("g", ("x",)),),
    "uncorrelated": (Bar("g", ("x",), False),),
    "crossed": (Bar("g"), Bar("h")),
    "nested": (Bar("g"), Bar("g:s")),
}
BUDGET = 600.0  # seconds, as a fit has by default
SIZES = {  # groups, rows of each
    "two groups": (2, 12),
    "three by three": (3, 3),
    "sd 0": (10, 5),
    "separated": (10, 3),
    "correlation 1": (12, 5),
    "a row each": (40, 1),
}


def cases() -> list[tuple[str, str, str]]:
    """Kind, family and terms of each table, in an order that mixes them."""
    every = [
        (kind, of, terms)
        for kind in KINDS
        for of in (_SEPARATED if kind == "separated" else FAMILIES)
        for terms in TERMS
        if kind != "correlation 1" or terms in ("slopes", "uncorrelated")
        if kind != "a row each" or terms in ("intercepts", "crossed")  # x, and nested groups, are alike there
    ]
    return sorted(every, key=lambda one: crc32(" ".join(one).encode()))


def case(kind: str, of: str, terms: str) -> Case:
    """The same whenever it is made."""
    name = f"{kind}, {of}, {terms}"
    rng = np.random.default_rng(crc32(name.encode()))
    groups, each = SIZES[kind]
    n, bars = groups * each, TERMS[terms]
    while True:
        g = np.repeat(np.arange(groups), each)
        codes = {"g": g, "h": rng.permutation(n) % 3, "s": np.arange(n) % 2}
        x = rng.standard_normal(n)
        x = (x - x.mean()) / x.std()
        sd = {"sd 0": 0.0, "separated": 4.0}.get(kind, 1.0)
        u = sd * rng.standard_normal(groups)
        slopes = (
            u * rng.choice([-1.0, 1.0]) if kind == "correlation 1" else 0.5 * sd * rng.standard_normal(groups)
        )
        eta = 0.3 + 0.5 * x + u[g] + (slopes[g] * x if bars[0].slopes else 0.0)
        if len(bars) > 1:
            more = np.unique(
                bars[1].levels(pd.DataFrame({k: v.astype(str) for k, v in codes.items()})),
                return_inverse=True,
            )[1]
            eta = eta + 0.7 * sd * rng.standard_normal(more.max() + 1)[more]
        eta = np.clip(eta, -6.0, 6.0 if family(of).link != "log" else 4.0)
        y = np.asarray(family(of).draw(rng, 1, [eta, *(np.array([a]) for a in FURTHER.get(of, []))]), float)
        if len(np.unique(y)) >= (3 if of == "ordinal" else 2):
            break
    frame = pd.DataFrame({name: [f"{name}{code:02d}" for code in its] for name, its in codes.items()})
    used = {part for bar in bars for part in bar.group.split(":")}
    frame = frame[[name for name in frame if name in used]].assign(x=x, y=y)
    if of == "ordinal":
        frame["y"] = pd.Categorical([f"c{int(k)}" for k in y], ["c0", "c1", "c2"], ordered=True)
    elif of in ("logistic", "poisson", "negative_binomial"):
        frame["y"] = frame["y"].astype(int)
    return Case(name, of, frame, ("x",), bars)


def page(table: pd.DataFrame) -> str:
    """Markdown: a row a kind, then a row a family, and what was refused."""
    rows = table.to_dict("records")
    accepted = [row for row in rows if row["outcome"] != "refused" and not row["marked"]]
    views = [
        View(title, _HEADER, tuple(_line(name, [row for row in rows if row[key] == name]) for name in names))
        for title, key, names in (
            ("Kinds", "kind", KINDS),
            ("Families", "family", FAMILIES),
            ("Terms", "terms", TERMS),
        )
    ]
    wrong = [row for row in accepted if row["outcome"] == "wrong"]
    words = f"""\
{len(rows)} of {len(cases())} small tables with groups that are hard (tools/groups/hard.py). Each is answered
by `flyrun fit` and by {CHAINS} long chains under the same priors, with terms written a second time
(tools/groups/many_chains.py), which go on until standard errors of means and sds are {100 * ERROR:g} %; where
groups of normal noise have a row each, by draws from the prior with weights (tools/groups/prior_draws.py).
Of {len(accepted)} that were accepted {len(wrong)} are wrong: a mean more than {OFF:g} sds, or an sd more
than {100 * WIDENED:g} %, from the chains', beside {ALLOWED:g} standard errors of both. Numbers: coefficients,
sds, correlations, further parameters and some effects, by the chains' normal scores
(tools/groups/beside.py), for draws do not tell the moments of long tails. "Exit code 3": answers that say
that they are not to be trusted yet, in {BUDGET:g} seconds on a shared core."""
    told = [
        f"- Wrong: {row['name']}: {row['worst']}, {row['off']:.3f} sds, sd ratio {row['wide']:.3f}."
        for row in wrong
    ]
    told += [f"- Exit code 3: {row['name']}." for row in rows if row["marked"] is True]
    told += [f"- Refused: {row['name']}: {row['why']}" for row in rows if row["outcome"] == "refused"]
    told += [
        f"- Long chains did not settle: {row['name']} ({row['why']})."
        for row in rows
        if row["outcome"] == "unsettled"
    ]
    tables = [markdown(view).strip() for view in views]
    about = environment.describe()
    made = f"{about['cpu']}, {os.cpu_count()} cores; flyrun {about['flyrun']}; {datetime.now(UTC):%Y-%m-%d}."
    return "\n".join(
        [
            "# Hard tables with groups: `flyrun fit` against long chains",
            "",
            words,
            "",
            "\n\n".join(tables),
            "",
            *told,
            made,
            "",
        ]
    )


_HEADER = (
    "",
    "tables",
    "right",
    "exit code 2",
    "exit code 3",
    "worst sd ratio",
    "worst mean off",
    "not settled",
    "wrong",
)


def _line(name: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    refused = [row for row in rows if row["outcome"] == "refused"]
    marked = [row for row in rows if row["marked"] is True]
    seen = [row for row in rows if row["outcome"] in ("right", "wrong") and row["marked"] is not True]
    ratio = max((row["wide"] for row in seen), key=lambda one: abs(math.log(one)), default=math.nan)
    off = max((row["off"] for row in seen), default=math.nan)
    worst = [f"{one:.3f}" if seen else "–" for one in (ratio, off)]
    unsettled = sum(row["outcome"] == "unsettled" for row in rows)
    counts = (
        len(rows),
        sum(row["outcome"] == "right" for row in seen),
        len(refused),
        len(marked),
        *worst,
        unsettled,
        sum(row["outcome"] == "wrong" for row in seen),
    )
    return (name, *map(str, counts))


def main() -> int:
    """All tables; exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.groups.hard", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--only", type=lambda text: text.split(","), default=KINDS)
    parser.add_argument("--families", type=lambda text: text.split(","), default=FAMILIES)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=10**6)
    parser.add_argument("--resume", action="store_true", help="leave out tables that FILE has")
    parser.add_argument("--budget", type=float, default=BUDGET)
    parser.add_argument("--references", type=Path, help="folder that keeps them, and whose are taken")
    parser.add_argument("--out", type=Path, default=MEASURED / "group_hard")
    asked = parser.parse_args()
    out = asked.out.with_suffix(".csv")
    kept = read_kept(out).to_dict("records") if out.exists() else []
    rows = {row["name"]: row for row in kept}
    for kind, of, terms in cases()[asked.first : asked.last]:
        name = f"{kind}, {of}, {terms}"
        if kind not in asked.only or of not in asked.families or (asked.resume and name in rows):
            continue
        began = time.monotonic()
        row = {"name": name, "kind": kind, "terms": terms}
        row |= row_of(case(kind, of, terms), asked.budget, asked.references)
        row["marked"] = bool(row.get("marked"))
        rows[name] = row
        about = [f"{row[key]:.3f}" for key in ("off", "wide", "share") if key in row]
        said = [row["outcome"], "exit code 3" * row["marked"], row.get("worst", ""), *about, row["why"]]
        said.append(f"{time.monotonic() - began:.0f} s")
        print(f"{name}: {', '.join(filter(None, said))}", flush=True)
        keep(out, pd.DataFrame(list(rows.values())), page)
    wrong = [row["name"] for row in rows.values() if row["outcome"] == "wrong" and not row["marked"]]
    print(f"{len(rows)} tables, {len(wrong)} accepted and wrong: {'; '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
