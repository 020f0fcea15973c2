//! Rules about an archive as a whole.

use std::collections::BTreeMap;
use std::fs;

use wattrace_schema::Split;

use super::{Place, Report, RunCheck};
use crate::ArchiveListing;
use crate::manifest::RUN_JSON;

pub(super) fn links(listing: &ArchiveListing, _: &[RunCheck], report: &mut Report) {
    for link in &listing.outside {
        let target = fs::canonicalize(&link.folder)
            .map_or_else(|_| "a place outside".to_owned(), |target| target.display().to_string());
        let message = format!("the link leads to \"{target}\" and is not followed");
        report.add(Place::file(link.relative.as_str()), message);
    }
}

pub(super) fn folders(listing: &ArchiveListing, _: &[RunCheck], report: &mut Report) {
    for (folder, error) in &listing.unreadable {
        report
            .add(Place::file(folder.relative.as_str()), format!("cannot list the folder: {error}"));
    }
}

pub(super) fn finished(listing: &ArchiveListing, _: &[RunCheck], report: &mut Report) {
    for folder in &listing.unfinished {
        let message = "the run was never finished: its writer is still at work, or was cut off; \
                       expected a run.json, written last";
        report.add(Place::file(folder.relative.as_str()), message.to_owned());
    }
}

pub(super) fn run_id_unique(_: &ArchiveListing, runs: &[RunCheck], report: &mut Report) {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for run in runs {
        let Some(id) = &run.run_id else { continue };
        let earlier = *first.entry(id).or_insert(&run.run);
        if earlier != run.run {
            let message = format!(
                "run_id \"{}\" is also that of the run in \"{earlier}\"; expected ids that differ",
                id.escape_debug()
            );
            report.add(Place::file(format!("{}/{RUN_JSON}", run.run)), message);
        }
    }
}

pub(super) fn cell_one_side(_: &ArchiveListing, runs: &[RunCheck], report: &mut Report) {
    let mut sides: BTreeMap<(&str, &str), [Option<&str>; 2]> = BTreeMap::new();
    for run in runs {
        if let Some((setting, cell, split)) = &run.place {
            let side = usize::from(*split == Split::Heldout);
            sides.entry((setting, cell)).or_default()[side].get_or_insert(&run.run);
        }
    }
    for ((setting, cell), runs) in sides {
        if let [Some(fit), Some(heldout)] = runs {
            let message = format!(
                "cell \"{cell}\" of setting \"{setting}\" is held out here and fitted in \"{fit}\"; \
                 expected all of its runs on one side"
            );
            report.add(Place::file(format!("{heldout}/{RUN_JSON}")), message);
        }
    }
}
