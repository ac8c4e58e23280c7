//! Head dimensions without committed kernels of their own, on a machine without a compiler: the padded kernel takes them, and
//! the handle says so.

use conformance::device::{Device, alone};
use conformance::inputs::{normal, tensor};
use stage1_reference::Options;
use stage4_flash_cuda::{Attention, Mode};

#[test]
fn the_padded_kernel_takes_them() {
    let cache = env!("CARGO_TARGET_TMPDIR").to_owned() + "/no-compiler";
    let variables = [("NVRTC_PATH", "none"), ("GPU_CACHE_DIR", &*cache)];
    if alone("no_compiler::the_padded_kernel_takes_them", &variables).is_some() {
        return;
    }
    let device = Device::open();
    let handle = || Attention::new(device.stream.context()).unwrap();
    let (fused, padded) = (handle(), handle().with_mode(Mode::Padded));
    for (head_dim, columns) in [(20, 32), (100, 128), (33, 64), (256, 256)] {
        let variant = fused.variant(head_dim).unwrap();
        assert_eq!(variant.head_dim, columns);
        let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 2, 70, head_dim), seed, normal));
        let run = |attention: &Attention| {
            let options = Options::default().causal();
            let result =
                attention.forward_host(&device.stream, q.view(), k.view(), v.view(), &options);
            result.unwrap_or_else(|error| panic!("{error}"))
        };
        assert_eq!(run(&fused).o, run(&padded).o);
    }
    assert_eq!(fused.variant(40).unwrap().head_dim, 40, "it is committed");
}
