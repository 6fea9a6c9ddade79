//! `wasmill sql` and `wasmill explain`: queries over files, functions, statements, refusals.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::{Ended, Workplace, module};

/// Three rows; the last has a zero.
const NUMBERS: &str = "a,b\n12,8\n18,12\n7,0\n";

fn workplace() -> Workplace {
    let workplace = Workplace::new();
    workplace.file("in.csv", NUMBERS);
    workplace
}

/// `wasmill sql` with the module `math`, the query, and further arguments.
fn sql(workplace: &Workplace, query: &str, rest: &[&str]) -> Ended {
    sql_with(workplace, "math", query, rest)
}

fn sql_with(workplace: &Workplace, name: &str, query: &str, rest: &[&str]) -> Ended {
    let module = module(name);
    let mut arguments = vec!["sql", "-q", "-m", module.to_str().expect("UTF-8"), query];
    arguments.extend(rest);
    workplace.wasmill(arguments)
}

/// Sends a text into the standard input.
fn fed(workplace: &Workplace, input: &str, arguments: &[&str]) -> Ended {
    workplace.file("stdin", input);
    let file = std::fs::File::open(workplace.path("stdin")).expect("a file");
    workplace.run(workplace.command(arguments).stdin(file))
}

#[test]
fn functions_are_called_over_files_by_both_names() {
    let workplace = workplace();
    let query = "SELECT a, gcd(a, b) AS g, math.gcd(a, 6) AS h FROM 'in.csv' ORDER BY a DESC";
    let rows = sql(&workplace, query, &[]).success().stdout();
    assert_eq!(rows, "a,g,h\n18,6,6\n12,4,6\n7,7,1\n");
    let math = module("math");
    let named = format!("m={}", math.display());
    let query = "SELECT max(m.gcd(a, b)) AS g FROM t";
    let arguments = ["sql", "-m", &named, "-t", "t=in.csv", query];
    let ended = workplace.wasmill(arguments).success();
    assert_eq!(ended.stdout(), "g\n7\n");
    assert!(ended.stderr().starts_with("1 row → "), "{}", ended.stderr());
}

#[test]
fn tables_are_files_folders_patterns_several_files_and_the_standard_input() {
    let workplace = workplace();
    std::fs::create_dir(workplace.path("data")).expect("a folder");
    for name in ["x.csv", "y.csv"] {
        workplace.file(&format!("data/{name}"), NUMBERS);
    }
    for (table, name, rows) in [
        ("in.csv", "\"in\"", 3),
        ("data", "data", 6),
        ("p=data/*.csv", "p", 6),
        ("data/x.csv", "x", 3),
    ] {
        let query = format!("SELECT count(*) AS n FROM {name}");
        let ended = workplace.wasmill(["sql", "-q", "-t", table, &query]);
        assert_eq!(ended.success().stdout(), format!("n\n{rows}\n"), "{table}");
    }
    let both = "SELECT count(*) AS n FROM t";
    let arguments = ["sql", "-q", "-t", "t=in.csv", "-t", "t=data/x.csv", both];
    assert_eq!(workplace.wasmill(arguments).success().stdout(), "n\n6\n");
    // What can be read once is read twice all the same.
    let join = "SELECT sum(x.b + y.b) AS s FROM stdin x JOIN stdin y USING (a)";
    let ended = fed(&workplace, NUMBERS, &["sql", "-q", "-t", "-", join]);
    assert_eq!(ended.success().stdout(), "s\n40\n");
    let refused = workplace.wasmill(["sql", "-t", "data/*.csv", "SELECT 1"]);
    assert!(refused.failure(2).contains("-t 'NAME=data/*.csv'"));
}

#[test]
fn each_format_is_written_and_read_again() {
    let workplace = workplace();
    for name in [
        "x.parquet",
        "x.csv",
        "x.json",
        "x.jsonl",
        "x.arrow",
        "x.arrows",
    ] {
        let query = "SELECT a, gcd(a, b) AS g FROM 'in.csv'";
        sql(&workplace, query, &["-o", name]).success();
        let again = format!("SELECT sum(g) AS s, count(*) AS n FROM '{name}'");
        let rows = sql(&workplace, &again, &["--format", "jsonl"]).success();
        assert_eq!(rows.stdout(), "{\"s\":17,\"n\":3}\n", "{name}");
    }
    let table = sql(&workplace, "SELECT 1 AS x", &["--format", "table"]).success();
    assert_eq!(table.stdout(), "+---+\n| x |\n+---+\n| 1 |\n+---+\n");
}

