//! Rotary frequencies, with every scaling of them that Llama 3, Mistral and Qwen2 use, as
//! transformers computes them.

use std::f64::consts::PI;

use super::keys::Keys;
use crate::Error;
use crate::architecture::{LARGEST, Rope};

/// Reads `rope_theta` and `rope_scaling`, or `rope_parameters`, which newer versions of
/// transformers write for both.
///
/// The share of a head that is rotated, `partial_rotary_factor`, stands beside them or in them.
/// Only 1 is supported. It has to be there unless it is 1 by default: `whole`.
pub(super) fn read(
    keys: &mut Keys,
    head_dim: usize,
    context: usize,
    whole: bool,
) -> Result<Rope, Error> {
    let whole = rotates_all(keys)? || whole;
    let base = keys.positive("rope_theta")?;
    let scaling = keys.object("rope_scaling")?;
    let parameters = keys.object("rope_parameters")?;
    if scaling.is_some() && parameters.is_some() {
        return Err(keys.wrong(
            "rope_parameters",
            "there",
            "only one of it and rope_scaling",
        ));
    }
    let mut scaling = parameters.or(scaling);
    let in_them = scaling.as_mut().map_or(Ok(false), rotates_all)?;
    if !(whole || in_them) {
        return Err(keys.missing("partial_rotary_factor"));
    }
    let Some(mut scaling) = scaling else {
        return Ok(Rope::plain(base.unwrap_or(10_000.0), head_dim));
    };
    let base = scaling.positive("rope_theta")?.or(base).unwrap_or(10_000.0);
    let (kind, old_name) = (scaling.text("rope_type")?, scaling.text("type")?);
    if let (Some(kind), Some(old_name)) = (&kind, &old_name)
        && kind != old_name
    {
        return Err(scaling.wrong("type", old_name, &format!("as rope_type, {kind}")));
    }
    let kind = kind.or(old_name).unwrap_or_else(|| "default".to_owned());
    let rope = match kind.as_str() {
        "default" => Rope::plain(base, head_dim),
        "linear" => {
            let factor = factor(&mut scaling)?;
            let mut rope = Rope::plain(base, head_dim);
            for frequency in &mut rope.inverse_frequencies {
                *frequency /= factor as f32;
            }
            rope
        }
        // It differs from no scaling beyond max_position_embeddings only, which
        // is this crate's context.
        "dynamic" => {
            factor(&mut scaling)?;
            scaling.optional_size("original_max_position_embeddings", LARGEST)?;
            Rope::plain(base, head_dim)
        }
        "llama3" => llama3(&mut scaling, Rope::plain(base, head_dim))?,
        "yarn" => yarn(&mut scaling, base, head_dim, context)?,
        _ => {
            return Err(scaling.wrong(
                "rope_type",
                kind,
                "default, linear, dynamic, llama3 or yarn",
            ));
        }
    };
    scaling.finish(&[])?;
    Ok(rope)
}

/// True if the keys say that heads are rotated as a whole, false if they say nothing.
fn rotates_all(keys: &mut Keys) -> Result<bool, Error> {
    match keys.positive("partial_rotary_factor")? {
        None => Ok(false),
        Some(1.0) => Ok(true),
        Some(part) => Err(keys.wrong("partial_rotary_factor", part, "1")),
    }
}

fn factor(scaling: &mut Keys) -> Result<f64, Error> {
    match scaling.positive("factor")? {
        Some(factor) if factor >= 1.0 => Ok(factor),
        Some(factor) => Err(scaling.wrong("factor", factor, "at least 1")),
        None => Err(scaling.missing("factor")),
    }
}

/// Slow frequencies are divided by the factor, fast ones stay, and those between are blended.
fn llama3(scaling: &mut Keys, plain: Rope) -> Result<Rope, Error> {
    let factor = factor(scaling)?;
    let mut required = |key| match scaling.positive(key)? {
        Some(value) => Ok(value),
        None => Err(scaling.missing(key)),
    };
    let low = required("low_freq_factor")?;
    let high = required("high_freq_factor")?;
    let original = required("original_max_position_embeddings")?;
    if high <= low {
        return Err(scaling.wrong(
            "high_freq_factor",
            high,
            &format!("above low_freq_factor = {low}"),
        ));
    }
    let scaled = |frequency: f32| {
        let turns = original * f64::from(frequency) / (2.0 * PI);
        if turns > high {
            frequency
        } else if turns < low {
            frequency / factor as f32
        } else {
            let smooth = (turns - low) / (high - low);
            let frequency = f64::from(frequency);
            ((1.0 - smooth) * frequency / factor + smooth * frequency) as f32
        }
    };
    Ok(Rope {
        inverse_frequencies: plain.inverse_frequencies.into_iter().map(scaled).collect(),
        ..plain
    })
}

/// YaRN: a linear ramp over the pairs, from those that turn `beta_fast` times in the original
/// context, which stay, to those that turn `beta_slow` times, which are divided by the factor;
/// attention is sharpened. transformers 4.57 takes `max_position_embeddings` over the original
/// context in the place of `factor`; transformers 5 takes `factor`, as here.
fn yarn(scaling: &mut Keys, base: f64, head_dim: usize, context: usize) -> Result<Rope, Error> {
    let factor = factor(scaling)?;
    let original = scaling
        .optional_size("original_max_position_embeddings", LARGEST)?
        .unwrap_or(context);
    let fast = scaling.positive("beta_fast")?.unwrap_or(32.0);
    let slow = scaling.positive("beta_slow")?.unwrap_or(1.0);
    let truncate = scaling.flag("truncate", true)?;
    let (mscale, mscale_all) = (
        scaling.positive("mscale")?,
        scaling.positive("mscale_all_dim")?,
    );
    let sharpened = |mscale: f64| {
        if factor <= 1.0 {
            1.0
        } else {
            0.1 * mscale * factor.ln() + 1.0
        }
    };
    let attention_factor = match (scaling.positive("attention_factor")?, mscale, mscale_all) {
        (Some(given), _, _) => given,
        (None, Some(mscale), Some(all)) => sharpened(mscale) / sharpened(all),
        (None, _, _) => sharpened(1.0),
    };
    if base <= 1.0 {
        return Err(scaling.wrong("rope_theta", base, "above 1 with YaRN"));
    }

    let pair_that_turns = |turns: f64| {
        head_dim as f64 * (original as f64 / (turns * 2.0 * PI)).ln() / (2.0 * base.ln())
    };
    let (mut low, mut high) = (pair_that_turns(fast), pair_that_turns(slow));
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    let (low, mut high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
    if low == high {
        high += 0.001; // as transformers does, to divide by
    }
    let blended = |(i, wavelength): (usize, f32)| {
        let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
        let frequency = 1.0 / f64::from(wavelength);
        (frequency / factor * ramp + frequency * (1.0 - ramp)) as f32
    };
    Ok(Rope {
        inverse_frequencies: Rope::wavelengths(base, head_dim)
            .enumerate()
            .map(blended)
            .collect(),
        attention_factor: attention_factor as f32,
    })
}
