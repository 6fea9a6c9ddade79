use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc;
use std::time::Instant;

use super::*;

fn never() -> bool {
    false
}

fn cpus(n: u32) -> Permits {
    Permits::new(Share::whole(n))
}

/// Waits until so many threads are in the queue.
fn until_waiting(permits: &Permits, count: usize) {
    while permits.lock().len() != count {
        thread::yield_now();
    }
}

/// The free thousandths, and whether the flag is set.
fn word(permits: &Permits) -> (u64, bool) {
    let word = permits.word.load(Ordering::SeqCst);
    (word & !QUEUED, word & QUEUED != 0)
}

#[test]
fn a_permit_is_given_back_when_it_is_dropped() {
    let permits = cpus(2);
    let permit = permits.take(Share::thousandths(1_500), &never).unwrap();
    assert_eq!(permits.in_use(), Share::thousandths(1_500));
    drop(permit);
    assert_eq!(permits.in_use(), Share::ZERO);
}

#[test]
fn a_call_that_wants_more_than_there_is_gets_all_there_is() {
    let permits = cpus(2);
    let permit = permits.take(Share::whole(64), &never).unwrap();
    assert_eq!(permits.in_use(), Share::whole(2));
    drop(permit);
    assert_eq!(permits.in_use(), Share::ZERO);
}

#[test]
fn a_call_that_wants_nothing_never_waits() {
    let permits = cpus(1);
    let all = permits.take(Share::ONE, &never).unwrap();
    assert!(permits.take(Share::ZERO, &|| true).is_some());
    drop(all);
}

#[test]
fn eight_threads_never_run_more_than_the_cpus_allow_and_none_is_forgotten() {
    let permits = cpus(2);
    let running = AtomicU32::new(0);
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for thread in 0..8u32 {
            let (permits, running, start) = (&permits, &running, &start);
            scope.spawn(move || {
                start.wait();
                for turn in 0..10_000u32 {
                    let wanted = [300, 500, 1_000, 2_000][((thread + turn) % 4) as usize];
                    let permit = permits.take(Share::thousandths(wanted), &never).unwrap();
                    let now = running.fetch_add(wanted, Ordering::SeqCst) + wanted;
                    assert!(now <= 2_000, "{now} thousandths run");
                    running.fetch_sub(wanted, Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
    assert_eq!(word(&permits), (2_000, false));
    assert!(permits.lock().is_empty());
}

#[test]
fn a_hand_over_does_not_wait_for_the_next_look() {
    let permits = cpus(1);
    let begin = Instant::now();
    let turns = 2_000;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..turns {
                    let permit = permits.take(Share::ONE, &never).unwrap();
                    thread::yield_now();
                    drop(permit);
                }
            });
        }
    });
    // Had one in twenty been woken by the clock only, this would have taken twenty seconds.
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    let permits = cpus(1);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        let all = permits.take(Share::ONE, &never).unwrap();
        for number in 0..5 {
            let (send, permits) = (send.clone(), &permits);
            scope.spawn(move || {
                let permit = permits.take(Share::ONE, &never).unwrap();
                send.send(number).unwrap();
                drop(permit);
            });
            until_waiting(permits, number + 1);
        }
        drop(all);
    });
    drop(send);
    assert_eq!(receive.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_large_request_holds_back_the_small_ones_behind_it() {
    let permits = cpus(2);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        let one = permits.take(Share::ONE, &never).unwrap();
        let other = permits.take(Share::thousandths(500), &never).unwrap();
        for (place, wanted) in [Share::whole(2), Share::thousandths(500)]
            .into_iter()
            .enumerate()
        {
            let (send, permits) = (send.clone(), &permits);
            scope.spawn(move || {
                let permit = permits.take(wanted, &never).unwrap();
                send.send(wanted).unwrap();
                drop(permit);
            });
            until_waiting(permits, place + 1);
        }
        // Half a CPU was free all the time, and now one and a half are: the small one still waits.
        drop(one);
        until_waiting(&permits, 2);
        assert!(receive.try_recv().is_err());
        assert_eq!(word(&permits), (1_500, true));
        drop(other);
    });
    assert_eq!(receive.try_recv(), Ok(Share::whole(2)));
    assert_eq!(receive.try_recv(), Ok(Share::thousandths(500)));
}

#[test]
fn large_requests_get_their_turn_among_many_small_ones() {
    let permits = cpus(2);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    drop(permits.take(Share::thousandths(500), &never));
                }
            });
        }
        for _ in 0..100 {
            drop(permits.take(Share::whole(2), &never));
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_waiter_that_is_to_stop_leaves_within_a_fifth_of_a_second_and_makes_way() {
    let permits = cpus(2);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let one = permits.take(Share::ONE, &never).unwrap();
        let stopped = scope.spawn(|| {
            let stopped = permits.take(Share::whole(2), &|| stop.load(Ordering::SeqCst));
            (stopped.is_none(), Instant::now())
        });
        until_waiting(&permits, 1);
        let behind = scope.spawn(|| permits.take(Share::ONE, &never).is_some());
        until_waiting(&permits, 2);

        let told = Instant::now();
        stop.store(true, Ordering::SeqCst);
        let (left, when) = stopped.join().unwrap();
        assert!(left);
        assert!(
            when - told < Duration::from_millis(200),
            "{:?}",
            when - told
        );
        // The one behind fits beside what runs, once the large request is gone.
        assert!(behind.join().unwrap());
        drop(one);
    });
    assert_eq!(word(&permits), (2_000, false));
}

#[test]
fn a_waiter_that_is_woken_looks_at_once() {
    let permits = cpus(1);
    let stop = AtomicBool::new(false);
    let (asked, asks) = mpsc::channel();
    thread::scope(|scope| {
        let all = permits.take(Share::ONE, &never).unwrap();
        let waiter = scope.spawn(|| {
            let look = || {
                asked.send(()).unwrap();
                stop.load(Ordering::SeqCst)
            };
            permits.take(Share::ONE, &look).is_none()
        });
        asks.recv().unwrap();
        stop.store(true, Ordering::SeqCst);
        permits.wake();
        assert!(waiter.join().unwrap());
        drop(all);
    });
}

#[test]
fn a_panic_while_waiting_leaves_the_queue() {
    let permits = cpus(1);
    let all = permits.take(Share::ONE, &never).unwrap();
    let waiting = AssertUnwindSafe(|| permits.take(Share::ONE, &|| panic!("stop")).is_some());
    assert!(catch_unwind(waiting).is_err());
    assert!(permits.lock().is_empty());
    drop(all);
    assert_eq!(word(&permits), (1_000, false));
}

/// As when the last permit comes back between a caller's look at the free CPU and its joining.
#[test]
fn cpu_that_became_free_before_a_waiter_joined_is_found() {
    let permits = cpus(1);
    assert!(permits.wait(1_000, &|| panic!("it waits")).is_some());
    assert_eq!(word(&permits), (1_000, false));
}

#[test]
fn cpu_that_was_taken_for_a_waiter_that_stops_is_given_back() {
    let permits = cpus(1);
    let all = Cell::new(permits.take(Share::ONE, &never));
    // While the waiter decides to stop, the CPU comes back and is taken for it.
    let stop = || {
        drop(all.take());
        assert_eq!(word(&permits), (0, false));
        true
    };
    assert!(permits.take(Share::ONE, &stop).is_none());
    assert_eq!(word(&permits), (1_000, false));
}
