use super::*;
use crate::architecture::{Mlp, NormKind, Positions, Rope};

const GPT2: &str = r#"{"model_type": "gpt2", "n_layer": 2, "n_head": 3, "n_embd": 36, "n_positions": 48,
    "vocab_size": 300, "activation_function": "gelu_new", "eos_token_id": 299, "n_inner": null}"#;

const LLAMA: &str = r#"{"model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 6, "hidden_size": 96,
    "num_key_value_heads": 2, "intermediate_size": 100, "max_position_embeddings": 64, "vocab_size": 300,
    "eos_token_id": [298, 299], "hidden_act": "silu", "torch_dtype": "bfloat16"}"#;

fn parse(json: &str) -> Result<Architecture, Error> {
    Config::parse(json, "config.json").map(|config| config.architecture)
}

/// The Llama config as another family, with more keys.
fn family(name: &str, keys: &str) -> Result<Architecture, Error> {
    let json = LLAMA.replace(r#""llama""#, &format!(r#""{name}""#));
    parse(&json.replace(r#""hidden_act""#, &format!("{keys} \"hidden_act\"")))
}

#[test]
fn gpt2_has_the_defaults_of_hugging_face() {
    let found = parse(GPT2).unwrap();
    assert_eq!((found.inner, found.head_dim, found.context), (144, 12, 48));
    assert_eq!(
        (found.norm, found.norm_epsilon),
        (NormKind::LayerNorm, 1e-5)
    );
    assert_eq!(
        (found.mlp, found.tied, &found.end[..]),
        (Mlp::Gelu, true, &[299][..])
    );
    assert_eq!(found.positions, Positions::Learned);
}

#[test]
fn llama_has_the_defaults_of_hugging_face() {
    let found = parse(LLAMA).unwrap();
    assert_eq!((found.kv_heads, found.head_dim, found.inner), (2, 16, 100));
    assert_eq!((found.norm, found.norm_epsilon), (NormKind::RmsNorm, 1e-6));
    assert_eq!(
        (found.mlp, found.tied, &found.end[..]),
        (Mlp::SwiGlu, false, &[298, 299][..])
    );
    assert_eq!((found.qkv_rows(), found.up_rows()), (160, 200));
    assert_eq!(found.windows, [None; 3]);
    let Positions::Rope(rope) = found.positions else {
        panic!("no RoPE");
    };
    assert_eq!(rope, Rope::plain(10_000.0, 16));
}

#[rstest::rstest]
#[case::llama("llama", "", [false, false, false])]
#[case::llama_with_all("llama", r#""attention_bias": true, "mlp_bias": true,"#, [true, true, true])]
#[case::mistral("mistral", "", [false, false, false])]
#[case::qwen2("qwen2", "", [true, false, false])]
#[case::stablelm("stablelm", r#""partial_rotary_factor": 1.0, "use_qkv_bias": true,"#, [true, false, false])]
#[case::new_stablelm("stablelm", r#""rope_parameters": {"partial_rotary_factor": 1.0},"#, [false, false, false])]
fn biases(#[case] name: &str, #[case] keys: &str, #[case] expected: [bool; 3]) {
    let biases = family(name, keys).unwrap().biases;
    assert_eq!([biases.qkv, biases.out, biases.mlp], expected);
}

#[rstest::rstest]
#[case::llama("llama", r#""sliding_window": null,"#, [None; 3])]
#[case::mistral("mistral", r#""sliding_window": 7,"#, [Some(7); 3])]
#[case::mistral_without("mistral", r#""sliding_window": null,"#, [None; 3])]
#[case::mistral_by_default("mistral", "", [Some(4096); 3])]
#[case::qwen2("qwen2", r#""sliding_window": 7, "max_window_layers": 1,"#, [None; 3])]
#[case::qwen2_used(
    "qwen2", r#""use_sliding_window": true, "sliding_window": 7, "max_window_layers": 1,"#, [None, Some(7), Some(7)]
)]
#[case::qwen2_types(
    "qwen2",
    r#""use_sliding_window": true, "sliding_window": 7, "max_window_layers": 1,
       "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],"#,
    [Some(7), None, Some(7)]
)]
fn windows(#[case] name: &str, #[case] keys: &str, #[case] expected: [Option<usize>; 3]) {
    assert_eq!(family(name, keys).unwrap().windows, expected);
}

