//! A layer with a codec for unsorted nodes: the layers do not depend on a tree.

use super::*;
use crate::inputs::{sized, stride};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::CheckReport;
use nandex::codec::{crc32, get_u16, put_u16, put_u32};
use nandex::rng::Rng;
use nandex::testing::{SINGLE, Store};

/// A codec of nodes with up to `.0` entries in any order, as in an R-tree. An entry has 2 bytes that
/// identify it and 2 bytes of value.
#[derive(Clone, Copy)]
struct Heap(usize);

impl NodeCodec for Heap {
    fn body_bytes(&self) -> usize {
        4
    }

    fn identity(&self) -> Identity {
        Identity::first(2)
    }

    fn entries_max(&self) -> usize {
        self.0
    }

    fn mark(&self, page: &[u8]) -> Option<u8> {
        (page[4] > 0 && self.entries(page) <= self.0).then_some(page[4])
    }

    fn entries(&self, page: &[u8]) -> usize {
        get_u16(page, 6).into()
    }

    fn reset(&self, page: &mut [u8], _: Lpn, mark: u8) {
        page.fill(0);
        page[4] = mark;
    }

    fn differences(&self, old: Option<&[u8]>, new: &[u8], show: &mut dyn FnMut(Op, &[u8])) {
        let (old, new) = (old.map_or(BTreeMap::new(), entries), entries(new));
        for (id, what) in old.iter().filter(|(id, _)| !new.contains_key(*id)) {
            show(Op::Delete, &[id[0], id[1], what[0], what[1]]);
        }
        for (id, what) in new.iter().filter(|(id, what)| old.get(*id) != Some(*what)) {
            let op = if old.contains_key(id) { Op::Update } else { Op::Insert };
            show(op, &[id[0], id[1], what[0], what[1]]);
        }
    }

    fn apply(&self, page: &mut [u8], op: Op, body: &[u8]) -> Result<(), &'static str> {
        let count = self.entries(page);
        let found = (0..count).find(|i| page[8 + 4 * i..][..2] == body[..2]);
        match (op, found) {
            (Op::Insert, None) if count < self.0 => {
                page[8 + 4 * count..][..4].copy_from_slice(body);
                put_u16(page, 6, count as u16 + 1);
            }
            (Op::Update, Some(i)) => page[8 + 4 * i..][..4].copy_from_slice(body),
            (Op::Delete, Some(i)) => {
                page.copy_within(8 + 4 * (count - 1)..8 + 4 * count, 8 + 4 * i);
                put_u16(page, 6, count as u16 - 1);
            }
            _ => return Err("N2: a unit that contradicts its node"),
        }
        Ok(())
    }

    fn seal(&self, page: &mut [u8]) {
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }
}

type Entries = BTreeMap<[u8; 2], [u8; 2]>;

fn entries(page: &[u8]) -> Entries {
    let entry = |i: usize| ([page[8 + 4 * i], page[9 + 4 * i]], [page[10 + 4 * i], page[11 + 4 * i]]);
    (0..usize::from(get_u16(page, 6))).map(entry).collect()
}

fn node(entries: &Entries) -> Vec<u8> {
    let mut page = vec![0; 128];
    let heap = Heap(8);
    heap.reset(&mut page, Lpn(0), 1);
    for (id, what) in entries {
        heap.apply(&mut page, Op::Insert, &[id[0], id[1], what[0], what[1]]).unwrap();
    }
    heap.seal(&mut page);
    page
}

const POLICIES: [CommitPolicy; 6] = [
    CommitPolicy::FirstFit,
    CommitPolicy::FirstFitDecreasing,
    CommitPolicy::Sorted,
    CommitPolicy::SortedMerged,
    CommitPolicy::OldestNode,
    CommitPolicy::SelfTuning,
];

fn config(commit: CommitPolicy, eliminates: bool) -> LayerConfig {
    LayerConfig {
        commit,
        eliminates,
        reservation_units: 10,
        list_length: 3,
        group_pages: 4,
        tuning: Tuning::SLC,
    }
}

/// Nodes for sectors of 128 bytes. Such a sector has 7 units of 16 bytes, one of which is the reset of a
/// gathered node.
fn heap(config: LayerConfig) -> Heap {
    let is_in_one = matches!(config.commit, CommitPolicy::SortedMerged | CommitPolicy::SelfTuning);
    Heap(if is_in_one { 6 } else { 8 })
}

type Nodes = BTreeMap<u32, Entries>;

