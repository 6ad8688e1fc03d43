//! The node translation table: which sectors have units of a node, and how many nodes have units in a sector.
//!
//! A list has at most C sectors, oldest first, in the order in which their units are applied. A sector that
//! no list names is free; one that was written and became free is *dead* until the store is told. Sectors of
//! the newest commit are *pinned*, as if another list named them, for a mount tells by them that the commit
//! was whole. Sectors that commits wrote are *mixed*: they stay until all their nodes are compacted, so they
//! are kept in the order of their age.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use nandex::units::Lpn;

/// State of a sector that no list names. The states share a field with the number of lists that name the
/// sector.
const FREE: u16 = 0;
const DEAD: u16 = u16::MAX;
const TAKEN: u16 = u16::MAX - 1;

/// Nodes for which the table grows at a time.
pub(super) const NODES_MORE: usize = 64;

/// The lists of [`NODES_MORE`] consecutive nodes: `list_length` places for each, then the lengths, a byte
/// each. Pieces are apart so that a growing table copies none of them, which would take their RAM twice.
type Piece = Box<[u32]>;

/// Words of a piece that hold the lengths.
const LENGTH_WORDS: usize = NODES_MORE / size_of::<u32>();

/// The node translation table: a list of sectors for each node.
#[derive(Clone, Debug)]
pub(super) struct NodeTable {
    list_length: usize,
    pieces: Vec<Piece>,
    /// For each sector: the number of lists that name it, or its state.
    names: Vec<u16>,
    /// Page of the first sector.
    first: u32,
    free: usize,
    dead: usize,
    /// Index before which no sector is free. `dead_hint` is the same for dead sectors.
    hint: usize,
    dead_hint: usize,
    /// Mixed sectors, the oldest first.
    mixed: VecDeque<u32>,
}

impl NodeTable {
    /// Makes a table for `nodes` nodes with lists of `list_length` sectors, and for `sectors` sectors from
    /// page `first` on.
    pub(super) fn new(
        (list_length, nodes): (usize, usize),
        first: Lpn,
        sectors: usize,
        mixed_max: usize,
    ) -> NodeTable {
        NodeTable {
            list_length,
            pieces: Vec::with_capacity(nodes.div_ceil(NODES_MORE)),
            names: vec![FREE; sectors],
            first: first.0,
            free: sectors,
            dead: 0,
            hint: 0,
            dead_hint: 0,
            mixed: VecDeque::with_capacity(mixed_max),
        }
    }

    /// Bytes of RAM for this many nodes and sectors.
    pub(super) const fn ram_bytes_for(
        list_length: usize,
        nodes: usize,
        sectors: usize,
        mixed_max: usize,
    ) -> usize {
        nodes.div_ceil(NODES_MORE) * (size_of::<Piece>() + piece_words(list_length) * size_of::<u32>())
            + sectors * size_of::<u16>()
            + mixed_max * size_of::<u32>()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        let pieces = self.pieces.len() * piece_words(self.list_length);
        self.pieces.capacity() * size_of::<Piece>()
            + (pieces + self.mixed.capacity()) * size_of::<u32>()
            + self.names.capacity() * size_of::<u16>()
    }

    /// The sectors of a node, the oldest first.
    pub(super) fn list(&self, node: u32) -> &[u32] {
        let (piece, at) = place_of(node);
        let Some(words) = self.pieces.get(piece) else { return &[] };
        let start = at * self.list_length;
        &words[start..start + self.length(node)]
    }

    /// The sum of the lengths of all lists.
    pub(super) fn parts(&self) -> u64 {
        (0..self.nodes()).map(|node| self.length(node) as u64).sum()
    }

    /// An upper bound of the nodes that have had a list: one above the last that the table has room for.
    pub(super) fn nodes(&self) -> u32 {
        (self.pieces.len() * NODES_MORE) as u32
    }

    /// Whether a node's list takes another sector.
    pub(super) fn has_room(&self, node: u32) -> bool {
        self.list(node).len() < self.list_length
    }

    pub(super) fn reserve(&mut self, nodes: u32) {
        while self.nodes() < nodes {
            self.pieces.push(vec![0; piece_words(self.list_length)].into_boxed_slice());
        }
    }

