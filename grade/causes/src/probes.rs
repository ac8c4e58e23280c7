//! The problems on which known mistakes differ most: small, with sizes that no tile divides.
//!
//! They are given to an implementation whose values are wrong. Which of them it solves tells as much as the wrong values of
//! the others.

use conformance::Dtype;
use conformance::inputs::{normal, tensor};
use conformance::problems::gemm::Product;
use conformance::problems::softmax::Axis;
use conformance::problems::{
    Problem, attention, decode, decoder, gemm, gradients, greedy, multi_head, scale_and_mask,
    softmax,
};
use ndarray::s;
use stage1_reference::{Feature, Options};

use super::Update;

/// Problems for attention that need nothing of what is lacked.
pub fn attention(lacks: &[Feature]) -> Vec<attention::Problem> {
    attention_in(Dtype::F32, lacks)
}

/// The same, stored in another type. In half precision rows are longer, so that each of eight is swizzled in another way, and there
/// are fewer: of many scores that a mistake rounds to it, one could be rounded up here and down there.
pub fn attention_in(dtype: Dtype, lacks: &[Feature]) -> Vec<attention::Problem> {
    let plain = Options::default;
    let (batch, d) = match dtype {
        Dtype::F32 => (2, 16),
        Dtype::F16 | Dtype::Bf16 => (1, 64),
    };
    let problem = |what, sizes, options| problem(what, sizes, d, options);
    let mut probes = vec![
        // Many tiles, and a last one that is not full; then a causal mask that is no square.
        problem("plain", [batch, 2, 2, 37, 197], plain()),
        problem("causal", [batch, 2, 2, 37, 197], plain().causal()),
        // The first queries see no key.
        problem("masked_rows", [1, 2, 2, 40, 21], plain().causal()),
        problem("scale", [1, 2, 2, 17, 33], plain().scale(0.7)),
        problem("grouped_heads", [2, 6, 2, 17, 33], plain()),
        problem("window", [1, 2, 2, 65, 65], plain().window(7, 5)),
    ];
    let big = [
        "b1_h2_nq65_nk129_d64_plus1e4",
        "b1_h2_nq65_nk129_d64_minus1e4",
        "b1_h2_nq9_nk1100_d64_minus1e4_late_outlier",
    ];
    probes.extend(named(attention::problems(), &big));
    probes.retain(|probe| probe.needs().iter().all(|feature| !lacks.contains(feature)));
    let probes = probes.into_iter();
    probes.map(|probe| probe.stored_in(dtype)).collect()
}

/// Problems for the backward pass: those of attention that need no more than a scale and a causal mask, and one with many queries.
pub fn gradients(lacks: &[Feature]) -> Vec<gradients::Problem> {
    let many = problem("many_queries", [1, 2, 2, 197, 37], 16, Options::default());
    let forward = attention(lacks).into_iter().chain([many]);
    // For its 1,100 keys so many hypotheses would take long.
    let forward = forward.filter(|probe| !probe.name().ends_with("late_outlier"));
    forward.map(gradients::Problem::new).collect()
}

fn problem(
    what: &str,
    [batch, heads, kv_heads, nq, nk]: [usize; 5],
    d: usize,
    options: Options,
) -> attention::Problem {
    let q = tensor((batch, heads, nq, d), 61, normal);
    let k = tensor((batch, kv_heads, nk, d), 62, normal);
    // Not centred on 0, so that weights that do not add up to 1 are seen.
    let v = tensor((batch, kv_heads, nk, d), 63, |seed, i| {
        1.0 + normal(seed, i)
    });
    attention::Problem::new(format!("probe_{what}"), q, k, v, options)
}

/// Problems for softmax.
pub fn softmax() -> Vec<softmax::Problem> {
    let names = [
        "b2_r3_c129",
        "b2_r3_c1000",
        "b2_r7_c129_holes",
        "b2_r7_c129_plus1e4",
        "b2_r7_c129_minus1e4",
        "b2_r7_c129_empty_vectors",
        "b1_r2_c5000_minus1e4_late_outlier",
    ];
    named(softmax::problems(Axis::Last), &names)
}