#[rstest::rstest]
#[case::heads(r#""n_head": 3"#, r#""n_head": 5"#, "n_embd", "36")]
#[case::no_heads(r#""n_head": 3"#, r#""n_head": 0"#, "n_head", "0")]
#[case::no_layers(r#""n_layer": 2"#, r#""n_layer": 0"#, "n_layer", "0")]
#[case::many_layers(r#""n_layer": 2"#, r#""n_layer": 100000"#, "n_layer", "100000")]
#[case::negative(r#""n_layer": 2"#, r#""n_layer": -2"#, "n_layer", "-2")]
#[case::fraction(r#""n_layer": 2"#, r#""n_layer": 2.5"#, "n_layer", "2.5")]
#[case::text(r#""n_layer": 2"#, r#""n_layer": "2""#, "n_layer", "\"2\"")]
#[case::huge(
    r#""vocab_size": 300"#,
    r#""vocab_size": 99999999999"#,
    "vocab_size",
    "99999999999"
)]
#[case::beyond_u64(
    r#""vocab_size": 300"#,
    r#""vocab_size": 1e300"#,
    "vocab_size",
    "1e+300"
)]
#[case::activation("gelu_new", "relu", "activation_function", "relu")]
#[case::family(r#""gpt2""#, r#""gpt_neox""#, "model_type", "gpt_neox")]
#[case::end(
    r#""eos_token_id": 299"#,
    r#""eos_token_id": 300"#,
    "eos_token_id",
    "300"
)]
#[case::inner(r#""n_inner": null"#, r#""n_inner": 0"#, "n_inner", "0")]
#[case::epsilon(
    r#""n_inner": null"#,
    r#""layer_norm_epsilon": -1"#,
    "layer_norm_epsilon",
    "-1"
)]
#[case::tiny_epsilon(
    r#""n_inner": null"#,
    r#""layer_norm_epsilon": 0"#,
    "layer_norm_epsilon",
    "0"
)]
#[case::scaling(
    r#""n_inner": null"#,
    r#""scale_attn_weights": false"#,
    "scale_attn_weights",
    "false"
)]
#[case::wide_heads(r#""n_embd": 36"#, r#""n_embd": 3000"#, "n_embd", "3000")]
fn a_gpt2_that_is_refused(
    #[case] good: &str,
    #[case] bad: &str,
    #[case] name: &str,
    #[case] value: &str,
) {
    assert!(GPT2.contains(good));
    match parse(&GPT2.replace(good, bad)) {
        Err(Error::ConfigValue { field, found, .. }) => {
            assert_eq!((field, found.as_str()), (name, value))
        }
        other => panic!("expected a ConfigValue error, got {other:?}"),
    }
}

