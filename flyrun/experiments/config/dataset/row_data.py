"""Rows of features with a target: published and generated."""

from typing import ClassVar, Literal

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCALE, option, setting, show
from flyrun.tables.dataset_options import Rows


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


@option("dataset", "songs")
class Songs(Rows):
    """Years of songs by 90 numbers of their sound, from the public YearPredictionMSD.txt that you have."""

    paper: ClassVar[str] = "Bertin-Mahieux, Ellis, Whitman and Lamere 2011"
    path: str | None = setting(None, "the file: 515,345 lines, the year first")
    split: Literal["public", "held_out", "all"] = setting(
        "public", "public: the last 51,630 lines are apart | held_out: a random tenth | all: none"
    )
    limit: int | None = setting(None, "use only the first rows of the (shuffled) training set", at_least=1)
    bias: bool = setting(False, "true: a column of ones; false: features and target are centred")


@option("dataset", "opv_scale")
class OpvScale(Rows):
    """Generated: 1,800,000 rows of 57 features, the size of the paper's OPV data.

    A regression of float32 rows, mapped from a file.
    """

    n_data: int = setting(1_800_000, "rows generated", at_least=100)


@option("dataset", "tall")
class Tall(Rows):
    """Generated: logistic regression of 21 features on any number of rows, to see what the number costs.

    Float32 rows, mapped from a file.
    """

    n_data: int = setting(1_000_000, "rows generated", at_least=100)


class Toy(Rows):
    """Small data that are generated, by a recipe."""

    kernel: ClassVar[str] = "flyrun.experiments.data.toys"
    seed: int  # which each declares with the words that fit it


@option("dataset", "toy_2d")
class Toy2d(Toy):
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

    paper: ClassVar[str] = "Wolberg, Mangasarian, Street and Street 1993"


@option("dataset", "two_modes")
class TwoModes(Toy):
    """Generated: `low` rows at -1, the others at +1; under Student-t noise a posterior of two modes."""

    n_data: int = setting(40, "rows generated", at_least=2)
    low: int = setting(20, "of them in the lower group", at_least=0)
    seed: int = setting(0, "another one, other rows", at_least=0)


@option("dataset", "from_prior")
class FromPrior(Toy):
    """Generated: θ drawn from N(0, prior_sd²), then the target by its model, so that θ is an exact draw of
    the posterior under prior=gaussian prior.scale=prior_sd. Features are standard normals and a bias.
    """

    n_data: int = setting(200, "rows generated", at_least=2)
    n_features: int = setting(4, "features besides the bias", at_least=0)
    law: Literal["logistic", "student_t"] = setting("logistic", "the model; or student_t")
    nu: float = setting(
        4.0, "degrees of freedom of student_t's noise, whose scale is 1", at_least=1e-3, at_most=1e9
    )
    prior_sd: float = setting(1.0, "of the prior that θ is drawn from", **SCALE)
    seed: int = setting(0, "another one, another θ and other rows", at_least=0)


@option("dataset", "few_events")
class FewEvents(Toy):
    """Generated: a rare class, `events` rows of +1 among n_data, whose posterior is skewed."""

    n_data: int = setting(2_000, "rows generated", at_least=2)
    events: int = setting(5, "of them of the rare class", at_least=1)
    seed: int = setting(0, "another one, other rows", at_least=0)


@option("dataset", "rare_features")
class RareFeatures(Toy):
    """Generated: logistic regression on dense features and rare ones, which down to `least` of rows have."""

    n_data: int = setting(100_000, "rows", at_least=2)
    dense: int = setting(10, "features that are standard normals", at_least=0)
    rare: int = setting(20, "features that are 1 in few rows, else 0", at_least=1)
    least: float = setting(
        3e-4, "share of the rows that have the rarest of them; the others' go up to 0.1", above=0, at_most=0.1
    )
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("dataset", "mixture")
class Mixture(Toy):
    """Generated: numbers of ½N(1, sd²) + ½N(-1, sd²), whose posterior has two modes."""

    n_data: int = setting(1_000, "numbers generated", at_least=2)
    sd: float = setting(2.5, "of both normals", above=0)
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("dataset", "clutter")
class Clutter(Toy):
    """Generated: numbers of ½N(2, 1) + ½N(0, 10), n_data for each of n_sets means (Minka's problem)."""

    n_data: int = setting(100, "numbers of a set", at_least=1)
    n_sets: int = setting(1, "sets, each with a mean of its own, a coordinate each", at_least=1)
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("dataset", "gaussian_toy")
class GaussianToy(Toy):
    """Generated: numbers for model=normal, N(0, 1) or lognormal, whose logarithms are N(0, log_sd²)."""

    n_data: int = setting(100_000, "numbers generated", at_least=2)
    law: Literal["gaussian", "lognormal"] = setting(
        "gaussian", "what they are drawn from: gaussian (N(0, 1)) or lognormal"
    )
    log_sd: float = setting(1.0, "sd of the logarithm of lognormal ones", above=0)
    seed: int = setting(0, "another one, other numbers", at_least=0)


@option("dataset", "counts_toy")
class CountsToy(Toy):
    """Generated: counts for model=poisson_means, Poisson of rates whose logarithms are N(mean, sd²)."""

    n_data: int = setting(200, "counts generated", at_least=2)
    mean: float = setting(0.5, "of the logarithms", at_least=-20, at_most=20)
    sd: float = setting(0.6, "of the logarithms", at_least=0, at_most=10)
    seed: int = setting(0, "another one, other counts", at_least=0)


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
class NoisyCurve(Toy):
    """Generated: a curve of one variable seen with noise; test rows are the curve itself.

    A Gaussian process can be worked out exactly for it.
    """

    n_data: int = setting(1_000, "rows generated", at_least=2)
    noise: float = setting(0.15, "its sd", at_least=0)
    seed: int = setting(0, "another one, other rows", at_least=0)
