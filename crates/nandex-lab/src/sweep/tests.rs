//! Grids, shards, stores and resumed sweeps.

use super::*;
use crate::runner::Control;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const GRID: &str = "
index = ['mu', 'bplus']
chip = 'mlc-64m'
workload = 'uniform'
ftl = ['page-map', 'dftl']
ram = ['256KiB', 1048576]
seed = { from = 1, to = 3 }
[options]
records = 400
operations = [100, 200]
cache = ['lru', 'cflru']
";

fn grid(text: &str) -> Grid {
    toml::from_str(text).unwrap()
}

#[derive(Default)]
struct Counting(AtomicU64);

impl Look for Counting {
    fn start(&self, _: u64) {}

    fn finished(&self, done: u64, _: &Outcome) {
        self.0.fetch_max(done, Ordering::Relaxed);
    }
}

fn plan() -> SweepPlan {
    SweepPlan { shard: Shard::WHOLE, resume: false, retry: false, threads: 2, commit: None }
}

fn sweep(grid: &Grid, folder: &Path, plan: &SweepPlan) -> Result<Tally, crate::LabError> {
    let store = Store::open(folder).unwrap();
    run(&grid.cells().unwrap(), &store, plan, &Control::default(), &Counting::default())
}

#[test]
fn axes_are_crossed_and_cells_that_run_alike_are_one() {
    let cells = grid(GRID).cells().unwrap().cells;
    let of = |index: &str| cells.iter().filter(|cell| cell.index == index).count();
    // An index on raw NAND has neither FTL nor replacement policy.
    assert_eq!((of("mu"), of("bplus")), (2 * 2 * 3, 2 * 2 * 2 * 2 * 3));
    assert!(
        cells.iter().filter(|c| c.index == "mu").all(|c| c.ftl.is_none() && !c.options.contains_key("cache"))
    );
    assert_eq!((cells[0].seed, cells[1].seed, cells[0].ram), (1, 2, Some(256 << 10)));
    let skipped = format!("skip = [{{ index = 'mu', ram = '1MiB' }}, {{ seed = 3 }}]\n{GRID}");
    let cells = grid(&skipped).cells().unwrap().cells;
    assert_eq!(cells.iter().filter(|cell| cell.index == "mu").count(), 2 * 2);
}

#[test]
fn a_key_is_of_everything_that_counts() {
    let request = Request { workload: Some("uniform".into()), ..Request::new("mu") };
    let key = request.key().unwrap();
    assert_eq!(request.clone().key().unwrap(), key);
    let others = [
        Request { index: "bplus".into(), ..request.clone() },
        Request { seed: 2, ..request.clone() },
        Request { ram: Some(1), ..request.clone() },
        Request { options: [("records".into(), "5".into())].into(), ..request.clone() },
    ];
    assert!(others.iter().all(|other| other.key().unwrap() != key));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.txt");
    std::fs::write(&file, "insert 1\n").unwrap();
    let of_trace =
        || Request { trace: Some(file.display().to_string()), ..Request::new("mu") }.key().unwrap();
    let before = of_trace();
    std::fs::write(&file, "insert 12\n").unwrap();
    assert_ne!(of_trace(), before, "a changed file is another cell");
}

