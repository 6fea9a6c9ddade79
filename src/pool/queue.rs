//! The tasks that wait for a slot: fair between runs, and between the lanes of a run.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Tasks that wait. Each run has its turn, whatever others have queued; so has each lane of a run, and
/// within a lane tasks start in the order in which they came.
#[derive(Debug)]
pub(super) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    /// Whether there is a reason to look: a task, or the end. Only a hint, for those who do not sleep yet.
    stirred: AtomicBool,
    /// Set under the lock, for good.
    closed: AtomicBool,
    /// Told of each task and of the end.
    ready: Condvar,
    /// Told when a task has been served.
    served: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    runs: VecDeque<RunTasks<T>>,
    /// How many wait in all.
    waiting: usize,
    /// Tasks that are being served, for each run that has any.
    serving: Vec<(u64, usize)>,
}

#[derive(Debug)]
struct RunTasks<T> {
    run: u64,
    lanes: VecDeque<LaneTasks<T>>,
}

#[derive(Debug)]
struct LaneTasks<T> {
    lane: u64,
    tasks: VecDeque<T>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue {
            inner: Mutex::new(Inner {
                runs: VecDeque::new(),
                waiting: 0,
                serving: Vec::new(),
            }),
            stirred: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            ready: Condvar::new(),
            served: Condvar::new(),
        }
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task to a lane of a run; gives it back when the queue is closed.
    pub(super) fn push(&self, run: u64, lane: u64, task: T) -> Result<(), T> {
        let mut inner = self.lock();
        if self.is_closed() {
            return Err(task);
        }
        let run = entry(
            &mut inner.runs,
            |r| r.run == run,
            || RunTasks {
                run,
                lanes: VecDeque::new(),
            },
        );
        let lane = run.and_then(|run| {
            entry(
                &mut run.lanes,
                |l| l.lane == lane,
                || LaneTasks {
                    lane,
                    tasks: VecDeque::new(),
                },
            )
        });
        match lane {
            Some(lane) => lane.tasks.push_back(task),
            None => return Err(task),
        }
        inner.waiting = inner.waiting.saturating_add(1);
        self.stirred.store(true, Ordering::Release);
        drop(inner);
        self.ready.notify_one();
        Ok(())
    }

