//! The format of a recording, version 1.
//!
//! A recording is one JSON object, [`Recording`]. Its fields are documented there. Columns of an
//! access (`lanes`, `arrays`, `offsets`, `values`, `banks`, `sectors`) have one entry for each lane
//! that makes it. The same launch gives the same text on every run. New fields may be added without
//! a new version.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;
use thiserror::Error;

/// The version of the format.
pub const FORMAT: u32 = 1;

/// Actions of one warp of a launch at the selected lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// [`FORMAT`].
    pub version: u32,
    /// The kernel's name in the source.
    pub kernel: String,
    /// Blocks (x, y, z).
    pub grid: [u32; 3],
    /// Threads per block (x, y, z).
    pub threads: [u32; 3],
    /// Index of the recorded block.
    pub block: [u32; 3],
    /// Number of the recorded warp in its block.
    pub warp: u32,
    /// The shared arrays of the kernel, then what else was accessed.
    pub arrays: Vec<Array>,
    /// The warp's steps, in order.
    pub steps: Vec<Step>,
    /// Steps that are left out at the end, because they are too many.
    pub left_out: u64,
}

/// An array, or an allocation of device memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// Name of a shared array in the source; `argument 2` for device memory that argument 2 points
    /// into.
    pub name: String,
    /// The memory that it lies in.
    pub space: Space,
    /// Size in bytes.
    pub bytes: u64,
    /// Type of its elements, as it was accessed.
    #[serde(rename = "type")]
    pub ty: String,
}

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    /// Device memory.
    Global,
    /// Shared memory of a block.
    Shared,
    /// Memory of one thread.
    Local,
}

/// Instructions of one source line that the warp ran in a row, with the same lanes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// File, from the root of the workspace.
    pub file: String,
    /// Line, counted from 1; 0 for instructions without a line.
    pub line: u32,
    /// Text of the line without blanks around it; empty if it is not known.
    pub source: String,
    /// Lanes that run the line.
    pub active: Vec<u32>,
    /// The warp waits at a barrier of the block.
    pub barrier: bool,
    /// Words of shared memory that differ from the end of the step before; at the first step, all
    /// that have been written.
    pub before: Vec<Word>,
    /// Words of shared memory that this step changed.
    pub after: Vec<Word>,
    /// Loads, stores and atomic operations, in order.
    pub accesses: Vec<Access>,
}

/// A word of a shared array: index in `arrays`, index of the word in the array, and its value.
/// Where the type of the array has not 4 bytes, the value is the word's bits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Word(pub usize, pub u64, pub Scalar);

/// A number. What JSON has no number for is a text: `NaN`, `inf`, `-inf`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A whole number.
    Whole(i64),
    /// A whole number above the largest `i64`.
    Large(u64),
    /// A floating-point number.
    Float(f64),
    /// Not a finite number.
    Text(String),
}

/// One memory instruction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// Number of the memory instruction in its kernel.
    pub instruction: u32,
    /// Its action.
    pub kind: Kind,
    /// The memory.
    pub space: Space,
    /// Type of an element.
    #[serde(rename = "type")]
    pub ty: String,
    /// Elements of each lane: 1, 2 or 4.
    pub elements: u32,
    /// Bytes of each lane.
    pub bytes: u32,
    /// The lanes that make it, in order.
    pub lanes: Vec<u32>,
    /// For each of these lanes, the index in `arrays` of what it accesses.
    pub arrays: Vec<usize>,
    /// For each lane, its first byte, counted from the begin of the array.
    pub offsets: Vec<u64>,
    /// For each lane, the elements that it loads or stores, or, of an atomic operation, those that
    /// were there before.
    pub values: Vec<Vec<Scalar>>,
    /// In shared memory: for each lane, the bank of its first word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub banks: Vec<u32>,
    /// In global memory: for each lane, the sector of its first byte, counted from that of the
    /// array's first byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sectors: Vec<u64>,
    /// In global and local memory: the number of different sectors.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sector_count: u64,
    /// In shared memory: groups of lanes that are served one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<Pass>,
}