fn contents<S: PageStore>(layer: &mut NodeLayer<S, Heap>) -> Nodes {
    let mut page = vec![0; 128];
    let mut found = Nodes::new();
    for n in 1..30 {
        layer.read(Lpn(n), Cause::Check, &mut page).unwrap();
        if layer.sectors.codec.mark(&page).is_some() {
            found.insert(n, entries(&page));
        }
    }
    found
}

fn assert_holds<S: PageStore>(layer: &mut NodeLayer<S, Heap>, nodes: &Nodes) {
    let mut report = CheckReport::default();
    layer.check(&mut report).unwrap();
    assert!(report.is_sound(), "{:?}: {:?}", layer.config, report.violations);
    assert_eq!(contents(layer), *nodes, "{:?}", layer.config);
}

/// Random new entries for one node, or for a few at once.
fn any_change(nodes: &Nodes, most: usize, rng: &mut Rng) -> Nodes {
    let count = if rng.chance(1, 6) { 1 + rng.below(4) } else { 1 };
    let mut changed = Nodes::new();
    for _ in 0..count {
        let n = 1 + rng.below(29) as u32;
        let mut entries = nodes.get(&n).cloned().unwrap_or_default();
        for _ in 0..if count == 1 { 1 } else { 1 + rng.below(9) } {
            let id = [0, rng.below(12) as u8];
            if rng.chance(1, 3) || entries.len() >= most {
                entries.remove(&id);
            }
            if entries.len() < most && rng.chance(2, 3) {
                entries.insert(id, [rng.below(5) as u8; 2]);
            }
        }
        changed.insert(n, entries);
    }
    changed
}

fn write<S: PageStore>(layer: &mut NodeLayer<S, Heap>, changed: &Nodes) -> Result<(), StoreError> {
    let pages: Vec<(Lpn, Vec<u8>)> = changed.iter().map(|(n, entries)| (Lpn(*n), node(entries))).collect();
    let group: Vec<(Lpn, &[u8])> = pages.iter().map(|(n, page)| (*n, &page[..])).collect();
    match &group[..] {
        [(n, page)] => layer.write(*n, Cause::Host, page),
        group => layer.write_atomic(group, Cause::Host),
    }
}

#[test]
fn a_layer_is_a_store_of_nodes_of_any_kind() {
    let all = POLICIES.into_iter().flat_map(|commit| [(commit, true), (commit, false)]);
    for (commit, eliminates) in
        all.filter(|(commit, eliminates)| !commit.placement().has_modes() || !eliminates)
    {
        let config = config(commit, eliminates);
        let mut layer = NodeLayer::format(Store::new(128, 400), heap(config), config).unwrap();
        let (mut eliminated, mut compactions) = (0, 0);
        let (mut nodes, mut rng) = (Nodes::new(), Rng::new(3));
        for step in 0..2_000 {
            let changed = any_change(&nodes, heap(config).0, &mut rng);
            write(&mut layer, &changed).unwrap();
            nodes.extend(changed);
            if rng.chance(1, 25) {
                layer.sync().unwrap();
                let n = 1 + rng.below(29) as u32;
                layer.trim(Lpn(n)).unwrap();
                nodes.remove(&n);
            }
            if rng.chance(1, 100) {
                layer.sync().unwrap();
                eliminated += layer.eliminated_units();
                compactions += layer.counts().compactions;
                layer = NodeLayer::mount(layer.into_store(), heap(config), config).unwrap();
                layer.retain(|node| nodes.contains_key(&node.0)).unwrap();
            }
            if step % 40 == 0 {
                assert_holds(&mut layer, &nodes);
            }
        }
        assert_holds(&mut layer, &nodes);
        assert_eq!(eliminated > 5, eliminates, "{config:?}: {eliminated}");
        let compacts =
            config.commit as u8 <= CommitPolicy::Sorted as u8 || config.commit.placement().has_modes();
        assert_eq!(compactions > 5, compacts, "{config:?}");
    }
}

