//! How often things start, what is shared and what is not.

use super::*;

#[test]
fn each_slot_starts_once_whatever_it_serves() {
    let ledger = machine();
    let lines = Lines::default();
    let module = module("probe");
    let pools = [3, 3, 3].map(|k| probe("Scale", json!({ "k": k })).slots(slots(4)));
    let pools = pools.map(|pool| pool.on_log(lines.sink()));
    // Sinks are told apart; the three builders share one.
    let [first, second, third] = pools;
    let shared = lines.sink();
    let pools = vec![
        first.on_log(Arc::clone(&shared)),
        second.on_log(Arc::clone(&shared)),
        third.on_log(shared),
    ];
    let run = run(on(&ledger), pools);
    let scale = bind(&module, "scale", &[int64()]);
    std::thread::scope(|scope| {
        for partition in 0..32 {
            let pool = run.pools()[partition % 3].clone();
            let scale = &scale;
            scope.spawn(move || {
                let stage = Stage::new(&batch(longs([])).schema())
                    .call(&pool, scale, &["x"], "y")
                    .expect("a stage")
                    .batch_size(slots(7))
                    .partition(partition);
                let input = (0..10).map(|n| Ok(batch(longs(n..n + 5))));
                let rows: usize = stage.run(input).map(|b| b.expect("rows").num_rows()).sum();
                assert_eq!(rows, 50);
            });
        }
    });
    let metrics = run.finish();
    assert_eq!(metrics.pools.len(), 1, "equal builders get one pool");
    let pool = &metrics.pools[0];
    assert_eq!(
        (pool.slots, pool.starts, pool.inits, pool.restarts),
        (4, 4, 4, 0)
    );
    assert_eq!((pool.rows, pool.closes), (32 * 50, 4));
    assert_eq!(
        pool.per_slot.iter().map(|s| s.inits).collect::<Vec<_>>(),
        [1; 4]
    );
    assert_eq!(
        (lines.count("scale init"), lines.count("scale close")),
        (4, 4)
    );
    assert_clean(&ledger);
}

#[test]
fn other_init_arguments_are_another_pool() {
    let ledger = machine();
    let pools = [2, 3, 2].map(|k| probe("Scale", json!({ "k": k })));
    let run = run(on(&ledger), pools.into());
    let scale = bind(&module("probe"), "scale", &[int64()]);
    let answers: Vec<_> = run
        .pools()
        .iter()
        .map(|pool| values(&through(pool, &scale, &longs([1, 10])).expect("rows")))
        .collect();
    assert_eq!(answers, [[2, 20], [3, 30], [2, 20]]);
    let metrics = run.finish();
    let names: Vec<_> = metrics
        .pools
        .iter()
        .map(|p| (p.pool.as_str(), p.inits))
        .collect();
    assert_eq!(names, [("scale", 1), ("scale#2", 1)]);
    assert_clean(&ledger);
}

#[test]
fn defaults_that_are_written_out_change_nothing() {
    let pools = vec![
        probe("Bump", json!({})),
        probe("Bump", json!({ "step": 1, "start": 0 })),
    ];
    let run = run(on(&machine()), pools);
    assert_eq!(run.finish().pools.len(), 1);
}

#[test]
fn stateless_calls_join_a_pool_of_their_module_with_the_same_limits() {
    let ledger = machine();
    let module = module("probe");
    let stateless = |memory| {
        Pool::builder(&module)
            .policy(Policy {
                memory,
                ..Policy::default()
            })
            .queue_bytes(1 << 20)
    };
    let pools = vec![
        stateless(64 << 20),
        probe("Scale", json!({ "k": 5 })),
        stateless(32 << 20),
    ];
    let run = run(on(&ledger), pools);
    let add = bind(&module, "add", &[int64(), int64()]);
    let rows = Rows::new(vec![longs([1]), longs([2])], 1);
    let sum = run.pools()[0].call(&add, rows).expect("a row").array;
    assert_eq!(values(&sum), [3]);
    assert_eq!(run.finish().pools.len(), 2);
    // A sequence has one slot, which is not for others.
    let pools = vec![stateless(64 << 20), probe("Counter", json!({}))];
    let run = super::run(on(&ledger), pools);
    assert_eq!(run.finish().pools.len(), 2);
    assert_clean(&ledger);
}

