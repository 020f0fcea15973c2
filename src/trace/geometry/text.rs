//! A geometry as text for people.

use std::fmt::Write as _;

use super::{Geometry, Part};

/// Columns: part, shape, copies, parameters, bytes, remark.
type Row = [String; 6];

pub(super) fn render(geometry: &Geometry) -> String {
    let mut rows: Vec<Row> =
        vec![["part", "shape", "copies", "parameters", "bytes", ""].map(str::to_owned)];
    rows.extend(geometry.parts.iter().map(part_row));
    rows.push(sum_row("all parameters", geometry.total_parameters(), None));
    let read = geometry.weight_bytes_per_iteration().ok();
    rows.push(sum_row("read each iteration", geometry.parameters_per_iteration(), read));

    let mut text = heading(geometry);
    text.push_str(&align(&rows));
    text.push_str(&sums(geometry));
    text
}

fn heading(geometry: &Geometry) -> String {
    let model = &geometry.model;
    let name = if model.name.is_empty() { "model" } else { &model.name };
    let dtype = model.dtype.as_deref().unwrap_or("type of the weights unknown");
    format!("{name}: {} family, {dtype}\n\n", geometry.family)
}

fn part_row(part: &Part) -> Row {
    let shape: Vec<String> = part.shape.iter().map(u64::to_string).collect();
    [
        part.name.to_owned(),
        shape.join(" x "),
        if part.copies == 1 { String::new() } else { part.copies.to_string() },
        grouped(part.params),
        part.bytes.map(bytes).unwrap_or_default(),
        if part.read_each_iteration { "" } else { "looked up, not in M_w" }.to_owned(),
    ]
}

fn sum_row(name: &str, params: u64, size: Option<f64>) -> Row {
    let size = size.map(bytes).unwrap_or_default();
    [name.to_owned(), String::new(), String::new(), grouped(params), size, String::new()]
}

/// The lines below the table: M_w, K_KV, flags and notes.
fn sums(geometry: &Geometry) -> String {
    let model = &geometry.model;
    let mut text = String::from("\n");
    match geometry.weight_bytes_per_iteration() {
        Ok(size) => line(&mut text, &format!("M_w  = {} B read each iteration", bytes(size))),
        Err(reason) => line(&mut text, &format!("M_w  = null ({reason})")),
    }
    match (model.kv_bytes_per_token(), model.layers, model.kv_heads, model.head_dim) {
        (Ok(size), Some(layers), Some(heads), Some(width)) => {
            let value = model.kv_bytes_per_value.unwrap_or_default();
            let product = format!("2 x {layers} layers x {heads} heads x {width} x {value} B");
            line(&mut text, &format!("K_KV = {product} = {} B per token of history", bytes(size)));
        }
        (Err(reason), ..) => line(&mut text, &format!("K_KV = null ({reason})")),
        (Ok(_), ..) => {}
    }
    let window = model.sliding_window.unwrap_or_default();
    if !geometry.sliding_layers.is_empty() {
        let layers: Vec<String> = geometry.sliding_layers.iter().map(u32::to_string).collect();
        let count = layers.len();
        let list = layers.join(" ");
        line(&mut text, &format!("sliding window of {window} tokens in {count} layers: {list}"));
        line(
            &mut text,
            "     these layers stop reading more history at the window's length, so K_KV",
        );
        line(&mut text, "     is too large for longer histories: outside full-history decode");
    }
    let flags: Vec<&str> = geometry.flags().iter().map(wattrace_schema::Flag::code).collect();
    let flags = if flags.is_empty() { "none".to_owned() } else { flags.join(", ") };
    line(&mut text, &format!("flags: {flags}"));
    for note in &geometry.notes {
        line(&mut text, &format!("note: {note}"));
    }
    text
}

fn line(text: &mut String, content: &str) {
    writeln!(text, "{content}").expect("writing to a string cannot fail");
}

/// The rows in columns: text to the left, numbers to the right.
fn align(rows: &[Row]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let [part, shape, copies, params, size] = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for [a, b, c, d, e, remark] in rows {
        let row =
            format!("{a:<part$}  {b:<shape$}  {c:>copies$}  {d:>params$}  {e:>size$}  {remark}");
        line(&mut text, row.trim_end());
    }
    text
}

/// Bytes with separators; a fraction, possible for packed weights, keeps one digit.
fn bytes(size: f64) -> String {
    // Byte counts here stay far below 2^53, so the whole part is exact.
    let whole = grouped(size as u64);
    let tenths = (size.fract() * 10.0) as u64;
    if tenths == 0 { whole } else { format!("{whole}.{tenths}") }
}

/// A number with a comma before every third digit.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