    fn length(&self, node: u32) -> usize {
        let (piece, at) = place_of(node);
        let (word, shift) = self.place_of_length(at);
        self.pieces.get(piece).map_or(0, |words| (words[word] >> shift & 0xff) as usize)
    }

    fn set_length(&mut self, node: u32, length: usize) {
        debug_assert!(length <= self.list_length, "N2: a list of {length} sectors");
        let (piece, at) = place_of(node);
        let (word, shift) = self.place_of_length(at);
        let word = &mut self.pieces[piece][word];
        *word = *word & !(0xff << shift) | (length as u32) << shift;
    }

    /// The word of a piece that holds the length of list `at`, and the shift of the length in it.
    fn place_of_length(&self, at: usize) -> (usize, usize) {
        (NODES_MORE * self.list_length + at / size_of::<u32>(), at % size_of::<u32>() * 8)
    }

    fn places(&mut self, node: u32) -> &mut [u32] {
        let ((piece, at), length) = (place_of(node), self.list_length);
        &mut self.pieces[piece][at * length..(at + 1) * length]
    }

    pub(super) fn push(&mut self, node: u32, sector: Lpn) {
        assert!(self.has_room(node), "N2: a list grew beyond its length");
        debug_assert!(
            !self.list(node).contains(&sector.0),
            "N2: {sector} is twice in the list of node {node}"
        );
        self.reserve(node + 1);
        let length = self.length(node);
        self.places(node)[length] = sector.0;
        self.set_length(node, length + 1);
        self.pin(sector);
    }

    /// Removes the first sector of a full list and returns it. It still counts as named.
    pub(super) fn displace(&mut self, node: u32) -> Lpn {
        let length = self.length(node);
        let list = &mut self.places(node)[..length];
        list.rotate_left(1);
        let displaced = Lpn(list[length - 1]);
        self.set_length(node, length - 1);
        displaced
    }

    pub(super) fn turn_round(&mut self, node: u32) {
        let length = self.length(node);
        self.places(node)[..length].reverse();
    }

    pub(super) fn replace(&mut self, node: u32, sectors: impl Iterator<Item = Lpn>) {
        let old: Vec<u32> = self.list(node).into();
        if !old.is_empty() {
            self.set_length(node, 0);
        }
        for sector in sectors {
            self.push(node, sector);
        }
        for sector in old {
            self.unpin(Lpn(sector));
        }
    }

    fn names(&mut self, sector: Lpn) -> &mut u16 {
        &mut self.names[(sector.0 - self.first) as usize]
    }

    pub(super) fn names_of(&self, sector: Lpn) -> u16 {
        match self.names[(sector.0 - self.first) as usize] {
            DEAD | TAKEN => 0,
            names => names,
        }
    }

    fn bury(&mut self, sector: Lpn) {
        *self.names(sector) = DEAD;
        self.free += 1;
        self.dead += 1;
        let at = (sector.0 - self.first) as usize;
        (self.hint, self.dead_hint) = (self.hint.min(at), self.dead_hint.min(at));
        if let Some(at) = self.mixed.iter().position(|mixed| *mixed == sector.0) {
            self.mixed.remove(at);
        }
        debug_assert!(
            self.dead <= self.free && self.free <= self.names.len(),
            "N3: {} sectors are dead and {} free",
            self.dead,
            self.free
        );
    }

    /// Takes the first free sector, if there is one.
    pub(super) fn allocate(&mut self) -> Option<Lpn> {
        let is_free = |names: &u16| [FREE, DEAD].contains(names);
        let found = self.names[self.hint..].iter().position(is_free);
        debug_assert!(found.is_some() || self.free == 0, "N3: {} free sectors are not found", self.free);
        let at = self.hint + found?;
        self.dead -= usize::from(self.names[at] == DEAD);
        self.names[at] = TAKEN;
        self.free -= 1;
        self.hint = at + 1;
        Some(Lpn(self.first + at as u32))
    }

    /// Takes this sector if it is free, because a scan found something there.
    pub(super) fn claim(&mut self, sector: Lpn) {
        let names = self.names(sector);
        if *names == FREE {
            *names = TAKEN;
            self.free -= 1;
        }
    }

