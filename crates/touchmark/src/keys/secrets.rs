// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where keys and passphrases lie while a command works with them.

use touchmark_sys::secret::{Policy, protect_process};

/// The memory for secrets, as the user wants it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SecretArgs {
    /// Memory for keys and passphrases: `hidden` even from the kernel (no hibernation meanwhile), `locked` in RAM, or
    /// `unlocked` where no memory can be locked; `auto` takes `hidden` where it does no harm, else `locked`
    #[arg(long, value_name = "KIND", default_value_t, hide_short_help = true)]
    secret_memory: Policy,
}

impl SecretArgs {
    /// To be called before the first secret is read.
    pub(crate) fn protect(&self) {
        self.secret_memory.enter_into_force();
        // What cannot be had is not needed for the secrets themselves, only for the copies that libraries make.
        let _ = protect_process();
    }
}
