use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use super::*;

/// Longer than any test takes.
const LONG: Admission = Admission::Wait(Duration::from_secs(3_600));

/// Waits until so many runs are in line.
fn until_waiting(ledger: &Ledger, count: usize) {
    while ledger.usage().waiting != count {
        thread::yield_now();
    }
}

#[test]
fn runs_wait_in_line_and_are_served_in_the_order_in_which_they_came() {
    let ledger = ledger(16, 0);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        let all = admit(&ledger, "r0", &[pool("a", 1, 16)]).unwrap();
        for number in 1..=3 {
            let (send, ledger) = (send.clone(), &ledger);
            scope.spawn(move || {
                let run = format!("r{number}");
                let held = ledger.admit(&run, &[pool("a", 1, 16)], LONG, &never, &never);
                send.send(run).unwrap();
                drop(held.unwrap());
            });
            until_waiting(ledger, number);
        }
        drop(all);
    });
    drop(send);
    assert_eq!(receive.iter().collect::<Vec<_>>(), ["r1", "r2", "r3"]);
    assert_eq!(ledger.usage().memory, 0);
}

#[test]
fn a_small_run_does_not_overtake_a_large_one_that_waits() {
    let ledger = ledger(16, 0);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        let half = admit(&ledger, "r0", &[pool("a", 1, 8)]).unwrap();
        for (place, memory) in [16, 1].into_iter().enumerate() {
            let (send, ledger) = (send.clone(), &ledger);
            scope.spawn(move || {
                let held = ledger.admit("r", &[pool("a", 1, memory)], LONG, &never, &never);
                send.send(memory).unwrap();
                drop(held.unwrap());
            });
            until_waiting(ledger, place + 1);
        }
        ledger.wake();
        assert!(receive.try_recv().is_err());
        drop(half);
    });
    assert_eq!(receive.try_iter().collect::<Vec<_>>(), [16, 1]);
}

#[test]
fn several_that_fit_beside_each_other_are_served_by_one_release() {
    let ledger = ledger(16, 0);
    thread::scope(|scope| {
        let all = admit(&ledger, "r0", &[pool("a", 1, 16)]).unwrap();
        let wait = || {
            ledger
                .admit("r", &[pool("a", 1, 4)], LONG, &never, &never)
                .unwrap()
        };
        let waiters: Vec<_> = (0..4).map(|_| scope.spawn(wait)).collect();
        until_waiting(&ledger, 4);
        drop(all);
        let held: Vec<_> = waiters.into_iter().map(|w| w.join().unwrap()).collect();
        assert_eq!(ledger.usage().memory, 16 * GIB);
        drop(held);
    });
}

#[test]
fn a_run_that_waited_in_vain_is_told_who_holds_the_room() {
    let ledger = ledger(16, 0);
    let _held = admit(&ledger, "r1", &[pool("score", 1, 16)]).unwrap();
    let short = Admission::Wait(Duration::from_millis(20));
    let error = ledger
        .admit("r2", &[pool("b", 1, 1)], short, &never, &never)
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("run r2 does not fit now, after waiting for "),
        "{text}"
    );
    assert!(
        text.contains("nothing of 16 GiB is free, held by r1/score: 16 GiB"),
        "{text}"
    );
    let AdmissionError::NotNow { waited, ahead, .. } = error else {
        panic!("{text}");
    };
    assert!(waited >= Duration::from_millis(20));
    assert_eq!(ahead, 0);
    assert_eq!(ledger.usage().waiting, 0);
}

#[test]
fn a_cancelled_run_leaves_the_line_and_makes_way() {
    let ledger = ledger(16, 0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let half = admit(&ledger, "r0", &[pool("a", 1, 8)]).unwrap();
        let large = scope.spawn(|| {
            let look = || stop.load(Ordering::SeqCst);
            ledger.admit("r1", &[pool("a", 1, 16)], LONG, &look, &never)
        });
        until_waiting(&ledger, 1);
        let small = scope.spawn(|| {
            ledger
                .admit("r2", &[pool("a", 1, 8)], LONG, &never, &never)
                .is_ok()
        });
        until_waiting(&ledger, 2);

        stop.store(true, Ordering::SeqCst);
        ledger.wake();
        let error = large.join().unwrap().unwrap_err();
        assert_eq!(
            error,
            AdmissionError::Cancelled {
                run: "r1".to_owned()
            }
        );
        // Half the memory was free all the time, only the large run stood before it.
        assert!(small.join().unwrap());
        drop(half);
    });
}

#[test]
fn a_run_that_was_cancelled_before_is_not_admitted() {
    let ledger = ledger(16, 0);
    let error = ledger
        .admit("r1", &[pool("a", 1, 1)], LONG, &|| true, &never)
        .unwrap_err();
    assert_eq!(
        error,
        AdmissionError::Cancelled {
            run: "r1".to_owned()
        }
    );
    assert_eq!(ledger.usage().memory, 0);
}

