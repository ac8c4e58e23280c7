//! Copies between host and device memory, and the packing of bits.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DeviceRepr, DriverError};

/// Copies values to the device, in their order. The driver allocates no 0 bytes: of no values, one
/// default is copied.
///
/// # Errors
///
/// The driver's.
pub fn upload<'a, T: DeviceRepr + Copy + Default + 'a>(
    stream: &Arc<CudaStream>,
    values: impl IntoIterator<Item = &'a T>,
) -> Result<CudaSlice<T>, DriverError> {
    let mut values: Vec<T> = values.into_iter().copied().collect();
    if values.is_empty() {
        values.push(T::default());
    }
    stream.clone_htod(&values)
}

/// Copies the first values of `from` to host memory, as many as `into` has, and waits.
///
/// # Errors
///
/// The driver's, and those of earlier launches on the stream.
pub fn download<'a, T: DeviceRepr + Copy + 'a>(
    stream: &Arc<CudaStream>,
    from: &CudaSlice<T>,
    into: impl IntoIterator<Item = &'a mut T>,
) -> Result<(), DriverError> {
    let values = stream.clone_dtoh(from)?;
    stream.synchronize()?;
    for (into, value) in into.into_iter().zip(values) {
        *into = value;
    }
    Ok(())
}

/// Packs rows of `columns` bits into words: bit `c % 32` of word `c / 32` of a row is column `c`. A
/// row has `ceil(columns / 32)` words; without columns there are no words.
pub fn pack_bits(bits: impl IntoIterator<Item = bool>, columns: usize) -> Vec<u32> {
    let mut words = Vec::new();
    if columns == 0 {
        return words;
    }
    let row = columns.div_ceil(32);
    for (i, bit) in bits.into_iter().enumerate() {
        let (row_index, column) = (i / columns, i % columns);
        words.resize((row_index + 1) * row, 0);
        words[row_index * row + column / 32] |= u32::from(bit) << (column % 32);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_bits_begins_a_word() {
        let bits = |row: usize| (0..35).map(move |column| column % 32 == row);
        assert_eq!(pack_bits((0..2).flat_map(bits), 35), [1, 1, 2, 2]);
        assert_eq!(pack_bits([], 35), []);
        assert_eq!(pack_bits([true], 0), []);
    }
}
