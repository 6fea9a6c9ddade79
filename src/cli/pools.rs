//! Options of pools: what slots need, how often they try again, what becomes of a run without room.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use super::options::{bytes, duration};
use crate::plan::UdfOptions;
use crate::{
    Admission, Budgets, Cancel, DeviceTotal, Ledger, Machine, PoolBuilder, RunConfig, Share,
    SlotResources,
};

/// Options of pools, for each verb that starts some.
#[derive(Debug, Args)]
pub(crate) struct PoolOptions {
    /// CPUs that a call keeps busy, e.g. 0.5 or 2; no more calls run at once than there are CPUs for
    #[arg(long, value_name = "N", default_value = "1", value_parser = cpus, help_heading = HEADING)]
    cpus: Share,

    /// Devices of a slot: a share of one up to 1, or a whole number of devices
    #[arg(long, value_name = "N", default_value = "0", value_parser = share, help_heading = HEADING)]
    gpus: Share,

    /// Memory of a slot on each of its devices, with its unit
    #[arg(long, value_name = "BYTES", default_value = "0B", value_parser = bytes, help_heading = HEADING)]
    device_memory: u64,

    /// Most bytes of batches on their way through the pool, with their unit
    ///
    /// Beyond it one batch may still be on its way.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = bytes, help_heading = HEADING)]
    queue: u64,

    /// What a run does that does not fit now: fail, or wait=TIME
    #[arg(long, value_name = "WHAT", default_value = "wait=30s", help_heading = HEADING)]
    admission: AdmissionOption,

    /// More attempts at starting a slot whose init fails
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = HEADING)]
    init_retries: u32,

    /// Slots started again after a failure; their call is made again too
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = HEADING)]
    restarts: u32,

    #[command(flatten)]
    machine: MachineOptions,
}

/// What the machine has, for each verb that asks its ledger.
#[derive(Debug, Args)]
pub(crate) struct MachineOptions {
    /// What of this machine may be used, e.g. cpus=8,memory=16GiB,gpus=2x24GiB [default: what is found]
    #[arg(long, value_name = "WHAT", help_heading = HEADING)]
    machine: Option<MachineOption>,
}

const HEADING: &str = "Pool options";

impl PoolOptions {
    /// Gives a pool what was asked for.
    pub(crate) fn apply(&self, builder: PoolBuilder) -> PoolBuilder {
        builder
            .resources(self.resources())
            .budgets(self.budgets())
            .queue_bytes(self.queue)
    }

    /// Gives functions of SQL what was asked for.
    pub(crate) fn apply_to_udfs(&self, options: UdfOptions) -> UdfOptions {
        UdfOptions {
            resources: self.resources(),
            budgets: self.budgets(),
            queue_bytes: self.queue,
            ..options
        }
    }

    fn budgets(&self) -> Budgets {
        Budgets {
            init_retries: self.init_retries,
            call_retries: self.restarts,
            trap_restarts: self.restarts,
            slot_restarts: self.restarts,
            ..Budgets::default()
        }
    }

    fn resources(&self) -> SlotResources {
        SlotResources {
            cpus: self.cpus,
            gpus: self.gpus,
            device_memory: self.device_memory,
        }
    }

    /// A run that ends when `cancel` says so.
    pub(crate) fn run_config(&self, cancel: &Cancel) -> RunConfig {
        RunConfig {
            ledger: Some(self.machine.ledger()),
            admission: self.admission.0,
            cancel: cancel.clone(),
            ..RunConfig::default()
        }
    }
}

impl MachineOptions {
    /// The ledger of this process.
    pub(crate) fn ledger(&self) -> Ledger {
        match &self.machine {
            None => Ledger::process(),
            Some(option) => Ledger::new(option.machine()),
        }
    }
}

fn share(text: &str) -> Result<Share, String> {
    text.parse::<Share>().map_err(|e| e.to_string())
}

fn cpus(text: &str) -> Result<Share, String> {
    match share(text)? {
        Share::ZERO => Err("a call needs some CPU, at least 0.001".to_owned()),
        cpus => Ok(cpus),
    }
}

