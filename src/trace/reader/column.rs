//! Columns of one batch as plain slices, whatever number type the file chose for them.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, TimeUnit};

use wattrace_schema::{Column, ColumnType, Presence};

use super::file::TableFile;
use crate::TraceError;

/// Some rows of a file, decoded.
#[derive(Debug)]
pub(crate) struct Batch<'f> {
    pub(super) file: &'f TableFile,
    pub(super) columns: RecordBatch,
    /// Row of the file at which the batch begins.
    pub(super) first_row: u64,
}

/// Numbers of one column. Where `nulls` says null, the slice holds something without meaning.
#[derive(Debug)]
pub(crate) struct Values<'a, T: Clone> {
    pub(crate) values: Cow<'a, [T]>,
    pub(crate) nulls: Option<&'a NullBuffer>,
}

/// Texts of one column that repeat: `values[keys[row]]`.
#[derive(Debug)]
pub(crate) struct Labels<'a> {
    pub(crate) keys: &'a [i32],
    pub(crate) nulls: Option<&'a NullBuffer>,
    pub(crate) values: &'a StringArray,
}

/// Lists of one column, flat: row `i` owns `items[offsets[i]..offsets[i + 1]]`, nothing if null.
#[derive(Debug)]
pub(crate) struct Lists<T> {
    pub(crate) offsets: OffsetBuffer<i32>,
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) items: Vec<T>,
}

impl<T: Copy> Values<'_, T> {
    /// The values as options, in order.
    pub(crate) fn options(&self) -> impl Iterator<Item = Option<T>> + '_ {
        self.values.iter().enumerate().map(|(row, value)| {
            self.nulls.is_none_or(|nulls| nulls.is_valid(row)).then_some(*value)
        })
    }
}

impl<'a> Labels<'a> {
    /// How many different texts the batch may hold.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The text in `row`, which is not null.
    pub(crate) fn text(&self, row: usize) -> &'a str {
        self.values.value(self.keys[row] as usize)
    }

    /// Place in `values` of the text in `row`; `None` if it is null.
    pub(crate) fn key(&self, row: usize) -> Option<usize> {
        let present = self.nulls.is_none_or(|nulls| nulls.is_valid(row));
        present.then(|| self.keys[row] as usize)
    }

    /// For each text, the one of `all` that has this name.
    pub(crate) fn meanings<T: Copy>(
        &self,
        all: &[T],
        name: impl Fn(&T) -> &'static str,
    ) -> Vec<Option<T>> {
        self.values
            .iter()
            .map(|text| all.iter().find(|one| text == Some(name(one))).copied())
            .collect()
    }
}

