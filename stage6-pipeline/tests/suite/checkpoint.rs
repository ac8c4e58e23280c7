//! Checkpoints that must be refused, each with an error that names what is wrong,
//! and those that must not.

use std::time::{Duration, Instant};

use crate::common::{Tensors, fixture, scratch, set_weights, tiny, weights, write_folder};
use rstest::rstest;
use safetensors::tensor::Dtype;
use stage6_pipeline::{Architecture, Config, Error, Host, ModelFiles, Text, Weights};

fn config(files: &ModelFiles) -> Config {
    Config::load(files).unwrap()
}

fn read(files: &ModelFiles) -> Result<Weights<Host>, Error> {
    Weights::load(files, &config(files), &Host)
}

#[test]
fn names_without_the_prefix_are_the_same_model() {
    let with_prefix = read(&tiny()).unwrap();

    let mut files = tiny();
    let mut tensors = Tensors::of(&files);
    let shorten = |name: String| name.strip_prefix("transformer.").unwrap().to_owned();
    tensors.0 = tensors
        .0
        .into_iter()
        .map(|(name, value)| (shorten(name), value))
        .collect();
    tensors.write_into(&mut files);
    let without = read(&files).unwrap();

    assert_eq!(with_prefix.embedding, without.embedding);
    assert_eq!(
        with_prefix.blocks[1].down.weight,
        without.blocks[1].down.weight
    );
}

#[test]
fn old_buffers_and_a_tied_head_are_left_alone() {
    let mut files = tiny();
    let mut tensors = Tensors::of(&files);
    let head = tensors.entry("transformer.wte.weight").clone();
    tensors.0.insert("lm_head.weight".into(), head);
    let mask = (Dtype::BOOL, vec![1, 1, 2, 2], vec![1, 0, 1, 1]);
    tensors.0.insert("transformer.h.0.attn.bias".into(), mask);
    tensors.write_into(&mut files);
    read(&files).unwrap();
}

#[rstest]
#[case::empty(0)]
#[case::less_than_a_header_length(7)]
#[case::half_a_header(100)]
#[case::no_data(3000)]
#[case::last_byte_missing(usize::MAX)]
fn a_truncated_file(#[case] bytes: usize) {
    let mut files = tiny();
    let mut whole = weights(&files);
    let cut = bytes.min(whole.len() - 1);
    whole.truncate(cut);
    set_weights(&mut files, whole);
    let error = read(&files).unwrap_err();
    assert!(
        matches!(error, Error::SafetensorsSyntax { bytes, .. } if bytes == cut as u64),
        "{error:?}"
    );
    assert!(error.to_string().contains("model.safetensors"), "{error}");
}

#[rstest]
#[case("wte.weight")]
#[case("wpe.weight")]
#[case("h.0.ln_1.bias")]
#[case("h.1.attn.c_attn.weight")]
#[case("h.1.mlp.c_proj.bias")]
#[case("ln_f.weight")]
fn a_missing_tensor(#[case] name: &str) {
    let name = format!("transformer.{name}");
    let mut files = tiny();
    let mut tensors = Tensors::of(&files);
    tensors.0.remove(&name).unwrap();
    tensors.write_into(&mut files);
    let error = read(&files).unwrap_err();
    assert!(
        matches!(&error, Error::MissingTensor { tensor, .. } if *tensor == name),
        "{error:?}"
    );
}

#[rstest]
#[case::transposed("h.0.attn.c_attn.weight", &[108, 36])]
#[case::flat("wte.weight", &[10800])]
#[case::extra_axis("h.1.ln_2.weight", &[1, 36])]
#[case::longer_context("wpe.weight", &[36, 75])]
fn a_wrong_shape(#[case] name: &str, #[case] shape: &[usize]) {
    let name = format!("transformer.{name}");
    let mut files = tiny();
    let mut tensors = Tensors::of(&files);
    let good = std::mem::replace(&mut tensors.entry(&name).1, shape.to_vec());
    tensors.write_into(&mut files);
    match read(&files) {
        Err(Error::TensorShape {
            tensor,
            found,
            expected,
            ..
        }) => {
            assert_eq!((tensor, found, expected), (name, shape.to_vec(), good));
        }
        other => panic!("{:?}", other.err()),
    }
}

#[rstest]
#[case(Dtype::F64, 8)]
#[case(Dtype::I32, 4)]
fn a_wrong_dtype(#[case] dtype: Dtype, #[case] size: usize) {
    let mut files = tiny();
    let mut tensors = Tensors::of(&files);
    let (stored, _, data) = tensors.entry("transformer.h.1.mlp.c_fc.weight");
    *stored = dtype;
    data.resize(36 * 144 * size, 0);
    tensors.write_into(&mut files);
    let error = read(&files).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, Error::TensorDtype { .. }), "{error:?}");
    for part in ["transformer.h.1.mlp.c_fc.weight", &dtype.to_string(), "F32"] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
}

