//! Starting points made from the answer: a file for `nandex sweep`, and source lines in Rust and C.

use super::Request;
use super::space::Candidate;
use crate::quantities;
use nandex::ordered::{Durability, RecordFormat};
use std::fmt::Write as _;

/// First line of a file made by `advise`. A file that begins so may be overwritten.
pub const CONFIG_HEAD: &str = "# Written by nandex advise";

/// Quotes text in a way that TOML, JSON, Rust and C all read.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out + "\""
}

/// The configuration as TOML: the request for one cell of a sweep.
pub(super) fn toml(request: &Request, ram: u64, candidate: &Candidate) -> String {
    let mut out = format!("{CONFIG_HEAD}; run it again with: nandex sweep FILE --store DIR --out -\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name} = {value}");
    };
    line("index", quoted(candidate.index.name));
    line("chip", quoted(&request.chip));
    request.workload.iter().for_each(|name| line("workload", quoted(name)));
    request.trace.iter().for_each(|name| line("trace", quoted(name)));
    request.ops.iter().for_each(|ops| line("ops", ops.to_string()));
    line("record", quoted(&request.record));
    line("ram", ram.to_string());
    line("durability", quoted(&request.durability));
    request.sync_every.iter().for_each(|every| line("sync_every", every.to_string()));
    candidate.options.text("ftl").iter().for_each(|ftl| line("ftl", quoted(ftl)));
    let own = candidate.options.iter().filter(|(name, _)| *name != "ftl");
    let set = own.chain(request.options.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let lines: Vec<String> = set.map(|(name, value)| format!("{name} = {}\n", quoted(value))).collect();
    if !lines.is_empty() {
        out += "\n[options]\n";
        out += &lines.concat();
    }
    out
}

/// Lines of Rust that open the configuration on a chip, with `nandex` and `nandex-stacks`.
pub(super) fn rust(request: &Request, ram: u64, candidate: &Candidate) -> String {
    let record = quantities::record(&request.record).unwrap_or(RecordFormat::new(4, 4));
    let promise = quantities::durability(&request.durability).copied().unwrap_or(Durability::EveryOperation);
    let class = match promise {
        Durability::EveryOperation => "EveryOperation",
        Durability::EverySync => "EverySync",
        Durability::None => "None",
    };
    let with: String = candidate
        .options
        .iter()
        .map(|(name, value)| format!(".with({}, {})", quoted(name), quoted(value)))
        .collect();
    format!(
        "let settings = Settings {{ ram_bytes: Some({ram}), durability: Durability::{class}, \
         ..Settings::new(RecordFormat::new({}, {})) }}{with};\n\
         let mut index = (registry::index({})?.format)(Box::new(chip), &settings)?; // later: .mount\n",
        record.key_bytes,
        record.value_bytes,
        quoted(candidate.index.name),
    )
}

/// The indexes in the C library: name, FTL below, and the C constant.
const IN_C: [(&str, &str, &str); 7] = [
    ("mu", "", "MU"),
    ("wandering", "", "WANDERING"),
    ("vmtree", "", "VMTREE"),
    ("bplus", "page-map", "BPLUS"),
    ("bplus", "dftl", "BPLUS_DFTL"),
    ("sbits", "", "SBITS"),
    ("plow", "", "PLOW"),
];

/// Lines of C that set up the configuration. `None` if the C library does not have the index, or not with
/// these options.
pub(super) fn c(request: &Request, ram: u64, candidate: &Candidate) -> Option<String> {
    let ftl = candidate.options.text("ftl").unwrap_or("");
    let (_, _, constant) = IN_C.iter().find(|(index, on, _)| *index == candidate.index.name && *on == ftl)?;
    if candidate.options.iter().any(|(name, _)| name != "ftl") {
        return None;
    }
    let record = quantities::record(&request.record).ok()?;
    let promise = quantities::durability(&request.durability).ok()?;
    // There the map's pages have no groups: it promises nothing.
    if *constant == "BPLUS_DFTL" && *promise != Durability::None {
        return None;
    }
    let class = match promise {
        Durability::EveryOperation => "EVERY_OPERATION",
        Durability::EverySync => "EVERY_SYNC",
        Durability::None => "NONE",
    };
    Some(format!(
        "nandex_config config = {{ .struct_bytes = sizeof config, .index = NANDEX_INDEX_{constant},\n    \
         .durability = NANDEX_DURABLE_{class}, .key_bytes = {}, .value_bytes = {}, .ram_bytes = {ram} }};\n",
        record.key_bytes, record.value_bytes
    ))
}

#[cfg(test)]
mod tests {
    use super::super::space::candidates;
    use super::*;
    use crate::sweep;

    fn of(name: &str) -> Candidate {
        candidates(Durability::None).into_iter().find(|c| c.name() == name).unwrap()
    }

    #[test]
    fn the_file_is_a_request_that_a_sweep_reads() {
        let request =
            Request { trace: Some("a \"b\\c".into()), durability: "every-sync".into(), ..Request::default() };
        let text = toml(&request, 32768, &of("bplus on dftl").with("cache", "cflru"));
        let read: sweep::Request = toml::from_str(&text).unwrap();
        let options: Vec<_> = read.options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(
            (read.index.as_str(), read.ram, read.ftl.as_deref()),
            ("bplus", Some(32768), Some("dftl"))
        );
        assert_eq!((read.trace.as_deref(), options), (Some("a \"b\\c"), vec![("cache", "cflru")]));
        assert!(read.durability == "every-sync" && text.starts_with(CONFIG_HEAD));
    }

    #[test]
    fn lines_of_c_are_for_what_the_library_has() {
        let durable = Request { record: "8/4".into(), ..Request::default() };
        let request = Request { durability: "none".into(), ..durable.clone() };
        assert_eq!(c(&durable, 1 << 14, &of("bplus on dftl")), None);
        let lines = c(&request, 1 << 14, &of("bplus on dftl")).unwrap();
        assert!(lines.contains("NANDEX_INDEX_BPLUS_DFTL") && lines.contains(".key_bytes = 8"), "{lines}");
        assert_eq!(c(&request, 1 << 14, &of("fd on page-map")), None);
        assert_eq!(c(&request, 1 << 14, &of("mu").with("journal", "64")), None);
        // Outside of this crate: not there where it is packed alone.
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../nandex-c/include/nandex.h");
        let Ok(header) = std::fs::read_to_string(header) else { return };
        for (_, _, constant) in IN_C {
            assert!(header.contains(&format!("#define NANDEX_INDEX_{constant} ")), "{constant}");
        }
        assert!(
            ["EVERY_OPERATION", "EVERY_SYNC", "NONE"]
                .iter()
                .all(|c| header.contains(&format!("NANDEX_DURABLE_{c} ")))
        );
        let rust = rust(&request, 1 << 14, &of("bplus on dftl"));
        assert!(
            rust.contains(".with(\"ftl\", \"dftl\")") && rust.contains("RecordFormat::new(8, 4)"),
            "{rust}"
        );
    }
}
