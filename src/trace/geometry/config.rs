//! Reads a Hugging Face `config.json`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::family::{self, Bias, FAMILIES, Family, Sliding};
use super::published::all_but_each;
use super::{Geometry, Shape};
use crate::TraceError;

pub(super) const VISION_NOTE: &str = "only the language model is counted: decoding does not read the \
                                      encoder of images or video";

/// A config.json is a page of text; anything larger is another file.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
const MAX_LAYERS: u32 = 10_000;
/// Bound of widths and heads.
const MAX_WIDTH: u32 = 1_000_000;
const MAX_VOCABULARY: u32 = 100_000_000;

/// Keys that only a mixture of experts has; a value of 0 or 1, or null, is none.
const EXPERT_KEYS: &[&str] = &[
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "moe_num_experts",
];

/// What the caller knows better than `config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ConfigOptions {
    /// Bytes of one weight, needed for quantised weights, whose layout `config.json` does not give.
    pub weight_bytes_per_param: Option<f64>,
    /// Bytes of one key or value; the size of the model's type when absent.
    pub kv_bytes_per_value: Option<f64>,
}

/// Reads the geometry of a dense decoder from `config.json` at `path`.
///
/// # Errors
/// When the file cannot be read, and as [`parse_config`].
pub fn read_config(path: &Path, options: ConfigOptions) -> Result<Geometry, TraceError> {
    let io = |source| TraceError::Io { action: "read", path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        let message = format!("is larger than {MAX_CONFIG_BYTES} bytes; expected a config.json");
        return Err(TraceError::Format { path: path.to_owned(), line: None, message });
    }
    parse_config(&bytes, path, options)
}

/// Reads the geometry of a dense decoder from the bytes of a `config.json`; `path` names it in messages.
///
/// # Errors
/// When the text is not JSON, a number is missing or impossible, the model is a mixture of experts, or
/// its family is not supported.
pub fn parse_config(
    bytes: &[u8],
    path: &Path,
    options: ConfigOptions,
) -> Result<Geometry, TraceError> {
    let root: Value = serde_json::from_slice(bytes).map_err(|error| TraceError::Format {
        path: path.to_owned(),
        line: Some(error.line() as u64),
        message: format!("is not valid JSON: {error}"),
    })?;
    let config = Config::new(path, &root)?;
    config.refuse_experts()?;
    let family = config.family()?;
    let mut notes = Vec::new();
    let shape = config.shape(family, &mut notes)?;
    let types = config.types(options, &mut notes)?;
    if config.is_multimodal() {
        notes.push(VISION_NOTE.to_owned());
    }
    let mut geometry = shape.geometry(types.weight_bytes, types.kv_bytes);
    geometry.model.name = config.text("_name_or_path")?.unwrap_or_default();
    geometry.model.dtype = types.name;
    geometry.notes = notes;
    Ok(geometry)
}

/// The type of the weights and the sizes that follow from it.
struct Types {
    name: Option<String>,
    weight_bytes: Option<f64>,
    kv_bytes: Option<f64>,
}

/// A config.json: the object that describes the language model, and the one around it.
struct Config<'a> {
    path: PathBuf,
    language: &'a Map<String, Value>,
    root: &'a Map<String, Value>,
}

impl<'a> Config<'a> {
    fn new(path: &Path, root: &'a Value) -> Result<Self, TraceError> {
        let path = path.to_owned();
        let Some(root) = root.as_object() else {
            let message = "is not a JSON object; expected a config.json".into();
            return Err(TraceError::Format { path, line: None, message });
        };
        let language = root.get("text_config").and_then(Value::as_object).unwrap_or(root);
        Ok(Self { path, language, root })
    }

    fn error<T>(&self, message: String) -> Result<T, TraceError> {
        Err(TraceError::Format { path: self.path.clone(), line: None, message })
    }

