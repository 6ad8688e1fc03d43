//! The server of the page: this machine only, one small request a connection, a handful at a time.

mod api;
mod guard;
mod http;

use crate::page;
use api::App;
use guard::{Guard, random_word};
use http::{Answer, Refused};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most requests that are answered at a time.
const ANSWERS_MAX: usize = 32;

/// Most connections whose requests have not arrived. If one more opens, the oldest is closed, so silent
/// connections cannot keep others out.
const WAITING_MAX: usize = 32;

/// Longest time for receiving a whole request, and for sending an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server on the loopback address.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    token: String,
    port: u16,
}

struct Shared {
    guard: Guard,
    app: App,
    answering: AtomicUsize,
    waiting: Mutex<Waiting>,
}

/// The connections whose requests have not arrived, the oldest first.
#[derive(Default)]
struct Waiting {
    made: u64,
    streams: VecDeque<(u64, TcpStream)>,
}

impl Server {
    /// Listens on the loopback address; port 0 takes a free one.
    pub fn bind(port: u16) -> Result<Server, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|e| format!("port {port} of this machine cannot be had: {e}"))?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let token = random_word()?;
        let shared = Shared {
            guard: Guard::new(port, token.clone()),
            app: App::default(),
            answering: AtomicUsize::new(0),
            waiting: Mutex::default(),
        };
        Ok(Server { listener, shared: Arc::new(shared), token, port })
    }

    /// The address to open, with its token.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Answers requests without end.
    pub fn run(&self) -> Result<(), String> {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) if peer.ip().is_loopback() => self.take(stream),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("the server cannot listen: {e}")),
            }
        }
    }

    fn take(&self, mut stream: TcpStream) {
        let shared = self.shared.clone();
        let Ok(ticket) = shared.wait_for(&stream) else { return };
        // A connection that breaks concerns only the one who opened it.
        std::thread::spawn(move || {
            let _ = shared.serve(&mut stream, ticket);
            shared.has_come(ticket);
        });
    }
}

/// A connection with a deadline for all its bytes, so single bytes now and then cannot prolong it.
struct Until<'a> {
    stream: &'a mut TcpStream,
    end: Instant,
}

impl Until<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(bytes)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Shared {
    /// Registers a connection whose request has not arrived, and closes the oldest if there are too many.
    fn wait_for(&self, stream: &TcpStream) -> io::Result<u64> {
        let stream = stream.try_clone()?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.made += 1;
        let ticket = waiting.made;
        waiting.streams.push_back((ticket, stream));
        if waiting.streams.len() > WAITING_MAX
            && let Some((_, oldest)) = waiting.streams.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        Ok(ticket)
    }

    /// Removes a connection whose request arrived or never will.
    fn has_come(&self, ticket: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.streams.retain(|stream| stream.0 != ticket);
    }

    fn serve(&self, stream: &mut TcpStream, ticket: u64) -> io::Result<()> {
        let refusal = |Refused { status, why }| Answer::text(status, &format!("{why}\n"));
        let request = http::read(&mut Until { stream, end: Instant::now() + PATIENCE });
        let answer = match request {
            Ok(None) => return Ok(()),
            Ok(Some(request)) => self.answer(&request, ticket).unwrap_or_else(refusal),
            Err(refused) => refusal(refused),
        };
        answer.write(&mut Until { stream, end: Instant::now() + PATIENCE })?;
        stream.shutdown(Shutdown::Write)?;
        drain(&mut Until { stream, end: Instant::now() + Duration::from_millis(200) })
    }

    fn answer(&self, request: &http::Request, ticket: u64) -> Result<Answer, Refused> {
        let path = self.guard.admit(request)?;
        // Who has the token is not ended by those who have not.
        self.has_come(ticket);
        let _place = Place::take(&self.answering)?;
        if path.is_empty() && request.method == "GET" {
            let nonce = random_word().map_err(|_| http::refused(503, "no random bytes"))?;
            let body = page::html(&nonce).into_bytes();
            return Ok(Answer { status: 200, kind: "text/html; charset=utf-8", body, nonce: Some(nonce) });
        }
        let Some(call) = path.strip_prefix("api/") else {
            return Err(http::refused(404, "there is no such page"));
        };
        Ok(match self.app.call(request, call)? {
            Ok(value) => Answer::json(200, &value),
            Err(why) => Answer::json(422, &serde_json::json!({ "error": why })),
        })
    }
}

/// One of the answers that may run at a time.
struct Place<'a>(&'a AtomicUsize);