    /// Waits until a task waits; `false` when the queue is closed.
    ///
    /// A thread gives its turn away a few times before it sleeps: in a stream the next task is never far,
    /// and to be woken takes longer than many a call.
    pub(super) fn wait(&self) -> bool {
        const TURNS: usize = 64;
        for _ in 0..TURNS {
            if self.stirred.load(Ordering::Acquire) {
                return !self.is_closed();
            }
            std::thread::yield_now();
        }
        let mut inner = self.lock();
        while inner.waiting == 0 && !self.is_closed() {
            inner = self
                .ready
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !self.is_closed()
    }

    /// The next task and its run, if one waits. Whoever takes it says [`Queue::served`] afterwards.
    pub(super) fn pop(&self) -> Option<(u64, T)> {
        let mut inner = self.lock();
        let mut run = inner.runs.pop_front()?;
        let mut lane = run.lanes.pop_front()?;
        let task = lane.tasks.pop_front()?;
        if !lane.tasks.is_empty() {
            run.lanes.push_back(lane);
        }
        let id = run.run;
        if !run.lanes.is_empty() {
            inner.runs.push_back(run);
        }
        inner.waiting = inner.waiting.saturating_sub(1);
        if inner.waiting == 0 {
            self.stirred.store(false, Ordering::Relaxed);
        }
        match inner.serving.iter_mut().find(|(run, _)| *run == id) {
            Some((_, serving)) => *serving = serving.saturating_add(1),
            None => inner.serving.push((id, 1)),
        }
        Some((id, task))
    }

    /// A task of this run has been served.
    pub(super) fn served(&self, run: u64) {
        let mut inner = self.lock();
        if let Some(at) = inner.serving.iter().position(|(id, _)| *id == run)
            && let Some((_, serving)) = inner.serving.get_mut(at)
        {
            *serving = serving.saturating_sub(1);
            if *serving == 0 {
                inner.serving.swap_remove(at);
            }
        }
        drop(inner);
        self.served.notify_all();
    }

    /// Waits until no task of the run is being served.
    pub(super) fn wait_served(&self, run: u64) {
        let mut inner = self.lock();
        while inner.serving.iter().any(|(id, _)| *id == run) {
            inner = self
                .served
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes out what waits in a lane.
    pub(super) fn remove_lane(&self, run: u64, lane: u64) -> Vec<T> {
        self.remove(|r| r == run, |l| l == lane)
    }

    /// Takes out what waits of a run.
    pub(super) fn remove_run(&self, run: u64) -> Vec<T> {
        self.remove(|r| r == run, |_| true)
    }

    fn remove(&self, of_run: impl Fn(u64) -> bool, in_lane: impl Fn(u64) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        let mut inner = self.lock();
        for run in inner.runs.iter_mut().filter(|r| of_run(r.run)) {
            for lane in run.lanes.iter_mut().filter(|l| in_lane(l.lane)) {
                removed.extend(lane.tasks.drain(..));
            }
            run.lanes.retain(|lane| !lane.tasks.is_empty());
        }
        inner.runs.retain(|run| !run.lanes.is_empty());
        inner.waiting = inner.waiting.saturating_sub(removed.len());
        let stirred = inner.waiting > 0 || self.is_closed();
        self.stirred.store(stirred, Ordering::Release);
        removed
    }

    /// Takes no more tasks, lets whoever waits go, and gives back what waited.
    pub(super) fn close(&self) -> Vec<T> {
        let inner = self.lock();
        self.closed.store(true, Ordering::Release);
        drop(inner);
        self.ready.notify_all();
        self.remove(|_| true, |_| true)
    }

    /// Whether it takes no more tasks.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// How many tasks wait.
    pub(super) fn len(&self) -> usize {
        self.lock().waiting
    }
}

/// The entry that is meant, made at the end where there is none.
fn entry<T>(
    entries: &mut VecDeque<T>,
    is_meant: impl Fn(&T) -> bool,
    make: impl FnOnce() -> T,
) -> Option<&mut T> {
    let at = entries.iter().position(is_meant).unwrap_or_else(|| {
        entries.push_back(make());
        entries.len().saturating_sub(1)
    });
    entries.get_mut(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(queue: &Queue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop().map(|(_, task)| task)).collect()
    }

    #[test]
    fn runs_take_turns_and_so_do_lanes() {
        let queue = Queue::default();
        for task in ["a1", "a2", "a3"] {
            queue.push(1, 1, task).expect("open");
        }
        queue.push(1, 2, "b1").expect("open");
        queue.push(2, 1, "c1").expect("open");
        queue.push(2, 1, "c2").expect("open");
        assert_eq!(queue.len(), 6);
        assert_eq!(drained(&queue), ["a1", "c1", "b1", "c2", "a2", "a3"]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_run_that_came_late_does_not_wait_for_all_that_came_before() {
        let queue = Queue::default();
        for _ in 0..100 {
            queue.push(1, 1, "early").expect("open");
        }
        assert_eq!(queue.pop(), Some((1, "early")));
        queue.push(2, 1, "late").expect("open");
        let next: Vec<_> = (0..2).filter_map(|_| queue.pop()).collect();
        assert!(next.contains(&(2, "late")), "{next:?}");
    }

    #[test]
    fn what_is_removed_is_given_back() {
        let queue = Queue::default();
        for (run, lane, task) in [(1, 1, "a"), (1, 2, "b"), (2, 1, "c"), (2, 1, "d")] {
            queue.push(run, lane, task).expect("open");
        }
        assert_eq!(queue.remove_lane(1, 2), ["b"]);
        assert_eq!(queue.remove_run(2), ["c", "d"]);
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.close(), ["a"]);
        assert_eq!(queue.push(1, 1, "e"), Err("e"));
        assert!(!queue.wait());
    }

    #[test]
    fn the_end_of_a_runs_tasks_can_be_waited_for() {
        let queue = Queue::default();
        queue.push(7, 1, "task").expect("open");
        let (run, _) = queue.pop().expect("a task");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait_served(7));
            queue.wait_served(8);
            queue.served(run);
            waiting.join().expect("no panic");
        });
    }
}
