//! The page by itself: `cargo run -p nandex-look --example look` prints the address to open.

use nandex_look::serve::Server;
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::bind(0)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.address())?;
    out.flush()?;
    Ok(server.run()?)
}
