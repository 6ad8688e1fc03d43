//! The rows of `results/peers.csv` as tables of pages: text in, text out. A test of the engine includes this
//! file and compares the pages with the rows that are kept.

use std::fmt::Write;

/// Columns before the measures.
const HEAD: usize = 7;

/// Names of the measures in the head of the CSV, as heads of columns.
const WORDS: [(&str, &str); 10] = [
    ("update_us", "us an update"),
    ("erases_per_1000", "erases per 1,000"),
    ("worst_sector", "most of a sector"),
    ("slowest_ms", "slowest ms"),
    ("get_us", "us a get"),
    ("range_100_us", "us for 100 in order"),
    ("mount_ms", "mount ms"),
    ("first_ms", "first get and update ms"),
    ("ram_kib", "RAM KiB"),
    ("bytes_per_update", "bytes an update"),
];

struct Row<'c>(Vec<&'c str>);

impl<'c> Row<'c> {
    fn scenario(&self) -> &'c str {
        self.0[0]
    }

    fn words(&self) -> &'c str {
        self.0[1]
    }

    fn store(&self) -> &'c str {
        self.0[2]
    }

    fn is_ours(&self) -> bool {
        self.0[4] == "nandex"
    }

    /// What happened in place of a result.
    fn refusal(&self) -> Option<&'c str> {
        Some(self.0[5]).filter(|outcome| *outcome != "ok")
    }

    fn measures(&self) -> &[&'c str] {
        &self.0[HEAD..]
    }

    fn measure(&self, name: &str) -> Option<f64> {
        let place = WORDS.iter().position(|(known, _)| *known == name)?;
        self.measures()[place].parse().ok()
    }
}

fn rows(csv: &str) -> Vec<Row<'_>> {
    let whole = |cells: &Vec<&str>| cells.len() == HEAD + WORDS.len();
    csv.lines().skip(1).map(|line| line.split(',').collect()).filter(whole).map(Row).collect()
}

/// A number with its thousands apart.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut out = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

fn grouped_word(word: &str) -> String {
    if word.bytes().all(|byte| byte.is_ascii_digit()) { grouped(word) } else { word.to_string() }
}

/// A table of each scenario. The best figure of a column among those with all updates is bold.
fn tables(csv: &str) -> String {
    let rows = rows(csv);
    let mut out = String::new();
    let mut scenarios: Vec<&str> = rows.iter().map(Row::scenario).collect();
    scenarios.dedup();
    for name in scenarios {
        let here: Vec<&Row<'_>> = rows.iter().filter(|row| row.scenario() == name).collect();
        let words = here[0].words().split(' ').map(grouped_word).collect::<Vec<_>>().join(" ");
        let _ = write!(out, "### {words}\n\n| store | updates |");
        WORDS.iter().for_each(|(_, words)| out.push_str(&format!(" {words} |")));
        let _ = writeln!(out, "\n|---|{}", "---|".repeat(WORDS.len() + 1));
        // Who made fewer updates may not have begun to collect garbage.
        let most = here.iter().filter_map(|row| row.0[6].parse::<u64>().ok()).max();
        let whole = here.iter().filter(|row| row.0[6].parse().ok() == most && row.refusal().is_none());
        let best: Vec<Option<f64>> = (0..WORDS.len())
            .map(|place| {
                let figures = whole.clone().filter_map(|row| row.measures()[place].parse::<f64>().ok());
                figures.min_by(f64::total_cmp)
            })
            .collect();
        for row in here {
            line(&mut out, row, &best);
        }
        out.push('\n');
    }
    out
}

fn line(out: &mut String, row: &Row<'_>, best: &[Option<f64>]) {
    let name = if row.is_ours() { format!("Nandex: {}", row.store()) } else { row.store().to_string() };
    let updates = row.refusal().map_or_else(|| grouped(row.0[6]), str::to_string);
    let _ = write!(out, "| {name} | {updates} |");
    for (place, figure) in row.measures().iter().enumerate() {
        let is_best = figure.parse().is_ok_and(|figure: f64| best[place] == Some(figure));
        let shown = if figure.is_empty() { "-".to_string() } else { grouped(figure) };
        let _ = if is_best { write!(out, " **{shown}** |") } else { write!(out, " {shown} |") };
    }
    out.push('\n');
}

