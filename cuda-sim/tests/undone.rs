//! A launch whose blocks turn out not to be independent runs again in order, on memory as it was.

use cuda_sim::FaultKind;
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

/// Block b changes byte 0 of word b, then all of the word; then each block stores its number into
/// one place, which is a race.
const KERNEL: &str = ".version 8.3\n.target sm_75\n.address_size 64\n\
    .visible .entry t(.param .u64 words, .param .u64 last)\n{\n\
    .reg .b16 %h;\n.reg .b32 %b, %x;\n.reg .b64 %words, %last, %d;\n\
    ld.param.u64 %words, [words];\nld.param.u64 %last, [last];\nmov.u32 %b, %ctaid.x;\n\
    mul.wide.u32 %d, %b, 4;\nadd.u64 %d, %d, %words;\n\
    ld.global.u8 %h, [%d];\nxor.b16 %h, %h, 1;\nst.global.u8 [%d], %h;\n\
    ld.global.u32 %x, [%d];\nadd.u32 %x, %x, 0x07070700;\nst.global.u32 [%d], %x;\n\
    st.global.u32 [%last], %b;\nret;\n}\n";

#[test]
fn every_byte_is_undone_before_blocks_run_in_order() {
    cuda_sim::install().unwrap();
    let stream = CudaContext::new(0).unwrap().default_stream();
    let module = stream.context().load_module(Ptx::from_src(KERNEL)).unwrap();
    let kernel = module.load_function("t").unwrap();
    let before: Vec<u32> = (0..64).map(|b| 0x0102_0304 + b).collect();
    for _ in 0..20 {
        let mut words = stream.clone_htod(&before).unwrap();
        let mut last = stream.clone_htod(&[u32::MAX]).unwrap();
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&mut words).arg(&mut last);
        let shape = LaunchConfig {
            grid_dim: (64, 1, 1),
            block_dim: (1, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: two addresses, as the kernel takes; each block has its word.
        unsafe { launch.launch(shape) }.expect_err("a race");
        let fault = cuda_sim::take_fault().expect("a fault was reported");
        assert!(matches!(fault.kind, FaultKind::Race(_)), "{fault}");
        assert_eq!(fault.block, [1, 0, 0], "the first one that races in order");
        // Block 0 has ended, and block 1 has come to its race.
        let changed = |b: usize| (before[b] ^ 1).wrapping_add(0x0707_0700);
        let mut expected = before.clone();
        (expected[0], expected[1]) = (changed(0), changed(1));
        assert_eq!(stream.clone_dtoh(&words).unwrap(), expected);
        assert_eq!(stream.clone_dtoh(&last).unwrap(), [0]);
    }
}
