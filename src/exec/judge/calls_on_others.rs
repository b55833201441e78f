//! System calls by which a sandboxed command could act on processes outside, and which Landlock does not restrict: a second
//! seccomp filter lets them fail with EPERM, whether or not the command's programs are judged.
//!
//! 1. `prlimit` with the number of a process and a new limit. It ends a process of the same user (RLIMIT_CPU), makes it fail, or makes it write a
//!    `core` file into its directory. Limits of the calling process itself (number 0) can be changed, as `ulimit` does.
//! 2. `ioctl` with TIOCSTI or TIOCLINUX, which put input into a terminal as if somebody had typed it: root can do so in every terminal.
//! 3. `ioctl` that creates, deletes or changes subvolumes of btrfs and bcachefs: a descriptor that is open for reading is enough, so a command
//!    could make a snapshot of its files in any directory of the user.
//! 4. `mount_setattr` and `open_tree_attr`, by which root makes other mounts read-only.
use super::{
    filter::{ARCHITECTURE, FIRST_ARGUMENT, NUMBER, and, give, jump, load},
    notify,
};
use libc::{BPF_JEQ, sock_filter};
use std::io;

const SECOND_ARGUMENT: u32 = FIRST_ARGUMENT + 8;
/// The lower half of the third argument; the upper half follows.
const THIRD_ARGUMENT: u32 = FIRST_ARGUMENT + 16;

const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;
/// The type and the number of a request; the rest of it is the size of its argument and the direction.
const KIND: u32 = 0xFFFF;
/// `linux/btrfs.h`: SNAP_CREATE, SUBVOL_CREATE, SNAP_DESTROY, DEFAULT_SUBVOL, SNAP_CREATE_V2, SUBVOL_CREATE_V2, SUBVOL_SETFLAGS, SNAP_DESTROY_V2;
/// `bcachefs_ioctl.h`: SUBVOLUME_CREATE, SUBVOLUME_DESTROY.
const SUBVOLUMES: [u32; 10] =
    [0x9401, 0x940E, 0x940F, 0x9413, 0x9417, 0x9418, 0x941A, 0x943F, 0xBC10, 0xBC11];
/// `mount_setattr` and `open_tree_attr` have these numbers on every architecture.
const MOUNTS: [u32; 2] = [442, 467];

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// A system call interface: its architecture, and the numbers of `prlimit64` and `ioctl`.
type Interface = (u32, u32, u32);
/// In the numbers of x32.
const X32: u32 = 0x4000_0000;
#[cfg(any(test, target_arch = "x86_64"))]
const X86_64: [Interface; 3] =
    [(0xC000_003E, 302, 16), (0x4000_0003, 340, 54), (0xC000_003E, X32 | 302, X32 | 514)];
#[cfg(any(test, target_arch = "aarch64"))]
const AARCH64: [Interface; 2] = [(0xC000_00B7, 261, 29), (0x4000_0028, 369, 54)];
#[cfg(target_arch = "x86_64")]
const INTERFACES: [Interface; 3] = X86_64;
#[cfg(target_arch = "aarch64")]
const INTERFACES: [Interface; 2] = AARCH64;

/// Restricts the calling thread, and all processes that it starts from now on.
///
/// # Errors
/// The kernel refuses the filter: nothing is restricted.
pub(crate) fn refuse_calls_on_others() -> io::Result<()> {
    notify::restrict(program_for(&INTERFACES))
}

