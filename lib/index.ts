export type { Decision, Doubt, RequestClaim } from './core/decide.ts';
export { decide } from './core/decide.ts';
export type { Remedy } from './core/errors.ts';
export {
  InvalidArgument,
  OncekeyError,
  RecordUnreadable,
  StoreRefused,
  StoreUnavailable,
} from './core/errors.ts';
export type { Fingerprint, FingerprintInput } from './core/fingerprint.ts';
export { fingerprintOf } from './core/fingerprint.ts';
export type { KeyMode, KeyReading } from './core/key.ts';
export { readKey } from './core/key.ts';
export { limits } from './core/limits.ts';
export type { Attempt, Claim, Expiry, Failure, Reentry, StepChange, Uncertainty } from './core/moves.ts';
export type { Policy } from './core/policy.ts';
export { defaultPolicy, expiryAfter } from './core/policy.ts';
export type {
  Accepted,
  Completed,
  Due,
  Effects,
  FailedRetryable,
  InProgress,
  LedgerRecord,
  OutboxEvent,
  Reply,
  Status,
  Step,
  StoredResponse,
  Unknown,
} from './core/record.ts';
export type { Scope } from './core/scope.ts';
export { scopePk } from './core/scope.ts';
export type { Move } from './core/transitions.ts';
export { transitions } from './core/transitions.ts';
export type { Once } from './effects/unit-of-work.ts';
export { NotExecuted } from './effects/unit-of-work.ts';
export { MalformedEvent, UnstorableReply, UnsupportedEvent } from './http/errors.ts';
export { defaultStoredHeaders } from './http/headers.ts';
export type { Fault, Preset, ProblemCode } from './http/problem.ts';
export type { HttpRequest } from './http/request.ts';
export type { TenantResolver } from './http/tenant.ts';
export { allOf, iamPrincipal, jwtClaim, lambdaAuthorizer } from './http/tenant.ts';
export type { DynamoDbLedgerOptions } from './ledger/dynamodb.ts';
export { dynamoDbLedger } from './ledger/dynamodb.ts';
export type {
  Committed,
  DuePage,
  LapseTo,
  Ledger,
  Moved,
  ReplyDeferral,
  ReplyOutcome,
  Reserved,
  Reuse,
  SettleAcceptedTo,
  SettleTo,
  Taken,
  Until,
  WriteRefusal,
} from './ledger/ledger.ts';
export { createTableInput, dueShard, ledgerTable } from './ledger/schema.ts';
export type { BodySeals, TransactWrite } from './ledger/table.ts';
export { ledgerClient } from './ledger/table.ts';
export type { OnceContext } from './middleware/idempotency.ts';
export { idempotency } from './middleware/idempotency.ts';
export { idempotent } from './middleware/idempotent.ts';
export {
  KeyExpired,
  KeyReused,
  OperationInProgress,
  OperationNotExecuted,
  OperationUnavailable,
  OutcomeUnknown,
  ResultNotJson,
  WritesRefused,
} from './middleware/operation-errors.ts';
export type { IdempotencyOptions, OperationOptions } from './middleware/options.ts';
export type { CallContext, ProtectOptions } from './middleware/protect.ts';
export { protect } from './middleware/protect.ts';
export type { Message, ProtectBatchOptions } from './middleware/protect-batch.ts';
export { protectBatch } from './middleware/protect-batch.ts';
export type { StatusOptions } from './middleware/status-handler.ts';
export { statusHandler } from './middleware/status-handler.ts';
export type { StandardSchema, Validation } from './middleware/validate.ts';
export type { WarmCacheLimits } from './middleware/warm-cache.ts';
export type { LogEntry, LogSink } from './observe/log.ts';
export { jsonLogSink } from './observe/log.ts';
export type { MetricName, MetricSink, Sample } from './observe/metrics.ts';
export { emfSink } from './observe/metrics.ts';
