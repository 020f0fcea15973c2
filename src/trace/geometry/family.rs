//! What the supported families of dense decoders have in common with each other, and what not.

/// Whether a projection adds a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bias {
    Never,
    Always,
    /// As the key in config.json says; false when the key is absent.
    Key(&'static str),
}

/// Which layers attend to a sliding window only, where config.json has no `layer_types`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sliding {
    Never,
    /// All layers, unless `sliding_window` is null.
    Every,
    /// With `use_sliding_window`, the layers from `max_window_layers` on.
    FromLayer,
    /// All but each n-th layer, n = `sliding_window_pattern` or this default.
    AllButEach(u32),
}

/// A family of models whose layers are built alike.
#[derive(Debug)]
pub(super) struct Family {
    /// Name for people.
    pub(super) name: &'static str,
    /// Values of `model_type` in config.json; for a multimodal model also of its `text_config`.
    pub(super) model_types: &'static [&'static str],
    /// Bias of the query, key and value projections.
    pub(super) query_key_value_bias: Bias,
    /// Bias of the attention's output projection.
    pub(super) output_bias: Bias,
    /// Bias of the feed-forward projections.
    pub(super) feed_forward_bias: Bias,
    /// Whether query and key heads are normalised with weights of their own.
    pub(super) query_key_norms: bool,
    /// Norms of hidden width in a layer.
    pub(super) norms: u32,
    /// `tie_word_embeddings` when the key is absent.
    pub(super) tied_by_default: bool,
    /// `head_dim` when the key is absent; `None`: hidden_size / num_attention_heads.
    pub(super) head_dim: Option<u32>,
    /// Whether every query head has its own key and value when `num_key_value_heads` is absent.
    pub(super) kv_heads_default_to_heads: bool,
    /// Values of other keys that the family's files leave out when they equal the library's default.
    pub(super) defaults: &'static [(&'static str, u32)],
    /// Layers with a sliding window.
    pub(super) sliding: Sliding,
}

/// The plain decoder that the other families vary.
const LLAMA: Family = Family {
    name: "Llama",
    model_types: &["llama"],
    query_key_value_bias: Bias::Key("attention_bias"),
    output_bias: Bias::Key("attention_bias"),
    feed_forward_bias: Bias::Key("mlp_bias"),
    query_key_norms: false,
    norms: 2,
    tied_by_default: false,
    head_dim: None,
    kv_heads_default_to_heads: true,
    defaults: &[],
    sliding: Sliding::Never,
};

/// Every supported family. Layer contents and defaults follow the modelling code of the
/// `transformers` library.
pub(super) const FAMILIES: &[Family] = &[
    LLAMA,
    Family {
        name: "Mistral",
        model_types: &["mistral"],
        query_key_value_bias: Bias::Never,
        output_bias: Bias::Never,
        feed_forward_bias: Bias::Never,
        defaults: &[("sliding_window", 4096)],
        sliding: Sliding::Every,
        kv_heads_default_to_heads: false,
        ..LLAMA
    },
    Family {
        name: "Qwen2",
        model_types: &["qwen2", "qwen2_5_vl", "qwen2_5_vl_text"],
        query_key_value_bias: Bias::Always,
        output_bias: Bias::Never,
        feed_forward_bias: Bias::Never,
        defaults: &[("sliding_window", 4096), ("max_window_layers", 28)],
        sliding: Sliding::FromLayer,
        kv_heads_default_to_heads: false,
        ..LLAMA
    },
    Family {
        name: "Qwen3",
        model_types: &["qwen3", "qwen3_vl", "qwen3_vl_text"],
        feed_forward_bias: Bias::Never,
        query_key_norms: true,
        head_dim: Some(128),
        defaults: &[("sliding_window", 4096), ("max_window_layers", 28)],
        sliding: Sliding::FromLayer,
        kv_heads_default_to_heads: false,
        ..LLAMA
    },
    Family {
        name: "Gemma",
        model_types: &["gemma"],
        feed_forward_bias: Bias::Never,
        tied_by_default: true,
        head_dim: Some(256),
        kv_heads_default_to_heads: false,
        ..LLAMA
    },
    Family {
        name: "Gemma 2",
        model_types: &["gemma2"],
        feed_forward_bias: Bias::Never,
        norms: 4,
        tied_by_default: true,
        head_dim: Some(256),
        defaults: &[("sliding_window", 4096)],
        sliding: Sliding::AllButEach(2),
        kv_heads_default_to_heads: false,
        ..LLAMA
    },
    Family {
        name: "Gemma 3",
        model_types: &["gemma3_text", "gemma3"],
        feed_forward_bias: Bias::Never,
        query_key_norms: true,
        norms: 4,
        tied_by_default: true,
        head_dim: Some(256),
        defaults: &[
            ("sliding_window", 4096),
            ("vocab_size", 262_208),
            ("num_attention_heads", 8),
            ("num_key_value_heads", 4),
        ],
        sliding: Sliding::AllButEach(6),
        kv_heads_default_to_heads: false,
        ..LLAMA
    },
];

/// The family of that `model_type`.
pub(super) fn of_model_type(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.model_types.contains(&model_type))
}
