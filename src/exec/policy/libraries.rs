//! The libraries of a program that is to leave the sandbox. The dynamic loader (`ld.so(8)`) loads them before the first
//! instruction of the program, also from directories that the program itself names (RPATH, RUNPATH).
//!
//! 1. What cannot be read, or is not certain, counts as changeable.
//! 2. The system's own directories of libraries are not in reach of commands, and what lies there is trusted.
use super::reach::Reach;
use object::{
    Endianness, FileKind,
    elf::{self, FileHeader32, FileHeader64},
    read::{
        self, ReadCache, ReadRef,
        elf::{Dyn, FileHeader, ProgramHeader},
    },
};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// The longest table of strings, in bytes. Large programs have some hundred KiB.
const MAX_STRINGS: u64 = 64 << 20;
/// The maximum of libraries that are examined.
const MAX_LIBRARIES: usize = 256;

/// What a program, or a library, has the dynamic loader load.
#[derive(Debug, Default, PartialEq, Eq)]
struct Linked {
    /// The dynamic loader itself.
    loader: Option<Vec<u8>>,
    /// Where it looks first.
    directories: Vec<Vec<u8>>,
    libraries: Vec<Vec<u8>>,
}

/// Why commands can change code that is loaded with the program in this file. A script has none.
pub(super) fn objection(program: &Path, reach: &Reach) -> Option<String> {
    let (mut next, mut seen, mut directories) = (vec![program.to_owned()], BTreeSet::new(), Vec::new());
    while let Some(file) = next.pop() {
        if !seen.insert(file.clone()) {
            continue;
        }
        let Ok(linked) = linked(&file) else {
            return Some(format!("the libraries of {} cannot be determined", file.display()));
        };
        let origin = file.parent().unwrap_or(Path::new("/"));
        let changeable = |name: &[u8]| {
            let what = String::from_utf8_lossy(name).into_owned();
            format!("{} loads code from `{what}`, which commands can change", file.display())
        };
        let out_of_reach =
            |name: &[u8]| expanded(name, origin).filter(|path| !reach.leads_into(path)).ok_or_else(|| changeable(name));
        let mut add = || -> Result<(), String> {
            if let Some(loader) = &linked.loader {
                out_of_reach(loader)?;
            }
            for directory in &linked.directories {
                directories.push(out_of_reach(directory)?);
            }
            for name in &linked.libraries {
                if name.contains(&b'/') {
                    next.push(out_of_reach(name)?);
                    continue;
                }
                let file_name = OsString::from_vec(name.clone());
                let found = directories.iter().map(|directory| directory.join(&file_name)).find(|file| file.exists());
                if let Some(found) = found {
                    if reach.has_program(&found) {
                        return Err(changeable(found.as_os_str().as_encoded_bytes()));
                    }
                    next.push(found);
                }
            }
            Ok(())
        };
        if let Err(why) = add() {
            return Some(why);
        }
        if seen.len() > MAX_LIBRARIES {
            return Some(format!("{} has more than {MAX_LIBRARIES} libraries", program.display()));
        }
    }
    None
}

/// The path, with the directory of the file in the place of `$ORIGIN`. `None`: it is relative, or depends on more.
fn expanded(name: &[u8], origin: &Path) -> Option<PathBuf> {
    let after = [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|token| name.strip_prefix(*token));
    let after = after.filter(|after| after.first().is_none_or(|byte| *byte == b'/'));
    let path = match after {
        Some(after) => [origin.as_os_str().as_encoded_bytes(), after].concat(),
        None => name.to_owned(),
    };
    let path = PathBuf::from(OsString::from_vec(path.clone())).is_absolute().then_some(path)?;
    let is_certain = after.unwrap_or(name).iter().all(|byte| *byte != b'$');
    is_certain.then(|| OsString::from_vec(path).into())
}

