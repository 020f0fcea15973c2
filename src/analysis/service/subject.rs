//! One run with everything that a spec-driven report says of it.

use std::sync::Arc;

use wattrace_schema::spec::LockedSpec;
use wattrace_schema::{AccuracyRow, Run};

use super::measurement::{RunMeasurement, measure};
use super::rules::ServiceRules;

/// Where the spec of a run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecOrigin {
    /// The run was made under it and names it.
    Run,
    /// It was given for a run that names none.
    Given,
}

impl SpecOrigin {
    /// The name in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Given => "given",
        }
    }
}

/// Who made a run, with what: what a reader needs to make it again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOrigin {
    /// Name of one accelerator.
    pub accelerator: String,
    /// Driver version.
    pub driver: Option<String>,
    /// Name of the engine.
    pub engine: Option<String>,
    /// Its version.
    pub engine_version: Option<String>,
    /// Digest of its container image.
    pub image_digest: Option<String>,
    /// Its flags, as JSON.
    pub engine_flags: Option<String>,
    /// Program that wrote the run.
    pub recorder: Option<String>,
    /// Its version.
    pub recorder_version: Option<String>,
    /// Its command line.
    pub command: Option<String>,
    /// Files that the run was imported from.
    pub imported_from: Option<String>,
}

impl RunOrigin {
    fn of(run: &Run) -> Self {
        let (engine, made) = (&run.manifest.engine, &run.manifest.provenance);
        Self {
            accelerator: run.manifest.hardware.accelerator.clone(),
            driver: run.manifest.hardware.driver.clone(),
            engine: engine.name.clone(),
            engine_version: engine.version.clone(),
            image_digest: engine.image_digest.clone(),
            engine_flags: engine.flags.as_ref().map(ToString::to_string),
            recorder: made.recorder.clone(),
            recorder_version: made.version.clone(),
            command: made.command.clone(),
            imported_from: made.imported_from.clone(),
        }
    }
}

/// One run of a spec-driven report.
#[derive(Debug, Clone)]
pub struct ServiceRun {
    /// What was measured.
    pub measurement: RunMeasurement,
    /// Accuracy scores; empty where the suite was not run.
    pub accuracy: Vec<AccuracyRow>,
    /// The spec; `None`: the run is measured over its whole formal stage and has no verdict.
    pub spec: Option<(Arc<LockedSpec>, SpecOrigin)>,
    /// Who made it, with what.
    pub origin: RunOrigin,
    /// Whether it is simulated.
    pub synthetic: bool,
}

impl ServiceRun {
    /// Measures a run by its spec.
    #[must_use]
    pub fn of(run: &Run, spec: Option<(Arc<LockedSpec>, SpecOrigin)>) -> Self {
        let rules = spec.as_ref().map_or_else(ServiceRules::default, |(spec, origin)| {
            ServiceRules { origin: Some(*origin), ..ServiceRules::from(&**spec) }
        });
        Self {
            measurement: measure(run, &rules),
            accuracy: run.accuracy.clone(),
            spec,
            origin: RunOrigin::of(run),
            synthetic: run.manifest.synthetic,
        }
    }
}
