//! Number of stories that a grammar can write, and their entropy.

use crate::grammar::{Alternative, Grammar, Item};

impl Grammar {
    /// A lower bound of the number of different stories, `u128::MAX` if it is more.
    ///
    /// Every way through the rules counts once, times the rows of those slots whose first column
    /// (which tells its rows apart) is written in every story. Slots that only some stories mention
    /// are left out. Exact as far as no two ways write the same text; a test parses stories to see
    /// that their sentences have one way each.
    pub fn stories_at_least(&self) -> u128 {
        let ways = self.ways(self.start);
        let told = self.always_told(self.start);
        let rows = self
            .slots
            .iter()
            .zip(told)
            .filter(|(_, told)| *told)
            .map(|(slot, _)| slot.rows.len() as u128);
        rows.fold(ways, u128::saturating_mul)
    }

    /// The entropy of one story in nats: the loss, summed over a story's tokens, that no
    /// model can beat on average.
    ///
    /// Exact under the same condition, if every story tells every slot.
    pub fn entropy(&self) -> f64 {
        self.slots
            .iter()
            .map(|slot| (slot.rows.len() as f64).ln())
            .sum::<f64>()
            + self.entropy_of(self.start)
    }

    /// Entropy of the draws below `rule`, in nats.
    fn entropy_of(&self, rule: usize) -> f64 {
        let alternatives = &self.rules[rule].alternatives;
        let total: usize = alternatives
            .iter()
            .map(|alternative| alternative.weight)
            .sum();
        let of_item = |item: &Item| match item {
            Item::Rule { rule, .. } => self.entropy_of(*rule),
            Item::Text(_) | Item::Slot { .. } | Item::Paragraph => 0.0,
        };
        let of_alternative = |alternative: &Alternative| {
            let probability = alternative.weight as f64 / total as f64;
            probability * (alternative.items.iter().map(of_item).sum::<f64>() - probability.ln())
        };
        alternatives.iter().map(of_alternative).sum()
    }

    /// Ways through `rule`, with the slots' rows fixed.
    fn ways(&self, rule: usize) -> u128 {
        let of_item = |item: &Item| match item {
            Item::Rule { rule, .. } => self.ways(*rule),
            Item::Text(_) | Item::Slot { .. } | Item::Paragraph => 1,
        };
        let alternatives = self.rules[rule].alternatives.iter();
        alternatives
            .map(|alternative| {
                alternative
                    .items
                    .iter()
                    .map(of_item)
                    .fold(1, u128::saturating_mul)
            })
            .fold(0, u128::saturating_add)
    }

    /// For each slot: is its first column in everything that `rule` writes?
    fn always_told(&self, rule: usize) -> Vec<bool> {
        let mut always = vec![true; self.slots.len()];
        for alternative in &self.rules[rule].alternatives {
            let mut told = vec![false; self.slots.len()];
            for item in &alternative.items {
                match item {
                    Item::Slot {
                        slot, column: 0, ..
                    } => told[*slot] = true,
                    Item::Rule { rule, .. } => {
                        for (told, inner) in told.iter_mut().zip(self.always_told(*rule)) {
                            *told |= inner;
                        }
                    }
                    Item::Slot { .. } | Item::Text(_) | Item::Paragraph => {}
                }
            }
            for (always, told) in always.iter_mut().zip(told) {
                *always &= told;
            }
        }
        always
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_ways_and_the_slots_of_every_story() {
        let grammar = Grammar::from_text(
            "slot a: name x\n  1 | z\n  2 | z\n  3 | z\nslot b: name\n  4\n  5\npassage story\n  s s\n  t\nsentence s\n  $a {p} $b.\n  $a.\nsentence t\n  {p} $a.\nphrase p\n  i\n  j\n",
        )
        .unwrap();
        // s: 2 + 1 ways; story: 3 · 3 + 2; times the three rows of `a`; `b` is not in every story.
        assert_eq!(grammar.stories_at_least(), 11 * 3);
    }

    #[test]
    fn entropy_sums_the_draws() {
        let grammar = Grammar::from_text(
            "slot a: name\n  1\n  2\npassage story\n  [3] s s\n  t\nsentence s\n  $a {p}.\nsentence t\n  $a.\nphrase p\n  i\n  j\n",
        )
        .unwrap();
        let bits = |p: f64| -p * p.log2();
        let expected = 1.0 + bits(0.75) + bits(0.25) + 0.75 * 2.0;
        approx::assert_abs_diff_eq!(
            grammar.entropy() / std::f64::consts::LN_2,
            expected,
            epsilon = 1e-12
        );
    }

    #[test]
    fn there_are_more_than_a_million_million_stories() {
        let count = Grammar::storyteller().stories_at_least();
        assert!(count >= 10_u128.pow(12), "{count}");
    }
}
