"""Arrow tables from lists of values. pyarrow's own conversion imports pandas, which costs a command 0.3 s."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa


def arrow_table(columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """A table with exactly the columns of a schema: numbers, strings, and lists of these; None is null."""
    arrays = [_array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    count, nulls = len(values), sum(value is None for value in values)
    validity = _bitmap([value is not None for value in values]) if nulls else None
    if pa.types.is_list(kind):
        offsets = _offsets([0 if value is None else len(value) for value in values])
        child = _array(list(chain.from_iterable(value or () for value in values)), kind.value_type)
        return pa.Array.from_buffers(kind, count, [validity, offsets], nulls, children=[child])
    if pa.types.is_string(kind):
        texts = [b"" if value is None else str(value).encode() for value in values]
        content = pa.py_buffer(b"".join(texts))
        return pa.Array.from_buffers(
            kind, count, [validity, _offsets([len(text) for text in texts]), content], nulls
        )
    numbers = np.array([0 if value is None else value for value in values], dtype=kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(numbers.tobytes())], nulls)


def _offsets(lengths: Sequence[int]) -> pa.Buffer:
    ends = np.cumsum([0, *lengths], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"a column of {ends[-1]} items is more than an Arrow list can hold")
    return pa.py_buffer(ends.astype(np.int32).tobytes())


def _bitmap(present: Sequence[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
