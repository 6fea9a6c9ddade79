//! ASCII text in wide steps: a turn of a loop costs a check of the host, so that a byte a turn would be
//! slow, and texts are too short for the loops that a compiler makes by itself.

use std::mem::MaybeUninit;

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Whether all bytes are ASCII.
#[inline(always)]
pub fn is_ascii(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().fold(0, |all, byte| all | byte) < 0x80;
    };
    // The last 8 bytes overlap the steps before them.
    let (chunks, rest) = bytes.as_chunks::<16>();
    let mut all = u64::from_ne_bytes(*last);
    if let Some(before) = rest.first_chunk::<8>() {
        all |= u64::from_ne_bytes(*before);
    }
    for chunk in chunks {
        let pair = u128::from_ne_bytes(*chunk);
        all |= pair as u64 | (pair >> 64) as u64;
    }
    all & HIGH_BITS == 0
}

/// Writes `map` of each byte.
#[inline(always)]
pub fn map_into(bytes: &[u8], out: &mut [MaybeUninit<u8>], map: impl Fn(u8) -> u8) {
    if two_ends::<16>(bytes, out, &map) {
        let (from, _) = bytes.as_chunks::<16>();
        let (to, _) = out.as_chunks_mut::<16>();
        for (from, to) in from.iter().zip(to).skip(1) {
            map_chunk(from, to, &map);
        }
    } else if !two_ends::<8>(bytes, out, &map) && !two_ends::<4>(bytes, out, &map) {
        for (from, to) in bytes.iter().zip(out) {
            to.write(map(*from));
        }
    }
}

/// Maps the first and last N bytes, which may overlap, when there are that many.
#[inline(always)]
fn two_ends<const N: usize>(
    bytes: &[u8],
    out: &mut [MaybeUninit<u8>],
    map: &impl Fn(u8) -> u8,
) -> bool {
    let (Some(from), Some(to)) = (bytes.first_chunk::<N>(), out.first_chunk_mut::<N>()) else {
        return false;
    };
    map_chunk(from, to, map);
    if let (Some(from), Some(to)) = (bytes.last_chunk::<N>(), out.last_chunk_mut::<N>()) {
        map_chunk(from, to, map);
    }
    true
}

#[inline(always)]
fn map_chunk<const N: usize>(
    from: &[u8; N],
    to: &mut [MaybeUninit<u8>; N],
    map: &impl Fn(u8) -> u8,
) {
    *to = from.map(|byte| MaybeUninit::new(map(byte)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_not_ascii_is_found_anywhere() {
        for len in 0..70 {
            let mut bytes = vec![b'a'; len];
            assert!(is_ascii(&bytes));
            for at in 0..len {
                bytes[at] = 0x80;
                assert!(!is_ascii(&bytes), "{at} of {len}");
                bytes[at] = b'a';
            }
        }
    }

    #[test]
    fn every_byte_is_mapped_once() {
        for len in 0..70_u8 {
            let bytes: Vec<u8> = (0..len).collect();
            let mut out = vec![MaybeUninit::new(0xff); bytes.len()];
            map_into(&bytes, &mut out, |byte| byte + 1);
            // SAFETY: all of `out` was initialised.
            let mapped = out.iter().map(|byte| unsafe { byte.assume_init() });
            assert!(mapped.eq(1..=len), "{len}");
        }
    }
}