#[test]
fn statements_create_functions_tables_views_and_files() {
    let workplace = workplace();
    let folder = module("math");
    let folder = folder.parent().and_then(Path::to_str).expect("UTF-8");
    let script = "
        CREATE FUNCTION g(BIGINT, BIGINT) RETURNS BIGINT LANGUAGE WASM AS 'math.wasm#gcd';
        CREATE VIEW v AS SELECT * FROM 'in.csv';  -- a comment; with a semicolon
        CREATE TABLE t AS SELECT a, g(a, b) AS g FROM v;
        COPY (SELECT g FROM t WHERE g > 4 ORDER BY g) TO 'g.parquet';
        COPY t TO 'all' STORED AS JSONL;
        SELECT * FROM 'g.parquet';
        DROP FUNCTION g;
        SELECT count(*) AS n FROM t;";
    workplace.file("script.sql", script);
    let arguments = ["sql", "-q", "--allow-modules", folder, "-f", "script.sql"];
    let ended = workplace.wasmill(arguments).success();
    assert_eq!(ended.stdout(), "g\n6\n7\nn\n3\n");
    let all = std::fs::read_to_string(workplace.path("all")).expect("a file");
    assert_eq!(all.lines().count(), 3);
    assert_eq!(
        workplace.files(),
        ["all", "g.parquet", "in.csv", "script.sql"]
    );
}

#[test]
fn functions_come_only_from_folders_that_are_allowed() {
    let workplace = workplace();
    let math = module("math");
    let create = format!(
        "CREATE FUNCTION g() LANGUAGE WASM AS '{}#gcd'; SELECT g(12, 18) AS x",
        math.display()
    );
    let said = workplace.wasmill(["sql", &create]).failure(2);
    assert!(said.contains("--allow-modules"), "{said}");
    // The folder of a module that was named is one.
    assert_eq!(sql(&workplace, &create, &[]).success().stdout(), "x\n6\n");
    let pinned = create.replace("#gcd", &format!("#gcd?sha256={}", "0".repeat(64)));
    let said = sql(&workplace, &pinned, &[]).failure(4);
    assert!(said.starts_with("error: statement 1 of 2: "), "{said}");
    let missing = create.replace("math.wasm", "nothing.wasm");
    assert!(
        sql(&workplace, &missing, &[])
            .failure(3)
            .contains("nothing.wasm")
    );
}

#[test]
fn names_that_do_not_exist_are_told_with_the_nearest() {
    let workplace = workplace();
    for (query, code, said) in [
        (
            "SELECT 1 FROM number",
            2,
            ["there is no table `number`", "did you mean `numbers`"],
        ),
        (
            "SELECT 1 FROM 'nothing.csv'",
            3,
            ["cannot read nothing.csv", "the tables are `numbers`"],
        ),
        (
            "SELECT gdc(a, b) FROM numbers",
            2,
            ["there is no function `gdc`", "did you mean `gcd`"],
        ),
        (
            "SELECT aa FROM numbers",
            2,
            ["No field named aa", "numbers.a"],
        ),
        (
            "SELECT gcd(a, 'x') FROM numbers",
            2,
            ["cannot take (a: Int64, b: Utf8)", "gcd(Int64, Int64)"],
        ),
        (
            "SELEC 1",
            2,
            ["the query cannot be read", "Line: 1, Column: 1"],
        ),
        (
            "SET wasmill.slot = 2",
            2,
            ["no setting wasmill.slot", "did you mean wasmill.slots"],
        ),
        (
            "SELECT a / b FROM numbers",
            1,
            ["division by zero", "NULLIF"],
        ),
        (
            "DROP FUNCTION nothing",
            2,
            ["no such function", "SHOW FUNCTIONS"],
        ),
        (
            "SELECT 1 FROM in.csv",
            2,
            ["there is no table `in.csv`", "FROM 'in.csv'"],
        ),
        (
            "CREATE VIEW v AS SELECT 1; CREATE VIEW v AS SELECT 1",
            2,
            ["statement 2 of 2", "CREATE OR REPLACE"],
        ),
        ("BEGIN", 2, ["this cannot be done", "BEGIN"]),
        (
            "COPY numbers TO 'x.txt'",
            2,
            ["format of x.txt is not known", ".parquet"],
        ),
    ] {
        let ended = sql(&workplace, query, &["-t", "numbers=in.csv"]);
        assert_eq!(ended.stdout(), "", "{query}");
        let text = ended.stderr();
        assert_eq!(ended.code(), code, "{query}: {text}");
        assert!(
            said.iter().all(|part| text.contains(part)),
            "{query}: {text}"
        );
    }
    let json = workplace.wasmill(["sql", "--json", "SELECT 1 FROM nothing"]);
    let text: serde_json::Value = serde_json::from_str(&json.stderr()).expect("JSON");
    assert_eq!(text["error"], "there is no table `nothing`");
    assert_eq!(text["exit_code"], 2);
}

