//! A and B of a product of a warpgroup, by rows of 32 bytes along the depth; columns of B are its
//! rows.

use super::descriptor::{CHUNK, Descriptor, Major};
use crate::exec::operations::mma::fragments::rows_of_halves;
use crate::exec::registers::Registers;
use crate::program::op::{Factors, R};

/// The two chunks of a row, in words.
pub(super) type Row = [[u32; 4]; 2];

/// Reads the tile that a descriptor describes. `shared` is all shared memory of the block. The
/// address of a chunk that is not in it, if there is one.
pub(super) fn read(
    shared: &[u8],
    descriptor: &Descriptor,
    major: Major,
    rows: &mut [Row],
) -> Result<(), u64> {
    let chunk = |line: usize, c: usize| -> Result<[u32; 4], u64> {
        let address = descriptor.first_of(major, line, c);
        let bytes = shared.get(address as usize..address as usize + CHUNK);
        let (words, _) = bytes.ok_or(address)?.as_chunks::<4>();
        Ok([words[0], words[1], words[2], words[3]].map(u32::from_le_bytes))
    };
    match major {
        Major::K => {
            for (line, row) in rows.iter_mut().enumerate() {
                *row = [chunk(line, 0)?, chunk(line, 1)?];
            }
        }
        Major::Mn => {
            for (c, rows) in rows.chunks_mut(8).enumerate() {
                for half in 0..2 {
                    let mut columns = [[0; 4]; 8];
                    for (k, column) in columns.iter_mut().enumerate() {
                        *column = chunk(8 * half + k, c)?;
                    }
                    for (row, halves) in rows.iter_mut().zip(rows_of_halves(&columns)) {
                        let pair = |i: usize| {
                            u32::from(halves[2 * i + 1]) << 16 | u32::from(halves[2 * i])
                        };
                        row[half] = [pair(0), pair(1), pair(2), pair(3)];
                    }
                }
            }
        }
    }
    Ok(())
}

/// Reads the rows of A that a warp has in registers.
pub(super) fn read_fragments(registers: &Registers, a: &[R; 4], rows: &mut [Row]) {
    for (i, r) in a.iter().enumerate() {
        let tile = registers.read::<u32>(*r).as_chunks::<4>().0;
        for (g, words) in tile.iter().enumerate() {
            rows[i % 2 * 8 + g][i / 2] = *words;
        }
    }
}

/// Changes the sign of every element.
pub(super) fn negate(factors: Factors, rows: &mut [Row]) {
    let signs = match factors {
        Factors::F16 | Factors::Bf16 => 0x8000_8000,
        Factors::Tf32 => 0x8000_0000,
        Factors::E4m3 { .. } | Factors::E5m2 { .. } => 0x8080_8080,
        Factors::Int8 { .. } => unreachable!("PTX has no negation of integers"),
    };
    for word in rows.as_flattened_mut().as_flattened_mut() {
        *word ^= signs;
    }
}
