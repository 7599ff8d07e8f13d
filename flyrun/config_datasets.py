"""Choices of data that have rows: features and a target."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from flyrun.errors import ConfigError
from flyrun.schema import Choice, option, quoted, ranged, show


@option("dataset", "mnist_7v9")
@dataclass(frozen=True)
class Mnist7v9(Choice):
    """MNIST's sevens (+1) against nines (-1) as PCA scores plus a bias."""

    name: str = "mnist_7v9"
    n_components: int = ranged(50, at_least=1, at_most=784)
    limit: int | None = ranged(None, at_least=1)
    classes: tuple[int, int] = ranged((7, 9), at_least=0, at_most=9)
    dtype: Literal["float64", "float32"] = "float64"

    def __post_init__(self) -> None:
        """Check the fields, then what they mean together."""
        super().__post_init__()
        if self.classes[0] == self.classes[1]:
            raise ConfigError(
                f"dataset.classes={show(self.classes)}: must be two different digits, such as [7,9]"
            )


@option("dataset", "cifar3")
@dataclass(frozen=True)
class Cifar3(Choice):
    """CIFAR-10's airplanes (0), automobiles (1) and birds (2) as 256 bits ±1 plus a bias."""

    name: str = "cifar3"
    split: Literal["paper", "held_out"] = "paper"
    codes: Literal["learnt", "random_signs"] = "learnt"
    limit: int | None = ranged(None, at_least=1)


@option("dataset", "qm9_gap")
@dataclass(frozen=True)
class Qm9Gap(Choice):
    """HOMO-LUMO gaps of 130,831 molecules on 57 descriptors, all standardised; `bias` adds a column."""

    name: str = "qm9_gap"
    split: Literal["all", "held_out"] = "all"
    limit: int | None = ranged(None, at_least=1)
    bias: bool = False
    dtype: Literal["float64", "float32"] = "float32"


@option("dataset", "opv_cep")
@dataclass(frozen=True)
class OpvCep(Choice):
    """Harvard Clean Energy Project molecules of a CSV with columns smiles and gap, on 57 descriptors."""

    name: str = "opv_cep"
    path: str | None = None
    skip_bad: bool = False
    split: Literal["all", "held_out"] = "all"
    limit: int | None = ranged(None, at_least=1)
    bias: bool = False


@option("dataset", "opv_scale")
@dataclass(frozen=True)
class OpvScale(Choice):
    """Generated regression of the OPV data's size, float32 rows mapped from a file."""

    name: str = "opv_scale"
    n_data: int = ranged(1_800_000, at_least=100)


@option("dataset", "table")
@dataclass(frozen=True)
class Table(Choice):
    """A table of your own: CSV, Parquet or .npz; categories become 0-1 columns."""

    name: str = "table"
    path: str | None = None
    target: str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    standardize: bool = True
    missing: Literal["refuse", "drop"] = "refuse"
    decimal: Literal[".", ","] = "."
    task: Literal["auto", "binary", "classes", "regression"] = "auto"
    limit: int | None = ranged(None, at_least=1)

    def say(self, key: str, value: str | None = None) -> str:
        """How a key is typed where this table was asked for; a column's name joins those of a list."""
        if key == "model":
            return f"model={value}"
        if value is not None and isinstance(there := getattr(self, key), tuple):
            value = f"[{','.join(map(_hydra_word, [*there, value]))}]"
        return f"dataset.{key}" if value is None else quoted(f"dataset.{key}={value}")


def _hydra_word(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    if plain and name.lower() not in ("null", "true", "false", "nan", "inf"):
        return name
    return "'" + name.replace("'", "\\'") + "'"


@option("dataset", "tall")
@dataclass(frozen=True)
class Tall(Choice):
    """Generated logistic regression of 21 features, float32 rows mapped from a file."""

    name: str = "tall"
    n_data: int = ranged(1_000_000, at_least=100)


@option("dataset", "toy_2d")
@dataclass(frozen=True)
class Toy2d(Choice):
    """Two classes of points in the plane, generated: N(±separation/2·u, I), u along the diagonal."""

    name: str = "toy_2d"
    n_data: int = ranged(40, at_least=2)
    seed: int = ranged(0, at_least=0)
    separation: float = ranged(3.0, at_least=0)
