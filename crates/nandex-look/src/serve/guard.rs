//! Access control: only the browser of this machine, on the page opened with the address, may ask.
//!
//! The address has a random token, so other users of the machine cannot guess it. A page of another origin in
//! the same browser cannot read the answers and may not even ask: its `Origin` is refused. A foreign name
//! that points to this machine (DNS rebinding) comes with a foreign `Host` and is refused.

use super::http::{Refused, Request, refused};

/// The rules for accepting a request.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    port: u16,
    token: String,
}

impl Guard {
    pub(super) fn new(port: u16, token: String) -> Guard {
        Guard { port, token }
    }

    fn hosts(&self) -> [String; 3] {
        ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{}", self.port))
    }

    /// The path after the token, if the request may be answered.
    pub(super) fn admit<'a>(&self, request: &'a Request) -> Result<&'a str, Refused> {
        let host = request.header("host").unwrap_or("");
        if !self.hosts().iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return Err(refused(421, "this server answers to its own address only"));
        }
        if request.has_twice("origin") {
            return Err(refused(403, "two origins"));
        }
        if let Some(origin) = request.header("origin") {
            let is_own = self.hosts().iter().any(|own| format!("http://{own}").eq_ignore_ascii_case(origin));
            if !is_own {
                return Err(refused(403, "a page of another origin asks"));
            }
        }
        if let Some(site) = request.header("sec-fetch-site")
            && !matches!(site, "same-origin" | "none")
        {
            return Err(refused(403, "a page of another site asks"));
        }
        let rest = request.path.strip_prefix('/').unwrap_or("");
        let (token, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_same(token.as_bytes(), self.token.as_bytes()) {
            return Err(refused(404, "the address is not complete"));
        }
        match (request.method.as_str(), path) {
            ("GET", _) => Ok(path),
            ("POST", path) if path.starts_with("api/") => {
                let kind = request.header("content-type").unwrap_or("");
                if kind.split(';').next().map(str::trim) == Some("application/json") {
                    Ok(path)
                } else {
                    Err(refused(415, "a body is JSON"))
                }
            }
            _ => Err(refused(405, "GET and POST only")),
        }
    }
}

/// Compares in constant time, so that the time does not reveal how many bytes are right.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// A random word for an address, with 128 bits from the operating system.
pub(super) fn random_word() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| format!("the system gives no random bytes: {e}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
        Request {
            method: method.into(),
            path: path.into(),
            headers: headers.iter().map(|(n, v)| ((*n).to_string(), (*v).to_string())).collect(),
            ..Request::default()
        }
    }

    #[test]
    fn only_the_own_page_is_answered() {
        let guard = Guard::new(8000, "secret".into());
        let own = ("host", "127.0.0.1:8000");
        let status =
            |request: Request| guard.admit(&request).map_err(|refused| refused.status).map(str::to_string);
        assert_eq!(status(request("GET", "/secret/", &[own])), Ok(String::new()));
        assert_eq!(
            status(request("GET", "/secret/api/about", &[("host", "LOCALHOST:8000")])),
            Ok("api/about".into())
        );
        for host in ["127.0.0.1", "127.0.0.1:8001", "evil.example:8000", "127.0.0.1.evil.example:8000", ""] {
            assert_eq!(status(request("GET", "/secret/", &[("host", host)])), Err(421), "{host}");
        }
        assert_eq!(status(request("GET", "/secret/", &[])), Err(421));
        assert_eq!(status(request("GET", "/secret/", &[own, own])), Err(421));
        for origin in ["http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:80000"] {
            assert_eq!(status(request("GET", "/secret/", &[own, ("origin", origin)])), Err(403), "{origin}");
        }
        let good = ("origin", "http://127.0.0.1:8000");
        assert_eq!(status(request("GET", "/secret/x", &[own, good])), Ok("x".into()));
        assert_eq!(status(request("GET", "/secret/", &[own, ("sec-fetch-site", "cross-site")])), Err(403));
        for path in ["/", "/secre/", "/secrets/", "/Secret/", "//secret/", "/api/about"] {
            assert_eq!(status(request("GET", path, &[own])), Err(404), "{path}");
        }
        assert_eq!(status(request("DELETE", "/secret/api/run", &[own])), Err(405));
        assert_eq!(status(request("POST", "/secret/", &[own])), Err(405));
        assert_eq!(status(request("POST", "/secret/api/run", &[own])), Err(415));
        let json = ("content-type", "application/json; charset=utf-8");
        assert_eq!(status(request("POST", "/secret/api/run", &[own, json])), Ok("api/run".into()));
    }

    #[test]
    fn two_words_differ() {
        let (a, b) = (random_word().unwrap(), random_word().unwrap());
        assert!(a != b && a.len() == 32);
    }
}
