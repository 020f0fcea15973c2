//! Held-out errors of every form of the energy model.

use crate::draw::axis::{Axis, Scale, range};
use crate::draw::font;
use crate::draw::page::{Entry, Key, MARGIN, Page};
use crate::draw::panel::Panel;
use crate::draw::scene::{Anchor, MM, Point, Stroke, WIDTH};
use crate::draw::style::{GREY, GRID, HAIRLINE, INK, Look, Marker, SMALL};
use crate::error::Check;
use crate::{Drawing, Figure, FigureError, FigureKind};

pub(super) const KIND: FigureKind = FigureKind {
    name: "ablation-errors",
    title: "Largest and median held-out error of each form of the decode energy model",
    needs: "table fit_summary (decode runs on both sides of a split)",
};

/// The errors of one form in one setting, as shares of the measured energy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SettingErrors {
    /// Index into [`AblationErrors::settings`].
    pub setting: usize,
    /// Largest error of a held-out cell.
    pub max_abs_error: f64,
    /// Median error of held-out cells.
    pub median_abs_error: f64,
}

/// The errors of one form.
#[derive(Debug, Clone, PartialEq)]
pub struct FormErrors {
    /// Name of the form.
    pub form: String,
    /// Its errors, a setting each.
    pub errors: Vec<SettingErrors>,
}

/// Errors of every form.
#[derive(Debug, Clone, PartialEq)]
pub struct AblationErrors {
    /// Whether one of the runs is simulated.
    pub synthetic: bool,
    /// Names of the settings.
    pub settings: Vec<String>,
    /// The forms, from top to bottom.
    pub forms: Vec<FormErrors>,
}

/// Height of one setting of a form; less where there are many.
const ROW: f64 = 2.6 * MM;
const LOW_ROW: f64 = 2.0 * MM;
/// Between two forms.
const FORM_GAP: f64 = 2.2 * MM;

impl AblationErrors {
    fn errors(&self) -> impl Iterator<Item = &SettingErrors> {
        self.forms.iter().flat_map(|form| &form.errors)
    }

    fn check(&self) -> Result<(), FigureError> {
        let check = Check(KIND.name);
        if self.errors().next().is_none() {
            return Err(check.missing("held-out errors of a form"));
        }
        for form in &self.forms {
            for error in &form.errors {
                let what = || format!("held-out error of form \"{}\"", form.form);
                check.finite(what, error.max_abs_error)?;
                check.finite(what, error.median_abs_error)?;
                if error.setting >= self.settings.len() {
                    return Err(check.missing(format!("a name of setting {}", error.setting)));
                }
            }
        }
        Ok(())
    }

    /// Logarithmic over the errors above zero where they span more than a factor of ten.
    fn axis(&self) -> Axis {
        let values = || {
            self.errors()
                .flat_map(|error| [error.max_abs_error, error.median_abs_error])
                .map(|error| 100.0 * error)
        };
        let high = values().fold(0.0, f64::max);
        // An error of a millionth of the largest is as good as none and lies at the axis' end.
        let low = range(values().filter(|error| *error > 1e-6 * high)).map_or(0.0, |range| range.0);
        if low > 0.0 && high / low > 10.0 {
            Axis::logarithmic("Held-out error of a cell mean", "%", (low, high), 7)
        } else {
            Axis::linear("Held-out error of a cell mean", "%", (0.0, high.max(1.0)), 6)
        }
    }

    fn legend(&self, looks: &[Look]) -> Vec<Entry> {
        let grey = |filled| Key::Marker { marker: Marker::Circle, colour: GREY, filled };
        let mut entries: Vec<Entry> = Vec::new();
        if self.settings.len() > 1 {
            entries.extend(self.settings.iter().zip(looks).map(|(setting, look)| {
                let key = Key::Marker { marker: look.marker, colour: look.colour, filled: true };
                (key, setting.clone())
            }));
        }
        entries.push((grey(true), "largest".to_owned()));
        entries.push((grey(false), "median (hollow)".to_owned()));
        entries
    }
}

impl Figure for AblationErrors {
    fn kind(&self) -> &'static FigureKind {
        &KIND
    }

    fn draw(&self) -> Result<Drawing, FigureError> {
        self.check()?;
        let looks: Vec<Look> = (0..self.settings.len()).map(Look::of).collect();
        let subject = match self.settings.as_slice() {
            [only] => only.as_str(),
            _ => "",
        };
        let mut page = Page::new(&KIND, subject, self.synthetic);
        page.legend(&self.legend(&looks));
        let forms: Vec<_> = self.forms.iter().filter(|form| !form.errors.is_empty()).collect();
        let limit = 0.4 * WIDTH;
        let names: Vec<String> =
            forms.iter().map(|form| font::elide(&form.form, SMALL, limit)).collect();
        let widest = names.iter().map(|name| font::width(name, SMALL)).fold(0.0, f64::max);
        let left = MARGIN + widest + 1.5 * MM;
        let row_height = if self.settings.len() > 4 { LOW_ROW } else { ROW };
        let height: f64 =
            forms.iter().map(|form| row_height * form.errors.len() as f64 + FORM_GAP).sum();
        let rows = Axis {
            title: String::new(),
            scale: Scale::Linear,
            low: 0.0,
            high: 1.0,
            ticks: Vec::new(),
        };
        let panel = page.panel(left, height, self.axis(), rows, true);
        let mut top = panel.area.top;
        for (form, name) in forms.iter().zip(&names) {
            let own = row_height * form.errors.len() as f64 + FORM_GAP;
            let at = Point::new(left - 1.2 * MM, top + own / 2.0 + 0.35 * SMALL);
            page.scene.text(name, at, Anchor::End, SMALL, INK);
            if top > panel.area.top {
                let ends = [MARGIN, panel.area.right].map(|x| Point::new(x, top));
                page.scene.line(ends.to_vec(), Stroke::solid(GRID, 2.0 * HAIRLINE));
            }
            for (row, error) in form.errors.iter().enumerate() {
                let y = top + FORM_GAP / 2.0 + row_height * (row as f64 + 0.5);
                dumbbell(&mut page, &panel, error, looks[error.setting], y);
            }
            top += own;
        }
        panel.axes(&mut page.scene, true);
        Ok(page.finish())
    }
}

/// The median hollow and the maximum filled, with a line between them.
fn dumbbell(page: &mut Page, panel: &Panel, error: &SettingErrors, look: Look, y: f64) {
    let at = |share: f64| Point::new(panel.at_x(panel.x.clamp(100.0 * share)), y);
    let (median, largest) = (at(error.median_abs_error), at(error.max_abs_error));
    page.scene.line(vec![median, largest], Stroke::solid(look.colour, 1.5 * HAIRLINE));
    page.scene.marker(median, look.marker, look.colour, false);
    page.scene.marker(largest, look.marker, look.colour, true);
}
