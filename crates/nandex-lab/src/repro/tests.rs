//! The judging of claims, on figures made up for both sides of every band.

use super::*;
use crate::experiment::CellResult;
use crate::stats::Summary;
use std::collections::BTreeMap;

fn results(cells: &[(&str, f64)]) -> ExperimentResults {
    let cell = |&(name, value): &(&str, f64)| {
        let summary = Summary::of(&[value]).unwrap();
        let figures = BTreeMap::from([("f".to_string(), summary)]);
        CellResult { name: name.into(), figures, ..CellResult::default() }
    };
    let definition = experiment::list()[0].definition.clone();
    ExperimentResults {
        schema: 1,
        nandex_version: "".into(),
        commit: None,
        pairs: Vec::new(),
        own: None,
        command: String::new(),
        smoke: false,
        seeds: vec![1],
        definition,
        cells: cells.iter().map(cell).collect(),
    }
}

fn claim(rule: Rule, value: Expected) -> Claim {
    Claim {
        id: "X1".into(),
        text: String::new(),
        reading: Reading::First,
        set_up: String::new(),
        rule,
        in_smoke: false,
        note: String::new(),
        values: vec![value],
    }
}

fn pair(rule: Rule, paper: [f64; 2], measured: [f64; 2]) -> Verdict {
    let [wandering, mu] = paper;
    let value = Expected::Pair { at: "a".into(), figure: "f".into(), wandering, mu };
    let cells = [("a/wandering", measured[0]), ("a/mu", measured[1])];
    row(&claim(rule, value), &results(&cells)).verdict
}

fn compared(rule: Rule, form: Form, paper: Option<f64>, measured: [f64; 2]) -> Verdict {
    let value = Expected::Compared { at: "a".into(), figure: "f".into(), form, paper };
    let cells = [("a/wandering", measured[0]), ("a/mu", measured[1])];
    row(&claim(rule, value), &results(&cells)).verdict
}

fn single(rule: Rule, paper: f64, measured: f64) -> Verdict {
    let value = Expected::Single { cell: "a".into(), figure: "f".into(), paper, rule: None };
    row(&claim(rule, value), &results(&[("a", measured)])).verdict
}

use Verdict::{DirectionOnly, NotJudged, NotReproduced, Reproduced};

#[test]
fn rows_stand_in_the_order_of_their_numbers() {
    assert_eq!(["M9", "M10", "N1-ram", "N17", "?"].map(number_of), [9, 10, 1, 17, u32::MAX]);
}

#[test]
fn a_band_has_two_sides() {
    let band = Rule::WithinPercent(7.0);
    for (measured, expected) in [
        ([4.0, 1.0], Reproduced),
        ([4.28, 1.07], Reproduced),
        ([3.72, 0.93], Reproduced),
        ([4.29, 1.0], DirectionOnly),
        ([4.0, 0.929], DirectionOnly),
        ([1.0, 1.0], NotReproduced),
        ([1.0, 4.0], NotReproduced),
    ] {
        assert_eq!(pair(band, [4.0, 1.0], measured), expected, "{measured:?}");
    }
}

#[test]
fn level_figures_have_no_direction_to_miss() {
    assert_eq!(pair(Rule::WithinPercent(7.0), [0.5, 0.5], [0.5, 0.6]), DirectionOnly);
}

#[test]
fn one_sided_bounds_have_one_side() {
    assert_eq!(pair(Rule::Below, [0.03, 0.01], [0.0299, 0.0099]), Reproduced);
    assert_eq!(pair(Rule::Below, [0.03, 0.01], [0.03, 0.0099]), NotReproduced);
    assert_eq!(pair(Rule::Below, [0.03, 0.01], [0.0299, 0.0101]), NotReproduced);
    let over =
        |saved| compared(Rule::AtLeastLessPoints(8.0), Form::SavingPercent, Some(33.0), [100.0, saved]);
    assert_eq!([over(20.0), over(67.0), over(75.0)], [Reproduced; 3]);
    assert_eq!([over(76.0), over(101.0)], [DirectionOnly, NotReproduced]);
}

