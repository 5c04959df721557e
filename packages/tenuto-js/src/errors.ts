// Every error of the package, in one tree. Knows the contract's statuses and codes, but not how an answer arrived.
import type { Operation } from './types.ts'

/** One problem with a request, as the service names it. */
export type Detail = { param: string; code: string; message: string }

type More = {
  status?: number
  param?: string | null
  requestId?: string | null
  cause?: unknown
  details?: readonly Detail[]
  retryAfterS?: number | null
  balance?: Balance | null
}
type Balance = { needed: string; available: string }

/** The root: catch it to catch everything that this package throws on purpose. Branch on `code` or the class. */
export class TenutoError extends Error {
  /** Stable, as `docs/errors.md` lists it. */
  readonly code: string
  /** Of the answer; 0 if there was none. */
  readonly status: number
  /** The first faulty field or header, if the service named one. */
  readonly param: string | null
  /** Identifies the request in the service's logs. */
  readonly requestId: string | null
  /** Every problem with the request, if the service refused it. */
  readonly details: readonly Detail[]
  /** Seconds to wait before sending the same request again, if the service gave them. */
  readonly retryAfterS: number | null
  /** What a job would hold and what the account has, in CNY; only if that is too little. */
  readonly balance: Balance | null

  constructor(message: string, code = 'client_error', more: More = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause })
    this.name = new.target.name
    this.code = code
    this.status = more.status ?? 0
    this.param = more.param ?? null
    this.requestId = more.requestId ?? null
    this.details = more.details ?? []
    this.retryAfterS = more.retryAfterS ?? null
    this.balance = more.balance ?? null
  }
}

/** The address, the key or another setting of the client cannot be used. */
export class InvalidSetting extends TenutoError {
  constructor(message: string, code = 'invalid_setting') {
    super(message, code)
  }
}

/** No API key was given, set or saved for this address. */
export class NotConfigured extends InvalidSetting {
  constructor(message: string) {
    super(message, 'not_configured')
  }
}

/** The journal cannot be written, or an entry in it needs a decision; the message says what was sent. */
export class JournalError extends TenutoError {
  constructor(message: string, code = 'journal_error', more: More = {}) {
    super(message, code, more)
  }
}

/** A recording is not what the service takes. */
export class AudioError extends TenutoError {
  constructor(message: string) {
    super(message, 'audio_error')
  }
}

/** No model of this kind takes work from this key at the moment. */
export class NoModel extends TenutoError {
  constructor(message: string) {
    super(message, 'no_model')
  }
}

/** The service did not answer, after all retries; sending the request again makes no second job. */
export class ServiceUnreachable extends TenutoError {
  constructor(message: string, cause?: unknown) {
    super(message, 'service_unreachable', { cause })
  }
}

/** The answer does not follow the contract: perhaps it came from another program, or from a proxy. */
export class UnexpectedAnswer extends TenutoError {
  constructor(message: string, more: More = {}) {
    super(message, 'unexpected_answer', more)
  }
}

/** Every download differed from the announced size, hash or type. */
export class ContentMismatch extends TenutoError {
  constructor(message: string) {
    super(message, 'content_mismatch')
  }
}

/** A streamed answer broke off before it was complete. */
export class ChatInterrupted extends TenutoError {
  constructor(message: string, cause?: unknown) {
    super(message, 'chat_interrupted', { cause })
  }
}

/** The service answered with an error status. */
export class Refused extends TenutoError {
  /** Whether a try of the same request may have been accepted: it got no answer, or 408, 500, 502 or 504. */
  isInDoubt = false

  /** Whether the answer lacks the service's error format: it came from a proxy or another program. */
  get isForeign(): boolean {
    return this.code === `http_${this.status}`
  }

  constructor(status: number, fields: Partial<ErrorFields>, requestId: string | null, retryAfterS: number | null) {
    super(fields.message || unexplained(status), fields.code || `http_${status}`, {
      status, param: fields.param ?? null, requestId: fields.request_id ?? requestId, retryAfterS,
      details: Array.isArray(fields.details) ? fields.details : [], balance: fields.balance ?? null,
    })
  }
}

/** 400: at least one field is wrong; `details` lists all of them. Nothing was stored. */
export class InvalidRequest extends Refused {}
/** 401: the key is wrong, expired or revoked. */
export class AuthenticationFailed extends Refused {}
/** 403: the key may not use this model, or the balance does not cover the work. */
export class NotAllowed extends Refused {}
/** 403 `insufficient_balance`: nothing is left, or pending jobs hold what is; `balance` says how much. */
export class InsufficientBalance extends NotAllowed {}
/** 404: it does not exist, or it belongs to another account. */
export class NotFound extends Refused {}
/** 409: this idempotency key belongs to another request. It is never sent again. */
export class IdempotencyConflict extends Refused {}
/** 410: the content was erased by its owner or by the service's retention; the record stays. */
export class Erased extends Refused {}
/** 413: larger than the service takes. */
export class TooLarge extends Refused {}
/** 415: not the media type that this endpoint takes. */
export class WrongMediaType extends Refused {}
/** Still 429 after all retries. */
export class RateLimited extends Refused {}
/** Still 5xx after all retries. */
export class ServiceFailed extends Refused {}

/** A job without a result; keep its id, and never submit the work again under a new key. */
export class JobError extends TenutoError {
  /** The job as the service last reported it. */
  readonly operation: Operation

  constructor(message: string, operation: Operation, code: string) {
    super(message, code)
    this.operation = operation
  }

  get jobId(): string {
    return this.operation.id
  }
}

/** State `failed`: `code` says why; nothing was charged. */
export class JobFailed extends JobError {}
/** State `cancelled`: nothing was charged. */
export class JobCancelled extends JobError {}
/** State `recovery_required`: the operator must settle the result or the charge. Wait; do not submit again. */
export class RecoveryRequired extends JobError {}
/** A state that this version does not know. Waiting stops, as the contract requires. */
export class UnknownState extends JobError {}
/** `succeeded` without an artifact: report it with the operation's id. */
export class ResultMissing extends JobError {}
/** Waiting timed out. The job continues; waiting again waits for the same job. */
export class GaveUpWaiting extends JobError {}

type ErrorFields = {
  message: string
  code: string
  param: string | null
  request_id: string
  details: Detail[]
  balance: Balance
}

const BY_STATUS: Record<number, typeof Refused> = {
  400: InvalidRequest, 401: AuthenticationFailed, 403: NotAllowed, 404: NotFound, 409: IdempotencyConflict,
  410: Erased, 413: TooLarge, 415: WrongMediaType, 429: RateLimited,
}

/** The error for an answer with this status and parsed body; null if the body was not JSON. */
export function refusal(
  status: number, document: unknown, requestId: string | null = null, retryAfterS: number | null = null,
): Refused {
  const given = (document as { error?: unknown } | null)?.error
  const fields = (typeof given === 'object' && given !== null ? given : {}) as Partial<ErrorFields>
  const byStatus = BY_STATUS[status] ?? (status >= 500 ? ServiceFailed : Refused)
  const kind = fields.code === 'insufficient_balance' ? InsufficientBalance : byStatus
  return new kind(status, fields, requestId, retryAfterS)
}

/** A proxy may send 5xx or 429 without the service's body; anything else comes from another program. */
function unexplained(status: number): string {
  if (status >= 500 || status === 429) return `the service answered ${status}`
  return `the service answered ${status} without Tenuto's error format: is this a Tenuto service?`
}
