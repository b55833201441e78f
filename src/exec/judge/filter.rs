//! The seccomp filter: `execve`, `execveat`, and the calls that may change which file a path leads to (`view.rs`), wait
//! for an answer of the supervisor; all other system calls are allowed.
//!
//! A process may use several system call interfaces of one kernel (i386 on x86_64, 32-bit Arm on aarch64), so the filter
//! knows the numbers of each. A call of an unknown interface (x32) fails with ENOSYS: it could be an unseen exec.
use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// The offsets in `struct seccomp_data`.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCHITECTURE: u32 = 4;
/// The lower half of the first argument, on a little-endian machine.
pub(super) const FIRST_ARGUMENT: u32 = 16;

/// The flag of `clone` for a mount namespace of its own.
const NEW_MOUNTS: u32 = libc::CLONE_NEWNS.cast_unsigned();

const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NO_SUCH_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// One system call interface.
pub(super) struct Interface {
    /// As in `linux/audit.h`.
    pub(super) architecture: u32,
    pub(super) execve: u32,
    pub(super) execveat: u32,
    /// The size of a pointer, in bytes.
    pub(super) pointer: usize,
    /// The calls that may change the root directory, the mount namespace, or the mounts of a process: `chroot`, `pivot_root`, `mount`,
    /// `umount` (i386), `umount2`, `unshare`, `setns`, `move_mount`.
    views: &'static [u32],
    /// Waits for an answer only with [`NEW_MOUNTS`].
    clone: u32,
    /// Numbers from here on belong to another interface with the same architecture.
    end: Option<u32>,
}

impl Interface {
    /// The interface of an architecture; `None`: the filter refuses its calls.
    pub(super) fn of(architecture: u32) -> Option<&'static Self> {
        INTERFACES.iter().find(|interface| interface.architecture == architecture)
    }

    pub(super) fn is_exec(&self, number: u32) -> bool {
        [self.execve, self.execveat].contains(&number)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) const INTERFACES: [Interface; 2] = X86_64;
#[cfg(target_arch = "aarch64")]
pub(super) const INTERFACES: [Interface; 2] = AARCH64;

#[cfg(any(test, target_arch = "x86_64"))]
const X86_64: [Interface; 2] = [
    Interface {
        architecture: 0xC000_003E,
        execve: 59,
        execveat: 322,
        pointer: 8,
        views: &[161, 155, 165, 166, 272, 308, 429],
        clone: 56,
        end: Some(0x4000_0000),
    },
    Interface {
        architecture: 0x4000_0003,
        execve: 11,
        execveat: 358,
        pointer: 4,
        views: &[61, 217, 21, 22, 52, 310, 346, 429],
        clone: 120,
        end: None,
    },
];
#[cfg(any(test, target_arch = "aarch64"))]
const AARCH64: [Interface; 2] = [
    Interface {
        architecture: 0xC000_00B7,
        execve: 221,
        execveat: 281,
        pointer: 8,
        views: &[51, 41, 40, 39, 97, 268, 429],
        clone: 220,
        end: None,
    },
    Interface {
        architecture: 0x4000_0028,
        execve: 11,
        execveat: 387,
        pointer: 4,
        views: &[61, 218, 21, 52, 337, 375, 429],
        clone: 120,
        end: None,
    },
];

pub(super) fn program() -> Vec<sock_filter> {
    program_for(&INTERFACES)
}

fn program_for(interfaces: &[Interface]) -> Vec<sock_filter> {
    let mut program = vec![load(ARCHITECTURE)];
    for interface in interfaces {
        let mut block = vec![load(NUMBER)];
        if let Some(end) = interface.end {
            block.extend([jump(BPF_JGE, end, 0, 1), give(NO_SUCH_CALL)]);
        }
        let reported = [interface.execve, interface.execveat].into_iter().chain(interface.views.iter().copied());
        for (left, number) in (0..=1 + interface.views.len()).rev().zip(reported) {
            // Over the other numbers, and the four instructions before the last.
            let to_notify = u8::try_from(left + 4).expect("a block is short");
            block.push(jump(BPF_JEQ, number, to_notify, 0));
        }
        block.extend([
            jump(BPF_JEQ, interface.clone, 0, 2),
            load(FIRST_ARGUMENT),
            jump(BPF_JSET, NEW_MOUNTS, 1, 0),
            give(ALLOW),
            give(NOTIFY),
        ]);
        let length = u8::try_from(block.len()).expect("a block is short");
        program.push(jump(BPF_JEQ, interface.architecture, 0, length));
        program.extend(block);
    }
    program.push(give(NO_SUCH_CALL));
    program
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: u16::try_from(code).expect("codes have 16 bits"), jt, jf, k }
}

