//! The five locks of SQLite on one file, among the connections of a process.
//!
//! Any number of connections may read. One of them may hold the *reserved* lock, to write soon. It waits
//! until the readers are gone (*pending*, which admits no new ones) and is then alone (*exclusive*).

/// The level at which a connection holds a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// No lock.
    #[default]
    None,
    /// The connection may read.
    Shared,
    /// The connection may read, and is the one that will write.
    Reserved,
    /// The connection waits for the readers to go.
    Pending,
    /// The connection may write.
    Exclusive,
}

impl Level {
    /// The level that SQLite numbers so.
    pub(crate) const fn from_number(number: i32) -> Level {
        match number {
            i32::MIN..=0 => Level::None,
            1 => Level::Shared,
            2 => Level::Reserved,
            3 => Level::Pending,
            _ => Level::Exclusive,
        }
    }
}

/// The locks of one file.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Connections that hold a lock.
    holders: u32,
    /// The level of the writer, or [`Level::None`].
    writer: Level,
}

impl Locks {
    /// Raises the lock of a connection and updates `held`. Returns true if the connection now has `wanted`.
    pub(crate) fn raise(&mut self, held: &mut Level, wanted: Level) -> bool {
        if *held >= wanted {
            return true;
        }
        if *held == Level::None {
            if self.writer >= Level::Pending {
                return false;
            }
            self.holders += 1;
            *held = Level::Shared;
        }
        if wanted <= Level::Shared {
            return true;
        }
        if *held < Level::Reserved {
            if self.writer > Level::None {
                return false;
            }
            // A reader that must roll back what another left goes from shared to exclusive at once.
            let first = if wanted == Level::Reserved { Level::Reserved } else { Level::Pending };
            (self.writer, *held) = (first, first);
        }
        if wanted == Level::Reserved {
            return true;
        }
        let level =
            if self.holders == 1 && wanted == Level::Exclusive { Level::Exclusive } else { Level::Pending };
        (self.writer, *held) = (level, level);
        level >= wanted
    }

    /// Lowers the lock of a connection to shared or none.
    pub(crate) fn lower(&mut self, held: &mut Level, wanted: Level) {
        if *held <= wanted {
            return;
        }
        if *held >= Level::Reserved {
            self.writer = Level::None;
        }
        if wanted == Level::None {
            self.holders -= 1;
        }
        *held = wanted.min(Level::Shared);
    }

    /// Whether some connection is about to write.
    pub(crate) fn is_reserved(&self) -> bool {
        self.writer >= Level::Reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_when_the_others_have_gone() {
        let (mut locks, mut a, mut b, mut c) = (Locks::default(), Level::None, Level::None, Level::None);
        assert!(locks.raise(&mut a, Level::Shared) && locks.raise(&mut b, Level::Shared));
        assert!(!locks.is_reserved());
        assert!(locks.raise(&mut a, Level::Reserved));
        assert!(!locks.raise(&mut b, Level::Reserved), "one is about to write already");
        assert_eq!(b, Level::Shared);
        assert!(!locks.raise(&mut a, Level::Exclusive), "b still reads");
        assert_eq!(a, Level::Pending);
        assert!(!locks.raise(&mut c, Level::Shared), "no new reader");
        locks.lower(&mut b, Level::None);
        assert!(locks.raise(&mut a, Level::Exclusive));
        assert!(!locks.raise(&mut c, Level::Shared));
        locks.lower(&mut a, Level::Shared);
        assert!(!locks.is_reserved() && locks.raise(&mut c, Level::Shared));
    }

    #[test]
    fn every_sequence_of_two_keeps_the_rules() {
        let wanted = [Level::None, Level::Shared, Level::Reserved, Level::Exclusive];
        for code in 0..4u32.pow(6) {
            let (mut locks, mut held) = (Locks::default(), [Level::None; 2]);
            for step in 0..6 {
                let (who, level) = (step % 2, wanted[(code / 4u32.pow(step)) as usize % 4]);
                let who = who as usize;
                if level <= Level::Shared && held[who] > level {
                    locks.lower(&mut held[who], level);
                } else {
                    locks.raise(&mut held[who], level);
                }
                let exclusive = held.contains(&Level::Exclusive);
                assert!(!exclusive || held.contains(&Level::None), "{held:?}: a reader beside a writer");
                assert!(held.iter().filter(|l| **l >= Level::Reserved).count() <= 1, "{held:?}: two writers");
                assert_eq!(locks.is_reserved(), held.iter().any(|l| *l >= Level::Reserved));
            }
        }
    }
}
