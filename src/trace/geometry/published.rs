//! Geometry of widely served dense models, for archives of results that name a model and nothing else.
//!
//! The numbers are facts from the `config.json` that each model's makers publish beside its weights. The
//! parameter counts that follow from them are compared in tests with those that the published weight
//! files state.

use super::family::{self, Sliding};
use super::{Geometry, Shape};

/// layers, hidden, intermediate, heads, kv_heads, head_dim, vocabulary
type Numbers = [u32; 7];

const LLAMA_8B: Numbers = [32, 4096, 14336, 32, 8, 128, 128_256];
const LLAMA_70B: Numbers = [80, 8192, 28672, 64, 8, 128, 128_256];
const LLAMA_405B: Numbers = [126, 16384, 53248, 128, 8, 128, 128_256];
const QWEN3_8B: Numbers = [36, 4096, 12288, 32, 8, 128, 151_936];
const QWEN3_14B: Numbers = [40, 5120, 17408, 40, 8, 128, 151_936];
const QWEN3_32B: Numbers = [64, 5120, 25600, 64, 8, 128, 151_936];
const GEMMA3_12B: Numbers = [48, 3840, 15360, 16, 8, 256, 262_208];
const GEMMA3_27B: Numbers = [62, 5376, 21504, 32, 16, 128, 262_208];

/// Published name, `model_type`, numbers, sliding window.
const MODELS: &[(&str, &str, Numbers, Option<u32>)] = &[
    ("meta-llama/Llama-3.1-8B-Instruct", "llama", LLAMA_8B, None),
    ("meta-llama/Llama-3.1-70B-Instruct", "llama", LLAMA_70B, None),
    ("meta-llama/Llama-3.3-70B-Instruct", "llama", LLAMA_70B, None),
    ("meta-llama/Llama-3.1-405B-Instruct", "llama", LLAMA_405B, None),
    ("meta-llama/Llama-3.1-405B-Instruct-FP8", "llama", LLAMA_405B, None),
    ("Qwen/Qwen3-8B", "qwen3", QWEN3_8B, None),
    ("Qwen/Qwen3-14B", "qwen3", QWEN3_14B, None),
    ("Qwen/Qwen3-32B", "qwen3", QWEN3_32B, None),
    ("Qwen/Qwen3-VL-8B-Instruct", "qwen3_vl", QWEN3_8B, None),
    ("Qwen/Qwen3-VL-32B-Instruct", "qwen3_vl", QWEN3_32B, None),
    ("google/gemma-3-12b-it", "gemma3", GEMMA3_12B, Some(1024)),
    ("google/gemma-3-27b-it", "gemma3", GEMMA3_27B, Some(1024)),
];

/// Geometry of the language model of `name`, with weights of `weight_bytes` and keys and values of
/// `kv_bytes` each; `None` for a model that is not in the table.
#[must_use]
pub fn published_geometry(
    name: &str,
    weight_bytes: Option<f64>,
    kv_bytes: Option<f64>,
) -> Option<Geometry> {
    let (_, model_type, numbers, sliding_window) = MODELS.iter().find(|model| model.0 == name)?;
    let family = family::of_model_type(model_type)?;
    let [layers, hidden, intermediate, heads, kv_heads, head_dim, vocabulary] = *numbers;
    let sliding_layers = match (family.sliding, sliding_window) {
        (Sliding::AllButEach(period), Some(_)) => all_but_each(period, layers),
        _ => Vec::new(),
    };
    let shape = Shape {
        family,
        layers,
        hidden,
        intermediate,
        heads,
        kv_heads,
        head_dim,
        vocabulary,
        tied: family.tied_by_default,
        query_key_value_bias: false,
        output_bias: false,
        feed_forward_bias: false,
        sliding_window: *sliding_window,
        sliding_layers,
    };
    let mut geometry = shape.geometry(weight_bytes, kv_bytes);
    name.clone_into(&mut geometry.model.name);
    if matches!(*model_type, "gemma3" | "qwen3_vl") {
        geometry.notes.push(super::config::VISION_NOTE.to_owned());
    }
    Some(geometry)
}

/// The layers but each `period`-th.
pub(super) fn all_but_each(period: u32, layers: u32) -> Vec<u32> {
    (0..layers).filter(|layer| (layer + 1) % period != 0).collect()
}