#[test]
fn exact_is_exact() {
    assert_eq!(single(Rule::Exact, 0.0, 0.0), Reproduced);
    assert_eq!(single(Rule::Exact, 0.0, 1.0), NotReproduced);
}

#[test]
fn quotients_and_savings() {
    let band = Rule::WithinPercent(25.0);
    let third = Some(1.0 / 3.0);
    assert_eq!(compared(band, Form::Quotient, third, [100.0, 41.6]), Reproduced);
    assert_eq!(compared(band, Form::Quotient, third, [100.0, 41.7]), DirectionOnly);
    assert_eq!(compared(band, Form::Quotient, third, [100.0, 24.9]), DirectionOnly);
    assert_eq!(compared(band, Form::Quotient, third, [100.0, 101.0]), NotReproduced);
    let saving = |rule, measured| compared(rule, Form::SavingPercent, None, measured);
    assert_eq!(saving(Rule::Direction, [10.0, 9.0]), Reproduced);
    assert_eq!(saving(Rule::Direction, [9.0, 10.0]), NotReproduced);
    assert_eq!((Form::SavingPercent.of(200.0, 150.0), Form::SpeedupPercent.of(150.0, 100.0)), (25.0, 50.0));
}

#[test]
fn contenders_are_compared_each_with_each() {
    let text = "at = 'w/v'\nagainst = ['LRU', 'FIFO']\ncontenders = ['Big', 'Cost']\nfigure = 'f'\n\
                form = 'saving_percent'\npaper = 18";
    let value: Expected = toml::from_str(text).unwrap();
    assert_eq!(value.cells(), ["w/v/LRU", "w/v/FIFO", "w/v/Big", "w/v/Cost"]);
    let judged = |rule, cost| {
        let cells = [("w/v/LRU", 100.0), ("w/v/FIFO", 110.0), ("w/v/Big", 84.0), ("w/v/Cost", cost)];
        row(&claim(rule, value.clone()), &results(&cells))
    };
    let all = judged(Rule::WithinPoints(8.0), 84.0);
    assert_eq!((all.verdict, all.values.len(), all.band.as_str()), (Reproduced, 4, "within 8 points"));
    assert_eq!(all.values[1].figure, "f, saving of w/v/Big in percent");
    assert_eq!(judged(Rule::WithinPoints(8.0), 98.0).verdict, DirectionOnly);
    assert_eq!(judged(Rule::WithinPoints(8.0), 105.0).verdict, NotReproduced);
    assert_eq!(judged(Rule::Between { low: 16.0, high: 24.0 }, 84.0).verdict, Reproduced);
    assert_eq!(judged(Rule::Between { low: 16.0, high: 23.0 }, 84.0).verdict, DirectionOnly);
    assert_eq!(row(&claim(Rule::Direction, value.clone()), &results(&[("w/v/LRU", 1.0)])).verdict, NotJudged);
}

#[test]
fn a_mean_over_places_is_judged_as_one() {
    let text = "over = ['a/v', 'b/v']\nagainst = ['X']\ncontenders = ['Y']\nfigure = 'f'\nform = 'saving_percent'\n\
                paper = 50";
    let value: Expected = toml::from_str(text).unwrap();
    assert_eq!(value.cells(), ["a/v/X", "a/v/Y", "b/v/X", "b/v/Y"]);
    let judged = |y: f64| {
        let cells = [("a/v/X", 100.0), ("a/v/Y", 75.0), ("b/v/X", 10.0), ("b/v/Y", y)];
        row(&claim(Rule::WithinPoints(10.0), value.clone()), &results(&cells))
    };
    let both = judged(2.5);
    assert_eq!((both.verdict, both.values.len(), both.values[0].measured), (Reproduced, 1, Some(50.0)));
    assert_eq!((both.values[0].measured_min, both.values[0].measured_max), (Some(25.0), Some(75.0)));
    assert_eq!((judged(8.0).verdict, judged(13.0).verdict), (DirectionOnly, NotReproduced));
    assert_eq!(row(&claim(Rule::Direction, value.clone()), &results(&[("a/v/X", 1.0)])).verdict, NotJudged);
}

