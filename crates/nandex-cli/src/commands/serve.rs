//! `nandex serve` and `nandex play`: serve the web page of nandex-look on this machine's loopback address.

use crate::Status;
use crate::output;
use anyhow::{Result, anyhow};
use nandex_lab::names::UnknownName;
use nandex_look::{scenes, serve::Server};

/// Serves until the program is stopped. With a scene, the printed address leads to it.
pub(crate) fn run(port: u16, scene: Option<&str>) -> Result<Status> {
    if let Some(name) = scene.filter(|name| scenes::find(name).is_err()) {
        return Err(UnknownName::of("scene", name, scenes::SCENES.iter().map(|scene| scene.name)).into());
    }
    let server = Server::bind(port).map_err(|why| anyhow!(why))?;
    let place = scene.map_or(String::new(), |scene| format!("#{scene}"));
    output::print(&format!("{}{place}\n", server.address()))?;
    server.run().map_err(|why| anyhow!(why))?;
    Ok(Status::Done)
}
