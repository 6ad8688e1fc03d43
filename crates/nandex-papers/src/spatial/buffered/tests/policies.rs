//! The choices of eFIND's policies from small buffers, worked out by hand.

use super::buffer::{NodeBuffer, Touch};
use super::*;
use nandex::spatial::Rect;
use nandex::spatial::node::{Change, Entry};

/// Adds an entry to a node of the buffer, in the given operation.
fn add(buffer: &mut NodeBuffer<i32, 2>, (node, level): (u32, u8), operation: u64, rect: [i32; 4]) {
    let [x, y, width, height] = rect;
    let rect = Rect::new([x, y], [x + width, y + height]).unwrap();
    let change = Change::Add { at: 0, entry: Entry::data(rect, operation) };
    let format = format();
    record::show(&format, &change, &mut |modification| {
        buffer.touch(Touch { node: NodeId(node), level, operation, modification });
    });
}

fn format() -> NodeFormat {
    NodeFormat::new::<i32, 2>(*b"test    ", (512, 1000), 0)
}

/// A buffer from rows of node, level, operation and rectangle.
fn buffer(rows: &[(u32, u8, u64, [i32; 4])]) -> NodeBuffer<i32, 2> {
    let mut buffer = NodeBuffer::new(format(), 2);
    rows.iter()
        .for_each(|(node, level, operation, rect)| add(&mut buffer, (*node, *level), *operation, *rect));
    buffer
}

fn chosen(policy: Efind, buffer: &mut NodeBuffer<i32, 2>, written: &[u32]) -> Vec<u32> {
    let mut control = TemporalControl::new(0, 4);
    control.note_written(&written.iter().map(|n| NodeId(*n)).collect::<Vec<_>>());
    let chosen = Chooser::new(FlushPolicy::Efind(policy)).choose(buffer, 2, &control);
    chosen.iter().map(|id| id.0).collect()
}

const POINT: [i32; 4] = [0, 0, 0, 0];

/// A buffer of three units: nodes 2, 3 with 1 + 1 modifications, nodes 5, 6 with 2 + 1, nodes 8, 9 with 1 +
/// 3. Nodes 8 and 9 are the youngest.
fn six_nodes() -> NodeBuffer<i32, 2> {
    buffer(&[
        (2, 1, 1, POINT),
        (3, 2, 2, POINT),
        (5, 1, 3, POINT),
        (5, 1, 4, POINT),
        (6, 1, 5, POINT),
        (8, 1, 6, POINT),
        (9, 1, 7, POINT),
        (9, 1, 8, POINT),
        (9, 1, 9, POINT),
    ])
}

#[test]
fn m_takes_the_unit_with_the_most_modifications_and_mt_one_of_the_old_nodes() {
    let policy = |worth, oldest_percent| Efind { oldest_percent, ..Efind::new(worth) };
    assert_eq!(chosen(policy(Worth::M, 1), &mut six_nodes(), &[]), [8, 9], "4 modifications");
    assert_eq!(chosen(policy(Worth::Mt, 100), &mut six_nodes(), &[]), [8, 9]);
    // 60 % of 6 are 4: nodes 2, 3, 5 and 6.
    assert_eq!(
        chosen(policy(Worth::Mt, 60), &mut six_nodes(), &[]),
        [5, 6],
        "3 modifications of the old ones"
    );
    // 1 % is one node, but a unit has two.
    assert_eq!(chosen(policy(Worth::Mt, 1), &mut six_nodes(), &[]), [2, 3]);
}

#[test]
fn mth_counts_a_node_above_the_leaves_twice() {
    let policy = Efind { oldest_percent: 60, ..Efind::new(Worth::Mth) };
    // 1 * 1 + 1 * 2 against 2 * 1 + 1 * 1: equal, and the first wins.
    assert_eq!(chosen(policy, &mut six_nodes(), &[]), [2, 3]);
    let mut higher = six_nodes();
    add(&mut higher, (6, 3), 5, POINT);
    // 2 * 1 + 2 * 3 is more.
    assert_eq!(chosen(policy, &mut higher, &[]), [5, 6]);
}

#[test]
fn mtha_and_mthao_weigh_by_the_entries_that_wait() {
    let rows = [
        // Area 100 around both, which share 25.
        (2, 1, 1, [0, 0, 5, 5]),
        (2, 1, 2, [0, 0, 10, 10]),
        // Area 200, nothing shared, three modifications.
        (3, 1, 3, [0, 0, 1, 1]),
        (3, 1, 4, [19, 9, 1, 1]),
        (3, 1, 5, [10, 5, 1, 1]),
        // Area 80, the same twice.
        (5, 1, 6, [0, 0, 8, 10]),
        (5, 1, 7, [0, 0, 8, 10]),
        (5, 1, 8, [0, 0, 8, 10]),
        (6, 1, 9, POINT),
    ];
    let policy = |worth| Efind { oldest_percent: 100, ..Efind::new(worth) };
    // By modifications: 5 against 4. By area: 2 * 100 + 3 * 200 against 3 * 80 + 0.
    assert_eq!(chosen(policy(Worth::Mt), &mut buffer(&rows), &[]), [2, 3]);
    assert_eq!(chosen(policy(Worth::Mtha), &mut buffer(&rows), &[]), [2, 3]);
    // By area and overlap, the greatest of which is 240: 2 * (100/200) * (25/240) + 0 against 3 * (80/200) *
    // 1.
    assert_eq!(chosen(policy(Worth::Mthao), &mut buffer(&rows), &[]), [5, 6]);
}

