//! Declarations, renderings and comparisons over one small result table.

use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::provenance::SyntheticShare;
use crate::results::StoredColumn;
use crate::table::ColumnValues;

/// Five runs: two models on one or two engines; one run never got steady.
fn runs() -> StoredTable {
    let text = |values: [&str; 5]| {
        ColumnValues::Text(values.map(|text| (text != "?").then(|| text.to_owned())).into())
    };
    let steady = [Some(0.2718), Some(0.2726), None, Some(1.5), Some(0.3)];
    let never_steady = json!({"steady_j_per_token": "steady-not-reached"}).to_string();
    let reasons = [None, None, Some(never_steady), None, None];
    let columns = [
        ("run_id", text(["a1", "a2", "a3", "b1", "c1"])),
        ("model", text(["small_7b", "small_7b", "small_7b", "large|70b", "small_7b"])),
        ("engine", text(["vllm", "vllm", "vllm", "vllm", "?"])),
        ("steady_j_per_token", ColumnValues::F64(steady.into())),
        ("requests", ColumnValues::U64([10, 20, 30, 40, 50].map(Some).into())),
        ("closed", ColumnValues::Bool([true, false, true, true, true].map(Some).into())),
        ("synthetic", ColumnValues::Bool([true, false, true, true, true].map(Some).into())),
        ("flags", ColumnValues::TextList(vec![Some(vec!["edge-held".into()]); 5])),
        ("reasons", ColumnValues::Text(reasons.into())),
    ];
    let columns = columns.map(|(name, values)| StoredColumn { name: name.to_owned(), values });
    StoredTable { name: "runs".to_owned(), rows: 5, columns: columns.into() }
}

const ENERGY: &str = r#"
title = "A paper"

[[table]]
name = "energy"
source = "runs"
caption = "Energy & more, 100% of it."
footnotes = ["One node_1."]
rows = ["model", { column = "engine", heading = "Engine", missing = "none" }]
sort = [{ by = "steady (J/token)", descending = true }]
columns = [
    { heading = "runs", aggregate = "count" },
    { heading = "steady", unit = "J/token", column = "steady_j_per_token", aggregate = "median" },
    { heading = "spread", unit = "mJ/token", column = "steady_j_per_token", aggregate = "std", scale = 1e3, decimals = 2 },
    { heading = "closed", unit = "%", column = "closed", aggregate = "share", scale = 100, decimals = 0 },
    { heading = "flags", column = "flags" },
]
"#;

fn parse(text: &str) -> Result<Paper, DeclarationError> {
    Paper::parse(text.to_owned(), Path::new("p.toml"))
}

fn built(text: &str) -> Result<PaperTable, DeclarationError> {
    let paper = parse(text)?;
    build::build(&paper, &paper.tables[0], &runs(), SyntheticShare::None)
}

fn document(table: PaperTable) -> Document {
    Document {
        title: Some("A paper".to_owned()),
        parts: vec![
            Part::Table(table),
            Part::Missing { name: "ranks".to_owned(), why: "no table \"rank\"".to_owned() },
        ],
        summary: None,
        origin: "Made by hand.".to_owned(),
    }
}