    /// Frees a sector that was taken, if no list names it.
    pub(super) fn release(&mut self, sector: Lpn) {
        if *self.names(sector) == TAKEN {
            self.bury(sector);
        }
    }

    /// Frees every sector that was taken and that no list names.
    pub(super) fn release_taken(&mut self) {
        (self.first..self.first + self.names.len() as u32).for_each(|sector| self.release(Lpn(sector)));
    }

    /// Keeps a sector in use, whether lists name it or not.
    pub(super) fn pin(&mut self, sector: Lpn) {
        let names = self.names(sector);
        debug_assert!(![FREE, DEAD].contains(names), "N3: {sector} is free and named");
        *names = if *names == TAKEN { 1 } else { *names + 1 };
    }

    /// Undoes a [`NodeTable::pin`].
    pub(super) fn unpin(&mut self, sector: Lpn) {
        let names = self.names(sector);
        debug_assert!(![FREE, DEAD, TAKEN].contains(names), "N3: {sector} has no name to lose");
        *names -= 1;
        if *names == FREE {
            self.bury(sector);
        }
    }

    /// Notes that a sector is mixed, as the youngest.
    pub(super) fn note_mixed(&mut self, sector: Lpn) {
        if self.names_of(sector) > 0 {
            self.mixed.push_back(sector.0);
        }
    }

    /// Notes that a sector is mixed, as the oldest.
    pub(super) fn note_mixed_before(&mut self, sector: Lpn) {
        if self.names_of(sector) > 0 {
            self.mixed.push_front(sector.0);
        }
    }

    pub(super) fn mixed(&self) -> &VecDeque<u32> {
        &self.mixed
    }

    /// Number of free sectors, dead ones included.
    pub(super) fn free_sectors(&self) -> usize {
        self.free
    }

    pub(super) fn sectors(&self) -> usize {
        self.names.len()
    }

    /// Takes the next dead sector to trim. It counts as free and not dead from now on.
    pub(super) fn next_dead(&mut self) -> Option<Lpn> {
        if self.dead == 0 {
            self.dead_hint = self.names.len();
            return None;
        }
        let found = self.names[self.dead_hint..].iter().position(|names| *names == DEAD);
        debug_assert!(found.is_some(), "N3: {} dead sectors are not found", self.dead);
        let at = self.dead_hint + found?;
        self.names[at] = FREE;
        self.dead -= 1;
        self.dead_hint = at + 1;
        Some(Lpn(self.first + at as u32))
    }

    /// Makes a sector dead again, because the store refused the trim.
    pub(super) fn keep_dead(&mut self, sector: Lpn) {
        let names = self.names(sector);
        assert!(*names == FREE, "N3: a sector that was not told of is free");
        *names = DEAD;
        self.dead += 1;
        self.dead_hint = self.dead_hint.min((sector.0 - self.first) as usize);
    }
}

const fn piece_words(list_length: usize) -> usize {
    NODES_MORE * list_length + LENGTH_WORDS
}

/// The piece that holds a node's list, and the index of the list in it.
const fn place_of(node: u32) -> (usize, usize) {
    (node as usize / NODES_MORE, node as usize % NODES_MORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_free_when_no_list_names_it() {
        let mut table = NodeTable::new((2, 10), Lpn(2), 3, 3);
        let sector = table.allocate().unwrap();
        table.push(7, sector);
        table.push(9, sector);
        table.note_mixed(sector);
        assert_eq!((table.list(7), table.names_of(sector), table.free_sectors()), (&[2][..], 2, 2));
        let own = table.allocate().unwrap();
        table.replace(7, [own].into_iter());
        assert_eq!((table.list(7), table.names_of(sector), table.mixed().len()), (&[3][..], 1, 1));
        table.replace(9, [].into_iter());
        assert_eq!((table.free_sectors(), table.mixed().len(), table.next_dead()), (2, 0, Some(sector)));
        assert_eq!((table.next_dead(), table.allocate(), table.list(9)), (None, Some(sector), &[][..]));
        table.release(sector);
        assert_eq!(table.next_dead(), Some(sector));
        assert!(!table.has_room(7) || table.list(7).len() < 2);
    }
}
