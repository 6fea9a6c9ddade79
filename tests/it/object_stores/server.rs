//! A server in a thread that knows as much of S3 as the tests need; a GET is a GET for web servers too.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A server that goes on as long as the process.
pub struct Server {
    address: String,
    state: Arc<Mutex<State>>,
}

/// A request that was answered.
#[derive(Clone)]
pub struct Request {
    method: String,
    path: String,
    query: String,
    /// Whether it asked for a part.
    pub ranged: bool,
    /// Bytes of the answer's body.
    pub sent: usize,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// Parts by number, of uploads that are neither completed nor taken back.
    uploads: BTreeMap<u32, BTreeMap<u32, Vec<u8>>>,
    begun: u32,
    refused: Vec<(String, String, u16)>,
    requests: Vec<Request>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Server { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Puts an object there, `BUCKET/KEY`.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.objects.insert(path.to_owned(), bytes.to_vec());
    }

    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    /// Answers such requests with a status.
    pub fn refuse(&self, method: &str, path: &str, status: u16) {
        let refusal = (method.to_owned(), path.to_owned(), status);
        self.state.lock().unwrap().refused.push(refusal);
    }

    pub fn requests(&self, method: &str) -> Vec<Request> {
        let state = self.state.lock().unwrap();
        let such = state.requests.iter().filter(|r| r.method == method);
        such.cloned().collect()
    }

    pub fn begun_uploads(&self) -> u32 {
        self.state.lock().unwrap().begun
    }

    pub fn open_uploads(&self) -> usize {
        self.state.lock().unwrap().uploads.len()
    }
}

/// Answers the requests of a connection.
fn serve(stream: TcpStream, state: &Mutex<State>) {
    let Ok(mut out) = stream.try_clone() else {
        return;
    };
    let mut input = BufReader::new(stream);
    while let Some((request, range, body)) = receive(&mut input) {
        let answer = {
            let mut state = state.lock().unwrap();
            let answer = state.answer(&request, range, body);
            let sent = answer.body.len();
            state.requests.push(Request { sent, ..request });
            answer
        };
        // HEAD tells the length of a body that it does not send.
        let mut head = format!(
            "HTTP/1.1 {} Status\r\nContent-Length: {}\r\n",
            answer.status,
            answer.length.unwrap_or(answer.body.len())
        );
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let written = out
            .write_all(head.as_bytes())
            .and_then(|()| out.write_all(&answer.body));
        if written.is_err() {
            return;
        }
    }
}

type Range = Option<(usize, usize)>;

fn receive(input: &mut impl BufRead) -> Option<(Request, Range, Vec<u8>)> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut range) = (0, None);
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "range" => {
                let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
                range = Some((from.parse().ok()?, to.parse().unwrap_or(usize::MAX)));
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let request = Request {
        method,
        path: decoded(path.trim_start_matches('/')),
        query: query.to_owned(),
        ranged: range.is_some(),
        sent: 0,
    };
    Some((request, range, body))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let code = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        match (first, tail) {
            (b'%', [a, b, after @ ..]) => {
                bytes.push(code(&[*a, *b]).expect("an escape"));
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}

#[derive(Default)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Of a body that is not sent.
    length: Option<usize>,
}

impl Answer {
    fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Answer {
            status,
            body: body.into(),
            ..Answer::default()
        }
    }

    fn error(status: u16, code: &str, message: &str) -> Self {
        let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
        Answer::of(status, body)
    }
}

impl Request {
    fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = self.query.split('&');
        pairs.find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then(|| decoded(value))
        })
    }
}

impl State {
    fn answer(&mut self, request: &Request, range: Range, body: Vec<u8>) -> Answer {
        let (method, path) = (request.method.as_str(), request.path.as_str());
        let refused = self
            .refused
            .iter()
            .find(|(m, p, _)| m == method && p == path);
        if let Some((_, _, status)) = refused {
            return Answer::error(*status, "AccessDenied", "Access Denied");
        }
        let upload = request
            .parameter("uploadId")
            .map(|id| id.parse::<u32>().expect("an upload"));
        match (method, upload) {
            ("GET" | "HEAD", _) if request.parameter("list-type").is_some() => self.list(request),
            ("GET" | "HEAD", _) => self.object(method, path, range),
            ("POST", None) => {
                self.begun += 1;
                self.uploads.insert(self.begun, BTreeMap::new());
                let id = self.begun;
                Answer::of(
                    200,
                    format!(
                        "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                    ),
                )
            }
            ("PUT", Some(id)) => {
                let number = request.parameter("partNumber").expect("a part");
                let number: u32 = number.parse().expect("a number");
                let parts = self.uploads.get_mut(&id).expect("an upload");
                parts.insert(number, body);
                let mut answer = Answer::of(200, "");
                answer.headers.push(("ETag", format!("\"{number}\"")));
                answer
            }
            ("POST", Some(id)) => {
                let parts = self.uploads.remove(&id).expect("an upload");
                let whole: Vec<u8> = parts.into_values().flatten().collect();
                self.objects.insert(path.to_owned(), whole);
                Answer::of(
                    200,
                    "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>",
                )
            }
            ("DELETE", Some(id)) => {
                self.uploads.remove(&id).expect("an upload");
                Answer::of(204, "")
            }
            ("PUT", None) => {
                self.objects.insert(path.to_owned(), body);
                Answer::of(201, "")
            }
            _ => Answer::error(405, "MethodNotAllowed", "No such method"),
        }
    }

    fn object(&self, method: &str, path: &str, range: Range) -> Answer {
        let Some(object) = self.objects.get(path) else {
            return Answer::error(404, "NoSuchKey", "The specified key does not exist.");
        };
        let mut answer = Answer::of(200, object.as_slice());
        if let Some((from, to)) = range {
            let end = to.saturating_add(1).min(object.len());
            answer = Answer::of(206, &object[from.min(end)..end]);
            let value = format!("bytes {from}-{}/{}", end - 1, object.len());
            answer.headers.push(("Content-Range", value));
        }
        let date = "Wed, 01 Jan 2025 00:00:00 GMT".to_owned();
        answer.headers.push(("Last-Modified", date));
        answer
            .headers
            .push(("ETag", format!("\"{}\"", object.len())));
        if method == "HEAD" {
            answer.length = Some(std::mem::take(&mut answer.body).len());
        }
        answer
    }

    /// Two keys a page, so that pages are turned.
    fn list(&self, request: &Request) -> Answer {
        let bucket = format!("{}/", request.path.trim_end_matches('/'));
        let prefix = request.parameter("prefix").unwrap_or_default();
        let delimited = request.parameter("delimiter").is_some();
        let after = request.parameter("continuation-token").unwrap_or_default();
        let keys: Vec<(&str, usize)> = self
            .objects
            .iter()
            .filter_map(|(path, object)| Some((path.strip_prefix(&bucket)?, object.len())))
            .filter(|(key, _)| key.starts_with(&prefix) && *key > after.as_str())
            .filter(|(key, _)| !delimited || !key[prefix.len()..].contains('/'))
            .collect();
        let more = keys.len() > 2;
        let mut body = format!("<ListBucketResult><IsTruncated>{more}</IsTruncated>");
        for (key, size) in keys.iter().take(2) {
            body.push_str(&format!(
                "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>\"{size}\"</ETag><LastModified>2025-01-01T00:00:00.000Z</LastModified></Contents>"
            ));
        }
        if more {
            let last = keys[1].0;
            body.push_str(&format!(
                "<NextContinuationToken>{last}</NextContinuationToken>"
            ));
        }
        body.push_str("</ListBucketResult>");
        Answer::of(200, body)
    }
}