#[rstest::rstest]
#[case::odd_head("llama", r#""head_dim": 15,"#, "head_dim")]
#[case::wide_head("llama", r#""head_dim": 264,"#, "head_dim")]
#[case::window("llama", r#""sliding_window": 7,"#, "sliding_window")]
#[case::partial("llama", r#""partial_rotary_factor": 0.5,"#, "partial_rotary_factor")]
#[case::interleaved("llama", r#""rope_interleaved": true,"#, "rope_interleaved")]
#[case::base("llama", r#""rope_theta": 0,"#, "rope_theta")]
#[case::epsilon("llama", r#""rms_norm_eps": "small","#, "rms_norm_eps")]
#[case::scaling("llama", r#""rope_scaling": {"rope_type": "longrope"},"#, "rope_type")]
#[case::scaling_is_no_object("llama", r#""rope_scaling": 8,"#, "rope_scaling")]
#[case::two_types(
    "llama",
    r#""rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2},"#,
    "type"
)]
#[case::shrinking(
    "llama",
    r#""rope_scaling": {"rope_type": "linear", "factor": 0.5},"#,
    "factor"
)]
#[case::infinite(
    "llama",
    r#""rope_scaling": {"rope_type": "linear", "factor": 1e39},"#,
    "factor"
)]
#[case::bias("mistral", r#""attention_bias": true,"#, "attention_bias")]
#[case::no_bias("qwen2", r#""attention_bias": false,"#, "attention_bias")]
#[case::part_of_stablelm(
    "stablelm",
    r#""rope_parameters": {"partial_rotary_factor": 0.25},"#,
    "partial_rotary_factor"
)]
#[case::two_parts(
    "stablelm",
    r#""partial_rotary_factor": 1, "rope_parameters": {"partial_rotary_factor": 0.25},"#,
    "partial_rotary_factor"
)]
#[case::parallel(
    "stablelm",
    r#""use_parallel_residual": true,"#,
    "use_parallel_residual"
)]
#[case::types("qwen2", r#""layer_types": ["full_attention"],"#, "layer_types")]
#[case::unknown_type(
    "qwen2",
    r#""layer_types": ["full_attention", "full_attention", "linear"],"#,
    "layer_types"
)]
#[case::window_of_0(
    "qwen2",
    r#""use_sliding_window": true, "sliding_window": 0,"#,
    "sliding_window"
)]
fn a_llama_that_is_refused(#[case] name: &str, #[case] keys: &str, #[case] expected: &str) {
    match family(name, keys) {
        Err(Error::ConfigValue { field, .. }) => assert_eq!(field, expected),
        other => panic!("expected a ConfigValue error, got {other:?}"),
    }
}

#[rstest::rstest]
#[case::quantized(
    "llama",
    r#""quantization_config": {"bits": 4},"#,
    "quantization_config"
)]
#[case::soft_cap(
    "llama",
    r#""final_logit_softcapping": 30.0,"#,
    "final_logit_softcapping"
)]
#[case::of_granite("llama", r#""embedding_multiplier": 12.0,"#, "embedding_multiplier")]
#[case::of_another_family("llama", r#""use_sliding_window": false,"#, "use_sliding_window")]
#[case::misspelt("mistral", r#""slidding_window": 7,"#, "slidding_window")]
#[case::in_the_scaling(
    "llama",
    r#""rope_scaling": {"type": "linear", "factor": 2, "extra": 1},"#,
    "extra"
)]
fn a_key_that_is_not_known(#[case] name: &str, #[case] keys: &str, #[case] expected: &str) {
    match family(name, keys) {
        Err(Error::ConfigKey { key, .. }) => assert_eq!(key, expected),
        other => panic!("expected a ConfigKey error, got {other:?}"),
    }
}

#[rstest::rstest]
#[case::context(&GPT2.replace("n_positions", "bos_token_id"), "n_ctx")]
#[case::all("{}", "n_layer")]
#[case::part(&LLAMA.replace(r#""llama""#, r#""stablelm""#), "partial_rotary_factor")]
#[case::part_of_parameters(
    &LLAMA.replace(r#""llama""#, r#""stablelm", "rope_parameters": {"rope_theta": 5}"#),
    "partial_rotary_factor"
)]
#[case::factor(&LLAMA.replace(r#""hidden_act""#, r#""rope_scaling": {"rope_type": "yarn"}, "hidden_act""#), "factor")]
fn a_missing_key(#[case] json: &str, #[case] expected: &str) {
    match parse(json) {
        Err(Error::ConfigMissing { key, .. }) => assert_eq!(key, expected),
        other => panic!("expected a ConfigMissing error, got {other:?}"),
    }
}

#[rstest::rstest]
#[case::empty("")]
#[case::cut(&GPT2[..40])]
#[case::list("[1]")]
#[case::deep(&"{\"a\":".repeat(100_000))]
fn what_is_no_config(#[case] json: &str) {
    let error = Config::parse(json, "some/config.json").unwrap_err();
    assert!(matches!(error, Error::ConfigSyntax { .. }), "{error:?}");
    assert!(error.to_string().contains("some/config.json"), "{error}");
}

