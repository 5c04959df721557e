// The small modules at the edge: money, streams, long seeds, WAV files, snippets, input methods, problems.
import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { isComposing } from '../src/lib/composing.ts'
import { readJson, writeJson } from 'tenuto/json.ts'
import { problemOf } from '../src/lib/http.ts'
import { micros, typedMicros, yuan } from '../src/lib/money.ts'
import { formsOf, pythonWithKey, quoted, snippetOf, type Work } from '../src/lib/snippets.ts'
import { EventReader } from 'tenuto/sse.ts'
import { readWav, toFloat32, toInt16, writeWav } from '../src/lib/wav.ts'

describe('money', () => {
  it('is never a float', () => {
    expect(micros('9007199254740.993001')).toBe(9007199254740993001n)
    expect(micros('-0.000133')).toBe(-133n)
    expect(() => micros('1.5')).toThrow(RangeError)
  })

  it('is shown to the micro and no further', () => {
    expect([50_000n, 133n, -50_000n, 1_234_567_890_000n].map((one) => yuan(one))).toEqual(['¥0.05', '¥0.000133', '−¥0.05', '¥1,234,567.89'])
    expect([yuan(1n, true), yuan(0n, true)]).toEqual(['+¥0.000001', '¥0.00'])
  })

  it('is read as people type it', () => {
    expect(['10', ' 0.5', '-2.000001', '+1'].map(typedMicros)).toEqual([10_000_000n, 500_000n, -2_000_001n, 1_000_000n])
    expect(['', '1,5', '1.0000001', 'x', '--1'].map(typedMicros)).toEqual([null, null, null, null, null])
  })
})

describe('streams', () => {
  it('give whole events, wherever they were cut', () => {
    const whole = 'data: {"a": 1}\n\n: comment\n\ndata: x\ndata: y\n\ndata: [DONE]\n\n'
    for (let size = 1; size <= whole.length; size++) {
      const reader = new EventReader()
      const events: string[] = []
      for (let at = 0; at < whole.length; at += size) events.push(...reader.take(whole.slice(at, at + size)).map((event) => event.data))

      expect(events).toEqual(['{"a": 1}', 'x\ny', '[DONE]'])
    }
  })
})

describe('long seeds', () => {
  it('keep all their digits both ways', () => {
    const text = '{"metadata":{"seed": 9223372036854775807,"width":512}}'

    expect(readJson(text)).toEqual({ metadata: { seed: '9223372036854775807', width: 512 } })
    expect(writeJson({ parameters: { seed: '9223372036854775807' } })).toBe('{"parameters":{"seed":9223372036854775807}}')
  })

  it('keep them in a request that is shown', () => {
    const request = '{\n  "parameters": {\n    "seed": 9223372036854775807\n  },\n  "metadata": {\n    "seed": "9223372036854775807"\n  }\n}'

    expect(writeJson(readJson(request), 2)).toBe(request)
  })

  it('are not seen in texts', () => {
    const value = { prompt: '"seed":"12345678901234567" "seed": 12345678901234567' }

    expect(readJson(writeJson(value))).toEqual(value)
  })
})

describe('WAV', () => {
  it('comes back as it was written, and through floats too', () => {
    const samples = Int16Array.from({ length: 65536 }, (_, i) => i - 32768)
    const read = readWav(writeWav(samples, 44100).buffer)

    expect([read?.rate, read?.channels]).toEqual([44100, 1])
    expect(read?.samples).toEqual(samples)
    expect(toInt16(toFloat32(samples))).toEqual(samples)
    expect([...toInt16(Float32Array.of(-2, 2))]).toEqual([-32768, 32767])
  })

  it('is found behind other chunks, and nothing else is taken for one', () => {
    const plain = writeWav(Int16Array.of(1, 2), 8000)
    const list = Buffer.concat([plain.slice(0, 12), Buffer.from('LIST\x03\0\0\0abc\0', 'latin1'), plain.slice(12)])

    expect(readWav(new Uint8Array(list).buffer)?.samples).toEqual(Int16Array.of(1, 2))
    expect(readWav(new ArrayBuffer(0))).toBeNull()
    expect(readWav(new TextEncoder().encode('fLaC, and no WAV at all').buffer as ArrayBuffer)).toBeNull()
  })
})

