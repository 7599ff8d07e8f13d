"""A numpy random generator as code that counts no references takes it.

numba counts a Generator in where Python hands it over, which kernels compiled without reference counts can
not; a counting function around one is compiled with all of the kernel once more. The caller holds the
generator while the kernel runs, so nothing needs counting.
"""

from typing import Any

import numba
import numpy as np
from numba.core import cgutils, types
from numba.core.datamodel import register_default
from numba.extending import NativeValue, typeof_impl, unbox
from numba.np.random.generator_core import NumPyRandomGeneratorTypeModel


class _Uncounted:
    """A generator on its way into compiled code."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.bit_generator = generator.bit_generator


class _UncountedType(types.NumPyRandomGeneratorType):
    """To compiled code a generator like any other."""


register_default(_UncountedType)(NumPyRandomGeneratorTypeModel)
_TYPE = _UncountedType("uncounted generator")
_BITS = types.NumPyRandomBitGeneratorType("bit_generator")


@typeof_impl.register(_Uncounted)
def _typeof(value: object, context: object) -> types.Type:
    return _TYPE


@unbox(_UncountedType)
def _unbox(kind: Any, value: Any, c: Any) -> NativeValue:
    struct = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    bits = c.pyapi.object_getattr_string(value, "bit_generator")
    struct.bit_generator = c.unbox(_BITS, bits).value
    struct.parent = value
    struct.meminfo = cgutils.get_null_value(struct.meminfo.type)
    c.pyapi.decref(bits)
    return NativeValue(struct._getvalue())


def uncounted(generator: np.random.Generator) -> Any:
    """What to hand to a function of `jit` in a Generator's place; where nothing is compiled, itself."""
    config: Any = numba.config
    return generator if config.DISABLE_JIT else _Uncounted(generator)
