// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mappings drawn in a terminal: S1's figures 1 (which mappings there are) and 2 (how a lock splits them).
//!
//! A row an area: what one file, or one kind of memory, has mapped side by side. Widths follow the logarithm of the
//! sizes, else a small locked page beside a heap would not be seen.

use crate::mapping::{Lock, Mapping};
use crate::summary::size;

/// What the signs mean.
pub const LEGEND: &str =
    "█ locked, in memory  ▒ locked, not in memory  ░ in memory only  · neither  - no access  ┊ split by the lock alone";

/// Columns for the names.
const NAME: usize = 30;
/// The fewest columns a picture makes sense in.
const NARROWEST: usize = 60;

/// Draws the mappings, in at most `columns` columns a line.
#[must_use]
pub fn draw(mappings: &[Mapping], columns: usize) -> Vec<String> {
    let bar = columns.max(NARROWEST) - NAME - 13;
    areas(mappings).into_iter().map(|area| row(area, bar)).collect()
}

/// Cuts the list where the next mapping does not follow, or has another name.
fn areas(mappings: &[Mapping]) -> Vec<&[Mapping]> {
    let together = |one: &Mapping, next: &Mapping| one.end == next.start && one.name == next.name;
    mappings.chunk_by(together).collect()
}

fn row(area: &[Mapping], width: usize) -> String {
    let total: u64 = area.iter().map(Mapping::size).sum();
    let name = area.first().map_or("", |first| first.name.as_str());
    let name = if name.is_empty() { "(anonymous)" } else { name };
    let mut text = format!("{} {:>9} │", fit(name), size(total));
    let mut left = width;
    for (index, mapping) in area.iter().enumerate() {
        if left < 2 {
            text.push('…');
            break;
        }
        let cells = cells(mapping.size()).min(left - 1);
        left -= cells + 1;
        text.extend(fill(mapping, cells));
        let split = area.get(index + 1).is_some_and(|next| mapping.is_split_from(next));
        text.push(if split { '┊' } else { '│' });
    }
    text
}

/// One cell for a page, one more for each factor of four.
fn cells(bytes: u64) -> usize {
    1 + (bytes / 4096).checked_ilog2().unwrap_or(0) as usize / 2
}

/// The signs of a mapping: what is in memory first, at least one sign of each that there is.
fn fill(mapping: &Mapping, cells: usize) -> impl Iterator<Item = char> {
    let (full, empty) = match mapping.lock {
        _ if mapping.is_reserve() => ('-', '-'),
        Lock::None => ('░', '·'),
        Lock::Whole | Lock::OnFault => ('█', '▒'),
    };
    let share = u128::from(mapping.resident) * cells as u128 / u128::from(mapping.size().max(1));
    let mut filled = usize::try_from(share).unwrap_or(cells).min(cells);
    if filled == 0 && mapping.resident > 0 {
        filled = 1;
    } else if filled == cells && mapping.resident < mapping.size() && cells > 1 {
        filled = cells - 1;
    }
    std::iter::repeat_n(full, filled).chain(std::iter::repeat_n(empty, cells - filled))
}

/// A name in exactly [`NAME`] columns; of a long one the end, which tells more. No control character gets through.
fn fit(name: &str) -> String {
    let clean: Vec<char> = name.chars().map(|sign| if sign.is_control() { '?' } else { sign }).collect();
    if clean.len() <= NAME {
        return format!("{:<NAME$}", clean.iter().collect::<String>());
    }
    let end: String = clean[clean.len() - (NAME - 1)..].iter().collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(pages: std::ops::Range<u64>, lock: Lock, resident: u64) -> Mapping {
        Mapping {
            start: pages.start * 4096,
            end: pages.end * 4096,
            permissions: "rw-p".to_owned(),
            offset: 0,
            name: "[heap]".to_owned(),
            lock,
            resident: resident * 4096,
            huge: 0,
            swapped: 0,
            guarded: false,
            special: false,
        }
    }

    #[test]
    fn a_lock_in_the_middle_splits_a_mapping_in_three() {
        let rows =
            draw(&[mapping(0..16, Lock::None, 4), mapping(16..17, Lock::Whole, 1), mapping(17..33, Lock::None, 0)], 80);
        assert_eq!(rows, [format!("{:<30} {:>9} │░··┊█┊···│", "[heap]", "132 KiB")]);
    }

    #[test]
    fn a_boundary_that_protection_makes_is_another() {
        let mut guard = mapping(4..5, Lock::OnFault, 0);
        guard.permissions = "---p".to_owned();
        let rows = draw(&[mapping(0..4, Lock::OnFault, 1), guard], 80);
        assert!(rows[0].ends_with("│█▒│-│"), "{rows:?}");
    }

    #[test]
    fn rows_stay_within_the_width() {
        let many: Vec<_> = (0..500).map(|n| mapping(n..n + 1, Lock::None, 0)).collect();
        let rows = draw(&many, 80);
        assert_eq!(rows.len(), 1);
        assert!(rows[0].chars().count() <= 80 && rows[0].ends_with('…'), "{rows:?}");
        let mut odd = mapping(0..1, Lock::None, 0);
        odd.name = "/a\x1b[2J/with/a/very/long/name/that/goes/on.so".to_owned();
        assert!(!draw(&[odd], 10)[0].contains('\x1b'));
    }
}
