// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decisions as the kernel reports them through the ring buffer.

use std::cell::RefCell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use libbpf_rs::{RingBuffer, RingBufferBuilder};
use touchmark_sign::digest::Digest;
use zerocopy::FromBytes;

use crate::abi::{Hook, RawEvent, Reason};
use crate::policy::boot_time_ns;
use crate::{EnforceError, pins};

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the wall clock.
    pub time: SystemTime,
    /// The process, in the initial pid namespace.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Its real user id, in the initial user namespace.
    pub uid: u32,
    /// The process's name (`comm`), which it can choose itself.
    pub command: OsString,
    /// The file, as the process sees it; in a chroot or container relative to its root. Only the last component if
    /// [`Event::path_is_name`].
    pub path: PathBuf,
    /// The full path could not be had (too long, or not at this hook).
    pub path_is_name: bool,
    /// The file's device, as major and minor number.
    pub device: (u32, u32),
    /// The file's inode number.
    pub inode: u64,
    /// The file's SHA-256 or fs-verity digest, if it was taken.
    pub digest: Option<Digest>,
    /// The process that was acted on: traced, signalled.
    pub target: Option<u32>,
    /// Which hook asked.
    pub hook: Hook,
    /// How the decision came about.
    pub reason: Reason,
    /// Whether the operation failed; in permissive mode it does not.
    pub blocked: bool,
    /// The kernel's error behind the reason, a negative errno; 0 if there was none.
    pub error: i32,
}

/// Reads the ring buffer. There is one buffer and an event is read once, so one process, the daemon, should read it.
pub struct EventReader {
    ring: RingBuffer<'static>,
    received: Rc<RefCell<Vec<Event>>>,
}

impl EventReader {
    /// Opens the pinned ring buffer.
    ///
    /// # Errors
    /// Enforcement is not running, or there is no permission.
    pub fn open() -> Result<Self, EnforceError> {
        let map = pins::map("events")?;
        let received = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&received);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&map, move |bytes| {
                sink.borrow_mut().extend(decode(bytes));
                0
            })
            .map_err(EnforceError::kernel("open the events"))?;
        let ring = builder.build().map_err(EnforceError::kernel("open the events"))?;
        Ok(Self { ring, received })
    }

    /// Waits for events, at most `timeout`, and returns those that came, oldest first.
    ///
    /// # Errors
    /// The ring buffer cannot be read; an interrupted wait is no error.
    pub fn read(&mut self, timeout: Duration) -> Result<Vec<Event>, EnforceError> {
        match self.ring.poll(timeout) {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => {}
            other => other.map_err(EnforceError::kernel("read the events"))?,
        }
        Ok(self.received.take())
    }
}

/// `None` for what this version cannot read; the size is the kernel's, so only a foreign program could cause that.
fn decode(bytes: &[u8]) -> Option<Event> {
    let raw = RawEvent::read_from_prefix(bytes).ok()?.0;
    let length = usize::try_from(raw.path_len).ok()?.min(raw.path.len());
    Some(Event {
        time: wall_clock(raw.time_ns),
        pid: raw.pid,
        parent: raw.parent,
        uid: raw.uid,
        command: until_nul(&raw.comm),
        path: until_nul(&raw.path[..length]).into(),
        path_is_name: raw.path_is_name != 0,
        device: (raw.device >> 20, raw.device & 0xf_ffff),
        inode: raw.inode,
        digest: (raw.has_digest != 0).then(|| Digest::from(raw.digest)),
        target: (raw.target != 0).then_some(raw.target),
        hook: Hook::from_number(raw.hook)?,
        reason: Reason::from_number(raw.reason)?,
        blocked: raw.blocked != 0,
        error: raw.error,
    })
}

fn until_nul(bytes: &[u8]) -> OsString {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    OsString::from_vec(bytes[..end].to_vec())
}

fn wall_clock(boot_ns: u64) -> SystemTime {
    SystemTime::now() - Duration::from_nanos(boot_time_ns().saturating_sub(boot_ns))
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;

    fn raw() -> RawEvent {
        let mut raw = RawEvent::new_zeroed();
        raw.time_ns = boot_time_ns();
        raw.device = 8 << 20 | 1;
        raw.hook = Hook::Exec as u8;
        raw.reason = Reason::Unsigned as u8;
        raw.path[..7].copy_from_slice(b"/a/\xff b\0");
        raw.path_len = 6;
        raw
    }

    #[test]
    fn an_event_decodes_with_any_bytes_in_its_path() {
        let event = decode(raw().as_bytes()).expect("complete");
        assert_eq!(event.path, PathBuf::from(OsString::from_vec(b"/a/\xff b".to_vec())));
        assert_eq!(event.device, (8, 1));
        assert_eq!(event.digest, None);
        assert!(event.time.elapsed().expect("not in the future") < Duration::from_secs(5));
    }

    #[test]
    fn what_cannot_be_read_is_dropped() {
        assert_eq!(decode(&raw().as_bytes()[1..]), None);
        let mut unknown = raw();
        unknown.reason = 200;
        assert_eq!(decode(unknown.as_bytes()), None);
        let mut lying = raw();
        lying.path_len = u32::MAX;
        assert!(decode(lying.as_bytes()).is_some());
    }
}
