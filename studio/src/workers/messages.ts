// What the page and its worker say to each other.

export type Asked = { kind: 'encode'; samples: Float32Array; rate: number } | { kind: 'hash'; file: Blob }
export type Told =
  | { kind: 'progress'; done: number; total: number }
  | { kind: 'done'; file: Blob; sha256: string }
  | { kind: 'failed'; message: string }
