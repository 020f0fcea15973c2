//! Rules about what run.json says of the model, the sources and the claims.

use wattrace_schema::{Reading, RunKind, RunManifest, Unit};

use super::{Place, Report};
use crate::manifest::RUN_JSON;

pub(super) fn geometry(manifest: &RunManifest, report: &mut Report) {
    if manifest.kind != RunKind::Decode {
        return;
    }
    let model = &manifest.model;
    let kv = [
        ("layers", model.layers.is_some()),
        ("kv_heads", model.kv_heads.is_some()),
        ("head_dim", model.head_dim.is_some()),
        ("kv_bytes_per_value", model.kv_bytes_per_value.is_some()),
    ];
    let untied = model.tied_embeddings != Some(true);
    let weights = [
        ("total_params", model.total_params.is_some()),
        ("weight_bytes_per_param", model.weight_bytes_per_param.is_some()),
        ("tied_embeddings", model.tied_embeddings.is_some()),
        ("vocab_size", model.vocab_size.is_some() || !untied),
        ("hidden_size", model.hidden_size.is_some() || !untied),
    ];
    let weights = if model.decode_weight_bytes.is_some() { &[] } else { weights.as_slice() };
    let missing: Vec<_> =
        kv.iter().chain(weights).filter(|(_, given)| !given).map(|(key, _)| *key).collect();
    if !missing.is_empty() {
        let message = format!(
            "key \"model\" lacks {}, of what decides how many bytes a decode iteration reads",
            missing.join(", ")
        );
        report.add(Place::file(RUN_JSON), message);
    }
}

pub(super) fn dense(manifest: &RunManifest, report: &mut Report) {
    if manifest.kind == RunKind::Decode && manifest.is_mixture_of_experts() {
        let message = "key \"model.moe\" is given; the energy model is for dense models, \
                       and leaves this run out";
        report.add(Place::file(RUN_JSON), message.to_owned());
    }
}

pub(super) fn claims_present(manifest: &RunManifest, report: &mut Report) {
    if manifest.kind == RunKind::Summary && manifest.claims.is_empty() {
        let message = "key \"claims\" is empty; a summary run consists of its claims";
        report.add(Place::file(RUN_JSON), message.to_owned());
    }
}

/// The unit that the end of a metric's name stands for; longer endings first.
const UNIT_SUFFIXES: [(&str, Unit); 10] = [
    ("tau_s", Unit::SecondPerToken),
    ("_j_per_token", Unit::JoulePerToken),
    ("_tok_s", Unit::TokenPerSecond),
    ("_req_s", Unit::RequestPerSecond),
    ("_tokens", Unit::Token),
    ("_seconds", Unit::Second),
    ("_ms", Unit::Millisecond),
    ("_w", Unit::Watt),
    ("_j", Unit::Joule),
    ("_s", Unit::Second),
];

pub(super) fn claims_unit(manifest: &RunManifest, report: &mut Report) {
    for (index, claim) in manifest.claims.iter().enumerate() {
        let named = UNIT_SUFFIXES.iter().find(|(suffix, _)| claim.metric.ends_with(suffix));
        let expected = match named {
            Some((_, unit)) if claim.unit != unit.symbol() => format!("\"{}\"", unit.symbol()),
            None if claim.unit.trim().is_empty() => {
                "a unit, or \"1\" for a plain number".to_owned()
            }
            _ => continue,
        };
        let message = format!(
            "key \"claims[{index}].unit\" of \"{}\" is \"{}\"; expected {expected}",
            claim.metric, claim.unit
        );
        report.add(Place::file(RUN_JSON), message);
    }
}

pub(super) fn average_window(manifest: &RunManifest, report: &mut Report) {
    for (index, source) in manifest.power_sources.iter().enumerate() {
        if source.reading == Reading::Average && source.averaging_window_ms.is_none() {
            let message = format!(
                "source \"{}\" reads averages, but key \"power_sources[{index}].averaging_window_ms\" \
                 is null; expected the length of the average",
                source.id
            );
            report.add(Place::file(RUN_JSON), message);
        }
    }
}