#[test]
fn nothing_is_done_where_a_statement_or_its_place_is_wrong() {
    let workplace = workplace();
    let before = workplace.files();
    let malformed = "COPY (SELECT 1 AS x) TO 'x.csv'; SELEC 2";
    sql(&workplace, malformed, &[]).failure(2);
    for (query, said) in [
        ("SELECT 1; SELECT 2", "2 statements give rows"),
        ("SET wasmill.slots = 1", "no statement gives rows"),
        ("", "there is no statement"),
    ] {
        let refused = sql(&workplace, query, &["-o", "x.csv"]).failure(2);
        assert!(refused.contains(said), "{refused}");
    }
    let twice = "SELECT x.a, y.a FROM 'in.csv' x JOIN 'in.csv' y USING (b)";
    let refused = sql(&workplace, twice, &["-o", "x.json"]).failure(2);
    assert!(refused.contains("two columns `a`"), "{refused}");
    // A failing row leaves no part of a file, from -o and from COPY alike.
    sql(
        &workplace,
        "SELECT div(a, b) AS d FROM 'in.csv'",
        &["-o", "x.csv"],
    )
    .failure(1);
    sql(
        &workplace,
        "COPY (SELECT div(a, b) AS d FROM 'in.csv') TO 'x.csv'",
        &[],
    )
    .failure(1);
    assert_eq!(workplace.files(), before);
}

#[test]
fn rows_that_fail_are_null_where_that_is_asked_for() {
    let workplace = workplace();
    let query = "SELECT div(a, b) AS d FROM 'in.csv'";
    let said = sql(&workplace, query, &[]).stderr();
    assert!(said.contains("division by zero"), "{said}");
    assert!(said.contains("SET wasmill.on_error = 'null'"), "{said}");
    let rows = "d\n1\n1\n\"\"\n";
    let ended = sql(&workplace, query, &["--on-error", "null"]);
    assert_eq!(ended.success().stdout(), rows);
    let set = format!("SET wasmill.on_error = 'null'; {query}");
    assert_eq!(sql(&workplace, &set, &[]).success().stdout(), rows);
    let few = ["--on-error", "null", "--max-errors", "0"];
    assert_eq!(sql(&workplace, query, &few).code(), 1);
}

#[test]
fn a_function_is_called_only_for_rows_that_need_it() {
    let workplace = workplace();
    let query = "SELECT a, CASE WHEN b > 0 THEN div(a, b) END AS d FROM 'in.csv' ORDER BY a";
    let arguments = ["-o", "d.csv", "--metrics", "json"];
    let told = sql(&workplace, query, &arguments).success().stdout();
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["rows"], 3);
    assert_eq!(told["pools"][0]["rows"], 2);
    let file = std::fs::read_to_string(workplace.path("d.csv")).expect("a file");
    assert_eq!(file, "a,d\n7,\n12,1\n18,1\n");
}

#[test]
fn states_get_their_init_arguments_by_name() {
    let workplace = workplace();
    let query = "SELECT scale(a) AS s FROM 'in.csv' ORDER BY a";
    for init in [
        "{\"k\": 2}",
        "Scale={\"k\": 2}",
        "scale={\"k\": 2}",
        "probe.Scale={\"k\": 2}",
    ] {
        let ended = sql_with(&workplace, "probe", query, &["--init", init]);
        assert_eq!(ended.success().stdout(), "s\n14\n24\n36\n", "{init}");
    }
    let said = sql_with(&workplace, "probe", query, &[]).failure(2);
    assert!(said.contains("k is missing"), "{said}");
    let said = sql_with(&workplace, "probe", query, &["--init", "Scal={}"]).failure(2);
    assert!(said.contains("did you mean `scale`"), "{said}");
    let said = sql(&workplace, "SELECT 1", &["--init", "{}"]).failure(2);
    assert!(said.contains("the modules have none"), "{said}");
}

