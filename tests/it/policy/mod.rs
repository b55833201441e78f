//! Rules and command lines: the table, what bash really runs, what a second parser finds, and the page that explains it.
mod differential;
mod grammar;
mod oracle;
mod page;
mod phrases;
mod table;