#[test]
fn a_cut_leaves_the_nodes_after_some_whole_write_and_none_before_the_last_sync() {
    for commit in &POLICIES[..4] {
        let config = LayerConfig { reservation_units: 24, ..config(*commit, false) };
        let mut seen_void = 0;
        for steps in (2..240).step_by(stride(3)) {
            let mut layer =
                NodeLayer::format(Store::new(128, 400).with_promise(SINGLE), heap(config), config).unwrap();
            layer.sectors.store.fail_after_calls(steps);
            let (mut states, mut synced) = (vec![Nodes::new()], 0);
            let mut rng = Rng::new(steps);
            loop {
                let changed = any_change(&states[states.len() - 1], heap(config).0, &mut rng);
                let mut state = states[states.len() - 1].clone();
                state.extend(changed.clone());
                states.push(state);
                if write(&mut layer, &changed).is_err() {
                    break;
                }
                if rng.chance(1, 12) {
                    if layer.sync().is_err() {
                        break;
                    }
                    synced = states.len() - 1;
                }
            }
            assert!(layer.sync().is_err(), "nothing more is believed");
            let store = layer.into_store();
            store.cut(&mut rng);
            let before = store.counters().trims;
            let mut layer = NodeLayer::mount(store, heap(config), config).unwrap();
            seen_void += u32::from(layer.sectors.store.counters().trims > before);
            let found = contents(&mut layer);
            let Some(at) = states.iter().rposition(|state| *state == found) else {
                panic!("{commit:?} after {steps} steps: {found:?}");
            };
            assert!(at >= synced, "{commit:?}: state {at}, synced {synced}");
            assert_holds(&mut layer, &found);
            // What a cut left is as good as any other layer.
            let changed = any_change(&found, heap(config).0, &mut rng);
            write(&mut layer, &changed).unwrap();
            layer.sync().unwrap();
            let mut layer = NodeLayer::mount(layer.into_store(), heap(config), config).unwrap();
            assert_holds(&mut layer, &found.into_iter().chain(changed).collect());
        }
        assert!(
            seen_void > sized(3, 10),
            "{commit:?}: a cut within a commit leaves sectors that are dropped"
        );
    }
}

#[test]
fn the_sets_of_a_commit_go_to_the_first_sector_with_room_for_them() {
    // Seven units to a sector. Sets of 5, 4, 2 and 3 in order of arrival, or the largest first: 5 + 2, then 4
    // + 3. By node: the sets of 2 and 4, 3 + 4, then those of 7 and 9, 2 + 5.
    let sets = [(9, 5), (4, 4), (7, 2), (2, 3)];
    for commit in [CommitPolicy::FirstFit, CommitPolicy::FirstFitDecreasing, CommitPolicy::Sorted] {
        let config = LayerConfig { reservation_units: 40, ..config(commit, false) };
        let mut layer = NodeLayer::format(Store::new(128, 400), heap(config), config).unwrap();
        for (n, units) in sets {
            // A new node is a reset and its entries.
            let entries: Entries = (1..units).map(|id| ([0, id], [1; 2])).collect();
            write(&mut layer, &[(n, entries)].into_iter().collect()).unwrap();
        }
        assert_eq!(layer.waiting_units(), 14);
        layer.sync().unwrap();
        assert_eq!((layer.counts().commits, layer.counts().commit_pages), (1, 2), "{commit:?}");
        assert_eq!([9, 4, 7, 2].map(|n| layer.list_length(Lpn(n))), [1; 4]);
        let stream = commit == CommitPolicy::Sorted;
        let same = |a: u32, b: u32| layer.sectors.table.list(a) == layer.sectors.table.list(b);
        assert!(if stream { same(2, 4) && same(7, 9) } else { same(9, 7) && same(4, 2) }, "{commit:?}");
    }
}

/// Programs and reads cost the same here, so nodes often change their mode.
const EVEN: Tuning = Tuning { modes: Modes::Tuned, read_ns: 100, program_ns: 100 };

#[test]
fn nodes_change_their_mode_with_what_happens_to_them() {
    let config =
        LayerConfig { reservation_units: 7, tuning: EVEN, ..config(CommitPolicy::SelfTuning, false) };
    let mut layer = NodeLayer::format(Store::new(128, 400), heap(config), config).unwrap();
    let (mut nodes, mut rng) = (Nodes::new(), Rng::new(8));
    let mut page = vec![0; 128];
    for round in 0..6 {
        for _ in 0..400 {
            let changed = any_change(&nodes, 6, &mut rng);
            // Half of the nodes are read in one round, the other half in the next, and written in between.
            let changed: Nodes = changed.into_iter().filter(|(n, _)| n % 2 == round % 2).collect();
            if !changed.is_empty() {
                write(&mut layer, &changed).unwrap();
                nodes.extend(changed);
            }
            for _ in 0..3 {
                let n = (1 + round) % 2 + 2 * rng.below(15) as u32;
                layer.read(Lpn(n.max(1)), Cause::Host, &mut page).unwrap();
            }
        }
        assert_holds(&mut layer, &nodes);
        let counts = layer.mode_counts();
        // In the first round there were no nodes to be read.
        assert!(round == 0 || counts.log_nodes > 5 && counts.disk_nodes > 5, "{counts:?}");
        assert!(round < 2 || counts.switches_to_disk > 4 && counts.switches_to_log > 4, "{counts:?}");
        layer.sync().unwrap();
        layer = NodeLayer::mount(layer.into_store(), heap(config), config).unwrap();
        layer.retain(|n| nodes.contains_key(&n.0)).unwrap();
        assert_eq!(layer.mode_counts().disk_nodes + layer.mode_counts().log_nodes, nodes.len() as u64);
    }
}

