/// Rows and columns that [`Vector::transpose`] takes.
pub(super) const BLOCK: [usize; 2] = [8, 4];

/// A register of numbers. Each function but [`transpose`](Self::transpose) is one instruction or
/// two.
///
/// A value of this type exists only where the processor has the instructions: whoever calls an
/// unsafe function answers for it, and the safe ones take it from there.
pub(super) trait Vector: Copy {
    /// Numbers in it.
    const LANES: usize;

    /// `x` in every lane.
    ///
    /// # Safety
    ///
    /// The processor has the instructions of this type.
    unsafe fn splat(x: f32) -> Self;

    /// # Safety
    ///
    /// The processor has the instructions of this type, and there are
    /// [`LANES`](Self::LANES) numbers at `from`.
    unsafe fn load(from: *const f32) -> Self;

    /// # Safety
    ///
    /// There is room for [`LANES`](Self::LANES) numbers at `to`.
    unsafe fn store(self, to: *mut f32);

    /// `self + b`.
    fn add(self, b: Self) -> Self;

    /// `self − b`.
    fn sub(self, b: Self) -> Self;

    /// `self · b`.
    fn mul(self, b: Self) -> Self;

    /// `self · b + c`, with one rounding where there is an instruction for it.
    fn mul_add(self, b: Self, c: Self) -> Self;

    /// The larger of the two; `b` if one is NaN.
    fn max(self, b: Self) -> Self;

    /// The floats whose exponents are the lowest 8 bits of these, and whose other bits are 0.
    fn low_bits_as_exponent(self) -> Self;

    /// `C = Aᵀ` for an `A` of [`BLOCK`] rows and columns. `row_a` and `row_c` are the distances
    /// from row to row, in floats.
    ///
    /// # Safety
    ///
    /// The processor has the instructions of this type, and the elements of both exist.
    #[inline(always)]
    unsafe fn transpose(a: *const f32, row_a: isize, c: *mut f32, row_c: isize) {
        for i in 0..BLOCK[0] as isize {
            for j in 0..BLOCK[1] as isize {
                // SAFETY: by the contract.
                unsafe { *c.offset(j * row_c + i) = *a.offset(i * row_a + j) };
            }
        }
    }
}

/// For any processor: an array that the compiler may keep in a register.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; 4]);

impl Portable {
    #[inline(always)]
    fn each(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|x| f(self.0[x], b.0[x])))
    }
}

impl Vector for Portable {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: by the contract. An array of floats is aligned as a float is.
        Self(unsafe { from.cast::<[f32; 4]>().read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { to.cast::<[f32; 4]>().write(self.0) }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.each(b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.each(b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.each(b, |a, b| a * b)
    }

    /// With two roundings: where there is no such instruction, one rounding is a slow call.
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self.mul(b).add(c)
    }

    #[inline(always)]
    fn max(self, b: Self) -> Self {
        self.each(b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn low_bits_as_exponent(self) -> Self {
        self.each(self, |a, _| f32::from_bits(a.to_bits() << 23))
    }
}

/// Two registers as one. Work on them is independent, so that one goes on while the
/// other waits for a result.
#[derive(Clone, Copy)]
pub(super) struct Pair<V>([V; 2]);

impl<V: Vector> Pair<V> {
    #[inline(always)]
    fn each(self, b: Self, f: impl Fn(V, V) -> V) -> Self {
        let ([a0, a1], [b0, b1]) = (self.0, b.0);
        Self([f(a0, b0), f(a1, b1)])
    }
}

impl<V: Vector> Vector for Pair<V> {
    const LANES: usize = 2 * V::LANES;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: by the contract.
        Self([unsafe { V::splat(x) }; 2])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: by the contract.
        unsafe { Self([V::load(from), V::load(from.add(V::LANES))]) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: by the contract.
        unsafe {
            self.0[0].store(to);
            self.0[1].store(to.add(V::LANES));
        }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.each(b, V::add)
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.each(b, V::sub)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.each(b, V::mul)
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        let ([a0, a1], [b0, b1], [c0, c1]) = (self.0, b.0, c.0);
        Self([a0.mul_add(b0, c0), a1.mul_add(b1, c1)])
    }

    #[inline(always)]
    fn max(self, b: Self) -> Self {
        self.each(b, V::max)
    }

    #[inline(always)]
    fn low_bits_as_exponent(self) -> Self {
        self.each(self, |a, _| a.low_bits_as_exponent())
    }
}
