//! The words of refusals; the suite has all that is refused.

use conformance::problems::multi_head;
use ndarray::{Array2, Array4};
use rstest::rstest;
use stage1_reference::{Dropout, Error, Feature, MultiHead, Options, Stage1, attention};

type Shape = (usize, usize, usize, usize);

const Q: Shape = (2, 4, 65, 8);
const K: Shape = (2, 4, 129, 8);

#[rstest]
#[case::k((2, 4, 5, 7), Options::default(), "`k` has shape [2, 4, 5, 7], but needs [2, H_kv, nk, 8] to fit `q`")]
#[case::heads((2, 3, 5, 8), Options::default(), "`q` has 4 heads, which is not a multiple of the 3 heads of `k` and `v`")]
#[case::scale(K, Options::default().scale(f32::NAN), "`scale` is NaN, but needs to be finite")]
#[case::mask(
    K,
    Options::default().mask(Array4::zeros((3, 4, 65, 129))),
    "`mask` has shape [3, 4, 65, 129], but needs [2 or 1, 4 or 1, 65, 129]"
)]
#[case::blocks(
    K,
    Options::default().blocks(Array4::from_elem((3, 4, 2, 3), true)),
    "`blocks` has shape [3, 4, 2, 3], but needs [2 or 1, 4 or 1, 2, 3]"
)]
#[case::dropout(
    K,
    Options::default().dropout(Dropout { probability: 1.0, seed: 0, offset: 0 }),
    "`dropout` has probability 1, but needs one in [0, 1)"
)]
#[case::lengths(K, Options::default().key_lengths([5]), "`key_lengths` has shape [1], but needs [2]")]
#[case::length(
    K,
    Options::default().key_lengths([5, 130]),
    "`key_lengths[1]` is 130, but `k` has only 129 rows"
)]
fn a_refusal_names_argument_and_shapes(
    #[case] k: Shape,
    #[case] options: Options,
    #[case] message: &str,
) {
    let (q, k) = (Array4::zeros(Q), Array4::zeros(k));
    let error = attention(q.view(), k.view(), k.view(), &options).unwrap_err();
    assert_eq!(error.to_string(), format!("attention: {message}"));
}

#[test]
fn a_refusal_of_the_layer_names_the_weight() {
    let mut layer = multi_head::layer(16, 4, true);
    layer.w_q.weight = Array2::zeros((16, 15));
    let x = multi_head::input(2, 3, 16);
    let error = Stage1
        .multi_head(&layer, x.view(), &Options::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "multi_head: `w_q.weight` has shape [16, 15], but needs [16, 16] to fit `x`"
    );
}

#[test]
fn an_implementation_can_refuse_what_it_lacks() {
    let lacks = [Feature::Window, Feature::BlockSparse];
    let refuse = |options: Options| options.refuse("attention", &lacks);
    assert_eq!(refuse(Options::default().causal().key_lengths([3])), Ok(()));
    let error = refuse(Options::default().causal().window(1, 1)).unwrap_err();
    assert_eq!(
        error,
        Error::Unsupported {
            operation: "attention",
            feature: Feature::Window
        }
    );
    assert_eq!(
        error.to_string(),
        "attention: window not supported by this implementation"
    );
    let all = Options::default()
        .blocks(Array4::from_elem((1, 1, 1, 1), true))
        .mask(Array4::zeros((1, 1, 1, 1)))
        .key_lengths([1])
        .window(1, 1)
        .causal()
        .scale(1.0)
        .dropout(Dropout {
            probability: 0.5,
            seed: 0,
            offset: 0,
        });
    assert_eq!(
        all.features(),
        [
            Feature::Scale,
            Feature::Causal,
            Feature::Window,
            Feature::KeyLengths,
            Feature::AdditiveMask,
            Feature::BlockSparse,
            Feature::Dropout
        ]
    );
}