#[test]
fn a_cut_of_tuned_nodes_leaves_each_as_synced_or_later_and_what_was_written_at_once_together() {
    let config =
        LayerConfig { reservation_units: 7, tuning: EVEN, ..config(CommitPolicy::SelfTuning, false) };
    for steps in (2..400).step_by(2) {
        let mut layer =
            NodeLayer::format(Store::new(128, 400).with_promise(SINGLE), heap(config), config).unwrap();
        layer.sectors.store.fail_after_calls(steps);
        let (mut states, mut groups, mut synced) = (vec![Nodes::new()], Vec::new(), 0);
        let mut rng = Rng::new(steps);
        let mut page = vec![0; 128];
        loop {
            let mut changed = any_change(&states[states.len() - 1], 5, &mut rng);
            let number = states.len() as u16;
            for entries in changed.values_mut() {
                entries.insert([1, 0], number.to_le_bytes());
            }
            let mut state = states[states.len() - 1].clone();
            state.extend(changed.clone());
            states.push(state);
            groups.push(changed.keys().copied().collect::<Vec<u32>>());
            let read = layer.read(Lpn(1 + rng.below(29) as u32), Cause::Host, &mut page);
            if read.is_err() || write(&mut layer, &changed).is_err() {
                break;
            }
            if rng.chance(1, 12) {
                if layer.sync().is_err() {
                    break;
                }
                synced = states.len() - 1;
            }
        }
        let store = layer.into_store();
        store.cut(&mut rng);
        let mut layer = NodeLayer::mount(store, heap(config), config).unwrap();
        let found = contents(&mut layer);
        let version = |n: &u32| found.get(n).map_or(0, |node| u16::from_le_bytes(node[&[1, 0]]).into());
        for n in 1..30 {
            assert_eq!(states[version(&n)].get(&n), found.get(&n), "node {n} is as it once was");
            let last = (1..=synced).rev().find(|at| groups[at - 1].contains(&n)).unwrap_or(0);
            assert!(version(&n) >= last, "node {n} is of {}, synced {synced}", version(&n));
        }
        for (group, at) in groups.iter().zip(1..) {
            let are_in = group.iter().filter(|n| version(n) >= at).count();
            assert!([0, group.len()].contains(&are_in), "{are_in} of {group:?}, steps {steps}");
        }
        assert_holds(&mut layer, &found);
    }
}

#[test]
fn a_group_for_which_there_is_no_room_leaves_what_waited() {
    let mut buffer = ReservationBuffer::new(4, 1, Identity::first(1), false);
    for (node, n) in [(5, 1), (3, 2), (5, 3), (5, 4), (3, 5), (7, 6)] {
        buffer.push(Unit { node, op: Op::Insert, mark: 1, body: &[n] });
    }
    buffer.remove_last(5, 2);
    buffer.remove_last(7, 1);
    buffer.push(Unit { node: 5, op: Op::Insert, mark: 1, body: &[7] });
    let of = |node| buffer.units_of(node).map(|unit| unit.body[0]).collect::<Vec<u8>>();
    assert_eq!((of(5), of(3), of(7)), (vec![1, 7], vec![2, 5], vec![]));
    assert_eq!((buffer.len(), buffer.fault()), (4, None));
}

/// A node that every state of the test has. Its contents are the number of the state.
const STATE: u32 = 29;

