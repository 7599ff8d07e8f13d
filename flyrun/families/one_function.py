"""A likelihood of another package from one function of a row, log_likelihood(eta, y, ...).

Written with jax.numpy, it has JAX's derivatives: value, slopes and second derivatives are traced once, for
numbers, and written out as plain Python of numbers or arrays, which is a family as flyrun's others are. So
all that takes a family takes it, and nothing calls JAX again. Written with NumPy, it brings `slope` and
`curvature`. A package's module derives from RowLikelihood at its top, and every command imports it: SciPy,
which families need, is imported where it is used.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from flyrun.families import domains
from flyrun.families.options import FamilyModel
from flyrun.ground.errors import ConfigError

if TYPE_CHECKING:  # JAX is not among what flyrun needs
    from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

    from flyrun.families.domains import Domain
    from flyrun.families.family import Auxiliary, Family, Link
    from flyrun.ground.numerics.special import Numbers

#: primitive of JAX -> the same of numbers or arrays; {0}, {1} and {2} stand for what it is applied to
_WRITTEN = {
    "add": "{0} + {1}", "add_any": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}",
    "neg": "-{0}", "square": "{0} * {0}", "pow": "np.power({0}, {1})", "rsqrt": "1.0 / np.sqrt({0})",
    "max": "np.maximum({0}, {1})", "min": "np.minimum({0}, {1})", "lt": "{0} < {1}", "le": "{0} <= {1}",
    "gt": "{0} > {1}", "ge": "{0} >= {1}", "eq": "{0} == {1}", "ne": "{0} != {1}", "and": "{0} & {1}",
    "or": "{0} | {1}", "not": "np.logical_not({0})", "select_n": "choose({0}, {2}, {1})",
    "logistic": "sigmoid({0})", "lgamma": "log_gamma({0})", "is_finite": "np.isfinite({0})",
    "atan": "np.arctan({0})", "asinh": "np.arcsinh({0})", "copy": "{0}", "stop_gradient": "{0}",
}  # fmt: skip
_WRITTEN |= {name: f"{name}({{0}})" for name in ("digamma", "erf", "erfc")}
for _name in "exp log log1p expm1 tanh sqrt sign abs sin cos sinh cosh floor".split():  # noqa: SIM905
    _WRITTEN[_name] = f"np.{_name}({{0}})"
#: those that stand for what is traced within them
_CALLS = ("pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
_NAME = r"\bv\d+\b"
_BY_HAND = """
def log_density(y, trials, p):
    return log_likelihood({0})

def derivatives(y, trials, p):
    return (slope({0}),), ((curvature({0}),),)