/// The stores with their settings on each kind of chip.
fn settings(csv: &str) -> String {
    let mut out = String::from("| on | store | settings |\n|---|---|---|\n");
    let mut seen = Vec::new();
    for row in rows(csv) {
        let on = if row.scenario().starts_with("nor") { "NOR" } else { "NAND" };
        let line = format!("| {on} | {} | {} |\n", row.store(), row.0[3]);
        if !seen.contains(&line) {
            out += &line;
            seen.push(line);
        }
    }
    out
}

/// The versions of the peers, of their lock file.
fn versions(lock: &str) -> String {
    let named = |name: &str| {
        let after = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?.1;
        Some(format!("`{name}` {}", after.split('"').next()?))
    };
    let names = ["sequential-storage", "littlefs2-sys", "ekv", "redb", "rusqlite", "libsqlite3-sys"];
    names.iter().filter_map(|name| named(name)).collect::<Vec<_>>().join(", ") + "\n"
}

/// A peer's row in a scenario, the row of Nandex whose update is the fastest, and the one with the least RAM.
fn chosen<'r, 'c>(rows: &'r [Row<'c>], scenario: &str, peer: &str) -> [Option<&'r Row<'c>>; 3] {
    let here = rows.iter().filter(|row| row.scenario() == scenario && row.refusal().is_none());
    let least = |measure: &str| {
        let cost = |row: &Row<'_>| row.measure(measure).unwrap_or(f64::INFINITY);
        here.clone().filter(|row| row.is_ours()).min_by(|a, b| cost(a).total_cmp(&cost(b)))
    };
    [here.clone().find(|row| row.store() == peer), least("update_us"), least("ram_kib")]
}

fn shown(row: &Row<'_>, measure: &str, digits: usize) -> String {
    row.measure(measure).map_or("-".to_string(), |figure| grouped(&format!("{figure:.digits$}")))
}

/// Where a peer fits better, with the figures.
fn choice(csv: &str) -> String {
    let rows = rows(csv);
    let told = |row: &Row<'_>| {
        let (update, ram) = (shown(row, "update_us", 0), shown(row, "ram_kib", 1));
        format!("{}: {update} us, {ram} KiB", row.store())
    };
    let mut out = String::from("| you have | take | an update, RAM | Nandex there |\n|---|---|---|---|\n");
    let cases = [
        ("some 200 settings in 64 KiB of NOR", "nor-200", "sequential-storage with key cache"),
        ("2,000 values in 1 MiB of NOR, under 4 KiB of RAM", "nor-2000", "littlefs"),
        ("files, here of 100 bytes each", "nor-long", "littlefs"),
    ];
    for (words, scenario, peer) in cases {
        let [theirs, fast, small] =
            chosen(&rows, scenario, peer).map(|row| row.map_or("-".to_string(), &told));
        let name = peer.split(' ').next().unwrap_or(peer);
        let _ = writeln!(out, "| {words} | {name} | {theirs} | {fast}; {small} |");
    }
    out
}

/// The first of these cases, for the README.
fn readme(csv: &str) -> String {
    let mut out = String::from("| 200 settings in 64 KiB | us an update | KiB of RAM |\n|---|---|---|\n");
    let rows = rows(csv);
    for row in chosen(&rows, "nor-200", "sequential-storage with key cache").into_iter().flatten() {
        let name = row.store().split(' ').next().unwrap_or_default();
        let name = if row.is_ours() { format!("`{name}`") } else { name.to_string() };
        let _ = writeln!(out, "| {name} | {} | {} |", shown(row, "update_us", 0), shown(row, "ram_kib", 1));
    }
    out
}

/// A page with what the rows and the lock file say between its marks, such as `<!-- peers: tables -->`.
pub(crate) fn page(page: &str, csv: &str, lock: &str) -> String {
    let parts = [
        ("tables", tables(csv)),
        ("settings", settings(csv)),
        ("versions", versions(lock)),
        ("choice", choice(csv)),
        ("readme", readme(csv)),
    ];
    parts.into_iter().fold(page.to_string(), |page, (name, text)| {
        let mark = format!("<!-- peers: {name} -->\n");
        let Some((before, rest)) = page.split_once(&mark) else { return page };
        let Some((_, after)) = rest.split_once("<!-- end -->") else { return page };
        format!("{before}{mark}{text}<!-- end -->{after}")
    })
}

/// Pages that have such marks.
pub(crate) const PAGES: [&str; 3] = ["docs/peers.md", "docs/indexes.md", "README.md"];
