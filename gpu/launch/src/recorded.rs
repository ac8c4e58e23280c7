//! A trace as a recording, whose format is that of `gpu-recording`.

use cuda_sim::trace::{self, LaunchTrace};
use gpu_recording::{Access, Array, FORMAT, Kind, Pass, Recording, Scalar, Space, Step, Word};

use crate::names::readable;
use crate::sources::{self, Sources};
use crate::values::Type;

/// The recording of a trace, with the source lines.
pub fn recording(trace: &LaunchTrace, sources: &Sources<'_>) -> Recording {
    let source = |step: &trace::Step| sources::line(sources, &step.file, step.line);
    let arrays = trace.arrays.iter().map(|array| Array {
        name: array.name.clone(),
        space: space(array.space),
        bytes: array.bytes,
        ty: array.ty.to_owned(),
    });
    let steps = trace.steps.iter().map(|step| Step {
        file: step.file.clone(),
        line: step.line,
        source: source(step).unwrap_or_default().trim().to_owned(),
        active: numbers(step.active),
        barrier: step.barrier,
        before: words(trace, &step.before),
        after: words(trace, &step.after),
        accesses: step.accesses.iter().map(access).collect(),
    });
    Recording {
        version: FORMAT,
        kernel: readable(&trace.kernel),
        grid: trace.grid,
        threads: trace.threads,
        block: trace.block,
        warp: trace.warp,
        arrays: arrays.collect(),
        steps: steps.collect(),
        left_out: trace.left_out,
    }
}

fn access(access: &trace::Access) -> Access {
    let lanes = &access.lanes;
    let places = |space: trace::Space| lanes.iter().filter(move |_| access.space == space);
    let pass = |pass: &trace::Pass| Pass {
        lanes: numbers(pass.lanes),
        wavefronts: pass.wavefronts,
    };
    let values = |lane: &trace::Lane| {
        lane.values
            .iter()
            .map(|bits| scalar(access.ty, *bits))
            .collect()
    };
    Access {
        instruction: access.instruction,
        kind: match access.kind {
            trace::AccessKind::Load => Kind::Load,
            trace::AccessKind::Store => Kind::Store,
            trace::AccessKind::Atomic => Kind::Atomic,
        },
        space: space(access.space),
        ty: access.ty.to_owned(),
        elements: access.elements,
        bytes: access.bytes,
        lanes: lanes.iter().map(|lane| lane.lane).collect(),
        arrays: lanes.iter().map(|lane| lane.array).collect(),
        offsets: lanes.iter().map(|lane| lane.offset).collect(),
        values: lanes.iter().map(values).collect(),
        banks: places(trace::Space::Shared)
            .map(|lane| lane.place as u32)
            .collect(),
        sectors: places(trace::Space::Global)
            .map(|lane| lane.place)
            .collect(),
        sector_count: access.sectors,
        passes: access.passes.iter().map(pass).collect(),
    }
}

fn space(space: trace::Space) -> Space {
    match space {
        trace::Space::Global => Space::Global,
        trace::Space::Shared => Space::Shared,
        trace::Space::Local => Space::Local,
    }
}

/// The numbers of the bits that are set.
fn numbers(mask: u32) -> Vec<u32> {
    (0..32).filter(|lane| mask >> lane & 1 == 1).collect()
}

fn words(trace: &LaunchTrace, words: &[trace::Word]) -> Vec<Word> {
    let word = |word: &trace::Word| {
        let ty = trace.arrays[word.array].ty;
        let ty = if ty.ends_with("32") { ty } else { "u32" };
        Word(word.array, word.index, scalar(ty, u64::from(word.bits)))
    };
    words.iter().map(word).collect()
}

/// The value with these bits, as JSON has it.
fn scalar(ty: &str, bits: u64) -> Scalar {
    let text = Type::parse(ty).map_or_else(|_| bits.to_string(), |ty| ty.show(bits));
    if ty.contains('f') {
        let finite = text.parse().ok().filter(|value: &f64| value.is_finite());
        return finite.map_or(Scalar::Text(text), Scalar::Float);
    }
    match text.parse() {
        Ok(number) => Scalar::Whole(number),
        Err(_) => Scalar::Large(bits),
    }
}
