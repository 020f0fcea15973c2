use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::TraceError;

const QWEN_7B: &str = r#"{
    "model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "intermediate_size": 18944,
    "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "use_sliding_window": false, "sliding_window": 131072, "max_window_layers": 28
}"#;

fn parse(text: &str) -> Result<Geometry, TraceError> {
    parse_config(text.as_bytes(), Path::new("config.json"), ConfigOptions::default())
}

/// The configuration of [`QWEN_7B`] with some keys changed; null removes a key.
fn qwen_with(changes: &Value) -> String {
    let mut config: Value = serde_json::from_str(QWEN_7B).unwrap();
    for (key, value) in changes.as_object().unwrap() {
        if value == "absent" {
            config.as_object_mut().unwrap().remove(key);
        } else {
            config[key] = value.clone();
        }
    }
    config.to_string()
}

fn message(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn qwen2_5_7b_by_hand() {
    // A layer: query 3584 x 3584 + 3584           = 12,848,640
    //          key and value 2 x (3584 x 512 + 512) = 3,671,040
    //          output 3584 x 3584                 = 12,845,056
    //          feed-forward 3 x 3584 x 18944      = 203,685,888
    //          two norms 2 x 3584                 = 7,168            together 233,057,792
    // 28 layers 6,525,618,176 + final norm 3,584 + head 152064 x 3584 = 544,997,376
    let geometry = parse(QWEN_7B).unwrap();
    assert_eq!(geometry.parameters_per_iteration(), 7_070_619_136);
    // The published weight files state 7,615,616,512: the look-up table comes on top.
    assert_eq!(geometry.total_parameters(), 7_615_616_512);
    assert_eq!(geometry.weight_bytes_per_iteration(), Ok(14_141_238_272.0));
    assert_eq!(geometry.model.weight_bytes_per_iteration(), Ok(14_141_238_272.0));
    // 2 x 28 x 4 x 128 x 2
    assert_eq!(geometry.model.kv_bytes_per_token(), Ok(57_344.0));
    assert!(geometry.flags().is_empty() && geometry.notes.is_empty());
}

#[test]
fn qwen2_5_14b_by_hand() {
    // A layer: query 5120 x 5120 + 5120             = 26,219,520
    //          key and value 2 x (5120 x 1024 + 1024) = 10,487,808
    //          output 5120 x 5120                   = 26,214,400
    //          feed-forward 3 x 5120 x 13824        = 212,336,640
    //          norms 2 x 5120                       = 10,240            together 275,268,608
    // 48 layers 13,212,893,184 + final norm 5,120 + head 152064 x 5120 = 778,567,680
    let geometry = parse(&qwen_with(&json!({
        "num_hidden_layers": 48, "hidden_size": 5120, "intermediate_size": 13824,
        "num_attention_heads": 40, "num_key_value_heads": 8, "max_window_layers": 48
    })))
    .unwrap();
    assert_eq!(geometry.parameters_per_iteration(), 13_991_465_984);
    // As the published weight files state.
    assert_eq!(geometry.total_parameters(), 14_770_033_664);
    // 2 x 48 x 8 x 128 x 2
    assert_eq!(geometry.model.kv_bytes_per_token(), Ok(196_608.0));
}

#[test]
fn mistral_7b_by_hand() {
    // A layer: query and output 2 x 4096 x 4096     = 33,554,432
    //          key and value 2 x 4096 x 1024        = 8,388,608
    //          feed-forward 3 x 4096 x 14336        = 176,160,768
    //          norms 2 x 4096                       = 8,192             together 218,112,000
    // 32 layers 6,979,584,000 + final norm 4,096 + head 32000 x 4096 = 131,072,000
    let config = r#"{"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096,
        "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 32000, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
        "sliding_window": 4096}"#;
    let geometry = parse(config).unwrap();
    assert_eq!(geometry.parameters_per_iteration(), 7_110_660_096);
    // As the published weight files of version 0.1 state.
    assert_eq!(geometry.total_parameters(), 7_241_732_096);
    // 2 x 32 x 8 x 128 x 2
    assert_eq!(geometry.model.kv_bytes_per_token(), Ok(131_072.0));
    assert_eq!(geometry.sliding_layers.len(), 32);
    assert_eq!(geometry.model.sliding_window, Some(4096));
    assert!(geometry.flags().contains(Flag::SlidingWindow));

    let full = parse(&config.replace("\"sliding_window\": 4096", "\"sliding_window\": null"));
    assert!(full.unwrap().flags().is_empty());
    let default = parse(
        &config.replace(", \"torch_dtype\": \"bfloat16\",\n        \"sliding_window\": 4096", ""),
    );
    let default = default.unwrap();
    assert_eq!(default.model.sliding_window, Some(4096));
    assert!(
        default.notes[0].starts_with("\"sliding_window\" is absent: 4096"),
        "{:?}",
        default.notes
    );
}

