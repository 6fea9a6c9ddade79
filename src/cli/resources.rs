//! `wasmill resources`: what runs may reserve.

use clap::Args;
use indicatif::BinaryBytes;
use serde::Serialize;

use super::failure::Failure;
use super::pools::MachineOptions;
use super::{json_text, print};
use crate::LedgerUsage;

const EXAMPLES: &str = "\
Examples:
  wasmill resources
  wasmill resources --json
  wasmill resources --machine cpus=4,memory=8GiB,gpus=1x24GiB

A run reserves the memory of all its slots and of its queue before it starts anything. CPUs are not
reserved: slots may outnumber them, but no more calls run at once than there are CPUs for. Devices
are not looked for: say which there are with --machine, or in wasmill.toml.";

/// Shows what runs on this machine may reserve: CPUs, memory, devices
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResourcesArgs {
    #[command(flatten)]
    machine: MachineOptions,
}

#[derive(Serialize)]
struct Resources {
    schema_version: u32,
    #[serde(flatten)]
    usage: LedgerUsage,
}

pub(crate) fn execute(args: &ResourcesArgs, json: bool) -> Result<(), Failure> {
    let usage = args.machine.ledger().usage();
    if json {
        let resources = Resources {
            schema_version: 1,
            usage,
        };
        return print(&format!("{}\n", json_text(&resources)?));
    }
    let machine = &usage.machine;
    let mut text = format!(
        "cpus     {}\nmemory   {}\ndevices  ",
        machine.cpus,
        BinaryBytes(machine.memory)
    );
    if machine.devices.is_empty() {
        text.push_str("none\n");
    }
    for (number, device) in machine.devices.iter().enumerate() {
        let indent = if number > 0 { "         " } else { "" };
        text.push_str(&format!(
            "{indent}{} with {}\n",
            device.name,
            BinaryBytes(device.memory)
        ));
    }
    print(&text)
}
