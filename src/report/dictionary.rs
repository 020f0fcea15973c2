//! Data dictionaries in machine form: metrics, reasons, flags and result tables.

use serde_json::{Value, json};
use wattrace_analysis::ValueKind;
use wattrace_analysis::metrics::{DEFINITIONS_VERSION, catalogue};
use wattrace_schema::{Flag, Reason};

use crate::tables;

/// Every metric: name, unit, type, boundary, definition and source.
#[must_use]
pub fn metrics_json() -> Value {
    let metrics: Vec<_> = catalogue()
        .iter()
        .map(|metric| {
            json!({
                "name": metric.name,
                "unit": metric.unit.symbol(),
                "ucum": metric.unit.ucum(),
                "type": type_name(metric.kind),
                "boundary": metric.boundary.name(),
                "definition": metric.definition,
                "source": metric.source,
            })
        })
        .collect();
    json!({ "version": DEFINITIONS_VERSION, "metrics": metrics })
}

const fn type_name(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::F64 => "double",
        ValueKind::U64 => "uint64",
        ValueKind::Bool => "bool",
        ValueKind::Time => "timestamp[ns, UTC]",
    }
}

/// Every reason for a missing value: code and meaning.
#[must_use]
pub fn reasons_json() -> Value {
    let reasons = Reason::ALL.iter().map(|reason| word(reason.code(), reason.meaning()));
    json!({ "reasons": reasons.collect::<Vec<_>>() })
}

/// Every flag: code and meaning.
#[must_use]
pub fn flags_json() -> Value {
    let flags = Flag::ALL.iter().map(|flag| word(flag.code(), flag.meaning()));
    json!({ "flags": flags.collect::<Vec<_>>() })
}

fn word(code: &str, meaning: &str) -> Value {
    json!({ "code": code, "meaning": meaning })
}

/// Every result table: what a row is, and each column's name, type, unit and meaning.
#[must_use]
pub fn tables_json() -> Value {
    let tables: Vec<_> = tables::declarations().iter().map(|table| table.declaration()).collect();
    json!({ "tables": tables })
}