#[rstest]
#[case(f32::NAN)]
#[case(f32::NEG_INFINITY)]
fn a_value_that_is_not_finite(#[case] value: f32) {
    let mut files = tiny();
    let mut tensors = Tensors::of(&files);
    tensors.entry("transformer.ln_f.bias").2[4 * 35..].copy_from_slice(&value.to_le_bytes());
    tensors.write_into(&mut files);
    let error = read(&files).unwrap_err();
    assert!(
        matches!(error, Error::TensorNotFinite { index: 35, .. }),
        "{error:?}"
    );
}

#[test]
fn an_untied_head() {
    let mut files = tiny();
    let mut tensors = Tensors::of(&files);
    let mut head = tensors.entry("transformer.wte.weight").clone();
    head.2[0] ^= 1;
    tensors.0.insert("lm_head.weight".into(), head);
    tensors.write_into(&mut files);
    assert!(matches!(read(&files), Err(Error::UntiedHead { .. })));
}

#[rstest]
#[case::too_few(1, "transformer.h.1.")]
#[case::too_many(3, "transformer.h.2.ln_1.weight")]
fn a_config_that_counts_other_blocks(#[case] n_layer: usize, #[case] names: &str) {
    let mut files = tiny();
    let replaced = files
        .config
        .replace("\"n_layer\": 2", &format!("\"n_layer\": {n_layer}"));
    assert_ne!(replaced, files.config);
    files.config = replaced.into();
    let error = read(&files).unwrap_err();
    assert!(
        matches!(
            error,
            Error::ExtraTensor { .. } | Error::MissingTensor { .. }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains(names), "{error}");
}

#[rstest]
#[case("config.json")]
#[case("tokenizer.json")]
#[case("model.safetensors")]
fn a_missing_file(#[case] name: &str) {
    let folder = scratch(&format!("missing-{name}"));
    write_folder(&tiny(), &folder);
    std::fs::remove_file(folder.join(name)).unwrap();
    let error = ModelFiles::read(&folder).unwrap_err();
    assert!(
        matches!(&error, Error::Read { path, .. } if path.ends_with(name)),
        "{error:?}"
    );
}

#[rstest]
#[case::empty(|_: &str| String::new(), "not a tokenizer")]
#[case::cut(|json: &str| json[..json.len() / 2].to_owned(), "not a tokenizer")]
#[case::decoder(without_decoder, "the decoder is neither byte-level")]
fn a_bad_tokenizer(#[case] damage: fn(&str) -> String, #[case] reason: &str) {
    let mut files = tiny();
    let damaged = damage(&files.tokenizer);
    assert_ne!(damaged, files.tokenizer);
    files.tokenizer = damaged.into();
    let error = Text::load(&files, &config(&files).architecture).unwrap_err();
    assert!(matches!(error, Error::Tokenizer { .. }), "{error:?}");
    assert!(error.to_string().contains(reason), "{error}");
}

fn without_decoder(json: &str) -> String {
    let mut tokenizer: serde_json::Value = serde_json::from_str(json).unwrap();
    tokenizer["decoder"] = serde_json::Value::Null;
    tokenizer.to_string()
}

#[test]
fn a_tokenizer_with_more_tokens_than_the_model() {
    let files = tiny();
    let architecture = Architecture {
        vocab: 299,
        ..config(&files).architecture
    };
    let error = Text::load(&files, &architecture).unwrap_err();
    assert!(error.to_string().contains("has id 299"), "{error}");
}

/// A safetensors file with this header and so many bytes behind it.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &vec![0; data]].concat()
}

/// Files that claim terabytes, or contradict themselves: refused at once,
/// by what their header says.
#[rstest]
#[case::endless_header(u64::MAX.to_le_bytes().to_vec())]
#[case::long_header((1_u64 << 40).to_le_bytes().to_vec())]
#[case::header_beyond_the_file([&100_u64.to_le_bytes()[..], b"{}"].concat())]
#[case::no_json(with_header("weights", 0))]
#[case::deep(with_header(&"[".repeat(1_000_000), 0))]
#[case::overlap(with_header(
    r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}"#, 12
))]
#[case::gap(with_header(
    r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}"#,
    12
))]
#[case::backwards(with_header(
    r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}"#,
    8
))]
#[case::behind_the_end(with_header(
    r#"{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}"#,
    8
))]
#[case::more_than_is_told(with_header(
    r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}"#,
    9
))]
#[case::shape_overflow(with_header(
    r#"{"a": {"dtype": "F32", "shape": [4294967296, 4294967296, 2], "data_offsets": [0, 8]}}"#,
    8
))]
#[case::shape_claims_terabytes(with_header(
    r#"{"a": {"dtype": "F32", "shape": [1099511627776], "data_offsets": [0, 4398046511104]}}"#,
    8
))]
#[case::sum_overflow(with_header(
    r#"{"a": {"dtype": "U8", "shape": [2305843009213693951], "data_offsets": [0, 2305843009213693951]},
        "b": {"dtype": "U8", "shape": [2305843009213693951], "data_offsets": [2305843009213693951, 4611686018427387902]},
        "c": {"dtype": "U8", "shape": [2305843009213693951], "data_offsets": [4611686018427387902, 6917529027641081853]}}"#,
    8
))]
#[case::negative(with_header(
    r#"{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}"#,
    8
))]
#[case::no_dtype(with_header(
    r#"{"a": {"dtype": "F31", "shape": [2], "data_offsets": [0, 8]}}"#,
    8
))]
fn a_hostile_header(#[case] bytes: Vec<u8>) {
    let start = Instant::now();
    let mut files = tiny();
    set_weights(&mut files, bytes);
    let error = read(&files).unwrap_err();
    assert!(
        matches!(error, Error::SafetensorsSyntax { .. }),
        "{error:?}"
    );
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
}

