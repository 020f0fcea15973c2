//! Tables declared once: Arrow schema, JSON and documentation follow from the declaration.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::Unit;

/// Physical type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the type that it names")]
pub enum ColumnType {
    U16,
    U32,
    U64,
    F32,
    F64,
    Text,
    /// `timestamp[ns, UTC]`.
    Time,
    ListU32,
    ListU64,
}

impl ColumnType {
    /// The Arrow type.
    #[must_use]
    pub fn arrow(self) -> DataType {
        let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
        match self {
            Self::U16 => DataType::UInt16,
            Self::U32 => DataType::UInt32,
            Self::U64 => DataType::UInt64,
            Self::F32 => DataType::Float32,
            Self::F64 => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Self::ListU32 => list(DataType::UInt32),
            Self::ListU64 => list(DataType::UInt64),
        }
    }

    /// The name in `schemas/` and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::Text => "string",
            Self::Time => "timestamp[ns, UTC]",
            Self::ListU32 => "list<uint32>",
            Self::ListU64 => "list<uint64>",
        }
    }
}

/// Whether a column must be there and must be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The column must be there, and no value may be null.
    Required,
    /// The column must be there; values may be null.
    Nullable,
    /// The column may be absent, which is the same as all null.
    Optional,
}

/// One column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Name; a plain number's ends in its unit.
    pub name: &'static str,
    /// Physical type.
    pub column_type: ColumnType,
    /// Unit of the values.
    pub unit: Unit,
    /// Whether it must be there and filled.
    pub presence: Presence,
    /// What a value means.
    pub meaning: &'static str,
}

/// One Parquet file of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Name of the table.
    pub name: &'static str,
    /// Name of the file in the run's folder.
    pub file: &'static str,
    /// Version of this declaration; raised when a released table changes.
    pub version: u32,
    /// What a row is.
    pub row: &'static str,
    /// Columns by which writers sort; readers do not rely on it.
    pub sort_key: &'static [&'static str],
    /// The columns in file order.
    pub columns: &'static [Column],
}

impl Table {
    /// The Arrow schema that writers use.
    #[must_use]
    pub fn arrow_schema(&self) -> Schema {
        let fields: Vec<Field> = self
            .columns
            .iter()
            .map(|column| {
                let nullable = column.presence != Presence::Required;
                Field::new(column.name, column.column_type.arrow(), nullable)
            })
            .collect();
        Schema::new(fields)
    }

    /// The declared column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&'static Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The declaration in machine form, as it stands in `schemas/`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|column| {
                serde_json::json!({
                    "name": column.name,
                    "type": column.column_type.name(),
                    "unit": column.unit.ucum(),
                    "required": column.presence != Presence::Optional,
                    "nullable": column.presence != Presence::Required,
                    "meaning": column.meaning,
                })
            })
            .collect();
        serde_json::json!({
            "table": self.name,
            "file": self.file,
            "version": self.version,
            "row": self.row,
            "sort_key": self.sort_key,
            "columns": columns,
        })
    }
}