/// What is not an ELF file, such as a script, has nothing.
fn linked(file: &Path) -> io::Result<Linked> {
    let mut file = File::open(file)?;
    let mut start = [0; 4];
    if file.read_exact(&mut start).is_err() || start != elf::ELFMAG {
        return Ok(Linked::default());
    }
    let data = ReadCache::new(file);
    match FileKind::parse(&data).map_err(io::Error::other)? {
        FileKind::Elf32 => read::<FileHeader32<Endianness>, _>(&data),
        FileKind::Elf64 => read::<FileHeader64<Endianness>, _>(&data),
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    .map_err(io::Error::other)
}

/// By the segments, as the loader does: sections may be missing.
fn read<'data, Elf, R>(data: R) -> Result<Linked, String>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let invalid = |error: read::Error| error.to_string();
    let header = Elf::parse(data).map_err(invalid)?;
    let endian = header.endian().map_err(invalid)?;
    let segments = header.program_headers(endian, data).map_err(invalid)?;
    let mut linked = Linked::default();
    let mut dynamic: Vec<(elf::DynamicTag, u64)> = Vec::new();
    for segment in segments {
        if let Some(loader) = segment.interpreter(endian, data).map_err(invalid)? {
            linked.loader = Some(loader.to_owned());
        }
        let entries = segment.dynamic(endian, data).map_err(invalid)?.unwrap_or_default();
        let entries = entries.iter().map(|entry| (entry.d_tag(endian), entry.d_val(endian).into()));
        dynamic.extend(entries.take_while(|(tag, _)| *tag != elf::DT_NULL));
    }
    let value = |wanted| dynamic.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
    let Some((address, size)) = value(elf::DT_STRTAB).zip(value(elf::DT_STRSZ)) else { return Ok(linked) };
    let in_file = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD).find_map(|segment| {
        let (start, length): (u64, u64) = (segment.p_vaddr(endian).into(), segment.p_filesz(endian).into());
        let at = address.checked_sub(start).filter(|at| *at < length)?;
        segment.p_offset(endian).into().checked_add(at)
    });
    let strings = in_file.filter(|_| size <= MAX_STRINGS).and_then(|at| data.read_bytes_at(at, size).ok());
    let strings = strings.ok_or("its strings cannot be read")?;
    let string = |at: u64| {
        let from = usize::try_from(at).ok().and_then(|at| strings.get(at..))?;
        Some(&from[..from.iter().position(|byte| *byte == 0)?])
    };
    for (tag, value) in dynamic {
        let list = match tag {
            elf::DT_RPATH | elf::DT_RUNPATH => &mut linked.directories,
            elf::DT_NEEDED | elf::DT_AUDIT | elf::DT_DEPAUDIT | elf::DT_AUXILIARY | elf::DT_FILTER => {
                &mut linked.libraries
            }
            _ => continue,
        };
        let text = string(value).ok_or("it has an invalid string")?;
        // An empty part is the working directory; an empty list is no part.
        if !text.is_empty() {
            list.extend(text.split(|byte| *byte == b':').map(<[u8]>::to_owned));
        }
    }
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// An ELF file of 64 bits with these entries, and a loader unless it is empty.
    fn elf(loader: &str, entries: &[(elf::DynamicTag, &str)]) -> Vec<u8> {
        let (mut strings, mut dynamic) = (vec![0], Vec::new());
        for (tag, text) in entries {
            dynamic.push((tag.0.cast_unsigned(), strings.len() as u64));
            strings.extend([text.as_bytes(), &[0]].concat());
        }
        let headers = 64 + 3 * 56;
        let (loader_at, loader) = (headers, [loader.as_bytes(), &[0]].concat());
        let strings_at = loader_at + loader.len() as u64;
        dynamic.extend([
            (elf::DT_STRTAB.0.cast_unsigned(), 0x1000 + strings_at),
            (elf::DT_STRSZ.0.cast_unsigned(), strings.len() as u64),
            (0, 0),
        ]);
        let dynamic: Vec<u8> =
            dynamic.iter().flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()].concat()).collect();
        let dynamic_at = (strings_at + strings.len() as u64).next_multiple_of(8);
        let length = dynamic_at + dynamic.len() as u64;
        let mut file = [&elf::ELFMAG[..], &[2, 1, 1, 0], &[0; 8]].concat();
        file.extend([[3, 0, 62, 0], [1, 0, 0, 0]].concat());
        for word in [0, 64, 0_u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0_u32.to_le_bytes());
        for half in [64, 56, 3, 64, 0, 0_u16] {
            file.extend(half.to_le_bytes());
        }
        let segments = [
            (1, 0, length),
            (if loader.len() > 1 { 3 } else { 0 }, loader_at, loader.len() as u64),
            (2, dynamic_at, dynamic.len() as u64),
        ];
        for (kind, at, size) in segments {
            file.extend([kind, 4_u32].map(u32::to_le_bytes).concat());
            for word in [at, 0x1000 + at, 0x1000 + at, size, size, 8] {
                file.extend(word.to_le_bytes());
            }
        }
        file.extend(loader);
        file.extend(strings);
        file.resize(usize::try_from(dynamic_at).unwrap(), 0);
        file.extend(dynamic);
        file
    }

    #[test]
    fn code_that_a_program_loads_must_be_out_of_reach() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["bin", "lib", "work"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let text = |name: &str| root.join(name).into_os_string().into_string().unwrap();
        let (lib, work) = (text("lib"), text("work"));
        fs::write(root.join("lib/libplain.so"), elf("", &[])).unwrap();
        fs::write(root.join("lib/libbad.so"), elf("", &[(elf::DT_RUNPATH, &work)])).unwrap();
        std::os::unix::fs::symlink(root.join("work/later.so"), root.join("lib/liblinked.so")).unwrap();
        fs::write(root.join("work/later.so"), "").unwrap();
        let reach = Reach::new(vec![root.join("work")]);
        let leaves = |loader: &str, entries: &[(elf::DynamicTag, &str)]| {
            fs::write(root.join("bin/tool"), elf(loader, entries)).unwrap();
            objection(&root.join("bin/tool"), &reach)
        };
        let (needed, runpath, rpath) = (elf::DT_NEEDED, elf::DT_RUNPATH, elf::DT_RPATH);
        let loader = "/lib64/ld-linux-x86-64.so.2";
        for entries in [
            vec![],
            vec![(needed, "libc.so.6")],
            vec![(needed, "libplain.so"), (runpath, &lib)],
            vec![(needed, "libplain.so"), (runpath, "$ORIGIN/../lib:${ORIGIN}"), (rpath, "")],
            vec![(runpath, "/none/such")],
        ] {
            assert_eq!(leaves(loader, &entries), None, "{entries:?}");
        }
        let below = format!("{work}/none/such");
        let empty_part = format!("{lib}:");
        let slash = format!("{work}/x.so");
        for entries in [
            vec![(runpath, &*work)],
            vec![(rpath, &below)],
            vec![(runpath, &empty_part)],
            vec![(runpath, "lib")],
            vec![(runpath, "$ORIGIN/../work")],
            vec![(runpath, "/usr/$LIB")],
            vec![(runpath, "$ORIGINAL")],
            vec![(needed, &slash)],
            vec![(needed, "./x.so")],
            vec![(elf::DT_AUDIT, &slash)],
            vec![(needed, "libbad.so"), (runpath, &lib)],
            vec![(needed, "liblinked.so"), (runpath, &lib)],
        ] {
            assert!(leaves(loader, &entries).is_some(), "{entries:?}");
        }
        assert!(leaves(&slash, &[]).is_some_and(|why| why.contains("x.so")));
        let whole = elf(loader, &[(runpath, &lib)]);
        for length in [4, 20, 100, whole.len() - 1] {
            fs::write(root.join("bin/tool"), &whole[..length]).unwrap();
            assert!(objection(&root.join("bin/tool"), &reach).is_some(), "{length} bytes of it");
        }
        fs::write(root.join("bin/tool"), "#!/bin/sh\n").unwrap();
        assert_eq!(objection(&root.join("bin/tool"), &reach), None);
        assert!(objection(&root.join("bin/none"), &reach).is_some());
        // What is really there.
        assert_eq!(objection(&Path::new("/bin/sh").canonicalize().unwrap(), &reach), None);
    }
}
