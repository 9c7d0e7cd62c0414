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

  /** Headers, events and step results live on the record, whose 400 KiB they share with everything else. */
  recordTextMaxLength: 256 * KIB,
  stepResultMaxLength: 64 * KIB,

  /** DynamoDB's limit for one TransactWriteItems; one of them is the record. */
  transactionMaxItems: 100,

  /** An operation that needs more than this many rescues needs a person, and the record must stay small. */
  movesKept: 16,

  /** Spreads the index's writes; with 16 the sweep still reads every shard in one go. */
  dueShards: 16,
} as const;
