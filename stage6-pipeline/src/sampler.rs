//! From logits to the next token: greedy, temperature, top-k, top-p, min-p, repetition penalty.

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use crate::Error;

/// Rule by which the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Divides the logits: below 1 the likely tokens gain, above 1 the unlikely. 0 takes
    /// the likeliest token always.
    pub temperature: f32,
    /// Keeps only the `k` likeliest tokens.
    pub top_k: Option<usize>,
    /// Keeps only the smallest set of likeliest tokens whose probabilities sum to at least `p`, of
    /// those that `top_k` has left. Between 0, excluded, and 1.
    pub top_p: Option<f32>,
    /// Keeps only tokens that have at least `min_p` times the probability of the
    /// likeliest. Between 0 and 1.
    pub min_p: Option<f32>,
    /// Divides the positive logits of tokens that the sequence has already by this number, and
    /// multiplies the negative ones [Keskar et al. 2019, CTRL]. 1 changes nothing.
    pub repetition_penalty: Option<f32>,
}

impl Sampling {
    /// Always the likeliest token.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: None,
        top_p: None,
        min_p: None,
        repetition_penalty: None,
    };

    /// True if the next token is that of the largest logit: the host need not see the logits.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && self.repetition_penalty.is_none()
    }

    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for a temperature that is negative, infinite or NaN, a `top_k`
    /// of 0, a `top_p` outside (0, 1], a `min_p` outside [0, 1], a repetition penalty that
    /// is not a number above 0.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |setting, found: String, expected| {
            Err(Error::Setting {
                setting,
                found,
                expected,
            })
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return wrong(
                "temperature",
                self.temperature.to_string(),
                "a number of at least 0",
            );
        }
        if self.top_k == Some(0) {
            return wrong("top-k", "0".to_owned(), "at least 1");
        }
        if let Some(p) = self.top_p
            && !(p > 0.0 && p <= 1.0)
        {
            return wrong("top-p", p.to_string(), "above 0 and at most 1");
        }
        if let Some(p) = self.min_p
            && !(0.0..=1.0).contains(&p)
        {
            return wrong("min-p", p.to_string(), "0 to 1");
        }
        match self.repetition_penalty {
            Some(penalty) if !(penalty > 0.0 && penalty.is_finite()) => wrong(
                "repetition-penalty",
                penalty.to_string(),
                "a number above 0",
            ),
            _ => Ok(()),
        }
    }

    /// Applies the repetition penalty to the logits of tokens that are in `history`, once to each.
    pub fn penalise(&self, logits: &mut [f32], history: &[u32]) {
        let Some(penalty) = self.repetition_penalty else {
            return;
        };
        let mut tokens = history.to_vec();
        tokens.sort_unstable();
        tokens.dedup();
        for token in tokens {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = if *logit > 0.0 {
                    *logit / penalty
                } else {
                    *logit * penalty
                };
            }
        }
    }

    /// The tokens that may come next, likeliest first, with their probabilities, which sum to 1.
    ///
    /// Of tokens with equal logits the smaller id comes first, so that the result is the same
    /// everywhere. The order of the steps is temperature, top-k, top-p, min-p, each on the
    /// probabilities that the one before has left; transformers has the same. The repetition
    /// penalty is not among them: see [`Sampling::penalise`].
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] as [`Sampling::validate`] does; [`Error::Logit`] if a logit is NaN or
    /// positive infinity, or all are negative infinity (or there is none).
    pub fn distribution(&self, logits: &[f32]) -> Result<Vec<(u32, f64)>, Error> {
        self.validate()?;
        check(logits)?;

        let mut order: Vec<u32> = (0_u32..).take(logits.len()).collect();
        let descending = |&a: &u32, &b: &u32| {
            let descending = logits[b as usize].total_cmp(&logits[a as usize]);
            descending.then(a.cmp(&b))
        };
        let kept = match self.top_k {
            _ if self.temperature == 0.0 => 1,
            Some(k) => k.min(order.len()),
            None => order.len(),
        };
        if kept < order.len() {
            order.select_nth_unstable_by(kept, descending);
            order.truncate(kept);
        }
        order.sort_unstable_by(descending);
        if self.temperature == 0.0 {
            return Ok(vec![(order[0], 1.0)]);
        }

        // The largest logit is subtracted before the division, so that no
        // temperature can overflow exp.
        let largest = f64::from(logits[order[0] as usize]);
        let weight = |&id: &u32| {
            let below_largest = f64::from(logits[id as usize]) - largest;
            (id, (below_largest / f64::from(self.temperature)).exp())
        };
        let mut kept: Vec<(u32, f64)> = order.iter().map(weight).collect();
        normalise(&mut kept);

        if let Some(p) = self.top_p {
            let mut sum = 0.0;
            let below = kept.iter().take_while(|(_, probability)| {
                sum += probability;
                sum < f64::from(p)
            });
            let nucleus = below.count() + 1;
            kept.truncate(nucleus);
            normalise(&mut kept);
        }
        if let (Some(p), Some(&(_, largest))) = (self.min_p, kept.first()) {
            kept.retain(|(_, probability)| *probability >= f64::from(p) * largest);
            normalise(&mut kept);
        }
        Ok(kept)
    }
}

