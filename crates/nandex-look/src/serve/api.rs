//! The calls of the page: runs are made, gone through, cut and looked into.

use super::http::{Refused, Request, refused};
use crate::scenes::{self, Stop};
use crate::session::{At, CutMode, Op, Session, Setup, WORKLOADS};
use crate::show;
use nandex::nand::catalogue;
use nandex_stacks::registry::{Hosting, INDEXES, Need};
use nandex_stacks::spatial::registry::SPATIAL;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most runs that are kept; the oldest is dropped first.
const RUNS_MAX: usize = 6;

/// A run; for a scene with its stops.
struct Run {
    id: u64,
    session: Session,
    stops: Vec<Stop>,
}

/// The runs of a server. Each has its own lock, so a slow call on one does not block calls on others.
#[derive(Default)]
pub(super) struct App(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    runs: VecDeque<(u64, Arc<Mutex<Run>>)>,
    made: u64,
}

/// Locks a mutex even if a call panicked. The data are still valid, because calls complete a run before
/// they store it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer of a call, or the reason why it is impossible.
type Said = Result<Value, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct More {
    id: u64,
    #[serde(default)]
    operations: usize,
    #[serde(default)]
    op: Option<Op>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cut {
    id: u64,
    at: At,
    mode: CutMode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scene {
    name: String,
}

fn body<T: DeserializeOwned>(request: &Request) -> Result<T, Refused> {
    serde_json::from_slice(&request.body).map_err(|_| refused(400, "the body is not what this call takes"))
}

fn number(request: &Request, name: &str) -> Result<u64, Refused> {
    let text = request.value(name).ok_or(refused(400, "a number is missing"))?;
    text.parse().map_err(|_| refused(400, "a number is none"))
}

fn place(request: &Request) -> Result<At, Refused> {
    Ok(At { step: number(request, "step")? as usize, event: number(request, "event")? as usize })
}

impl App {
    /// Answers a call. A malformed request is refused; an impossible one gets the reason as its answer.
    pub(super) fn call(&self, request: &Request, call: &str) -> Result<Said, Refused> {
        match (request.method.as_str(), call) {
            ("GET", "about") => Ok(Ok(about())),
            ("GET", "run") => {
                let id = number(request, "id")?;
                Ok(self.with(id, |run| Ok(show::timeline(run.id, &run.session, &run.stops))))
            }
            ("GET", "at") => {
                let (id, at) = (number(request, "id")?, place(request)?);
                Ok(self.with(id, |run| show::state(&run.session, at)))
            }
            ("GET", "page") => {
                let (id, at) = (number(request, "id")?, place(request)?);
                let page = u32::try_from(number(request, "page")?).map_err(|_| refused(400, "no page"))?;
                Ok(self.with(id, |run| show::page(&run.session, at, page)))
            }
            ("POST", "run") => {
                let setup: Setup = body(request)?;
                Ok(Session::run(setup).map(|session| self.keep(session, Vec::new())))
            }
            ("POST", "scene") => {
                let Scene { name } = body(request)?;
                Ok(scenes::play(&name).map(|(session, stops)| self.keep(session, stops)))
            }
            ("POST", "more") => Ok(self.more(&body::<More>(request)?)),
            ("POST", "cut") => {
                let Cut { id, at, mode } = body(request)?;
                let cut = self.with(id, |run| run.session.cut(at, mode));
                Ok(cut.map(|session| self.keep(session, Vec::new())))
            }
            _ => Err(refused(404, "there is no such call")),
        }
    }

    /// Works with a run while no other call can use it.
    fn with<T>(&self, id: u64, work: impl FnOnce(&mut Run) -> Result<T, String>) -> Result<T, String> {
        let found = locked(&self.0).runs.iter().find(|run| run.0 == id).map(|run| Arc::clone(&run.1));
        let run = found.ok_or_else(|| "this run is gone; start it anew".to_string())?;
        work(&mut locked(&run))
    }

    fn keep(&self, session: Session, stops: Vec<Stop>) -> Value {
        let id = {
            let mut runs = locked(&self.0);
            runs.made += 1;
            runs.made
        };
        let shown = show::timeline(id, &session, &stops);
        let mut runs = locked(&self.0);
        if runs.runs.len() == RUNS_MAX {
            runs.runs.pop_front();
        }
        runs.runs.push_back((id, Arc::new(Mutex::new(Run { id, session, stops }))));
        shown
    }

    fn more(&self, more: &More) -> Said {
        self.with(more.id, |run| {
            match more.op {
                Some(op) => run.session.apply(op).map(drop)?,
                None => run.session.go_on(more.operations.min(1000))?,
            }
            Ok(show::timeline(run.id, &run.session, &run.stops))
        })
    }
}

/// The choices that the page offers.
fn about() -> Value {
    let indexes = INDEXES.iter().map(|entry| {
        json!({
            "name": entry.name,
            "summary": entry.summary,
            "on_ftl": entry.hosting == Hosting::Store,
            "ascending": entry.needs.contains(&Need::AscendingKeys),
            "spatial": false,
        })
    });
    let spatial = SPATIAL.iter().map(|entry| {
        json!({ "name": entry.name, "summary": entry.summary, "on_ftl": true, "ascending": false, "spatial": true })
    });
    let chips = catalogue::parts().map(|part| {
        let g = part.geometry;
        json!({ "name": part.name, "page": g.page_bytes, "spare": g.spare_bytes, "pages": g.pages_per_block, "blocks": g.blocks })
    });
    let small = json!({ "name": "small", "page": 512, "spare": 64, "pages": 16, "blocks": 32 });
    json!({
        "indexes": indexes.chain(spatial).collect::<Vec<_>>(),
        "ftls": Setup::ftls().map(|(name, summary)| json!({ "name": name, "summary": summary })).collect::<Vec<_>>(),
        "chips": std::iter::once(small).chain(chips).collect::<Vec<_>>(),
        "workloads": WORKLOADS.map(|(name, summary)| json!({ "name": name, "summary": summary })),
        "durabilities": ["every operation", "every sync", "none"],
        "cuts": CutMode::ALL.map(|mode| json!({ "name": mode, "words": mode.words() })),
        "scenes": scenes::SCENES.map(|scene| json!({
            "name": scene.name, "title": scene.title, "paper": scene.paper, "page": scene.page,
        })),
        "pages_max": crate::session::PAGES_MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(app: &App, call: &str, query: &[(&str, &str)]) -> Result<Said, Refused> {
        let query = query.iter().map(|(n, v)| ((*n).to_string(), (*v).to_string())).collect();
        app.call(&Request { method: "GET".into(), query, ..Request::default() }, call)
    }

    fn post(app: &App, call: &str, body: &str) -> Result<Said, Refused> {
        let request = Request { method: "POST".into(), body: body.as_bytes().to_vec(), ..Request::default() };
        app.call(&request, call)
    }

    #[test]
    fn a_run_is_made_gone_through_and_cut() {
        let app = App::default();
        let run = post(&app, "run", r#"{"index":"mu","operations":30}"#).unwrap().unwrap();
        assert_eq!(run["steps"].as_array().unwrap().len(), 31);
        let at = [("id", "1"), ("step", "20"), ("event", "0")];
        let state = get(&app, "at", &at).unwrap().unwrap();
        assert_eq!(state["pages"].as_array().unwrap().len(), 512);
        let page = get(&app, "page", &[&at[..], &[("page", "0")]].concat()).unwrap().unwrap();
        assert!(!page["fields"].as_array().unwrap().is_empty());
        let cut =
            post(&app, "cut", r#"{"id":1,"at":{"step":20,"event":0},"mode":"prefix"}"#).unwrap().unwrap();
        assert_eq!((cut["id"].as_u64(), cut["recovery"]["kept"].as_bool()), (Some(2), Some(true)));
        let more = post(&app, "more", r#"{"id":2,"operations":5}"#).unwrap().unwrap();
        assert_eq!(more["steps"].as_array().unwrap().len(), cut["steps"].as_array().unwrap().len() + 5);
        for _ in 0..6 {
            post(&app, "run", r#"{"index":"mu","operations":1}"#).unwrap().unwrap();
        }
        assert!(get(&app, "run", &[("id", "1")]).unwrap().unwrap_err().contains("gone"));
    }

    #[test]
    fn a_long_call_on_one_run_keeps_no_other_waiting() {
        let app = App::default();
        for _ in 0..2 {
            post(&app, "run", r#"{"index":"mu","operations":5}"#).unwrap().unwrap();
        }
        // As long as this thread has the first run, a call is under way on it.
        app.with(1, |_| {
            std::thread::scope(|scope| {
                let (told, heard) = std::sync::mpsc::channel();
                let app = &app;
                scope.spawn(move || {
                    get(app, "run", &[("id", "2")]).unwrap().unwrap();
                    post(app, "run", r#"{"index":"mu","operations":5}"#).unwrap().unwrap();
                    get(app, "about", &[]).unwrap().unwrap();
                    told.send(()).unwrap();
                });
                // The scope would wait for it for ever.
                if heard.recv_timeout(std::time::Duration::from_secs(60)).is_err() {
                    std::process::abort();
                }
            });
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let app = App::default();
        for body in ["", "{}", "[]", r#"{"index":7}"#, r#"{"index":"mu","more":1}"#, "\u{0}"] {
            assert_eq!(post(&app, "run", body).unwrap_err().status, 400, "{body}");
        }
        for body in [
            r#"{"index":"no"}"#,
            r#"{"index":"mu","chip":"no"}"#,
            r#"{"index":"mu","blocks":4000000000}"#,
            r#"{"index":"mu","blocks":0}"#,
            r#"{"index":"mu","record":[0,4]}"#,
            r#"{"index":"mu","record":[9,4]}"#,
            r#"{"index":"mu","operations":5001}"#,
            r#"{"index":"mu","workload":"no"}"#,
            r#"{"index":"mu","durability":"no"}"#,
            r#"{"index":"bplus","ftl":"no"}"#,
            r#"{"index":"bplus","options":[["no","1"]]}"#,
            r#"{"index":"bplus","ram":100}"#,
            r#"{"index":"bplus","ram":18446744073709551615}"#,
            r#"{"index":"plow","ram":17592186044416}"#,
        ] {
            assert!(post(&app, "run", body).unwrap().is_err(), "{body}");
        }
        assert_eq!(get(&app, "at", &[("id", "x")]).unwrap_err().status, 400);
        assert_eq!(get(&app, "no", &[]).unwrap_err().status, 404);
        assert!(get(&app, "at", &[("id", "1"), ("step", "1"), ("event", "0")]).unwrap().is_err());
        assert!(post(&app, "scene", r#"{"name":"no"}"#).unwrap().is_err());
    }
}