#[test]
fn settings_of_the_command_line_and_of_sql_meet() {
    let workplace = workplace();
    let slots = "SELECT gcd(a, b) AS g FROM 'in.csv'";
    let pools = |query: &str, rest: &[&str]| -> serde_json::Value {
        let told = sql(
            &workplace,
            query,
            &[rest, &["-o", "x.csv", "--metrics", "json"]].concat(),
        );
        let told: serde_json::Value = serde_json::from_str(&told.success().stdout()).expect("JSON");
        told["pools"][0]["slots"].clone()
    };
    assert_eq!(pools(slots, &["--slots", "2"]), 2);
    assert_eq!(
        pools(
            &format!("SET wasmill.slots = 1; {slots}"),
            &["--slots", "2"]
        ),
        1
    );
    let too_many = "SET wasmill.slots = 2000; SELECT gcd(1, 2)";
    let said = sql(&workplace, too_many, &[]).failure(2);
    assert!(said.contains("at most"), "{said}");
    let shown = "SET datafusion.execution.batch_size = 77; SHOW datafusion.execution.batch_size";
    let shown = sql(&workplace, shown, &[]).success().stdout();
    assert!(
        shown.ends_with("datafusion.execution.batch_size,77\n"),
        "{shown}"
    );
}

#[test]
fn the_session_describes_itself() {
    let workplace = workplace();
    let tables = sql(&workplace, "SHOW TABLES", &["-t", "numbers=in.csv"]).success();
    assert!(tables.stdout().contains("public,numbers,BASE TABLE"));
    let columns = sql(&workplace, "DESCRIBE numbers", &["-t", "numbers=in.csv"]).success();
    assert_eq!(
        columns.stdout(),
        "column_name,data_type,is_nullable\na,Int64,YES\nb,Int64,YES\n"
    );
    // Also where the format has no lists.
    sql(&workplace, "SHOW FUNCTIONS", &["--format", "csv"]).success();
    let arguments = ["sql", "-q", "SHOW ALL", "--format", "jsonl"];
    let settings = workplace.wasmill(arguments).success().stdout();
    assert!(settings.contains("wasmill.slots"), "{settings}");
}

#[test]
fn statements_come_through_a_pipe() {
    let workplace = workplace();
    let ended = fed(&workplace, "SELECT 1 AS x;\nSELECT 2 AS y", &["sql", "-q"]).success();
    assert_eq!(ended.stdout(), "x\n1\ny\n2\n");
    let ended = fed(&workplace, "SELECT 1 AS x", &["sql", "-q", "-f", "-"]).success();
    assert_eq!(ended.stdout(), "x\n1\n");
    let said = fed(&workplace, "SELECT 1", &["sql", "-t", "-"]).failure(2);
    assert!(said.contains("both the statements and a table"), "{said}");
}

#[test]
fn plans_show_their_pool_stages() {
    let workplace = workplace();
    let math = module("math");
    let explain = |rest: &[&str]| {
        let query = "SELECT CASE WHEN b > 0 THEN gcd(a, b) END FROM 'in.csv'";
        let arguments = ["explain", "-m", math.to_str().expect("UTF-8"), query];
        let arguments = [&arguments, rest].concat();
        workplace.wasmill(arguments).success().stdout()
    };
    let plan = explain(&[]);
    assert!(plan.starts_with("logical plan\n"), "{plan}");
    assert!(plan.contains("\nphysical plan\n  AdmitExec: "), "{plan}");
    assert!(
        plan.contains("PoolStageExec: calls=[gcd(in.csv.a, in.csv.b) where "),
        "{plan}"
    );
    let analyzed = explain(&["--analyze"]);
    assert!(analyzed.contains("math.rows=2"), "{analyzed}");
    let json: serde_json::Value = serde_json::from_str(&explain(&["--json"])).expect("JSON");
    assert_eq!(json["plans"][1]["plan_type"], "physical_plan");
    // The statement does the same, and settings before a query count.
    let explained = sql(&workplace, "EXPLAIN SELECT gcd(a, b) FROM 'in.csv'", &[]).success();
    assert!(explained.stdout().contains("PoolStageExec"));
    let set = "SET wasmill.batch_size = 7; SELECT gcd(a, b) FROM 'in.csv'";
    let arguments = ["explain", "-m", math.to_str().expect("UTF-8"), set];
    let plan = workplace.wasmill(arguments).success().stdout();
    assert!(plan.contains("batch_size=7"), "{plan}");
    let two = workplace
        .wasmill(["explain", "SELECT 1; SELECT 2"])
        .failure(2);
    assert!(two.contains("only the last statement"), "{two}");
}

