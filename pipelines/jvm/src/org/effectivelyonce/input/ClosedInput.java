package org.effectivelyonce.input;

import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Rows on their way into a shuffle: behind its last row, each task adds a closing row for every shard.
 *
 * <p>A Python worker cannot tell the end of its input from the end of its task. A closing row tells how many rows the
 * task has for the shard, so a shard that holds the closing rows of all tasks knows whether it holds all rows.
 *
 * <p>The node plans as {@link ClosedInputExec}. It keeps its child's columns, among them {@code shard}, an int that is
 * never null, and {@code closing}, a text that is null but in closing rows.
 */
public final class ClosedInput extends LogicalPlan {
  private final LogicalPlan child;
  private final int shards;
  private final String shard;
  private final List<String> digested;

  /** The arguments are those of {@link #of}; public, as Spark copies nodes by reflection. */
  public ClosedInput(LogicalPlan child, int shards, String shard, List<String> digested) {
    this.child = child;
    this.shards = shards;
    this.shard = shard;
    this.digested = digested;
  }

  /**
   * The rows of a frame, and the closing rows of each of its tasks.
   *
   * @param frame rows with the columns {@code shard} and {@code closing}
   * @param shards how many there are
   * @param shard name of the int column that tells a row's shard
   * @param digested names of int or long columns that the digest is made of; of none it is 0
   */
  public static Dataset<Row> of(Dataset<Row> frame, int shards, String shard, List<String> digested) {
    ClosingStrategy.register(frame.sparkSession().experimental());
    LogicalPlan closed = new ClosedInput(frame.logicalPlan(), shards, shard, List.copyOf(digested));
    return Dataset$.MODULE$.ofRows(frame.sparkSession(), closed);
  }

  LogicalPlan child() {
    return child;
  }

  int shards() {
    return shards;
  }

  String shard() {
    return shard;
  }

  List<String> digested() {
    return digested;
  }

  @Override
  public Seq<LogicalPlan> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public Seq<Attribute> output() {
    return nullable(child.output());
  }

  /** Spark does not look for nulls where it was told that there are none, and a closing row is of nulls. */
  static Seq<Attribute> nullable(Seq<Attribute> columns) {
    return CollectionConverters.asScala(
        CollectionConverters.asJava(columns).stream().map(column -> column.withNullability(true)).toList()).toSeq();
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    return new ClosedInput(children.head(), shards, shard, digested);
  }

  @Override
  public int productArity() {
    return 4;
  }

  @Override
  public Object productElement(int n) {
    return List.of(child, shards, shard, digested).get(n);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof ClosedInput;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ClosedInput it && child.equals(it.child) && shards == it.shards
        && shard.equals(it.shard) && digested.equals(it.digested);
  }

  @Override
  public int hashCode() {
    return List.of(child, shards, shard, digested).hashCode();
  }
}
