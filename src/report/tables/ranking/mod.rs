//! The tables of rankings: what the serving runs of an archive say together.

mod amortisation;
mod pairs;
mod rank;
mod rank_excluded;
mod ranked_models;
mod scenarios;

use wattrace_analysis::ranking::Ranking;
use wattrace_schema::FlagSet;

use crate::record::flag_codes;
use crate::table::{ResultTable, TableBuilder};

/// Every table of a ranking, in the order in which they are best read.
#[must_use]
pub fn ranking_tables(ranking: &Ranking) -> Vec<ResultTable> {
    vec![
        rank::rank(&ranking.groups),
        ranked_models::ranked_models(&ranking.models),
        scenarios::scenarios(&ranking.scenarios),
        pairs::pairs(&ranking.pairs),
        amortisation::amortisation(&ranking.amortisation),
        rank_excluded::rank_excluded(&ranking.excluded),
    ]
}

/// The columns that end a table about several runs: what they ran on, and their flags.
fn behind<'rows, R>(
    table: TableBuilder<'rows, R>,
    hardware: impl Fn(&'rows R) -> &'rows [String],
    flags: impl Fn(&'rows R) -> FlagSet,
) -> TableBuilder<'rows, R> {
    table
        .text_list(
            "hardware",
            "Distinct accelerators of the runs behind the values; more than one mixes hardware into the comparison.",
            move |row| Some(hardware(row).to_vec()),
        )
        .text_list("flags", "What a reader must know beside the values.", move |row| {
            Some(flag_codes(flags(row)))
        })
}
