//! The page: one document with its style and its script, which loads nothing.

const HTML: &str = include_str!("look.html");
const CSS: &str = include_str!("look.css");
const JS: &str = include_str!("look.js");

/// The document. Its style and script run only with the nonce.
pub(crate) fn html(nonce: &str) -> String {
    let page = HTML.replace("{{STYLE}}", CSS).replace("{{SCRIPT}}", JS);
    page.replace("{{NONCE}}", nonce)
}
