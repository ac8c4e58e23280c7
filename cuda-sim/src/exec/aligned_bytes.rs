//! Memory of a block or a warp on the host.

/// Bytes aligned to 16.
#[derive(Default)]
pub(crate) struct Bytes {
    words: Vec<u128>,
    len: usize,
}

impl Bytes {
    pub(crate) fn reset(&mut self, len: usize, byte: u8) {
        self.len = len;
        self.words.clear();
        self.words
            .resize(len.div_ceil(16), u128::from_ne_bytes([byte; 16]));
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Bytes {
        let mut out = Bytes::default();
        out.reset(bytes.len(), 0);
        for (word, bytes) in out.words.iter_mut().zip(bytes.chunks(16)) {
            let mut whole = [0; 16];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u128::from_ne_bytes(whole);
        }
        out
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn pointer(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes are initialised, because `words` covers them.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }
}
