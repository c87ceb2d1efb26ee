package org.effectivelyonce.input;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskInterruptListener;

/**
 * A file for each task that runs, which is gone as soon as the task has ended or was told to: its Python worker, which
 * nobody tells, looks for it before it shows anything.
 *
 * <p>It lies in the executor's scratch folder, whose name Python workers have as {@code SPARK_LOCAL_DIRS}, below
 * {@value #FOLDER}; its name is the id of the attempt. Selected by {@code spark.plugins}.
 */
public final class TaskTokens implements SparkPlugin {
  static final String FOLDER = "effectively-once-tasks";

  @Override
  public DriverPlugin driverPlugin() {
    return null;
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new Tokens();
  }

  private static final class Tokens implements ExecutorPlugin {
    private Path folder;

    @Override
    public void init(PluginContext context, Map<String, String> unused) {
      folder = SparkEnv.get().blockManager().diskBlockManager().localDirs()[0].toPath().resolve(FOLDER);
      try {
        Files.createDirectories(folder);
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }

    @Override
    public void onTaskStart() {
      TaskContext task = TaskContext.get();
      Path token = folder.resolve(Long.toString(task.taskAttemptId()));
      try {
        Files.createFile(token);
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
      task.addTaskCompletionListener((TaskCompletionListener) ended -> remove(token));
      // A task that is to be killed may wait for its Python worker for seconds yet.
      task.addTaskInterruptListener((TaskInterruptListener) (interrupted, why) -> remove(token));
    }

    private static void remove(Path token) {
      try {
        Files.deleteIfExists(token);
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }
  }
}
