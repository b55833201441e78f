//! Columns of text, as wide as they must be, or as the terminal allows.
//!
//! 1. Every cell is one line of escaped text; what is cut ends with an ellipsis.
//! 2. Nothing is cut unless a width is given: output into a file or a pipe is whole.
use std::io::IsTerminal;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Between columns.
const GAP: &str = "  ";

/// How wide the terminal on standard output is; `None`: it is none, or does not say.
pub(crate) fn terminal_width() -> Option<usize> {
    let out = std::io::stdout();
    let size = rustix::termios::tcgetwinsize(&out).ok().filter(|_| out.is_terminal())?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The header and the rows, one a line, columns aligned.
pub(crate) fn render<const N: usize>(header: [&str; N], rows: &[[String; N]], width: Option<usize>) -> String {
    let mut widths = header.map(UnicodeWidthStr::width);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    if let Some(most) = width {
        shrink(&mut widths, header.map(UnicodeWidthStr::width), most);
    }
    let mut text = line(&header, &widths);
    rows.iter().for_each(|row| text += &line(row, &widths));
    text
}

/// Takes from the widest column until the line fits, or every column is down to its header.
fn shrink<const N: usize>(widths: &mut [usize; N], least: [usize; N], most: usize) {
    let most = most.saturating_sub(GAP.len() * N.saturating_sub(1));
    while widths.iter().sum::<usize>() > most {
        let wider = (0..N).filter(|column| widths[*column] > least[*column]);
        let Some(widest) = wider.max_by_key(|column| widths[*column]) else { return };
        widths[widest] -= 1;
    }
}

fn line<S: AsRef<str>, const N: usize>(cells: &[S; N], widths: &[usize; N]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let cell = cut(cell.as_ref(), *width);
        line += &cell;
        line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
        line += GAP;
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

fn cut(cell: &str, most: usize) -> String {
    if cell.width() <= most {
        return cell.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= most
    };
    cell.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> [[String; 3]; 2] {
        [["a", "1", "請求書を送りますか?"], ["thread-b", "12", "Send?"]].map(|row| row.map(str::to_owned))
    }

    #[test]
    fn columns_are_aligned_by_what_the_terminal_shows_and_whole_without_a_width() {
        let text = render(["THREAD", "N", "REASON"], &rows(), None);
        assert_eq!(text, "THREAD    N   REASON\na         1   請求書を送りますか?\nthread-b  12  Send?\n");
    }

    #[test]
    fn every_line_fits_the_terminal_down_to_the_headers() {
        for most in 17..40 {
            let text = render(["THREAD", "N", "REASON"], &rows(), Some(most));
            assert!(text.lines().all(|line| line.width() <= most), "{most}:\n{text}");
            assert_eq!(text.contains('…'), most < 33, "{most}:\n{text}");
        }
        let text = render(["THREAD", "N", "REASON"], &rows(), Some(3));
        assert!(text.starts_with("THREAD  N  REASON\n"), "{text}");
    }
}