impl Place<'_> {
    fn take(answering: &AtomicUsize) -> Result<Place<'_>, Refused> {
        let place = Place(answering);
        match answering.fetch_add(1, Ordering::SeqCst) {
            0..ANSWERS_MAX => Ok(place),
            _ => Err(http::refused(503, "too many requests at a time")),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reads what the client still sends, within bounds. Closing a connection with unread bytes would reset it
/// and lose the answer.
fn drain(stream: &mut Until<'_>) -> io::Result<()> {
    let mut chunk = [0; 4096];
    for _ in 0..64 {
        if stream.read(&mut chunk)? == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(server: &Server, text: &[u8]) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
        // The server may have answered and gone before all of it was sent.
        let _ = stream.write_all(text);
        let _ = stream.shutdown(Shutdown::Write);
        let mut out = Vec::new();
        let _ = stream.read_to_end(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn running() -> Arc<Server> {
        let server = Arc::new(Server::bind(0).unwrap());
        let own = server.clone();
        std::thread::spawn(move || own.run());
        server
    }

    #[test]
    fn garbage_and_strangers_are_refused_and_the_server_lives_on() {
        let server = running();
        let (port, token) = (server.port, server.token.clone());
        let status =
            |text: &str| ask(&server, text.as_bytes()).split(' ').nth(1).unwrap_or("none").to_string();
        let get = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let own = format!("127.0.0.1:{port}");
        assert_eq!(status(&get(&format!("/{token}/"), &own)), "200");
        assert_eq!(status(&get("/wrong/", &own)), "404");
        assert_eq!(status(&get(&format!("/{token}/"), "evil.example")), "421");
        let origin = format!("GET /{token}/ HTTP/1.1\r\nHost: {own}\r\nOrigin: http://evil.example\r\n\r\n");
        assert_eq!(status(&origin), "403");
        assert_eq!(status("\r\n\r\n"), "400");
        assert_eq!(status("GET / HTTP/1.1 more\r\n\r\n"), "400");
        assert_eq!(status("GET / HTTP/1.1\r\nno colon\r\n\r\n"), "400");
        assert_eq!(status("GET / HTTP/1.1\r\nHost: x"), "400");
        assert_eq!(status(""), "none");
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000))), "431");
        let post = |head: &str| {
            format!(
                "POST /{token}/api/run HTTP/1.1\r\nHost: {own}\r\nContent-Type: application/json\r\n{head}\r\n\r\n"
            )
        };
        assert_eq!(status(&post("Content-Length: 70000")), "413");
        assert_eq!(status(&post("Content-Length: 99999999999999999999999")), "413");
        assert_eq!(status(&post("Content-Length: -1")), "400");
        assert_eq!(status(&post("Content-Length: 1\r\nContent-Length: 2")), "400");
        assert_eq!(status(&post("Transfer-Encoding: chunked")), "501");
        assert_eq!(status(&post("Content-Length: 5")), "400");
        assert_eq!(status(&(post("Content-Length: 4") + "nope")), "400");
        assert!(!ask(&server, &[0xff; 3000]).contains("200"));
        assert_eq!(status(&get(&format!("/{token}/api/about"), &own)), "200");
    }

    #[test]
    fn connections_that_drip_keep_nobody_out_and_end() {
        let server = running();
        let address = (Ipv4Addr::LOCALHOST, server.port);
        let mut slow: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
        let get =
            format!("GET /{}/api/about HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", server.token, server.port);
        for byte in b"POST / HTTP/1.1" {
            for stream in &mut slow {
                let _ = stream.write_all(&[*byte]);
            }
            let answer = ask(&server, get.as_bytes());
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            std::thread::sleep(Duration::from_millis(100));
        }
        // A byte now and then does not make a request last: all have an answer, or were ended for others.
        for stream in &mut slow {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut out = Vec::new();
            let mut drips = 2 * PATIENCE.as_millis() / 20;
            while drips > 0 && stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
                drips -= 1;
            }
            assert!(drips > 0, "a request that drips never ends");
            let _ = stream.read_to_end(&mut out);
            assert!(!String::from_utf8_lossy(&out).contains("200"));
        }
    }

    #[test]
    fn the_page_runs_only_its_own_script_and_loads_nothing() {
        let server = running();
        let text = ask(
            &server,
            format!("GET /{}/ HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", server.token, server.port).as_bytes(),
        );
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("default-src 'none'") && head.contains("frame-ancestors 'none'"));
        let nonce = head.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert_eq!(body.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        assert_eq!((body.matches("<script").count(), body.matches("<style").count()), (1, 1));
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            let allowed = body.matches("http://www.w3.org/2000/svg").count();
            let found = body.matches(outside).count() - if outside == "http://" { allowed } else { 0 };
            assert_eq!(found, 0, "{outside}");
        }
    }
}
