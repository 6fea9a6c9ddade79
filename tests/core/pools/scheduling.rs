//! Who is served when, in which pieces, and how much waits.

use proptest::prelude::*;

use super::*;

/// Calls a function on all rows of one partition, in a thread of its own.
fn stage_of(pool: &Pool, call: &Call, rows: usize) -> Stage {
    Stage::new(&batch(longs([])).schema())
        .call(pool, call, &["x"], "y")
        .expect("a stage")
        .batch_size(slots(rows))
}

#[test]
fn nested_calls_of_one_slot_each_finish() {
    let ledger = machine();
    let module = module("probe");
    let pools = vec![
        probe("Scale", json!({ "k": 2 })),
        probe("Scale", json!({ "k": 3 })),
    ];
    let run = run(on(&ledger), pools);
    let scale = bind(&module, "scale", &[int64()]);
    // g(f(x)), then f again on the result: the pool of f is used twice in the plan.
    let [f, g] = run.pools() else {
        panic!("two pools")
    };
    let first = stage_of(f, &scale, 4);
    let second = Stage::new(&first.schema())
        .call(g, &scale, &["y"], "z")
        .expect("a stage")
        .batch_size(slots(3));
    let third = Stage::new(&second.schema())
        .call(f, &scale, &["z"], "w")
        .expect("a stage")
        .batch_size(slots(5));
    let input = (0..20).map(|n| Ok(batch(longs(n..n + 3))));
    let arrow = |b: Result<RecordBatch, Error>| {
        b.map_err(|e| arrow::error::ArrowError::ExternalError(Box::new(e)))
    };
    let out = third.run(second.run(first.run(input).map(arrow)).map(arrow));
    let last: Vec<i64> = out
        .flat_map(|b| values(b.expect("rows").column(3)))
        .collect();
    let expected: Vec<i64> = (0..20).flat_map(|n| n..n + 3).map(|x| 12 * x).collect();
    assert_eq!(last, expected);
    drop((first, second, third, run));
    assert_clean(&ledger);
}

#[test]
fn more_partitions_than_slots_on_every_cpu_beside_another_stage_finish() {
    let ledger = machine();
    let (pool, call) = faulty(json!({ "turns": 1000 }));
    let whole = SlotResources {
        cpus: Share::whole(2),
        ..SlotResources::default()
    };
    let run = run(on(&ledger), vec![pool.slots(slots(2)).resources(whole)]);
    std::thread::scope(|scope| {
        for partition in 0..16 {
            let stage = stage_of(&run.pools()[0], &call, 10).partition(partition);
            scope.spawn(move || {
                let (send, receive) = mpsc::sync_channel(1);
                // The stage that reads.
                std::thread::spawn(move || {
                    for n in 0..20 {
                        if send.send(Ok(batch(longs([n; 10])))).is_err() {
                            break;
                        }
                    }
                });
                let rows: usize = stage
                    .run(receive)
                    .map(|b| b.expect("rows").num_rows())
                    .sum();
                assert_eq!(rows, 200);
            });
        }
    });
    assert_eq!(run.finish().pools[0].calls, 16 * 20);
    assert_clean(&ledger);
}

#[test]
fn no_more_calls_run_at_once_than_there_are_cpus() {
    let ledger = machine();
    let (pool, call) = faulty(json!({ "turns": 200_000 }));
    let run = run(on(&ledger), vec![pool.slots(slots(6))]);
    let (send, receive) = mpsc::channel();
    for n in 0..60 {
        let send = send.clone();
        run.pools()[0].submit(&call, Rows::new(vec![longs([n])], 1), move |answer| {
            let _ = send.send(answer.is_ok());
        });
    }
    let mut most = Share::ZERO;
    let mut answers = 0;
    while answers < 60 {
        most = most.max(ledger.usage().cpus_in_use);
        answers += receive.try_iter().inspect(|ok| assert!(ok)).count();
    }
    assert!(most <= Share::whole(2), "{most}");
    drop(run);
    assert_clean(&ledger);
}