#[test]
fn equal_builders_of_a_sequence_say_once_that_it_has_one_slot() {
    let pools = [4, 4].map(|n| probe("Counter", json!({})).slots(slots(n)));
    let run = run(on(&machine()), pools.into());
    let notices = run.pools()[0].notices();
    assert!(
        matches!(notices, [only] if only.contains("4 slots were asked for")),
        "{notices:?}"
    );
}

#[test]
fn a_call_of_another_version_of_the_module_is_told_apart() {
    let [one, two] = ["a", "b"].map(|data| {
        let body = format!("(data (i32.const 0) {data:?}) {}", crate::guests::IDENTITY);
        load("twin", &crate::guests::wat(&[record("identity")], &body))
    });
    let run = run(on(&machine()), vec![Pool::builder(&one)]);
    let call = bind(&two, "identity", &[int64()]);
    let error = through(&run.pools()[0], &call, &longs([1])).expect_err("another module");
    let text = error.to_string();
    let digests = [&one, &two].map(|module| module.digest().to_string()[..8].to_owned());
    assert!(digests.iter().all(|digest| text.contains(digest)), "{text}");
    assert_eq!(run.finish().pools[0].restarts, 0);
}

#[test]
fn a_failure_names_the_run() {
    let config = RunConfig {
        ledger: Some(machine()),
        ..RunConfig::named("nightly")
    };
    let run = run(config, vec![probe("Scale", json!({ "k": 5 }))]);
    let boom = bind(&module("probe"), "boom", &[int64()]);
    let error = through(&run.pools()[0], &boom, &longs([3])).expect_err("a panic");
    let text = error.to_string();
    assert!(text.contains("run nightly, pool scale, slot 0"), "{text}");
    assert_eq!(run.finish().run, "nightly");
}

