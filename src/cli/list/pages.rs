//! All pages of `ListPauseStates`.
use crate::client::{Client, Error, ListPauseStatesRequest, ListPauseStatesResponse};

/// The largest page that the server sends.
const PAGE_SIZE: i32 = 1_000;

/// The paused threads, and with `include_running` the other known ones, in the order of their ids.
pub(super) async fn all_pages(client: &Client, include_running: bool) -> Result<ListPauseStatesResponse, Error> {
    let mut all = ListPauseStatesResponse::default();
    let mut page_token = String::new();
    loop {
        let request = ListPauseStatesRequest { page_size: PAGE_SIZE, page_token, include_running };
        let page = client.list_pause_states(request).await?;
        all.pause_states.extend(page.pause_states);
        if page.next_page_token.is_empty() {
            return Ok(all);
        }
        page_token = page.next_page_token;
    }
}
