//! `power-timeline`: tables `power_timeline` and `stages`.

use std::collections::BTreeSet;

use wattrace_figures::{PowerBin, PowerTimeline, StageName, StageSpan};

use super::{FigureDataError, Found, Keyed, Source, groups};
use crate::error::ReportError;
use crate::results::StoredTable;

pub(super) fn figures(source: &Source<'_>) -> Result<Found, FigureDataError> {
    let power = source.table("power_timeline")?;
    let stages = source.table("stages")?;
    let run_ids = power.text("run_id")?;
    let has: BTreeSet<String> = run_ids.iter().flatten().cloned().collect();
    let (drawn, note) = source.runs_to_draw(&has);
    let mut figures: Vec<Keyed> = Vec::new();
    for run_id in drawn {
        let mut figure = PowerTimeline {
            synthetic: source.runs.is_synthetic(&run_id),
            boards: Vec::new(),
            node: Vec::new(),
            stages: stages_of(&stages, &run_id)?,
            run_id: run_id.clone(),
        };
        let own = |range: &std::ops::Range<usize>| {
            run_ids[range.start].as_deref() == Some(run_id.as_str())
        };
        for range in groups(run_ids).filter(own) {
            add_bins(&power, range, &mut figure)?;
        }
        figures.push((run_id, Box::new(figure)));
    }
    if figures.is_empty() {
        return Err(source.lacking("no run has power samples"));
    }
    Ok(Found { figures, note })
}

fn add_bins(
    power: &StoredTable,
    rows: std::ops::Range<usize>,
    figure: &mut PowerTimeline,
) -> Result<(), ReportError> {
    let devices = power.text("devices")?;
    let number = |column| power.numbers(column);
    let (offset, duration) = (number("t_offset_s")?, number("duration_s")?);
    let (mean, min, max) =
        (number("mean_power_w")?, number("min_power_w")?, number("max_power_w")?);
    for row in rows {
        let bin = || {
            let start_s = offset[row]?;
            let end_s = start_s + duration[row]?;
            Some(PowerBin {
                start_s,
                end_s,
                mean_w: mean[row]?,
                min_w: min[row]?,
                max_w: max[row]?,
            })
        };
        let bins = match devices[row].as_deref() {
            Some("node") => &mut figure.node,
            _ => &mut figure.boards,
        };
        bins.extend(bin());
    }
    Ok(())
}

fn stages_of(stages: &StoredTable, wanted: &str) -> Result<Vec<StageSpan>, ReportError> {
    let (run_ids, names) = (stages.text("run_id")?, stages.text("stage")?);
    let (start, end) = (stages.numbers("start_offset_s")?, stages.numbers("end_offset_s")?);
    let span = |row: usize| {
        let name = names[row].as_deref()?;
        let stage = *StageName::ALL.iter().find(|stage| stage.name() == name)?;
        Some(StageSpan { stage, start_s: start[row]?, end_s: end[row]? })
    };
    let own = |row: &usize| run_ids[*row].as_deref() == Some(wanted);
    Ok((0..stages.rows).filter(own).filter_map(span).collect())
}
