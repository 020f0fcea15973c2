//! `energy-batch-history`: decode runs of table `runs`.

use std::collections::BTreeMap;

use wattrace_figures::{BatchPoint, EnergyBatchHistory, HistoryLine};

use super::{FigureDataError, Found, Keyed, Source, mean};

/// Histories, and batches, that differ by less are one: repeats of a cell differ a little.
const SAME: f64 = 0.1;

struct DecodeRun {
    b_eff: f64,
    history_tokens: f64,
    j_per_token: f64,
}

#[derive(Default)]
struct Setting {
    runs: Vec<DecodeRun>,
    synthetic: bool,
}

pub(super) fn figures(source: &Source<'_>) -> Result<Found, FigureDataError> {
    let runs = &source.runs.table;
    let (kind, setting) = (runs.text("kind")?, runs.text("setting")?);
    let number = |column| runs.numbers(column);
    let (energy, batch, history) =
        (number("j_per_token")?, number("b_eff")?, number("mean_history_tokens")?);
    let synthetic = runs.booleans("synthetic")?;
    let mut settings: BTreeMap<&String, Setting> = BTreeMap::new();
    for row in (0..runs.rows).filter(|row| kind[*row].as_deref() == Some("decode")) {
        let run = || {
            Some(DecodeRun {
                b_eff: batch[row].filter(|batch| *batch > 0.0)?,
                history_tokens: history[row]?,
                j_per_token: energy[row]?,
            })
        };
        if let (Some(setting), Some(run)) = (&setting[row], run()) {
            let setting = settings.entry(setting).or_default();
            setting.runs.push(run);
            setting.synthetic |= synthetic[row].unwrap_or(false);
        }
    }
    let figures: Vec<Keyed> = settings
        .into_iter()
        .map(|(name, setting)| {
            let figure = EnergyBatchHistory {
                setting: name.clone(),
                synthetic: setting.synthetic,
                lines: lines(setting.runs),
            };
            (name.clone(), Box::new(figure) as _)
        })
        .collect();
    source.some(figures, "no decode run has batch, history and energy per token")
}

fn lines(mut runs: Vec<DecodeRun>) -> Vec<HistoryLine> {
    runs.sort_by(|a, b| a.history_tokens.total_cmp(&b.history_tokens));
    together(runs, |run| run.history_tokens)
        .into_iter()
        .filter_map(|mut runs| {
            let history_tokens = mean(runs.iter().map(|run| run.history_tokens))?;
            runs.sort_by(|a, b| a.b_eff.total_cmp(&b.b_eff));
            let points =
                together(runs, |run| run.b_eff).iter().filter_map(|runs| point(runs)).collect();
            Some(HistoryLine { history_tokens, points })
        })
        .collect()
}

fn point(runs: &[DecodeRun]) -> Option<BatchPoint> {
    Some(BatchPoint {
        b_eff: mean(runs.iter().map(|run| run.b_eff))?,
        j_per_token: mean(runs.iter().map(|run| run.j_per_token))?,
    })
}

/// Cuts runs, in the order of `value`, wherever it leaves the first one of a group behind.
fn together(runs: Vec<DecodeRun>, value: impl Fn(&DecodeRun) -> f64) -> Vec<Vec<DecodeRun>> {
    let mut groups: Vec<Vec<DecodeRun>> = Vec::new();
    for run in runs {
        match groups.last_mut() {
            Some(group) if value(&run) <= (1.0 + SAME) * value(&group[0]) => group.push(run),
            _ => groups.push(vec![run]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_of_a_cell_become_one_point() {
        let run =
            |b_eff, history_tokens, j_per_token| DecodeRun { b_eff, history_tokens, j_per_token };
        let lines = lines(vec![
            run(4.0, 4100.0, 0.5),
            run(4.1, 4000.0, 0.7),
            run(16.0, 4050.0, 0.2),
            run(4.0, 1000.0, 0.4),
        ]);
        let points: Vec<Vec<f64>> = lines
            .iter()
            .map(|line| line.points.iter().map(|point| point.j_per_token).collect())
            .collect();
        assert_eq!(points, [vec![0.4], vec![0.6, 0.2]]);
        assert_eq!(lines[1].history_tokens, 4050.0);
    }
}
