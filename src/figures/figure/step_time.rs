//! Time of a decode step against the longest sequence, with the place where it jumps.

use crate::draw::axis::{Axis, number, range};
use crate::draw::page::{Entry, Key, Page, rule};
use crate::draw::scene::MM;
use crate::draw::style::{BLACK, DASHED, GREY, Look};
use crate::error::Check;
use crate::{Drawing, Figure, FigureError, FigureKind};

pub(super) const KIND: FigureKind = FigureKind {
    name: "step-time",
    title: "Step time against the longest sequence, with the located break",
    needs: "tables step_times and step_breaks (decode runs whose steps name max_sequence_tokens)",
};

/// Steps with about the same longest sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTimePoint {
    /// Longest sequence, tokens.
    pub max_sequence_tokens: f64,
    /// Mean time of a step, s.
    pub step_time_s: f64,
}

/// Steps of one batch size.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTimeLine {
    /// Sequences in the batch.
    pub active_sequences: u64,
    /// Points in the order of lengths.
    pub points: Vec<StepTimePoint>,
}

/// Where step time jumps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepBreak {
    /// Longest sequence below the break, tokens.
    pub after_tokens: f64,
    /// Shortest sequence above it, tokens.
    pub before_tokens: f64,
    /// (above − below)/below.
    pub relative_jump: f64,
    /// Whether the jump is large and clear enough to count.
    pub detected: bool,
}

/// Step times of one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// Name of the setting.
    pub setting: String,
    /// Whether one of the runs is simulated.
    pub synthetic: bool,
    /// One line a batch, in their order.
    pub lines: Vec<StepTimeLine>,
    /// The best place for a break, if one was looked for.
    pub step_break: Option<StepBreak>,
}

const HEIGHT: f64 = 44.0 * MM;

impl StepTime {
    fn points(&self) -> impl Iterator<Item = &StepTimePoint> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn check(&self) -> Result<(), FigureError> {
        let check = Check(KIND.name);
        if self.points().next().is_none() {
            return Err(check.missing(format!(
                "steps of setting \"{}\" with times and max_sequence_tokens",
                self.setting
            )));
        }
        for point in self.points() {
            check.finite(|| "a longest sequence".to_owned(), point.max_sequence_tokens)?;
            check.positive(|| "a step time".to_owned(), point.step_time_s)?;
        }
        if let Some(found) = &self.step_break {
            for value in [found.after_tokens, found.before_tokens, found.relative_jump] {
                check.finite(|| "the break".to_owned(), value)?;
            }
        }
        Ok(())
    }

    fn found(&self) -> Option<&StepBreak> {
        self.step_break.as_ref().filter(|found| found.detected)
    }

    fn legend(&self, looks: &[Look]) -> Vec<Entry> {
        let lines = self.lines.iter().zip(looks).map(|(line, look)| {
            (Key::LineAndMarker(*look), format!("batch {}", line.active_sequences))
        });
        let mut entries: Vec<Entry> = lines.collect();
        if let Some(found) = self.found() {
            let percent = number(100.0 * found.relative_jump);
            let (after, before) = (number(found.after_tokens), number(found.before_tokens));
            let sign = if found.relative_jump > 0.0 { "+" } else { "" };
            entries.push((
                Key::Line(rule(BLACK, DASHED)),
                format!("break between {after} and {before} tokens: {sign}{percent} %"),
            ));
        }
        entries
    }
}

impl Figure for StepTime {
    fn kind(&self) -> &'static FigureKind {
        &KIND
    }

    fn draw(&self) -> Result<Drawing, FigureError> {
        self.check()?;
        // `check` has seen that there are points.
        let of = |value: fn(&StepTimePoint) -> f64| {
            range(self.points().map(value)).unwrap_or((1.0, 1.0))
        };
        let lengths = of(|point| point.max_sequence_tokens);
        let x = Axis::tight("Longest sequence", "tokens", lengths, 5).padded();
        let y = Axis::either("Step time", "ms", of(|point| 1000.0 * point.step_time_s), 5, 20.0);
        let left = Page::left_of(&[&y]);
        let looks: Vec<Look> = (0..self.lines.len()).map(Look::of).collect();
        let mut page = Page::new(&KIND, &self.setting, self.synthetic);
        page.legend(&self.legend(&looks));
        if self.step_break.is_some() && self.found().is_none() {
            page.note("No break is large and clear enough to report.");
        }
        let panel = page.panel(left, HEIGHT, x, y, true);
        let scene = &mut page.scene;
        if let Some(found) = self.found() {
            let middle = (found.after_tokens + found.before_tokens) / 2.0;
            panel.band(scene, found.after_tokens, found.before_tokens, GREY.tint(0.3));
            panel.upright(scene, panel.x.clamp(middle), rule(BLACK, DASHED));
        }
        for (line, look) in self.lines.iter().zip(&looks) {
            let points: Vec<_> = line
                .points
                .iter()
                .map(|point| (point.max_sequence_tokens, 1000.0 * point.step_time_s))
                .collect();
            // A line must not hide the jump: it stops at one side and goes on at the other.
            let side = |x: f64| self.found().is_some_and(|found| x > found.after_tokens);
            for piece in points.chunk_by(|a, b| side(a.0) == side(b.0)) {
                panel.line(scene, piece, look.stroke());
            }
            for point in spaced(&points) {
                panel.marker(scene, point, (look.marker, look.colour), true);
            }
        }
        panel.axes(scene, true);
        Ok(page.finish())
    }
}

/// Every point of a short line; of a long one, few enough to tell markers apart.
fn spaced(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let every = points.len().div_ceil(25).max(1);
    points.iter().copied().step_by(every)
}
