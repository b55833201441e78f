//! The examples of `docs/policy.md`.
use super::table::outcome;
use pausewatch::exec::policy::Rules;

#[test]
fn the_page_shows_what_happens() {
    let page = include_str!("../../../docs/policy.md");
    let file = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the rules");
    let rules = Rules::parse("docs/policy.md", file).expect("the page's rules load");
    let table = page.split("With the rules above:").nth(1).expect("the table");
    let rows = table.lines().skip_while(|row| !row.starts_with("| `")).take_while(|row| row.starts_with("| `"));
    let mut count = 0;
    for row in rows {
        let row = row.replace("\\|", "\u{1}");
        let cells: Vec<_> = row.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let judgement = rules.judge(cells[1].trim_matches('`'));
        assert_eq!(outcome(&judgement), cells[2], "{}: {judgement:?}", cells[1]);
        count += 1;
    }
    assert_eq!(count, 15);
}
