// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Medians with their spread, and ratios of runs that stood side by side.

use serde::Serialize;

/// Sorted values of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let (low, high) = (at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2));
        Self { median: f64::midpoint(low, high), least: at(0), most: at(sorted.len().saturating_sub(1)) }
    }

    /// Of the ratios of pairs: how many times as long `others` took as `ours`.
    pub(crate) fn of_ratios(others: &[f64], ours: &[f64]) -> Self {
        let ratios: Vec<_> = others.iter().zip(ours).map(|(other, own)| other / own).collect();
        Self::of(&ratios)
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.median, self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert!((Spread::of(&[1.0, 2.0]).median - 1.5).abs() < f64::EPSILON);
        assert!((Spread::of_ratios(&[2.0, 9.0, 4.0], &[1.0, 3.0, 1.0]).median - 3.0).abs() < f64::EPSILON);
    }
}