describe('snippets', () => {
  it('say the very body, whatever quotes stand in it', () => {
    const body = `{"text":"it's 5 o'clock; $HOME \`x\` \\"y\\""}`

    expect(execFileSync('sh', ['-c', `printf %s ${quoted(body)}`], { encoding: 'utf-8' })).toBe(body)
  })

  it('write every value as their language does', () => {
    const seeded: Work = { kind: 'image', model: 'm', parameters: { prompt: "it's", seed: '9223372036854775807' } }
    const spoken: Work = { kind: 'speech', model: 'm', parameters: { text: '-5', use_random: true, voice_id: 'v', emo_vector: [0, 1] } }

    expect(snippetOf('curl', 'http://h', seeded)).toContain(`"prompt":"it'\\''s","seed":9223372036854775807}`)
    expect(snippetOf('cli', 'http://h', seeded)).toContain(`--param 'seed=9223372036854775807'`)
    expect(snippetOf('python', 'http://h', seeded)).toContain('seed=9223372036854775807,')
    expect(snippetOf('javascript', 'http://h', seeded)).toContain('\\"seed\\":9223372036854775807')
    expect(snippetOf('python', 'http://h', spoken)).toContain('use_random=True,')
    expect(snippetOf('cli', 'http://h', spoken)).toContain(`--param 'emo_vector=[0,1]'`)
  })

  it('offer what can do the work: a command has no earlier turns; openai-python transcribes a file', () => {
    const said = { role: 'user', content: 'a' }
    const chat = (messages: object[]): Work => ({ kind: 'chat', model: 'm', parameters: { messages } })

    expect(formsOf(chat([said]))).toEqual(['curl', 'cli', 'python', 'openai', 'javascript'])
    expect(formsOf(chat([said, { role: 'assistant', content: 'b' }, said]))).not.toContain('cli')
    const code = snippetOf('openai', 'http://h', { kind: 'recognition', model: 'm', parameters: { hotwords: ['a'] }, file: 'a "b".mp3' })
    expect(code).toContain('client.audio.transcriptions.create(\n    file=open("a \\"b\\".mp3", "rb"),\n    model="m",\n    language="zh",\n    extra_body={"keywords": ["a"]},\n)')
  })

  it('are Python that compiles', () => {
    const code = pythonWithKey('http://127.0.0.1:8080', 'tn_x', 'hexgrad/Kokoro-82M', '你好，"世界"\\')

    expect(() => execFileSync('python3', ['-c', 'import ast, sys; ast.parse(sys.stdin.read())'], { input: code })).not.toThrow()
  })
})

describe('input methods', () => {
  it('keep their Enter', () => {
    expect(isComposing({ isComposing: true, keyCode: 13 })).toBe(true)
    expect(isComposing({ isComposing: false, keyCode: 229 })).toBe(true)
    expect(isComposing({ isComposing: false, keyCode: 13 })).toBe(false)
  })
})

describe('problems', () => {
  it('are what the service says, or that it made no sense', () => {
    const headers = { get: (name: string) => (name === 'Retry-After' ? '7' : null) }
    const text = '{"error":{"code":"rate_limited","message":"m","request_id":"req_1","details":[]}}'
    const [said, garbled] = [problemOf(429, headers, text), problemOf(502, headers, '<html>')]

    expect([said.code, said.requestId, said.retryAfterS]).toEqual(['rate_limited', 'req_1', 7])
    expect([garbled.code, garbled.message]).toEqual(['http_502', 'the service answered 502'])
  })
})