/// `rope_parameters` of transformers 5 is `rope_theta` and `rope_scaling` of 4.
#[test]
fn new_and_old_names_of_rope_mean_the_same() {
    let old = r#""rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2},"#;
    let new = r#""rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 2},"#;
    let (old, new) = (family("llama", old).unwrap(), family("llama", new).unwrap());
    assert_eq!(old.positions, new.positions);
    assert_ne!(old.positions, parse(LLAMA).unwrap().positions);
}

/// Within `max_position_embeddings`, which is the context, dynamic scaling is none.
#[test]
fn dynamic_scaling_leaves_the_context_alone() {
    let scaling = r#""rope_scaling": {"rope_type": "dynamic", "factor": 4},"#;
    let dynamic = family("llama", scaling).unwrap();
    assert_eq!(dynamic.positions, parse(LLAMA).unwrap().positions);
}

/// YaRN by its formulas in f64, of `factor` 4, not of the context over the
/// original one, 64 over 4096.
#[rstest::rstest]
#[case::plain("", 1.1386294, [0.025693506, 0.00625, 0.0013834965])]
#[case::given(r#", "attention_factor": 1.5"#, 1.5, [0.025693506, 0.00625, 0.0013834965])]
#[case::one_mscale(r#", "mscale": 0.707"#, 1.1386294, [0.025693506, 0.00625, 0.0013834965])]
#[case::two(
    r#", "mscale": 0.707, "mscale_all_dim": 2"#,
    0.8596620,
    [0.025693506, 0.00625, 0.0013834965]
)]
#[case::not_truncated(r#", "truncate": false"#, 1.1386294, [0.028613609, 0.0065569715, 0.0012856320])]
fn yarn(#[case] keys: &str, #[case] attention_factor: f64, #[case] blended: [f64; 3]) {
    let scaling = r#""rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096"#;
    let scaling = format!(r#""rope_scaling": {{{scaling}{keys}}},"#);
    let Positions::Rope(rope) = family("qwen2", &scaling).unwrap().positions else {
        panic!("no RoPE");
    };
    let close = |found: f32, expected: f64| (f64::from(found) / expected - 1.0).abs() < 3e-7;
    assert!(close(rope.attention_factor, attention_factor), "{rope:?}");
    let (kept, divided) = ([1.0, 0.31622777, 0.1], [0.00025, 0.000079056942]);
    let expected = kept.into_iter().chain(blended).chain(divided);
    assert_eq!(rope.inverse_frequencies.len(), 8);
    for (&found, expected) in rope.inverse_frequencies.iter().zip(expected) {
        assert!(close(found, expected), "{expected}: {rope:?}");
    }
}

/// The keys of published configs: GPT-2, DistilGPT-2, Qwen2.5 and SmolLM2.
#[rstest::rstest]
#[case::gpt2(
    r#"{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
        "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257}"#,
    (12, 64, 12)
)]
#[case::distilgpt2(
    r#"{"_num_labels": 1, "activation_function": "gelu_new", "attn_pdrop": 0.1, "eos_token_id": 50256,
        "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
        "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 6, "n_positions": 1024, "vocab_size": 50257}"#,
    (6, 64, 12)
)]
#[case::qwen2(
    r#"{"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
        "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
        "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
        "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers_version": "4.43.1", "use_cache": true, "use_mrope": false, "use_sliding_window": false,
        "vocab_size": 151936}"#,
    (24, 64, 2)
)]
#[case::smollm2(
    r#"{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
        "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
        "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false,
        "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}, "transformers_version": "4.42.3",
        "use_cache": true, "vocab_size": 49152}"#,
    (30, 64, 3)
)]
fn published_configs(#[case] json: &str, #[case] expected: (usize, usize, usize)) {
    let found = parse(json).unwrap();
    assert_eq!((found.layers, found.head_dim, found.kv_heads), expected);
    assert!(found.tied && found.windows.iter().all(Option::is_none));
}
