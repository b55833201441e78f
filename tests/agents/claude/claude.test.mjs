// The hook with the real Claude Code: install writes the settings, Claude Code calls the hook, and the limit waits for
// the person.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startModel } from './mock.mjs'

const pausewatch = process.env.PAUSEWATCH_PROGRAM
const claude = process.env.CLAUDE_PROGRAM
assert.ok(pausewatch && claude, 'start this by ./test')

const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'pausewatch-claude-test-')))
after(() => rmSync(scratch, { recursive: true, force: true }))
let places = 0

/** A home with or without the installed hook, and a working directory. */
function place({ hook = true } = {}) {
  const home = join(scratch, `${++places}`)
  const work = join(home, 'work')
  mkdirSync(join(home, 'run'), { recursive: true, mode: 0o700 })
  mkdirSync(work)
  const env = { PATH: process.env.PATH, HOME: home, XDG_RUNTIME_DIR: join(home, 'run'), LC_ALL: 'C.UTF-8' }
  if (hook) execFileSync(pausewatch, ['hook', 'claude', 'install'], { env })
  return { home, work, env }
}

/** Runs one conversation with these Bash calls; returns the result and the duration of each, in seconds. */
async function converse({ work, env }, inputs, { allowed = ['Bash'], settings, during } = {}) {
  const model = await startModel(inputs)
  const options = settings ? ['--settings', JSON.stringify(settings)] : []
  const started = performance.now()
  const child = spawn(claude, ['-p', 'go', ...options, ...(allowed.length ? ['--allowedTools', ...allowed] : [])], {
    cwd: work,
    env: {
      ...env,
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_API_KEY: 'none',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  child.stdout.on('data', text => (said += text))
  child.stderr.on('data', text => (said += text))
  const ended = new Promise(resolve => child.on('close', resolve))
  try {
    await during?.()
    assert.equal(await ended, 0, said)
  } finally {
    child.kill('SIGKILL')
    model.stop()
  }
  assert.equal(model.results.length, inputs.length, said)
  return Object.assign(model.results, { seconds: (performance.now() - started) / 1000 })
}

/** Quotes a path as the hook quotes its own. */
function quoted(path) {
  return /^[\w/.+@%-]*$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`
}

/** A hold with a person who answers when the file `answer` exists. The file `asked` exists once the person is asked. */
const question = `${quoted(pausewatch)} hold --reason 'Push?' -- sh -c 'touch asked; until [ -e answer ]; do sleep 0.1; done'`

/** The processes that run the clocks of this home. */
function clocksOf(home) {
  const read = (id, name) => {
    try {
      return readFileSync(`/proc/${id}/${name}`, 'utf8')
    } catch {
      return '' // It has ended, or is another user's.
    }
  }
  const ids = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  const clocks = ids.filter(id => read(id, 'cmdline').includes('\0hook\0claude\0clock-watch\0'))
  return clocks.filter(id => read(id, 'environ').includes(`HOME=${home}\0`)).map(Number)
}

/** Waits. The deadline ends a test that hangs; a slow machine does not reach it. */
async function until(found) {
  const end = performance.now() + 180_000
  while (!found()) {
    assert.ok(performance.now() < end, `180 s without this: ${found}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

test('this is the version of Claude Code that the documentation names', () => {
  const version = execFileSync(claude, ['--version'], { encoding: 'utf8' })
  assert.match(version, /^2\.1\.330 /)
})

/** A coordinator, and its commands about the thread of a place. */
async function startCoordinator(here) {
  const serve = ['serve', '--listen', '127.0.0.1:0', '--store', 'memory']
  const coordinator = spawn(pausewatch, serve, { stdio: ['ignore', 'pipe', 'ignore'] })
  const line = await new Promise(resolve => coordinator.stdout.once('data', text => resolve(String(text))))
  here.env.PAUSEWATCH_ADDRESS = line.replace('listening ', '').trim()
  here.env.PAUSEWATCH_THREAD_ID = 't'
  const call = (...args) => execFileSync(pausewatch, args, { env: here.env, encoding: 'utf8' })
  return { call, stop: () => coordinator.kill('SIGKILL') }
}

/** Lets a question take longer than the limit of a command, which then runs `then`; returns the result. */
async function outlast(here, limit, then, whenAsked) {
  const results = await converse(here, [{ command: `${question}; ${then}`, timeout: limit }], {
    during: async () => {
      await until(() => existsSync(join(here.work, 'asked')))
      whenAsked()
      // Real time is tested.
      await new Promise(resolve => setTimeout(resolve, limit + 1000))
      writeFileSync(join(here.work, 'answer'), '')
    },
  })
  return results[0]
}

// The test pauses the thread until the command asks, so that a slow start does not use up the limit.
for (const [what, limit, then, expected] of [
  ['finishes with what was left', 12_000, 'echo finished', { text: /^finished$/, isError: false }],
  ['is ended if it hangs then', 2000, 'exec sleep 1000', { text: /the command timed out after 2\.0s/, isError: true }],
]) {
  test(`a command whose question outlasts its limit ${what}`, async () => {
    const here = place()
    const coordinator = await startCoordinator(here)
    try {
      const pause = coordinator.call('increment', '--ttl', '1h').trim()
      const result = await outlast(here, limit, then, () => coordinator.call('decrement', pause))
      assert.match(result.text, expected.text)
      assert.equal(result.isError, expected.isError)
    } finally {
      coordinator.stop()
    }
  })
}

test('without a configured coordinator, a question that outlasts the limit does not end the command', async () => {
  const result = await outlast(place(), 20_000, 'echo finished', () => {})
  assert.deepEqual(result, { text: 'finished', isError: false })
})

test('a command that hangs is ended at its limit', async () => {
  const results = await converse(place(), [{ command: 'echo started; sleep 1000', timeout: 2000 }])
  assert.match(results[0].text, /the command timed out after 2\.0s/)
  assert.ok(results[0].isError)
})

test('directory, exit codes and output are those of Claude Code without the hook', async () => {
  const inputs = [
    { command: 'mkdir -p sub && cd sub' },
    { command: 'pwd; echo error >&2; exit 3' },
    { command: 'f() { return 4; }; f' },
    { command: 'jobs; sleep 0 & wait; cat <<E\n"$HOME"\nE' },
    { command: 'echo background', run_in_background: true },
  ]
  const told = await Promise.all([place(), place({ hook: false })].map(async here => {
    const results = await converse(here, inputs)
    const same = text => text.replaceAll(here.home, 'HOME').replace(/ID: \w+|[\w/.-]+\.output/g, 'ID')
    return results.map(({ text, isError }) => ({ text: same(text), isError }))
  }))
  assert.deepEqual(told[0], told[1])
  assert.match(told[0][1].text, /HOME\/work\/sub/)
})

test('without a rule, the same commands need a permission as without the hook', async () => {
  const inputs = [
    { command: 'ls' },
    { command: '# comment\npwd && echo x' },
    { command: 'echo a > f' },
    { command: '(ls)' },
    { command: 'ln -s a b' },
    { command: 'cat /etc/hostname' },
  ]
  const [withHook, without] = await Promise.all([place(), place({ hook: false })].map(async here => {
    const results = await converse(here, inputs, { allowed: [] })
    return results.map(({ text, isError }) => isError || text.replaceAll(here.home, 'HOME'))
  }))
  assert.deepEqual(withHook, without)
  assert.deepEqual(without.map(result => result === true), [false, false, true, true, true, true])
})

test('permission rules see the command itself', async () => {
  const here = place()
  const inputs = [{ command: 'git --version' }, { command: 'git --version && ln -s a b' }, { command: 'npm root' }]
  const narrow = await converse(here, inputs, { allowed: ['Bash(git *)'] })
  assert.match(narrow[0].text, /^git version/)
  assert.match(narrow[1].text, /requires? approval/)
  assert.match(narrow[1].text, /ln -s a b/)
  assert.match(narrow[2].text, /requires? approval/)
  const exact = await converse(here, [{ command: 'npm root' }, { command: 'npm prefix' }], {
    allowed: ['Bash(npm root)'],
  })
  assert.deepEqual(exact.map(result => result.isError), [false, true])
  const denied = await converse(here, [{ command: 'git --version' }], { settings: { permissions: { deny: ['Bash(git *)'] } } })
  assert.match(denied[0].text, /denied/)
  // The installed rule allows only the clock.
  const clock = `${quoted(pausewatch)} hook claude clock 5s`
  const more = await converse(here, [{ command: `${clock}; ln -s a b` }, { command: `${clock} $(ln -s a b)` }], { allowed: [] })
  assert.deepEqual(more.map(result => result.isError), [true, true])
})

test('a killed clock ends its command and leaves nothing paused', async () => {
  const here = place()
  const coordinator = await startCoordinator(here)
  try {
    const command = `${question.replace(' hold ', ' hold --ttl 1s ')}; echo never`
    const results = await converse(here, [{ command, timeout: 600_000 }], {
      during: async () => {
        await until(() => existsSync(join(here.work, 'asked')))
        const clocks = clocksOf(here.home)
        assert.equal(clocks.length, 1)
        process.kill(clocks[0], 'SIGKILL')
      },
    })
    assert.match(results[0].text, /the clock was killed, so the command is ended too/)
    await until(() => coordinator.call('get').startsWith('t: running'))
  } finally {
    coordinator.stop()
  }
})

test('uninstall leaves the settings as they were', async () => {
  const here = place({ hook: false })
  const file = join(here.home, '.claude', 'settings.json')
  mkdirSync(join(here.home, '.claude'))
  const before = '{\n  "includeCoAuthoredBy": false\n}\n'
  writeFileSync(file, before)
  execFileSync(pausewatch, ['hook', 'claude', 'install'], { env: here.env })
  assert.notEqual(readFileSync(file, 'utf8'), before)
  execFileSync(pausewatch, ['hook', 'claude', 'uninstall'], { env: here.env })
  assert.equal(readFileSync(file, 'utf8'), before)
})
