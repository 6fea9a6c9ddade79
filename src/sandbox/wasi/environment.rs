//! The environment variables that a guest sees: those it was given, none of the host's.

use super::GrantError;
use super::errno::Outcome;
use super::memory::GuestMemory;

/// Bytes of all variables together.
const MOST: usize = 64 << 10;

/// Variables as `NAME=value`, each with its terminator.
#[derive(Debug, Default)]
pub(super) struct Environment(Vec<Vec<u8>>);

impl Environment {
    pub(super) fn new(variables: &[(String, String)]) -> Result<Self, GrantError> {
        let mut entries = Vec::with_capacity(variables.len());
        let mut bytes = 0_usize;
        for (i, (name, value)) in variables.iter().enumerate() {
            let refuse = |reason| {
                Err(GrantError::Variable {
                    name: name.clone(),
                    reason,
                })
            };
            if name.is_empty() || name.contains(['=', '\0']) {
                return refuse("a name is not empty and holds no `=` or NUL");
            }
            if value.contains('\0') {
                return refuse("the value holds a NUL");
            }
            if variables.iter().take(i).any(|(earlier, _)| earlier == name) {
                return refuse("it is given twice");
            }
            let entry = format!("{name}={value}\0").into_bytes();
            bytes = bytes.saturating_add(entry.len());
            if bytes > MOST {
                return refuse("all variables together are larger than 64 KiB");
            }
            entries.push(entry);
        }
        Ok(Environment(entries))
    }

    /// `environ_sizes_get`.
    pub(super) fn sizes(&self, memory: &mut GuestMemory<'_>, count: u32, bytes: u32) -> Outcome {
        let total: usize = self.0.iter().map(Vec::len).sum();
        memory.write_u32(count, u32::try_from(self.0.len()).unwrap_or(u32::MAX))?;
        memory.write_u32(bytes, u32::try_from(total).unwrap_or(u32::MAX))
    }

    /// `environ_get`.
    pub(super) fn get(&self, memory: &mut GuestMemory<'_>, list: u32, text: u32) -> Outcome {
        let (mut place, mut at) = (list, text);
        for entry in &self.0 {
            memory.write(at, entry)?;
            memory.write_u32(place, at)?;
            place = place.saturating_add(4);
            at = at.saturating_add(u32::try_from(entry.len()).unwrap_or(u32::MAX));
        }
        Ok(())
    }
}
