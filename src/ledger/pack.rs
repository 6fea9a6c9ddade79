//! Which share goes on which device.

use std::cmp::Reverse;

/// What is free on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Room {
    /// Thousandths of the device.
    pub share: u32,
    /// Bytes of its memory.
    pub memory: u64,
}

/// Something that lies on one device; needs some room.
pub(super) type Item = Room;

/// Placements that are tried beyond the first for each item. Packing is a hard problem in general; few
/// items and devices, which is what there is, are decided exactly long before this.
const MOST_RETRIES: usize = 10_000;

/// Finds a device for each item, or answers that there is no way to place all of them.
///
/// The largest item first, each where it leaves the least room (best fit decreasing); where that leads
/// nowhere, the last choice is taken back and the next best tried. Best fit alone would not find that
/// 0.4 + 0.3 + 0.3 fits twice on two devices.
pub(super) fn pack(rooms: &[Room], items: &[Item]) -> Option<Vec<usize>> {
    let mut rooms = rooms.to_vec();
    let mut order: Vec<(usize, Item)> = items.iter().copied().enumerate().collect();
    order.sort_by_key(|(_, item)| Reverse(*item));

    // For each item placed so far: its device, and the devices left to try, the best last.
    let mut placed: Vec<(usize, Vec<usize>)> = Vec::with_capacity(items.len());
    let mut untried: Option<Vec<usize>> = None;
    for _ in 0..items.len().saturating_mul(2).saturating_add(MOST_RETRIES) {
        let Some((_, item)) = order.get(placed.len()) else {
            break;
        };
        let mut options = untried.take().unwrap_or_else(|| options(&rooms, item));
        if let Some(device) = options.pop() {
            let room = rooms.get_mut(device)?;
            room.share = room.share.checked_sub(item.share)?;
            room.memory = room.memory.checked_sub(item.memory)?;
            placed.push((device, options));
        } else {
            let (device, options) = placed.pop()?;
            let (_, item) = order.get(placed.len())?;
            let room = rooms.get_mut(device)?;
            room.share = room.share.checked_add(item.share)?;
            room.memory = room.memory.checked_add(item.memory)?;
            untried = Some(options);
        }
    }
    if placed.len() < order.len() {
        return None;
    }
    let mut devices: Vec<(usize, usize)> = order
        .iter()
        .zip(placed)
        .map(|((number, _), (device, _))| (*number, device))
        .collect();
    devices.sort_unstable();
    Some(devices.into_iter().map(|(_, device)| device).collect())
}

/// The devices that an item fits on, the one that it leaves the least room on last. Of devices with the
/// same room one is enough.
fn options(rooms: &[Room], item: &Item) -> Vec<usize> {
    let mut options: Vec<(usize, &Room)> = rooms
        .iter()
        .enumerate()
        .filter(|(_, room)| room.share >= item.share && room.memory >= item.memory)
        .collect();
    options.sort_by_key(|(device, room)| (Reverse(*room), *device));
    options.dedup_by_key(|(_, room)| *room);
    options.into_iter().map(|(device, _)| device).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(shares: &[u32]) -> Vec<Room> {
        shares
            .iter()
            .map(|&share| Room { share, memory: 0 })
            .collect()
    }

    #[test]
    fn two_halves_share_a_device_and_leave_the_other_to_the_larger_share() {
        let devices = pack(&shares(&[1_000, 1_000]), &shares(&[500, 500, 600])).unwrap();
        assert_eq!(devices[0], devices[1]);
        assert_ne!(devices[0], devices[2]);
    }

    #[test]
    fn a_share_is_never_laid_over_two_devices() {
        assert_eq!(
            pack(&shares(&[1_000, 1_000]), &shares(&[600, 600, 600])),
            None
        );
    }

    #[test]
    fn a_way_that_best_fit_alone_misses_is_found() {
        let items = shares(&[400, 400, 300, 300, 300, 300]);
        assert!(pack(&shares(&[1_000, 1_000]), &items).is_some());
    }

    #[test]
    fn a_small_share_goes_where_it_leaves_the_least_room() {
        assert_eq!(
            pack(&shares(&[1_000, 300, 500]), &shares(&[200])),
            Some(vec![1])
        );
    }

    #[test]
    fn memory_counts_on_the_device_of_the_share() {
        let room = |share, memory| Room { share, memory };
        let devices = [room(500, 10), room(1_000, 80)];
        assert_eq!(pack(&devices, &[room(100, 40)]), Some(vec![1]));
        assert_eq!(pack(&devices, &[room(100, 40), room(100, 41)]), None);
    }

    #[test]
    fn what_cannot_be_decided_quickly_is_given_up() {
        let items: Vec<Room> = (0..200)
            .map(|n| Room {
                share: 101 + n % 7,
                memory: 0,
            })
            .collect();
        let devices = shares(&[1_000; 20]);
        assert_eq!(pack(&devices, &items), None);
    }

    proptest! {
        #[test]
        fn no_device_is_given_more_than_it_has(
            rooms in prop::collection::vec((0u32..=1_000, 0u64..=100), 0..5),
            items in prop::collection::vec((1u32..=1_000, 0u64..=100), 0..8),
        ) {
            let room = |(share, memory)| Room { share, memory };
            let rooms: Vec<Room> = rooms.into_iter().map(room).collect();
            let items: Vec<Item> = items.into_iter().map(room).collect();
            let Some(devices) = pack(&rooms, &items) else { return Ok(()) };
            prop_assert_eq!(devices.len(), items.len());
            for (device, room) in rooms.iter().enumerate() {
                let here = || devices.iter().zip(&items).filter(|(d, _)| **d == device);
                prop_assert!(here().map(|(_, i)| i.share).sum::<u32>() <= room.share);
                prop_assert!(here().map(|(_, i)| i.memory).sum::<u64>() <= room.memory);
            }
        }

        #[test]
        fn what_was_laid_out_on_devices_is_found_to_fit(
            cuts in prop::collection::vec(prop::collection::vec(1u32..=400, 1..4), 1..4),
        ) {
            // Each device is filled with what fits, so there is a way.
            let items: Vec<Room> = cuts.iter().flat_map(|cut| {
                let mut left = 1_000;
                cut.iter().filter_map(move |&share| {
                    left = u32::checked_sub(left, share)?;
                    Some(Room { share, memory: 0 })
                }).collect::<Vec<_>>()
            }).collect();
            let devices = shares(&vec![1_000; cuts.len()]);
            prop_assert!(pack(&devices, &items).is_some());
        }
    }
}
