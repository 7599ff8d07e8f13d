"""flyrun plan: which exact method will be cheapest on a posterior, before any runs."""

from pathlib import Path

from flyrun.cli.options import take
from flyrun.config.catalogue import options
from flyrun.config.schema import did_you_mean, typed_choices
from flyrun.errors import ConfigError

_MODELS = {"binary": "logistic", "classes": "softmax", "regression": "student_t"}
DRAWS = 1_000


def run(words: list[str]) -> int:
    """Print a line for every method, cheapest draw first."""
    found, given = take("plan", words, ("target",), plain_too=lambda word: not word.startswith("--"))
    plain = [word for word in found if "=" not in word]
    if len(plain) != 1:
        what = f"{plain[1]}: one is enough" if plain else "a dataset is missing"
        raise ConfigError(
            f"plan: {what}; as in `flyrun plan mnist_7v9`, or `flyrun plan mine.csv --target COLUMN`"
        )
    overrides = _dataset(plain[0], given.get("target"))
    typed = [word for word in found if "=" in word]
    arm, problem = _bound([*overrides, *typed], {word.partition("=")[0] for word in typed})
    from flyrun.plan.expected import expected  # late: numba

    rows = expected(arm, problem)
    size, several = len(problem.features.rows), len(problem.coordinates)
    print(f"{plain[0]}: {size:,} rows, {several} coefficients, {arm.model.name}, {arm.prior.name} prior\n")
    head = ("", "candidates", "acceptance", "queries/draw", f"{DRAWS:,} draws", "set-up")
    print(_line(head))
    for one in rows:
        cells = (
            one.name,
            "all" if one.candidates is None else f"{one.candidates:,.3g}",
            "-" if one.acceptance is None else f"{one.acceptance:.2f}",
            f"{one.queries:,.3g}" if one.queries < 100 else f"{one.queries:,.0f}",
            f"{one.whole(DRAWS):,.0f}",
            f"{one.setup:,}",
        )
        print(_line(cells))
    print(f"\nthe first with: {rows[0].words}")
    print(
        "a Zig-Zag's candidates are those of a unit of time; queries are likelihoods evaluated, an estimate"
    )
    return 0


def _line(cells: tuple[str, ...]) -> str:
    return f" {cells[0]:<30}" + "".join(f"{cell:>14}" for cell in cells[1:])


def _dataset(name: str, target: str | None) -> list[str]:
    if name in options("dataset"):
        return [f"dataset={name}"]
    if not Path(name).expanduser().exists():
        close = did_you_mean(name, options("dataset"))
        raise ConfigError(f"plan {name}: no such dataset{close} and no such file; see `flyrun list dataset`")
    if target is None:
        raise ConfigError(f"plan {name}: name the column to explain with --target COLUMN")
    return ["dataset=table", f"dataset.path={name}", f"dataset.target={target}"]


def _bound(words: list[str], typed: set[str]):
    """The arm and problem of these words; without a model the one that the data are for."""
    from flyrun import paths  # late, as the next two: Hydra takes a third of a second, numba more
    from flyrun.config.compose import compose_job  # late
    from flyrun.models.problem import bind  # late

    more = ["sampler=laplace", *([] if "prior" in typed else ["prior=gaussian"])]
    if "model" not in typed:
        import flyrun.data  # late: where no model was named

        guess = compose_job([*words, "model=logistic", *more]).arms[0].dataset
        words = [*words, f"model={_MODELS[flyrun.data.load(guess).task]}"]
    arm = compose_job([*words, *more]).arms[0]
    if not arm.model.orders:
        fitting = typed_choices("model", lambda cls: bool(getattr(cls, "orders", ())))
        raise ConfigError(f"model={arm.model.name}: there is nothing to plan; choose {fitting}")
    return arm, bind(arm, paths.cache_dir("setup"), needs_map=True)
