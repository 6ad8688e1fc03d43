//! Tells the program the commit from which it is built, for its results.
//!
//! Outside of a repository, as in a package, cargo's own note of the commit is used. Without that the commit
//! is unknown.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Whatever of the sources changes makes the commit another one, or one with changes.
    for part in ["src", "crates", "data", "experiments"] {
        let folder = root.join(part);
        if root.join(".git").exists() && folder.exists() {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }
    if let Some(commit) = of_repository(&root).or_else(of_package) {
        println!("cargo::rustc-env=NANDEX_COMMIT={commit}");
    }
}

/// Commit of the repository, with `+` if files differ from the commit.
fn of_repository(root: &Path) -> Option<String> {
    if !root.join(".git").exists() {
        return None;
    }
    if let Some(log) = git(root, &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={}", root.join(log).display());
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(root, &["status", "--porcelain", "--untracked-files=no"])?;
    Some(format!("{commit}{}", if changes.is_empty() { "" } else { "+" }))
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}

/// The commit that `cargo package` wrote down.
fn of_package() -> Option<String> {
    let note = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.cargo_vcs_info.json")).ok()?;
    let (_, rest) = note.split_once("\"sha1\"")?;
    let hash = rest.split('"').nth(1)?;
    let is_hash = hash.len() >= 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| hash[..12].to_string())
}
