//! Models ranked by steady and by lifecycle energy per token, side by side.

use std::collections::BTreeSet;

use crate::draw::axis::{measured, number};
use crate::draw::font;
use crate::draw::page::{Entry, Key, MARGIN, Page};
use crate::draw::scene::{Anchor, MM, Point, Stroke, WIDTH};
use crate::draw::style::{DASHED, DATA_LINE, GREY, INK, Marker, SMALL, TEXT, VERMILION};
use crate::error::Check;
use crate::{Drawing, Figure, FigureError, FigureKind};

pub(super) const KIND: FigureKind = FigureKind {
    name: "steady-lifecycle",
    title: "Ranks of models by steady and by lifecycle energy per token",
    needs: "table runs, with models that have both values",
};

/// One model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEnergy {
    /// Name of the model.
    pub model: String,
    /// Energy per token in steady state, J/token.
    pub steady_j_per_token: f64,
    /// Energy per token over the whole lifecycle, J/token.
    pub lifecycle_j_per_token: f64,
}

/// Models of one comparable group.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyLifecycle {
    /// The group: task, size group, engine.
    pub group: String,
    /// Whether a run behind it is simulated.
    pub synthetic: bool,
    /// The models.
    pub models: Vec<ModelEnergy>,
}

const ROW: f64 = 6.2 * MM;
/// Width of the names on each side.
const NAMES: f64 = 28.0 * MM;
/// Width of the ranks.
const RANKS: f64 = 5.6 * MM;

/// The names without the account that published each model, unless that alone tells two apart.
fn short_names(models: &[ModelEnergy]) -> Vec<&str> {
    let short = |name: &'_ str| name.rfind('/').map_or(0, |slash| slash + 1);
    let names: Vec<&str> = models.iter().map(|model| &model.model[short(&model.model)..]).collect();
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    if distinct.len() == models.len() {
        return names;
    }
    models.iter().map(|model| model.model.as_str()).collect()
}

/// Place and rank of every value: places in the order of values, then names; ranks averaged over ties.
fn ranks(models: &[ModelEnergy], value: impl Fn(&ModelEnergy) -> f64) -> Vec<(usize, f64)> {
    let mut order: Vec<usize> = (0..models.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&models[*a], &models[*b]);
        value(a).total_cmp(&value(b)).then_with(|| a.model.cmp(&b.model))
    });
    let mut ranked = vec![(0, 0.0); models.len()];
    for (place, index) in order.iter().enumerate() {
        let own = value(&models[*index]);
        let below = models.iter().filter(|model| value(model) < own).count();
        let tied = models.iter().filter(|model| value(model) == own).count();
        ranked[*index] = (place, below as f64 + (tied as f64 + 1.0) / 2.0);
    }
    ranked
}

impl SteadyLifecycle {
    fn check(&self) -> Result<(), FigureError> {
        let check = Check(KIND.name);
        if self.models.is_empty() {
            return Err(check.missing("models with steady and lifecycle energy per token"));
        }
        for model in &self.models {
            let what = || format!("energy per token of \"{}\"", model.model);
            check.finite(what, model.steady_j_per_token)?;
            check.finite(what, model.lifecycle_j_per_token)?;
        }
        Ok(())
    }

    /// Whether a model changes order with another one.
    fn swaps(&self, model: &ModelEnergy) -> bool {
        self.models.iter().any(|other| {
            let steady = model.steady_j_per_token - other.steady_j_per_token;
            let lifecycle = model.lifecycle_j_per_token - other.lifecycle_j_per_token;
            steady * lifecycle < 0.0
        })
    }

    fn legend(&self) -> Vec<Entry> {
        let swapped = self.models.iter().any(|model| self.swaps(model));
        let mut entries = Vec::new();
        if swapped {
            entries.push((Key::Line(SWAPPED), "changes order with another model".to_owned()));
        }
        if self.models.iter().any(|model| !self.swaps(model)) {
            entries.push((Key::Line(KEPT), "keeps its order".to_owned()));
        }
        entries
    }
}

