package org.effectivelyonce.input;

import java.util.Map;
import org.apache.spark.ExceptionFailure;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/**
 * Ends the stage of a task whose rows a sink refuses for what they are. Spark would repeat the task, fifteen times, and
 * each repeat sends all rows of the shard to the same end.
 *
 * <p>The stage ends with the line that the task had, by which the driver names the error. Selected by {@code
 * spark.plugins}.
 */
public final class RefusedRows implements SparkPlugin {
  private static final String NAME = "effectively_once.errors.RefusedRowsError: ";

  @Override
  public DriverPlugin driverPlugin() {
    return new Watch();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }

  /** What a failed task said of rows that a sink refuses; null where it failed for another reason. */
  static String refusal(String failure) {
    int begin = failure.indexOf(NAME);
    if (begin < 0) {
      return null;
    }
    int end = failure.indexOf('\n', begin);
    return end < 0 ? failure.substring(begin) : failure.substring(begin, end);
  }

  private static final class Watch implements DriverPlugin {
    @Override
    public Map<String, String> init(SparkContext spark, PluginContext unused) {
      spark.addSparkListener(
          new SparkListener() {
            @Override
            public void onTaskEnd(SparkListenerTaskEnd ended) {
              if (ended.reason() instanceof ExceptionFailure failure) {
                String said = refusal(failure.toErrorString());
                if (said != null) {
                  spark.cancelStage(ended.stageId(), said);
                }
              }
            }
          });
      return Map.of();
    }
  }
}
