//! Cases of driver calls: one thread or three make random calls, with handles, sizes and addresses
//! of every quality.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use super::driver::call;
use super::functions::{CALLS, Of, Pool};
use super::random::Random;

use Of::*;
use Pool::*;

const IMAGE: &[u8] = b".version 7.0\n.target sm_75\n.address_size 64\n.global .u32 g[16];\n\
    .visible .entry t(.param .u64 p, .param .u32 n)\n{\n.reg .b32 %r<3>;\n.reg .b64 %d;\n\
    ld.param.u64 %d, [p];\nld.param.u32 %r0, [n];\natom.global.add.u32 %r1, [%d], %r0;\nret;\n}\n\
    .visible .entry loop()\n{\nagain:\nbra again;\n}\n\0";

/// State that the threads of one case share.
type Pools = Mutex<Vec<(Pool, u64)>>;

/// Memory of the host that the driver may read and write at any time: it is never freed, and
/// nothing else looks at it.
fn host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(|| Box::leak(vec![0u64; 8192].into_boxed_slice()).as_mut_ptr() as u64)
}

const HOST_BYTES: u64 = 8 * 8192;

extern "C" fn returns(_: *mut std::ffi::c_void) {
    // From a callback, every call is refused.
    call("cuCtxSynchronize", &[]);
}

pub fn case(seed: u64) {
    let random = &mut Random::new(seed);
    let threads = if random.one_in(3) { 1 } else { 3 };
    let pools = Pools::default();
    let before = free_memory();
    thread::scope(|scope| {
        for thread in 0..threads {
            let (pools, seed) = (&pools, random.bits());
            let spawned = thread::Builder::new().name(format!("fuzz {thread}"));
            spawned
                .spawn_scoped(scope, move || calls(pools, seed))
                .unwrap();
        }
    });
    clean_up(&pools.into_inner().unwrap_or_else(PoisonError::into_inner));
    // What a thread makes in a context while another destroys it stays: such a program is wrong.
    assert!(
        threads > 1 || free_memory() == before,
        "memory is left over"
    );
}

/// One thread records an event in a stream, and another lets the same stream wait for it: a stream
/// that waited for a record behind the wait would never end.
pub fn record_and_wait() {
    let (mut context, mut stream, mut event) = (0u64, 0u64, 0u64);
    let done = |code| assert_eq!(code, 0);
    done(call(
        "cuDevicePrimaryCtxRetain",
        &[&raw mut context as u64, 0],
    ));
    done(call("cuCtxSetCurrent", &[context]));
    done(call("cuStreamCreate", &[&raw mut stream as u64, 1]));
    done(call("cuEventCreate", &[&raw mut event as u64, 0]));
    // With a callback, the stream gets a queue.
    let callback = returns as extern "C" fn(_) as usize as u64;
    done(call("cuLaunchHostFunc", &[stream, callback, 0]));
    thread::scope(|scope| {
        let repeat = |name, arguments: [u64; 2]| {
            move || {
                done(call("cuCtxSetCurrent", &[context]));
                (0..300_000).for_each(|_| done(call(name, &arguments)));
            }
        };
        scope.spawn(repeat("cuEventRecord", [event, stream]));
        scope.spawn(repeat("cuStreamWaitEvent", [stream, event]));
    });
    done(call("cuStreamSynchronize", &[stream]));
    done(call("cuDevicePrimaryCtxRelease_v2", &[0]));
}

fn calls(pools: &Pools, seed: u64) {
    let random = &mut Random::new(seed);
    cuda_sim::set_budget(Some(2_000));
    let mut context = 0u64;
    if call("cuDevicePrimaryCtxRetain", &[&raw mut context as u64, 0]) == 0 {
        lock(pools).push((Context, context));
        call("cuCtxSetCurrent", &[context]);
    }
    let mut stale = Vec::new();
    for step in 0..250 {
        // A module early on, without which half of the calls have nothing to work on.
        let by_name = |wanted: &str| CALLS.iter().find(|(name, _)| *name == wanted).unwrap();
        let &(name, arguments) = match step {
            0 => by_name("cuModuleLoadData"),
            1 => by_name("cuModuleGetFunction"),
            2 => by_name("cuMemAlloc_v2"),
            3 => by_name("cuStreamCreate"),
            _ => usual(random),
        };
        one_call(random, pools, &mut stale, name, arguments);
    }
}

