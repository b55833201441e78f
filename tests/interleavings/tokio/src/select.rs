//! `select!`, with its branches in their order or in the reverse one.

/// Like tokio's. Without `biased`, the scheduler chooses the end from which the branches are polled.
#[macro_export]
macro_rules! select {
    (biased; $($branches:tt)*) => { $crate::real::select! { biased; $($branches)* } };
    ($($branches:tt)*) => { $crate::select_from_either_end! { [] [] $($branches)* } };
}

/// Collects the branches in both orders: `[forward] [backward] rest`.
#[doc(hidden)]
#[macro_export]
macro_rules! select_from_either_end {
    ([$($forward:tt)*] [$($backward:tt)*]) => {
        match $crate::choose() {
            true => $crate::real::select! { biased; $($forward)* },
            false => $crate::real::select! { biased; $($backward)* },
        }
    };
    ([$($forward:tt)*] [$($backward:tt)*] $pattern:pat = $future:expr => $then:block $(,)? $($rest:tt)*) => {
        $crate::select_from_either_end! {
            [$($forward)* $pattern = $future => $then,] [$pattern = $future => $then, $($backward)*] $($rest)*
        }
    };
    ([$($forward:tt)*] [$($backward:tt)*] $pattern:pat = $future:expr => $then:expr, $($rest:tt)*) => {
        $crate::select_from_either_end! {
            [$($forward)* $pattern = $future => { $then },] [$pattern = $future => { $then }, $($backward)*] $($rest)*
        }
    };
}
