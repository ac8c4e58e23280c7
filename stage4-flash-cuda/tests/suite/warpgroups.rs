//! The library's kernel for compute capability 9.0: which problems it takes, and which rows it
//! never uses.

use conformance::device::{Device, profiles};
use conformance::inputs::{normal, tensor};
use conformance::layout::Layout;
use conformance::problems::attention::Problem;
use conformance::suites::stage4::solve;
use cudarc::driver::CudaSlice;
use gpu::arguments::pack_bits;
use half::f16;
use ndarray::Array4;
use stage1_reference::Options;
use stage4_flash_cuda::{
    Attention, BlockMask, Format, Inputs, Kernel, Outputs, Rung, Shape, Sizes, Stage4, Strides,
};

use crate::runs_here;

const SIZES: Sizes = Sizes {
    batch: 2,
    heads: 4,
    kv_heads: 2,
    nq: 70,
    nk: 130,
    head_dim: 64,
};

const WARPGROUPS: Kernel = Kernel::Warpgroups(Format::F16);
const TENSOR_CORES: Kernel = Kernel::TensorCores(Format::F16);

/// The device, if it is of compute capability 9.0.
fn hopper() -> Option<Device> {
    runs_here(stage4_flash_cuda::Mode::Rung(Rung::PingPong)).then(Device::open)
}

fn attention(device: &Device) -> Attention {
    Attention::new(device.stream.context()).unwrap()
}

/// The shape is spoiled in one way each, or in none. Beside it stand the columns of the kernel for
/// 9.0, if it is the one that takes the shape; those of the other hang on whether NVRTC is there.
#[test]
fn a_shape_that_suits_no_tensor_map_gets_the_other_kernel() {
    let Some(device) = hopper() else { return };
    let attention = attention(&device);
    let packed = Shape::packed(SIZES);
    let of = |head_dim| Shape::packed(Sizes { head_dim, ..SIZES });
    let q = |q| Shape { q, ..packed };
    let k = |k| Shape { k, ..packed };
    let v = |v| Shape { v, ..packed };
    let one_head = Shape::packed(Sizes {
        heads: 1,
        kv_heads: 1,
        ..SIZES
    });
    for (what, shape, columns) in [
        ("packed", packed, Some(64)),
        ("sequence first", Shape::sequence_first(SIZES), Some(64)),
        ("padded", of(8), Some(64)),
        ("padded to 128", of(72), Some(128)),
        ("the largest", of(128), Some(128)),
        ("rows of 140 bytes", of(70), None),
        ("a large head dimension", of(136), None),
        (
            "rows of q",
            q(Strides {
                row: 68,
                ..packed.q
            }),
            None,
        ),
        (
            "heads of k",
            k(Strides {
                head: 8324,
                ..packed.k
            }),
            None,
        ),
        (
            "v for all heads",
            v(Strides {
                head: 0,
                ..packed.v
            }),
            None,
        ),
        (
            "batches of v",
            v(Strides {
                batch: 1 << 39,
                ..packed.v
            }),
            None,
        ),
        // The stride of an axis of length 1 does not count, and o needs none.
        (
            "one head",
            Shape {
                k: Strides {
                    head: 3,
                    ..one_head.k
                },
                ..one_head
            },
            Some(64),
        ),
        (
            "o",
            Shape {
                o: Strides {
                    row: 65,
                    ..packed.o
                },
                ..packed
            },
            Some(64),
        ),
    ] {
        let variant = attention.half_variant(Format::F16, &shape);
        let variant = variant.unwrap_or_else(|error| panic!("{what}: {error}"));
        match columns {
            Some(columns) => assert_eq!(
                (variant.kernel, variant.head_dim),
                (WARPGROUPS, columns),
                "{what}"
            ),
            None => assert_eq!(variant.kernel, TENSOR_CORES, "{what}"),
        }
    }
}

/// Addresses and block masks, which no shape has.
#[test]
fn tensors_that_suit_no_tensor_map_get_the_other_kernel() {
    let Some(device) = hopper() else { return };
    let attention = attention(&device);
    let shape = Shape::packed(SIZES);
    let tensor = device.filled::<f16>(0.5, 2 * 4 * 130 * 64 + 4);
    let blocks = device.upload(&pack_bits([true; 6], 3));
    for (what, offsets, masked, kernel) in [
        ("aligned", [0; 3], false, "attention_wgmma"),
        ("q", [4, 0, 0], false, "attention_mma"),
        ("k", [0, 4, 0], false, "attention_mma"),
        ("v", [0, 0, 4], false, "attention_mma"),
        ("a block mask", [0; 3], true, "attention_mma"),
    ] {
        let mut o = device.filled::<f16>(0.0, 2 * 4 * 70 * 64);
        let [q, k, v] = offsets.map(|offset| tensor.slice(offset..));
        let blocks = masked.then(|| BlockMask {
            values: blocks.as_view(),
            strides: Strides::broadcast((1, 1, 2, 1)),
        });
        let inputs = Inputs {
            blocks,
            ..Inputs::new(q, k, v)
        };
        let outputs = Outputs {
            o: o.as_view_mut(),
            lse: None,
        };
        let launched = profiles(|| attention.forward_half(&device.stream, inputs, outputs, &shape));
        let Some(launched) = launched else { return };
        let ((), launches) = launched.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(launches[0].kernel, kernel, "{what}");
        let o = device.download(&o);
        assert!(o.iter().all(|&x| x == f16::from_f32(0.5)), "{what}");
    }
}

/// Keys of a cache: of each head `nk` rows, of which a sequence has written so many.
struct Cache {
    k: CudaSlice<f16>,
    v: CudaSlice<f16>,
}

