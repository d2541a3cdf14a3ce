// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs locked by a helper that traces them, where enforcement refuses tracers.

use anyhow::{Result, ensure};

use crate::site::{Site, text, touchmark};
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] =
    &[trial("needs_to_be_named_where_tracers_are_refused", &[], needs_to_be_named_where_tracers_are_refused)];

fn needs_to_be_named_where_tracers_are_refused() -> Result<()> {
    let (site, program) = Site::with_running_program()?;
    let locked = || touchmark(["memlock", "run", "--", text(&program)]);
    let refused = locked()?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(refused.status.code() == Some(3) && said.contains("--debugger"), "expected the way out, found {said}");
    let own = crate::sh::succeed(["sh", "-c", "command -v touchmark"])?;
    site.enforce(&["--debugger", own.trim()])?;
    let allowed = locked()?;
    let said = String::from_utf8_lossy(&allowed.stderr).into_owned();
    ensure!(allowed.status.success(), "expected the exception to count, found {said}");
    Ok(())
}
