//! Many short runs in one process: nothing grows.

use super::*;

/// Bytes in use and threads of this process.
#[cfg(target_os = "linux")]
fn of_this_process() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let number = |name: &str| -> u64 {
        let line = status.lines().find(|l| l.starts_with(name)).expect(name);
        let digits: String = line.chars().filter(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    };
    (number("RssAnon:") << 10, number("Threads:"))
}

/// Short runs with faults of all kinds, in a fixed order that looks random.
#[cfg(target_os = "linux")]
fn soak(ledger: &Ledger, runs: u64, seed: u64) {
    let faults = [
        json!({}),
        json!({ "trap_at": 1 }),
        json!({ "trap_at": 2 }),
        json!({ "init": "trap" }),
        json!({ "close": "trap" }),
        json!({ "turns": 100 }),
    ];
    let mut random = seed;
    for _ in 0..runs {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let pick = |n: u64, shift: u32| (random >> shift) % n;
        let (pool, call) = faulty(faults[pick(6, 33) as usize].clone());
        let pools = vec![pool.slots(slots(1 + pick(2, 40) as usize))];
        let config = RunConfig {
            warm: (pick(4, 54) == 0).then(|| WarmPools::new(WarmLimits::default())),
            ..on(ledger)
        };
        let Ok(run) = Run::start(config, pools) else {
            continue;
        };
        let stage = Stage::new(&batch(longs([])).schema())
            .call(&run.pools()[0], &call, &["x"], "y")
            .expect("a stage")
            .batch_size(slots(8));
        let mut out = stage.run((0..4).map(|n| Ok(batch(longs([n; 8])))));
        for _ in 0..pick(5, 45) {
            if out.next().is_none_or(|b| b.is_err()) {
                break;
            }
        }
        if pick(4, 50) == 0 {
            run.cancel();
        }
    }
    assert_clean(ledger);
}

/// `WASMILL_SOAK_RUNS` sets how many runs there are.
#[test]
#[cfg(target_os = "linux")]
fn many_short_runs_with_faults_leave_memory_and_threads_as_they_were() {
    // A process of its own: other tests in this one would blur what is measured.
    if std::env::var_os("WASMILL_SOAK_HERE").is_none() {
        let this = std::env::current_exe().expect("this program");
        let test = "pools::soak::many_short_runs_with_faults_leave_memory_and_threads_as_they_were";
        let status = std::process::Command::new(this)
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env("WASMILL_SOAK_HERE", "1")
            .status()
            .expect("a process");
        assert!(status.success());
        return;
    }
    let runs: u64 = std::env::var("WASMILL_SOAK_RUNS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(10_000);
    let ledger = machine();
    soak(&ledger, runs / 4, 1);
    let (memory, threads) = of_this_process();
    soak(&ledger, runs, 2);
    // Threads that have been joined may still be leaving the kernel's list.
    until(|| of_this_process().1 <= threads);
    let (after, _) = of_this_process();
    let bound = memory + memory / 20 + (1 << 20);
    assert!(after <= bound, "{memory} bytes before, {after} after");
}