impl Batch<'_> {
    /// Rows in the batch.
    pub(crate) fn rows(&self) -> usize {
        self.columns.num_rows()
    }

    /// An error about the value in `row` of this batch.
    pub(crate) fn value_error(
        &self,
        column: &'static str,
        row: usize,
        found: String,
        expected: impl Into<String>,
    ) -> TraceError {
        TraceError::Value {
            path: self.file.path.clone(),
            column,
            row: self.first_row + row as u64,
            found,
            expected: expected.into(),
        }
    }

    /// An error about a text in `row` that is not the name of one of `all`.
    pub(crate) fn unknown_label<T>(
        &self,
        column: &'static str,
        row: usize,
        labels: &Labels<'_>,
        all: &[T],
        name: impl Fn(&T) -> &'static str,
    ) -> TraceError {
        let names: Vec<_> = all.iter().map(name).collect();
        let found = format!("\"{}\"", labels.text(row).escape_debug());
        self.value_error(column, row, found, format!("one of {}", names.join(", ")))
    }

    /// A column of numbers; `None` when the file lacks it or holds only nulls of no type.
    pub(crate) fn numbers<T: Number>(
        &self,
        column: &'static str,
    ) -> Result<Option<Values<'_, T>>, TraceError> {
        let Some(array) = self.array(column) else { return Ok(None) };
        let values = converted::<T>(array)
            .map_err(|(row, found)| self.value_error(column, row, found, T::EXPECTED))?;
        Ok(Some(Values { values, nulls: array.nulls() }))
    }

    /// A column of numbers that may not be null.
    pub(crate) fn required_numbers<T: Number>(
        &self,
        column: &'static str,
    ) -> Result<Cow<'_, [T]>, TraceError> {
        let values = self.numbers(column)?;
        self.required(column, values.as_ref().map(|v| v.nulls))?;
        Ok(values.map(|v| v.values).unwrap_or_default())
    }

    /// A column of times in nanoseconds since the Unix epoch.
    pub(crate) fn times(
        &self,
        column: &'static str,
    ) -> Result<Option<Values<'_, i64>>, TraceError> {
        let Some(array) = self.array(column) else { return Ok(None) };
        let (ticks, unit, nanos): (&[i64], _, i64) = match array.data_type() {
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                (array.as_primitive::<TimestampMicrosecondType>().values(), "us", 1_000)
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                (array.as_primitive::<TimestampMillisecondType>().values(), "ms", 1_000_000)
            }
            _ => {
                let ticks = array.as_primitive::<TimestampNanosecondType>().values();
                return Ok(Some(Values { values: Cow::Borrowed(ticks), nulls: array.nulls() }));
            }
        };
        let nulls = array.nulls();
        let values = ticks
            .iter()
            .enumerate()
            .map(|(row, tick)| match tick.checked_mul(nanos) {
                Some(time) => Ok(time),
                None if nulls.is_some_and(|nulls| nulls.is_null(row)) => Ok(0),
                None => Err(self.value_error(
                    column,
                    row,
                    format!("{tick} {unit} since 1970"),
                    "a time between the years 1678 and 2261",
                )),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Values { values: Cow::Owned(values), nulls }))
    }

    /// A column of times that may not be null.
    pub(crate) fn required_times(
        &self,
        column: &'static str,
    ) -> Result<Cow<'_, [i64]>, TraceError> {
        let values = self.times(column)?;
        self.required(column, values.as_ref().map(|v| v.nulls))?;
        Ok(values.map(|v| v.values).unwrap_or_default())
    }

    /// A column of repeating texts.
    pub(crate) fn labels(&self, column: &'static str) -> Option<Labels<'_>> {
        let dictionary = self.array(column)?.as_dictionary::<arrow_array::types::Int32Type>();
        Some(Labels {
            keys: dictionary.keys().values(),
            nulls: dictionary.nulls(),
            values: dictionary.values().as_string::<i32>(),
        })
    }

    /// A column of repeating texts that may not be null; `None` only in an empty batch.
    pub(crate) fn required_labels(
        &self,
        column: &'static str,
    ) -> Result<Option<Labels<'_>>, TraceError> {
        let labels = self.labels(column);
        self.required(column, labels.as_ref().map(|l| l.nulls))?;
        Ok(labels)
    }

    /// A column of texts that seldom repeat.
    pub(crate) fn texts(&self, column: &'static str) -> Option<&StringArray> {
        Some(self.array(column)?.as_string::<i32>())
    }

    /// A column of texts that may not be null; `None` only in an empty batch.
    pub(crate) fn required_texts(
        &self,
        column: &'static str,
    ) -> Result<Option<&StringArray>, TraceError> {
        let texts = self.texts(column);
        self.required(column, texts.map(Array::nulls))?;
        Ok(texts)
    }

    /// Takes a column of lists of numbers out of the batch. Where the items are alone in memory and of
    /// the right type, as they mostly are, they are handed over rather than copied.
    pub(crate) fn take_lists<T: Number>(
        &mut self,
        column: &'static str,
    ) -> Result<Option<Lists<T>>, TraceError> {
        if self.array(column).is_none() {
            return Ok(None);
        }
        let Ok(index) = self.columns.schema().index_of(column) else { return Ok(None) };
        let array = self.columns.remove_column(index);
        let list = array.as_list::<i32>();
        let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
        let items = list.values().clone();
        drop(array);
        let row_of = |item: usize| {
            offsets.partition_point(|offset| usize::try_from(*offset).is_ok_and(|o| o <= item)) - 1
        };
        if let Some(item) = first_null(items.nulls()) {
            let found = "a null inside the list".to_owned();
            return Err(self.value_error(column, row_of(item), found, T::EXPECTED));
        }
        let items = owned::<T>(items)
            .map_err(|(item, found)| self.value_error(column, row_of(item), found, T::EXPECTED))?;
        Ok(Some(Lists { offsets, nulls, items }))
    }

    /// Reads one column as it is declared, for its errors alone.
    pub(crate) fn verify(&mut self, column: &'static Column) -> Result<(), TraceError> {
        let name = column.name;
        match column.column_type {
            ColumnType::U16 => drop(self.numbers::<u16>(name)?),
            ColumnType::U32 => drop(self.numbers::<u32>(name)?),
            ColumnType::U64 => drop(self.numbers::<u64>(name)?),
            ColumnType::F32 => drop(self.numbers::<f32>(name)?),
            ColumnType::F64 => drop(self.numbers::<f64>(name)?),
            ColumnType::Time => drop(self.times(name)?),
            ColumnType::ListU32 => drop(self.take_lists::<u32>(name)?),
            ColumnType::ListU64 => drop(self.take_lists::<u64>(name)?),
            ColumnType::Text => (),
        }
        match column.presence {
            Presence::Required => self.required(name, self.array(name).map(|array| array.nulls())),
            _ => Ok(()),
        }
    }

    /// The column, unless the file lacks it or gave it no type, since all of it is null.
    fn array(&self, column: &str) -> Option<&ArrayRef> {
        self.columns.column_by_name(column).filter(|array| *array.data_type() != DataType::Null)
    }

    /// Fails on the first null of a column that may have none. Files made elsewhere declare every
    /// column nullable, so the nulls themselves decide.
    fn required(
        &self,
        column: &'static str,
        nulls: Option<Option<&NullBuffer>>,
    ) -> Result<(), TraceError> {
        let first = match nulls {
            Some(nulls) => first_null(nulls),
            None => (self.rows() > 0).then_some(0),
        };
        match first {
            None => Ok(()),
            Some(row) => Err(self.value_error(column, row, "null".to_owned(), "a value")),
        }
    }
}

