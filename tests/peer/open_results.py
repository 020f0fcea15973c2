"""Opens every table of a results folder with one tool and prints what it sees as JSON.

    open_results.py pandas|polars|duckdb RESULTS

For each Parquet file: number of rows, names of the columns, and per column the number of missing values and,
for floating-point columns, the sum of the others.
"""

import json
import math
import sys
from pathlib import Path


def with_pandas(path):
    import pandas

    frame = pandas.read_parquet(path)
    columns = {}
    for name in frame.columns:
        column = frame[name]
        total = float(column.sum()) if column.dtype == "float64" else None
        columns[name] = {"missing": int(column.isna().sum()), "sum": total}
    return len(frame), columns


def with_polars(path):
    import polars

    frame = polars.read_parquet(path)
    columns = {}
    for name in frame.columns:
        column = frame[name]
        total = math.fsum(column.drop_nulls()) if column.dtype == polars.Float64 else None
        columns[name] = {"missing": column.null_count(), "sum": total}
    return frame.height, columns


def with_duckdb(path):
    import duckdb

    table = duckdb.read_parquet(str(path))
    columns = {}
    for name, kind in zip(table.columns, table.dtypes):
        quoted = '"' + name.replace('"', '""') + '"'
        value = f"sum({quoted})" if str(kind) == "DOUBLE" else "null"
        missing, total = table.aggregate(f"count(*) - count({quoted}), {value}").fetchall()[0]
        if str(kind) == "DOUBLE":
            total = 0.0 if total is None else total
        columns[name] = {"missing": missing, "sum": total}
    return table.aggregate("count(*)").fetchall()[0][0], columns


READERS = {"pandas": with_pandas, "polars": with_polars, "duckdb": with_duckdb}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in READERS:
        sys.exit(__doc__)
    seen = {}
    for path in sorted(Path(sys.argv[2]).glob("*.parquet")):
        rows, columns = READERS[sys.argv[1]](path)
        seen[path.stem] = {"rows": rows, "columns": columns}
    json.dump(seen, sys.stdout, indent=1)


main()
