//! Idle players for the next case: to start one may take as long as a case.
use crate::{clients::Clients, player::Player};
use std::{collections::HashMap, sync::Arc};

/// The idle players of one of the cases that run at once.
pub(crate) struct Pool {
    clients: Arc<Clients>,
    idle: HashMap<String, Vec<Player>>,
    verbose: bool,
}

impl Pool {
    pub(crate) fn new(clients: Arc<Clients>, verbose: bool) -> Self {
        Pool { clients, idle: HashMap::new(), verbose }
    }

    pub(crate) fn take(&mut self, client: &str) -> Result<Player, String> {
        match self.idle.get_mut(client).and_then(Vec::pop) {
            Some(player) => Ok(player),
            None => Player::start(client, self.clients.command(client)?, self.verbose),
        }
    }

    /// Returns a player that was reset.
    pub(crate) fn give_back(&mut self, player: Player) {
        self.idle.entry(player.client().to_owned()).or_default().push(player);
    }
}
