//! CubeCL's CUDA runtime: a ragged elementwise kernel, sums in shared memory, and a sum over planes
//! with an atomic.

use cubecl::{cuda::CudaRuntime, prelude::*, server::Handle};

#[cube(launch)]
fn axpy<F: Float + CubeElement>(a: F, x: &Array<F>, y: &mut Array<F>) {
    if ABSOLUTE_POS < y.len() {
        y[ABSOLUTE_POS] += a * x[ABSOLUTE_POS];
    }
}

#[cube(launch)]
fn cube_sums(x: &Array<f32>, sums: &mut Array<f32>) {
    let mut tile = SharedMemory::<f32>::new(64usize);
    let unit = UNIT_POS as usize;
    if ABSOLUTE_POS < x.len() {
        tile[unit] = x[ABSOLUTE_POS];
    } else {
        tile[unit] = 0.0;
    }
    sync_cube();
    for round in 0..6usize {
        let step = 32usize >> round;
        if unit < step {
            let other = tile[unit + step];
            tile[unit] += other;
        }
        sync_cube();
    }
    if unit == 0 {
        sums[CUBE_POS] = tile[0];
    }
}

#[cube(launch)]
fn total(x: &Array<u32>, total: &mut Array<Atomic<u32>>) {
    let sum = plane_sum(x[ABSOLUTE_POS]);
    if UNIT_POS_PLANE == 0 {
        total[0].fetch_add(sum);
    }
}

type Client = ComputeClient<CudaRuntime>;

fn argument(memory: &Handle, length: usize) -> ArrayArg<CudaRuntime> {
    // SAFETY: each caller names the length that it gave the memory.
    unsafe { ArrayArg::from_raw_parts(memory.clone(), length) }
}

fn floats(client: &Client, memory: Handle) -> Vec<f32> {
    f32::from_bytes(&client.read_one_unchecked(memory)).to_vec()
}

fn main() {
    let client = CudaRuntime::client(&Default::default());
    let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();

    let x = client.create_from_slice(f32::as_bytes(&values));
    let y = client.create_from_slice(f32::as_bytes(&[1.0; 1000]));
    let (cubes, units) = (CubeCount::Static(8, 1, 1), CubeDim::new_1d(128));
    axpy::launch::<f32, CudaRuntime>(
        &client,
        cubes,
        units,
        2.0,
        argument(&x, 1000),
        argument(&y, 1000),
    );
    let expected: Vec<f32> = values.iter().map(|x| 1.0 + 2.0 * x).collect();
    assert_eq!(floats(&client, y), expected);

    let sums = client.empty(16 * size_of::<f32>());
    let (cubes, units) = (CubeCount::Static(16, 1, 1), CubeDim::new_1d(64));
    cube_sums::launch(
        &client,
        cubes,
        units,
        argument(&x, 1000),
        argument(&sums, 16),
    );
    let expected: Vec<f32> = values.chunks(64).map(|tile| tile.iter().sum()).collect();
    assert_eq!(floats(&client, sums), expected);

    let counts: Vec<u32> = (0..256).collect();
    let x = client.create_from_slice(u32::as_bytes(&counts));
    let sum = client.create_from_slice(u32::as_bytes(&[0]));
    let (cubes, units) = (CubeCount::Static(4, 1, 1), CubeDim::new_1d(64));
    total::launch(&client, cubes, units, argument(&x, 256), argument(&sum, 1));
    let sum = client.read_one_unchecked(sum);
    assert_eq!(u32::from_bytes(&sum), [counts.iter().sum::<u32>()]);
}