/// `fail` or `wait=TIME`.
#[derive(Debug, Clone)]
struct AdmissionOption(Admission);

impl FromStr for AdmissionOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "fail" => Ok(AdmissionOption(Admission::Fail)),
            Some(("wait", time)) => {
                let time: Duration = duration(time)?;
                Ok(AdmissionOption(Admission::Wait(time)))
            }
            _ => Err("write fail, or wait=TIME as in wait=30s".to_owned()),
        }
    }
}

/// `cpus=8,memory=16GiB,gpus=2x24GiB`, any of them.
#[derive(Debug, Clone, Default, PartialEq)]
struct MachineOption {
    cpus: Option<Share>,
    memory: Option<u64>,
    devices: Option<Vec<DeviceTotal>>,
}

impl MachineOption {
    /// This machine, with what was said instead of what is found.
    fn machine(&self) -> Machine {
        let found = Machine::detect();
        Machine {
            cpus: self.cpus.unwrap_or(found.cpus),
            memory: self.memory.unwrap_or(found.memory),
            devices: self.devices.clone().unwrap_or(found.devices),
        }
    }
}

impl FromStr for MachineOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut option = MachineOption::default();
        for part in text.split(',') {
            let (name, value) = part
                .split_once('=')
                .ok_or("write NAME=AMOUNT, separated by commas, as in cpus=8,memory=16GiB")?;
            match name {
                "cpus" => option.cpus = Some(cpus(value)?),
                "memory" => option.memory = Some(bytes(value)?),
                "gpus" => option.devices = Some(devices(value)?),
                other => return Err(format!("`{other}` is none of cpus, memory and gpus")),
            }
        }
        Ok(option)
    }
}

/// `2x24GiB`: two devices of so much memory; `0` for none.
fn devices(text: &str) -> Result<Vec<DeviceTotal>, String> {
    /// More than any machine has.
    const MOST: usize = 1_024;
    let (count, memory) = match text.split_once('x') {
        Some((count, memory)) => (count, bytes(memory)?),
        None if text == "0" => return Ok(Vec::new()),
        None => return Err("write their number and the memory of each, as in 2x24GiB".to_owned()),
    };
    let count: usize = count
        .parse()
        .ok()
        .filter(|count| *count <= MOST)
        .ok_or_else(|| format!("a whole number of at most {MOST} devices is expected"))?;
    let device = |number| DeviceTotal {
        name: format!("gpu{number}"),
        memory,
    };
    Ok((0..count).map(device).collect())
}

/// Options that have a meaning only together with others.
pub(crate) fn check(options: &PoolOptions) -> Result<(), Failure> {
    if options.device_memory > 0 && options.gpus == Share::ZERO {
        return Err(Failure::usage(
            "--device-memory is memory of a device, and no device is asked for",
        )
        .hint("add --gpus, or leave it out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_described_in_parts() {
        let option: MachineOption = "cpus=1.5,memory=1GiB,gpus=2x8GiB".parse().expect("parses");
        assert_eq!(option.cpus, Some(Share::thousandths(1_500)));
        assert_eq!(option.memory, Some(1 << 30));
        let devices = option.devices.clone().expect("devices");
        assert_eq!(devices.len(), 2);
        assert!(devices.iter().all(|d| d.memory == 8 << 30));
        assert_eq!(option.machine().memory, 1 << 30);
        let none: MachineOption = "gpus=0".parse().expect("parses");
        assert_eq!(none.devices, Some(vec![]));
        for wrong in [
            "",
            "cpus",
            "cpus=0",
            "memory=5",
            "gpus=2",
            "gpus=9999x1GiB",
            "disk=1",
        ] {
            assert!(wrong.parse::<MachineOption>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn admission_is_to_fail_or_to_wait() {
        let parse = |text: &str| text.parse::<AdmissionOption>().map(|a| a.0);
        assert_eq!(parse("fail"), Ok(Admission::Fail));
        assert_eq!(
            parse("wait=5s"),
            Ok(Admission::Wait(Duration::from_secs(5)))
        );
        for wrong in ["wait", "wait=", "wait=5", "now", "fail=1s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
