package org.effectivelyonce.input;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The rows of one task, and behind them a closing row for every shard.
 *
 * <p>An error, an interruption or a short read of what precedes leaves {@code hasNext()} as an exception: then there is
 * no closing row at all.
 */
final class ClosingRows implements Iterator<InternalRow> {
  private final Iterator<InternalRow> rows;
  private final StructType schema;
  private final int shard;
  private final int[] digested;
  private final boolean[] wide;
  private final Counts counts;
  private final UnsafeProjection projection;
  private int closed;

  ClosingRows(Iterator<InternalRow> rows, StructType schema, int shard, int[] digested, Counts counts) {
    this.rows = rows;
    this.schema = schema;
    this.shard = shard;
    this.digested = digested;
    this.counts = counts;
    wide = new boolean[digested.length];
    for (int n = 0; n < wide.length; n++) {
      wide[n] = schema.apply(digested[n]).dataType().equals(DataTypes.LongType);
    }
    projection = UnsafeProjection.create(schema);
  }

  @Override
  public boolean hasNext() {
    return rows.hasNext() || closed < counts.rows.length;
  }

  @Override
  public InternalRow next() {
    if (rows.hasNext()) {
      InternalRow row = rows.next();
      counts.add(row.getInt(shard), hash(row));
      return row;
    }
    if (closed == counts.rows.length) {
      throw new NoSuchElementException();
    }
    return closing(closed++);
  }

  private long hash(InternalRow row) {
    long hash = 0;
    for (int n = 0; n < digested.length; n++) {
      int column = digested[n];
      long value = row.isNullAt(column) ? 0 : wide[n] ? row.getLong(column) : row.getInt(column);
      hash = Counts.mixed(hash + value);
    }
    return hash;
  }

  private InternalRow closing(int of) {
    GenericInternalRow row = new GenericInternalRow(schema.length());
    row.update(shard, of);
    row.update(schema.fieldIndex("closing"), UTF8String.fromString(counts.told(of)));
    return projection.apply(row);
  }

  /** How many rows a task has for each shard, and their digests: hashes added up, so that no order counts. */
  static final class Counts {
    private final int task;
    private final int tasks;
    private final long[] rows;
    private final long[] digests;

    Counts(int task, int tasks, int shards) {
      this.task = task;
      this.tasks = tasks;
      rows = new long[shards];
      digests = new long[shards];
    }

    void add(int shard, long hash) {
      rows[shard]++;
      digests[shard] += hash;
    }

    String told(int shard) {
      return "{\"task\":" + task + ",\"tasks\":" + tasks + ",\"rows\":" + rows[shard] + ",\"digest\":\""
          + Long.toHexString(digests[shard]) + "\"}";
    }

    /** As {@code hashes.mixed} of the Python side. */
    static long mixed(long x) {
      x = (x ^ (x >>> 30)) * 0xBF58476D1CE4E5B9L;
      x = (x ^ (x >>> 27)) * 0x94D049BB133111EBL;
      return x ^ (x >>> 31);
    }
  }
}
