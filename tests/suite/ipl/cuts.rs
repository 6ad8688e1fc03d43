//! The power is cut at every physical operation of a run, in every way, and again while that is recovered
//! from.

use super::*;
use crate::inputs::{sized, stride};
use nandex::nand::sim::{CutWhen, PowerCut, TornModel};
use nandex::testing::{History, Mix, Op};
use nandex::{NandError, StoreError};

type Chip = Shared<SimChip>;
type Tree = IplTree<Chip>;

/// A chip on which blocks are short after a few hundred operations.
const SMALL: Geometry = Geometry::new(256, 64, 16, 22);

/// One kind of tree under test.
#[derive(Clone)]
struct Kind {
    geometry: Geometry,
    settings: IplConfig,
    /// A torn sector spoils the page, and with it sectors that were durable; see the documentation.
    sectors: bool,
}

fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for area in [LogArea::Dynamic, LogArea::Fixed] {
        for class in CLASSES {
            let settings = IplConfig { order: Some(8), checkpoint_blocks: Some(6), ..settings(area, class) };
            kinds.push(Kind { geometry: SMALL, settings, sectors: false });
            let rewriting = IplConfig { rewrite_units: 2, ..settings };
            kinds.push(Kind { geometry: slc(SMALL), settings: rewriting, sectors: false });
            let geometry = partial(Geometry::new(1024, 64, 8, 24));
            let sectors = IplConfig { log_unit: LogUnit::Sector, order: Some(6), ..settings };
            kinds.push(Kind { geometry, settings: sectors, sectors: true });
        }
    }
    kinds
}

/// The fewest updates since the last sync that must be found after a cut.
fn least(history: &History, kind: &Kind) -> usize {
    let is_sure = kind.settings.durability == Durability::EveryOperation;
    if is_sure { history.acknowledged() } else { 0 }
}

/// One random operation. Waves of insertion and removal, syncs, and closes, which are remounts here.
fn step(tree: &mut Tree, history: &mut History, rng: &mut Rng, round: usize) -> Result<(), IndexError> {
    let updates = if (round / 40).is_multiple_of(2) { [52, 23] } else { [24, 51] };
    match (Mix { remounts: 1, ..Mix::updates(120, updates, 4) }).draw(rng, RECORD) {
        Op::Remount => tree.close().map(|()| history.sync()),
        op => history.apply(tree, &op),
    }
}

fn is_power_loss(error: &IndexError) -> bool {
    *error == IndexError::Store(StoreError::Nand(NandError::PowerLost))
}

/// The end of a run to a cut.
enum End {
    Recovered(Box<Tree>, Model),
    /// The class promises nothing, and the mount said so.
    Refused,
}

/// Mounts until the power stays on, and finds one of the states that may be found.
fn mount(chip: &Chip, kind: &Kind, history: &History, cuts: &mut Vec<PowerCut>) -> End {
    loop {
        chip.lock().power_on();
        if let Some(cut) = cuts.pop() {
            let at_operation = chip.lock().operations() + cut.at_operation;
            chip.lock().plan_power_cut(PowerCut { at_operation, ..cut });
        }
        let mut tree = match IplTree::mount(chip.clone(), &kind.settings) {
            Ok(tree) => tree,
            Err(error) if is_power_loss(&error) => continue,
            Err(IndexError::NotCleanlyClosed) if kind.settings.durability == Durability::None => {
                return End::Refused;
            }
            Err(error) => panic!("mount: {error}"),
        };
        let found = contents(&mut tree).unwrap();
        let is_known = history.had(&found, least(history, kind));
        assert!(is_known, "{:?}\n{found:?} is no state since the last durable one", kind.settings);
        assert_holds(&mut tree, &found);
        return End::Recovered(Box::new(tree), found);
    }
}

/// Runs operations until the power is cut or their number is done.
fn run(
    chip: &Chip,
    mut tree: Tree,
    history: &mut History,
    (kind, rng, operations): (&Kind, &mut Rng, usize),
) -> bool {
    for round in 0..operations {
        match step(&mut tree, history, rng, round) {
            Ok(()) => {}
            // What was under way may have happened.
            Err(error) if is_power_loss(&error) => return true,
            Err(error) => panic!("{:?} round {round}: {error}", kind.settings),
        }
    }
    chip.lock().power_off();
    false
}

