//! Advice on small questions.

use super::*;

fn small(workload: &str, options: &[(&str, &str)]) -> Request {
    let set = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Request { workload: Some(workload.to_string()), seeds: 1, options: set.collect(), ..Request::default() }
}

fn name(advice: &Advice) -> &str {
    advice.answer.as_ref().map_or("", |answer| &answer.index)
}

#[test]
fn known_best_cases_get_the_known_answer() {
    let few = [("records", "600"), ("operations", "500")];
    let tiny = Request { ram: Some(12 << 10), ..small("uniform", &few) };
    let cases = [
        // So few records are all in RAM, even in that of a B+-tree over DFTL: it costs no more than plow or a
        // mu-Tree, and has fewer parts.
        ("read only", small("ycsb-c", &few), &["bplus", "plow"][..]),
        ("ascending", small("ascending", &few), &["sbits"]),
        ("every operation durable", small("uniform", &few), &["bplus", "mu", "plow"]),
        ("tiny RAM", tiny, &["plow", "mu", "sbits"]),
        (
            "updates",
            Request { sync_every: Some(100), durability: "every-sync".into(), ..small("ycsb-a", &few) },
            &["plow"],
        ),
    ];
    for (case, request, known) in cases {
        let advice = advise(&request).unwrap();
        assert!(known.contains(&name(&advice)), "{case}: {:?}, then {:?}", advice.answer, advice.others);
        let answer = advice.answer.unwrap();
        assert!(answer.is_equivalent && answer.figures.ram_bytes <= request.ram_bytes() as f64, "{case}");
    }
}

#[test]
fn what_cannot_run_is_never_the_answer_and_the_ram_that_suffices_is_told() {
    let few = [("records", "300"), ("operations", "200")];
    let advice = advise(&Request { ram: Some(2000), ..small("uniform", &few) }).unwrap();
    assert!(advice.answer.is_none() && advice.others.is_empty() && advice.config.is_empty());
    assert!(advice.refused.len() > 20, "{:?}", advice.refused);
    let enough = advice.by_ram.last().unwrap();
    assert!(enough.ram_bytes > 2000 && enough.ram_bytes < 100_000, "{enough:?}");
}

#[test]
fn a_request_that_makes_no_sense_is_refused_by_name() {
    let refused = |request: Request| advise(&request).unwrap_err().to_string();
    assert!(refused(Request { rate: Some(0.0), ..Request::default() }).contains("rate"));
    assert!(refused(Request { chip: "mlc".into(), ..Request::default() }).contains("mlc"));
    let option = BTreeMap::from([("records".to_string(), "5".to_string())]);
    assert!(refused(Request { options: option, ..Request::default() }).contains("no option of a trace"));
    let unknown = BTreeMap::from([("recrods".to_string(), "5".to_string())]);
    let workload = Some("uniform".to_string());
    assert!(refused(Request { workload, options: unknown, ..Request::default() }).contains("records"));
}