#[test]
fn what_was_written_last_decides_between_sequence_and_stride() {
    let policy = Efind { sequence_distance: 1, stride_distance: 90, ..Efind::new(Worth::M) };
    let nodes = || {
        let row = |node| (node, 1, u64::from(node), POINT);
        let mut rows = [10, 11, 12, 100, 101].map(row).to_vec();
        // Of most modifications, unless they are filtered out.
        rows.extend([row(60), row(60), row(61), row(61)]);
        buffer(&rows)
    };
    // Units of all: 10 and 11, 12 and 60, 61 and 100, 101 alone; two of them have three modifications.
    assert_eq!(chosen(policy, &mut nodes(), &[]), [12, 60], "nothing was written yet");
    // In sequence with 11: 10 and 12, and 11 itself is not its own neighbour. A stride from 11: none but 101.
    assert_eq!(chosen(policy, &mut nodes(), &[11]), [10, 12]);
    // With 10 there, too: 10, 11, 12 in sequence; 100, 101 a stride.
    assert_eq!(chosen(policy, &mut nodes(), &[10, 11]), [10, 11]);
    // From 1: a stride to 100 and 101; nothing in sequence.
    assert_eq!(chosen(policy, &mut nodes(), &[1]), [100, 101]);
    // From 13: 12 in sequence, and no stride: both together are too few, so all count.
    let near = Efind { stride_distance: 500, ..policy };
    assert_eq!(chosen(near, &mut nodes(), &[13]), [12, 60]);
}

#[test]
fn updates_of_one_entry_are_one_modification() {
    let mut buffer = NodeBuffer::<i32, 2>::new(format(), 2);
    let format = format();
    let entry = |id| Entry::data(Rect::point([1, id as i32]).unwrap(), id);
    let mut touch = |change: &Change<i32, 2>| {
        record::show(&format, change, &mut |modification| {
            buffer.touch(Touch { node: NodeId(4), level: 1, operation: 1, modification });
        });
        buffer.records()
    };
    let given = [
        (Change::Whole(Node::with(1, [0, 1, 2].map(entry).to_vec())), 4),
        (Change::Update { at: 1, entry: entry(11) }, 4),
        (Change::Update { at: 1, entry: entry(21) }, 4),
        (Change::Add { at: 0, entry: entry(7) }, 5),
        // Place 1 was place 0 before.
        (Change::Update { at: 1, entry: entry(8) }, 6),
        (Change::Update { at: 0, entry: entry(9) }, 6),
        (Change::Remove { at: 2 }, 7),
        (Change::Update { at: 1, entry: entry(10) }, 8),
    ];
    let mut expected = Node::new(1);
    for (change, records) in given {
        expected.apply(&change).unwrap();
        assert_eq!(touch(&change), records, "{change:?}");
    }
    let mut found = Node::new(1);
    buffer.apply_to(NodeId(4), &mut found).unwrap();
    assert_eq!(found, expected);
    buffer.shorten(NodeId(4), &expected);
    assert_eq!((buffer.records(), buffer.fault()), (4, None));
    buffer.apply_to(NodeId(4), &mut found).unwrap();
    assert_eq!(found, expected);
    buffer.remove(NodeId(4));
    assert_eq!((buffer.bytes(), buffer.fault()), (0, None));
}

#[test]
fn units_are_nodes_in_the_order_of_their_first_touch() {
    let mut buffer =
        buffer(&[(9, 1, 1, POINT), (3, 1, 2, POINT), (7, 1, 3, POINT), (9, 1, 4, POINT), (1, 1, 5, POINT)]);
    let nodes = |buffer: &NodeBuffer<i32, 2>| -> Vec<Vec<u32>> {
        buffer.units().values().map(|unit| unit.nodes.iter().map(|id| id.0).collect()).collect()
    };
    assert_eq!(nodes(&buffer), [[9, 3], [7, 1]]);
    let sums: Vec<(u64, u64)> =
        buffer.units().values().map(|unit| (unit.modifications, unit.touched)).collect();
    assert_eq!(sums, [(3, 4), (2, 5)]);
    buffer.remove(NodeId(3));
    add(&mut buffer, (3, 1), 6, POINT);
    assert_eq!(nodes(&buffer), [&[9][..], &[7, 1], &[3]]);
}