#[test]
fn totals_agree_with_the_published_weight_files() {
    let total = |name| published_geometry(name, None, None).unwrap().total_parameters();
    assert_eq!(total("meta-llama/Llama-3.1-8B-Instruct"), 8_030_261_248);
    assert_eq!(total("meta-llama/Llama-3.1-70B-Instruct"), 70_553_706_496);
    assert_eq!(total("meta-llama/Llama-3.1-405B-Instruct"), 405_853_388_800);
    assert_eq!(total("Qwen/Qwen3-8B"), 8_190_735_360);
    assert_eq!(total("Qwen/Qwen3-14B"), 14_768_307_200);
    assert_eq!(total("Qwen/Qwen3-32B"), 32_762_123_264);
    // The files of the Gemma 3 models hold an image encoder as well, alike for all sizes:
    // embedding of patches 14 x 14 x 3 x 1152 + 1152 and of 4096 places 4096 x 1152; 27 layers of
    // 4 x (1152 x 1152 + 1152) + 2 x 1152 x 4304 + 4304 + 1152 + 4 x 1152; a norm 2 x 1152:
    let encoder = 678_528 + 4_718_592 + 27 * 15_239_504 + 2_304;
    // and a projection to the model's width with a norm: 1152 x hidden + 1152.
    let image = |hidden: u64| encoder + 1152 * hidden + 1152;
    assert_eq!(total("google/gemma-3-12b-it"), 12_187_325_040 - image(3840));
    assert_eq!(total("google/gemma-3-27b-it"), 27_432_406_640 - image(5376));
    assert!(published_geometry("someone/else", None, None).is_none());
}

#[test]
fn gemma_heads_are_tied_and_wide() {
    // gemma-2b: 18 layers of 2 x 2048 x 2048 + 2 x 2048 x 256 + 3 x 2048 x 16384 + 2 x 2048,
    // a norm of 2048 and the embedding 256000 x 2048, which is the head: 2,506,172,416 in its files.
    let gemma = parse(
        r#"{"model_type": "gemma", "num_hidden_layers": 18, "hidden_size": 2048,
            "intermediate_size": 16384, "num_attention_heads": 8, "num_key_value_heads": 1,
            "head_dim": 256, "vocab_size": 256000, "torch_dtype": "bfloat16"}"#,
    )
    .unwrap();
    assert_eq!(gemma.total_parameters(), 2_506_172_416);
    assert_eq!(gemma.parameters_per_iteration(), 2_506_172_416);
    assert_eq!(gemma.model.weight_bytes_per_iteration(), Ok(5_012_344_832.0));
}

#[test]
fn gemma_2_alternates_starting_with_a_window() {
    // gemma-2-2b: 26 layers of 2 x 2304 x 2048 + 2 x 2304 x 1024 + 3 x 2304 x 9216 + 4 x 2304, a norm
    // of 2304 and the embedding 256000 x 2304: 2,614,341,888 in its files.
    let gemma = parse(
        r#"{"model_type": "gemma2", "num_hidden_layers": 26, "hidden_size": 2304,
            "intermediate_size": 9216, "num_attention_heads": 8, "num_key_value_heads": 4,
            "head_dim": 256, "vocab_size": 256000, "sliding_window": 4096, "dtype": "float32"}"#,
    )
    .unwrap();
    assert_eq!(gemma.total_parameters(), 2_614_341_888);
    assert_eq!(gemma.sliding_layers, (0..26).step_by(2).collect::<Vec<_>>());
    assert_eq!(gemma.model.weight_bytes_per_param, Some(4.0));
}