/// The bits of NaN and infinity in half precision.
#[rstest]
#[case("gpt2-f16", "h.1.mlp.c_fc.weight", 0x7C00)]
#[case("gpt2-f16", "wte.weight", 0xFE01)]
#[case("mistral-bf16", "model.layers.1.self_attn.v_proj.weight", 0x7FC0)]
#[case("mistral-bf16", "model.norm.weight", 0xFF80)]
fn a_half_that_is_not_finite(#[case] model: &str, #[case] tensor: &str, #[case] bits: u16) {
    let mut files = fixture(model).files;
    let mut found = false;
    for file in &mut files.weights {
        let mut one = ModelFiles {
            weights: vec![file.clone()],
            ..tiny()
        };
        let mut tensors = Tensors::of(&one);
        if let Some((_, _, data)) = tensors.0.get_mut(tensor) {
            data[6..8].copy_from_slice(&bits.to_le_bytes());
            found = true;
        }
        tensors.write_into(&mut one);
        *file = one.weights.remove(0);
    }
    assert!(found);
    match read(&files) {
        Err(Error::TensorNotFinite {
            tensor: named,
            index,
            ..
        }) => assert_eq!((named.as_str(), index), (tensor, 3)),
        other => panic!("{:?}", other.err()),
    }
}

/// A checkpoint with one tensor more. Some names end like those of buffers that are left alone.
#[rstest]
#[case::bias("llama3", "model.layers.0.self_attn.q_proj.bias")]
#[case::layer("llama3", "model.layers.2.input_layernorm.weight")]
#[case::adapter("llama3", "model.layers.0.self_attn.q_proj.lora_A.weight")]
#[case::norm_of_heads("llama3", "model.layers.0.self_attn.q_norm.weight")]
#[case::table_of_no_layer("llama3", "model.layers.2.self_attn.rotary_emb.inv_freq")]
#[case::table_of_another_part("llama3", "model.layers.0.mlp.rotary_emb.inv_freq")]
#[case::cross_attention("tiny-gpt2", "transformer.h.0.crossattention.c_attn.bias")]
#[case::another_attention("tiny-gpt2", "transformer.h.0.q_attn.bias")]
#[case::mask_of_no_layer("tiny-gpt2", "transformer.h.2.attn.bias")]
#[case::mask_without_prefix("tiny-gpt2", "h.0.attn.bias")]
fn a_tensor_that_nothing_reads(#[case] model: &str, #[case] name: &str) {
    let mut files = fixture(model).files;
    let mut tensors = Tensors::of(&files);
    let tensor = tensors.0.values().next().unwrap().clone();
    tensors.0.insert(name.to_owned(), tensor);
    tensors.write_into(&mut files);
    let error = read(&files).unwrap_err();
    assert!(
        matches!(&error, Error::ExtraTensor { tensor, .. } if tensor == name),
        "{error:?}"
    );
}

#[test]
fn a_rotary_table_of_an_old_checkpoint_is_left_alone() {
    let mut files = fixture("llama3").files;
    let mut tensors = Tensors::of(&files);
    let table = (Dtype::F32, vec![1], vec![0; 4]);
    tensors.0.insert(
        "model.layers.0.self_attn.rotary_emb.inv_freq".to_owned(),
        table,
    );
    tensors.write_into(&mut files);
    read(&files).unwrap();
}

#[test]
fn rows_of_two_dtypes() {
    let mut files = fixture("mistral-bf16").files;
    let mut tensors = Tensors::of(&files);
    tensors.entry("model.layers.1.mlp.up_proj.weight").0 = Dtype::F16;
    tensors.write_into(&mut files);
    let error = read(&files).unwrap_err();
    let named = matches!(&error, Error::TensorDtype { tensor, expected: "bf16", .. } if tensor.contains("up_proj"));
    assert!(named, "{error:?}");
}

#[test]
fn a_tensor_in_two_files() {
    let mut files = fixture("llama3").files;
    files.weights.push(files.weights[0].clone());
    assert!(matches!(read(&files), Err(Error::TensorTwice { .. })));
}

/// Opening a pipe would wait for ever.
#[rstest]
#[case("config.json")]
#[case("model.safetensors")]
fn a_pipe_in_the_place_of_a_file(#[case] name: &str) {
    let folder = scratch(&format!("pipe-{name}"));
    write_folder(&tiny(), &folder);
    std::fs::remove_file(folder.join(name)).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join(name))
        .status()
        .unwrap();
    assert!(made.success());
    let error = ModelFiles::read(&folder).unwrap_err();
    assert!(
        matches!(&error, Error::Read { path, .. } if path.ends_with(name)),
        "{error:?}"
    );
}
