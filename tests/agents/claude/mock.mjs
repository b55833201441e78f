// A fake model on loopback with the Messages API: it calls Bash with the inputs of the test, one after another, and
// then answers "done". It keeps the result of every call.
import { createServer } from 'node:http'

/** Starts it. `inputs`: the input of each Bash call of the conversation. */
export async function startModel(inputs) {
  const results = []
  const server = createServer(async (request, response) => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    if (request.method !== 'POST' || !request.url.startsWith('/v1/messages')) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"type":"error","error":{"type":"not_found_error","message":"mock"}}')
      return
    }
    const body = JSON.parse(Buffer.concat(chunks).toString())
    if (request.url.includes('count_tokens')) {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"input_tokens":1}')
      return
    }
    // Requests without the tool are for something else, such as a title of the conversation.
    const ours = (body.tools ?? []).some(tool => tool.name === 'Bash')
    const found = ours ? resultsIn(body.messages) : []
    if (found.length > results.length) results.push(...found.slice(results.length))
    const block = ours && found.length < inputs.length ? toolUse(found.length, inputs[found.length]) : { type: 'text', text: 'done' }
    send(response, body, block)
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    results,
    stop: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** The results of tool calls in a conversation, each with its text. */
function resultsIn(messages) {
  const blocks = messages.flatMap(message => (Array.isArray(message.content) ? message.content : []))
  const results = blocks.filter(block => block.type === 'tool_result')
  const text = content => (typeof content === 'string' ? content : (content ?? []).map(part => part.text ?? '').join(''))
  return results.map(result => ({ text: text(result.content), isError: result.is_error === true }))
}

function toolUse(index, input) {
  return { type: 'tool_use', id: `toolu_${index}`, name: 'Bash', input }
}

function send(response, { model, stream }, block) {
  const reason = block.type === 'tool_use' ? 'tool_use' : 'end_turn'
  const usage = { input_tokens: 1, output_tokens: 1 }
  const message = { id: 'msg_mock', type: 'message', role: 'assistant', model, stop_sequence: null, usage }
  if (!stream) {
    const whole = { ...message, content: [block], stop_reason: reason }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole))
    return
  }
  const start = block.type === 'tool_use' ? { ...block, input: {} } : { type: 'text', text: '' }
  const delta = block.type === 'tool_use'
    ? { type: 'input_json_delta', partial_json: JSON.stringify(block.input) }
    : { type: 'text_delta', text: block.text }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const event of [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
    { type: 'content_block_start', index: 0, content_block: start },
    { type: 'content_block_delta', index: 0, delta },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ]) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  response.end()
}
