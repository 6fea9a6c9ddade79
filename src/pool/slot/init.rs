//! How the state of a slot is made.

use std::time::{Duration, Instant};

use crate::abi::{Arena, Written, frame};
use crate::error::{Fault, Violation};
use crate::module::State;
use crate::sandbox::Guest;

/// Runs `init`.
pub(super) fn init(
    guest: &mut Guest,
    arena: &mut Arena,
    state: &State,
    args: &str,
    limit: Duration,
) -> Result<u32, Fault> {
    let init = guest.function::<u32, i32>(&state.init)?;
    guest.begin(Instant::now(), limit);
    let most = guest.memory_limit();
    let written = arena.write(guest, limit, most, |w| {
        let (init, address) = w.structure(frame::init::BYTES)?;
        let text = w.copy(args.as_bytes())?;
        w.put_u32(init, frame::init::SIZE, frame::init::BYTES as u32);
        w.put_u32(init, frame::init::ARGS, text);
        w.put_u32(
            init,
            frame::init::ARGS_LEN,
            u32::try_from(args.len()).map_err(|e| e.to_string())?,
        );
        Ok(address)
    })?;
    let address = match written {
        Written::Done { result, .. } => result,
        Written::TooLarge { bytes } => {
            return Err(Fault::RowTooLarge {
                bytes: bytes as u64,
                limit: most,
            });
        }
    };
    let status = guest.enter("init", limit, &init, address)?;
    let memory = guest.memory();
    let word = |offset: usize| {
        frame::read_u32(memory, u64::from(address).saturating_add(offset as u64)).unwrap_or(0)
    };
    match status {
        frame::STATUS_OK => Ok(word(frame::init::STATE)),
        frame::STATUS_ERROR => Err(Fault::Guest {
            message: frame::text_at(
                memory,
                word(frame::init::MESSAGE),
                word(frame::init::MESSAGE_LEN),
            ),
        }),
        status => Err(Violation::Status {
            entry: "init",
            status,
        }
        .into()),
    }
}