/// Action of a memory instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes.
    Atomic,
}

/// Lanes that shared memory serves together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// The lanes.
    pub lanes: Vec<u32>,
    /// Wavefronts: 1 without bank conflicts.
    pub wavefronts: u32,
}

/// The reason why a text is no recording.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// It is not JSON, or lacks a field.
    #[error("it is no recording of `gpu trace --json`")]
    Json(#[from] serde_json::Error),
    /// It has another version.
    #[error("it has version {version}, not {FORMAT}")]
    Version {
        /// Its version.
        version: u32,
    },
    /// A step has a lane above 31, an array that is not listed, or columns of different lengths.
    #[error("step {step} contradicts itself")]
    Step {
        /// The step, counted from 0.
        step: usize,
    },
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    ///
    /// [`RecordingError`]. What is read without an error has lanes below 32, arrays that are
    /// listed, and whole columns.
    pub fn parse(text: &str) -> Result<Recording, RecordingError> {
        let recording: Recording = serde_json::from_str(text)?;
        if recording.version != FORMAT {
            return Err(RecordingError::Version {
                version: recording.version,
            });
        }
        let arrays = recording.arrays.len();
        let sound = |step: &Step| {
            let mut words = step.before.iter().chain(&step.after);
            step.active.iter().all(|lane| *lane < 32)
                && words.all(|word| word.0 < arrays)
                && step.accesses.iter().all(|access| access.is_sound(arrays))
        };
        match recording.steps.iter().position(|step| !sound(step)) {
            Some(step) => Err(RecordingError::Step { step }),
            None => Ok(recording),
        }
    }

    /// The JSON text, with a line for each field.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Json`], if a number cannot be written.
    pub fn json(&self) -> Result<String, RecordingError> {
        let mut text = Vec::new();
        let mut writer = serde_json::Serializer::with_formatter(&mut text, Lines::default());
        self.serialize(&mut writer)?;
        text.push(b'\n');
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Access {
    fn is_sound(&self, arrays: usize) -> bool {
        let count = self.lanes.len();
        let whole = |column: usize, space| column == if self.space == space { count } else { 0 };
        self.lanes.iter().all(|lane| *lane < 32)
            && self.arrays.iter().all(|array| *array < arrays)
            && [self.arrays.len(), self.offsets.len(), self.values.len()] == [count; 3]
            && whole(self.banks.len(), Space::Shared)
            && whole(self.sectors.len(), Space::Global)
            && (self.passes.iter()).all(|pass| pass.lanes.iter().all(|lane| *lane < 32))
    }

    /// Words of 4 bytes that the lane with index `at` accesses. An asynchronous copy may read fewer
    /// elements than it writes.
    pub fn words(&self, at: usize) -> u64 {
        let elements = u64::from(self.elements.max(1));
        let here = elements.min(self.values[at].len() as u64);
        (u64::from(self.bytes) * here).div_ceil(4 * elements)
    }

    /// Wavefronts of shared memory.
    pub fn wavefronts(&self) -> u32 {
        self.passes.iter().map(|pass| pass.wavefronts).sum()
    }

    /// Its cost in words: `4 sectors`, or `2 wavefronts, 1 without conflicts`.
    pub fn cost(&self) -> String {
        let many = |number: u64, unit: &str| match number {
            1 => format!("1 {unit}"),
            _ => format!("{number} {unit}s"),
        };
        let (wavefronts, ideal) = (u64::from(self.wavefronts()), self.passes.len() as u64);
        match self.space {
            Space::Shared if wavefronts > ideal => {
                format!(
                    "{}, {ideal} without conflicts",
                    many(wavefronts, "wavefront")
                )
            }
            Space::Shared => many(wavefronts, "wavefront"),
            Space::Global | Space::Local => many(self.sector_count, "sector"),
        }
    }
}

/// Writes fields of objects in lines of their own, and arrays in one line.
#[derive(Default)]
struct Lines {
    depth: usize,
}

impl Lines {
    fn line<W: io::Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Lines {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(b"{")
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b"," })?;
        self.line(writer)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        self.line(writer)?;
        writer.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Recording {
        let access = Access {
            instruction: 0,
            kind: Kind::Load,
            space: Space::Shared,
            ty: "f32".to_owned(),
            elements: 1,
            bytes: 4,
            lanes: vec![0, 7],
            arrays: vec![0, 0],
            offsets: vec![0, 128],
            values: vec![
                vec![Scalar::Float(0.1)],
                vec![Scalar::Text("NaN".to_owned())],
            ],
            banks: vec![0, 0],
            sectors: Vec::new(),
            sector_count: 0,
            passes: vec![Pass {
                lanes: vec![0, 7],
                wavefronts: 2,
            }],
        };
        Recording {
            version: FORMAT,
            kernel: "scale<4>".to_owned(),
            grid: [1, 1, 1],
            threads: [32, 1, 1],
            block: [0, 0, 0],
            warp: 0,
            arrays: vec![Array {
                name: "tile".to_owned(),
                space: Space::Shared,
                bytes: 132,
                ty: "f32".to_owned(),
            }],
            steps: vec![Step {
                file: "a.cu".to_owned(),
                line: 3,
                source: "x = \"<\"".to_owned(),
                active: vec![0, 7],
                barrier: false,
                before: vec![
                    Word(0, 32, Scalar::Whole(-1)),
                    Word(0, 0, Scalar::Large(u64::MAX)),
                ],
                after: Vec::new(),
                accesses: vec![access],
            }],
            left_out: 1,
        }
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let text = small().json().unwrap();
        assert_eq!(Recording::parse(&text).unwrap(), small());
        assert!(text.contains("\n      \"lanes\": [0, 7],\n"), "{text}");
        assert!(text.contains("\n    \"before\": [[0, 32, -1], [0, 0, 18446744073709551615]],\n"));
        assert!(
            !text.contains("sector"),
            "columns of other memories are left out"
        );
    }

    #[test]
    fn what_contradicts_itself_is_no_recording() {
        let refused = |change: fn(&mut Recording)| {
            let mut recording = small();
            change(&mut recording);
            Recording::parse(&recording.json().unwrap())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(refused(|r| r.version = 2), "it has version 2, not 1");
        let changes: [fn(&mut Recording); 7] = [
            |r| r.arrays.clear(),
            |r| r.steps[0].active.push(32),
            |r| r.steps[0].before[0].0 = 1,
            |r| r.steps[0].accesses[0].lanes[1] = 32,
            |r| r.steps[0].accesses[0].offsets.clear(),
            |r| r.steps[0].accesses[0].banks.clear(),
            |r| r.steps[0].accesses[0].passes[0].lanes.push(40),
        ];
        for change in changes {
            assert_eq!(refused(change), "step 0 contradicts itself");
        }
        for text in ["", "{}", "[1]", "{\"version\": 1}"] {
            assert!(
                matches!(Recording::parse(text), Err(RecordingError::Json(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn a_lane_with_fewer_elements_accesses_fewer_words() {
        let mut access = small().steps[0].accesses[0].clone();
        assert_eq!(access.words(0), 1);
        (access.elements, access.bytes) = (4, 16);
        access.values[1] = vec![Scalar::Whole(0); 4];
        assert_eq!((access.words(0), access.words(1)), (1, 4));
        (access.elements, access.bytes) = (2, 2);
        assert_eq!(access.words(0), 1);
    }

    #[test]
    fn costs_are_said_in_words() {
        let mut access = small().steps[0].accesses[0].clone();
        assert_eq!(access.cost(), "2 wavefronts, 1 without conflicts");
        access.passes[0].wavefronts = 1;
        assert_eq!(access.cost(), "1 wavefront");
        (access.space, access.sector_count) = (Space::Global, 4);
        assert_eq!(access.cost(), "4 sectors");
    }
}