fn first_null(nulls: Option<&NullBuffer>) -> Option<usize> {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0)?;
    (0..nulls.len()).find(|row| nulls.is_null(*row))
}

/// A number type of the contract, and how other number types become it without loss.
pub(crate) trait Number: ArrowNativeType {
    /// The Arrow type with these values.
    type Arrow: ArrowPrimitiveType<Native = Self>;
    /// What a value may be, for messages.
    const EXPECTED: &'static str;
    /// The same number, if this type can hold it.
    fn from_integer(value: i128) -> Option<Self>;
    /// The same number, if this type can hold it; a float is rounded to a narrower float.
    fn from_float(value: f64) -> Option<Self>;
}

macro_rules! whole_number {
    ($native:ty, $arrow:ty, $expected:literal) => {
        impl Number for $native {
            type Arrow = $arrow;
            const EXPECTED: &'static str = $expected;

            fn from_integer(value: i128) -> Option<Self> {
                Self::try_from(value).ok()
            }

            fn from_float(value: f64) -> Option<Self> {
                // Whole numbers up to 2^53 are exact in a float; a cast to 128 bits keeps them.
                const EXACT: f64 = 9_007_199_254_740_992.0;
                (value.fract() == 0.0 && value.abs() <= EXACT)
                    .then(|| Self::from_integer(value as i128))
                    .flatten()
            }
        }
    };
}

