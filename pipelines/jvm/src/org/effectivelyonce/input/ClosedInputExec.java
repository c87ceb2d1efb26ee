package org.effectivelyonce.input;

import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What {@link ClosedInput} does: passes rows on as they are, counts them, and adds the closing rows at the end. */
public final class ClosedInputExec extends SparkPlan {
  private final SparkPlan child;
  private final int shards;
  private final String shard;
  private final List<String> digested;

  /** The arguments are those of {@link ClosedInput}; public, as Spark copies nodes by reflection. */
  public ClosedInputExec(SparkPlan child, int shards, String shard, List<String> digested) {
    this.child = child;
    this.shards = shards;
    this.shard = shard;
    this.digested = digested;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    StructType schema = schema();
    int shards = this.shards;
    int shard = schema.fieldIndex(this.shard);
    int[] digested = this.digested.stream().mapToInt(schema::fieldIndex).toArray();
    return child.execute().toJavaRDD().mapPartitionsWithIndex((task, rows) -> {
      // Of the stage, which ends in the shuffle: so many parts every shard reads.
      int tasks = TaskContext.get().numPartitions();
      return new ClosingRows(rows, schema, shard, digested, new ClosingRows.Counts(task, tasks, shards));
    }, false).rdd();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public Seq<Attribute> output() {
    return ClosedInput.nullable(child.output());
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new ClosedInputExec(children.head(), shards, shard, digested);
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
    return other instanceof ClosedInputExec;
  }
}