#[test]
fn a_series_goes_one_way_at_every_step() {
    let text = "series = ['a', 'b', 'c']\nfigure = 'f'\ntrend = 'falls'";
    let value: Expected = toml::from_str(text).unwrap();
    let judged =
        |c| row(&claim(Rule::Direction, value.clone()), &results(&[("a", 10.0), ("b", 8.0), ("c", c)]));
    let falls = judged(7.0);
    assert_eq!((falls.verdict, falls.values[0].measured), (Reproduced, Some(12.5)));
    assert_eq!((judged(8.0).verdict, judged(9.0).verdict), (NotReproduced, NotReproduced));
    let text = "series = ['b', 'a']\nfigure = 'f'\ntrend = 'rises'";
    let rises = claim(Rule::Direction, toml::from_str(text).unwrap());
    assert_eq!(row(&rises, &results(&[("a", 10.0), ("b", 8.0)])).values[0].measured, Some(25.0));
    assert_eq!(row(&rises, &results(&[("a", 10.0)])).verdict, NotJudged);
}

#[test]
fn a_knee_is_where_more_stops_paying() {
    let text = "inputs = ['a', 'b']\nvariants = ['1', '2', '4']\ncontender = 'x'\nfigure = 'f'\ngain_percent = 10\n\
                paper = 2";
    let value: Expected = toml::from_str(text).unwrap();
    assert_eq!(value.cells().len(), 6);
    let judged = |a: [f64; 3], b: [f64; 3]| {
        let names = ["a/1/x", "a/2/x", "a/4/x", "b/1/x", "b/2/x", "b/4/x"];
        let cells: Vec<(&str, f64)> = names.into_iter().zip(a.into_iter().chain(b)).collect();
        let row = row(&claim(Rule::Between { low: 1.5, high: 3.0 }, value.clone()), &results(&cells));
        (row.verdict, row.values[0].measured)
    };
    assert_eq!(judged([100.0, 50.0, 46.0], [10.0, 5.0, 4.5]), (Reproduced, Some(2.0)));
    // A step that pays after one that does not.
    assert_eq!(judged([100.0, 99.0, 40.0], [10.0, 5.0, 4.4]), (NotReproduced, Some(4.0)));
    assert_eq!(judged([100.0, 95.0, 94.0], [10.0, 10.0, 10.0]), (NotReproduced, Some(1.0)));
    assert_eq!(row(&claim(Rule::Direction, value.clone()), &results(&[("a/1/x", 1.0)])).verdict, NotJudged);
}

#[test]
fn a_figure_may_have_a_rule_of_its_own() {
    let text = "cell = 'a'\nfigure = 'f'\npaper = 7\nrule = 'exact'";
    let claim = claim(Rule::Direction, toml::from_str(text).unwrap());
    assert_eq!(row(&claim, &results(&[("a", 7.0)])).verdict, Reproduced);
    assert_eq!(row(&claim, &results(&[("a", 8.0)])).verdict, NotReproduced);
}

#[test]
fn what_is_shown_decides_nothing() {
    let value =
        |cell: &str, rule| Expected::Single { cell: cell.into(), figure: "f".into(), paper: 1.0, rule };
    let mut both = claim(Rule::Exact, value("a", None));
    both.values.push(value("b", Some(Rule::Shown)));
    let row = row(&both, &results(&[("a", 1.0), ("b", 9.0)]));
    assert_eq!(
        (row.verdict, row.values[1].verdict, row.values[1].measured),
        (Reproduced, Verdict::Shown, Some(9.0))
    );
    assert_eq!(super::row(&claim(Rule::Shown, value("a", None)), &results(&[("a", 1.0)])).verdict, NotJudged);
}

