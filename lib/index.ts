export type { AuditFinding, AuditWindow, MismatchKind } from './core/audit.ts';
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
export type {
  Attempt,
  Claim,
  Erasure,
  Expiry,
  Failure,
  Reentry,
  StepChange,
  Uncertainty,
} from './core/moves.ts';
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
  Undelivered,
  Unknown,
} from './core/record.ts';
export type { Scope } from './core/scope.ts';
export { scopePk } from './core/scope.ts';
export type { Move } from './core/transitions.ts';
export { transitions } from './core/transitions.ts';
export type {
  DeliveryContext,
  DeliveryHandler,
  DeliveryHandlers,
  DeliveryOutcome,
  EmittedEvent,
} from './effects/deliveries.ts';
export { delivered, refused, uncertain } from './effects/deliveries.ts';
export { AttemptOvertaken, NotExecuted, StepsChanged, WritesRefused } from './effects/errors.ts';
export type { OperationOptions } from './effects/operations.ts';
export type { Resolver, UnknownOperation, Verdict } from './effects/resolver.ts';
export { executed, notExecuted, undetermined } from './effects/resolver.ts';
export type { StepContext } from './effects/steps.ts';
export type { Once } from './effects/unit-of-work.ts';
export { MalformedEvent, UnstorableReply, UnsupportedEvent } from './http/errors.ts';
export { defaultStoredHeaders } from './http/headers.ts';
export type { Fault, Preset, ProblemCode } from './http/problem.ts';
export type { HttpRequest } from './http/request.ts';
export type { TenantResolver } from './http/tenant.ts';
export { allOf, iamPrincipal, jwtClaim, lambdaAuthorizer } from './http/tenant.ts';
export type { StandardSchema, Validation } from './http/validate.ts';
export type { DynamoDbLedgerOptions } from './ledger/dynamodb.ts';
export { dynamoDbLedger } from './ledger/dynamodb.ts';
export type {
  Attestation,
  AuditEntry,
  Committed,
  DeliveryNote,
  DuePage,
  LapseTo,
  Ledger,
  Moved,
  ReplyDeferral,
  ReplyOutcome,
  RequestToKeep,
  Reserved,
  Reuse,
  SettleAcceptedTo,
  SettleTo,
  Taken,
  Until,
  WriteRefusal,
} from './ledger/ledger.ts';
export type { OpenKeys, QuotaFlag, Quotas } from './ledger/quotas.ts';
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
  QuotaExceeded,
  ResultNotJson,
} from './middleware/operation-errors.ts';
export type { IdempotencyOptions } from './middleware/options.ts';
export type { CallContext, ProtectOptions } from './middleware/protect.ts';
export { protect } from './middleware/protect.ts';
export type { Message, ProtectBatchOptions } from './middleware/protect-batch.ts';
export { protectBatch } from './middleware/protect-batch.ts';
export type { StatusOptions } from './middleware/status-handler.ts';
export { statusHandler } from './middleware/status-handler.ts';
export type { WarmCacheLimits } from './middleware/warm-cache.ts';
export type { LogEntry, LogSink } from './observe/log.ts';
export { jsonLogSink } from './observe/log.ts';
export type { MetricName, MetricSink, Sample } from './observe/metrics.ts';
export { emfSink } from './observe/metrics.ts';
export type { AuditorOptions, AuditState } from './reconcile/audit-options.ts';
export type { AuditFailure, AuditTally, Mismatch } from './reconcile/audit-tally.ts';
export type { AuditSource, DomainRow, ProviderObject } from './reconcile/audit-window.ts';
export { AuditRefused } from './reconcile/audit-window.ts';
export type { AuditReport } from './reconcile/auditor.ts';
export { auditor } from './reconcile/auditor.ts';
export type { BackstopOptions, BackstopResult, BackstopState } from './reconcile/backstop.ts';
export { backstop } from './reconcile/backstop.ts';
export type { CompleterOptions, Completion, Invoker, LambdaInvoke } from './reconcile/completer.ts';
export { completer, lambdaInvoker } from './reconcile/completer.ts';
export type { Delivered } from './reconcile/deliver-outbox.ts';
export type { Dispatcher, DispatchOptions } from './reconcile/dispatch.ts';
export { dispatcher } from './reconcile/dispatch.ts';
export type { FailedBatch, FailedObject } from './reconcile/failed-batch.ts';
export { IllegalMove } from './reconcile/illegal-move.ts';
export type { Listed, Listing, UnreadableRecord } from './reconcile/listing.ts';
export type { Inspection, Operator, OperatorOptions, Signature } from './reconcile/operator.ts';
export { operator } from './reconcile/operator.ts';
export type { QuotaLimits } from './reconcile/quota.ts';
export type { Redriven, RedriveOptions, StreamHandler } from './reconcile/redrive.ts';
export { RedriveFailed, redriver } from './reconcile/redrive.ts';
export type { SentinelOptions } from './reconcile/sentinel.ts';
export { sentinel } from './reconcile/sentinel.ts';
export type { StripeSignatureOptions, VerifyWebhook } from './reconcile/stripe-signature.ts';
export { stripeSignature } from './reconcile/stripe-signature.ts';
export type { Sweep, SweepOptions, Swept } from './reconcile/sweep.ts';
export { sweeper } from './reconcile/sweep.ts';
export { webhook } from './reconcile/webhook.ts';
export type { WebhookEvent, WebhookOptions, WebhookSubject } from './reconcile/webhook-options.ts';