#[test]
fn markdown_explains_every_gap() {
    let text = document(built(ENERGY).unwrap()).render(Format::Markdown);
    insta::assert_snapshot!(text, @r#"
    # A paper

    **energy.** Partly synthetic data (simulated and measured). Energy & more, 100% of it.

    | model      | Engine | runs | steady (J/token) | spread (mJ/token) | closed (%) | flags     |
    | ---------- | ------ | ---: | ---------------: | ----------------: | ---------: | --------- |
    | large\|70b | vllm   |    1 |            1.500 |             – (a) |        100 | edge-held |
    | small_7b   | none   |    1 |           0.3000 |             – (a) |        100 | edge-held |
    | small_7b   | vllm   |    3 |       0.2722 (b) |          0.57 (b) |         67 | edge-held |

    - (a) One value has no standard deviation.
    - (b) 1 of 3 rows without a value: steady-not-reached (a3): No window satisfies the steady-state rule.
    - One node_1.

    **ranks**: not made: no table "rank"

    Made by hand.
    "#);
}

#[test]
fn csv_holds_the_printed_digits() {
    let text = document(built(ENERGY).unwrap()).render(Format::Csv);
    insta::assert_snapshot!(text, @r#"
    # table: energy
    # caption: Partly synthetic data (simulated and measured). Energy & more, 100% of it.
    model,Engine,runs,steady (J/token),spread (mJ/token),closed (%),flags
    large|70b,vllm,1,1.500,–,100,edge-held
    small_7b,none,1,0.3000,–,100,edge-held
    small_7b,vllm,3,0.2722,0.57,67,edge-held
    # note: large|70b, vllm: spread (mJ/token): One value has no standard deviation.
    # note: small_7b, none: spread (mJ/token): One value has no standard deviation.
    # note: small_7b, vllm: steady (J/token): 1 of 3 rows without a value: steady-not-reached (a3): No window satisfies the steady-state rule.
    # note: small_7b, vllm: spread (mJ/token): 1 of 3 rows without a value: steady-not-reached (a3): No window satisfies the steady-state rule.
    # note: One node_1.

    # not made: ranks: no table "rank"

    # origin: Made by hand.
    "#);
}

#[test]
fn latex_uses_booktabs_and_escapes() {
    let text = document(built(ENERGY).unwrap()).render(Format::Latex);
    insta::assert_snapshot!(text, @r#"
    % Needs \usepackage{booktabs}.

    \begin{table}
    \centering
    \caption{Partly synthetic data (simulated and measured). Energy \& more, 100\% of it.}
    \label{tab:energy}
    \begin{tabular}{llrrrrl}
    \toprule
    model & Engine & runs & steady (J/token) & spread (mJ/token) & closed (\%) & flags \\
    \midrule
    large\textbar{}70b & vllm & 1 & 1.500 & --\textsuperscript{a} & 100 & edge-held \\
    small\_7b & none & 1 & 0.3000 & --\textsuperscript{a} & 100 & edge-held \\
    small\_7b & vllm & 3 & 0.2722\textsuperscript{b} & 0.57\textsuperscript{b} & 67 & edge-held \\
    \bottomrule
    \end{tabular}

    \smallskip
    \parbox{\linewidth}{\footnotesize
    \textsuperscript{a}~One value has no standard deviation.\\
    \textsuperscript{b}~1 of 3 rows without a value: steady-not-reached (a3): No window satisfies the steady-state rule.\\
    One node\_1.}
    \end{table}

    % ranks: not made: no table "rank"

    % Made by hand.
    "#);
}

#[test]
fn json_holds_numbers_in_full() {
    let table = built(ENERGY).unwrap().to_json();
    // (271.8 + 272.6) / 2, and the standard deviation 0.8 / sqrt(2), in mJ.
    let row = table["rows"].as_array().unwrap().iter().find(|row| row["runs"]["value"] == 3.0);
    let spread = row.unwrap()["spread (mJ/token)"]["value"].as_f64().unwrap();
    assert!((spread - 0.8 / 2.0_f64.sqrt()).abs() < 1e-9, "{spread}");
    assert_eq!(table["row_keys"], json!(["model", "Engine"]));
}

/// A declaration with one table whose keys are these.
fn table(keys: &str) -> String {
    format!("[[table]]\nname = \"t\"\nsource = \"runs\"\n{keys}\n")
}

#[track_caller]
fn cells(keys: &str) -> Vec<Vec<String>> {
    let table = built(&table(keys)).unwrap();
    (0..table.rows)
        .map(|row| {
            let printed = |column: &PaperColumn| column.cells[row].content.printed().to_owned();
            table.columns.iter().map(printed).collect()
        })
        .collect()
}

#[test]
fn conditions_choose_rows() {
    let chosen = |condition: &str| -> String {
        let rows = cells(&format!(
            "where = [{condition}]\nrows = [\"run_id\"]\ncolumns = [{{ heading = \"n\", aggregate = \"count\" }}]"
        ));
        rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(chosen("{ column = \"engine\", is = \"vllm\" }"), "a1 a2 a3 b1");
    assert_eq!(chosen("{ column = \"engine\", is_not = \"vllm\" }"), "c1");
    assert_eq!(chosen("{ column = \"requests\", one_of = [10, 30] }"), "a1 a3");
    assert_eq!(chosen("{ column = \"requests\", none_of = [10, 30.0] }"), "a2 b1 c1");
    assert_eq!(chosen("{ column = \"requests\", above = 20 }"), "a3 b1 c1");
    assert_eq!(chosen("{ column = \"requests\", at_least = 20 }"), "a2 a3 b1 c1");
    // A missing value is on no side of a bound.
    assert_eq!(chosen("{ column = \"steady_j_per_token\", below = 9.0 }"), "a1 a2 b1 c1");
    assert_eq!(chosen("{ column = \"steady_j_per_token\", at_most = 0.3 }"), "a1 a2 c1");
    assert_eq!(chosen("{ column = \"steady_j_per_token\", present = false }"), "a3");
    assert_eq!(chosen("{ column = \"closed\", is = false }"), "a2");
    assert_eq!(chosen("{ column = \"flags\", has = \"edge-held\" }"), "a1 a2 a3 b1 c1");
    assert_eq!(chosen("{ column = \"flags\", has_not = \"edge-held\" }"), "");
}

#[test]
fn a_column_may_have_conditions_of_its_own() {
    let rows = cells(
        "rows = [\"model\"]
columns = [
    { heading = \"vllm\", column = \"requests\", aggregate = \"max\", where = [{ column = \"engine\", is = \"vllm\" }] },
    { heading = \"none\", column = \"requests\", aggregate = \"max\", where = [{ column = \"engine\", present = false }] },
]",
    );
    assert_eq!(rows, [["small_7b", "30", "50"], ["large|70b", "40", "–"]]);
}

#[test]
fn keys_of_equal_first_letters_stay_apart() {
    let rows = cells(
        "rows = [{ column = \"run_id\", letters = 1 }]\ncolumns = [{ heading = \"n\", aggregate = \"count\" }]",
    );
    assert_eq!(rows, [["a", "1"], ["a", "1"], ["a", "1"], ["b", "1"], ["c", "1"]]);
}

#[test]
fn simulated_rows_are_said_to_be_in_the_caption() {
    let caption = |condition: &str| {
        let keys = format!(
            "caption = \"C.\"\nwhere = [{condition}]\ncolumns = [{{ heading = \"n\", aggregate = \"count\" }}]"
        );
        built(&table(&keys)).unwrap().caption
    };
    assert_eq!(
        caption("{ column = \"run_id\", is = \"a1\" }"),
        "Synthetic data (simulated, not measured). C."
    );
    assert_eq!(caption("{ column = \"run_id\", is = \"a2\" }"), "C.");
    assert_eq!(
        caption("{ column = \"run_id\", one_of = [\"a1\", \"a2\"] }"),
        "Partly synthetic data (simulated and measured). C."
    );
}

#[test]
fn a_wrong_declaration_is_named_with_its_line_and_what_would_be_right() {
    let wrong = [
        ("no table", "title = \"x\"\n".to_owned()),
        ("empty table list", "table = []\n".to_owned()),
        ("unknown key", table("colour = \"red\"\ncolumns = []")),
        ("name", "[[table]]\nname = \"My table\"\nsource = \"runs\"\ncolumns = []\n".to_owned()),
        ("no columns", table("columns = []")),
        ("aggregate", table("columns = [{ heading = \"x\", aggregate = \"mode\" }]")),
        ("column missing", table("columns = [\n{ heading = \"x\" },\n]")),
        ("digits", table("columns = [{ heading = \"x\", column = \"requests\", decimals = 20 }]")),
        (
            "two kinds of digits",
            table(
                "columns = [{ heading = \"x\", column = \"requests\", decimals = 2, significant = 2 }]",
            ),
        ),
        ("scale", table("columns = [{ heading = \"x\", column = \"requests\", scale = 0.0 }]")),
        (
            "two tests",
            table(
                "where = [{ column = \"model\", is = \"a\", present = true }]\ncolumns = [{ heading = \"x\", aggregate = \"count\" }]",
            ),
        ),
        (
            "scalar",
            table(
                "where = [{ column = \"model\", is = [1] }]\ncolumns = [{ heading = \"x\", aggregate = \"count\" }]",
            ),
        ),
        (
            "heading twice",
            table("rows = [\"model\"]\ncolumns = [{ heading = \"model\", aggregate = \"count\" }]"),
        ),
        (
            "sort",
            table(
                "rows = [\"model\"]\nsort = [\"steady\"]\ncolumns = [{ heading = \"n\", aggregate = \"count\" }]",
            ),
        ),
        ("row key", table("rows = [7]\ncolumns = [{ heading = \"n\", aggregate = \"count\" }]")),
        ("unknown column", table("columns = [{ heading = \"x\", column = \"steady_j_per_tok\" }]")),
        (
            "unknown row",
            table("rows = [\"modell\"]\ncolumns = [{ heading = \"x\", column = \"requests\" }]"),
        ),
        (
            "type of aggregate",
            table("columns = [{ heading = \"x\", column = \"model\", aggregate = \"median\" }]"),
        ),
        (
            "type of condition",
            table(
                "where = [{ column = \"model\", above = 3 }]\ncolumns = [{ heading = \"x\", column = \"requests\" }]",
            ),
        ),
        ("scaled text", table("columns = [{ heading = \"x\", column = \"model\", scale = 2.0 }]")),
    ];
    let messages: Vec<String> = wrong
        .iter()
        .map(|(what, text)| format!("{what}: {}", built(text).expect_err(what)))
        .collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
    no table: paper "p.toml" line 1: missing key "table"
    empty table list: paper "p.toml" line 1, in "table": the paper has no table; expected at least one [[table]]
    unknown key: paper "p.toml" line 4, in "table": unknown key "colour", expected one of "name", "source", "caption", "footnotes", "where", "rows", "columns", "sort"
    name: paper "p.toml" line 2, in "table.name": invalid value: string "My table", expected lower-case letters, digits and hyphens
    no columns: paper "p.toml" line 2, in "columns": the table has no column; expected at least one
    aggregate: paper "p.toml" line 4, in "table.columns.aggregate": unknown variant "mode", expected one of "only", "first", "median", "mean", "min", "max", "std", "share", "count", "union"
    column missing: paper "p.toml" line 5, in "column": missing key "column"; only the aggregate "count" can do without
    digits: paper "p.toml" line 4, in "decimals": 20 is out of range; expected 0 to 15
    two kinds of digits: paper "p.toml" line 4, in "decimals": both decimals and significant are given; expected one of them
    scale: paper "p.toml" line 4, in "scale": 0 is no factor; expected a number but zero
    two tests: paper "p.toml" line 4, in "where": a condition has not exactly one test; expected one of is, is_not, one_of, none_of, above, at_least, below, at_most, has, has_not, present
    scalar: paper "p.toml" line 4, in "table.where.is": invalid type: sequence, expected a text, a number, true or false
    heading twice: paper "p.toml" line 5, in "heading": two columns are headed "model"; expected every heading once
    sort: paper "p.toml" line 5, in "sort": no column is headed "steady"; expected "model", "n"
    row key: paper "p.toml" line 4, in "table.rows": invalid type: integer "7", expected the name of a column, or { column, heading, missing, letters }
    unknown column: paper "p.toml" line 4, in "column": table "runs" has no column "steady_j_per_tok"; it has steady_j_per_token, run_id, model, engine, requests, closed, synthetic, flags and 1 more
    unknown row: paper "p.toml" line 4, in "rows": table "runs" has no column "modell"; it has run_id, model, engine, steady_j_per_token, requests, closed, synthetic, flags and 1 more
    type of aggregate: paper "p.toml" line 4, in "aggregate": the column is string; expected double or uint64 for the aggregate "median"
    type of condition: paper "p.toml" line 4, in "where": column "model" of "runs" is string; expected double or uint64 for this test
    scaled text: paper "p.toml" line 4, in "scale": the column holds no numbers; expected no scale
    "#);
}

#[test]
fn every_built_in_paper_is_valid_and_its_tables_are_unique() {
    for built_in in BUILT_IN {
        let paper = built_in.paper().unwrap();
        assert!(paper.table_names().count() >= 5, "{}", built_in.name);
    }
}

fn compared(published: &str, percent: f64) -> Result<Comparison, PublishedError> {
    let table = built(ENERGY).unwrap();
    let made = [Made { name: "energy".to_owned(), row_keys: Vec::new(), table: Ok(table) }];
    let published = Published::parse(published, Path::new("p.csv"))?;
    compare_with_published(&made, &published, percent).map(|mut found| found.remove(0))
}

#[test]
fn every_published_cell_has_a_verdict() {
    // The median of 0.2718 and 0.2726 is 0.2722; a row and a value that are not there.
    let comparison = compared(
        "model,Engine,steady (J/token),closed (%)\n\
         small_7b,vllm,0.272,67%\n\
         large|70b,vllm,1.6,\n\
         huge,vllm,2.0,100\n",
        0.0,
    )
    .unwrap();
    let mut document = document(comparison.as_table());
    document.parts.truncate(1);
    document.summary = Some(Counts::of(&[comparison]).to_string());
    insta::assert_snapshot!(document.render(Format::Markdown), @r#"
    # A paper

    **energy.** Published against recomputed: Partly synthetic data (simulated and measured). Energy & more, 100% of it.

    | model      | Engine | column           | published |  recomputed | difference | relative (%) | tolerance | verdict       |
    | ---------- | ------ | ---------------- | --------: | ----------: | ---------: | -----------: | --------: | ------------- |
    | large\|70b | vllm   | steady (J/token) |       1.6 |       1.500 |     -0.100 |        -6.25 |    0.0500 | off           |
    | large\|70b | vllm   | closed (%)       |         – |         100 |          – |            – |         – | not-published |
    | small_7b   | none   | steady (J/token) |         – |      0.3000 |          – |            – |         – | not-published |
    | small_7b   | none   | closed (%)       |         – |         100 |          – |            – |         – | not-published |
    | small_7b   | vllm   | steady (J/token) |     0.272 | 0.27220 (a) |   0.000200 |       0.0735 |  0.000500 | within        |
    | small_7b   | vllm   | closed (%)       |       67% |       66.67 |     -0.333 |       -0.498 |     0.500 | within        |
    | huge       | vllm   | steady (J/token) |       2.0 |       – (b) |          – |            – |    0.0500 | cannot-be-had |
    | huge       | vllm   | closed (%)       |       100 |       – (b) |          – |            – |     0.500 | cannot-be-had |

    - (a) 1 of 3 rows without a value: steady-not-reached (a3): No window satisfies the steady-state rule.
    - (b) The recomputed table has no such row.
    - Columns of which nothing was published: runs, spread (mJ/token), flags.

    5 published values: 2 within tolerance, 1 off, 2 cannot be had; 3 recomputed and not published

    Made by hand.
    "#);
}

#[test]
fn the_tolerance_is_the_last_digit_and_what_is_asked_for_on_top() {
    let verdict = |value: &str, percent: f64| {
        let text = format!("model,Engine,column,value\nsmall_7b,vllm,steady (J/token),{value}\n");
        let comparison = compared(&text, percent).unwrap();
        comparison.cells.iter().find(|cell| cell.published.is_some()).unwrap().verdict
    };
    assert_eq!(verdict("0.2722", 0.0), Verdict::Within);
    assert_eq!(verdict("0.27", 0.0), Verdict::Within);
    assert_eq!(verdict("0.270", 0.0), Verdict::Off);
    // 0.0022 is off by 0.8% and the rounding.
    assert_eq!(verdict("0.270", 1.0), Verdict::Within);
    assert_eq!(verdict("2.7e-1", 0.0), Verdict::Within);
}

#[test]
fn published_values_that_do_not_fit_are_refused() {
    let wrong = [
        "model,steady (J/token)\nx,1\n",
        "model,Engine,steady (mJ/token)\nx,y,1\n",
        "model,Engine,steady (J/token)\nsmall_7b,vllm,about 1\n",
        "model,Engine,steady (J/token)\nsmall_7b,vllm,12%\n",
        "model,Engine,steady (J/token)\nsmall_7b,vllm,\"0,27\"\n",
        "model,Engine,steady (J/token)\nx,y,1\nsmall_7b,vllm,1\nx,y,1\n",
        "model,Engine,steady (J/token),steady (J/token)\nx,y,1,1\n",
        "# table: speed\nmodel,Engine\nx,y\n",
    ];
    let messages: Vec<String> =
        wrong.iter().map(|text| compared(text, 0.0).unwrap_err().to_string()).collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
    "p.csv" line 1: the row key "Engine" of table "energy" is missing; expected the headings "model", "Engine", "runs", "steady (J/token)", "spread (mJ/token)", "closed (%)", "flags"
    "p.csv" line 1 column "steady (mJ/token)": table "energy" has no column with this heading; expected one of "runs", "steady (J/token)", "spread (mJ/token)", "closed (%)", "flags"
    "p.csv" line 2 column "steady (J/token)": "about 1" holds more than a number; expected the number alone, without marks, uncertainties or units
    "p.csv" line 2 column "steady (J/token)": "12%" is a percentage, and the column has another unit; expected a number in it
    "p.csv" line 2 column "steady (J/token)": "0,27" has a comma that does not part groups of three digits; expected a point before decimals, as in 6280.2
    "p.csv" line 4 column "steady (J/token)": the row is published on line 2 too; expected every row once
    "p.csv" line 1 column "steady (J/token)": the heading comes twice; expected every heading once
    "p.csv" line 2: the paper has no table "speed"; expected one of energy
    "#);
}

#[test]
fn values_of_a_table_that_could_not_be_made_cannot_be_had() {
    let why = NotMade::NoSource { source_table: "rank".into(), available: "runs".into() };
    let made = [
        Made { name: "ranks".to_owned(), row_keys: vec!["batch".to_owned()], table: Err(why) },
        Made {
            name: "energy".to_owned(),
            row_keys: Vec::new(),
            table: built(ENERGY).map_err(NotMade::Declaration),
        },
    ];
    let parse = |text: &str| Published::parse(text, Path::new("p.csv")).unwrap();
    let published = parse("# table: ranks\nbatch,rho,p\n8,0.9,\n");
    let comparisons = compare_with_published(&made, &published, 0.0).unwrap();
    let counts = Counts::of(&comparisons);
    assert_eq!((counts.cannot_be_had, counts.within, counts.off), (1, 0, 0));
    assert!(!counts.all_hold());
    // With several tables, nobody guesses which one is meant.
    let message = compare_with_published(&made, &parse("task,rho\n"), 0.0).unwrap_err().to_string();
    assert!(message.contains("expected a line \"# table: NAME\""), "{message}");
}

fn source() -> impl Strategy<Value = StoredTable> {
    let key =
        prop_oneof![Just(None), "[a-z#\"', |–-]{0,6}".prop_map(Some), "\\PC{0,8}".prop_map(Some),];
    let number = prop_oneof![Just(None), (-1e12..1e12_f64).prop_map(Some), Just(Some(-1e-9))];
    let row = (key.clone(), proptest::option::of(0..5_u64), number, key, any::<bool>());
    proptest::collection::vec(row, 0..12).prop_map(|rows| {
        let column = |name: &str, values| StoredColumn { name: name.to_owned(), values };
        StoredTable {
            name: "runs".to_owned(),
            rows: rows.len(),
            columns: vec![
                column("key", ColumnValues::Text(rows.iter().map(|row| row.0.clone()).collect())),
                column("batch", ColumnValues::U64(rows.iter().map(|row| row.1).collect())),
                column("value", ColumnValues::F64(rows.iter().map(|row| row.2).collect())),
                column("note", ColumnValues::Text(rows.iter().map(|row| row.3.clone()).collect())),
                column("yes", ColumnValues::Bool(rows.iter().map(|row| Some(row.4)).collect())),
            ],
        }
    })
}

proptest! {
    #[test]
    fn a_table_agrees_with_its_own_csv(source in source(), digits in 0..=15_u8) {
        let text = table(&format!(
            "rows = [\"key\", \"batch\"]
columns = [
    {{ heading = \"median\", column = \"value\", aggregate = \"median\", decimals = {digits} }},
    {{ heading = \"mean\", column = \"value\", aggregate = \"mean\", scale = 1e-3, significant = {} }},
    {{ heading = \"default\", column = \"value\", aggregate = \"max\" }},
    {{ heading = \"share\", unit = \"%\", column = \"yes\", aggregate = \"share\", scale = 100 }},
    {{ heading = \"note\", column = \"note\", aggregate = \"first\" }},
    {{ heading = \"n\", aggregate = \"count\" }},
]", digits.max(1)));
        let paper = parse(&text).unwrap();
        let table = build::build(&paper, &paper.tables[0], &source, SyntheticShare::None).unwrap();
        let csv = document(table.clone()).render(Format::Csv);
        let published = Published::parse(&csv, Path::new("own.csv")).unwrap();
        let made = [Made { name: "t".to_owned(), row_keys: Vec::new(), table: Ok(table.clone()) }];
        let counts = Counts::of(&compare_with_published(&made, &published, 0.0).unwrap());
        prop_assert!(counts.all_hold(), "{counts}\n{csv}");
        // Not because nothing was compared: every count of rows is.
        prop_assert!(counts.within >= table.rows, "{counts}\n{csv}");
    }
}