fn program_for(interfaces: &[Interface]) -> Vec<sock_filter> {
    let refuse = |value: u32| [jump(BPF_JEQ, value, 0, 1), give(REFUSE)];
    let mut program = Vec::new();
    for (architecture, prlimit, ioctl) in interfaces {
        let x32 = ioctl & X32;
        let mut requests = vec![load(SECOND_ARGUMENT)];
        requests.extend([TIOCSTI, TIOCLINUX].into_iter().flat_map(refuse));
        requests.push(and(KIND));
        requests.extend(SUBVOLUMES.into_iter().flat_map(refuse));
        requests.push(give(ALLOW));
        let mut block = vec![load(NUMBER)];
        block.extend(MOUNTS.into_iter().flat_map(|number| refuse(x32 | number)));
        block.extend([
            jump(BPF_JEQ, *prlimit, 0, 8),
            load(FIRST_ARGUMENT),
            jump(BPF_JEQ, 0, 5, 0),
            load(THIRD_ARGUMENT),
            jump(BPF_JEQ, 0, 0, 2),
            load(THIRD_ARGUMENT + 4),
            jump(BPF_JEQ, 0, 1, 0),
            give(REFUSE),
            give(ALLOW),
            jump(BPF_JEQ, *ioctl, 0, length(&requests)),
        ]);
        block.extend(requests);
        program.push(load(ARCHITECTURE));
        // Another interface may have the same architecture.
        program.push(jump(BPF_JEQ, *architecture, 0, length(&block)));
        program.extend(block);
    }
    program.push(give(ALLOW));
    program
}

fn length(instructions: &[sock_filter]) -> u8 {
    u8::try_from(instructions.len()).expect("a block is short")
}

#[cfg(test)]
mod tests {
    use super::{super::filter::run, *};
    use rustix::{
        io::Errno,
        process::{Resource, Rlimit, getpid, getrlimit, prlimit},
    };
    use std::{process::Command, thread};

    #[test]
    fn only_limits_of_others_and_input_into_terminals_are_refused() {
        for interfaces in [&X86_64[..], &AARCH64[..]] {
            for (architecture, limits, ioctl) in interfaces {
                let refuses = |number: u32, arguments: [u64; 3]| {
                    let word = |offset: u32| match offset {
                        NUMBER => number,
                        ARCHITECTURE => *architecture,
                        _ => {
                            let (at, is_upper) = ((offset - FIRST_ARGUMENT) / 8, !offset.is_multiple_of(8));
                            let value = arguments[at as usize] >> if is_upper { 32 } else { 0 };
                            u32::try_from(value & u64::from(u32::MAX)).expect("32 bits")
                        }
                    };
                    match run(&program_for(interfaces), word) {
                        REFUSE => true,
                        ALLOW => false,
                        other => panic!("{other:#x}"),
                    }
                };
                for (number, arguments, is_refused) in [
                    (*limits, [1, 0, 0x7FFF], true),
                    (*limits, [1, 0, 1 << 32], true),
                    (*limits, [0, 0, 0x7FFF], false),
                    (*limits, [1, 0, 0], false),
                    (*ioctl, [3, 0x5412, 1], true),
                    (*ioctl, [3, 0x541C, 1], true),
                    (*ioctl, [3, 0x5413, 1], false),
                    (*ioctl, [3, 0x5000_9417, 1], true),
                    (*ioctl, [3, 0x5000_9401, 1], true),
                    (*ioctl, [3, 0x4004_9409, 1], false),
                    (*ioctl, [3, 0x4020_BC11, 1], true),
                    ((*ioctl & X32) | 442, [3, 0, 0], true),
                    ((*ioctl & X32) | 467, [3, 0, 0], true),
                    ((*ioctl & X32) | 443, [3, 0, 0], false),
                    (*ioctl + 1, [3, 0x5412, 1], false),
                ] {
                    assert_eq!(refuses(number, arguments), is_refused, "{architecture:#x} {number} {arguments:?}");
                }
            }
        }
    }

    #[test]
    fn a_restricted_process_changes_its_own_limits_only() {
        let restricted = thread::spawn(|| {
            refuse_calls_on_others().expect("the kernel has seccomp");
            let Rlimit { maximum, .. } = getrlimit(Resource::Core);
            let refused = prlimit(Some(getpid()), Resource::Core, Rlimit { current: Some(0), maximum });
            let own = Command::new("sh").args(["-c", "ulimit -S -c 0 && ulimit -S -c"]).output();
            (refused, own.expect("there is a shell").stdout)
        });
        let (refused, own) = restricted.join().expect("the thread does not panic");
        assert_eq!((refused.err(), &own[..]), (Some(Errno::PERM), &b"0\n"[..]));
    }
}
