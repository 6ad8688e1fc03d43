//! The page of the papers: the scorecard of all claims first, then paper by paper each figure, its set-up,
//! and what differs and why.

use super::Assets;
use super::experiment::Section;
use askama::Template;
use nandex_lab::repro::{Reading, Reproduction, ScoreRow, Scorecard, Verdict};
use serde::Serialize;

#[derive(Template)]
#[template(path = "papers.html")]
pub(super) struct Page<'a> {
    results: Saved<'a>,
    conclusion: String,
    columns: Vec<Reading>,
    papers: Vec<Paper>,
    assets: Assets,
}

/// The data that the page offers as JSON.
#[derive(Serialize)]
struct Saved<'a> {
    schema: u32,
    nandex_version: &'static str,
    command: String,
    cards: &'a [Scorecard],
}

struct Paper {
    title: &'static str,
    counts: String,
    rows: Vec<Row>,
    sections: Vec<Section>,
}

/// A line of the scorecard. For each column it has the verdict, and whether that verdict is a miss.
struct Row {
    id: String,
    claim: String,
    band: String,
    verdicts: Vec<(String, bool)>,
}

/// Titles of the papers by their names in commands.
const TITLES: [(&str, &str); 7] = [
    ("mu", "The \u{3bc}-Tree (Kang, Jung, Kang and Kim 2007)"),
    ("wpcb", "The WPCB-tree (Ho and Park 2018)"),
    ("lazy", "The lazy-update B+-tree (On, Hu, Li and Xu 2009)"),
    ("ls-lru", "LS-LRU"),
    ("access-time", "Access times of B-tree, R-tree and MR-tree"),
    ("named", "Indexes that the papers name"),
    ("plow", "plow, our own index for little RAM"),
];

impl<'a> Page<'a> {
    pub(super) fn of(done: &'a Reproduction) -> Result<Page<'a>, serde_json::Error> {
        let used = |reading: &Reading| done.cards.iter().any(|card| card.of_reading(*reading) > 0);
        let columns: Vec<Reading> = Reading::ALL.into_iter().filter(used).collect();
        let mut figures = Vec::new();
        let mut numbers = 0..;
        let mut section = |results| {
            let number = numbers.next().unwrap_or(0);
            Section::of(results, &format!("plot-{number}"), &mut figures)
        };
        let mut papers = Vec::new();
        for card in &done.cards {
            let of_paper = done.experiments.iter().filter(|results| results.definition.paper == card.paper);
            papers.push(Paper {
                title: title(&card.paper),
                counts: counts(std::slice::from_ref(card)),
                rows: card.claims().map(|claim| row(&claim, &columns)).collect(),
                sections: of_paper.map(&mut section).collect(),
            });
        }
        let command = match &done.cards[..] {
            [card] => card.command.clone(),
            cards => format!(
                "nandex repro --all{}",
                if cards.iter().any(|card| card.smoke) { " --smoke" } else { "" }
            ),
        };
        let first = done.cards.first();
        let results = Saved {
            schema: first.map_or(0, |card| card.schema),
            nandex_version: first.map_or("", |card| card.nandex_version),
            command,
            cards: &done.cards,
        };
        let assets = Assets::of(&figures, &results)?;
        Ok(Page { results, conclusion: counts(&done.cards), columns, papers, assets })
    }
}

fn title(paper: &str) -> &'static str {
    TITLES.iter().find(|(name, _)| *name == paper).map_or("", |(_, title)| title)
}

/// The counts of the verdicts in these cards, for the settings as first read.
fn counts(cards: &[Scorecard]) -> String {
    let sum = |of: &dyn Fn(&Scorecard) -> usize| cards.iter().map(of).sum::<usize>();
    let count = |verdict| sum(&|card| card.count(Reading::First, verdict));
    let mut text = format!(
        "Of {} claims, at the set-up first read, {} are reproduced, {} in direction only, {} not reproduced, {} not judged",
        sum(&|card| card.of_reading(Reading::First)),
        count(Verdict::Reproduced),
        count(Verdict::DirectionOnly),
        count(Verdict::NotReproduced),
        count(Verdict::NotJudged),
    );
    match sum(&|card| card.on_substitutes(Reading::First)) {
        0 => text.push('.'),
        on_substitutes => {
            text += &format!("; {on_substitutes} stand on substitute data and are not counted.");
        }
    }
    text
}

fn row(claim: &[&ScoreRow], columns: &[Reading]) -> Row {
    let verdict = |reading: &Reading| {
        let found = claim.iter().find(|row| row.reading == *reading);
        found.map_or_else(Default::default, |row| {
            let on = if row.substitute { ", on substitute data" } else { "" };
            (format!("{}{on}", row.verdict.words()), row.verdict == Verdict::NotReproduced)
        })
    };
    Row {
        id: claim[0].id.clone(),
        claim: claim[0].claim.clone(),
        band: claim[0].band.clone(),
        verdicts: columns.iter().map(verdict).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::TITLES;
    use crate::html::render_papers;
    use nandex_lab::experiment::RunPlan;
    use nandex_lab::repro::{self, PAPERS, ReproPlan};
    use nandex_lab::runner::Control;
    use scraper::{Html, Selector};

    #[test]
    fn the_scorecard_comes_first_and_every_figure_has_its_place() {
        let run = RunPlan { smoke: true, threads: 2, ..RunPlan::default() };
        let plan = ReproPlan { papers: vec!["mu".into()], whole: true, run, keep: None };
        let done = repro::run(&plan, &Control::default(), &mut |_| ()).unwrap();
        let page = render_papers(&done).unwrap();
        let html = Html::parse_document(&page);
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        let select = |selector: &str| Selector::parse(selector).unwrap();
        let table = html.select(&select("table")).next().unwrap();
        assert_eq!(table.select(&select("tbody tr")).count(), 18, "17 claims and the paper's title");
        let figures: String = html.select(&select("#figures")).flat_map(|element| element.text()).collect();
        let figures: serde_json::Value = serde_json::from_str(&figures).unwrap();
        let figures = figures.as_array().unwrap();
        assert!(figures.len() > 5, "{}", figures.len());
        for figure in figures {
            let id = figure["id"].as_str().unwrap();
            assert_eq!(html.select(&select(&format!("#{id}"))).count(), 1, "{id}");
        }
        assert!(html.select(&select(".prose")).count() > 5, "notes of the experiments");
    }

    #[test]
    fn every_paper_has_a_title() {
        assert_eq!(TITLES.map(|(name, _)| name), PAPERS[..]);
    }
}