/// A run that is cut at this operation; then recovery is cut, then some more work, cut as well. False: it
/// ended before.
fn survives(kind: &Kind, at: u64, (when, torn): (CutWhen, TornModel), seed: u64) -> bool {
    let chip = Shared::new(chip(kind.geometry));
    let mut tree = IplTree::format(chip.clone(), &kind.settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(seed));
    for key in (0..110u32).step_by(2) {
        insert(&mut tree, &mut model, key, key).unwrap();
    }
    tree.sync().unwrap();
    let mut history = History::new(model);
    let first = chip.lock().operations();
    chip.lock().plan_power_cut(PowerCut { at_operation: first + at, when, torn, seed });
    let struck = run(&chip, tree, &mut history, (kind, &mut rng, 90));
    for session in 0..4u64 {
        let again = |wait| PowerCut { at_operation: wait, when, torn, seed: seed ^ at };
        let mut cuts = vec![again(100_000), again(rng.below(30)), again(rng.below(5))];
        cuts.truncate(1 + (at + session) as usize % 3);
        let End::Recovered(tree, found) = mount(&chip, kind, &history, &mut cuts) else { break };
        history = History::new(found);
        let at_operation = chip.lock().operations() + rng.below(40);
        chip.lock().plan_power_cut(PowerCut { at_operation, when, torn, seed });
        run(&chip, *tree, &mut history, (kind, &mut rng, 60));
    }
    struck
}

fn survives_all(kind: &Kind, seeds: u64) {
    let step = stride(9) as u64;
    for when in [CutWhen::Before, CutWhen::Inside, CutWhen::After] {
        for torn in TornModel::ALL {
            if when != CutWhen::Inside && torn != TornModel::Prefix {
                continue;
            }
            if kind.sectors && torn == TornModel::Unreadable {
                continue;
            }
            for seed in 0..seeds {
                let mut at = seed % step;
                while survives(kind, at, (when, torn), seed) {
                    at += step;
                }
                assert!(at > 30 || kind.settings.durability < Durability::EveryOperation, "{at} operations");
            }
        }
    }
}

#[test]
fn every_operation_survives_every_cut() {
    kinds()
        .iter()
        .filter(|k| k.settings.durability == Durability::EveryOperation)
        .for_each(|k| survives_all(k, 2));
}

#[test]
fn a_state_since_the_last_sync_survives_every_cut() {
    kinds()
        .iter()
        .filter(|k| k.settings.durability == Durability::EverySync)
        .for_each(|k| survives_all(k, 4));
}

#[test]
fn a_cut_is_noticed_where_nothing_is_promised() {
    kinds().iter().filter(|k| k.settings.durability == Durability::None).for_each(|k| survives_all(k, 3));
}

/// Every cut leaves pages unused and may leave a merge half done; there must be room for ever.
#[test]
fn cut_after_cut_after_cut() {
    let promising = kinds().into_iter().filter(|kind| kind.settings.durability > Durability::None);
    for (kind, seed) in promising.flat_map(|kind| (0..sized(2, 5)).map(move |seed| (kind.clone(), seed))) {
        let kind = &kind;
        let chip = Shared::new(chip(kind.geometry));
        let mut tree = IplTree::format(chip.clone(), &kind.settings).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        for session in 0..150 {
            let mut history = History::new(model);
            let torn = TornModel::ALL[session % if kind.sectors { 2 } else { 4 }];
            let at_operation = chip.lock().operations() + rng.below([4, 12, 40][session % 3]);
            let cut = PowerCut { at_operation, when: CutWhen::Inside, torn, seed: session as u64 };
            chip.lock().plan_power_cut(cut);
            run(&chip, tree, &mut history, (kind, &mut rng, 60));
            let End::Recovered(mounted, found) = mount(&chip, kind, &history, &mut Vec::new()) else {
                panic!("refused")
            };
            (tree, model) = (*mounted, found);
        }
    }
}
