// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What decodes is what was encoded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchmark_sign::statement::Statement;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(statement) = Statement::decode(bytes) {
        assert_eq!(statement.encode(), bytes);
    }
});