#[test]
fn two_runs_take_turns_at_the_slots_that_they_share() {
    let ledger = machine();
    let warm = WarmPools::new(WarmLimits::default());
    let config = || RunConfig {
        warm: Some(warm.clone()),
        ..on(&ledger)
    };
    let (pool, call) = faulty(json!({ "turns": 20_000 }));
    let pool = pool.slots(slots(1));
    let (one, two) = (run(config(), vec![pool.clone()]), run(config(), vec![pool]));
    let done = [0, 1].map(|_| Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let (ended, first) = mpsc::channel();
    // The first has all of its tasks queued before the second comes.
    for (run, done) in [&one, &two].into_iter().zip(&done) {
        for n in 0..300 {
            let (done, ended) = (Arc::clone(done), ended.clone());
            run.pools()[0].submit(&call, Rows::new(vec![longs([n])], 1), move |answer| {
                assert!(answer.is_ok());
                if done.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 299 {
                    let _ = ended.send(());
                }
            });
        }
    }
    soon(&first);
    let counts: Vec<usize> = done
        .iter()
        .map(|d| d.load(std::sync::atomic::Ordering::SeqCst))
        .collect();
    assert!(counts.iter().all(|n| *n >= 100), "{counts:?}");
    soon(&first);
    drop((one, two, warm));
    assert_clean(&ledger);
}

#[test]
fn what_waits_is_bounded_in_bytes_however_fast_the_input_is() {
    let ledger = machine();
    let (pool, call) = faulty(json!({}));
    // Batches of 80 KB: three fit, though the window of 8 slots would take 17.
    let run = run(on(&ledger), vec![pool.slots(slots(8)).queue_bytes(200_000)]);
    let stage = stage_of(&run.pools()[0], &call, 10_000);
    let read = std::cell::Cell::new(0_usize);
    let input = (0..100).map(|n| {
        read.set(read.get() + 1);
        Ok(batch(longs([n; 10_000])))
    });
    let mut out = stage.run(input);
    let mut rows = 0;
    for taken in 1.. {
        // A consumer that is slow finds the producer waiting.
        let Some(next) = out.next() else { break };
        rows += next.expect("rows").num_rows();
        assert!(
            read.get() <= taken + 4,
            "{} read, {taken} taken",
            read.get()
        );
    }
    assert_eq!(rows, 1_000_000);
    let metrics = run.metrics();
    let peak = metrics.pools[0].peak_queued_bytes;
    assert!((80_000..=200_000 + 3 * 160_000).contains(&peak), "{peak}");
    drop(out);
    assert_eq!(run.metrics().pools[0].queued_bytes, 0);
}

#[test]
fn a_full_queue_never_stops_a_partition_that_others_wait_for() {
    let ledger = machine();
    let (pool, call) = faulty(json!({}));
    let run = run(on(&ledger), vec![pool.queue_bytes(1)]);
    let stages: Vec<Stage> = (0..5)
        .map(|p| stage_of(&run.pools()[0], &call, 100).partition(p))
        .collect();
    let input = || (0..10).map(|n| Ok(batch(longs([n; 100]))));
    let mut outs: Vec<_> = stages.iter().map(|s| s.run(input())).collect();
    // As a merge reads: one batch of each before the next of any, the last partition first.
    for _ in 0..10 {
        for out in outs.iter_mut().rev() {
            assert_eq!(out.next().expect("a batch").expect("rows").num_rows(), 100);
        }
    }
    assert!(outs.iter_mut().all(|out| out.next().is_none()));
}

#[test]
fn a_stream_that_is_dropped_leaves_no_work_behind() {
    let ledger = machine();
    let (pool, call) = faulty(json!({ "turns": 1_000_000 }));
    let run = run(on(&ledger), vec![pool.slots(slots(1))]);
    let stage = stage_of(&run.pools()[0], &call, 1);
    let mut out = stage.run((0..100).map(|n| Ok(batch(longs([n])))));
    out.next().expect("a batch").expect("rows");
    drop(out);
    let metrics = run.metrics();
    assert_eq!(metrics.pools[0].queued_tasks, 0);
    assert!(run.finish().pools[0].calls <= 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The batch size is a contract: whatever comes in, the guest sees full batches and one rest.
    #[test]
    fn the_guest_sees_full_batches_and_one_rest(
        chunks in proptest::collection::vec(0_usize..50, 0..30),
        size in 1_usize..40,
        count in 1_usize..4,
    ) {
        let ledger = machine();
        let module = module("probe");
        let run = run(on(&ledger), vec![probe("MaxBatch", json!({})).slots(slots(count))]);
        let pool = &run.pools()[0];
        let add = bind(&module, "add", &[int64(), int64()]);
        let largest = bind(&module, "max_batch", &[]);
        let mut next = 0;
        let input: Vec<_> = chunks
            .iter()
            .map(|rows| {
                let from = next;
                next += *rows as i64;
                Ok(batch(longs(from..next)))
            })
            .collect();
        let stage = Stage::new(&batch(longs([])).schema())
            .call(pool, &add, &["x", "x"], "y").expect("a stage")
            .call(pool, &largest, &[], "seen").expect("a stage")
            .batch_size(slots(size));
        let out: Vec<RecordBatch> = stage.run(input).map(|b| b.expect("rows")).collect();
        let sizes: Vec<usize> = out.iter().map(RecordBatch::num_rows).collect();
        let total: usize = chunks.iter().sum();
        let mut expected = vec![size; total / size];
        expected.extend(Some(total % size).filter(|rest| *rest > 0));
        prop_assert_eq!(sizes, expected);
        let sums: Vec<i64> = out.iter().flat_map(|b| values(b.column(1))).collect();
        prop_assert_eq!(sums, (0..next).map(|x| 2 * x).collect::<Vec<_>>());
        let seen = out.iter().flat_map(|b| values(b.column(2))).max().unwrap_or(0);
        prop_assert_eq!(seen, size.min(total) as i64);
        let metrics = run.finish();
        prop_assert_eq!(metrics.pools[0].calls, 2 * out.len() as u64);
        prop_assert_eq!(metrics.pools[0].splits, 0);
    }
}
