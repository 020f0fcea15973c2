//! Model geometry: what one decode iteration reads, part by part, from a model's own `config.json`.
//!
//! Dense decoders of the Llama, Mistral, Qwen2, Qwen3 and Gemma families are understood. A mixture of
//! experts is refused with its reason, and so is a family whose layers are not known here.

mod config;
mod family;
mod published;
mod text;

use serde::Serialize;
use wattrace_schema::{Flag, FlagSet, Model, Reason};

pub use config::{ConfigOptions, parse_config, read_config};
pub use published::published_geometry;

use family::Family;

/// Relative difference above which two values of M_w disagree.
pub const WEIGHT_BYTES_TOLERANCE: f64 = 0.001;

/// Weights of one kind, in all layers together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// What the weights are.
    pub name: &'static str,
    /// Shape of one copy.
    pub shape: Vec<u64>,
    /// Copies in the model: the layers, or one.
    pub copies: u64,
    /// Parameters of all copies.
    pub params: u64,
    /// Bytes of all copies; null where the bytes of one weight are not known.
    pub bytes: Option<f64>,
    /// Whether a decode iteration reads all of it; an embedding look-up reads single rows.
    pub read_each_iteration: bool,
}

/// What `config.json` says of a dense decoder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Geometry {
    /// Name of the family.
    pub family: &'static str,
    /// The numbers as `run.json` holds them.
    pub model: Model,
    /// The weights, part by part.
    pub parts: Vec<Part>,
    /// Layers, from 0, that attend to a sliding window instead of the whole history.
    pub sliding_layers: Vec<u32>,
    /// What was assumed or left out.
    pub notes: Vec<String>,
}

impl Geometry {
    /// All parameters.
    #[must_use]
    pub fn total_parameters(&self) -> u64 {
        self.parts.iter().map(|part| part.params).sum()
    }

    /// Parameters that one decode iteration reads.
    #[must_use]
    pub fn parameters_per_iteration(&self) -> u64 {
        self.parts.iter().filter(|part| part.read_each_iteration).map(|part| part.params).sum()
    }

    /// M_w summed part by part, in bytes.
    ///
    /// # Errors
    /// [`Reason::NoGeometry`] where the bytes of one weight are not known.
    pub fn weight_bytes_per_iteration(&self) -> Result<f64, Reason> {
        let read = self.parts.iter().filter(|part| part.read_each_iteration);
        read.map(|part| part.bytes).sum::<Option<f64>>().ok_or(Reason::NoGeometry)
    }

    /// Relative difference between M_w of `model` and the sum of the parts.
    ///
    /// # Errors
    /// The reason why either cannot be had.
    pub fn weight_bytes_difference(&self, model: &Model) -> Result<f64, Reason> {
        let parts = match self.weight_bytes_per_iteration() {
            Ok(bytes) => bytes,
            Err(reason) => {
                self.parameters_per_iteration() as f64
                    * model.weight_bytes_per_param.ok_or(reason)?
            }
        };
        Ok((model.weight_bytes_per_iteration()? - parts) / parts)
    }

    /// The flags of `model` against this geometry: [`Flag::GeometryMismatch`] when M_w differs by more
    /// than [`WEIGHT_BYTES_TOLERANCE`], [`Flag::SlidingWindow`] when layers do not read all history.
    ///
    /// # Errors
    /// The reason why the two cannot be compared.
    pub fn flags_for(&self, model: &Model) -> Result<FlagSet, Reason> {
        let mut flags = self.flags();
        let difference = self.weight_bytes_difference(model)?;
        flags.insert_if(difference.abs() > WEIGHT_BYTES_TOLERANCE, Flag::GeometryMismatch);
        Ok(flags)
    }

    /// [`Flag::SlidingWindow`] when some layers do not read all history.
    #[must_use]
    pub fn flags(&self) -> FlagSet {
        let mut flags = FlagSet::EMPTY;
        flags.insert_if(!self.sliding_layers.is_empty(), Flag::SlidingWindow);
        flags
    }

    /// The geometry, its sums and its flags as JSON; a sum that cannot be had is null.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(self).expect("plain numbers and texts serialise");
        json["total_params"] = self.total_parameters().into();
        json["params_per_iteration"] = self.parameters_per_iteration().into();
        json["weight_bytes_per_iteration"] = self.weight_bytes_per_iteration().ok().into();
        json["kv_bytes_per_token"] = self.model.kv_bytes_per_token().ok().into();
        json["flags"] = self.flags().iter().map(Flag::code).collect();
        json
    }

    /// The geometry as a table for people: the parts, M_w, K_KV, flags and notes.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::render(self)
    }
}

