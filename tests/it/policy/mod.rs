//! Rules and command lines: the table, and what bash really runs.
mod grammar;
mod oracle;
mod table;