const SWAPPED: Stroke = Stroke::solid(VERMILION, 1.3 * DATA_LINE);
const KEPT: Stroke = Stroke { colour: GREY, width: DATA_LINE, dash: DASHED };

impl Figure for SteadyLifecycle {
    fn kind(&self) -> &'static FigureKind {
        &KIND
    }

    fn draw(&self) -> Result<Drawing, FigureError> {
        self.check()?;
        let mut page = Page::new(&KIND, &self.group, self.synthetic);
        page.legend(&self.legend());
        page.note("Rank 1: least energy per token (J/token, under each name).");
        let (left, right) = (MARGIN + NAMES + RANKS, WIDTH - MARGIN - NAMES - RANKS);
        let heading = page.y + 1.2 * TEXT;
        let scene = &mut page.scene;
        scene.text("Steady", Point::new(left, heading), Anchor::End, TEXT, INK);
        scene.text("Lifecycle", Point::new(right, heading), Anchor::Start, TEXT, INK);
        let top = heading + 0.8 * ROW;

        let steady = ranks(&self.models, |model| model.steady_j_per_token);
        let lifecycle = ranks(&self.models, |model| model.lifecycle_j_per_token);
        // Models that swap are drawn last, over the others.
        let mut order: Vec<usize> = (0..self.models.len()).collect();
        order.sort_by_key(|index| self.swaps(&self.models[*index]));
        for index in order {
            let model = &self.models[index];
            let swaps = self.swaps(model);
            let (stroke, marker) =
                if swaps { (SWAPPED, Marker::Diamond) } else { (KEPT, Marker::Circle) };
            let from = Point::new(left + 1.5 * MM, top + ROW * steady[index].0 as f64);
            let to = Point::new(right - 1.5 * MM, top + ROW * lifecycle[index].0 as f64);
            scene.line(vec![from, to], stroke);
            for end in [from, to] {
                scene.marker(end, marker, stroke.colour, true);
            }
        }
        let names = short_names(&self.models);
        for (index, model) in self.models.iter().enumerate() {
            let colour = if self.swaps(model) { VERMILION } else { INK };
            let name = font::elide(names[index], SMALL, NAMES);
            let sides = [
                (steady[index], left, -1.0, Anchor::End, model.steady_j_per_token),
                (lifecycle[index], right, 1.0, Anchor::Start, model.lifecycle_j_per_token),
            ];
            for ((place, rank), edge, direction, anchor, value) in sides {
                let y = top + ROW * place as f64;
                let at = |x: f64, dy: f64| Point::new(edge + direction * x, y + dy);
                scene.text(&number(rank), at(0.4 * MM, 0.35 * SMALL), anchor, SMALL, INK);
                scene.text(&name, at(RANKS, -0.12 * SMALL), anchor, SMALL, colour);
                scene.text(&measured(value), at(RANKS, 0.98 * SMALL), anchor, SMALL, GREY);
            }
        }
        page.y = top + ROW * (self.models.len() - 1) as f64 + 0.5 * ROW;
        Ok(page.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_left_out_where_names_stay_distinct() {
        let model = |model: &str| ModelEnergy {
            model: model.into(),
            steady_j_per_token: 1.0,
            lifecycle_j_per_token: 1.0,
        };
        assert_eq!(
            short_names(&[model("Qwen/Qwen2.5-7B"), model("Phi-4")]),
            ["Qwen2.5-7B", "Phi-4"]
        );
        assert_eq!(short_names(&[model("a/m"), model("b/m")]), ["a/m", "b/m"]);
    }

    #[test]
    fn ties_share_their_rank_and_keep_apart() {
        let model = |model: &str, steady_j_per_token| ModelEnergy {
            model: model.into(),
            steady_j_per_token,
            lifecycle_j_per_token: 1.0,
        };
        let models = [model("b", 2.0), model("a", 2.0), model("c", 1.0)];
        // c is first; a and b tie over ranks 2 and 3.
        assert_eq!(
            ranks(&models, |model| model.steady_j_per_token),
            [(2, 2.5), (1, 2.5), (0, 1.0)]
        );
    }
}