#[test]
fn a_run_that_does_not_wait_does_not_overtake_one_that_does() {
    let ledger = ledger(16, 0);
    thread::scope(|scope| {
        let half = admit(&ledger, "r0", &[pool("a", 1, 8)]).unwrap();
        scope.spawn(|| {
            ledger
                .admit("r1", &[pool("a", 1, 16)], LONG, &never, &never)
                .map(drop)
        });
        until_waiting(&ledger, 1);
        let error = admit(&ledger, "r2", &[pool("b", 1, 8)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "run r2 does not fit now: a run that came before it waits for room; \
             wait longer (--admission wait=…, Admission::Wait)"
        );
        let error = admit(&ledger, "r2", &[pool("b", 1, 9)]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("waits for room\n  memory: 1 slot of 9 GiB"),
            "{text}"
        );
        drop(half);
    });
}

#[test]
fn room_is_made_before_a_run_fails() {
    let ledger = ledger(16, 0);
    let warm = Cell::new(Some(admit(&ledger, "r0", &[pool("warm", 1, 16)]).unwrap()));
    let make_room = || warm.take().is_some();
    let held = ledger
        .admit(
            "r1",
            &[pool("a", 1, 8)],
            Admission::Fail,
            &never,
            &make_room,
        )
        .unwrap();
    assert_eq!(ledger.usage().memory, 8 * GIB);

    // There is room already, so nothing is closed.
    let asked = Cell::new(false);
    let make_room = || !asked.replace(true);
    let _more = ledger
        .admit(
            "r2",
            &[pool("a", 1, 8)],
            Admission::Fail,
            &never,
            &make_room,
        )
        .unwrap();
    assert!(!asked.get());
    drop(held);
}

#[test]
fn room_is_made_again_and_again_until_it_is_enough_or_there_is_none_to_make() {
    let ledger = ledger(16, 0);
    let warm = (0..4).map(|_| admit(&ledger, "r0", &[pool("warm", 1, 4)]).unwrap());
    let warm = Mutex::new(warm.collect::<Vec<_>>());
    let make_room = || warm.lock().unwrap().pop().is_some();
    let held = ledger
        .admit("r1", &[pool("a", 1, 8)], LONG, &never, &make_room)
        .unwrap();
    assert_eq!(warm.lock().unwrap().len(), 2);
    ledger
        .admit(
            "r2",
            &[pool("a", 1, 16)],
            Admission::Fail,
            &never,
            &make_room,
        )
        .unwrap_err();
    assert!(warm.lock().unwrap().is_empty());
    drop(held);
}

/// A pool that becomes idle gives nothing back by itself; `wake` lets the first in line close it.
#[test]
fn a_waiting_run_makes_room_when_something_has_become_idle() {
    let ledger = ledger(16, 0);
    let busy = Mutex::new(Some(admit(&ledger, "r0", &[pool("warm", 1, 16)]).unwrap()));
    let idle = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let make_room = || idle.load(Ordering::SeqCst) && busy.lock().unwrap().take().is_some();
            ledger
                .admit("r1", &[pool("a", 1, 16)], LONG, &never, &make_room)
                .is_ok()
        });
        until_waiting(&ledger, 1);
        idle.store(true, Ordering::SeqCst);
        ledger.wake();
        assert!(waiter.join().unwrap());
    });
}

#[test]
fn a_panic_while_waiting_leaves_the_line() {
    let ledger = ledger(16, 0);
    let all = admit(&ledger, "r0", &[pool("a", 1, 16)]).unwrap();
    let waiting = AssertUnwindSafe(|| {
        ledger
            .admit("r1", &[pool("a", 1, 1)], LONG, &never, &|| {
                panic!("make room")
            })
            .is_ok()
    });
    assert!(catch_unwind(waiting).is_err());
    assert_eq!(ledger.usage().waiting, 0);
    drop(all);
    admit(&ledger, "r2", &[pool("a", 1, 16)]).unwrap();
}

#[test]
fn many_runs_that_come_and_go_leave_nothing_behind() {
    let ledger = ledger(16, 2);
    thread::scope(|scope| {
        for thread in 0..8u64 {
            let ledger = &ledger;
            scope.spawn(move || {
                for turn in 0..50u64 {
                    let memory = 1 + (thread + turn) % 16;
                    let gpus = u32::try_from(1 + (thread * 7 + turn * 131) % 1_000).unwrap();
                    let requests = [pool("a", 1, memory), gpu_pool("b", 1, gpus, 20)];
                    let held = ledger.admit("r", &requests, LONG, &never, &never).unwrap();
                    assert!(ledger.usage().memory <= 16 * GIB);
                    drop(held);
                }
            });
        }
    });
    assert_eq!(ledger.usage(), Ledger::new(machine(16, 2)).usage());
}
