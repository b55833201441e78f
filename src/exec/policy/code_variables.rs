//! Environment variables by which a program can be made to run other code: they name it, or options or files that name
//! it. A question about a program always names those that have changed.
//!
//! The lists are from the manuals of the programs, from what sudo removes (`env_delete`) and glibc does not trust
//! (`unsecvars.h`), and from similar lists. They cannot be complete: any program can have its own.

/// Whether many programs run other code because of this environment variable. Others may do so too.
pub(crate) fn may_run_code(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_description = DESCRIPTIONS.iter().any(|prefix| upper.starts_with(prefix));
    let is_known = NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || ANY_CASE_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || ENDINGS.iter().any(|ending| name.ends_with(ending));
    is_known && !is_description
}

const NAMES: [&str; 61] = [
    "ACLOCAL_PATH",
    "ANSIBLE_CONFIG",
    "AR",
    "AS",
    "AWKLIBPATH",
    "AWKPATH",
    "BROWSER",
    "CC",
    "CDPATH",
    "CLASSPATH",
    "CONFIG_SITE",
    "CPP",
    "CVS_RSH",
    "CXX",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DOCKER_CONFIG",
    "DOCKER_HOST",
    "ENV",
    "EXINIT",
    "FC",
    "FPATH",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "GOROOT",
    "GOTOOLCHAIN",
    "HGRCPATH",
    "HOME",
    "HOSTALIASES",
    "IFS",
    "INPUTRC",
    "KUBECONFIG",
    "LD",
    "LIBRARY_PATH",
    "LOCALDOMAIN",
    "LOCPATH",
    "MAKE",
    "MAKEFILES",
    "MAKESHELL",
    "MANOPT",
    "MANROFFOPT",
    "NETRC",
    "NIS_PATH",
    "NLSPATH",
    "PATH",
    "PS4",
    "PSModulePath",
    "RAKULIB",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "RSYNC_RSH",
    "SHELL",
    "SHELLOPTS",
    "SSH_AUTH_SOCK",
    "TCLLIBPATH",
    "TERMCAP",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TMPDIR",
    "ZDOTDIR",
];

/// The beginnings of names.
const PREFIXES: [&str; 51] = [
    "AWS_CONFIG",
    "BASH",
    "BAZEL",
    "BUNDLE",
    "BUN_",
    "CARGO",
    "CCACHE_",
    "CLOUDSDK_PYTHON",
    "CMAKE_",
    "COMPOSER_",
    "CORECLR_",
    "COR_",
    "DENO_",
    "DOTNET_",
    "DYLD_",
    "ELECTRON_",
    "ELIXIR_",
    "ERL_",
    "GCC_",
    "GDK_PIXBUF_",
    "GEM_",
    "GIO_",
    "GIT_",
    "GRADLE_",
    "GST_",
    "GTK_",
    "GUILE_",
    "JAVA",
    "JDK_",
    "JULIA_",
    "LD_",
    "LESS",
    "LUA_",
    "MALLOC_",
    "MAVEN_",
    "NODE_",
    "OPENSSL_",
    "PERL",
    "PHP",
    "PKG_CONFIG_",
    "PLT",
    "PYTHON",
    "QT_",
    "RUBY",
    "RUSTC",
    "RUSTDOC",
    "R_",
    "SSL_",
    "VIM",
    "XDG_",
    "_JAVA_",
];

/// The same for programs that read the names in capital and small letters.
const ANY_CASE_PREFIXES: [&str; 10] =
    ["ALL_PROXY", "FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NPM_", "PIP_", "PNPM_", "POETRY_", "UV_", "YARN_"];

/// Beginnings of names of variables that describe a package, and that build tools set by the dozen.
const DESCRIPTIONS: [&str; 5] = ["CARGO_CFG_", "CARGO_FEATURE_", "CARGO_PKG_", "NPM_LIFECYCLE_", "NPM_PACKAGE_"];

/// The endings of names: `SSH_ASKPASS`, `GIT_EDITOR`, `MANPAGER`, `CARGO_HOME`, `MAVEN_OPTS`.
const ENDINGS: [&str; 12] = [
    "ASKPASS", "EDITOR", "FLAGS", "OPTIONS", "OPTS", "PAGER", "PRELOAD", "VISUAL", "_COMMAND", "_HOME", "_SHELL",
    "_WRAPPER",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_by_which_programs_run_other_code_are_known() {
        for name in "PATH BASH_ENV ENV GIT_SSH_COMMAND LD_PRELOAD NODE_OPTIONS PERL5LIB PYTHONSTARTUP RUBYOPT HOME JAVA_TOOL_OPTIONS \
                     _JAVA_OPTIONS JDK_JAVA_OPTIONS EDITOR VISUAL PAGER MANPAGER SSH_ASKPASS SUDO_ASKPASS GCONV_PATH XDG_CONFIG_HOME \
                     MAKEFLAGS CARGO_HOME CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER RUSTC_WRAPPER RUSTFLAGS npm_config_script_shell \
                     NPM_CONFIG_PREFIX PIP_INDEX_URL pip_config_file TAR_OPTIONS LESSOPEN LESSCLOSE BROWSER OPENSSL_CONF SHELLOPTS \
                     BASH_FUNC_ls%% MAVEN_OPTS GRADLE_OPTS GOFLAGS GLIBC_TUNABLES https_proxy HTTPS_PROXY RSYNC_RSH BUNDLE_GEMFILE \
                     DOCKER_HOST ZDOTDIR VIMINIT LUA_INIT PHPRC ERL_FLAGS DOTNET_STARTUP_HOOKS LUA_PATH CORECLR_PROFILER_PATH SSL_CERT_FILE"
            .split_whitespace()
        {
            assert!(may_run_code(name), "{name}");
        }
        for name in [
            "LANG",
            "COLUMNS",
            "PWD",
            "SHLVL",
            "_",
            "A",
            "USER",
            "TERM",
            "EXIT_CODE",
            "CI",
            "CARGO_PKG_NAME",
            "npm_package_version",
        ] {
            assert!(!may_run_code(name), "{name}");
        }
    }
}
