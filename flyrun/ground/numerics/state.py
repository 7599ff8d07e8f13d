"""A chain's state as a flat dictionary of arrays: what a checkpoint holds, and nothing else.

Kernels, targets and brightness are nested NamedTuples; their arrays are what changes. The path of an array
through the field names is its key: `memory.partition.bright`. Workspace, which holds nothing between
iterations, and what never changes stay out (`unsaved`), and what is known of few data is remembered of them
alone (`packed`): for millions of data that keeps checkpoints small.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
_WORD = (1 << 64) - 1
_WORKSPACE: dict[type, tuple[str, ...]] = {}
_FIXED: dict[type, tuple[str, ...]] = {}
_PACKING: dict[type, tuple[Callable[[Any], dict[str, np.ndarray]], Callable[..., Any]]] = {}


def unsaved(workspace: tuple[str, ...] = (), fixed: tuple[str, ...] = ()) -> Callable[[type[T]], type[T]]:
    """Class decorator for a NamedTuple: its fields that are workspace, and those that never change."""

    def register(owner: type[T]) -> type[T]:
        _WORKSPACE[owner], _FIXED[owner] = workspace, fixed
        return owner

    return register


def packed(pack: Callable[[Any], dict[str, np.ndarray]], unpack: Callable[..., Any]) -> Callable:
    """Class decorator for a NamedTuple that is remembered in fewer numbers than it works with.

    pack(instance) -> its arrays by name, new ones; unpack(instance, arrays) -> what they were made of, in
    arrays of its own, of the instance's size.
    """

    def register(owner: type[T]) -> type[T]:
        _PACKING[owner] = pack, unpack
        return owner

    return register


def arrays_of(tree: object, path: str) -> dict[str, np.ndarray]:
    """Every array in a nested NamedTuple that changes and is remembered, copied, by its path."""
    if isinstance(tree, np.ndarray):
        return {path: tree.copy()}
    if type(tree) in _PACKING:
        pack, _ = _PACKING[type(tree)]
        return {f"{path}.{name}": values for name, values in pack(tree).items()}
    arrays: dict[str, np.ndarray] = {}
    for name in getattr(tree, "_fields", ()):
        if name not in (*_WORKSPACE.get(type(tree), ()), *_FIXED.get(type(tree), ())):
            arrays |= arrays_of(getattr(tree, name), f"{path}.{name}")
    return arrays


def with_arrays(tree: object, arrays: dict[str, np.ndarray], path: str) -> Any:
    """The same NamedTuple with copies of the given arrays in place of its own, and new workspace."""
    if isinstance(tree, np.ndarray):
        return np.ascontiguousarray(arrays[path]).copy()
    if not hasattr(tree, "_fields"):
        return tree
    if type(tree) in _PACKING:
        _, unpack = _PACKING[type(tree)]
        start = f"{path}."
        return unpack(tree, {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)})
    parts = {}
    for name in tree._fields:
        part = getattr(tree, name)
        if name in _WORKSPACE.get(type(tree), ()):
            part = np.zeros(part.shape, part.dtype)
        elif name not in _FIXED.get(type(tree), ()):
            part = with_arrays(part, arrays, f"{path}.{name}")
        parts[name] = part
    return type(tree)(**parts)


def seeded(seed: int, method: dict[str, Any] | None = None) -> np.random.Generator:
    """The generator of one seed that all arms share, for their start; or that of a method, for its luck.

    method: plain values. Arms that differ in any have independent generators: their estimates are compared as
    such.
    """
    key: tuple[int, ...] = (0,)
    if method is not None:
        digest = hashlib.sha256(json.dumps(method, sort_keys=True).encode()).digest()
        key = (1, int.from_bytes(digest[:16], "big"))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def generator_state(rng: np.random.Generator) -> np.ndarray:
    """State of a PCG64 generator as (6,) uint64."""
    state = rng.bit_generator.state
    numbers = [state["state"]["state"], state["state"]["inc"]]
    halves = [word for number in numbers for word in (number >> 64, number & _WORD)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def generator(state: np.ndarray) -> np.random.Generator:
    """The generator with a state of `generator_state`, (6,): it goes on bit for bit."""
    word = [int(number) for number in state]
    bits = np.random.PCG64()
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": word[0] << 64 | word[1], "inc": word[2] << 64 | word[3]},
        "has_uint32": word[4],
        "uinteger": word[5],
    }
    return np.random.Generator(bits)
