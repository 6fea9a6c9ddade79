//! Joining the bytes of a word.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::Tokens;

/// Which pairs of tokens are joined, and in which order.
pub(super) struct Merges {
    bytes: [i32; 256],
    pairs: HashMap<u64, Merge, BuildHasherDefault<PairHasher>>,
    /// Words that are tokens whatever the pairs say.
    whole: HashMap<Box<[u8]>, i32>,
}

#[derive(Clone, Copy)]
struct Merge {
    rank: u32,
    token: i32,
}

/// Spreads keys that are pairs of tokens. The keys come from the vocabulary and not from texts, so that
/// nobody gains by making them collide.
#[derive(Default)]
pub(super) struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, key: u64) {
        let spread = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}

fn key(left: i32, right: i32) -> u64 {
    u64::from(left as u32) << 32 | u64::from(right as u32)
}

impl Merges {
    /// No pairs yet.
    pub fn new(bytes: [i32; 256]) -> Self {
        Self {
            bytes,
            pairs: HashMap::default(),
            whole: HashMap::new(),
        }
    }

    /// Adds a pair; `false` when it is there already.
    pub fn add(&mut self, left: i32, right: i32, rank: u32, token: i32) -> bool {
        let new = Merge { rank, token };
        self.pairs.insert(key(left, right), new).is_none()
    }

    /// Lets words that are tokens be tokens.
    pub fn set_whole(&mut self, words: HashMap<Box<[u8]>, i32>) {
        self.whole = words;
    }

    fn get(&self, left: i32, right: i32) -> Option<Merge> {
        self.pairs.get(&key(left, right)).copied()
    }

    /// The tokens of a word. The time is that of sorting its bytes, whatever they are.
    pub fn tokenize(&self, word: &[u8], scratch: &mut Scratch, tokens: &mut impl Tokens) {
        if let Some(token) = self.whole.get(word) {
            tokens.push(*token);
            return;
        }
        scratch.begin(word.iter().map(|byte| self.bytes[usize::from(*byte)]));
        for at in 0..word.len().saturating_sub(1) {
            scratch.consider(self, at);
        }
        while let Some(Reverse(candidate)) = scratch.candidates.pop() {
            if let Some(previous) = scratch.join(&candidate) {
                scratch.consider(self, candidate.at as usize);
                scratch.consider(self, previous as usize);
            }
        }
        scratch.finish(tokens);
    }
}

/// Memory that is used for word after word.
#[derive(Default)]
pub(super) struct Scratch {
    symbols: Vec<Symbol>,
    candidates: BinaryHeap<Reverse<Candidate>>,
}

/// A part of the word: one byte, or several that were joined. The symbols are a linked list, in which
/// one that was joined to the symbol before it stays behind as [`GONE`].
#[derive(Clone, Copy)]
struct Symbol {
    token: i32,
    previous: u32,
    next: u32,
}

/// No token has this number.
const GONE: i32 = -1;
/// Before the first symbol and after the last one.
const END: u32 = u32::MAX;

/// A pair that may be joined. It is out of date when the symbols are no longer these tokens. The least
/// rank comes first, and the leftmost pair of equal ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    at: u32,
    left: i32,
    right: i32,
    joined: i32,
}

impl Scratch {
    fn begin(&mut self, tokens: impl ExactSizeIterator<Item = i32>) {
        self.candidates.clear();
        self.symbols.clear();
        let len = tokens.len() as u32;
        self.symbols
            .extend((0..len).zip(tokens).map(|(at, token)| Symbol {
                token,
                previous: at.checked_sub(1).unwrap_or(END),
                next: if at + 1 < len { at + 1 } else { END },
            }));
    }

    fn symbol(&self, at: u32) -> Option<Symbol> {
        self.symbols.get(at as usize).copied()
    }

    /// Notes the pair of a symbol and the next, if it can be joined.
    fn consider(&mut self, merges: &Merges, at: usize) {
        let at = at as u32;
        let Some(left) = self.symbol(at) else { return };
        let Some(right) = self.symbol(left.next) else {
            return;
        };
        if let Some(merge) = merges.get(left.token, right.token) {
            self.candidates.push(Reverse(Candidate {
                rank: merge.rank,
                at,
                left: left.token,
                right: right.token,
                joined: merge.token,
            }));
        }
    }

    /// Joins a pair, if it is still there; the answer is the symbol before it.
    fn join(&mut self, candidate: &Candidate) -> Option<u32> {
        let left = self.symbol(candidate.at)?;
        let right = self.symbol(left.next)?;
        if left.token != candidate.left || right.token != candidate.right {
            return None;
        }
        self.symbols[candidate.at as usize] = Symbol {
            token: candidate.joined,
            next: right.next,
            ..left
        };
        self.symbols[left.next as usize].token = GONE;
        if let Some(after) = self.symbols.get_mut(right.next as usize) {
            after.previous = candidate.at;
        }
        Some(left.previous)
    }

    fn finish(&self, tokens: &mut impl Tokens) {
        let mut next = self.symbols.first().copied();
        while let Some(symbol) = next {
            tokens.push(symbol.token);
            next = self.symbol(symbol.next);
        }
    }
}
