//! A prefix tree over bytes that finds the longest known piece at the start of a word.

/// Pieces and their numbers.
pub struct Trie {
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    /// The number of the piece that ends here.
    token: Option<i32>,
    /// Next bytes, in order, and the nodes they lead to.
    edges: Vec<(u8, u32)>,
}

impl Trie {
    /// No pieces.
    pub fn new() -> Self {
        Self {
            nodes: vec![Node::default()],
        }
    }

    /// Adds a piece; `false` when it was there already.
    pub fn insert(&mut self, piece: &[u8], token: i32) -> bool {
        let mut node = 0;
        for byte in piece {
            node = match self.nodes[node].find(*byte) {
                Ok(edge) => self.nodes[node].edges[edge].1 as usize,
                Err(place) => {
                    let new = self.nodes.len();
                    self.nodes[node].edges.insert(place, (*byte, new as u32));
                    self.nodes.push(Node::default());
                    new
                }
            };
        }
        self.nodes[node].token.replace(token).is_none()
    }

    /// Number and length of the longest piece that `word` begins with.
    pub fn longest_prefix(&self, word: &[u8]) -> Option<(i32, usize)> {
        let mut longest = None;
        let mut node = &self.nodes[0];
        for (at, byte) in word.iter().enumerate() {
            let Ok(edge) = node.find(*byte) else { break };
            node = &self.nodes[node.edges[edge].1 as usize];
            if let Some(token) = node.token {
                longest = Some((token, at + 1));
            }
        }
        longest
    }
}

impl Node {
    fn find(&self, byte: u8) -> Result<usize, usize> {
        self.edges.binary_search_by_key(&byte, |(next, _)| *next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_is_found_whatever_the_order_of_insertion() {
        let mut trie = Trie::new();
        for (token, piece) in [(1, "abc"), (2, "a"), (3, "abcde"), (4, "b")] {
            assert!(trie.insert(piece.as_bytes(), token));
        }
        assert_eq!(trie.longest_prefix(b"abcd"), Some((1, 3)));
        assert_eq!(trie.longest_prefix(b"abx"), Some((2, 1)));
        assert_eq!(trie.longest_prefix(b"x"), None);
        assert_eq!(trie.longest_prefix(b""), None);
    }

    #[test]
    fn a_piece_is_added_once() {
        let mut trie = Trie::new();
        assert!(trie.insert(b"ab", 1));
        assert!(trie.insert(b"a", 2));
        assert!(!trie.insert(b"ab", 3));
    }
}
