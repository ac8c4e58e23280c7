//! The seed of the random problems, as a flag or in a file.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use grade::grade::SEED;

/// Seeds have 40 bits.
const SEEDS: u64 = 1 << 40;

/// The flags.
#[derive(Args)]
#[group(skip)]
pub struct Seed {
    /// Seed of the random problems: a number, or `random`.
    #[arg(long, value_name = "N", default_value_t = SEED, value_parser = parse)]
    seed: u64,

    /// Read the seed from this file, such as /dev/stdin. No report shows it.
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    secret_seed: Option<PathBuf>,
}

impl Seed {
    /// True if no other seed is asked for.
    pub fn is_usual(&self) -> bool {
        self.seed == SEED && self.secret_seed.is_none()
    }

    /// The seed, and true if it is secret.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds no seed. The message does not show what it holds.
    pub fn chosen(&self) -> anyhow::Result<(u64, bool)> {
        let Some(file) = &self.secret_seed else {
            return Ok((self.seed, false));
        };
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let seed = parse(text.trim());
        let seed = seed.map_err(|why| anyhow!("{} holds no seed: {why}", file.display()))?;
        Ok((seed, true))
    }
}

fn parse(text: &str) -> Result<u64, String> {
    if text == "random" {
        // Every `RandomState` has keys of its own, from the operating system.
        return Ok(RandomState::new().hash_one(0) % SEEDS);
    }
    let number = text.parse().ok().filter(|seed| *seed < SEEDS);
    number.ok_or_else(|| format!("it is neither a number below {SEEDS} nor `random`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_number_or_random() {
        assert_eq!(parse("7"), Ok(7));
        assert_ne!(parse("random"), parse("random"));
        assert!(parse("-1").is_err());
        assert!(parse("").is_err());
    }
}
