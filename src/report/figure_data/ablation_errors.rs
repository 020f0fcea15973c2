//! `ablation-errors`: table `fit_summary`.

use wattrace_figures::{AblationErrors, FormErrors, SettingErrors};

use super::{FigureDataError, Found, Source, is_synthetic};

pub(super) fn figures(source: &Source<'_>) -> Result<Found, FigureDataError> {
    let table = source.table("fit_summary")?;
    let (setting, form) = (table.text("setting")?, table.text("form")?);
    let (largest, median) = (table.numbers("max_abs_error")?, table.numbers("median_abs_error")?);
    let flags = table.text_lists("flags")?;
    // Settings and forms keep the order of the table.
    let mut figure = AblationErrors { synthetic: false, settings: Vec::new(), forms: Vec::new() };
    for row in 0..table.rows {
        let (Some(setting), Some(form), Some(max_abs_error), Some(median_abs_error)) =
            (&setting[row], &form[row], largest[row], median[row])
        else {
            continue;
        };
        let setting =
            position_or_push(&mut figure.settings, |name| name == setting, || setting.clone());
        let new_form = || FormErrors { form: form.clone(), errors: Vec::new() };
        let form = position_or_push(&mut figure.forms, |known| known.form == *form, new_form);
        figure.forms[form].errors.push(SettingErrors { setting, max_abs_error, median_abs_error });
        figure.synthetic |= is_synthetic(flags[row].as_ref());
    }
    if figure.forms.is_empty() {
        return Err(source.lacking("no form has a held-out error"));
    }
    Ok(vec![(String::new(), Box::new(figure) as _)].into())
}

/// The place of the item that is wanted, added at the end if it is not there yet.
fn position_or_push<T>(
    items: &mut Vec<T>,
    wanted: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
) -> usize {
    items.iter().position(wanted).unwrap_or_else(|| {
        items.push(new());
        items.len() - 1
    })
}