/// The numbers that fix a dense decoder; see [`Shape::parameters_fit`] for their bounds.
#[derive(Debug, Clone)]
struct Shape {
    family: &'static Family,
    layers: u32,
    hidden: u32,
    intermediate: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    vocabulary: u32,
    tied: bool,
    query_key_value_bias: bool,
    output_bias: bool,
    feed_forward_bias: bool,
    sliding_window: Option<u32>,
    sliding_layers: Vec<u32>,
}

impl Shape {
    /// The parts of the model in the order in which a token meets them. `weight_bytes` is the size of
    /// one weight.
    fn parts(&self, weight_bytes: Option<f64>) -> Vec<Part> {
        let [hidden, intermediate] = [self.hidden, self.intermediate].map(u64::from);
        let [vocabulary, head_dim] = [self.vocabulary, self.head_dim].map(u64::from);
        let query = u64::from(self.heads) * head_dim;
        let key = u64::from(self.kv_heads) * head_dim;

        let mut parts = Parts { weight_bytes, parts: Vec::new() };
        if !self.tied {
            parts.push("token embedding", &[vocabulary, hidden], 1);
            parts.parts[0].read_each_iteration = false;
        }
        let layers = u64::from(self.layers);
        for (name, shape, present) in [
            ("query projection", &[hidden, query][..], true),
            ("key projection", &[hidden, key], true),
            ("value projection", &[hidden, key], true),
            ("query bias", &[query], self.query_key_value_bias),
            ("key bias", &[key], self.query_key_value_bias),
            ("value bias", &[key], self.query_key_value_bias),
            ("query norm", &[head_dim], self.family.query_key_norms),
            ("key norm", &[head_dim], self.family.query_key_norms),
            ("output projection", &[query, hidden], true),
            ("output bias", &[hidden], self.output_bias),
            ("gate projection", &[hidden, intermediate], true),
            ("up projection", &[hidden, intermediate], true),
            ("down projection", &[intermediate, hidden], true),
            ("gate bias", &[intermediate], self.feed_forward_bias),
            ("up bias", &[intermediate], self.feed_forward_bias),
            ("down bias", &[hidden], self.feed_forward_bias),
            ("layer norms", &[u64::from(self.family.norms), hidden], true),
        ] {
            if present {
                parts.push(name, shape, layers);
            }
        }
        parts.push("final norm", &[hidden], 1);
        let head = if self.tied { "LM head (the embedding)" } else { "LM head" };
        parts.push(head, &[hidden, vocabulary], 1);
        parts.parts
    }

    /// Whether all parameters, counted in 128 bits, fit 64.
    fn parameters_fit(&self) -> bool {
        let [layers, hidden, intermediate] =
            [self.layers, self.hidden, self.intermediate].map(u128::from);
        let attention = 4 * u128::from(self.heads) * u128::from(self.head_dim) * hidden;
        // Biases and norms are at most three times the projections, were all widths one.
        let layer = 4 * (attention + 3 * hidden * intermediate);
        layers * layer + 2 * u128::from(self.vocabulary) * hidden <= u128::from(u64::MAX)
    }

    /// The geometry with weights of `weight_bytes` and keys and values of `kv_bytes`, where known.
    fn geometry(self, weight_bytes: Option<f64>, kv_bytes: Option<f64>) -> Geometry {
        let parts = self.parts(weight_bytes);
        let mut geometry = Geometry {
            family: self.family.name,
            model: Model {
                layers: Some(self.layers),
                hidden_size: Some(self.hidden),
                intermediate_size: Some(self.intermediate),
                attention_heads: Some(self.heads),
                kv_heads: Some(self.kv_heads),
                head_dim: Some(self.head_dim),
                vocab_size: Some(self.vocabulary),
                tied_embeddings: Some(self.tied),
                weight_bytes_per_param: weight_bytes,
                kv_bytes_per_value: kv_bytes,
                sliding_window: self.sliding_window,
                ..Model::default()
            },
            parts,
            sliding_layers: self.sliding_layers,
            notes: Vec::new(),
        };
        geometry.model.total_params = Some(geometry.total_parameters());
        geometry
    }
}

/// Collects parts with their sizes.
struct Parts {
    weight_bytes: Option<f64>,
    parts: Vec<Part>,
}

impl Parts {
    fn push(&mut self, name: &'static str, shape: &[u64], copies: u64) {
        let params = shape.iter().product::<u64>() * copies;
        let bytes = self.weight_bytes.map(|size| size * params as f64);
        let shape = shape.to_vec();
        self.parts.push(Part { name, shape, copies, params, bytes, read_each_iteration: true });
    }
}

#[cfg(test)]
mod tests;
