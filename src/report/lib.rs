//! Result tables as Parquet, CSV and text
