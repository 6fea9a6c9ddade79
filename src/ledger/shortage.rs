//! What is missing, in numbers and in words.

use std::fmt;

use serde::Serialize;

use super::Share;

/// What a ledger keeps account of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resource {
    /// CPUs of a running call.
    Cpu,
    /// Memory of slots and queues.
    Memory,
    /// Devices.
    Gpu,
    /// Memory of devices.
    DeviceMemory,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Resource::Cpu => "CPU",
            Resource::Memory => "memory",
            Resource::Gpu => "GPU",
            Resource::DeviceMemory => "device memory",
        })
    }
}

/// How much of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Amount {
    /// Of CPUs or devices.
    Share(Share),
    /// Bytes of memory or device memory; `u64::MAX` stands for more than can be counted.
    Bytes(u64),
}

impl fmt::Display for Amount {
    /// Bytes in the largest binary unit of which there is one, with a decimal place where it is not 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let bytes = match self {
            Amount::Share(share) => return fmt::Display::fmt(share, f),
            Amount::Bytes(bytes @ 0..1_024) => return write!(f, "{bytes} bytes"),
            Amount::Bytes(bytes) => *bytes as f64,
        };
        let mut size = bytes;
        let mut unit = "";
        for name in UNITS {
            // What would be rounded up to 1024 of a unit is 1 of the next.
            if size < 1_023.95 {
                break;
            }
            size /= 1_024.0;
            unit = name;
        }
        let text = format!("{size:.1}");
        write!(f, "{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
    }
}

impl Amount {
    fn is_zero(self) -> bool {
        matches!(self, Amount::Share(Share::ZERO) | Amount::Bytes(0))
    }
}

/// Why a request does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ShortageCause {
    /// There is less than what is asked for.
    TooMuch,
    /// There is as much, but not together on the devices on which it would have to be: a share lies on
    /// one device, and so does the device memory that goes with it.
    Scattered,
    /// More than one device, and not a whole number of them.
    NotWhole,
    /// Device memory without a share of a device.
    NoDevice,
}

/// A resource of which a run does not get what it asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shortage {
    /// Which.
    pub resource: Resource,
    /// Why not.
    pub cause: ShortageCause,
    /// Whether the empty machine would have too little, too.
    pub never: bool,
    /// What each pool asked for.
    pub requests: Vec<Requested>,
    /// All of it together; of CPU, which is not reserved, what the hungriest slot asked for.
    pub needed: Amount,
    /// What is free.
    pub free: Amount,
    /// What the machine has.
    pub total: Amount,
    /// Who has the rest.
    pub held_by: Vec<Held>,
}

/// What one pool asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Requested {
    /// The pool's name.
    pub pool: String,
    /// How many slots.
    pub slots: usize,
    /// How much for each of them.
    pub each: Amount,
    /// Bytes of memory for the pool's queues on top; 0 for other resources.
    pub queue_bytes: u64,
}

/// What a pool that is there has of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Held {
    /// The run that the pool was admitted for.
    pub run: String,
    /// The pool's name.
    pub pool: String,
    /// How much.
    pub amount: Amount,
    /// Slots of the pool whose thread has not returned, although nobody uses them any more.
    pub lost_slots: usize,
}

