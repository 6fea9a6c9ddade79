//! What there is to reserve from.

use serde::Serialize;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::Share;

/// What a machine has, or what of it a process may use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// CPUs that may run guests at a time.
    pub cpus: Share,
    /// Bytes of memory.
    pub memory: u64,
    /// The devices, each with a name of its own.
    pub devices: Vec<DeviceTotal>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceTotal {
    /// Its name in messages.
    pub name: String,
    /// Bytes of its memory.
    pub memory: u64,
}

impl Machine {
    /// What this process may use: the CPUs that its affinity and the quota of its control group leave
    /// it, and the least of the physical memory and the memory limits of its control group and of those
    /// above it (version 1 or 2). No devices.
    ///
    /// Where the system does not say how much memory there is, it counts as unlimited.
    pub fn detect() -> Machine {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        Machine {
            cpus: Share::whole(u32::try_from(cpus).unwrap_or(u32::MAX)),
            memory: detect_memory(),
            devices: Vec::new(),
        }
    }
}

fn detect_memory() -> u64 {
    let Ok(mut system) = System::new() else {
        return u64::MAX;
    };
    system.refresh_memory();
    let physical = Some(system.total_memory()).filter(|bytes| *bytes > 0);
    let of_group = own_group_limit(&mut system);
    // What the roots of the groups say, for a container in which the process's own cannot be found.
    let of_root = system.cgroup_limits().map(|limits| limits.total_memory);
    [physical, of_group, of_root]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(u64::MAX)
}

/// The least limit, in bytes, of this process's control group and of those above it.
fn own_group_limit(system: &mut System) -> Option<u64> {
    let own = Pid::from_u32(std::process::id());
    system.refresh_processes_specifics(
        ProcessesToUpdate::Some(&[own]),
        false,
        ProcessRefreshKind::nothing().without_tasks(),
    );
    let limits = system.process(own)?.cgroup_limits()?;
    Some(limits.total_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_of_this_process_has_cpus_and_memory_within_what_the_system_has() {
        let machine = Machine::detect();
        assert!(machine.cpus >= Share::ONE);
        assert!(machine.memory > 1 << 20, "{} bytes", machine.memory);
        assert_eq!(machine.devices, []);

        let mut system = System::new().unwrap();
        system.refresh_memory();
        assert!(machine.memory <= system.total_memory());
    }
}