#[test]
fn large_and_deep_queries_are_planned_or_refused() {
    let workplace = workplace();
    let many: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let list = format!("SELECT 1 AS x WHERE 7 IN ({})", many.join(", "));
    assert_eq!(
        fed(&workplace, &list, &["sql", "-q"]).success().stdout(),
        "x\n1\n"
    );
    let union = vec!["SELECT gcd(4, 6) AS x"; 150].join(" UNION ALL ");
    let union = format!("SELECT sum(x) AS s FROM ({union}) t");
    let math = module("math");
    let ended = fed(
        &workplace,
        &union,
        &["sql", "-q", "-m", math.to_str().expect("UTF-8")],
    );
    assert_eq!(ended.success().stdout(), "s\n300\n");
    for deep in [
        format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000)),
        format!("SELECT {}1", "1 + ".repeat(5_000)),
        format!("SELECT {}true", "NOT ".repeat(1_500)),
        format!(
            "{}SELECT 1{}",
            "SELECT * FROM (".repeat(300),
            ") t".repeat(300)
        ),
    ] {
        fed(&workplace, &deep, &["sql", "-q"]).failure(2);
    }
}

#[test]
fn an_interrupt_ends_the_query_and_leaves_no_file() {
    let workplace = workplace();
    let probe = module("probe");
    let query = "COPY (SELECT spin(a) AS s FROM 'in.csv') TO 'x.csv'";
    let before = workplace.files();
    let arguments = [
        "sql",
        "--timeout",
        "60s",
        "-m",
        probe.to_str().expect("UTF-8"),
        query,
    ];
    let mut child = workplace.command(arguments).spawn().expect("wasmill runs");
    let deadline = Instant::now() + Duration::from_secs(60);
    // The folder for the output is made right before the query is run.
    while workplace.files() == before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert_eq!(workplace.files(), before);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let workplace = workplace();
    let query = "SELECT value FROM generate_series(1, 100000000)";
    let mut command = workplace.command(["sql", "-q", "--format", "jsonl", query]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("wasmill runs");
    let mut first = [0; 12];
    let mut stdout = child.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut stdout, &mut first).expect("a row");
    assert_eq!(&first[..12], b"{\"value\":1}\n");
    drop(stdout);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// A terminal, as `script` makes one.
#[test]
#[cfg(target_os = "linux")]
#[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
fn a_prompt_takes_statements_and_commands() {
    let workplace = workplace();
    let wasmill = env!("CARGO_BIN_EXE_wasmill");
    let math = module("math");
    let command = format!("{wasmill} sql -q -m {} -t numbers=in.csv", math.display());
    let mut script = Command::new("script");
    script
        .args(["-qec", &command, "/dev/null"])
        .current_dir(workplace.path("."))
        .env("XDG_STATE_HOME", workplace.path("state"))
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let Ok(mut child) = script.spawn() else {
        eprintln!("SKIPPED: no prompt without `script`");
        return;
    };
    let mut typed = child.stdin.take().expect("a pipe");
    let lines =
        "SELECT gcd(a, b) AS g\nFROM numbers WHERE a = 18;\nSELECT oops;\n\\d numbers\n\\df\n\\q\n";
    typed.write_all(lines.as_bytes()).expect("typed");
    let ended = child.wait_with_output().expect("it ends");
    drop(typed);
    let shown = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{shown}");
    for part in [
        "| g |",
        "| 6 |",
        "No field named oops",
        "| a           | Int64",
        "gcd(Int32, Int32)",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let history = std::fs::read_to_string(workplace.path("state/wasmill/history"));
    assert!(history.expect("a history").contains("SELECT oops;"));
}
