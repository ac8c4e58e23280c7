//! Answers of the oracle for attention, kept: a suite gives the same problems to one
//! implementation after the other.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use ndarray::{Array3, Array4};
use stage1_reference::Options;

/// o and lse.
pub type Answer = (Array4<f64>, Array3<f64>);

/// The most answers that are kept; at this number the table is cleared.
const MOST: usize = 2000;

/// Answers by the digest of the tensors. An answer is taken only if the options are equal, too.
static KNOWN: Mutex<BTreeMap<u64, Arc<(Options, Answer)>>> = Mutex::new(BTreeMap::new());

/// The answer to a problem: as it was computed before, or else as `compute` does.
pub fn remembered(digest: u64, options: &Options, compute: impl FnOnce() -> Answer) -> Answer {
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = lock().get(&digest).cloned();
    if let Some(known) = known
        && known.0 == *options
    {
        return known.1.clone();
    }
    let answer = compute();
    let mut known = lock();
    if known.len() == MOST {
        known.clear();
    }
    known.insert(digest, Arc::new((options.clone(), answer.clone())));
    answer
}

/// A digest of tensors, to the last bit, and of how they are computed with.
pub fn digest(tensors: [&Array4<f64>; 3], how: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    how.hash(&mut hasher);
    for x in tensors {
        x.dim().hash(&mut hasher);
        x.iter().for_each(|x| x.to_bits().hash(&mut hasher));
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_that_of_its_tensors_type_and_options() {
        let zeros = Array4::zeros((1, 1, 2, 4));
        let other = zeros.mapv(|x: f64| -x); // equal, but for its bits
        let flat = Array4::zeros((1, 2, 1, 4));
        let of = |first| digest([first, &zeros, &zeros], "f32");
        assert_eq!(of(&zeros), digest([&zeros; 3], "f32"));
        assert_ne!(of(&zeros), of(&other));
        assert_ne!(of(&zeros), of(&flat));
        assert_ne!(of(&zeros), digest([&zeros; 3], "f16"));

        let answer = |o: f64| (Array4::from_elem((1, 1, 2, 4), o), Array3::zeros((1, 1, 2)));
        let (plain, causal) = (Options::default(), Options::default().causal());
        let unique = of(&zeros);
        assert_eq!(remembered(unique, &plain, || answer(1.0)), answer(1.0));
        assert_eq!(remembered(unique, &plain, || answer(2.0)), answer(1.0));
        assert_eq!(remembered(unique, &causal, || answer(3.0)), answer(3.0));
    }
}
