//! Rules and command lines: the table, what bash really runs, and the page that explains it.
mod grammar;
mod oracle;
mod page;
mod phrases;
mod table;