#[test]
fn gemma_3_is_read_from_its_language_part_with_the_defaults_it_leaves_out() {
    // gemma-3-4b: 4,300,079,472 in its files less the image encoder (416,866,032, worked in
    // `totals_agree_with_the_published_weight_files`) and its projection 1152 x 2560 + 1152.
    let gemma = parse(
        r#"{"model_type": "gemma3", "vision_config": {"hidden_size": 1152}, "torch_dtype": "bfloat16",
            "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
            "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}}"#,
    )
    .unwrap();
    assert_eq!(gemma.total_parameters(), 4_300_079_472 - 416_866_032 - 2_950_272);
    let full: Vec<u32> = (0..34).filter(|layer| !gemma.sliding_layers.contains(layer)).collect();
    assert_eq!(full, [5, 11, 17, 23, 29]);
    insta::assert_snapshot!(gemma.notes.join("\n"), @r#"
    "num_attention_heads" is absent: 8, the default of the family
    "num_key_value_heads" is absent: 4, the default of the family
    "vocab_size" is absent: 262208, the default of the family
    only the language model is counted: decoding does not read the encoder of images or video
    "#);
}

#[test]
fn biases_and_head_norms_are_counted_where_the_family_has_them() {
    let llama = r#"{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 6,
        "intermediate_size": 10, "num_attention_heads": 3, "num_key_value_heads": 1, "vocab_size": 7,
        "attention_bias": true, "mlp_bias": true}"#;
    // Heads of width 2. A layer: 6 x 6 + 2 x 6 x 2 + 6 x 6 + 3 x 6 x 10 + 2 x 6 = 288,
    // biases 6 + 2 + 2 + 6 + 10 + 10 + 6 = 42. Two layers 660, norm 6, head 42, embedding 42.
    assert_eq!(parse(llama).unwrap().total_parameters(), 750);
    assert_eq!(parse(llama).unwrap().parameters_per_iteration(), 708);
    let plain = llama.replace("true", "false");
    assert_eq!(parse(&plain).unwrap().total_parameters(), 750 - 84);
    // The same as Qwen3 with heads of width 2: no feed-forward bias (26 a layer), two head norms (4).
    let qwen3 = llama.replace("\"llama\"", "\"qwen3\", \"head_dim\": 2");
    assert_eq!(parse(&qwen3).unwrap().total_parameters(), 750 - 52 + 8);
    // Without grouped keys every query head has its own: 2 x 6 x 6 for 2 x 6 x 2, biases 12 for 4.
    let own_keys = llama.replace("\"num_key_value_heads\": 1, ", "");
    assert_eq!(parse(&own_keys).unwrap().total_parameters(), 750 + 2 * (48 + 8));
}

#[test]
fn sliding_layers_follow_the_keys_of_the_family() {
    let layers = |changes| parse(&qwen_with(&changes)).unwrap().sliding_layers;
    assert_eq!(layers(json!({"use_sliding_window": true, "max_window_layers": 26})), [26, 27]);
    assert_eq!(layers(json!({"use_sliding_window": true, "max_window_layers": 0})).len(), 28);
    assert!(layers(json!({"use_sliding_window": true})).is_empty());
    let no_window =
        json!({"use_sliding_window": true, "max_window_layers": 0, "sliding_window": null});
    assert!(layers(no_window).is_empty());
    let mut types = vec!["full_attention"; 28];
    types[3] = "sliding_attention";
    assert_eq!(layers(json!({"layer_types": types})), [3]);
}

#[test]
fn a_model_is_compared_with_its_parts() {
    let geometry = parse(QWEN_7B).unwrap();
    let mut model = geometry.model.clone();
    assert_eq!(geometry.weight_bytes_difference(&model), Ok(0.0));
    // 7.07 million parameters are just under 0.1 % of those read, 7.08 million just over.
    model.total_params = Some(7_615_616_512 + 7_070_000);
    assert!(geometry.flags_for(&model).unwrap().is_empty());
    model.total_params = Some(7_615_616_512 + 7_080_000);
    assert!(geometry.flags_for(&model).unwrap().contains(Flag::GeometryMismatch));
    model.total_params = None;
    assert_eq!(geometry.flags_for(&model), Err(Reason::NoGeometry));
    // Quantised weights: the model says how many bytes one takes.
    let quantised = qwen_with(&json!({"quantization_config": {"quant_method": "fp8"}}));
    let quantised = parse(&quantised).unwrap();
    assert_eq!(quantised.weight_bytes_per_iteration(), Err(Reason::NoGeometry));
    let model = Model { weight_bytes_per_param: Some(1.0), ..geometry.model.clone() };
    assert_eq!(quantised.weight_bytes_difference(&model), Ok(0.0));
    assert_eq!(geometry.weight_bytes_difference(&model), Ok(-0.5));
}

#[test]
fn options_give_the_sizes_that_the_file_does_not() {
    let quantised = qwen_with(&json!({"quantization_config": {"quant_method": "awq"}}));
    let options =
        ConfigOptions { weight_bytes_per_param: Some(0.5), kv_bytes_per_value: Some(1.0) };
    let geometry = parse_config(quantised.as_bytes(), Path::new("config.json"), options).unwrap();
    assert_eq!(geometry.weight_bytes_per_iteration(), Ok(3_535_309_568.0));
    assert_eq!(geometry.model.kv_bytes_per_token(), Ok(28_672.0));
    let options = ConfigOptions { weight_bytes_per_param: Some(f64::NAN), ..options };
    let error = parse_config(QWEN_7B.as_bytes(), Path::new("config.json"), options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"config.json\": cannot be read with weight bytes of NaN; expected more than 0 and at most 16"
    );
}

