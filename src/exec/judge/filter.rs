//! The seccomp filter: `execve` and `execveat` wait for an answer, all other system calls are allowed.
//!
//! A process may use several system call interfaces of one kernel (i386 on x86_64, 32-bit Arm on aarch64), so the filter
//! knows the numbers of each. A call of an unknown interface (x32) fails with ENOSYS: it could be an unseen exec.
use libc::{BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// The offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

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
    /// Numbers from here on belong to another interface with the same architecture.
    end: Option<u32>,
}

#[cfg(target_arch = "x86_64")]
pub(super) const INTERFACES: [Interface; 2] = X86_64;
#[cfg(target_arch = "aarch64")]
pub(super) const INTERFACES: [Interface; 2] = AARCH64;

#[cfg(any(test, target_arch = "x86_64"))]
const X86_64: [Interface; 2] = [
    Interface { architecture: 0xC000_003E, execve: 59, execveat: 322, pointer: 8, end: Some(0x4000_0000) },
    Interface { architecture: 0x4000_0003, execve: 11, execveat: 358, pointer: 4, end: None },
];
#[cfg(any(test, target_arch = "aarch64"))]
const AARCH64: [Interface; 2] = [
    Interface { architecture: 0xC000_00B7, execve: 221, execveat: 281, pointer: 8, end: None },
    Interface { architecture: 0x4000_0028, execve: 11, execveat: 387, pointer: 4, end: None },
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
        block.extend([
            jump(BPF_JEQ, interface.execve, 1, 0),
            jump(BPF_JEQ, interface.execveat, 0, 1),
            give(NOTIFY),
            give(ALLOW),
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

fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0)
}

/// Skips `yes` or `no` instructions.
fn jump(condition: u32, operand: u32, yes: u8, no: u8) -> sock_filter {
    instruction(BPF_JMP | condition | BPF_K, operand, yes, no)
}

fn give(result: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, result, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's decision.
    fn judge(interfaces: &[Interface], architecture: u32, number: u32) -> u32 {
        let (program, mut at, mut value) = (program_for(interfaces), 0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let skip = |holds: bool| usize::from(if holds { jt } else { jf });
            match u32::from(code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => value = if k == NUMBER { number } else { architecture },
                code if code == BPF_JMP | BPF_JEQ | BPF_K => at += skip(value == k),
                code if code == BPF_JMP | BPF_JGE | BPF_K => at += skip(value >= k),
                code if code == BPF_RET | BPF_K => return k,
                code => panic!("unknown code {code}"),
            }
        }
    }

    #[test]
    fn only_execs_wait_for_an_answer() {
        for interfaces in [X86_64, AARCH64] {
            let judge = |architecture, number| judge(&interfaces, architecture, number);
            for Interface { architecture, execve, execveat, .. } in &interfaces {
                assert_eq!(judge(*architecture, *execve), NOTIFY);
                assert_eq!(judge(*architecture, *execveat), NOTIFY);
                assert_eq!(judge(*architecture, execve - 1), ALLOW);
                assert_eq!(judge(*architecture, execveat + 1), ALLOW);
                assert_eq!(judge(*architecture, 1_000), ALLOW);
            }
            assert_eq!(judge(0x1234, interfaces[0].execve), NO_SUCH_CALL, "an unknown architecture");
            if let Some(end) = interfaces[0].end {
                for number in [end, end + interfaces[0].execve, end + 520] {
                    assert_eq!(judge(interfaces[0].architecture, number), NO_SUCH_CALL, "x32");
                }
            }
        }
    }
}
