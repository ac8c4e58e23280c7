//! Head dimensions without committed kernels of their own, on a machine without a compiler: the padded kernel takes them, and
//! the program says so once.

use std::env;
use std::process::Command;

use conformance::Implementation;
use conformance::device::Device;
use conformance::problems::attention::random;
use conformance::suites::stage4::solve;
use stage4_flash_cuda::{Attention, Stage4};

#[test]
fn the_padded_kernel_takes_them_and_that_is_said_once() {
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "child_has_no_compiler",
        ])
        .env("NVRTC_PATH", "none")
        .env(
            "GPU_CACHE_DIR",
            env!("CARGO_TARGET_TMPDIR").to_owned() + "/no-compiler",
        )
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{errors}"
    );
    let said: Vec<&str> = errors
        .lines()
        .filter(|line| line.starts_with("stage 4: "))
        .collect();
    let [once] = &said[..] else {
        panic!("{errors}")
    };
    let of_the_first = "stage 4: D = 20 runs on a slower kernel, padded to 32 columns: ";
    assert!(
        once.starts_with(of_the_first) && once.contains("there is no compiler; `fetch-nvrtc`"),
        "{once}"
    );
}

#[test]
#[ignore = "run by the test above"]
fn child_has_no_compiler() {
    for head_dim in [20, 100, 20, 33] {
        let (problem, [layout, ..]) = random((head_dim << 8) + 7, head_dim as usize, &[]);
        let device = Device::open();
        let own = Stage4 {
            stream: device.stream.clone(),
            attention: Attention::new(device.stream.context()).unwrap(),
        };
        let who = Implementation {
            name: "fused",
            device: &device.name,
            lacks: &[],
        };
        let report = conformance::run(&who, [problem.clone()], |_, output| {
            *output = solve(&device, &own, &problem, [layout; 4])?;
            Ok::<_, Box<dyn std::error::Error>>(())
        });
        report.into_result().unwrap();
    }
}