#[test]
fn the_worst_value_is_the_claims_verdict_and_is_named() {
    let value =
        |cell: &str| Expected::Single { cell: cell.into(), figure: "f".into(), paper: 1.0, rule: None };
    let mut both = claim(Rule::WithinPercent(7.0), value("a"));
    both.values.push(value("b"));
    let row = row(&both, &results(&[("a", 1.0), ("b", 1.2)]));
    assert_eq!((row.verdict, row.values[0].verdict), (NotReproduced, Reproduced));
    assert_eq!(row.note, "outside: b f: 1.200 against 1.000");
}

#[test]
fn what_was_not_measured_is_not_judged() {
    let value = Expected::Single { cell: "z".into(), figure: "f".into(), paper: 1.0, rule: None };
    let missing = row(&claim(Rule::Exact, value.clone()), &results(&[]));
    assert_eq!(missing.verdict, NotJudged);
    let mut smoke = results(&[("z", 1.0)]);
    smoke.smoke = true;
    let small = row(&claim(Rule::Exact, value), &smoke);
    assert_eq!((small.verdict, small.note.as_str()), (NotJudged, "the smoke size cannot tell"));
    let mut cut = results(&[("a/wandering", 2.0), ("a/mu", 1.0)]);
    cut.cells[0].stand_in = Some("the bundled cut".into());
    let value =
        Expected::Compared { at: "a".into(), figure: "f".into(), form: Form::SavingPercent, paper: None };
    let stood_in = row(&claim(Rule::Direction, value), &cut);
    assert_eq!(stood_in.verdict, NotJudged);
    assert!(stood_in.note.contains("the bundled cut"));
}

#[test]
fn every_reading_of_a_claim_is_there_once_and_says_what_differs() {
    let mut seen = std::collections::BTreeSet::new();
    for (experiment, claim) in claims() {
        let (id, reading) = (&claim.id, claim.reading);
        assert!(seen.insert((id, reading)), "{id}, {}: twice", reading.words());
        let says = !claim.set_up.is_empty();
        assert_eq!(
            says,
            reading != Reading::First,
            "{id}, {}: {}",
            reading.words(),
            experiment.definition.name
        );
    }
    for (id, reading) in &seen {
        assert!(seen.contains(&(*id, Reading::First)), "{id}: {} and no first reading", reading.words());
    }
}

#[test]
fn a_claim_on_substitute_data_says_so() {
    let value = Expected::Single { cell: "a".into(), figure: "f".into(), paper: 1.0, rule: None };
    let claim = claim(Rule::Exact, value);
    let mut results = results(&[("a", 1.0), ("b", 1.0)]);
    results.cells[1].substitute = Some("words".into());
    assert!(!row(&claim, &results).substitute);
    results.cells[0].substitute = Some("words".into());
    let row = row(&claim, &results);
    assert_eq!((row.verdict, row.substitute), (Reproduced, true));
}

#[test]
fn the_scorecard_has_every_claim_in_order() {
    let run_plan = RunPlan { smoke: true, threads: 2, ..RunPlan::default() };
    let plan = ReproPlan { papers: vec!["mu".into()], whole: false, run: run_plan, keep: None };
    let done = run(&plan, &Control::default(), &mut |_| ()).unwrap();
    let card = &done.cards[0];
    let ids: Vec<String> = card.claims().map(|rows| rows[0].id.clone()).collect();
    assert_eq!(ids, (1..=17).map(|n| format!("M{n}")).collect::<Vec<_>>());
    let verdict = |id: &str| card.rows.iter().find(|row| row.id == id).unwrap().verdict;
    assert_eq!((verdict("M1"), verdict("M11"), verdict("M13")), (NotJudged, Reproduced, NotJudged));
    let mut csv = Vec::new();
    done.write_csv(&mut csv).unwrap();
    assert!(String::from_utf8(csv).unwrap().lines().count() > 40);
    let other = ReproPlan { papers: vec!["my".into()], ..plan };
    let refused = run(&other, &Control::default(), &mut |_| ()).unwrap_err();
    assert!(refused.to_string().contains("there is no paper 'my'"));
}
