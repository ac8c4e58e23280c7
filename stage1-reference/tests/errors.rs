//! Shapes that do not fit are refused by name.

use ndarray::Array4;
use rstest::rstest;
use stage1_reference::{Error, Feature, Options, attention};

type Shape = (usize, usize, usize, usize);

fn attend(q: Shape, k: Shape, v: Shape, options: &Options) -> Error {
    let (q, k, v) = (Array4::zeros(q), Array4::zeros(k), Array4::zeros(v));
    attention(q.view(), k.view(), v.view(), options).unwrap_err()
}

#[rstest]
#[case::batch((2, 4, 3, 8), (3, 4, 5, 8), (3, 4, 5, 8), "k")]
#[case::head_dimension((2, 4, 3, 8), (2, 4, 5, 7), (2, 4, 5, 7), "k")]
#[case::value_rows((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 6, 8), "v")]
#[case::value_heads((2, 4, 3, 8), (2, 4, 5, 8), (2, 2, 5, 8), "v")]
#[case::value_head_dimension((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 9), "v")]
#[case::no_head_dimension((2, 4, 3, 0), (2, 4, 5, 0), (2, 4, 5, 0), "q")]
#[case::large_head_dimension((2, 4, 3, 257), (2, 4, 5, 257), (2, 4, 5, 257), "q")]
fn a_shape_that_does_not_fit_is_named(
    #[case] q: Shape,
    #[case] k: Shape,
    #[case] v: Shape,
    #[case] name: &str,
) {
    let error = attend(q, k, v, &Options::default());
    assert!(
        matches!(error, Error::Shape { argument, .. } if argument == name),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .starts_with(&format!("attention: `{name}` has shape [")),
        "{error}"
    );
}

#[rstest]
#[case(4, 3)]
#[case(4, 8)]
#[case(4, 0)]
fn heads_must_divide(#[case] heads: usize, #[case] kv_heads: usize) {
    let (q, k) = ((2, heads, 3, 8), (2, kv_heads, 5, 8));
    assert_eq!(
        attend(q, k, k, &Options::default()),
        Error::HeadGroups {
            operation: "attention",
            heads,
            kv_heads
        }
    );
}

#[rstest]
#[case((3, 4, 3, 5))]
#[case((2, 2, 3, 5))]
#[case((2, 4, 1, 5))]
#[case((2, 4, 3, 1))]
#[case((0, 4, 3, 5))]
fn a_mask_must_broadcast(#[case] mask: Shape) {
    let (q, k) = ((2, 4, 3, 8), (2, 4, 5, 8));
    let error = attend(q, k, k, &Options::default().mask(Array4::zeros(mask)));
    assert!(
        matches!(
            error,
            Error::Shape {
                argument: "mask",
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .ends_with("but needs [2 or 1, 4 or 1, 3, 5]"),
        "{error}"
    );
}

#[rstest]
fn a_scale_must_be_finite(#[values(f32::NAN, f32::INFINITY)] scale: f32) {
    let shape = (1, 1, 1, 1);
    let error = attend(shape, shape, shape, &Options::default().scale(scale));
    assert!(
        matches!(
            error,
            Error::Scale {
                operation: "attention",
                ..
            }
        ),
        "{error}"
    );
}

#[rstest]
#[case((3, 4, 2, 3))]
#[case((2, 2, 2, 3))]
#[case((2, 4, 1, 3))]
#[case((2, 4, 2, 2))]
#[case((2, 4, 65, 129))]
fn blocks_must_broadcast(#[case] blocks: Shape) {
    let (q, k) = ((2, 4, 65, 8), (2, 4, 129, 8));
    let options = Options::default().blocks(Array4::from_elem(blocks, true));
    let error = attend(q, k, k, &options).to_string();
    assert!(
        error.starts_with("attention: `blocks` has shape ["),
        "{error}"
    );
    assert!(
        error.ends_with("but needs [2 or 1, 4 or 1, 2, 3]"),
        "{error}"
    );
}

#[rstest]
#[case(&[5], "attention: `key_lengths` has shape [1], but needs [2]")]
#[case(&[5, 5, 5], "attention: `key_lengths` has shape [3], but needs [2]")]
#[case(&[5, 6], "attention: `key_lengths[1]` is 6, but `k` has only 5 rows")]
#[case(&[usize::MAX, 0], "attention: `key_lengths[0]` is 18446744073709551615, but `k` has only 5 rows")]
fn key_lengths_must_fit(#[case] lengths: &[usize], #[case] message: &str) {
    let (q, k) = ((2, 4, 3, 8), (2, 4, 5, 8));
    let error = attend(q, k, k, &Options::default().key_lengths(lengths));
    assert_eq!(error.to_string(), message);
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
        .scale(1.0);
    assert_eq!(
        all.features(),
        [
            Feature::Scale,
            Feature::Causal,
            Feature::Window,
            Feature::KeyLengths,
            Feature::AdditiveMask,
            Feature::BlockSparse
        ]
    );
}
