//! Clean records: copies, in RAM that the memtable lends, of records that look-ups found on flash. They are
//! given up first: a change of a key removes its copy, and no copy is ever written.
//!
//! A bucket holds up to eight copies, the one used last in front, and their number behind them:
//!
//! ```text
//! | newest | next | ... | oldest | count |
//! ```

const SLOTS: usize = 8;

/// Hash of a key. The high bits are the good ones.
pub(super) fn hash(key: &[u8]) -> u32 {
    key.iter().fold(0u32, |hash, &byte| (hash.rotate_left(5) ^ u32::from(byte)).wrapping_mul(0x9e37_79b1))
}

/// The buckets, in a slice of bytes. A rest too short for a bucket is unused.
pub(super) struct Clean<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) key_bytes: usize,
    /// Bytes of a copy: key and value.
    pub(super) stride: usize,
}

impl Clean<'_> {
    pub(super) fn clear(&mut self) {
        self.bytes.fill(0);
    }

    fn bucket_bytes(&self) -> usize {
        SLOTS * self.stride + 1
    }

    /// Offset of the bucket of a key, and the number of copies in it.
    fn bucket(&self, key: &[u8]) -> (usize, usize) {
        let buckets = self.bytes.len() / self.bucket_bytes();
        let at = ((u64::from(hash(key)) * buckets as u64) >> 32) as usize * self.bucket_bytes();
        (at, self.bytes[at + SLOTS * self.stride].into())
    }

    /// Offset of the bucket of a key, the number of copies in it, and the index of the key's copy.
    fn find(&self, key: &[u8]) -> (usize, usize, Option<usize>) {
        let (bucket, count) = self.bucket(key);
        let is_it = |&slot: &usize| {
            let at = bucket + slot * self.stride;
            &self.bytes[at..at + self.key_bytes] == key
        };
        (bucket, count, (0..count).find(is_it))
    }

    /// Value of a key. Its copy moves to the front of its bucket.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<&[u8]> {
        let (bucket, _, slot) = self.find(key);
        let end = bucket + (slot? + 1) * self.stride;
        self.bytes[bucket..end].rotate_right(self.stride);
        Some(&self.bytes[bucket + self.key_bytes..bucket + self.stride])
    }

    /// Keeps a record of which there is no copy. In a full bucket the copy unused longest gives way.
    pub(super) fn keep(&mut self, key: &[u8], value: &[u8]) {
        let (bucket, count) = self.bucket(key);
        let count = (count + 1).min(SLOTS);
        self.bytes[bucket..bucket + count * self.stride].rotate_right(self.stride);
        self.bytes[bucket..bucket + self.key_bytes].copy_from_slice(key);
        self.bytes[bucket + self.key_bytes..bucket + self.stride].copy_from_slice(value);
        self.bytes[bucket + SLOTS * self.stride] = count as u8;
    }

    /// Removes the copy of a key, if there is one.
    pub(super) fn forget(&mut self, key: &[u8]) {
        let (bucket, count, Some(slot)) = self.find(key) else { return };
        let (from, end) = (bucket + slot * self.stride, bucket + count * self.stride);
        self.bytes[from..end].rotate_left(self.stride);
        self.bytes[bucket + SLOTS * self.stride] = count as u8 - 1;
    }

    /// Calls `tell` with key and value of every copy.
    pub(super) fn for_each(&self, tell: &mut dyn FnMut(&[u8], &[u8])) {
        for bucket in self.bytes.chunks_exact(self.bucket_bytes()) {
            let count = usize::from(bucket[SLOTS * self.stride]);
            for copy in bucket.chunks_exact(self.stride).take(count) {
                let (key, value) = copy.split_at(self.key_bytes);
                tell(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Checks that every copy is the value kept last, that no key has two copies, and that recently used
    /// copies stay.
    #[test]
    fn copies_are_what_was_kept() {
        let mut bytes = vec![0xa5; 20 * (SLOTS * 5 + 1) + 17];
        let mut clean = Clean { bytes: &mut bytes, key_bytes: 3, stride: 5 };
        clean.clear();
        let (mut rng, mut model, mut hits) = (Rng::new(5), BTreeMap::<Vec<u8>, Vec<u8>>::new(), 0);
        for round in 0..20_000u32 {
            // Half of all ask for one of forty keys.
            let n = if rng.chance(1, 2) { rng.below(40) } else { rng.below(4_000) } as u32;
            let key = n.to_be_bytes()[1..].to_vec();
            if rng.chance(1, 6) {
                clean.forget(&key);
                model.remove(&key);
                assert_eq!(clean.get(&key), None);
            } else if let Some(value) = clean.get(&key) {
                assert_eq!(value, model[&key]);
                hits += u32::from(n < 40);
            } else {
                let value = (round as u16).to_be_bytes();
                clean.keep(&key, &value);
                model.insert(key, value.to_vec());
            }
            if round % 500 == 0 {
                let mut held = Vec::new();
                clean.for_each(&mut |key, value| held.push((key.to_vec(), value.to_vec())));
                assert!(held.iter().all(|(key, value)| model[key] == *value), "round {round}");
                held.sort();
                held.dedup_by(|a, b| a.0 == b.0);
                let mut again = 0;
                clean.for_each(&mut |_, _| again += 1);
                assert_eq!(held.len(), again);
            }
        }
        assert!(hits > 6_000, "{hits}");
    }
}
