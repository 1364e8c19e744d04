"""Arrow arrays built by hand must be what pyarrow itself builds from the same values."""

import subprocess
import sys

import pyarrow as pa
import pytest

from energyopt.schemas.columns import arrow_table


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [1.5, None, -0.0, 1e300]),
        (pa.int32(), [None, 3, -7]),
        (pa.int64(), [2**40, None]),
        (pa.string(), ["a", "", None, "Größe [bold]", "x" * 300]),
        (pa.list_(pa.string()), [["fastest", "max_clock_time"], [], ["ü"]]),
        (pa.list_(pa.int32()), [[1, 2, 3], [], [4]]),
        (pa.float64(), []),
        (pa.string(), []),
        (pa.list_(pa.int32()), []),
        (pa.int32(), [None] * 17),
    ],
)
def test_as_pyarrow_has_it(kind: pa.DataType, values: list[object]) -> None:
    schema = pa.schema([pa.field("x", kind)])
    table = arrow_table({"x": values}, schema)
    table.validate(full=True)
    assert table.equals(pa.table({"x": pa.array(values, kind)}, schema=schema))


def test_writing_imports_no_pandas() -> None:
    code = (
        "import sys, pyarrow as pa; from energyopt.schemas.columns import arrow_table; "
        "arrow_table({'x': [1.0, None]}, pa.schema([pa.field('x', pa.float64())])); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
