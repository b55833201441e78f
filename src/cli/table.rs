//! Tables of text: columns as wide as their widest cell, or as the terminal allows.
//!
//! 1. Every cell is one line of escaped text; a cell that is cut ends with an ellipsis.
//! 2. Without a width nothing is cut: a table in a file or a pipe is complete.
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const GAP: &str = "  ";

/// The number of columns of the terminal on standard output; `None` if it is no terminal, or does not report its size.
pub(crate) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The header and the rows, one per line.
pub(crate) fn render<const N: usize>(header: [&str; N], rows: &[[String; N]], width: Option<usize>) -> String {
    let least = header.map(UnicodeWidthStr::width);
    let mut widths =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].width()).fold(least[column], usize::max));
    if let Some(width) = width {
        shrink(&mut widths, least, width);
        // On a narrow terminal the headers are cut too.
        shrink(&mut widths, [1; N], width);
    }
    let header = header.map(str::to_owned);
    std::iter::once(&header).chain(rows).map(|cells| line(cells, &widths)).collect()
}

/// Narrows the widest column until the line fits, or no column is wider than its `least`.
fn shrink<const N: usize>(widths: &mut [usize; N], least: [usize; N], width: usize) {
    let available = width.saturating_sub(GAP.len() * N.saturating_sub(1));
    while widths.iter().sum::<usize>() > available {
        let wider = (0..N).filter(|column| widths[*column] > least[*column]);
        let Some(widest) = wider.max_by_key(|column| widths[*column]) else { return };
        widths[widest] -= 1;
    }
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, width)| {
        let cell = cut(cell, *width);
        let padding = width.saturating_sub(cell.width());
        cell + &" ".repeat(padding)
    });
    padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned() + "\n"
}

/// Cuts a cell to at most `width` columns. A cell that was cut ends with an ellipsis.
pub(crate) fn cut(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    let mut start: String = cell.chars().take_while(fits).collect();
    // Together, characters can be wider than each alone: ⚠ is one column, and two with the selector of its form as an emoji.
    while start.width() >= width.max(1) {
        start.pop();
    }
    start + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> [[String; 3]; 2] {
        [["a", "1", "請求書を送りますか?"], ["thread-b", "12", "Send?"]].map(|row| row.map(str::to_owned))
    }

    #[test]
    fn columns_are_aligned_by_display_width_and_not_cut_without_a_width() {
        let text = render(["THREAD", "N", "REASON"], &rows(), None);
        assert_eq!(text, "THREAD    N   REASON\na         1   請求書を送りますか?\nthread-b  12  Send?\n");
    }

    #[test]
    fn a_cell_of_emoji_is_cut_to_the_width_that_a_terminal_shows() {
        for width in 1..20 {
            let text = cut("⚠\u{fe0f}1\u{fe0f}\u{20e3} 👩\u{200d}💻 ⚠\u{fe0f}❤\u{fe0f} Delete the branch?", width);
            assert!(text.width() <= width && text.ends_with('…'), "{width}: {text}");
        }
    }

    #[test]
    fn every_line_fits_the_terminal_unless_it_has_no_room_for_a_character_of_each_column() {
        for width in 7..40 {
            let text = render(["THREAD", "N", "REASON"], &rows(), Some(width));
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
            assert_eq!(text.contains('…'), width < 33, "{width}:\n{text}");
        }
        let text = render(["THREAD", "N", "REASON"], &rows(), Some(12));
        assert!(text.starts_with("THR…  N  RE…\n"), "{text}");
        assert!(render(["THREAD", "N", "REASON"], &rows(), Some(3)).starts_with("…  N  …\n"));
    }
}