    /// The value of a key, of the language model first; null is absent.
    fn value(&self, key: &str) -> Option<&'a Value> {
        let present = |map: &'a Map<String, Value>| map.get(key).filter(|value| !value.is_null());
        present(self.language).or_else(|| present(self.root))
    }

    fn number(&self, key: &str, max: u32) -> Result<Option<u32>, TraceError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
            Some(number) if (1..=max).contains(&number) => Ok(Some(number)),
            _ => {
                self.error(format!("\"{key}\" is {value}; expected a whole number from 1 to {max}"))
            }
        }
    }

    /// A number that must be there, or that the family's files may leave out.
    fn required(
        &self,
        family: &Family,
        key: &str,
        max: u32,
        notes: &mut Vec<String>,
    ) -> Result<u32, TraceError> {
        if let Some(number) = self.number(key, max)? {
            return Ok(number);
        }
        let Some((_, number)) = family.defaults.iter().find(|default| default.0 == key) else {
            return self
                .error(format!("has no \"{key}\"; expected a whole number from 1 to {max}"));
        };
        notes.push(format!("\"{key}\" is absent: {number}, the default of the family"));
        Ok(*number)
    }

    fn switch(&self, key: &str) -> Result<Option<bool>, TraceError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(on)) => Ok(Some(*on)),
            Some(other) => self.error(format!("\"{key}\" is {other}; expected true or false")),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>, TraceError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => self.error(format!("\"{key}\" is {other}; expected a text")),
        }
    }

    fn is_multimodal(&self) -> bool {
        ["vision_config", "audio_config"].iter().any(|key| self.root.contains_key(*key))
    }

    fn refuse_experts(&self) -> Result<(), TraceError> {
        for key in EXPERT_KEYS {
            let count = self.value(key).and_then(Value::as_u64).unwrap_or(0);
            if count > 1 {
                return self.error(format!(
                    "describes a mixture of experts (\"{key}\" is {count}): M_w / B_eff assumes dense \
                     weights that the whole batch shares"
                ));
            }
        }
        Ok(())
    }

    fn family(&self) -> Result<&'static Family, TraceError> {
        let supported: Vec<&str> =
            FAMILIES.iter().flat_map(|family| family.model_types).copied().collect();
        let supported = supported.join(", ");
        let Some(model_type) = self.text("model_type")? else {
            return self.error(format!("has no \"model_type\"; supported are {supported}"));
        };
        match family::of_model_type(&model_type) {
            Some(family) => Ok(family),
            None => self.error(format!(
                "\"model_type\" is \"{model_type}\", whose layers are not known here; supported are \
                 {supported}"
            )),
        }
    }

    fn shape(&self, family: &'static Family, notes: &mut Vec<String>) -> Result<Shape, TraceError> {
        let layers = self.required(family, "num_hidden_layers", MAX_LAYERS, notes)?;
        let hidden = self.required(family, "hidden_size", MAX_WIDTH, notes)?;
        let heads = self.required(family, "num_attention_heads", MAX_WIDTH, notes)?;
        let bias = |bias| match bias {
            Bias::Never => Ok(false),
            Bias::Always => Ok(true),
            Bias::Key(key) => Ok(self.switch(key)?.unwrap_or(false)),
        };
        let sliding_layers = self.sliding_layers(family, layers, notes)?;
        let shape = Shape {
            family,
            layers,
            hidden,
            intermediate: self.required(family, "intermediate_size", MAX_WIDTH, notes)?,
            heads,
            kv_heads: self.kv_heads(family, heads, notes)?,
            head_dim: self.head_dim(family, hidden, heads)?,
            vocabulary: self.required(family, "vocab_size", MAX_VOCABULARY, notes)?,
            tied: self.switch("tie_word_embeddings")?.unwrap_or(family.tied_by_default),
            query_key_value_bias: bias(family.query_key_value_bias)?,
            output_bias: bias(family.output_bias)?,
            feed_forward_bias: bias(family.feed_forward_bias)?,
            sliding_window: if sliding_layers.is_empty() {
                None
            } else {
                Some(self.required(family, "sliding_window", u32::MAX, notes)?)
            },
            sliding_layers,
        };
        if shape.parameters_fit() {
            Ok(shape)
        } else {
            self.error("describes more parameters than 64 bits count".into())
        }
    }

    fn kv_heads(
        &self,
        family: &Family,
        heads: u32,
        notes: &mut Vec<String>,
    ) -> Result<u32, TraceError> {
        let key = "num_key_value_heads";
        let kv_heads = if family.kv_heads_default_to_heads && self.value(key).is_none() {
            heads
        } else {
            self.required(family, key, MAX_WIDTH, notes)?
        };
        if heads.is_multiple_of(kv_heads) {
            return Ok(kv_heads);
        }
        self.error(format!(
            "\"{key}\" is {kv_heads}; expected a divisor of \"num_attention_heads\", {heads}"
        ))
    }

    fn head_dim(&self, family: &Family, hidden: u32, heads: u32) -> Result<u32, TraceError> {
        if let Some(head_dim) = self.number("head_dim", MAX_WIDTH)?.or(family.head_dim) {
            return Ok(head_dim);
        }
        if hidden.is_multiple_of(heads) {
            return Ok(hidden / heads);
        }
        self.error(format!(
            "has no \"head_dim\", and \"hidden_size\" {hidden} is no multiple of \
             \"num_attention_heads\" {heads}"
        ))
    }

    fn sliding_layers(
        &self,
        family: &Family,
        layers: u32,
        notes: &mut Vec<String>,
    ) -> Result<Vec<u32>, TraceError> {
        if let Some(types) = self.value("layer_types") {
            return self.listed_sliding_layers(types, layers);
        }
        match family.sliding {
            Sliding::Never => Ok(Vec::new()),
            Sliding::Every if self.is_null("sliding_window") => Ok(Vec::new()),
            Sliding::Every => Ok((0..layers).collect()),
            Sliding::FromLayer => {
                let on = self.switch("use_sliding_window")?.unwrap_or(false);
                if !on || self.is_null("sliding_window") {
                    return Ok(Vec::new());
                }
                // Zero is a count of layers here, so `required`, which starts at one, does not fit.
                let first = match self.value("max_window_layers").and_then(Value::as_u64) {
                    Some(first) => u32::try_from(first).unwrap_or(u32::MAX),
                    None => self.required(family, "max_window_layers", u32::MAX, notes)?,
                };
                Ok((first..layers).collect())
            }
            Sliding::AllButEach(period) => {
                let keys = ["sliding_window_pattern", "_sliding_window_pattern"];
                let mut period = period;
                for key in keys {
                    period = self.number(key, MAX_LAYERS)?.unwrap_or(period);
                }
                Ok(all_but_each(period, layers))
            }
        }
    }

    fn is_null(&self, key: &str) -> bool {
        self.language.get(key).is_some_and(Value::is_null)
    }

    fn listed_sliding_layers(&self, types: &Value, layers: u32) -> Result<Vec<u32>, TraceError> {
        let list = types.as_array().filter(|list| list.len() == layers as usize);
        let Some(list) = list else {
            let found = types.as_array().map_or_else(
                || format!("{types}"),
                |list| format!("a list of {} entries", list.len()),
            );
            return self.error(format!(
                "\"layer_types\" is {found}; expected one entry for each of {layers} layers"
            ));
        };
        let mut sliding = Vec::new();
        for (layer, kind) in (0..layers).zip(list) {
            match kind.as_str() {
                Some("full_attention") => {}
                Some("sliding_attention") => sliding.push(layer),
                _ => {
                    return self.error(format!(
                        "\"layer_types\" entry {layer} is {kind}; supported are \"full_attention\" and \
                         \"sliding_attention\""
                    ));
                }
            }
        }
        Ok(sliding)
    }

    fn types(&self, options: ConfigOptions, notes: &mut Vec<String>) -> Result<Types, TraceError> {
        self.check_size("weight bytes", options.weight_bytes_per_param)?;
        self.check_size("key-value bytes", options.kv_bytes_per_value)?;
        let name = match self.text("dtype")? {
            Some(name) => Some(name),
            None => self.text("torch_dtype")?,
        };
        let size = match name.as_deref() {
            None => None,
            Some(name) => match bytes_of_type(name) {
                Some(size) => Some(size),
                None => {
                    return self.error(format!("\"dtype\" is \"{name}\", a type of unknown size"));
                }
            },
        };
        if name.is_none() {
            notes.push("neither \"dtype\" nor \"torch_dtype\" is given: sizes are unknown".into());
        }
        let quantised = self.value("quantization_config").is_some();
        if quantised && options.weight_bytes_per_param.is_none() {
            notes.push(
                "the weights are quantised and config.json does not say how many bytes each takes: \
                 give the bytes of a weight"
                    .into(),
            );
        }
        let from_type = if quantised { None } else { size };
        Ok(Types {
            weight_bytes: options.weight_bytes_per_param.or(from_type),
            kv_bytes: options.kv_bytes_per_value.or(size),
            name,
        })
    }

    fn check_size(&self, what: &str, size: Option<f64>) -> Result<(), TraceError> {
        match size {
            Some(bytes) if !(bytes > 0.0 && bytes <= 16.0) => self.error(format!(
                "cannot be read with {what} of {bytes}; expected more than 0 and at most 16"
            )),
            _ => Ok(()),
        }
    }
}

/// Bytes of a value of a PyTorch type, which may be written `torch.bfloat16`.
fn bytes_of_type(name: &str) -> Option<f64> {
    match name.strip_prefix("torch.").unwrap_or(name) {
        "float32" | "float" => Some(4.0),
        "bfloat16" | "float16" | "half" => Some(2.0),
        "float8_e4m3fn" | "float8_e5m2" => Some(1.0),
        _ => None,
    }
}
