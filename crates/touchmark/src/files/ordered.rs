// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work on many items at once, results in the items' order, memory bounded.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// How far the workers may run ahead of the oldest unfinished item. It bounds open files, too.
const WINDOW: u64 = 128;

/// Runs `work` on every item with `jobs` threads and gives each result, in order, to `emit` on this thread.
///
/// `start` makes what one thread keeps between items. An error of `emit` ends the run.
pub(crate) fn run<T, S, R, E>(
    jobs: NonZeroUsize,
    items: impl Iterator<Item = T> + Send,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) -> R + Sync,
    mut emit: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E>
where
    R: Send,
{
    if jobs.get() == 1 {
        let mut kept = start();
        return items.map(|item| work(&mut kept, item)).try_for_each(emit);
    }
    let queue = Queue {
        state: Mutex::new(State {
            items: items.fuse(),
            taken: 0,
            done: BTreeMap::new(),
            emitted: 0,
            working: jobs.get(),
            stop: false,
        }),
        room: Condvar::new(),
        results: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get() {
            scope.spawn(|| {
                let worker = Worker(&queue);
                let mut kept = start();
                while let Some((number, item)) = worker.0.take() {
                    let result = work(&mut kept, item);
                    worker.0.put(number, result);
                }
            });
        }
        // Dropped on every way out, a panic of `emit` included: the workers must not wait for room for ever.
        let _end = End(&queue);
        while let Some(result) = queue.next() {
            emit(result)?;
        }
        Ok(())
    })
}

struct Queue<I, R> {
    state: Mutex<State<I, R>>,
    /// The window moved, or the run ends.
    room: Condvar,
    /// A result came, or a worker ended.
    results: Condvar,
}

struct State<I, R> {
    items: I,
    /// How many items were given out.
    taken: u64,
    done: BTreeMap<u64, R>,
    /// How many results were given on.
    emitted: u64,
    working: usize,
    stop: bool,
}

impl<I: Iterator, R> Queue<I, R> {
    fn take(&self) -> Option<(u64, I::Item)> {
        let mut state = self.lock();
        while !state.stop && state.taken >= state.emitted + WINDOW {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stop {
            return None;
        }
        let item = state.items.next()?;
        let number = state.taken;
        state.taken += 1;
        Some((number, item))
    }

    fn put(&self, number: u64, result: R) {
        let mut state = self.lock();
        state.done.insert(number, result);
        if number == state.emitted {
            self.results.notify_one();
        }
    }

    fn next(&self) -> Option<R> {
        let mut state = self.lock();
        loop {
            let number = state.emitted;
            if let Some(result) = state.done.remove(&number) {
                state.emitted += 1;
                self.room.notify_one();
                return Some(result);
            }
            if state.working == 0 {
                return None;
            }
            state = self.results.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<I, R> Queue<I, R> {
    fn lock(&self) -> MutexGuard<'_, State<I, R>> {
        // A panic of a worker ends the run when the threads are joined; what is left is still in order.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a thread out, however it ends.
struct Worker<'q, I, R>(&'q Queue<I, R>);

impl<I, R> Drop for Worker<'_, I, R> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.working -= 1;
        if thread::panicking() {
            // Its result will never come: nobody must wait for it.
            state.stop = true;
            self.0.room.notify_all();
        }
        self.0.results.notify_one();
    }
}

struct End<'q, I, R>(&'q Queue<I, R>);

impl<I, R> Drop for End<'_, I, R> {
    fn drop(&mut self) {
        self.0.lock().stop = true;
        self.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn jobs(number: usize) -> NonZeroUsize {
        NonZeroUsize::new(number).unwrap()
    }

    #[test]
    fn results_come_in_order_and_the_lead_is_bounded() {
        for threads in [1, 2, 7] {
            let (ahead, emitted) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let work = |sum: &mut usize, item: usize| {
                *sum += item;
                ahead.fetch_max(item.saturating_sub(emitted.load(Ordering::SeqCst)), Ordering::SeqCst);
                if item % 50 == 0 {
                    thread::yield_now();
                }
                item * 2
            };
            let mut seen = Vec::new();
            let outcome: Result<(), ()> = run(
                jobs(threads),
                0..5000_usize,
                || 0,
                work,
                |result| {
                    seen.push(result);
                    emitted.store(seen.len(), Ordering::SeqCst);
                    Ok(())
                },
            );
            assert_eq!(outcome, Ok(()));
            assert!(seen.iter().copied().eq((0..5000).map(|item| item * 2)));
            assert!(ahead.load(Ordering::SeqCst) <= usize::try_from(WINDOW).unwrap());
        }
    }

    #[test]
    fn an_error_ends_the_run() {
        for threads in [1, 3] {
            let mut seen = 0;
            let outcome = run(
                jobs(threads),
                0..,
                || (),
                |(), item: u32| item,
                |item| {
                    seen += 1;
                    if item == 1000 { Err("enough") } else { Ok(()) }
                },
            );
            assert_eq!((outcome, seen), (Err("enough"), 1001));
        }
    }
}