/// What stands behind the keys of a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behind {
    Zeros,
    Nan,
    Infinity,
    /// Memory that nobody wrote.
    Nothing,
}

fn cache(device: &Device, shape: &Shape, lengths: &[i32], behind: Behind) -> Cache {
    let Sizes {
        nk,
        head_dim,
        kv_heads,
        ..
    } = shape.sizes;
    let filler = match behind {
        Behind::Nan => f16::NAN,
        Behind::Infinity => f16::INFINITY,
        Behind::Zeros | Behind::Nothing => f16::ZERO,
    };
    let [k, v] = [2, 3].map(|seed| {
        // SAFETY: rows that are not written are those that attention must not use.
        let mut x = unsafe {
            device
                .stream
                .alloc::<f16>(lengths.len() * kv_heads * nk * head_dim)
        };
        let x_all = x.as_mut().unwrap();
        let values = tensor((lengths.len(), kv_heads, nk, head_dim), seed, normal);
        for (b, &length) in lengths.iter().enumerate() {
            for h in 0..kv_heads {
                let rows = if behind == Behind::Nothing {
                    length as usize
                } else {
                    nk
                };
                let matrix = Vec::from_iter((0..rows * head_dim).map(|x| match x / head_dim {
                    row if row < length as usize => {
                        f16::from_f32(values[[b, h, row, x % head_dim]])
                    }
                    _ => filler,
                }));
                let start = (b * kv_heads + h) * nk * head_dim;
                let mut target = x_all.slice_mut(start..start + matrix.len());
                device.stream.memcpy_htod(&matrix, &mut target).unwrap();
            }
        }
        x.unwrap()
    });
    Cache { k, v }
}

/// Rows of k and v from the key length on change no bit, whatever they hold. Lengths around a tile
/// of 128 keys, and none.
#[test]
fn rows_behind_the_keys_are_not_used() {
    let device = Device::open();
    let attention = attention(&device);
    let lengths = [0, 1, 100, 127, 128, 129, 255, 256, 260];
    for (head_dim, causal) in [(64, false), (72, true), (128, false)] {
        let sizes = Sizes {
            batch: lengths.len(),
            heads: 2,
            kv_heads: 1,
            nq: 70,
            nk: 260,
            head_dim,
        };
        let shape = Shape {
            causal,
            ..Shape::packed(sizes)
        };
        let q = tensor((lengths.len(), 2, 70, head_dim), 1, normal);
        let q = device.upload(&Vec::from_iter(q.iter().map(|&x| f16::from_f32(x))));
        let key_lengths = device.upload(&lengths);
        let run = |behind| {
            let Cache { k, v } = cache(&device, &shape, &lengths, behind);
            let mut o = device.filled::<f16>(f32::NAN, q.len());
            let mut lse = device.upload(&vec![f32::NAN; lengths.len() * 2 * 70]);
            let inputs = Inputs {
                key_lengths: Some(key_lengths.as_view()),
                ..Inputs::new(q.as_view(), k.as_view(), v.as_view())
            };
            let outputs = Outputs {
                o: o.as_view_mut(),
                lse: Some(lse.as_view_mut()),
            };
            let launched = attention.forward_half(&device.stream, inputs, outputs, &shape);
            launched.unwrap_or_else(|error| panic!("{error}"));
            let bits = |x: f32| x.to_bits();
            let o = device.download(&o).into_iter().map(|x| bits(x.to_f32()));
            Vec::from_iter(o.chain(device.download(&lse).into_iter().map(bits)))
        };
        let expected = run(Behind::Zeros);
        assert!(expected.iter().all(|&bits| !f32::from_bits(bits).is_nan()));
        for behind in [Behind::Nan, Behind::Infinity, Behind::Nothing] {
            assert!(run(behind) == expected, "{behind:?}, D = {head_dim}");
        }
    }
}

/// Two launches that nobody waits between, with tensor maps of their own.
#[test]
fn a_launch_keeps_its_tensor_maps() {
    let device = Device::open();
    let own = Stage4 {
        stream: device.stream.clone(),
        attention: attention(&device),
    };
    let shapes = [(150, 300), (70, 90)].map(|(nq, nk)| {
        Shape::packed(Sizes {
            batch: 1,
            heads: 2,
            kv_heads: 2,
            nq,
            nk,
            head_dim: 64,
        })
    });
    let problems = shapes.map(|shape| {
        let Sizes { nq, nk, .. } = shape.sizes;
        let [q, k, v]: [Array4<f32>; 3] = [(nq, 1), (nk, 2), (nk, 3)]
            .map(|(rows, seed)| tensor((1, 2, rows, 64), seed + nq as u64, normal));
        Problem::new(format!("nq = {nq}"), q, k, v, Options::default())
    });
    let alone = problems
        .each_ref()
        .map(|problem| solve::<f16>(&device, &own, problem, [Layout::Packed; 4]).unwrap());
    let tensors = problems.each_ref().map(|problem| {
        [&problem.q, &problem.k, &problem.v].map(|x| device.input::<f16>(x, Layout::Packed))
    });
    let mut outputs = problems
        .each_ref()
        .map(|problem| device.output::<f16>(problem.q.dim(), Layout::Packed));
    for (([q, k, v], o), shape) in tensors.iter().zip(&mut outputs).zip(&shapes) {
        let outputs = Outputs {
            o: o.view_mut(),
            lse: None,
        };
        let inputs = Inputs::new(q.view(), k.view(), v.view());
        let launched = own
            .attention
            .forward_half(&device.stream, inputs, outputs, shape);
        launched.unwrap_or_else(|error| panic!("{error}"));
    }
    for (o, alone) in outputs.iter().zip(alone) {
        assert_eq!(o.read(&device).unwrap(), alone.o);
    }
}
