//! The server of the page: this machine only, one small request a connection, a handful at a time.

mod api;
mod guard;
mod http;

use crate::page;
use api::App;
use guard::{Guard, random_word};
use http::{Answer, Refused};
use std::io::{self, Read};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Connections that are answered at a time.
const CONNECTIONS_MAX: usize = 32;

/// How long a request may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    token: String,
    port: u16,
}

struct Shared {
    guard: Guard,
    app: Mutex<App>,
    open: AtomicUsize,
}

impl Server {
    /// Listens on the loopback address; port 0 takes one that is free.
    pub fn bind(port: u16) -> Result<Server, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|e| format!("port {port} of this machine cannot be had: {e}"))?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let token = random_word()?;
        let shared = Shared {
            guard: Guard::new(port, token.clone()),
            app: Mutex::new(App::default()),
            open: AtomicUsize::new(0),
        };
        Ok(Server { listener, shared: Arc::new(shared), token, port })
    }

    /// The address to open, with its token.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Answers requests for ever.
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
        let open = shared.open.fetch_add(1, Ordering::SeqCst);
        if open >= CONNECTIONS_MAX {
            shared.open.fetch_sub(1, Ordering::SeqCst);
            let _ = Answer::text(503, "too many connections\n").write(&mut stream);
            return;
        }
        // A connection that breaks concerns only the one who opened it.
        std::thread::spawn(move || {
            let _ = shared.serve(&mut stream);
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

impl Shared {
    fn serve(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let answer = match http::read(stream) {
            Ok(None) => return Ok(()),
            Ok(Some(request)) => self
                .answer(&request)
                .unwrap_or_else(|Refused { status, why }| Answer::text(status, &format!("{why}\n"))),
            Err(Refused { status, why }) => Answer::text(status, &format!("{why}\n")),
        };
        answer.write(stream)?;
        stream.shutdown(Shutdown::Write)?;
        drain(stream)
    }

    fn answer(&self, request: &http::Request) -> Result<Answer, Refused> {
        let path = self.guard.admit(request)?;
        if path.is_empty() && request.method == "GET" {
            let nonce = random_word().map_err(|_| http::refused(503, "no random bytes"))?;
            let body = page::html(&nonce).into_bytes();
            return Ok(Answer { status: 200, kind: "text/html; charset=utf-8", body, nonce: Some(nonce) });
        }
        let Some(call) = path.strip_prefix("api/") else {
            return Err(http::refused(404, "there is no such page"));
        };
        // A call that panicked left whole runs behind: it makes them before it keeps them.
        let mut app = self.app.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match app.call(request, call)? {
            Ok(value) => Answer::json(200, &value),
            Err(why) => Answer::json(422, &serde_json::json!({ "error": why })),
        })
    }
}

/// Takes what the other side still sends, within bounds: a connection closed with bytes unread would be
/// reset, and the answer lost.
fn drain(stream: &mut TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
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
    use std::io::Write;

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
