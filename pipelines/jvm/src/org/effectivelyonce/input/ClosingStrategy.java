package org.effectivelyonce.input;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Tells Spark's planner how a {@link ClosedInput} is carried out. */
final class ClosingStrategy extends SparkStrategy {
  private static final ClosingStrategy ONLY = new ClosingStrategy();

  /** Makes it known to a session, and to those that a streaming query clones from it. Safe to repeat. */
  static synchronized void register(ExperimentalMethods planner) {
    List<SparkStrategy> known = new ArrayList<>(CollectionConverters.asJava(planner.extraStrategies()));
    if (!known.contains(ONLY)) {
      known.add(ONLY);
      planner.extraStrategies_$eq(CollectionConverters.asScala(known).toSeq());
    }
  }

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    List<SparkPlan> planned = plan instanceof ClosedInput closed
        ? List.of(new ClosedInputExec(planLater(closed.child()), closed.shards(), closed.shard(), closed.digested()))
        : List.of();
    return CollectionConverters.asScala(planned).toSeq();
  }
}
