const KIB = 1024;
const MIB = 1024 * KIB;

/** What is refused, and why there. Numbers an operation may choose for itself are in `policy.ts`. */
export const limits = {
  /** Stripe's limit, which clients already respect; far beyond any UUID or ULID. */
  keyMaxLength: 255,

  /** Lambda's response payload limit: whatever a function can return can be stored and replayed. */
  bodyMaxBytes: 6 * MIB,

  /**
   * Bodies up to here, after compression, live on the record itself. Inline, a fresh request saves one call and
   * every replay pays for the body, because a failed conditional write is billed by the size of the existing item:
   * at 8 KiB some 8 write units against 1 write and 2 read units for a chunk. The saved unit and round trip
   * outweigh that while fewer than about one request in eight is a replay, and most compressed JSON responses
   * are under 1 KiB, where inline is never worse.
   */
  inlineBodyMaxBytes: 8 * KIB,

  /** DynamoDB items end at 400 KiB, keys and attribute names included; the rest is room for those. */
  chunkMaxBytes: 390 * KIB,

  /** A 6 MiB body is 16 chunks. Four at a time keeps one completion from crowding out its neighbours' writes. */
  chunkConcurrency: 4,

  /** Below this zstd's frame costs more than it saves. */
  compressFromBytes: 200,

  /** Headers and events live on the record, whose 400 KiB they share with everything else. */
  recordTextMaxBytes: 256 * KIB,

  /** A recovery point or a delivery's answer is an id and a status; what is longer is moved off the record. */
  inlineNoteMaxBytes: KIB,

  /** Room for a provider's whole answer; a document belongs into a bucket, and its name into the result. */
  stepResultMaxBytes: MIB,

  /** With the longest inline results still a quarter of what an item holds. Nobody reads a handler with more. */
  stepsMax: 64,

  /** With the longest notes on them still a third of what an item holds. More belong into a queue of their own. */
  eventsMax: 64,

  /**
   * A request that is kept lives on the record, and a duplicate in flight is billed by the record's size: 64 write units
   * at the worst. Most JSON requests are under 1 KiB once compressed.
   */
  requestMaxBytes: 64 * KIB,

  /** An asynchronous invocation took 256 KB in all for most of Lambda's life, and still does in some Regions. */
  eventMaxBytes: 240 * KIB,

  /** DynamoDB's limit for one TransactWriteItems; one of them is the record. */
  transactionMaxItems: 100,

  /** An operation that needs more than this many rescues needs a person, and the record must stay small. */
  movesKept: 16,

  /** A provider is asked by so many at a time: enough to keep up, few enough not to be throttled by it. */
  dispatchConcurrency: 4,

  /** So many shards are swept at a time; each record in them one after another. */
  sweepConcurrency: 4,

  /** Spreads the index's writes; with 16 the sweep still reads every shard in one go. */
  dueShards: 16,

  /**
   * The open keys of a tenant are kept by name in one item, which holds up to twice the limit: 2,001 names of 43 bytes are
   * under 100 KB, a quarter of what an item holds, and one write of them costs as many units. Before a tenant is turned
   * away as many records are read, which four at a time takes a second or two.
   */
  openKeysMax: 1_000,

  /** Some 16,000 a second: what DynamoDB gives an account in most Regions, with two writes for each. */
  newKeysPerMinuteMax: 1_000_000,

  /** An environment serves one request at a time; in seconds it does not meet more tenants than this. */
  quotaTenants: 1_000,
} as const;