/// Draws tokens. The generator is ChaCha with 12 rounds, seeded by `seed_from_u64`: the same seed
/// gives the same draws on every machine.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: ChaCha12Rng,
}

impl Sampler {
    /// A sampler at the start of the sequence that `seed` names.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] as [`Sampling::validate`] does.
    pub fn new(sampling: Sampling, seed: u64) -> Result<Self, Error> {
        sampling.validate()?;
        Ok(Self {
            sampling,
            random: ChaCha12Rng::seed_from_u64(seed),
        })
    }

    /// The rule by which tokens are chosen.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Draws the next token of a sequence that has the tokens `history` from its logits (`[V]`),
    /// which the repetition penalty changes. Takes one number from the generator, greedy or not.
    ///
    /// # Errors
    ///
    /// [`Error::Logit`] as [`Sampling::distribution`] does.
    pub fn sample(&mut self, logits: &mut [f32], history: &[u32]) -> Result<u32, Error> {
        self.sampling.penalise(logits, history);
        let distribution = self.sampling.distribution(logits)?;
        Ok(pick(&distribution, self.uniform()))
    }

    /// A number from [0, 1) in steps of 2^-53.
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The token at which the running sum of probabilities passes `u`. The last one, if rounding keeps
/// the whole sum from passing it.
fn pick(distribution: &[(u32, f64)], u: f64) -> u32 {
    let mut sum = 0.0;
    let passes = |(_, probability): &&(u32, f64)| {
        sum += probability;
        u < sum
    };
    let chosen = distribution.iter().find(passes).or(distribution.last());
    chosen.map_or(0, |&(id, _)| id)
}

fn normalise(weights: &mut [(u32, f64)]) {
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    for (_, weight) in weights {
        *weight /= sum;
    }
}

fn check(logits: &[f32]) -> Result<(), Error> {
    match unusable(logits) {
        Some((token, found)) => Err(Error::Logit { token, found }),
        None => Ok(()),
    }
}

/// The first logit, and its token, for which no token can be chosen: NaN or positive infinity, or
/// negative infinity if all are (or there is none).
pub(crate) fn unusable(logits: &[f32]) -> Option<(usize, f32)> {
    let bad = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
    if let Some(token) = logits.iter().position(bad) {
        return Some((token, logits[token]));
    }
    let none = logits.iter().all(|&logit| logit == f32::NEG_INFINITY);
    none.then_some((0, f32::NEG_INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Sampling = Sampling {
        temperature: 1.0,
        ..Sampling::GREEDY
    };

    /// Logits of the probabilities 1/2, 1/4, 1/8, 1/8, not in order.
    fn halves() -> [f32; 4] {
        [0.125_f32.ln(), 0.5_f32.ln(), 0.125_f32.ln(), 0.25_f32.ln()]
    }

    #[track_caller]
    fn assert_distribution(found: &[(u32, f64)], expected: &[(u32, f64)]) {
        let ids = |d: &[(u32, f64)]| d.iter().map(|&(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids(found), ids(expected));
        for ((_, found), (_, expected)) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
        }
    }

    #[rstest::rstest]
    #[case::plain(PLAIN, &[(1, 0.5), (3, 0.25), (0, 0.125), (2, 0.125)])]
    // The square root of each probability: 4 : 2.83 : 2 : 2 after scaling, by 10.83.
    #[case::hot(Sampling { temperature: 2.0, ..PLAIN }, &[(1, 0.369398), (3, 0.261204), (0, 0.184699), (2, 0.184699)])]
    // The square of each: 16 : 4 : 1 : 1.
    #[case::cold(Sampling { temperature: 0.5, ..PLAIN }, &[(1, 16. / 22.), (3, 4. / 22.), (0, 1. / 22.), (2, 1. / 22.)])]
    #[case::greedy(Sampling::GREEDY, &[(1, 1.0)])]
    #[case::top_2(Sampling { top_k: Some(2), ..PLAIN }, &[(1, 2. / 3.), (3, 1. / 3.)])]
    #[case::top_3_cuts_a_tie_by_id(Sampling { top_k: Some(3), ..PLAIN }, &[(1, 4. / 7.), (3, 2. / 7.), (0, 1. / 7.)])]
    #[case::top_k_above_v(Sampling { top_k: Some(99), ..PLAIN }, &[(1, 0.5), (3, 0.25), (0, 0.125), (2, 0.125)])]
    #[case::top_p_within_first(Sampling { top_p: Some(0.4), ..PLAIN }, &[(1, 1.0)])]
    #[case::top_p_into_second(Sampling { top_p: Some(0.6), ..PLAIN }, &[(1, 2. / 3.), (3, 1. / 3.)])]
    #[case::top_p_tiny(Sampling { top_p: Some(1e-30), ..PLAIN }, &[(1, 1.0)])]
    #[case::top_p_all(Sampling { top_p: Some(1.0), ..PLAIN }, &[(1, 0.5), (3, 0.25), (0, 0.125), (2, 0.125)])]
    // top-k leaves 2/3 and 1/3, and 2/3 alone reaches 0.6.
    #[case::top_p_after_top_k(Sampling { top_k: Some(2), top_p: Some(0.6), ..PLAIN }, &[(1, 1.0)])]
    // At temperature 1/2 the first token has 16/22 and reaches 0.7 alone, as it does not at 1.
    #[case::top_p_after_temperature(Sampling { temperature: 0.5, top_p: Some(0.7), ..PLAIN }, &[(1, 1.0)])]
    // 1/8 is less than 0.3 of 1/2, 1/4 is not.
    #[case::min_p(Sampling { min_p: Some(0.3), ..PLAIN }, &[(1, 2. / 3.), (3, 1. / 3.)])]
    #[case::min_p_none(Sampling { min_p: Some(0.0), ..PLAIN }, &[(1, 0.5), (3, 0.25), (0, 0.125), (2, 0.125)])]
    #[case::min_p_one(Sampling { min_p: Some(1.0), ..PLAIN }, &[(1, 1.0)])]
    // At temperature 1/2 the second token has 4/16 of the first one's probability.
    #[case::min_p_after_temperature(Sampling { temperature: 0.5, min_p: Some(0.3), ..PLAIN }, &[(1, 1.0)])]
    fn distributions(#[case] sampling: Sampling, #[case] expected: &[(u32, f64)]) {
        assert_distribution(&sampling.distribution(&halves()).unwrap(), expected);
    }

    #[test]
    fn extreme_logits_and_temperatures_stay_finite() {
        let logits = [1e4, -1e4, f32::NEG_INFINITY, 1e4];
        assert_distribution(
            &PLAIN.distribution(&logits).unwrap(),
            &[(0, 0.5), (3, 0.5), (1, 0.0), (2, 0.0)],
        );
        let cold = Sampling {
            temperature: f32::MIN_POSITIVE,
            ..PLAIN
        };
        assert_distribution(
            &cold.distribution(&[3.0, 2.0, 3.5]).unwrap(),
            &[(2, 1.0), (0, 0.0), (1, 0.0)],
        );
    }

    #[rstest::rstest]
    #[case::nan(&[0.0, f32::NAN], 1)]
    #[case::infinity(&[f32::INFINITY, 0.0], 0)]
    #[case::nothing_left(&[f32::NEG_INFINITY, f32::NEG_INFINITY], 0)]
    #[case::empty(&[], 0)]
    fn refuses_logits(#[case] logits: &[f32], #[case] at: usize) {
        for sampling in [PLAIN, Sampling::GREEDY] {
            let error = sampling.distribution(logits).unwrap_err();
            assert!(
                matches!(error, Error::Logit { token, .. } if token == at),
                "{error:?}"
            );
        }
    }

    #[rstest::rstest]
    #[case(Sampling { temperature: -0.1, ..PLAIN }, "temperature")]
    #[case(Sampling { temperature: f32::NAN, ..PLAIN }, "temperature")]
    #[case(Sampling { temperature: f32::INFINITY, ..PLAIN }, "temperature")]
    #[case(Sampling { top_k: Some(0), ..PLAIN }, "top-k")]
    #[case(Sampling { top_p: Some(0.0), ..PLAIN }, "top-p")]
    #[case(Sampling { top_p: Some(1.1), ..PLAIN }, "top-p")]
    #[case(Sampling { top_p: Some(f32::NAN), ..PLAIN }, "top-p")]
    #[case(Sampling { min_p: Some(-0.1), ..PLAIN }, "min-p")]
    #[case(Sampling { min_p: Some(1.1), ..PLAIN }, "min-p")]
    #[case(Sampling { min_p: Some(f32::NAN), ..PLAIN }, "min-p")]
    #[case(Sampling { repetition_penalty: Some(0.0), ..PLAIN }, "repetition-penalty")]
    #[case(Sampling { repetition_penalty: Some(f32::INFINITY), ..PLAIN }, "repetition-penalty")]
    #[case(Sampling { repetition_penalty: Some(f32::NAN), ..PLAIN }, "repetition-penalty")]
    fn refuses_settings(#[case] sampling: Sampling, #[case] name: &str) {
        let error = Sampler::new(sampling, 0).unwrap_err();
        assert!(
            matches!(error, Error::Setting { setting, .. } if setting == name),
            "{error:?}"
        );
    }

    /// Each token once, however often it was there; both signs lose.
    #[test]
    fn a_penalty_is_for_tokens_of_the_past() {
        let sampling = Sampling {
            repetition_penalty: Some(2.0),
            ..PLAIN
        };
        let mut logits = [4.0, -4.0, 3.0, 0.0, -1.0];
        sampling.penalise(&mut logits, &[0, 1, 0, 3, 99]);
        assert_eq!(logits, [2.0, -8.0, 3.0, 0.0, -1.0]);
        PLAIN.penalise(&mut logits, &[2]);
        assert_eq!(logits, [2.0, -8.0, 3.0, 0.0, -1.0]);
        let mut greedy = Sampler::new(
            Sampling {
                temperature: 0.0,
                ..sampling
            },
            0,
        )
        .unwrap();
        assert_eq!(greedy.sample(&mut [5.0, 3.0], &[0]).unwrap(), 1);
    }

    #[test]
    fn a_draw_falls_where_the_running_sum_passes_it() {
        let distribution = [(7, 0.5), (2, 0.25), (9, 0.25)];
        let draws = [0.0, 0.499, 0.5, 0.749, 0.75, 1.0 - 1e-16, 1.0];
        assert_eq!(draws.map(|u| pick(&distribution, u)), [7, 7, 2, 2, 9, 9, 9]);
    }

    /// The draws are part of the interface: a story must come again from its
    /// seed in a later version.
    #[test]
    fn the_generator_is_pinned() {
        let mut sampler = Sampler::new(PLAIN, 42).unwrap();
        let draws: Vec<u32> = (0..12)
            .map(|_| sampler.sample(&mut halves(), &[]).unwrap())
            .collect();
        assert_eq!(draws, [3, 3, 3, 1, 1, 1, 3, 0, 1, 1, 2, 3]);
    }

    #[test]
    fn frequencies_follow_the_distribution() {
        let mut sampler = Sampler::new(PLAIN, 1).unwrap();
        let mut counts = [0_u32; 4];
        for _ in 0..8000 {
            counts[sampler.sample(&mut halves(), &[]).unwrap() as usize] += 1;
        }
        // Four standard deviations of a binomial count are at most 179 here.
        for (count, expected) in counts.into_iter().zip([1000, 4000, 1000, 2000_u32]) {
            assert!(count.abs_diff(expected) < 179, "{counts:?}");
        }
    }
}
