//! A buffer at an address that direct I/O accepts, without unsafe code.

/// The alignment that direct I/O may ask for: the page size of common systems, a multiple of every sector
/// size.
pub(crate) const ALIGNMENT: usize = 4096;

/// Bytes that begin at a multiple of [`ALIGNMENT`].
pub(crate) struct Aligned {
    room: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    pub(crate) fn zeroed(bytes: usize) -> Aligned {
        // The room is never resized, so it stays where it is.
        let room = vec![0; bytes + ALIGNMENT];
        let start = room.as_ptr().align_offset(ALIGNMENT);
        assert!(start <= ALIGNMENT, "bytes can always be aligned");
        Aligned { room, start, bytes }
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.room[self.start..][..self.bytes]
    }

    pub(crate) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..][..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_where_it_should() {
        for bytes in [1, 512, 4096, 65_536] {
            let mut buffer = Aligned::zeroed(bytes);
            assert_eq!(buffer.get().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(buffer.get_mut().len(), bytes);
        }
    }
}
