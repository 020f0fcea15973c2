//! Energy per token against batch and history.

use crate::draw::axis::{Axis, number, range};
use crate::draw::page::{Key, Page};
use crate::draw::scene::MM;
use crate::draw::style::Look;
use crate::error::Check;
use crate::{Drawing, Figure, FigureError, FigureKind};

pub(super) const KIND: FigureKind = FigureKind {
    name: "energy-batch-history",
    title: "Energy per token against batch, a line for each history",
    needs: "table runs, with decode runs that have b_eff and mean_history_tokens",
};

/// Mean energy at one batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchPoint {
    /// Effective batch, sequences.
    pub b_eff: f64,
    /// Energy per token, J/token.
    pub j_per_token: f64,
}

/// Runs with about the same history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryLine {
    /// Mean history of a token, tokens.
    pub history_tokens: f64,
    /// Points in the order of batches.
    pub points: Vec<BatchPoint>,
}

/// The decode runs of one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergyBatchHistory {
    /// Name of the setting.
    pub setting: String,
    /// Whether one of the runs is simulated.
    pub synthetic: bool,
    /// One line a history, in their order.
    pub lines: Vec<HistoryLine>,
}

const HEIGHT: f64 = 44.0 * MM;

impl EnergyBatchHistory {
    fn points(&self) -> impl Iterator<Item = &BatchPoint> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn check(&self) -> Result<(), FigureError> {
        let check = Check(KIND.name);
        if self.points().next().is_none() {
            return Err(check.missing(format!(
                "decode runs of setting \"{}\" with batch, history and energy per token",
                self.setting
            )));
        }
        for line in &self.lines {
            let what = |value: &str| format!("{value} at history {}", number(line.history_tokens));
            check.finite(|| "a history".to_owned(), line.history_tokens)?;
            for point in &line.points {
                check.positive(|| what("b_eff"), point.b_eff)?;
                check.finite(|| what("energy per token"), point.j_per_token)?;
            }
        }
        Ok(())
    }
}

impl Figure for EnergyBatchHistory {
    fn kind(&self) -> &'static FigureKind {
        &KIND
    }

    fn draw(&self) -> Result<Drawing, FigureError> {
        self.check()?;
        // `check` has seen that there are points.
        let of =
            |value: fn(&BatchPoint) -> f64| range(self.points().map(value)).unwrap_or((1.0, 1.0));
        let x = Axis::powers_of_two("Effective batch", "sequences", of(|point| point.b_eff), 8);
        let y = Axis::either("Energy per token", "J/token", of(|point| point.j_per_token), 5, 8.0);
        let left = Page::left_of(&[&y]);
        let looks: Vec<Look> = (0..self.lines.len()).map(Look::of).collect();
        let mut page = Page::new(&KIND, &self.setting, self.synthetic);
        let entries: Vec<_> = self
            .lines
            .iter()
            .zip(&looks)
            .map(|(line, look)| {
                (Key::LineAndMarker(*look), format!("history {:.0} tokens", line.history_tokens))
            })
            .collect();
        page.legend(&entries);
        let panel = page.panel(left, HEIGHT, x, y, true);
        for (line, look) in self.lines.iter().zip(&looks) {
            let points: Vec<_> =
                line.points.iter().map(|point| (point.b_eff, point.j_per_token)).collect();
            panel.line(&mut page.scene, &points, look.stroke());
            for point in points {
                panel.marker(&mut page.scene, point, (look.marker, look.colour), true);
            }
        }
        panel.axes(&mut page.scene, true);
        Ok(page.finish())
    }
}