pub(super) fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0)
}

/// Keeps these bits.
pub(super) fn and(mask: u32) -> sock_filter {
    instruction(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0)
}

/// Skips `yes` or `no` instructions.
pub(super) fn jump(condition: u32, operand: u32, yes: u8, no: u8) -> sock_filter {
    instruction(BPF_JMP | condition | BPF_K, operand, yes, no)
}

pub(super) fn give(result: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, result, 0, 0)
}

/// The kernel's decision. `word`: the word at this offset of `struct seccomp_data`.
#[cfg(test)]
pub(super) fn run(program: &[sock_filter], word: impl Fn(u32) -> u32) -> u32 {
    let (mut at, mut value) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let skip = |holds: bool| usize::from(if holds { jt } else { jf });
        match u32::from(code) {
            code if code == BPF_LD | BPF_W | BPF_ABS => value = word(k),
            code if code == BPF_ALU | BPF_AND | BPF_K => value &= k,
            code if code == BPF_JMP | BPF_JEQ | BPF_K => at += skip(value == k),
            code if code == BPF_JMP | BPF_JGE | BPF_K => at += skip(value >= k),
            code if code == BPF_JMP | BPF_JSET | BPF_K => at += skip(value & k != 0),
            code if code == BPF_RET | BPF_K => return k,
            code => panic!("unknown code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(interfaces: &[Interface], architecture: u32, number: u32, first_argument: u32) -> u32 {
        run(&program_for(interfaces), |offset| match offset {
            NUMBER => number,
            ARCHITECTURE => architecture,
            FIRST_ARGUMENT => first_argument,
            other => panic!("unknown offset {other}"),
        })
    }

    #[test]
    fn only_execs_and_changes_of_the_view_wait_for_an_answer() {
        const FORK: u32 = 17;
        for interfaces in [X86_64, AARCH64] {
            for interface in &interfaces {
                let waits = |number, first_argument| {
                    match judge(&interfaces, interface.architecture, number, first_argument) {
                        NOTIFY => true,
                        ALLOW => false,
                        other => panic!("{other:#x}"),
                    }
                };
                let Interface { execve, execveat, clone, views, .. } = *interface;
                let reported: Vec<u32> = (0..1_000).filter(|number| waits(*number, FORK)).collect();
                let mut expected = [&[execve, execveat], views].concat();
                expected.sort_unstable();
                assert_eq!(reported, expected);
                let with_flags: Vec<u32> = (0..1_000).filter(|number| waits(*number, NEW_MOUNTS | FORK)).collect();
                expected.push(clone);
                expected.sort_unstable();
                assert_eq!(with_flags, expected);
            }
            let judge = |architecture, number| judge(&interfaces, architecture, number, 0);
            assert_eq!(judge(0x1234, interfaces[0].execve), NO_SUCH_CALL, "an unknown architecture");
            if let Some(end) = interfaces[0].end {
                for number in [end, end + interfaces[0].execve, end + 520] {
                    assert_eq!(judge(interfaces[0].architecture, number), NO_SUCH_CALL, "x32");
                }
            }
        }
    }

    /// Those of this machine; the others are those of the kernel's tables.
    #[test]
    fn the_numbers_are_those_of_the_c_library() {
        let Interface { execve, execveat, views, clone, .. } = INTERFACES[0];
        let of_libc = [
            libc::SYS_chroot,
            libc::SYS_pivot_root,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_move_mount,
        ];
        assert_eq!(views.iter().map(|number| i64::from(*number)).collect::<Vec<_>>(), of_libc);
        assert_eq!(
            [execve, execveat, clone].map(i64::from),
            [libc::SYS_execve, libc::SYS_execveat, libc::SYS_clone]
        );
    }
}