/// Answers how many environment variables there are, and the last byte of the first.
fn environment() -> Module {
    let body = r#"
      (func (export "f") (param $frame i32) (result i32)
        (local $out i32)
        (drop (call $sizes (i32.const 32) (i32.const 36)))
        (drop (call $get (i32.const 64) (i32.const 256)))
        (local.set $out (call $alloc (i32.const 8) (i32.const 64)))
        (i64.store (local.get $out)
          (i64.load8_u (i32.add (i32.const 256)
            (i32.sub (i32.load (i32.const 36)) (i32.const 2)))))
        (call $answer (local.get $frame) (local.get $out))
        (i32.const 0))
      (func $answer (param $frame i32) (param $values i32)
        (local $array i32) (local $buffers i32)
        (local.set $array (i32.load offset=32 (local.get $frame)))
        (local.set $buffers (call $alloc (i32.const 8) (i32.const 64)))
        (i32.store (local.get $buffers) (i32.const 0))
        (i32.store offset=4 (local.get $buffers) (local.get $values))
        (i64.store (local.get $array) (i64.load offset=16 (local.get $frame)))
        (i64.store offset=8 (local.get $array) (i64.const 0))
        (i64.store offset=16 (local.get $array) (i64.const 0))
        (i64.store offset=24 (local.get $array) (i64.const 2))
        (i64.store offset=32 (local.get $array) (i64.const 0))
        (i32.store offset=40 (local.get $array) (local.get $buffers)))"#;
    let imports = r#"(module
      (import "wasi_snapshot_preview1" "environ_sizes_get" (func $sizes (param i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "environ_get" (func $get (param i32 i32) (result i32)))"#;
    load(
        "environment",
        &crate::guests::wat_with(imports, &[record("f")], body),
    )
}

#[test]
fn runs_never_see_each_others_settings() {
    let module = environment();
    let ledger = machine();
    let call = bind(&module, "f", &[int64()]);
    let warm = WarmPools::new(WarmLimits::default());
    let of = |rate: &str| RunConfig {
        settings: [("RATE".to_owned(), rate.to_owned())].into(),
        warm: Some(warm.clone()),
        ..on(&ledger)
    };
    let pool = || Pool::builder(&module).queue_bytes(1 << 20);
    let (one, two) = (run(of("1"), vec![pool()]), run(of("2"), vec![pool()]));
    for _ in 0..3 {
        let seen = |run: &Run| {
            values(&through(&run.pools()[0], &call, &longs([0])).expect("a row"))[0] as u8
        };
        assert_eq!((seen(&one), seen(&two)), (b'1', b'2'));
    }
    drop((one, two));
    let again = run(of("2"), vec![pool()]);
    assert_eq!(again.pools()[0].metrics().inits, 0);
    assert_eq!(
        again.pools()[0].metrics().calls,
        3,
        "the warm pool of these settings"
    );
}

#[test]
fn a_lazy_slot_starts_with_its_first_call() {
    let ledger = machine();
    let run = run(
        on(&ledger),
        vec![probe("Scale", json!({ "k": 2 })).slots(slots(2)).lazy()],
    );
    assert_eq!(run.metrics().pools[0].starts, 0);
    let scale = bind(&module("probe"), "scale", &[int64()]);
    assert_eq!(
        values(&through(&run.pools()[0], &scale, &longs([4])).expect("a row")),
        [8]
    );
    let metrics = run.finish();
    assert_eq!((metrics.pools[0].starts, metrics.pools[0].closes), (1, 1));
    let failing = probe("InitFails", json!({})).lazy();
    let run = super::run(on(&ledger), vec![failing]);
    let never = bind(&module("probe"), "never", &[int64()]);
    let error = through(&run.pools()[0], &never, &longs([1])).expect_err("no slot");
    assert!(
        matches!(&*error.fault, Fault::Start(e) if matches!(**e, StartError::Init { .. })),
        "{error}"
    );
    drop(run);
    assert_clean(&ledger);
}

/// Keeps counters by name and slot.
#[derive(Default)]
struct Counted(Mutex<std::collections::HashMap<String, Arc<std::sync::atomic::AtomicU64>>>);

impl metrics::Recorder for Counted {
    fn describe_counter(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn describe_gauge(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn describe_histogram(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        let labels: Vec<&str> = key.labels().map(|label| label.value()).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        let mut counters = self.0.lock().expect("a lock");
        metrics::Counter::from_arc(Arc::clone(counters.entry(name).or_default()))
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::noop()
    }

    fn register_histogram(
        &self,
        _: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

#[test]
fn the_recorder_of_a_program_hears_what_was_counted() {
    // That of the whole process: the watchman tells it too, from its own thread.
    let recorder = Arc::new(Counted::default());
    metrics::set_global_recorder(Arc::clone(&recorder)).expect("the only one");
    let scale = bind(&module("probe"), "scale", &[int64()]);
    // Runs that follow each other add to the same counters.
    for _ in 0..3 {
        let pool = probe("Scale", json!({ "k": 2 })).name("recorded");
        let run = run(on(&machine()), vec![pool]);
        through(&run.pools()[0], &scale, &longs(0..5)).expect("rows");
        run.finish();
    }
    let counters = recorder.0.lock().expect("a lock");
    let count = |name: &str| {
        let key = format!("{name} recorded probe 0");
        counters[&key].load(std::sync::atomic::Ordering::Relaxed)
    };
    assert_eq!(count("wasmill_inits_total"), 3);
    assert_eq!(count("wasmill_rows_total"), 15);
    assert_eq!(count("wasmill_closes_total"), 3);
}