#[test]
fn a_mixture_of_experts_is_refused() {
    insta::assert_snapshot!(
        message(&qwen_with(&json!({"model_type": "qwen3_moe", "num_experts": 128}))),
        @r#""config.json": describes a mixture of experts ("num_experts" is 128): M_w / B_eff assumes dense weights that the whole batch shares"#
    );
    let nested = r#"{"model_type": "llama4", "text_config": {"num_local_experts": 16}}"#;
    assert!(message(nested).contains("(\"num_local_experts\" is 16)"));
}

#[test]
fn broken_files_are_named_with_what_would_be_right() {
    let cases = [
        (
            "{".to_owned(),
            "line 1: is not valid JSON: EOF while parsing an object at line 1 column 1",
        ),
        ("[]".to_owned(), "is not a JSON object; expected a config.json"),
        (
            "{}".to_owned(),
            "has no \"model_type\"; supported are llama, mistral, qwen2, qwen2_5_vl, \
          qwen2_5_vl_text, qwen3, qwen3_vl, qwen3_vl_text, gemma, gemma2, gemma3_text, gemma3",
        ),
        (
            qwen_with(&json!({"model_type": "phi3"})),
            "\"model_type\" is \"phi3\", whose layers are not \
          known here; supported are llama, mistral, qwen2, qwen2_5_vl, qwen2_5_vl_text, qwen3, \
          qwen3_vl, qwen3_vl_text, gemma, gemma2, gemma3_text, gemma3",
        ),
        (qwen_with(&json!({"model_type": 3})), "\"model_type\" is 3; expected a text"),
        (
            qwen_with(&json!({"hidden_size": "absent"})),
            "has no \"hidden_size\"; expected a whole number from 1 to 1000000",
        ),
        (
            qwen_with(&json!({"hidden_size": "wide"})),
            "\"hidden_size\" is \"wide\"; expected a whole number from 1 to 1000000",
        ),
        (
            qwen_with(&json!({"num_hidden_layers": 4_000_000_000_u32})),
            "\"num_hidden_layers\" is 4000000000; expected a whole number from 1 to 10000",
        ),
        (
            qwen_with(&json!({"vocab_size": 0})),
            "\"vocab_size\" is 0; expected a whole number from 1 to 100000000",
        ),
        (
            qwen_with(&json!({"num_key_value_heads": 5})),
            "\"num_key_value_heads\" is 5; expected a divisor of \"num_attention_heads\", 28",
        ),
        (
            qwen_with(&json!({"num_key_value_heads": "absent"})),
            "has no \"num_key_value_heads\"; expected a whole number from 1 to 1000000",
        ),
        (
            qwen_with(&json!({"hidden_size": 3585})),
            "has no \"head_dim\", and \"hidden_size\" 3585 is no multiple of \"num_attention_heads\" 28",
        ),
        (
            qwen_with(&json!({"tie_word_embeddings": 1})),
            "\"tie_word_embeddings\" is 1; expected true or false",
        ),
        (
            qwen_with(&json!({"torch_dtype": "int4"})),
            "\"dtype\" is \"int4\", a type of unknown size",
        ),
        (
            qwen_with(&json!({"layer_types": ["full_attention"]})),
            "\"layer_types\" is a list of 1 entries; expected one entry for each of 28 layers",
        ),
        (
            qwen_with(&json!({"layer_types": vec!["linear_attention"; 28]})),
            "\"layer_types\" entry 0 is \"linear_attention\"; supported are \"full_attention\" and \
          \"sliding_attention\"",
        ),
        (
            qwen_with(&json!({"hidden_size": 1_000_000, "intermediate_size": 1_000_000,
          "num_hidden_layers": 10_000, "num_attention_heads": 1_000_000, "head_dim": 1_000_000})),
            "describes more parameters than 64 bits count",
        ),
    ];
    for (text, expected) in cases {
        let place = if expected.starts_with("line") { " " } else { ": " };
        assert_eq!(message(&text), format!("\"config.json\"{place}{expected}"));
    }
}