impl Shortage {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        if !self.never {
            return "wait longer (--admission wait=…, Admission::Wait) or end a run that holds it";
        }
        match (self.cause, self.resource) {
            (ShortageCause::NotWhole, _) => {
                "ask for a share up to 1 or for a whole number (--gpus, SlotResources::gpus)"
            }
            (ShortageCause::NoDevice, _) => {
                "ask for a share of a device as well (--gpus, SlotResources::gpus), or for no device memory"
            }
            (_, Resource::Cpu) => "lower --cpus (SlotResources::cpus)",
            (_, Resource::Memory) => {
                "lower --memory or --slots (Policy::memory, PoolBuilder::slots)"
            }
            (_, Resource::Gpu) => {
                "lower --gpus or --slots (SlotResources::gpus, PoolBuilder::slots)"
            }
            (_, Resource::DeviceMemory) => {
                "lower --device-memory or --slots (SlotResources::device_memory, PoolBuilder::slots)"
            }
        }
    }

    /// What is wrong with what was asked for.
    fn fault(&self) -> String {
        let Shortage {
            needed,
            free,
            total,
            ..
        } = self;
        let has = match (self.never, total.is_zero()) {
            (true, true) => "the machine has none".to_owned(),
            (true, false) => format!("the machine has {total}"),
            (false, _) if free.is_zero() => format!("nothing of {total} is free"),
            (false, _) => format!("{free} of {total} is free"),
        };
        let one =
            matches!(self.requests.as_slice(), [only] if only.slots == 1 && only.queue_bytes == 0);
        let need = if one { "needs" } else { "need" };
        match self.cause {
            ShortageCause::TooMuch if self.resource == Resource::Cpu => {
                format!("{need} up to {needed} for each call, {has}")
            }
            ShortageCause::TooMuch => format!("{need} {needed}, {has}"),
            ShortageCause::Scattered => {
                format!(
                    "{need} {needed}, {has}, but not where each slot finds its part on one device"
                )
            }
            ShortageCause::NotWhole => {
                format!("{need} more than one device, which have to be whole ones")
            }
            ShortageCause::NoDevice => format!("{need} device memory, but no device"),
        }
    }
}

impl fmt::Display for Shortage {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests: Vec<String> = self.requests.iter().map(Requested::to_string).collect();
        let requests = list(&requests);
        write!(f, "{}: {requests} {}", self.resource, self.fault())?;
        if !self.held_by.is_empty() {
            let holders: Vec<String> = self.held_by.iter().map(Held::to_string).collect();
            write!(f, ", held by {}", list(&holders))?;
        }
        write!(f, "; {}", self.advice())
    }
}

impl fmt::Display for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = if self.slots == 1 { "slot" } else { "slots" };
        write!(f, "{} {slots} of {}", self.slots, self.each)?;
        if self.queue_bytes > 0 {
            write!(f, " and {} of queue", Amount::Bytes(self.queue_bytes))?;
        }
        write!(f, " of pool {}", self.pool)
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}: {}", self.run, self.pool, self.amount)?;
        if self.lost_slots > 0 {
            write!(f, " (lost slots: {})", self.lost_slots)?;
        }
        Ok(())
    }
}

/// Parts that a line names; what is over is counted.
const MOST_NAMED: usize = 8;

/// `a, b and c`.
fn list(parts: &[String]) -> String {
    let over = parts.len().saturating_sub(MOST_NAMED);
    let mut parts: Vec<String> = parts.iter().take(MOST_NAMED).cloned().collect();
    if over > 0 {
        parts.push(format!("{over} more"));
    }
    match parts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_units_that_people_read() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (1_024, "1 KiB"),
            (64 << 20, "64 MiB"),
            (4 << 30, "4 GiB"),
            (25_125_558_681, "23.4 GiB"),
            ((1 << 30) - 1, "1 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(Amount::Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_long_list_ends_with_how_many_are_left_out() {
        let parts = |n: usize| (1..=n).map(|i| i.to_string()).collect::<Vec<_>>();
        assert_eq!(list(&parts(1)), "1");
        assert_eq!(list(&parts(3)), "1, 2 and 3");
        assert_eq!(list(&parts(20)), "1, 2, 3, 4, 5, 6, 7, 8 and 12 more");
    }

    #[test]
    fn amounts_are_serialised_as_numbers() {
        let json = |amount| serde_json::to_string(&amount).unwrap();
        assert_eq!(json(Amount::Share(Share::thousandths(500))), "0.5");
        assert_eq!(json(Amount::Bytes(4_096)), "4096");
    }
}
