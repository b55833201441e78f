//! `pausewatch history`: the pauses that have ended, as the coordinator or an audit trail has them.
//!
//! 1. Missing data is reported: invalid lines of a trail, pauses that the trail has only in part, older pauses that are
//!    not shown. The reports go to standard error, so that standard output stays valid JSON.
mod args;
mod audit;
mod files;
mod summary;
mod text;
mod time;
mod trail;

pub(crate) use args::Args;
pub use audit::Replay;

use super::failure::{self, Failure};
use super::{call, exit, format, output, table};
use crate::client::{Address, Client, ListPausesRequest, ListPausesResponse};
use std::process::ExitCode;
use summary::Summary;

/// The largest page that the server sends.
const PAGE_SIZE: i32 = 1_000;

pub(crate) fn run(args: Args) -> ExitCode {
    if let Some(why) = args.nothing_in_between() {
        failure::say("history", why);
        return ExitCode::from(exit::USAGE);
    }
    if !args.audit.is_empty() {
        let result = output::check_open().and_then(|()| trail::run(&args));
        return match result {
            Ok(false) => ExitCode::from(exit::FAILED),
            result => failure::exit_code("history", &Address::default(), result.map(drop)),
        };
    }
    call::run("history", &args.connection, async |client, _| {
        let response = all_pages(&client, &args).await?;
        if args.summary {
            let mut summary = Summary::default();
            response.pauses.iter().for_each(|pause| summary.add(pause));
            return args.show_summary(summary);
        }
        args.output.show("ListPausesResponse", &response, |response| {
            let text = text::text(&response.pauses, table::terminal_width());
            let since = response.history_start_time.as_ref().map(format::short_local_time).unwrap_or_default();
            format!("{text}The coordinator has all pauses that ended since {since}.\n")
        })
    })
}

async fn all_pages(client: &Client, args: &Args) -> Result<ListPausesResponse, Failure> {
    let limit = args.limit.filter(|_| !args.summary).map_or(usize::MAX, |limit| limit as usize);
    let mut request = ListPausesRequest { page_size: PAGE_SIZE, ..args.filter() };
    let mut all = ListPausesResponse::default();
    loop {
        let page = client.list_pauses(request.clone()).await?;
        all.pauses.extend(page.pauses);
        all.history_start_time = page.history_start_time;
        if page.next_page_token.is_empty() || all.pauses.len() >= limit {
            all.pauses.truncate(limit);
            return Ok(all);
        }
        request.page_token = page.next_page_token;
    }
}
