//! Result columns as polars columns and back: the one place that knows both.

use polars::prelude::{
    Column, DataFrame, DataType, Int64Chunked, IntoSeries, ListBuilderTrait,
    ListStringChunkedBuilder, NamedFrom, NewChunkedArray, PlSmallStr, PolarsResult, Series,
    StringChunked, TimeUnit, TimeZone,
};

use crate::table::{ColumnValues, ResultTable};

/// The polars type of a time column.
pub(crate) const TIME: DataType = DataType::Datetime(TimeUnit::Nanoseconds, Some(TimeZone::UTC));

/// The table as a data frame.
pub(crate) fn from_table(table: &ResultTable) -> PolarsResult<DataFrame> {
    let columns = table
        .columns()
        .iter()
        .map(|column| Column::from(series(&column.name, &column.values)))
        .collect();
    DataFrame::new(table.rows(), columns)
}

fn series(name: &str, values: &ColumnValues) -> Series {
    let name = PlSmallStr::from_str(name);
    match values {
        ColumnValues::Text(values) => {
            StringChunked::from_iter_options(name, values.iter().map(Option::as_deref))
                .into_series()
        }
        ColumnValues::F64(values) => Series::new(name, values),
        ColumnValues::U64(values) => Series::new(name, values),
        ColumnValues::Bool(values) => Series::new(name, values),
        ColumnValues::Time(values) => Int64Chunked::new(name, values)
            .into_datetime(TimeUnit::Nanoseconds, Some(TimeZone::UTC))
            .into_series(),
        ColumnValues::TextList(values) => text_list(name, values),
    }
}

fn text_list(name: PlSmallStr, values: &[Option<Vec<String>>]) -> Series {
    let items = values.iter().flatten().map(Vec::len).sum();
    let mut builder = ListStringChunkedBuilder::new(name, values.len(), items);
    for list in values {
        match list {
            Some(list) => builder.append_values_iter(list.iter().map(String::as_str)),
            None => builder.append_null(),
        }
    }
    builder.finish().into_series()
}

/// The values of a column that was read back; `None` for a type that no result table has.
pub(crate) fn values(column: &Column) -> Option<ColumnValues> {
    let series = column.as_materialized_series();
    Some(match series.dtype() {
        DataType::String => ColumnValues::Text(
            series.str().ok()?.iter().map(|value| value.map(str::to_owned)).collect(),
        ),
        DataType::Float64 => ColumnValues::F64(series.f64().ok()?.iter().collect()),
        DataType::UInt64 => ColumnValues::U64(series.u64().ok()?.iter().collect()),
        DataType::Boolean => ColumnValues::Bool(series.bool().ok()?.iter().collect()),
        dtype if *dtype == TIME => {
            ColumnValues::Time(series.datetime().ok()?.physical().iter().collect())
        }
        DataType::List(_) => ColumnValues::TextList(
            series.list().ok()?.series_iter().map(|list| Some(text_items(&list?))).collect(),
        ),
        _ => return None,
    })
}

fn text_items(list: &Series) -> Vec<String> {
    list.str().map(|items| items.iter().flatten().map(str::to_owned).collect()).unwrap_or_default()
}