#[test]
fn what_is_not_there_is_refused() {
    let whole = grid(GRID);
    let again: Grid = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
    assert_eq!(again, whole, "a grid goes through JSON");
    let refused = |text: &str| grid(text).cells().unwrap_err().to_string();
    assert!(refused("index = 'mo'").contains("there is no index 'mo'"));
    assert!(refused("index = 'mu'\nchip = 'mlc'").contains("there is no chip 'mlc'"));
    assert!(refused("index = 'mu'\nworkload = 'unifrom'").contains("did you mean 'uniform'?"));
    assert!(refused("index = 'bplus'\nftl = 'pagemap'").contains("did you mean 'page-map'?"));
    assert!(refused("index = 'bplus'\n[options]\nrecrods = 1").contains("there is no option 'recrods'"));
    assert!(refused("chip = 'mlc-64m'").contains("index = [\"mu\", \"bplus\"]"));
    assert!(refused("index = 'mu'\nskip = [{ sed = 1 }]").contains("did you mean 'seed'?"));
    let parse = |text: &str| toml::from_str::<Grid>(text).unwrap_err().message().to_string();
    assert!(parse("index = []").contains("empty list"));
    // Why a value is refused is told, not that it is.
    assert!(parse("index = 'mu'\nram = '64KB'").contains("'KB' may mean two sizes"));
    assert!(parse("index = 'mu'\nram = ['16KiB', '64KB']").contains("'KB' may mean two sizes"));
    assert!(parse("indx = 'mu'").contains("unknown field `indx`"));
    assert!(parse("index = 'mu'\nseed = { from = 3, to = 1 }").contains("no range of seeds"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("grid.toml");
    std::fs::write(&file, "index = 'mu'\nrams = 1\n").unwrap();
    let error = Grid::load(&file).unwrap_err().to_string();
    assert!(error.contains("grid.toml: line 2: rams = 1: unknown field `rams`"), "{error}");
}

#[test]
fn a_sweep_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let grid = grid(&GRID.replace("to = 3", "to = 1"));
    let cells = grid.cells().unwrap().cells.len();
    let [first, second] = [1, 2].map(|number| SweepPlan { shard: Shard { number, of: 2 }, ..plan() });
    let tally = sweep(&grid, folder.path(), &first).unwrap();
    assert_eq!((tally.kept, tally.ran, tally.left), (0, cells.div_ceil(2), 0));
    // A cell that a killed process was writing, and one that a disk damaged.
    let store = Store::open(folder.path()).unwrap();
    std::fs::write(store.path("x").with_file_name(".y.1.part"), "{").unwrap();
    std::fs::write(store.path(&tally.outcomes[0].key), "{\"schema\":1").unwrap();
    let tally = sweep(&grid, folder.path(), &second).unwrap();
    assert_eq!((tally.kept, tally.ran), (0, cells / 2));
    let error = sweep(&grid, folder.path(), &plan()).unwrap_err().to_string();
    assert!(
        error.contains(&format!("holds {} of the {cells} cells already; add --resume", cells - 1)),
        "{error}"
    );
    let tally = sweep(&grid, folder.path(), &SweepPlan { resume: true, ..plan() }).unwrap();
    assert_eq!((tally.kept, tally.ran, tally.failures().count()), (cells - 1, 1, 0));

    let mut table = Vec::new();
    write_csv(&tally.outcomes, &mut table).unwrap();
    let mut reader = csv::Reader::from_reader(&table[..]);
    let head = reader.headers().unwrap().clone();
    let column = |name: &str| head.iter().position(|column| column == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.unwrap()).collect();
    assert_eq!(rows.len(), cells);
    let row = rows.iter().find(|row| &row[column("index")] == "bplus").unwrap();
    assert_eq!(
        (&row[column("status")], &row[column("option.records")], &row[column("trace")]),
        ("done", "400", "")
    );
    let number = |name: &str| row[column(name)].parse::<f64>().unwrap();
    assert!(
        (number("flash_time_per_operation_ns") - number("flash_time_ns") / number("operations")).abs() < 1e-6
    );
}

#[test]
fn a_cell_measures_what_a_comparison_measures() {
    let options = [("records".into(), "600".into()), ("operations".into(), "300".into())].into();
    let request =
        Request { workload: Some("zipfian".into()), ram: Some(1 << 20), options, ..Request::new("bplus") };
    let outcome = request.run(Some("abc"), &Control::default()).unwrap();
    let figures = outcome.figures.clone().unwrap();
    assert_eq!(
        (outcome.status, figures.operations, outcome.commit.as_deref()),
        (Status::Done, 300, Some("abc"))
    );
    let json = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
    let again = Request::from_json(&serde_json::to_string(&request).unwrap()).unwrap();
    assert_eq!(again, request);
    let repeated = again.run(None, &Control::default()).unwrap().figures.unwrap();
    assert_eq!(Figures { cpu_ns: 0, ..repeated }, Figures { cpu_ns: 0, ..figures });
}

#[test]
fn what_cannot_run_is_a_result_and_what_fails_can_be_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let tiny =
        grid("index = 'bplus'\nworkload = 'uniform'\nram = 100\n[options]\nrecords = 100\noperations = 10");
    let tally = sweep(&tiny, folder.path(), &plan()).unwrap();
    assert_eq!((tally.outcomes[0].status, tally.failures().count()), (Status::Refused, 0));
    assert!(tally.outcomes[0].error.as_ref().unwrap().contains("RAM"));
    let trace = folder.path().join("t.txt");
    std::fs::write(&trace, "insert 1\ninsart 2\n").unwrap();
    let broken = Grid { trace: vec![trace.display().to_string()], ..grid("index = 'mu'") };
    let tally = sweep(&broken, folder.path(), &plan()).unwrap();
    assert_eq!(tally.failures().count(), 1);
    assert!(tally.outcomes[0].error.as_ref().unwrap().contains("line 2"), "{:?}", tally.outcomes[0]);
    let again = |retry| sweep(&broken, folder.path(), &SweepPlan { resume: true, retry, ..plan() }).unwrap();
    assert_eq!((again(false).ran, again(true).ran), (0, 1));
}

#[test]
fn two_hundred_cells_that_are_kept_are_found_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let grid =
        grid(&GRID.replace("to = 3", "to = 10").replace("400", "50").replace("[100, 200]", "[10, 20]"));
    let cells = grid.cells().unwrap().cells.len();
    assert_eq!(cells, 200);
    let store = Store::open(folder.path()).unwrap();
    for cell in grid.cells().unwrap().cells {
        let key = cell.key().unwrap();
        let (nandex_version, status) = (String::new(), Status::Done);
        let figures = Some(Figures::default());
        let outcome = Outcome {
            schema: CELL_SCHEMA,
            key,
            request: cell,
            nandex_version,
            commit: None,
            status,
            error: None,
            figures,
        };
        store.put(&outcome).unwrap();
    }
    let tally = sweep(&grid, folder.path(), &SweepPlan { resume: true, ..plan() }).unwrap();
    assert_eq!((tally.kept, tally.ran), (200, 0));
}

#[test]
fn shards_have_every_cell_once() {
    let sweep = grid(GRID).cells().unwrap();
    let parts = (1..=7).flat_map(|number| Shard { number, of: 7 }.cells(&sweep));
    let mut parts: Vec<Request> = parts.collect();
    let mut all = sweep.cells.clone();
    parts.sort_unstable();
    all.sort_unstable();
    assert_eq!(parts, all);
    assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
    for wrong in ["0/8", "9/8", "2", "a/b", "1/0"] {
        assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
    }
}