/// Any function, but rarely one after which all handles are of another context or gone.
fn usual(random: &mut Random) -> &'static (&'static str, &'static [Of]) {
    loop {
        let picked = random.pick(CALLS);
        let ends = [
            "PrimaryCtx",
            "cuCtxCreate",
            "cuCtxDestroy",
            "CtxSetCurrent",
            "PushCurrent",
            "PopCurrent",
        ];
        if !ends.iter().any(|word| picked.0.contains(word)) || random.one_in(12) {
            return picked;
        }
    }
}

fn lock(pools: &Pools) -> std::sync::MutexGuard<'_, Vec<(Pool, u64)>> {
    pools.lock().unwrap_or_else(PoisonError::into_inner)
}

fn one_call(
    random: &mut Random,
    pools: &Pools,
    stale: &mut Vec<u64>,
    name: &'static str,
    arguments: &[Of],
) {
    let mut outs = [0u64; 4];
    let results = [0u64; 4];
    // Of a kernel's parameters, the first is an address.
    let parameters = [address(random, pools), random.number()];
    let pointers = [
        &raw const parameters[0] as u64,
        &raw const parameters[1] as u64,
    ];
    let properties = [[1u32, 0, 1, 0].map(|x| {
        if random.one_in(4) {
            random.number() as u32
        } else {
            x
        }
    })]
    .concat();
    let properties = [properties, vec![0; 60]].concat();
    let (mut found, mut room) = ([[0u64; 8]; 4], random.below(9) as u64);
    let nodes = [(); 2].map(|()| handle(random, pools, stale, Node));
    let function = handle(random, pools, stale, Function);
    let shape = [1u32, 1, 1, 2, 1, 1, 0].map(|x| {
        if random.one_in(40) {
            random.number() as u32
        } else {
            x
        }
    });
    let [a, b, c, d, e, f, g] = shape.map(u64::from);
    let pair = |low: u64, high: u64| low | high << 32;
    let kernel_node = [
        function,
        pair(a, b),
        pair(c, d),
        pair(e, f),
        g,
        pointers.as_ptr() as u64,
        0,
    ];
    let (rows, slices) = (copy(random, pools, false), copy(random, pools, true));
    let mut instantiation = [random.below(9) as u64, 0, 0, 0];
    let images: [&[u8]; 6] = [IMAGE, IMAGE, IMAGE, b"\x7fELF\0", b"\0\0\0\0", b"no PTX\0"];
    let image = *random.pick(&images);
    let texts: [&[u8]; 6] = [b"t\0", b"t\0", b"loop\0", b"g\0", b"/dev/null\0", b"\xff\0"];
    let mut values = Vec::new();
    for (at, argument) in arguments.iter().enumerate() {
        let null = random.one_in(80);
        values.push(match *argument {
            New(_) | Result | Text | Image | Parameters | Properties | Callback if null => 0,
            New(_) => &raw mut outs[at % 4] as u64,
            Result => results.as_ptr() as u64,
            Handle(pool) => handle(random, pools, stale, pool),
            Address => address(random, pools),
            Bytes if random.one_in(3) => random.number() % (HOST_BYTES + 1),
            Bytes => 16,
            Copied if random.one_in(6) => {
                *random.pick(&[1 << 40, 1 << 63, u64::MAX - 15, u64::MAX])
            }
            Copied if random.one_in(3) => random.number() % (HOST_BYTES + 1),
            Copied => 16,
            Size if random.one_in(3) => random.number(),
            Size => *random.pick(&[16, 64, 256]),
            Host => host(),
            Ordinal if random.one_in(20) => random.number(),
            Ordinal => 0,
            Small if random.one_in(20) => random.number(),
            Small => *random.pick(&[0, 0, 0, 1, 1, 2, 3, 4]),
            Extent if random.one_in(30) => *random.pick(&[0, 1 << 31, u64::MAX]),
            Extent => *random.pick(&[1, 1, 2, 3]),
            Text => random.pick(&texts).as_ptr() as u64,
            Image => image.as_ptr() as u64,
            ImageBytes => image.len() as u64,
            Instantiation => instantiation.as_mut_ptr() as u64,
            Callback => returns as extern "C" fn(_) as usize as u64,
            Parameters => pointers.as_ptr() as u64,
            Properties => properties.as_ptr() as u64,
            Nodes => nodes.as_ptr() as u64,
            Few => random.below(3) as u64,
            Found | Room if random.one_in(6) => 0,
            Found => &raw mut found[at % 4] as u64,
            Room => &raw mut room as u64,
            KernelNode => kernel_node.as_ptr() as u64,
            Rows => rows.as_ptr() as u64,
            Slices => slices.as_ptr() as u64,
            Null => 0,
        });
    }
    let code = call(name, &values);
    for (at, argument) in arguments.iter().enumerate() {
        match *argument {
            New(pool) if code == 0 && outs[at % 4] != 0 => lock(pools).push((pool, outs[at % 4])),
            Handle(_) | Address
                if code == 0
                    && ["Destroy", "Free", "LibraryUnload"]
                        .iter()
                        .any(|word| name.contains(word)) =>
            {
                stale.push(values[at]);
                lock(pools).retain(|entry| entry.1 != values[at]);
            }
            _ => {}
        }
    }
}