#[test]
fn what_cuts_leave_of_nodes_given_up_is_never_taken_for_nodes() {
    let (mut came_back, mut too_long) = (0, 0);
    let shared = POLICIES.into_iter().filter(|policy| policy.placement().has_sectors());
    for (policy, seed) in shared.flat_map(|policy| (0..sized(20, 60)).map(move |seed| (policy, seed))) {
        let eliminates = seed % 2 == 0 && !policy.placement().has_modes();
        let config = LayerConfig { reservation_units: 24, ..config(policy, eliminates) };
        let mut rng = Rng::new(seed);
        let mut layer =
            NodeLayer::format(Store::new(128, 400).with_promise(SINGLE), heap(config), config).unwrap();
        let mut state = Nodes::new();
        for _ in 0..4 {
            layer.sectors.store.fail_after_calls(20 + rng.below(300));
            let (states, synced) = work_until_the_cut(&mut layer, state, &mut rng);
            let mut store = layer.into_store();
            came_back += store.cut(&mut rng);
            // Cuts in the recovery, and what the tree does then.
            for most in [4, 30, 300, u64::MAX] {
                store.fail_after_calls(if most < u64::MAX { rng.below(most) } else { most });
                let (recovered, is_long) = recover(store, config, &states, synced);
                too_long += u32::from(is_long);
                match recovered {
                    Ok(whole) => store = whole.into_store(),
                    Err(cut) => store = cut,
                }
                came_back += store.cut(&mut rng);
            }
            store.fail_after(u64::MAX);
            layer = recover(store, config, &states, synced).0.unwrap_or_else(|_| panic!("no cut"));
            state = states[state_of(&mut layer).unwrap()].clone();
            assert_holds(&mut layer, &state);
        }
    }
    assert!(
        came_back > sized(330, 1_000) && too_long > sized(3, 10),
        "{came_back} trims were undone, {too_long} lists were too long"
    );
}

/// Changes nodes until the power fails. Like a tree, it gives a node up only when the durable state does
/// without it. Returns all states since the last sync, beginning with the state at that sync.
fn work_until_the_cut(
    layer: &mut NodeLayer<Store, Heap>,
    state: Nodes,
    rng: &mut Rng,
) -> (Vec<Nodes>, usize) {
    let mut states = vec![Nodes::new(), state];
    let mut synced = 1;
    loop {
        let mut state = states[states.len() - 1].clone();
        let gone = if rng.chance(1, 6) { state.keys().copied().find(|n| *n != STATE) } else { None };
        let mut changed = match gone {
            Some(_) => Nodes::new(),
            None => any_change(&state, 6, rng).into_iter().filter(|(n, _)| *n < STATE).take(3).collect(),
        };
        changed.insert(STATE, [([0, 0], (states.len() as u16).to_le_bytes())].into_iter().collect());
        state.extend(changed.clone());
        gone.iter().for_each(|n| drop(state.remove(n)));
        states.push(state);
        if write(layer, &changed).is_err() {
            return (states, synced);
        }
        if gone.is_some() || rng.chance(1, 12) {
            if layer.sync().is_err() {
                return (states, synced);
            }
            synced = states.len() - 1;
        }
        if gone.is_some_and(|n| layer.trim(Lpn(n)).is_err()) {
            return (states, synced);
        }
    }
}

fn state_of(layer: &mut NodeLayer<Store, Heap>) -> Option<usize> {
    let mut page = vec![0; 128];
    layer.read(Lpn(STATE), Cause::Recovery, &mut page).unwrap();
    layer.sectors.codec.mark(&page)?;
    Some(u16::from_le_bytes(entries(&page)[&[0, 0]]).into())
}

/// Opens a layer as a tree does, and checks that it equals some state since the last sync. Returns the
/// store, if the power fails, and whether some list was too long.
fn recover(
    store: Store,
    config: LayerConfig,
    states: &[Nodes],
    synced: usize,
) -> (Result<NodeLayer<Store, Heap>, Store>, bool) {
    let mut layer = match NodeLayer::mount(store.handle(), heap(config), config) {
        Ok(layer) => layer,
        Err(error) => {
            assert_eq!(error, IndexError::from(StoreError::Nand(nandex::nand::NandError::PowerLost)));
            return (Err(store), false);
        }
    };
    let is_long = !layer.sectors.beyond.is_empty();
    // The first cut may have come before anything was synced.
    let at = state_of(&mut layer).unwrap_or(1);
    assert!(at >= synced || states[at] == states[synced], "state {at}, synced {synced}: {config:?}");
    let state = &states[at];
    let retained = layer.retain(|n| state.contains_key(&n.0));
    let is_cut = retained.is_err();
    if let Err(error) = retained {
        assert!(layer.sectors.store.has_failed(), "{config:?}: {error:?}");
    }
    if is_cut { (Err(layer.into_store()), is_long) } else { (Ok(layer), is_long) }
}