whole_number!(u16, UInt16Type, "a whole number from 0 to 65535");
whole_number!(u32, UInt32Type, "a whole number from 0 to 4294967295");
whole_number!(u64, UInt64Type, "a whole number from 0 to 18446744073709551615");

impl Number for f64 {
    type Arrow = Float64Type;
    const EXPECTED: &'static str = "a number that a double can hold";

    fn from_integer(value: i128) -> Option<Self> {
        let float = value as f64;
        (float as i128 == value).then_some(float)
    }

    fn from_float(value: f64) -> Option<Self> {
        Some(value)
    }
}

impl Number for f32 {
    type Arrow = Float32Type;
    const EXPECTED: &'static str = "a number that a float can hold";

    fn from_integer(value: i128) -> Option<Self> {
        let float = value as f32;
        (float as i128 == value).then_some(float)
    }

    fn from_float(value: f64) -> Option<Self> {
        let narrow = value as f32;
        (narrow.is_finite() || !value.is_finite()).then_some(narrow)
    }
}

/// The values of `array` as `T`: borrowed if that is their type. Fails with the index of a value that
/// `T` cannot hold, and that value.
fn converted<T: Number>(array: &ArrayRef) -> Result<Cow<'_, [T]>, (usize, String)> {
    if *array.data_type() == T::Arrow::DATA_TYPE {
        return Ok(Cow::Borrowed(array.as_primitive::<T::Arrow>().values()));
    }
    let values = match array.data_type() {
        DataType::Int8 => convert::<Int8Type, T>(array, |v| T::from_integer(v.into())),
        DataType::Int16 => convert::<Int16Type, T>(array, |v| T::from_integer(v.into())),
        DataType::Int32 => convert::<Int32Type, T>(array, |v| T::from_integer(v.into())),
        DataType::Int64 => convert::<Int64Type, T>(array, |v| T::from_integer(v.into())),
        DataType::UInt8 => convert::<UInt8Type, T>(array, |v| T::from_integer(v.into())),
        DataType::UInt16 => convert::<UInt16Type, T>(array, |v| T::from_integer(v.into())),
        DataType::UInt32 => convert::<UInt32Type, T>(array, |v| T::from_integer(v.into())),
        DataType::UInt64 => convert::<UInt64Type, T>(array, |v| T::from_integer(v.into())),
        DataType::Float16 => convert::<Float16Type, T>(array, |v| T::from_float(v.to_f64())),
        DataType::Float32 => convert::<Float32Type, T>(array, |v| T::from_float(v.into())),
        DataType::Float64 => convert::<Float64Type, T>(array, T::from_float),
        other => Err((0, format!("a value of type {other}"))),
    }?;
    Ok(Cow::Owned(values))
}

/// As [`converted`], without copying if nothing else holds the values.
fn owned<T: Number>(array: ArrayRef) -> Result<Vec<T>, (usize, String)> {
    if *array.data_type() != T::Arrow::DATA_TYPE {
        return converted(&array).map(Cow::into_owned);
    }
    let values = array.as_primitive::<T::Arrow>().values().clone();
    drop(array);
    Ok(values.into_inner().into_vec().unwrap_or_else(|shared| shared.typed_data().to_vec()))
}

fn convert<From: ArrowPrimitiveType, T: Number>(
    array: &ArrayRef,
    number: impl Fn(From::Native) -> Option<T>,
) -> Result<Vec<T>, (usize, String)> {
    let array = array.as_primitive::<From>();
    // What stands in for null is not looked at; zero fits every type.
    let absent = T::from_integer(0);
    array
        .values()
        .iter()
        .enumerate()
        .map(|(row, value)| {
            let value = if array.is_null(row) { absent } else { number(*value) };
            value.ok_or_else(|| (row, format!("{:?}", array.value(row))))
        })
        .collect()
}