"""


class RowLikelihood(FamilyModel):
    """A likelihood from one function of a row, of another package.

    A class of it has the static method log_likelihood(eta, y): of the linear predictor and the target, which
    is 0 or 1 of two labels. Where `known` is not empty it takes the row's number of that name next (as a
    scale; the dataset's `trials`), then what `sampled` names, as people read it. With NumPy it has slope and
    curvature too, of the same arguments: the derivative by eta, and minus the second one.

    draw(rng, eta, ...) draws targets: `flyrun fit` offers what has it. mean(eta, ...): the expected target,
    which link="own" needs. bounds: whether −∂²log L/∂η² has a bound for each row, so that Firefly serves;
    largest_curvature(y), or (y, known): that bound, (n,), where it is known, or else it is searched for.
    """

    bounds: ClassVar[bool] = True
    one_mode: ClassVar[bool] = False
    known: ClassVar[str] = ""
    if TYPE_CHECKING:
        link: ClassVar[Link]
        domain: ClassVar[Domain | None]
        sampled: ClassVar[tuple[Auxiliary, ...]]
        log_likelihood: ClassVar[Callable[..., Numbers]]
        draw: ClassVar[Callable[..., Numbers]]
    #: of the scale on which coefficients add up
    link = "identity"
    #: the target's, where it is not that of the task
    domain = None
    sampled = ()

    def __init_subclass__(cls) -> None:
        """What follows from what a class has."""
        cls.beside = ("offset", "weights", "trials") if cls.known else ("offset", "weights")
        cls.auxiliary = bool(cls.sampled)
        cls.bounds = cls.local_bounds = cls.bounds and not cls.sampled
        cls.task = cls.domain.name if cls.domain else cls.task
        # tables standardise what is of task "regression", and know no number of a row but trials
        cls.for_tables = hasattr(cls, "draw") and not cls.known and cls.task != "regression"

    @classmethod
    @functools.cache
    def family(cls) -> Family:
        """The family that the function stands for. ConfigError where it cannot be one."""
        from flyrun.families.family import Family  # late, as above

        mean, given = getattr(cls, "mean", None), getattr(cls, "largest_curvature", None)
        if cls.log_likelihood.__module__ == "__main__":
            raise ConfigError(
                f"model={cls.name}: an edit of {cls.__name__} would not be seen; put it into a file "
                "that can be imported"
            )
        if cls.link == "own" and not hasattr(cls, "mean"):
            raise ConfigError(f'model={cls.name}: link = "own" needs mean(eta) in {cls.__name__}; write it')
        log_density, derivatives = _by_hand(cls) if hasattr(cls, "slope") else _traced(cls)
        return Family(
            cls.name,
            (cls.__doc__ or cls.name).partition("\n")[0].rstrip("."),
            cls.domain or domains.of(cls.task),
            cls.link,
            log_density,
            derivatives,
            functools.partial(_start, cls, log_density),
            lambda rng, trials, p: cls.draw(rng, *_arguments(cls, trials, p)),
            auxiliary=lambda levels, sd: cls.sampled,
            read=lambda a: _over_last(cls, np.exp, a),
            unread=lambda read: _over_last(cls, np.log, read),
            one_mode=cls.one_mode,
            mean=mean and (lambda trials, p: mean(*_arguments(cls, trials, p))),
            mirrored=False,
            parabolas=cls.bounds,
            largest=given and (lambda y, trials: given(y, trials) if cls.known else given(y)),
        )


_Class = type[RowLikelihood]
_Functions = tuple[Callable[..., Any], Callable[..., Any]]


def _read(cls: _Class, change: Callable[[Numbers], Numbers], a: Iterable[Numbers]) -> list[Numbers]:
    """Auxiliary numbers, those that are logarithms changed."""
    each = zip(cls.sampled, a, strict=True)
    return [change(value) if number.prior.of == "log" else value for number, value in each]


def _over_last(cls: _Class, change: Callable[[Numbers], Numbers], a: np.ndarray) -> np.ndarray:
    return np.stack(_read(cls, change, np.moveaxis(a, -1, 0)), axis=-1) if cls.sampled else a


def _arguments(
    cls: _Class, trials: Numbers, p: Sequence[Numbers], exp: Callable[[Numbers], Numbers] = np.exp
) -> list[Numbers]:
    """What a class's functions take, but for the target: eta, the row's number, what is sampled as read."""
    return [p[0], *([trials] if cls.known else []), *_read(cls, exp, p[1:])]


def _start(cls: _Class, log_density: Callable[..., Numbers], *rows: np.ndarray) -> np.ndarray:
    """Where, of some places, the rows are likeliest if no column matters, (K,)."""
    y, trials, offset, weights = rows
    priors = [number.prior for number in cls.sampled]
    rng = np.random.default_rng(0)
    others = [np.median([prior.draw(rng) for _ in range(99)]) for prior in priors]
    places = np.append(np.sinh(np.linspace(-5.0, 5.0, 41)), np.quantile(y - offset, np.linspace(0.1, 0.9, 9)))
    with np.errstate(all="ignore"):
        sums = [weights @ log_density(y, trials, (eta + offset, *others)) for eta in places]
    return np.array([places[np.nanargmax(sums)], *others])


def _compiled(cls: _Class, source: str, scope: dict[str, Any]) -> _Functions:
    """log_density and derivatives of a family, as if they were written where log_likelihood is."""
    scope = {**scope, "__name__": cls.log_likelihood.__module__}
    exec(compile(source, f"<{cls.__module__}.{cls.__name__}>", "exec"), scope)
    return scope["log_density"], scope["derivatives"]


def _by_hand(cls: _Class) -> _Functions:
    if cls.sampled or not hasattr(cls, "curvature"):
        lacks = "the derivatives by what it samples" if cls.sampled else "curvature(eta, y)"
        raise ConfigError(
            f"model={cls.name}: {cls.__name__} has slope and lacks {lacks}; write log_likelihood with "
            "jax.numpy, and leave slope out"
        )
    functions = {name: getattr(cls, name) for name in ("log_likelihood", "slope", "curvature")}
    source = _BY_HAND.format("p[0], y, trials" if cls.known else "p[0], y")
    return _compiled(cls, source, {**functions["slope"].__globals__, **functions})


def _traced(cls: _Class) -> _Functions:
    """By JAX, in double precision whatever it is set to."""
    try:
        import jax  # late: only packages' functions need it, once
    except ImportError:
        raise ConfigError(
            f"model={cls.name}: its derivatives are JAX's, which is not installed; type "
            f"`pip install 'flyrun[jax]'`, or write slope and curvature in {cls.__name__} by hand"
        ) from None
    k = 1 + len(cls.sampled)

    def value(y: Numbers, trials: Numbers, *p: Numbers) -> Numbers:
        eta, *others = _arguments(cls, trials, p, jax.numpy.exp)  # type: ignore[arg-type]
        return cls.log_likelihood(eta, y, *others)

    def derived(*at: Numbers) -> list[Numbers]:
        first = [jax.grad(value, 2 + m) for m in range(k)]
        return [slope(*at) for slope in first] + [jax.grad(s, 2 + m)(*at) for s in first for m in range(k)]

    with jax.enable_x64(True):
        try:
            traced = [jax.make_jaxpr(function)(*[1.0] * (2 + k)) for function in (value, derived)]
        except Exception as error:  # whatever another's function does
            why = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            raise ConfigError(
                f"model={cls.name}: log_likelihood cannot be traced by JAX: {why}; mend it"
            ) from error
    arguments = ["y", "trials", *(f"p[{m}]" for m in range(k))]
    (lines, (log_l,)), (more, results) = (_Writer(cls.name).of(jaxpr, arguments) for jaxpr in traced)
    curvatures = "".join(
        f"({''.join(f'-{each}, ' for each in results[k * m :][:k])}), " for m in range(1, k + 1)
    )
    source = (
        f"def log_density(y, trials, p):\n{lines}    return {log_l}\n\n"
        f"def derivatives(y, trials, p):\n{more}    return ({', '.join(results[:k])},), ({curvatures})\n"
    )
    from flyrun.ground.numerics import special  # late, as above

    return _compiled(cls, source, vars(special))


class _Writer:
    """Writes traced functions of numbers as lines of Python; what is alike is written once."""

    def __init__(self, model: str):
        self.model = model
        self.names: dict[str, str] = {}  # of what is written

    def of(self, traced: ClosedJaxpr, arguments: list[str]) -> tuple[str, list[str]]:
        """(lines of a function's body, what it returns)."""
        results = self._inlined(traced, arguments)
        # what depends on no argument has their shape all the same
        results = [name if name.startswith("v") else f"({name} + 0.0 * p[0])" for name in results]
        needed, lines = {*re.findall(_NAME, " ".join(results))}, []
        for written, name in reversed(self.names.items()):
            if name in needed:
                needed |= {*re.findall(_NAME, written)}
                lines.append(f"    {name} = {written}\n")
        return "".join(reversed(lines)), results

    def _inlined(self, traced: ClosedJaxpr, given: list[str]) -> list[str]:
        jaxpr = traced.jaxpr
        names = dict(zip(jaxpr.invars, given, strict=True))
        names |= zip(jaxpr.constvars, map(self._number, traced.consts), strict=True)

        def name(atom: Var | Literal) -> str:
            return self._number(atom.val) if hasattr(atom, "val") else names[atom]

        for equation in jaxpr.eqns:
            names |= zip(
                equation.outvars, self._results(equation, [*map(name, equation.invars)]), strict=True
            )
        return [*map(name, jaxpr.outvars)]

    def _results(self, equation: JaxprEqn, given: list[str]) -> list[str]:
        kind, params = equation.primitive.name, equation.params
        if any(variable.aval.shape for variable in equation.outvars):  # type: ignore[attr-defined]
            self._refuse(kind, "makes an array, where a row has numbers")
        if kind in _CALLS:
            return self._inlined(params["call_jaxpr" if "call_jaxpr" in params else "jaxpr"], given)
        written = _WRITTEN.get(kind)
        if kind == "integer_pow":
            written = f"{{0}} ** {params['y']}"
        elif kind == "polygamma" and given[0] == "(1.0)":
            written = "trigamma({1})"
        elif kind == "convert_element_type" and params["new_dtype"].kind == "f":
            of_bools = equation.invars[0].aval.dtype.kind == "b"  # type: ignore[attr-defined]
            written = "1.0 * {0}" if of_bools else "{0}"
        if written is None:
            self._refuse(kind, "is not among what can be written out")
        line = written.format(*given)
        return [line if line in given else self.names.setdefault(line, f"v{len(self.names)}")]

    def _number(self, value: Numbers) -> str:
        if np.shape(value):
            self._refuse("a constant", "is an array, where a row has numbers")
        number = float(value)
        return f"({number!r})" if np.isfinite(number) else f"np.{number}".replace("np.-", "-np.")

    def _refuse(self, what: str, why: str) -> NoReturn:
        raise ConfigError(
            f"model={self.model}: its log_likelihood, or a derivative of it, uses {what} of JAX, which {why}"
            "; write it otherwise, or with NumPy, slope and curvature beside it"
        )
