// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The blocks of a PEM text (RFC 7468). What stands before, between and behind them is passed over, as openssl does.

const BEGIN: &[u8] = b"-----BEGIN ";
const DASHES: &[u8] = b"-----";
/// Longer than any label in use; bounds the search in hostile text.
const MAX_LABEL: usize = 64;

/// One block.
pub(crate) struct Block<'t> {
    /// Such as `CERTIFICATE`.
    pub(crate) label: &'t str,
    /// All of it, both boundaries included.
    pub(crate) text: &'t [u8],
}

/// The blocks whose label is wanted, in order. One without an end is an error, and the last item.
pub(crate) fn blocks(pem: &[u8], wanted: fn(&str) -> bool) -> impl Iterator<Item = Result<Block<'_>, String>> {
    let mut rest = pem;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[find(rest, BEGIN)?..];
            let Some(label) = label(&rest[BEGIN.len()..]).filter(|label| wanted(label)) else {
                rest = &rest[BEGIN.len()..];
                continue;
            };
            let end = format!("-----END {label}-----");
            let Some(at) = find(rest, end.as_bytes()) else {
                rest = &[];
                return Some(Err(format!("no `{end}`")));
            };
            let (text, behind) = rest.split_at(at + end.len());
            rest = behind;
            return Some(Ok(Block { label, text }));
        }
    })
}

fn label(behind_begin: &[u8]) -> Option<&str> {
    let near = &behind_begin[..behind_begin.len().min(MAX_LABEL + DASHES.len())];
    let label = std::str::from_utf8(&near[..find(near, DASHES)?]).ok()?;
    (!label.is_empty() && label.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())).then_some(label)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pem: &str) -> Vec<Result<String, String>> {
        blocks(pem.as_bytes(), |label| label != "SKIP").map(|block| block.map(|block| block.label.to_owned())).collect()
    }

    #[test]
    fn text_around_blocks_is_passed_over() {
        let text = "hello\n-----BEGIN A-----\nx\n-----END A-----\nbetween -----BEGIN SKIP-----\n\
                    -----BEGIN B C-----\n-----END B C----- behind";
        assert_eq!(labels(text), [Ok("A".to_owned()), Ok("B C".to_owned())]);
        let block = blocks(text.as_bytes(), |label| label == "A").next().expect("one").expect("whole");
        assert_eq!(block.text, b"-----BEGIN A-----\nx\n-----END A-----");
        assert!(labels("").is_empty() && labels("-----BEGIN ").is_empty() && labels("-----BEGIN A\n-----").is_empty());
    }

    #[test]
    fn a_block_without_end_is_an_error_and_the_last() {
        assert_eq!(
            labels("-----BEGIN A-----\n-----BEGIN B-----\n-----END B-----"),
            [Err("no `-----END A-----`".to_owned())]
        );
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        // Quadratic time would be minutes.
        assert!(labels(&"-----BEGIN ".repeat(100_000)).is_empty());
        assert_eq!(labels(&"-----BEGIN A-----".repeat(50_000)).len(), 1);
    }
}
