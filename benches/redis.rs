//! Redis, with its protocol written by hand (RESP2): a script keeps the counter, which never falls below 0, and
//! publishes when a thread pauses or resumes; a watch is a connection that subscribes to the channels of its threads.
//!
//! Calls of many callers share a connection: waiting commands are written at once, and answers arrive in order.
use crate::result::Result;
use crate::sink::Sink;
use crate::threads;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};

const SCRIPT: &str = "
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if ARGV[1] == '1' then
  count = redis.call('INCR', KEYS[1])
  if count == 1 then redis.call('PUBLISH', KEYS[1], '1') end
elseif count > 0 then
  count = redis.call('DECR', KEYS[1])
  if count == 0 then redis.call('PUBLISH', KEYS[1], '0') end
end
return count";

/// The maximum number of commands that are written at once.
const GATHERED: usize = 1_024;

type Answer = oneshot::Sender<Result<Reply>>;

#[derive(Clone)]
pub(crate) struct Link {
    address: String,
    commands: mpsc::UnboundedSender<(Vec<u8>, Answer)>,
    script: Arc<str>,
}

/// The part of RESP2 that occurs in these answers.
enum Reply {
    Number(u64),
    Text(Vec<u8>),
    List(Vec<Reply>),
}

impl Link {
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let (reader, mut writer) = open(address).await?;
        let (commands, mut waiting) = mpsc::unbounded_channel::<(Vec<u8>, Answer)>();
        let unanswered = Arc::<Mutex<VecDeque<Answer>>>::default();
        tokio::spawn(answer(reader, unanswered.clone()));
        tokio::spawn(async move {
            let mut gathered = Vec::new();
            while waiting.recv_many(&mut gathered, GATHERED).await > 0 {
                let mut bytes = Vec::new();
                for (command, answer) in gathered.drain(..) {
                    bytes.extend(command);
                    lock(&unanswered).push_back(answer);
                }
                if writer.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        });
        let mut link = Link { address: address.to_owned(), commands, script: "".into() };
        let Reply::Text(script) = link.send(&["SCRIPT", "LOAD", SCRIPT]).await? else {
            return Err("SCRIPT LOAD answers no text".into());
        };
        link.script = String::from_utf8(script)?.into();
        Ok(link)
    }

    async fn send(&self, words: &[&str]) -> Result<Reply> {
        let (answer, answered) = oneshot::channel();
        self.commands.send((command(words.iter().copied()), answer)).map_err(|_| "the connection is closed")?;
        answered.await?
    }

    pub(crate) async fn call(&mut self, thread: &str, up: bool) -> Result<u64> {
        match self.send(&["EVALSHA", &self.script, "1", thread, if up { "1" } else { "-1" }]).await? {
            Reply::Number(count) => Ok(count),
            _ => Err("the script answers no number".into()),
        }
    }

    pub(crate) async fn watch(&self, threads: Range<usize>, sink: Sink) -> Result<()> {
        let (mut reader, mut writer) = open(&self.address).await?;
        let ids: Vec<String> = threads.map(threads::id).collect();
        writer.write_all(&command(["SUBSCRIBE"].into_iter().chain(ids.iter().map(String::as_str)))).await?;
        for _ in &ids {
            let Reply::List(_) = read(&mut reader).await? else { return Err("SUBSCRIBE answers no list".into()) };
        }
        tokio::spawn(async move {
            let _writer = writer;
            while let Ok(Reply::List(message)) = read(&mut reader).await {
                if let [_, Reply::Text(channel), Reply::Text(text)] = &message[..]
                    && let Some(number) = threads::number(channel)
                {
                    sink(number, text == b"1");
                }
            }
        });
        Ok(())
    }
}

fn lock(unanswered: &Mutex<VecDeque<Answer>>) -> std::sync::MutexGuard<'_, VecDeque<Answer>> {
    unanswered.lock().expect("nothing panics while it holds the queue")
}

async fn open(address: &str) -> Result<(BufReader<OwnedReadHalf>, tokio::net::tcp::OwnedWriteHalf)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    Ok((BufReader::new(reader), writer))
}

/// Delivers each answer to its caller. Ends with the connection; callers that still wait then get an error.
async fn answer(mut reader: BufReader<OwnedReadHalf>, unanswered: Arc<Mutex<VecDeque<Answer>>>) {
    loop {
        let reply = read(&mut reader).await;
        let ended = reply.is_err();
        if let Some(answer) = lock(&unanswered).pop_front() {
            let _ = answer.send(reply);
        }
        if ended {
            return lock(&unanswered).clear();
        }
    }
}

fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let (mut count, mut bytes) = (0, Vec::new());
    for word in words {
        count += 1;
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    [format!("*{count}\r\n").into_bytes(), bytes].concat()
}

async fn read(reader: &mut BufReader<OwnedReadHalf>) -> Result<Reply> {
    let (kind, rest) = read_line(reader).await?;
    match kind {
        b'*' => {
            let mut list = Vec::new();
            for _ in 0..rest.parse()? {
                list.push(read_flat(reader).await?);
            }
            Ok(Reply::List(list))
        }
        kind => finish_flat(kind, &rest, reader).await,
    }
}

/// Reads a reply that is not a list: here, lists contain no lists.
async fn read_flat(reader: &mut BufReader<OwnedReadHalf>) -> Result<Reply> {
    let (kind, rest) = read_line(reader).await?;
    finish_flat(kind, &rest, reader).await
}

async fn finish_flat(kind: u8, rest: &str, reader: &mut BufReader<OwnedReadHalf>) -> Result<Reply> {
    match kind {
        b':' => Ok(Reply::Number(rest.parse()?)),
        b'+' => Ok(Reply::Text(rest.as_bytes().to_vec())),
        b'$' => {
            let mut text = vec![0; rest.parse::<usize>()? + 2];
            reader.read_exact(&mut text).await?;
            text.truncate(text.len() - 2);
            Ok(Reply::Text(text))
        }
        _ => Err(format!("redis: {rest}").into()),
    }
}

/// The first byte of a line, which is its type, and the rest.
async fn read_line(reader: &mut BufReader<OwnedReadHalf>) -> Result<(u8, String)> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).await?;
    let line = line.strip_suffix(b"\r\n").ok_or("the connection was closed")?;
    let (&kind, rest) = line.split_first().ok_or("an empty line")?;
    Ok((kind, std::str::from_utf8(rest)?.to_owned()))
}