/// Problems for scale-and-mask without an additive mask.
pub fn scale_and_mask() -> Vec<scale_and_mask::Problem> {
    let names = [
        "b2_h3_nq5_nk129_causal",
        "b1_h2_nq129_nk65_causal",
        "b2_h1_nq65_nk65",
    ];
    named(scale_and_mask::problems(), &names)
}

/// Problems for one of the matrix products, without grouped heads.
pub fn gemm(product: Product) -> Vec<gemm::Problem> {
    let names = [
        "b1_h1_m33_n17_k127",
        "b1_h1_m65_n65_k65",
        "b2_h4_m17_n33_k19",
    ];
    named(gemm::problems(product), &names)
}

/// Problems for the multi-head layer.
pub fn multi_head() -> Vec<multi_head::Problem> {
    let names = [
        "assignment_b4_n10",
        "assignment_b4_n10_causal",
        "narrow_heads_b3_n7",
        "one_head_b2_n65_causal",
        "heads_of_one_b1_n33",
    ];
    named(multi_head::problems(), &names)
}

/// Problems for decoding.
pub fn decode() -> Vec<decode::Problem> {
    let names = [
        "b3_h4_kv2_nq1_n130+0+37of133_d64_f32",
        "b2_h6_kv2_nq2_n3+90of93_d256_f32",
        "b2_h8_kv1_nq5_n3+90of93_d256_f32",
        "b1_h2_kv1_nq3_n70of73_d16_f32_scale1.5e0",
        "b1_h2_kv1_nq1_n70of73_d16_f32_scale1e3",
        "b1_h1_kv1_nq1_n1000of1000_d128_f32",
        "b2_h4_kv2_nq1_n1100+700of1103_d64_f32_minus1e4_late_outlier",
        "b2_h4_kv1_nq1_n250+9of253_d64_f32_window7",
    ];
    named(decode::problems(), &names)
}

/// Updates of a cache: a chunk, a token and nothing, in one batch; a token each; rows of odd length up to the last
/// slot; and more rows than there are tokens.
pub fn update() -> Vec<Update> {
    let update = |d: usize, n: usize, counts: [usize; 3], lengths: [usize; 3]| {
        let (heads, max_seq) = (2, 12);
        let before = [71, 72].map(|seed| {
            let mut x = tensor((3, heads, max_seq, d), seed, normal);
            for (b, (length, count)) in lengths.into_iter().zip(counts).enumerate() {
                x.slice_mut(s![b, .., length - count.., ..]).fill(f32::NAN);
            }
            x
        });
        Update {
            before,
            rows: [73, 74].map(|seed| tensor((3, heads, n, d), seed, normal)),
            counts: counts.into(),
            lengths: lengths.into(),
            far: false,
        }
    };
    vec![
        update(8, 3, [3, 1, 0], [5, 4, 3]),
        update(8, 1, [1, 1, 1], [1, 7, 11]),
        update(7, 2, [1, 2, 2], [4, 3, 12]),
        update(8, 4, [2, 1, 0], [5, 4, 3]),
    ]
}

/// Problems for a decoder: learned positions and rotated ones, prompts of several tokens and steps.
pub fn decoder() -> Vec<decoder::Problem> {
    let names = [
        "tiny-gpt2_b2_n9_steps3",
        "llama-biases_b1_n33_steps2",
        "stablelm_b2_n9_steps3",
        "tokens_beyond_65536",
    ];
    named(decoder::problems(), &names)
}

/// Prompts to continue, some of them up to a token that ends the text, and one by no token.
pub fn generation() -> Vec<greedy::Problem> {
    let random = (1..7).map(greedy::random);
    random
        .chain([greedy::tied(2), greedy::no_token()])
        .collect()
}

/// Those of a table with these names, all of which it has.
fn named<P: Problem>(table: Vec<P>, names: &[&str]) -> Vec<P> {
    let some = table.into_iter();
    some.filter(|problem| names.contains(&problem.name()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_in_its_table() {
        assert_eq!(attention(&[]).len(), 9);
        assert_eq!(softmax().len(), 7);
        assert_eq!(scale_and_mask().len(), 3);
        assert_eq!(gemm(Product::Nn).len(), 3);
        assert_eq!(gemm(Product::Nt).len(), 3);
        assert_eq!(multi_head().len(), 5);
        assert_eq!(decode().len(), 8);
        assert_eq!(decoder().len(), 4);
    }
}
