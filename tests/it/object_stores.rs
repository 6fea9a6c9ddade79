//! Inputs and outputs in object stores: a small server plays S3 and a web server.

mod server;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::{Ended, Workplace, module};
use crate::cli_odd_input::nested_parquet;
use server::Server;

/// `a,b` and `rows` rows; the divisor of row `zero` is 0.
fn csv(rows: usize, zero: Option<usize>) -> String {
    let mut text = "a,b\n".to_owned();
    for row in 0..rows {
        let b = if zero == Some(row) { 0 } else { row % 7 + 1 };
        text.push_str(&format!("{},{b}\n", row * 12));
    }
    text
}

/// `wasmill run MATH UDF …` with the server as S3, and no other settings than these.
fn command(workplace: &Workplace, server: &Server, udf: &str, arguments: &[&str]) -> Command {
    let math = module("math");
    let mut all = vec!["run", math.to_str().unwrap(), udf];
    all.extend(arguments);
    let mut command = workplace.command(all);
    for (name, _) in std::env::vars() {
        if name.starts_with("AWS_") || name.to_ascii_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command
        .env("AWS_ENDPOINT", server.url())
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret");
    command
}

fn run(workplace: &Workplace, server: &Server, udf: &str, arguments: &[&str]) -> Ended {
    workplace.run(&mut command(workplace, server, udf, arguments))
}

/// What a run over the local file gives as CSV.
fn expected(workplace: &Workplace, server: &Server, udf: &str, file: &str) -> String {
    run(workplace, server, udf, &["-i", file, "--format", "csv"])
        .success()
        .stdout()
}

#[test]
fn every_format_is_read_from_a_store_and_from_a_web_server() {
    let (workplace, server) = (Workplace::new(), Server::start());
    workplace.file("in.csv", csv(5_000, None));
    let whole = expected(&workplace, &server, "gcd", "in.csv");
    for file in [
        "in.parquet",
        "in.jsonl",
        "in.json",
        "in.arrow",
        "in.arrows",
        "in.csv",
    ] {
        if file != "in.csv" {
            let arguments = ["-i", "in.csv", "-o", file, "--select", "a,b"];
            run(&workplace, &server, "gcd", &arguments).success();
        }
        let bytes = fs::read(workplace.path(file)).unwrap();
        server.put(&format!("bucket/some folder/{file}"), &bytes);
        let web = format!(
            "{}/bucket/some%20folder/{file}?signature=s3cr3t",
            server.url()
        );
        for input in [format!("s3://bucket/some folder/{file}"), web] {
            let read = run(
                &workplace,
                &server,
                "gcd",
                &["-i", &input, "--format", "csv"],
            );
            assert_eq!(read.success().stdout(), whole, "{input}");
        }
    }
}

#[test]
fn of_a_parquet_object_only_what_is_needed_is_fetched() {
    let (workplace, server) = (Workplace::new(), Server::start());
    // Texts of random-looking digits are most of the file, and are not asked for.
    let mut text = "a,b,text\n".to_owned();
    for row in 0_u64..120_000 {
        let noise = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text.push_str(&format!("{row},12,{noise:x}{:x}\n", noise.rotate_left(17)));
    }
    workplace.file("in.csv", text);
    run(
        &workplace,
        &server,
        "gcd",
        &["-i", "in.csv", "-o", "in.parquet", "--select", "text,a,b"],
    )
    .success();
    let bytes = fs::read(workplace.path("in.parquet")).unwrap();
    server.put("bucket/in.parquet", &bytes);
    let arguments = [
        "-i",
        "s3://bucket/in.parquet",
        "-o",
        "out.parquet",
        "--select",
        "gcd",
        "-q",
    ];
    run(&workplace, &server, "gcd", &arguments).success();
    assert!(bytes.len() > 2_000_000, "{}", bytes.len());
    let (ranged, whole): (Vec<_>, Vec<_>) = server
        .requests("GET")
        .into_iter()
        .partition(|request| request.ranged);
    // The format is known from the first bytes; the connection is closed after them.
    assert_eq!(whole.len(), 1);
    let sent: usize = ranged.iter().map(|request| request.sent).sum();
    assert!(0 < sent && sent < bytes.len(), "{sent} of {}", bytes.len());
}

#[test]
fn objects_are_trusted_no_more_than_files() {
    let (workplace, server) = (Workplace::new(), Server::start());
    nested_parquet(&workplace, "deep.parquet", 200);
    let deep = fs::read(workplace.path("deep.parquet")).unwrap();
    server.put("bucket/deep.parquet", &deep);
    server.put("bucket/short.parquet", b"PAR1");
    server.put("bucket/empty.csv", b"");
    let refused = |input: &str| run(&workplace, &server, "gcd", &["-i", input]).failure(3);
    let said = refused("s3://bucket/deep.parquet");
    assert!(said.contains("nest 201 levels deep"), "{said}");
    let said = refused("s3://bucket/short.parquet");
    assert!(
        said.contains("s3://bucket/short.parquet cannot be decoded"),
        "{said}"
    );
    let said = refused("s3://bucket/empty.csv");
    assert!(said.contains("it is empty"), "{said}");
}

#[test]
fn prefixes_and_patterns_name_objects_in_the_order_of_their_names() {
    let (workplace, server) = (Workplace::new(), Server::start());
    for (key, row) in [
        ("days/2.csv", "20,4"),
        ("days/1.csv", "10,4"),
        ("days/more/3.csv", "30,4"),
        ("days/_notes.csv", "x"),
        ("days/readme.md", "x"),
        ("other/1.csv", "9,9"),
    ] {
        server.put(&format!("bucket/{key}"), format!("a,b\n{row}\n").as_bytes());
    }
    let shown = |input: &str| {
        let arguments = ["-i", input, "--format", "csv", "--select", "a", "-q"];
        run(&workplace, &server, "gcd", &arguments)
            .success()
            .stdout()
    };
    assert_eq!(shown("s3://bucket/days/"), "a\n10\n20\n");
    assert_eq!(shown("s3://bucket/days/[0-9].csv"), "a\n10\n20\n");
    assert_eq!(shown("s3://bucket/**/[0-9].csv"), "a\n10\n20\n30\n9\n");
    let refused =
        |input: &str, code| run(&workplace, &server, "gcd", &["-i", input, "-q"]).failure(code);
    let nothing = refused("s3://bucket/days/*.parquet", 3);
    assert!(
        nothing.contains("no object matches the pattern"),
        "{nothing}"
    );
    let empty = refused("s3://bucket/none/", 3);
    assert!(empty.contains("it holds no data files"), "{empty}");
    let listed = refused(&format!("{}/bucket/days/*.csv", server.url()), 3);
    assert!(listed.contains("web servers do not list"), "{listed}");
}

#[test]
fn an_output_appears_whole_in_its_store() {
    let (workplace, server) = (Workplace::new(), Server::start());
    workplace.file("in.csv", csv(20_000, None));
    let whole = expected(&workplace, &server, "gcd", "in.csv");
    let web = format!("{}/bucket/web.csv?signature=s3cr3t", server.url());
    for (output, key) in [
        ("s3://bucket/out.csv", "bucket/out.csv"),
        (web.as_str(), "bucket/web.csv"),
    ] {
        let ended = run(&workplace, &server, "gcd", &["-i", "in.csv", "-o", output]).success();
        assert_eq!(String::from_utf8(server.get(key).unwrap()).unwrap(), whole);
        assert!(
            ended.stderr().contains("20,000 rows → "),
            "{}",
            ended.stderr()
        );
        assert!(!ended.stderr().contains("s3cr3t"), "{}", ended.stderr());
    }
    assert_eq!(server.open_uploads(), 0);
    // It may be one of the inputs.
    let arguments = [
        "-i",
        "s3://bucket/out.csv",
        "-o",
        "s3://bucket/out.csv",
        "--as",
        "again",
    ];
    run(&workplace, &server, "gcd", &arguments).success();
    assert!(
        server
            .get("bucket/out.csv")
            .unwrap()
            .starts_with(b"a,b,gcd,again\n")
    );
}

#[test]
fn a_large_output_is_sent_in_parts() {
    let (workplace, server) = (Workplace::new(), Server::start());
    let mut text = "text,n\n".to_owned();
    for row in 0..2_000 {
        text.push_str(&format!("{},{row}\n", "wasmill ".repeat(1_300)));
    }
    workplace.file("in.csv", text);
    let arguments = ["-i", "in.csv", "-o", "s3://bucket/out.csv"];
    run(&workplace, &server, "char_length", &arguments).success();
    assert_eq!(server.requests("PUT").len(), 2, "parts of 16 MiB");
    let arguments = ["-i", "in.csv", "-o", "out.csv"];
    run(&workplace, &server, "char_length", &arguments).success();
    let local = fs::read(workplace.path("out.csv")).unwrap();
    assert!(server.get("bucket/out.csv").unwrap() == local);
}

#[test]
fn a_run_that_fails_leaves_no_object() {
    let (workplace, server) = (Workplace::new(), Server::start());
    workplace.file("in.csv", csv(100_000, Some(99_999)));
    server.put("bucket/out.csv", b"before");
    let web = format!("{}/bucket/web.csv", server.url());
    for output in ["s3://bucket/out.csv", web.as_str()] {
        let arguments = ["-i", "in.csv", "-o", output, "-q"];
        let said = run(&workplace, &server, "div", &arguments).failure(1);
        assert!(said.contains("division by zero"), "{said}");
    }
    assert_eq!(server.get("bucket/out.csv").unwrap(), b"before");
    assert_eq!(server.get("bucket/web.csv"), None);
    assert_eq!(server.begun_uploads(), 1);
    assert_eq!(server.open_uploads(), 0, "the upload is taken back");
}

#[test]
fn a_part_that_is_refused_ends_the_run_and_the_upload() {
    let (workplace, server) = (Workplace::new(), Server::start());
    workplace.file("in.csv", csv(1_000, None));
    server.refuse("PUT", "bucket/full.csv", 403);
    let arguments = ["-i", "in.csv", "-o", "s3://bucket/full.csv"];
    let said = run(&workplace, &server, "gcd", &arguments).failure(3);
    assert!(
        said.starts_with("error: cannot write s3://bucket/full.csv: access is refused: 403"),
        "{said}"
    );
    assert_eq!((server.begun_uploads(), server.open_uploads()), (1, 0));
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_no_object() {
    let (workplace, server) = (Workplace::new(), Server::start());
    let arguments = [
        "--input-format",
        "csv",
        "--flush",
        "10ms",
        "-o",
        "s3://bucket/out.csv",
        "-q",
    ];
    let mut running: Child = command(&workplace, &server, "gcd", &arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut rows = running.stdin.take().unwrap();
    std::io::Write::write_all(&mut rows, csv(10, None).as_bytes()).unwrap();
    let patience = Instant::now();
    while server.begun_uploads() == 0 && patience.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let kill = ["-INT".to_owned(), running.id().to_string()];
    assert!(Command::new("kill").args(kill).status().unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    drop(rows);
    assert_eq!((server.begun_uploads(), server.open_uploads()), (1, 0));
    assert_eq!(server.get("bucket/out.csv"), None);
}

#[test]
fn what_a_store_says_is_told_in_a_line_with_what_to_do() {
    let (workplace, server) = (Workplace::new(), Server::start());
    server.put("bucket/in.csv", csv(10, None).as_bytes());
    server.refuse("GET", "bucket/secret.csv", 403);
    server.put("bucket/secret.parquet", b"PAR1");
    server.refuse("HEAD", "bucket/secret.parquet", 403);
    let web = format!("{}/bucket/none.csv?signature=s3cr3t", server.url());
    let said = |input: &str| {
        let said = run(&workplace, &server, "gcd", &["-i", input]).failure(3);
        said.replace(&server.url(), "http://SERVER")
    };
    let all = [
        said("s3://bucket/none.csv"),
        said("s3://bucket/secret.csv"),
        said(&web),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: cannot read s3://bucket/none.csv: there is no such object: 404 Not Found (NoSuchKey: The specified key does not exist.); check the address

    error: cannot read s3://bucket/secret.csv: access is refused: 403 Forbidden (AccessDenied: Access Denied); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT as needed, or AWS_SKIP_SIGNATURE=true for what is public

    error: cannot read http://SERVER/bucket/none.csv: there is no such object: 404 Not Found (NoSuchKey: The specified key does not exist.); check the address
    "#);
    assert!(said("s3://bucket/none.parquet").contains("there is no such object: 404"));
    let denied = run(
        &workplace,
        &server,
        "gcd",
        &[
            "-i",
            "s3://bucket/secret.parquet",
            "--input-format",
            "parquet",
        ],
    );
    assert!(denied.failure(3).contains("access is refused: 403"));
    // Found, and refused where DataFusion reads it.
    server.put("bucket/locked.parquet", b"PAR1 and more than a footer");
    server.refuse("GET", "bucket/locked.parquet", 403);
    let arguments = [
        "-i",
        "s3://bucket/locked.parquet",
        "--input-format",
        "parquet",
    ];
    let locked = run(&workplace, &server, "gcd", &arguments).failure(3);
    assert!(
        locked.starts_with("error: cannot read s3://bucket/locked.parquet: access is refused: 403"),
        "{locked}"
    );
    server.refuse("POST", "bucket/refused.csv", 403);
    let arguments = ["-i", "s3://bucket/in.csv", "-o", "s3://bucket/refused.csv"];
    let output = run(&workplace, &server, "gcd", &arguments).failure(3);
    assert!(
        output.contains("cannot write s3://bucket/refused.csv: access is refused"),
        "{output}"
    );
}

#[test]
fn addresses_that_cannot_be_meant_are_errors_of_usage() {
    let (workplace, server) = (Workplace::new(), Server::start());
    workplace.file("in.csv", csv(10, None));
    let said = |arguments: &[&str]| run(&workplace, &server, "gcd", arguments).failure(2);
    let all = [
        said(&["-i", "ftp://example.org/in.csv"]),
        said(&["-i", "s3:///in.csv"]),
        said(&["-i", "https://me:s3cr3t@example.org/in.csv?sig=s3cr3t"]),
        said(&[
            "-i",
            "in.csv",
            "--on-error",
            "dead-letter=https://example.org/failed.csv?sig=s3cr3t",
        ]),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: cannot read ftp://example.org/in.csv: `ftp://` is not known; there are s3://, gs://, az://, abfs://, abfss://, https:// and http://, and files are named by their path

    error: cannot read s3:///in.csv: it names no bucket or host; write it as in s3://bucket/key.parquet

    error: cannot read https://example.org/in.csv: names and passwords in addresses are not used; leave out what stands before the @

    error: dead letters cannot go to https://example.org/failed.csv: they are written to a file
    hint: name a file of this machine, as in dead-letter=failed.csv, and copy it afterwards
    "#);
    assert!(!all.join("").contains("s3cr3t"));
}

#[test]
fn a_store_that_is_not_there_is_given_up_soon() {
    let (workplace, server) = (Workplace::new(), Server::start());
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for input in [
        "s3://bucket/in.csv",
        &format!("{nobody}/in.parquet?signature=s3cr3t"),
    ] {
        let begun = Instant::now();
        let said = workplace
            .run(
                command(&workplace, &server, "gcd", &["-i", input, "-q"])
                    .env("AWS_ENDPOINT", &nobody),
            )
            .failure(3);
        assert!(said.contains("the store cannot be reached"), "{said}");
        assert!(!said.contains("s3cr3t"), "{said}");
        assert!(
            begun.elapsed() < Duration::from_secs(45),
            "{:?}",
            begun.elapsed()
        );
    }
}

#[test]
fn plain_http_for_a_store_must_be_allowed() {
    let (workplace, server) = (Workplace::new(), Server::start());
    let said = workplace
        .run(
            command(&workplace, &server, "gcd", &["-i", "s3://bucket/in.csv"])
                .env_remove("AWS_ALLOW_HTTP"),
        )
        .failure(3);
    assert!(said.contains("AWS_ALLOW_HTTP=true"), "{said}");
    assert!(server.requests("GET").is_empty());
}