/// Mostly a handle that was given out for the kind asked for, and that lately.
fn handle(random: &mut Random, pools: &Pools, stale: &[u64], pool: Pool) -> u64 {
    let pools = lock(pools);
    match random.below(30) {
        0 => random.below(4) as u64,
        1 => random.bits(),
        2 if !stale.is_empty() => *random.pick(stale),
        3 if !pools.is_empty() => random.pick(&pools).1,
        _ => {
            let fitting = pools.iter().rev().filter(|entry| entry.0 == pool);
            let fitting: Vec<u64> = fitting.take(4).map(|entry| entry.1).collect();
            if fitting.is_empty() {
                0
            } else {
                *random.pick(&fitting)
            }
        }
    }
}

/// `CUDA_MEMCPY2D` or `CUDA_MEMCPY3D`. What it reads or writes of the host lies in the host's
/// buffer, or has no address.
fn copy(random: &mut Random, pools: &Pools, slices: bool) -> Vec<u64> {
    const HOST: u64 = 1;
    const DEVICE: u64 = 2;
    const ARRAY: u64 = 3;
    let kinds = [(); 2].map(|()| *random.pick(&[HOST, DEVICE, DEVICE, DEVICE, DEVICE, ARRAY, 9]));
    let wild = !kinds.contains(&HOST) && random.one_in(4);
    let number = |random: &mut Random, most: usize| match wild && random.one_in(3) {
        true => random.number(),
        false => random.below(most) as u64,
    };
    let mut fields = Vec::new();
    for kind in kinds {
        let [x, y, z] = [3, 3, 2].map(|most| number(random, most));
        let [pitch, height] = [16, 4].map(|least| number(random, least).wrapping_add(least as u64));
        let host = if random.one_in(10) { 0 } else { host() };
        match slices {
            false => fields.extend([x, y, kind, host, 0, 0, pitch]),
            true => fields.extend([x, y, z, 0, kind, host, 0, 0, 0, pitch, height]),
        }
    }
    fields.extend([16, 3].map(|most| number(random, most)));
    if slices {
        fields.push(number(random, 3));
    }
    let (first, second) = if slices { (6, 17) } else { (4, 11) };
    fields[first] = address(random, pools);
    fields[second] = address(random, pools);
    fields
}

fn address(random: &mut Random, pools: &Pools) -> u64 {
    let base = handle(random, pools, &[], Memory);
    match random.below(8) {
        0 => base.wrapping_add(random.number()),
        _ => base,
    }
}

/// Ends all contexts, with all that belongs to them.
fn clean_up(pools: &[(Pool, u64)]) {
    for (_, context) in pools.iter().filter(|(pool, _)| *pool == Context) {
        call("cuCtxDestroy_v2", &[*context]);
    }
    while call("cuDevicePrimaryCtxRelease_v2", &[0]) == 0 {}
}

/// Device memory that nothing has, in bytes, when no context is in use.
fn free_memory() -> u64 {
    let (mut context, mut free, mut total) = (0u64, 0u64, 0u64);
    let done = |code| assert_eq!(code, 0);
    done(call(
        "cuDevicePrimaryCtxRetain",
        &[&raw mut context as u64, 0],
    ));
    done(call("cuCtxSetCurrent", &[context]));
    done(call(
        "cuMemGetInfo_v2",
        &[&raw mut free as u64, &raw mut total as u64],
    ));
    done(call("cuDevicePrimaryCtxRelease_v2", &[0]));
    free
}