#[test]
fn files_are_read_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let missing = read_config(&path, ConfigOptions::default()).unwrap_err();
    assert_eq!(missing.to_string(), format!("cannot read \"{}\"", path.display()));
    std::fs::write(&path, QWEN_7B).unwrap();
    let geometry = read_config(&path, ConfigOptions::default()).unwrap();
    assert_eq!(geometry.parameters_per_iteration(), 7_070_619_136);
    std::fs::write(&path, vec![b' '; 2 << 20]).unwrap();
    let large = read_config(&path, ConfigOptions::default()).unwrap_err().to_string();
    assert!(large.ends_with("is larger than 1048576 bytes; expected a config.json"), "{large}");
}

#[test]
fn the_text_shows_every_part() {
    insta::assert_snapshot!(parse(QWEN_7B).unwrap().to_text(), @"
    model: Qwen2 family, bfloat16

    part                 shape          copies     parameters           bytes
    token embedding      152064 x 3584            544,997,376   1,089,994,752  looked up, not in M_w
    query projection     3584 x 3584        28    359,661,568     719,323,136
    key projection       3584 x 512         28     51,380,224     102,760,448
    value projection     3584 x 512         28     51,380,224     102,760,448
    query bias           3584               28        100,352         200,704
    key bias             512                28         14,336          28,672
    value bias           512                28         14,336          28,672
    output projection    3584 x 3584        28    359,661,568     719,323,136
    gate projection      3584 x 18944       28  1,901,068,288   3,802,136,576
    up projection        3584 x 18944       28  1,901,068,288   3,802,136,576
    down projection      18944 x 3584       28  1,901,068,288   3,802,136,576
    layer norms          2 x 3584           28        200,704         401,408
    final norm           3584                           3,584           7,168
    LM head              3584 x 152064            544,997,376   1,089,994,752
    all parameters                              7,615,616,512
    read each iteration                         7,070,619,136  14,141,238,272

    M_w  = 14,141,238,272 B read each iteration
    K_KV = 2 x 28 layers x 4 heads x 128 x 2 B = 57,344 B per token of history
    flags: none
    ");
}

#[test]
fn the_text_explains_windows_and_missing_sizes() {
    let config = qwen_with(&json!({
        "use_sliding_window": true, "max_window_layers": 26, "torch_dtype": "absent"
    }));
    let text = parse(&config).unwrap().to_text();
    insta::assert_snapshot!(text.split_once("\n\nM_w").unwrap().1, @r#"
      = null (no-geometry)
    K_KV = null (no-geometry)
    sliding window of 131072 tokens in 2 layers: 26 27
         these layers stop reading more history at the window's length, so K_KV
         is too large for longer histories: outside full-history decode
    flags: sliding-window
    note: neither "dtype" nor "torch_dtype" is given: sizes are unknown
    "#);
}

#[test]
fn the_json_holds_the_sums() {
    let json = parse(QWEN_7B).unwrap().to_json();
    assert_eq!(json["params_per_iteration"], 7_070_619_136_u64);
    assert_eq!(json["weight_bytes_per_iteration"], 14_141_238_272.0);
    assert_eq!(json["kv_bytes_per_token"], 57_344.0);
    assert_eq!(json["parts"][0]["read_each_iteration"], false);
    assert_eq!(json["flags"], json!([]));
}

proptest! {
    #[test]
    fn mutated_files_never_panic(edits in prop::collection::vec((0..QWEN_7B.len(), any::<u8>()), 1..6)) {
        let mut bytes = QWEN_7B.as_bytes().to_vec();
        for (place, byte) in edits {
            bytes[place] = byte;
        }
        if let Ok(geometry) = parse_config(&bytes, Path::new("c"), ConfigOptions::default()) {
            prop_assert!(geometry.to_text().contains("read each iteration"));
            prop_assert!(geometry.to_json().is_object());
        }
    }

    /// The formula from totals and the sum of the parts are two ways to one number.
    #[test]
    fn parts_and_totals_agree(
        layers in 1_u32..200, heads in 1_u32..200, groups in 1_u32..9, width in 1_u32..300,
        intermediate in 1_u32..60_000, vocabulary in 1_u32..300_000, tied: bool,
    ) {
        let config = json!({
            "model_type": "qwen3", "num_hidden_layers": layers, "hidden_size": heads * 64,
            "intermediate_size": intermediate, "num_attention_heads": heads * groups,
            "num_key_value_heads": heads, "head_dim": width, "vocab_size": vocabulary,
            "tie_word_embeddings": tied, "dtype": "bfloat16",
        });
        let geometry = parse(&config.to_string()).unwrap();
        prop_assert_eq!(geometry.weight_bytes_difference(&geometry.model), Ok(0.0));
    }
}
